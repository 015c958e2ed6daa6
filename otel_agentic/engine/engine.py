"""The parts of one store, opened together.

Background work (rebuilding, scoring) yields to the receivers: `Pressure` measures how long senders wait for
acknowledgements and sets the share of the time that background work may take.
"""

from __future__ import annotations

import copy
import threading
import time
from collections.abc import Callable
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Final, Protocol, Self

from otel_agentic import plugins
from otel_agentic.config import export_folder_of
from otel_agentic.dialects import Reader
from otel_agentic.evaluation.listener import EvaluationListener
from otel_agentic.store import Store
from otel_agentic.store.store import instance_id_of

if TYPE_CHECKING:
    from otel_agentic.config import EmitSettings, Settings
    from otel_agentic.engine.rebuild import Rebuilder
    from otel_agentic.engine.segments import SegmentReader
    from otel_agentic.engine.transfer import Uploads
    from otel_agentic.engine.workers import WorkerPool
    from otel_agentic.evaluation.run import EvaluationRunner
    from otel_agentic.stats import Estimator

#: An acknowledgement after this time is late, seconds: a full request takes up to 100 ms while background work runs, too.
_LATE_S: Final = 0.2
#: The share is updated at this interval, seconds: a change must take effect before the next one.
_UPDATE_S: Final = 0.25
#: Background work never stops completely, so that nothing waits for it forever.
_LEAST_SHARE: Final = 0.02
_STEP: Final = 0.05
#: While resting, the share is checked at this interval, seconds.
_REST_STEP_S: Final = 0.25
#: Called with the progress of a long command: the stage, the work done, and the total work (None if unknown).
Progress = Callable[[str, int, int | None], None]


class StopEvent(Protocol):
    """The part of `threading.Event` that resting needs."""

    def wait(self, timeout: float) -> bool:
        """Return True as soon as the event is set, or False after the timeout."""
        ...


class Pressure:
    """Measures how long senders wait. Thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._share = 1.0
        self._updated_at = clock()
        self._longest_s = 0.0
        self._waiting = 0
        self._progress_at = clock()

    def arrived(self) -> None:
        """Record that a sender starts to wait for its acknowledgement."""
        with self._lock:
            if not self._waiting:
                self._progress_at = self._clock()
            self._waiting += 1

    def answered(self, delay_s: float) -> None:
        """Record how long a sender waited, seconds."""
        with self._lock:
            self._waiting -= 1
            self._progress_at = self._clock()
            self._longest_s = max(self._longest_s, delay_s)
            self._update()

    @property
    def share(self) -> float:
        """The share of the time that background work may take: 1 if no sender waits."""
        with self._lock:
            self._update()
            return self._share

    def rest(self, worked_s: float, stopping: StopEvent) -> None:
        """Wait after `worked_s` s of work to keep to the share, less if the pressure ends or `stopping` is set."""
        began = self._clock()
        while (left_s := worked_s / self.share - worked_s - (self._clock() - began)) > 0:
            if stopping.wait(min(left_s, _REST_STEP_S)):
                return

    def _update(self) -> None:
        now = self._clock()
        if now - self._updated_at < _UPDATE_S:
            return
        # If all senders wait, none is answered; that is pressure, not idleness.
        longest_s = max(self._longest_s, now - self._progress_at if self._waiting else 0.0)
        if longest_s > _LATE_S:
            self._share = max(_LEAST_SHARE, self._share / 2)
        elif longest_s:
            self._share = min(1.0, self._share + _STEP)
        else:
            self._share = 1.0
        self._updated_at, self._longest_s = now, 0.0


class EngineListener(EvaluationListener):
    """Receives the events of an engine; this one ignores them."""

    def late_spans(self, count: int) -> None:
        """Handle spans that arrived after their conversation was removed; they are counted but not rebuilt."""

    def committed(self, duration_s: float) -> None:
        """Handle a commit of spans, on the writer thread: return quickly."""


class Engine:
    """An open store with everything that reads, rebuilds and scores it. A context manager that closes the store."""

    def __init__(
        self,
        settings: Settings,
        *,
        create: bool = False,
        upgrade: bool = False,
        collecting: bool = False,
        clock: Callable[[], int] = time.time_ns,
        listener: EngineListener | None = None,
        workers: WorkerPool | None = None,
    ) -> None:
        """Open the store that the settings name.

        Args:
            settings: all settings.
            create: create the DuckDB file if it is missing.
            upgrade: upgrade a store of an earlier release, after copying it; without this, it is rejected.
            collecting: whether a collector runs on the engine: it rebuilds what arrives, and windows end at its clock.
            clock: returns the current time, ns since the epoch.
            listener: receives the events of the engine; None ignores them.
            workers: score conversations, and end with the engine; None scores them in this process.

        Raises:
            StoreError: the file cannot be used.
            PluginError: a dialect, judge or estimator does not load.
        """
        self._listener = listener or EngineListener()
        self.settings = settings
        self.clock = clock
        self.collecting = collecting
        self._workers = workers
        #: Set to end long operations early, at a safe point.
        self.stopping = threading.Event()
        #: Held by a backfill.
        self.backfill_lock = threading.Lock()
        #: How long senders wait; background work yields accordingly.
        self.pressure = Pressure()
        #: Held by a command that runs again, because others left it too little memory.
        self.memory_lock = threading.Lock()
        #: Held while data is exported, removed or erased.
        self.retention_lock = threading.RLock()
        self.reader = Reader.from_settings(settings.conversations, settings.dialects)
        self.store = Store(
            settings.store,
            self.reader,
            create=create,
            upgrade=upgrade,
            clock=clock,
            export_folder=export_folder_of(settings),
            redaction=settings.redaction,
            on_commit=self._listener.committed,
        )
        if collecting:  # to receive the spans of each commit from the first one on
            _ = self.segments

    # Many commands need none of these, and their modules take half of the time of such a command to import.

    @cached_property
    def segments(self) -> SegmentReader:
        """Reads traces into segments of conversations."""
        if self._workers is not None:
            from otel_agentic.engine.pooled_rebuild import WorkerSegments  # noqa: PLC0415 — see above

            return WorkerSegments(self.store, self.reader, self._workers, keeps_spans=self.collecting)
        from otel_agentic.engine.segments import SegmentReader  # noqa: PLC0415 — see above

        return SegmentReader(self.store, self.reader, keeps_spans=self.collecting)

    @cached_property
    def rebuilder(self) -> Rebuilder:
        """Builds conversations from segments."""
        if self._workers is not None:
            return rebuilder_over(self, self._workers, self._listener.late_spans)
        from otel_agentic.engine.rebuild import Rebuilder  # noqa: PLC0415 — see above

        return Rebuilder(self.store, self.segments, self.settings.conversations, on_late=self._listener.late_spans)

    @cached_property
    def runner(self) -> EvaluationRunner:
        """Matches and scores conversations."""
        from otel_agentic.evaluation.run import EvaluationRunner  # noqa: PLC0415 — see above

        settings = self.settings
        if self._workers is not None:
            from otel_agentic.engine.pooled_scoring import PooledEvaluationRunner  # noqa: PLC0415 — see above

            return PooledEvaluationRunner(self.store, settings, self._workers, self._listener)
        return EvaluationRunner(
            self.store,
            settings.scoring,
            settings.judge,
            settings.sampling,
            settings.evaluators,
            matching=settings.matching,
            further=settings.windows.criteria,
            listener=self._listener,
        )

    @cached_property
    def uploads(self) -> Uploads:
        """The upload of a store."""
        from otel_agentic.engine.transfer import Uploads  # noqa: PLC0415 — see above

        return Uploads(self.store, export_folder_of(self.settings))

    @property
    def emit(self) -> EmitSettings:
        """The telemetry settings, with the store's instance id unless they set another."""
        emit = self.settings.emit
        return emit if emit.instance_id else emit.model_copy(update={"instance_id": instance_id_of(self.store)})

    def showing(self, evaluation: str) -> Engine:
        """Return this engine, or a copy of it, whose store queries return the scores of the named evaluation."""
        if evaluation == self.store.evaluation:
            return self
        _ = self.rebuilder, self.runner, self.uploads  # before the copy, so that both share them
        view = copy.copy(self)
        view.store = self.store.showing(evaluation)
        return view

    def estimators(self, name: str | None = None) -> list[Estimator]:
        """Return every installed estimator, or only the named one.

        Raises:
            PluginError: the named estimator or the one in the settings is not installed, or one does not load.
        """
        if self.settings.stats.estimator:
            plugins.get("estimators", self.settings.stats.estimator)
        chosen = [plugins.get("estimators", name)] if name else list(plugins.find("estimators").values())
        return [plugin.load().from_settings(self.settings.stats) for plugin in chosen]

    def close(self) -> bool:
        """End the workers, and close the judge and the store. Returns the result of `Store.close`."""
        if self._workers is not None:
            self._workers.close()
        if "runner" in self.__dict__:
            self.runner.close()
        return self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def rebuilder_over(
    engine: Engine, pool: WorkerPool | None, on_late: Callable[[int], None] = lambda _: None
) -> Rebuilder:
    """Return a rebuilder with worker processes, or that of the engine if `pool` is None; see `Rebuilder` for `on_late`."""
    if pool is None:
        return engine.rebuilder
    from otel_agentic.engine.pooled_rebuild import PooledRebuilder, WorkerSegments  # noqa: PLC0415 — slow to import

    segments = engine.segments
    if not isinstance(segments, WorkerSegments):
        segments = WorkerSegments(engine.store, engine.reader, pool, keeps_spans=False)
    return PooledRebuilder(engine.store, segments, engine.settings.conversations, pool, on_late)


def stored_estimator_names(settings: Settings) -> tuple[str, ...]:
    """Return the distinct names of the window estimators: first the headline, then pooled, per case, and emitted ones.

    >>> from otel_agentic.config import Settings
    >>> stored_estimator_names(Settings())
    ('bayesian', 'per_case')
    """
    from otel_agentic.stats import headline_estimator, shown_estimators  # noqa: PLC0415 — numpy is slow to import

    stats = settings.stats
    return tuple(dict.fromkeys((headline_estimator(stats), *shown_estimators(stats), *settings.emit.estimators)))


def stored_estimators(engine: Engine) -> list[Estimator]:
    """Return the window estimators.

    Raises:
        PluginError: an estimator in the settings is not installed, or one does not load.
    """
    return [engine.estimators(name)[0] for name in stored_estimator_names(engine.settings)]
