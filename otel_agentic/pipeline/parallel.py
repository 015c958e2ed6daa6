"""Worker processes that compute; only this process reads and writes the store."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar

from otel_agentic.dialects import Reader
from otel_agentic.judges.choose import judge_named

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Future

    from otel_agentic.config import Settings
    from otel_agentic.judges import Judge

_log = logging.getLogger(__name__)
P = ParamSpec("P")
R = TypeVar("R")


class WorkerResources:
    """The span reader and the judge of a worker, created once per process."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    @cached_property
    def reader(self) -> Reader:
        """The span reader."""
        return Reader.from_settings(self.settings.conversations, self.settings.dialects)

    @cached_property
    def judge(self) -> Judge:
        """The judge in the settings."""
        return judge_named(self.settings.scoring.judge, self.settings.judge)


class WorkerPool:
    """A pool of worker processes. A context manager that terminates them.

    `problems` holds messages about failures. The caller recomputes a part that fails in a worker.
    """

    def __init__(self, settings: Settings, count: int) -> None:
        """Create the pool; the processes start with the first part."""
        self.problems: list[str] = []
        self.count = count
        #: Number of parts that may be queued at the workers while others are read and written.
        self.ahead = 2 * count
        # "spawn": a forked process would inherit locks whose owning threads it does not have.
        context = multiprocessing.get_context("spawn")
        self._pool: ProcessPoolExecutor | None = ProcessPoolExecutor(
            count, mp_context=context, initializer=_initialize, initargs=(settings,)
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def submit(
        self, work: Callable[Concatenate[WorkerResources, P], R], *arguments: P.args, **keywords: P.kwargs
    ) -> Future[R] | None:
        """Submit work to a worker; None if the pool is broken."""
        try:
            with _children_ignore_sigint():
                return None if self._pool is None else self._pool.submit(_run, work, *arguments, **keywords)
        except BrokenProcessPool as error:
            self._broken(error)
            return None

    def result(self, future: Future[R] | None) -> R | None:
        """Return the result of a worker, or None if it failed."""
        if future is None:
            return None
        try:
            return future.result()
        except BrokenProcessPool as error:
            self._broken(error)
        except Exception as error:  # noqa: BLE001 — the caller computes the part again and then sees the failure
            _log.debug("a part failed in a worker: %r", error)
        return None

    def _broken(self, error: BrokenProcessPool) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None
            self.problems.append(f"a worker process died ({error}); this process did the rest")


@contextmanager
def _children_ignore_sigint() -> Iterator[None]:
    """Start processes in the block with SIGINT blocked: a terminal sends Ctrl-C to all of them, and the parent ends them.

    A signal mask is inherited; a handler installed in the process itself would come too late for its imports.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def open_workers(settings: Settings, count: int | None) -> Iterator[WorkerPool | None]:
    """Provide a pool with `count` processes, or None if `count` is None."""
    if count is None:
        yield None
        return
    with WorkerPool(settings, count) as pool:
        yield pool


def processors() -> int:
    """Return the number of processors available to this process."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


_resources: WorkerResources


def _initialize(settings: Settings) -> None:
    """Initialize a worker."""
    global _resources  # noqa: PLW0603 — state that a pool process keeps between tasks
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # for systems without signal masks
    _resources = WorkerResources(settings)


def _run(work: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
    return work(_resources, *arguments, **keywords)
