"""An event loop in its own thread, for clients that are bound to one loop, independent of their caller's loop.

There is one per process: model clients share their connections between objects, and a connection ends with the loop that it
was opened on.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import queue
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

_Result = TypeVar("_Result")
_Work = tuple["Future[Any]", "Callable[[], Any]"]

#: Threads for models without an asynchronous client; calls that never return occupy theirs.
_MAX_THREADS: Final = 512
_CLOSE_TIMEOUT_S: Final = 5.0


class Background:
    """A running event loop. Submitted work runs until it is done, cancelled, or the loop is closed."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._loop.set_default_executor(DaemonThreads())
        self._thread = threading.Thread(target=self._loop.run_forever, name="otel-agentic-judge", daemon=True)
        self._thread.start()

    def submit(self, work: Coroutine[Any, Any, _Result]) -> Future[_Result]:
        """Start a coroutine on the loop; cancelling the returned future cancels it.

        Raises:
            RuntimeError: the loop is closed.
        """
        if self._loop.is_closed():
            work.close()
            raise RuntimeError("the loop of the judges is closed")
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def close(self) -> None:
        """Cancel all running work, and end the loop and its thread."""
        if self._loop.is_closed():
            return
        ended = self.submit(_cancel_others())
        try:
            ended.result(_CLOSE_TIMEOUT_S)
        except TimeoutError:
            return  # a task refuses to end; the thread is a daemon and ends with the process
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_CLOSE_TIMEOUT_S)
        if not self._thread.is_alive():
            self._loop.close()


def shared() -> Background:
    """Return the loop of this process; it is created at the first call and closed at exit."""
    return _of_process(os.getpid())


@cache
def _of_process(_: int) -> Background:
    """Return the loop of a process: a forked child does not inherit its parent's threads."""
    background = Background()
    atexit.register(background.close)
    return background


async def _cancel_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


class DaemonThreads(ThreadPoolExecutor):
    """A pool that creates threads on demand and does not keep a process alive: a call may never return."""

    def __init__(self, max_threads: int = _MAX_THREADS) -> None:
        super().__init__(max_workers=max_threads)
        self._most = max_threads
        self._work: queue.SimpleQueue[_Work | None] = queue.SimpleQueue()
        self._free = threading.Semaphore(0)
        self._count = 0
        self._count_lock = threading.Lock()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run a function in a thread of the pool."""
        future: Future[Any] = Future()
        self._work.put((future, lambda: fn(*args, **kwargs)))
        if not self._free.acquire(blocking=False):
            self._grow()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: ARG002, FBT001, FBT002 — as the base class has it
        """Let idle threads end; waits for none."""
        with self._count_lock:
            for _ in range(self._count):
                self._work.put(None)

    def _grow(self) -> None:
        with self._count_lock:
            if self._count >= self._most:
                return
            self._count += 1
            name = f"otel-agentic-judge-{self._count}"
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def _run(self) -> None:
        while (work := self._next()) is not None:
            future, call = work
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(call())
                except BaseException as error:  # noqa: BLE001 — raised to the caller that waits for the result
                    future.set_exception(error)
            del work, future, call  # a waiting thread must not keep its last work alive

    def _next(self) -> _Work | None:
        """Return the next work; a thread counts as free only when the queue is empty."""
        try:
            return self._work.get_nowait()
        except queue.Empty:
            self._free.release()
            return self._work.get()
