"""Worker processes: their resources, how they start and end, and how work reaches them.

Only the parent process reads and writes the store. A part that fails in a worker is computed again in the parent. A running
collector and batch commands use the same pool.
"""

from __future__ import annotations

import ctypes
import gc
import logging
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, Self, TypeVar

from otel_agentic.dialects import Reader
from otel_agentic.engine.segments import MAX_BYTES, HeldSegments
from otel_agentic.evaluators.base import asks, is_plain
from otel_agentic.evaluators.criteria import MetricCriteria
from otel_agentic.evaluators.registry import all_evaluators, metrics_by_name
from otel_agentic.evaluators.run import FailureRules
from otel_agentic.judges.registry import judge_named
from otel_agentic.store.connection import processors

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from otel_agentic.config import Settings
    from otel_agentic.evaluation.scope import Annotations
    from otel_agentic.evaluators.base import AskingEvaluator, Evaluator
    from otel_agentic.judges import Judge

_log = logging.getLogger(__name__)
P = ParamSpec("P")
R = TypeVar("R")
#: Fewer traces or conversations than this are processed by a collector itself, so that light traffic starts no workers.
_LEAST_ITEMS: Final = 32
#: Time after the death of a worker during which the parent does all the work, seconds: what killed it may do so again.
_RESTART_S: Final = 60.0
#: More workers are used only if the settings request them: the parent reaches its limit before.
_MOST_BY_DEFAULT: Final = 4
#: New objects until the youngest, and collections until an older generation is collected. By default these are 700, 10 and 10;
#: conversations consist of thousands of objects without cycles.
_GC_THRESHOLDS: Final = (50_000, 20, 20)
#: Time after which a thread lets another one run, seconds; by default 5 ms.
_SWITCH_S: Final = 0.001
#: `M_ARENA_MAX` of glibc's `mallopt`.
_ARENA_MAX: Final = -8
#: Heaps that the threads of a collector share; by default these are eight for each processor.
_HEAPS: Final = 2
#: Increment of the nice value of workers: the parent, which acknowledges spans, runs first.
_NICE: Final = 5


class WorkerResources:
    """What a worker keeps between tasks: the span reader, the judge, the evaluators, and the segments that it holds."""

    def __init__(self, settings: Settings, max_bytes: int = MAX_BYTES) -> None:
        """Create the resources; `max_bytes` limits the memory of the segments."""
        self.settings = settings
        self.segments = HeldSegments(max_bytes)
        #: What conversations are matched with, and its number at the parent; None before a part is scored.
        self.annotations: tuple[int, Annotations] | None = None

    @cached_property
    def reader(self) -> Reader:
        """The span reader."""
        return Reader.from_settings(self.settings.conversations, self.settings.dialects)

    @cached_property
    def judge(self) -> Judge:
        """The judge in the settings."""
        return judge_named(self.settings.scoring.judge, self.settings.judge)

    @cached_property
    def criteria(self) -> MetricCriteria:
        """Resolves criteria on metrics of all evaluators."""
        evaluators = self.settings.evaluators
        return MetricCriteria(evaluators=all_evaluators(evaluators), settings=evaluators)

    @cached_property
    def rules(self) -> FailureRules:
        """Decides which scores of evaluators are failures."""
        return FailureRules(metrics_by_name(self.criteria.evaluators).values(), self.settings.evaluators)

    @cached_property
    def evaluators(self) -> Mapping[str, Evaluator | AskingEvaluator]:
        """The installed evaluators of conversations, by name."""
        return {item.name: item for item in self.criteria.evaluators if asks(item) or is_plain(item)}


class WorkerPool:
    """A pool of worker processes. A context manager that terminates them. Thread-safe.

    Each process has its own queue, so that a part can be sent to the process that holds its data. The caller recomputes a part
    that fails in a worker. After a worker died, no part is accepted for a minute; then new processes start.
    """

    def __init__(
        self,
        settings: Settings,
        count: int,
        *,
        least_items: int = 1,
        on_problem: Callable[[str], object] | None = None,
    ) -> None:
        """Create the pool; the processes start with the first part.

        Args:
            settings: all settings.
            count: number of processes.
            least_items: the caller does smaller work itself.
            on_problem: called with a message about each failure; None adds it to `problems`.
        """
        self.problems: list[str] = []
        self.report = on_problem or self.problems.append
        self.count = count
        self.least_items = least_items
        #: Number of parts that may be queued at the workers while others are read and written.
        self.ahead = 2 * count
        self._settings = settings
        self._lock = threading.Lock()
        self._processes: list[ProcessPoolExecutor] = []
        #: The number of parts that each worker has not finished. It has its own lock: when a worker dies, some versions of
        #: Python end its parts while they hold a lock for which `submit_to` and `result` wait with `_lock` held.
        self._unfinished = [0] * count
        self._unfinished_lock = threading.Lock()
        #: Closed by `close`, or by the end of this process: then all workers exit.
        self._lifeline: Connection | None = None
        self._died_at: float | None = None
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    @property
    def is_running(self) -> bool:
        """Whether processes have started."""
        with self._lock:
            return bool(self._processes)

    def close(self) -> None:
        """End the processes at once; later parts are not accepted."""
        with self._lock:
            processes, self._processes, self._closed = self._processes, [], True
        if self._lifeline is not None:
            self._lifeline.close()
        for process in processes:
            process.shutdown(cancel_futures=True)

    def least_busy(self) -> int:
        """Return the number of the worker with the fewest unfinished parts."""
        return min(range(self.count), key=self._unfinished.__getitem__)

    def submit(
        self, work: Callable[Concatenate[WorkerResources, P], R], *arguments: P.args, **keywords: P.kwargs
    ) -> Future[R] | None:
        """Submit work to the least busy worker; None if no worker is available."""
        return self.submit_to(self.least_busy(), work, *arguments, **keywords)

    def submit_to(
        self, worker: int, work: Callable[Concatenate[WorkerResources, P], R], *arguments: P.args, **keywords: P.kwargs
    ) -> Future[R] | None:
        """Submit work to a worker, which works in the order of submission; None if no worker is available."""
        with self._lock:
            try:
                processes = self._started()
                if not processes:
                    return None
                with _children_ignore_sigint():
                    future = processes[worker].submit(_run, work, *arguments, **keywords)
            except BrokenProcessPool as error:
                self._discard(error)
                return None
        with self._unfinished_lock:
            self._unfinished[worker] += 1
        future.add_done_callback(lambda _: self._finished(worker))
        return future

    def _finished(self, worker: int) -> None:
        with self._unfinished_lock:
            self._unfinished[worker] -= 1

    def result(self, future: Future[R] | None) -> R | None:
        """Return the result of a worker, or None if it failed."""
        if future is None:
            return None
        try:
            return future.result()
        except BrokenProcessPool as error:
            with self._lock:
                self._discard(error)
        except CancelledError:
            _log.debug("a part was cancelled, because the workers end")
        except Exception as error:  # noqa: BLE001 — the caller computes the part again and then sees the failure
            _log.debug("a part failed in a worker: %r", error)
        return None

    def _started(self) -> Sequence[ProcessPoolExecutor]:
        resting = self._died_at is not None and time.monotonic() - self._died_at < _RESTART_S
        if not (self._processes or resting or self._closed):
            # "spawn": a forked process would inherit locks whose owning threads it does not have.
            context = multiprocessing.get_context("spawn")
            reader, self._lifeline = context.Pipe(duplex=False)
            self._processes = [
                ProcessPoolExecutor(
                    1,
                    mp_context=context,
                    initializer=_initialize,
                    initargs=(self._settings, MAX_BYTES // self.count, reader),
                )
                for _ in range(self.count)
            ]
        return self._processes

    def _discard(self, error: BrokenProcessPool) -> None:
        if self._processes:
            for process in self._processes:
                process.shutdown(wait=False, cancel_futures=True)
            self._processes, self._died_at = [], time.monotonic()
            self.report(f"a worker process died ({error}); this process did the rest")


@contextmanager
def _children_ignore_sigint() -> Iterator[None]:
    """Block SIGINT for processes started in the block: a terminal sends Ctrl-C to all, and the parent ends the others.

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


def collector_workers(settings: Settings) -> WorkerPool | None:
    """Return the pool of `serve`; None if there is only one processor, or if the settings disable workers."""
    count = settings.processing.workers
    if count is None:
        count = min(processors() - 1, _MOST_BY_DEFAULT)
    if count == 0:
        return None
    return WorkerPool(settings, count, least_items=_LEAST_ITEMS, on_problem=partial(_log.warning, "%s"))


def share_heaps() -> None:
    """Divide the threads of a collector among few heaps, because each heap of glibc keeps freed memory that the others could use.

    A thread that has a heap keeps it, so this comes before libraries start their threads.
    """
    if sys.platform == "linux" and (mallopt := getattr(ctypes.CDLL(None), "mallopt", None)) is not None:
        mallopt(_ARENA_MAX, _HEAPS)


def tune_interpreter() -> None:
    """Set garbage collection and thread switching for a process of a collector.

    All loaded objects are exempt from garbage collection, and it runs less often, which saves a tenth of the CPU time. Threads
    switch more often, because a commit of spans waits for the interpreter's lock after each statement.
    """
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)
    sys.setswitchinterval(_SWITCH_S)


_resources: WorkerResources


def _initialize(settings: Settings, max_bytes: int, lifeline: Connection) -> None:
    """Initialize a worker."""
    global _resources  # noqa: PLW0603 — state that a pool process keeps between tasks
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # for systems without signal masks
    threading.Thread(target=_exit_after, args=(lifeline,), name="otel-agentic-lifeline", daemon=True).start()
    if hasattr(os, "nice"):
        os.nice(_NICE)
    tune_interpreter()
    _resources = WorkerResources(settings, max_bytes)


def _exit_after(lifeline: Connection) -> None:
    """Exit when the parent has closed the lifeline or has ended, also in the middle of a part."""
    with suppress(EOFError, OSError):
        lifeline.recv_bytes()
    os._exit(0)


def _run(work: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
    return work(_resources, *arguments, **keywords)
