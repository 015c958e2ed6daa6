"""Whether one request more is taken on: asked before its body is read, so that refusing costs next to nothing."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import Future
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from collectors._memory import LARGEST_AT_ONCE, HeldTooMuchError, Holding, MemoryBudget
from otel_agentic.errors import OverloadedError, StoreError

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Executor
    from contextlib import AbstractContextManager

    from otel_agentic.config import ReceiveSettings
    from otel_agentic.spans import Receipt, SpanBatch

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
