"""Admission of requests, and the responses to senders, the same for HTTP and gRPC.

The bytes and requests in progress are bounded; the bounds are checked before a body is read. Responses have the same
messages and codes on both transports, which also share credentials and TLS.
"""

from __future__ import annotations

import asyncio
import logging
import random
import threading
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor, Future
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from google.rpc import code_pb2, error_details_pb2, status_pb2  # type: ignore[import-untyped]  # ships no py.typed

from otel_agentic.errors import UNFORESEEN, OtelAgenticError, OverloadedError, StoreError, codes_of
from otel_agentic.net import Address, Credentials, ServerTls, TlsFiles, Tokens, admin_tokens, require_allowed
from otel_agentic.spans import CountsRefusals, Receipt, Sink, SpanBatch, Submits

if TYPE_CHECKING:
    from otel_agentic.config import AdminSettings, ReceiveSettings

#: Seconds after which a refused sender should retry: a full queue drains within one second. The time is randomized, so
#: that senders that were refused together do not retry together.
_SOONEST_S: Final = 1
_SPREAD_S: Final = 2

#: The largest number of reasons in the message of a partial success.
_MOST_REASONS: Final = 10
#: Error messages are cut to this length: gRPC sends them in a header, whose size clients limit.
_MOST_CHARACTERS: Final = 500

_logger = logging.getLogger(__name__)


class RefusedError(Exception):
    """A request that is refused because of its head."""

    def __init__(self, http: int, grpc: str, message: str, **headers: str) -> None:
        """Create the error with the statuses of both protocols, the message, and HTTP headers (`_` for `-`)."""
        super().__init__(message)
        self.http = http
        self.grpc = grpc
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


def unauthorized(*, known: bool) -> RefusedError:
    """Return the refusal of a sender without a valid token; `known` is whether it sent a token of another role."""
    if known:
        return RefusedError(403, "PERMISSION_DENIED", "this token may not send spans: send the one of receive.token")
    return RefusedError(
        401,
        "UNAUTHENTICATED",
        "a bearer token is required: send one header `Authorization: Bearer …`",
        www_authenticate="Bearer",
    )


def deliver(sink: Sink, batch: SpanBatch) -> Future[Receipt]:
    """Submit a batch to the sink; return the future receipt. An empty request succeeds without the sink."""
    if isinstance(sink, Submits) and not batch.is_empty:
        return sink.submit(batch)
    receipt: Future[Receipt] = Future()
    receipt.set_result(Receipt() if batch.is_empty else sink.accept(batch))
    return receipt


def refusals_of(sink: Sink, transport: str) -> Callable[[Exception], None]:
    """Return a function that counts refused requests by their error, if the sink counts refusals."""
    if not isinstance(sink, CountsRefusals):
        return lambda _error: None
    return lambda error: sink.refused(transport, _code_of(error).lower())


def _code_of(error: Exception) -> str:
    return error.grpc if isinstance(error, RefusedError) else codes_of(error).grpc


def retry_after_s(error: BaseException | None = None) -> int:
    """Return the whole seconds that a refused sender is asked to wait."""
    return _soonest_s(error) + random.randint(0, _SPREAD_S)  # noqa: S311 — spreads retries; not a secret


def _soonest_s(error: BaseException | None) -> int:
    """Return the shortest wait, seconds.

    The five or so retries of an exporter should outlast the reopening of a store.
    """
    return _SOONEST_S + (1 if isinstance(error, StoreError) else 0)


def status_of(error: BaseException) -> status_pb2.Status:
    """Return the `google.rpc.Status` of an error, with `RetryInfo` if the same request may be sent again.

    An unexpected error is logged here, and its text is not sent. Finally, the traceback is removed from the error: its frames
    refer to the request and, through a future, to the error itself, so a refused request would stay in memory as cyclic garbage.
    """
    if isinstance(error, RefusedError):
        return new_status(error.grpc, str(error))
    codes = codes_of(error)
    if codes is UNFORESEEN:
        _logger.error("unforeseen error while receiving; the sender was asked to try again", exc_info=error)
    error.__traceback__ = None
    is_known = isinstance(error, OtelAgenticError)
    status = new_status(codes.grpc, str(error) if is_known else "unforeseen error, nothing was accepted: try again")
    if codes.grpc == "UNAVAILABLE":
        retry = error_details_pb2.RetryInfo()
        retry.retry_delay.seconds = _soonest_s(error)
        retry.retry_delay.nanos = random.randrange(1_000_000_000)  # noqa: S311 — as above
        status.details.add().Pack(retry)
    return status


def new_status(code: str, message: str) -> status_pb2.Status:
    """Return a `google.rpc.Status` with the number of the gRPC code."""
    cut = message if len(message) <= _MOST_CHARACTERS else message[:_MOST_CHARACTERS] + "…"
    # A message may quote received text, and protobuf accepts no lone surrogates.
    return status_pb2.Status(code=code_pb2.Code.Value(code), message=cut.encode("utf-8", "replace").decode())


def rejection_message(receipt: Receipt, batch: SpanBatch) -> str:
    """Return the rejected items with reasons, as the `error_message` of a partial success; empty if nothing was rejected.

    Reasons of ignored items are omitted: these items are valid, but are not stored.
    """
    if not receipt.rejected:
        return ""
    reasons = [(reason, count) for reason, count in receipt.reasons.items() if reason not in batch.ignored]
    reason_texts = "; ".join(f"{count} x {reason}" for reason, count in reasons[:_MOST_REASONS])
    return reason_texts or f"{receipt.rejected} rejected"


def credentials_of(receive: ReceiveSettings, admin: AdminSettings | None) -> Credentials:
    """Return the known tokens: those of senders, and those of the admin address, which have other roles.

    Raises:
        ConfigError: a token or a file of tokens cannot be used; names the setting.
    """
    senders = Tokens("receive.token", receive.token, receive.token_file)
    if admin is None:
        return Credentials({"ingest": senders})
    return Credentials(
        {
            "ingest": senders,
            **admin_tokens(admin),
        }
    )


def tls_of(receive: ReceiveSettings) -> ServerTls | None:
    """Return the configured TLS, or None if it is not configured.

    Raises:
        ConfigError: a file cannot be used; names setting and file.
    """
    files = TlsFiles.of("receive", receive.tls_cert_file, receive.tls_key_file, receive.tls_client_ca_file)
    return None if files is None else ServerTls(files)


def require_protected(
    address: Address, receive: ReceiveSettings, credentials: Credentials, tls: ServerTls | None
) -> None:
    """Check that listening on the address is allowed.

    Raises:
        UsageError: anyone in the network could send spans; names the settings to change.
    """
    require_allowed(
        address,
        token=credentials.guards("ingest"),
        mutual_tls=tls is not None and tls.is_mutual,
        tls=tls is not None,
        insecure=receive.insecure,
        section="receive",
    )


#: The number of requests of the largest allowed size that the memory budget admits at once.
LARGEST_AT_ONCE: Final = 4


class HeldTooMuchError(OverloadedError):
    """The running requests hold too many bytes; the store itself may still accept batches."""


class MemoryBudget:
    """A bound on the total bytes of all running requests; thread-safe."""

    def __init__(self, max_bytes: int) -> None:
        self._lock = threading.Lock()
        self._max_bytes = max_bytes
        self._held = 0

    @property
    def held_bytes(self) -> int:
        """The number of bytes that are reserved now."""
        return self._held

    def take(self, count: int) -> None:
        """Reserve `count` more bytes.

        Raises:
            HeldTooMuchError: the bound is reached; nothing is reserved.
        """
        with self._lock:
            self.require(count)
            self._held += count

    def require(self, count: int) -> None:
        """Check that `count` more bytes could be reserved now.

        Raises:
            HeldTooMuchError: they could not.
        """
        if self._held + count > self._max_bytes:
            raise HeldTooMuchError(f"running requests already hold {self._held} bytes: try again")

    def give(self, count: int) -> None:
        """Release `count` bytes."""
        with self._lock:
            self._held -= count


class Holding:
    """The bytes reserved by one request.

    Released at the end of the `with` block, or of a job that outlasts the block.
    """

    def __init__(self, budget: MemoryBudget) -> None:
        self._budget = budget
        self._count = 0
        self._job: Future[Any] | None = None

    def add(self, count: int) -> None:
        """Reserve `count` more bytes.

        Raises:
            HeldTooMuchError: the bound on all requests together is reached.
        """
        self._budget.take(count)
        self._count += count

    def hold_until(self, job: Future[Any]) -> None:
        """Release the bytes only when the job is done: a sender that disconnects ends the block, but not the thread."""
        self._job = job

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # The callback refers to this object. If this still referred to the job, its batch would become cyclic garbage.
        job, self._job = self._job, None
        if job is None:
            self._release()
        else:
            job.add_done_callback(lambda _: self._release())

    def _release(self) -> None:
        self._budget.give(self._count)


#: For each request that is being handled, one more may wait with its body already read.
_WAITING_RATIO: Final = 2
#: The time for which a full sink is still treated as full, because decoding a request that is then refused would take
#: CPU time from the sink. A queue stays full far longer.
_FULL_FOR_S: Final = 0.05


#: An uncompressed request of up to this size is decoded on the event loop, which is faster than a change of threads.
SMALL_BYTES: Final = 8 * 1024
#: The number of larger requests that the process decodes at once. Decoding takes many times a request's size in memory,
#: and holds the interpreter lock, so that more concurrency would not be faster.
_DECODING: Final = threading.BoundedSemaphore(2)


def decoding(size: int) -> AbstractContextManager[object]:
    """Return the context in which a message of `size` bytes is decoded: a semaphore for large ones, nothing for small ones."""
    return _DECODING if size > SMALL_BYTES else nullcontext()


class Admission:
    """The running requests of one collector, and their bounds.

    Used on one event loop; other threads count completions.
    """

    def __init__(self, settings: ReceiveSettings, clock: Callable[[], float] = time.monotonic) -> None:
        self._memory = MemoryBudget(LARGEST_AT_ONCE * settings.max_request_bytes)
        self._most = _WAITING_RATIO * settings.max_concurrent_requests
        self._running = 0
        self._lock = threading.Lock()
        self._clock = clock
        self._full_until_s = 0.0

    def check(self, expected_bytes: int = 0) -> None:
        """Check that a request of this compressed size would be admitted.

        Raises:
            OverloadedError: it would not be admitted; names the exceeded bound.
        """
        self._require_room()
        self._memory.require(expected_bytes)
        if self._clock() < self._full_until_s:
            raise OverloadedError("the store was full a moment ago: try again")

    def holding(self) -> Holding:
        """Return a context manager for the bytes of one request."""
        return Holding(self._memory)

    async def run(
        self, executor: Executor | None, begin: Callable[[], tuple[SpanBatch, Future[Receipt]]], holding: Holding
    ) -> tuple[SpanBatch, Receipt]:
        """Return the batch of a request, and its receipt, once it is decoded, submitted to the sink, and stored.

        The waiting task may be cancelled (the sender disconnected); the work and its reserved bytes count until it is done.

        Args:
            executor: the executor that runs `begin`; None runs it immediately, which is faster than a change of
                threads.
            begin: decodes the request and submits it to the sink.
            holding: the bytes that the request reserves.

        Raises:
            OverloadedError: the largest allowed number of requests is running.
        """
        self._require_room()
        with self._lock:
            self._running += 1
        job, cancel = _submit(executor, begin)
        job.add_done_callback(self._leave)
        holding.hold_until(job)
        try:
            return await asyncio.wrap_future(job)
        except asyncio.CancelledError:
            cancel()
            raise
        except HeldTooMuchError:
            raise  # one decompression bomb must not stop small requests
        except (OverloadedError, StoreError):
            self._full_until_s = self._clock() + _FULL_FOR_S
            raise

    def _require_room(self) -> None:
        if self._running >= self._most:
            raise OverloadedError(f"{self._running} requests are running: try again")

    def _leave(self, _: Future[Any]) -> None:
        with self._lock:
            self._running -= 1


def _submit(
    executor: Executor | None, begin: Callable[[], tuple[SpanBatch, Future[Receipt]]]
) -> tuple[Future[tuple[SpanBatch, Receipt]], Callable[[], object]]:
    """Return the future result of `begin` with its receipt, and a function that cancels an unstarted `begin`."""
    result: Future[tuple[SpanBatch, Receipt]] = Future()
    result.set_running_or_notify_cancel()

    def step() -> None:
        try:
            batch, receipt = begin()
        except OtelAgenticError as error:
            result.set_exception(error.with_traceback(None))  # see `status_of`: perhaps no task waits any more
        except BaseException as error:  # noqa: BLE001 — passed to the waiting task
            result.set_exception(error)
        else:
            receipt.add_done_callback(partial(_end, result, batch))

    if executor is None:
        step()
        return result, lambda: False
    try:
        turn = executor.submit(step)
    except RuntimeError:  # it was shut down in the meantime
        result.set_exception(_stopping())
        return result, lambda: False
    turn.add_done_callback(partial(_cancel_pending, result))
    return result, turn.cancel


def _end(result: Future[tuple[SpanBatch, Receipt]], batch: SpanBatch, receipt: Future[Receipt]) -> None:
    error = receipt.exception()
    if error is None:
        result.set_result((batch, receipt.result()))
    else:
        result.set_exception(error)


def _cancel_pending(result: Future[tuple[SpanBatch, Receipt]], turn: Future[None]) -> None:
    if turn.cancelled():
        result.set_exception(_stopping())


def _stopping() -> OverloadedError:
    return OverloadedError("the collector is stopping: try again")


T = TypeVar("T")

#: A reception that takes longer than this counts as long; surplus long receptions are ended at this interval.
_LONG_S: Final = 0.05
#: The largest number of long receptions: as many messages of the largest allowed size can be in memory.
_MOST_LONG: Final = 16
#: The time for which a reception from a sender that completed a message before is not interrupted.
_UNDISTURBED_S: Final = 5.0
_REMEMBERED_PEERS: Final = 10_000


class _Reception:
    """One message that is being received, and the task that waits for it."""

    __slots__ = ("fate", "peer", "since_s", "task")

    def __init__(self, peer: str, since_s: float, task: asyncio.Task[Any]) -> None:
        self.peer = peer
        self.since_s = since_s
        self.task = task
        self.fate: Exception | None = None

    def end(self, fate: Exception) -> None:
        """Cancel the waiting task with an error."""
        self.fate = fate
        self.task.cancel()


class Receptions:
    """The messages that gRPC is receiving. Used on one event loop.

    gRPC keeps a whole message in memory before this module receives a byte of it, so the number of long receptions is
    bounded. Short receptions need no bound: the network limits how much data arrives in such a short time. Receptions
    of large messages are long, and so are those of messages that arrive very slowly.
    """

    def __init__(self, timeout_s: float, most_long: int = _MOST_LONG) -> None:
        """Create without receptions; each reception may take `timeout_s` seconds."""
        self._timeout_s = timeout_s
        self._most_long = most_long
        self._open: dict[_Reception, None] = {}  # oldest first
        self._proven: OrderedDict[str, None] = OrderedDict()
        self._looking = False

    async def receive(self, peer: str, read: Callable[[], Awaitable[T]]) -> T:
        """Return the message read from a peer.

        Raises:
            OverloadedError: there were too many long receptions; those of peers that never completed a message end
                first.
            TimeoutError: the message took too long.
        """
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None  # noqa: S101 — a coroutine runs in a task
        reception = _Reception(peer, loop.time(), task)
        self._open[reception] = None
        if not self._looking:
            self._looking = True
            loop.call_later(_LONG_S, self._end_surplus, loop)
        try:
            message = await read()
        except asyncio.CancelledError:
            if reception.fate is None or task.uncancel() > 0:  # the caller disconnected, or we are stopping
                raise
            raise reception.fate from None
        finally:
            self._open.pop(reception, None)
        self._remember(peer)
        return message

    def _end_surplus(self, loop: asyncio.AbstractEventLoop) -> None:
        now_s = loop.time()
        long = [reception for reception in self._open if now_s - reception.since_s >= _LONG_S]
        for reception in self._by_priority(long, now_s)[: max(0, len(long) - self._most_long)]:
            self._open.pop(reception)
            reception.end(OverloadedError("this request arrived slowly, like many others: try again"))
        for reception in [reception for reception in self._open if now_s - reception.since_s >= self._timeout_s]:
            self._open.pop(reception)
            reception.end(TimeoutError())
        self._looking = bool(self._open)
        if self._looking:
            loop.call_later(_LONG_S, self._end_surplus, loop)

    def _by_priority(self, long: list[_Reception], now_s: float) -> list[_Reception]:
        """Return long receptions in the order in which they are ended.

        Those of unknown peers come first, the oldest first, then those of known peers past their protected time, then
        the newest ones.
        """
        from_unknown_peers = [reception for reception in long if reception.peer not in self._proven]
        from_known_peers = [reception for reception in long if reception.peer in self._proven]
        unprotected = [reception for reception in from_known_peers if now_s - reception.since_s >= _UNDISTURBED_S]
        return [*from_unknown_peers, *unprotected, *reversed(from_known_peers[len(unprotected) :])]

    def _remember(self, peer: str) -> None:
        self._proven[peer] = None
        self._proven.move_to_end(peer)
        if len(self._proven) > _REMEMBERED_PEERS:
            self._proven.popitem(last=False)
