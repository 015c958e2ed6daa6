"""Processes of this machine that compute; this process alone reads and writes the store."""

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


class Tools:
    """What a worker computes with, made once a process."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    @cached_property
    def reader(self) -> Reader:
        """Reads spans."""
        return Reader.from_settings(self.settings.conversations, self.settings.dialects)

    @cached_property
    def judge(self) -> Judge:
        """The judge of the settings."""
        return judge_named(self.settings.scoring.judge, self.settings.judge)


class Workers:
    """Processes that compute. A context manager that ends them.

    `problems` tells what went wrong in sentences. A part that fails at a worker is computed anew by whoever gave it.
    """

    def __init__(self, settings: Settings, count: int) -> None:
        """Prepare; the processes begin with the first part."""
        self.problems: list[str] = []
        self.count = count
        #: Parts that may be at the workers while others are read and written.
        self.ahead = 2 * count
        # A forked process has the locks of threads that it does not have: each one begins anew.
        context = multiprocessing.get_context("spawn")
        self._pool: ProcessPoolExecutor | None = ProcessPoolExecutor(
            count, mp_context=context, initializer=_begin, initargs=(settings,)
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def submit(
        self, work: Callable[Concatenate[Tools, P], R], *arguments: P.args, **more: P.kwargs
    ) -> Future[R] | None:
        """Have some work done by a worker; None where there are none any more."""
        try:
            with _deaf_children():
                return None if self._pool is None else self._pool.submit(_do, work, *arguments, **more)
        except BrokenProcessPool as error:
            self._broken(error)
            return None

    def result(self, future: Future[R] | None) -> R | None:
        """Return what a worker made, None where it failed."""
        if future is None:
            return None
        try:
            return future.result()
        except BrokenProcessPool as error:
            self._broken(error)
        except Exception as error:  # noqa: BLE001 — whoever gave the work does it anew, and finds out what fails
            _log.debug("a part failed at a worker: %r", error)
        return None

    def _broken(self, error: BrokenProcessPool) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None
            self.problems.append(f"a worker process died ({error}); this process did the rest")


@contextmanager
def _deaf_children() -> Iterator[None]:
    """Have processes that begin in the block never hear of Ctrl-C, which a terminal sends to all: the parent ends them.

    A mask is inherited; a handler in the process itself would come too late for its imports.
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
def workers_of(settings: Settings, count: int | None) -> Iterator[Workers | None]:
    """Lend so many processes, none for None."""
    if count is None:
        yield None
        return
    with Workers(settings, count) as pool:
        yield pool


def processors() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


_tools: Tools


def _begin(settings: Settings) -> None:
    """Prepare a worker."""
    global _tools  # noqa: PLW0603 — what a process of a pool keeps from one task to the next has no other place
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # where there are no masks
    _tools = Tools(settings)


def _do(work: Callable[..., Any], *arguments: Any, **more: Any) -> Any:
    return work(_tools, *arguments, **more)
