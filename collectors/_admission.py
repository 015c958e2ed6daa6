"""Admission control: bounds on the bytes and requests in progress, checked before a body is read."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import OrderedDict
from concurrent.futures import Future
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from otel_agentic.errors import OverloadedError, StoreError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from concurrent.futures import Executor
    from contextlib import AbstractContextManager
    from types import TracebackType

    from otel_agentic.config import ReceiveSettings
    from otel_agentic.spans import Receipt, SpanBatch

#: Requests of the largest allowed size that fit in memory at once.
LARGEST_AT_ONCE: Final = 4


class HeldTooMuchError(OverloadedError):
    """All requests under way hold too much; the store may have room."""


class MemoryBudget:
    """A bound on the bytes that all requests under way hold together; thread-safe."""

    def __init__(self, max_bytes: int) -> None:
        self._lock = threading.Lock()
        self._max_bytes = max_bytes
        self._held = 0

    @property
    def held_bytes(self) -> int:
        """Bytes held now."""
        return self._held

    def take(self, count: int) -> None:
        """Hold `count` bytes more.

        Raises:
            HeldTooMuchError: the bound is reached; nothing more is held.
        """
        with self._lock:
            self.require(count)
            self._held += count

    def require(self, count: int) -> None:
        """Return nothing where `count` bytes more could be held now.

        Raises:
            HeldTooMuchError: they could not.
        """
        if self._held + count > self._max_bytes:
            raise HeldTooMuchError(f"requests under way already hold {self._held} bytes: try again")

    def give(self, count: int) -> None:
        """Let go of `count` bytes."""
        with self._lock:
            self._held -= count


class Holding:
    """What one request holds of the budget; the `with` block's end lets go of all, or that of work which outlasts it."""

    def __init__(self, budget: MemoryBudget) -> None:
        self._budget = budget
        self._count = 0
        self._job: Future[Any] | None = None

    def add(self, count: int) -> None:
        """Hold `count` bytes more.

        Raises:
            HeldTooMuchError: the bound over all requests is reached.
        """
        self._budget.take(count)
        self._count += count

    def hold_until(self, job: Future[Any]) -> None:
        """Let go when the job is done, not before: a sender who goes away ends the block, and not the thread."""
        self._job = job

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._job is None:
            self._let_go()
        else:
            self._job.add_done_callback(lambda _: self._let_go())

    def _let_go(self) -> None:
        self._budget.give(self._count)


#: For each request being handled one more may wait, its body already read.
_WAITING_RATIO: Final = 2
#: A sink that was full a moment ago is taken to be full still: decoding a request to hear so again would cost what the
#: sink needs to get on. Far shorter than a full queue lasts.
_FULL_FOR_S: Final = 0.05


#: A request of up to this size, not compressed, is decoded where it was read: that is sooner done than handed to a thread.
SMALL_BYTES: Final = 8 * 1024
#: Larger requests decoded at once, in the whole process. Decoding takes many times a request's size in memory, and as it
#: holds the interpreter, more at once would not be faster.
_DECODING: Final = threading.BoundedSemaphore(2)


def decoding(size: int) -> AbstractContextManager[object]:
    """Return what a message of that size, bytes, is decoded under: the turn of a large one; a small one need not wait."""
    return _DECODING if size > SMALL_BYTES else nullcontext()


class Admission:
    """What one way in has under way, and its bounds. For one event loop; the ends of work are counted on other threads."""

    def __init__(self, settings: ReceiveSettings, clock: Callable[[], float] = time.monotonic) -> None:
        self._memory = MemoryBudget(LARGEST_AT_ONCE * settings.max_request_bytes)
        self._most = _WAITING_RATIO * settings.max_concurrent_requests
        self._under_way = 0
        self._lock = threading.Lock()
        self._clock = clock
        self._full_until_s = 0.0

    def check(self, expected_bytes: int = 0) -> None:
        """Return nothing where a request of that size, compressed, would be taken on.

        Raises:
            OverloadedError: it would not; says of what there is too much.
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
        """Return the batch that a request brings, and its receipt, once it is decoded, left in the sink, and stored.

        Who waits for it may be cancelled (a sender that went away); the work, and what it holds, count until it is done.

        Args:
            executor: on one of whose threads it begins; None: here and now, where that is quicker than to change threads.
            begin: decodes it and leaves it in the sink.
            holding: what it holds of the memory budget.

        Raises:
            OverloadedError: as many as allowed are under way.
        """
        self._require_room()
        with self._lock:
            self._under_way += 1
        job, give_up = _whole(executor, begin)
        job.add_done_callback(self._leave)
        holding.hold_until(job)
        try:
            return await asyncio.wrap_future(job)
        except asyncio.CancelledError:
            give_up()
            raise
        except HeldTooMuchError:
            raise  # a bomb among small requests: these go on
        except (OverloadedError, StoreError):
            self._full_until_s = self._clock() + _FULL_FOR_S
            raise

    def _require_room(self) -> None:
        if self._under_way >= self._most:
            raise OverloadedError(f"{self._under_way} requests are under way: try again")

    def _leave(self, _: Future[Any]) -> None:
        with self._lock:
            self._under_way -= 1


def _whole(
    executor: Executor | None, begin: Callable[[], tuple[SpanBatch, Future[Receipt]]]
) -> tuple[Future[tuple[SpanBatch, Receipt]], Callable[[], object]]:
    """Return the future end of what `begin` begins, and what gives it up where it has not begun."""
    whole: Future[tuple[SpanBatch, Receipt]] = Future()
    whole.set_running_or_notify_cancel()

    def step() -> None:
        try:
            batch, receipt = begin()
        except BaseException as error:  # noqa: BLE001 — handed to who waits
            whole.set_exception(error)
        else:
            receipt.add_done_callback(partial(_end, whole, batch))

    if executor is None:
        step()
        return whole, lambda: False
    try:
        turn = executor.submit(step)
    except RuntimeError:  # it was shut down meanwhile
        whole.set_exception(_stopping())
        return whole, lambda: False
    turn.add_done_callback(partial(_end_unbegun, whole))
    return whole, turn.cancel


def _end(whole: Future[tuple[SpanBatch, Receipt]], batch: SpanBatch, receipt: Future[Receipt]) -> None:
    error = receipt.exception()
    if error is None:
        whole.set_result((batch, receipt.result()))
    else:
        whole.set_exception(error)


def _end_unbegun(whole: Future[tuple[SpanBatch, Receipt]], turn: Future[None]) -> None:
    if turn.cancelled():
        whole.set_exception(_stopping())


def _stopping() -> OverloadedError:
    return OverloadedError("the collector is stopping: try again")


T = TypeVar("T")

#: A reception that lasts is a long one; as often, surplus ones are ended.
_LONG_S: Final = 0.05
#: Long receptions at once: as many messages of the largest allowed size can be in memory.
_MOST_LONG: Final = 16
#: A sender that finished a message before is left alone for so long.
_UNDISTURBED_S: Final = 5.0
_REMEMBERED_PEERS: Final = 10_000


class _Reception:
    """One message on its way; of the task that waits for it."""

    __slots__ = ("fate", "peer", "since_s", "task")

    def __init__(self, peer: str, since_s: float, task: asyncio.Task[Any]) -> None:
        self.peer = peer
        self.since_s = since_s
        self.task = task
        self.fate: Exception | None = None

    def end(self, fate: Exception) -> None:
        """Have the task stop waiting, with an error."""
        self.fate = fate
        self.task.cancel()


class Receptions:
    """What is being received. For one event loop."""

    def __init__(self, timeout_s: float, most_long: int = _MOST_LONG) -> None:
        """Begin with none; each has `timeout_s` seconds."""
        self._timeout_s = timeout_s
        self._most_long = most_long
        self._open: dict[_Reception, None] = {}  # oldest first
        self._proven: OrderedDict[str, None] = OrderedDict()
        self._looking = False

    async def receive(self, peer: str, read: Callable[[], Awaitable[T]]) -> T:
        """Return what is read from a peer.

        Raises:
            OverloadedError: it took long, and too many others did: the peer that never finished a message goes first.
            TimeoutError: the message took too long.
        """
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None  # noqa: S101 — a coroutine runs in a task
        mine = _Reception(peer, loop.time(), task)
        self._open[mine] = None
        if not self._looking:
            self._looking = True
            loop.call_later(_LONG_S, self._look, loop)
        try:
            found = await read()
        except asyncio.CancelledError:
            if mine.fate is None or task.uncancel() > 0:  # the caller went away, or we are stopping
                raise
            raise mine.fate from None
        finally:
            self._open.pop(mine, None)
        self._remember(peer)
        return found

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        now_s = loop.time()
        long = [one for one in self._open if now_s - one.since_s >= _LONG_S]
        for one in self._least_missed(long, now_s)[: max(0, len(long) - self._most_long)]:
            self._open.pop(one)
            one.end(OverloadedError("this request came slowly while many others did: try again"))
        for one in [one for one in self._open if now_s - one.since_s >= self._timeout_s]:
            self._open.pop(one)
            one.end(TimeoutError())
        self._looking = bool(self._open)
        if self._looking:
            loop.call_later(_LONG_S, self._look, loop)

    def _least_missed(self, long: list[_Reception], now_s: float) -> list[_Reception]:
        """Return them in the order in which they go: unknown peers, oldest first; who had its time; who came last."""
        unknown = [one for one in long if one.peer not in self._proven]
        known = [one for one in long if one.peer in self._proven]
        had_time = [one for one in known if now_s - one.since_s >= _UNDISTURBED_S]
        return [*unknown, *had_time, *reversed(known[len(had_time) :])]

    def _remember(self, peer: str) -> None:
        self._proven[peer] = None
        self._proven.move_to_end(peer)
        if len(self._proven) > _REMEMBERED_PEERS:
            self._proven.popitem(last=False)
