"""The parts of one store, opened together: what every command works with."""

from __future__ import annotations

import copy
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, Self

from otel_agentic import plugins
from otel_agentic.dialects import Reader
from otel_agentic.pipeline.evaluate import EvaluationRunner
from otel_agentic.pipeline.means import EvaluationListener, NoEvaluationListener
from otel_agentic.pipeline.pressure import Pressure
from otel_agentic.pipeline.rebuild import Rebuilder
from otel_agentic.pipeline.uploads import Uploads
from otel_agentic.store import Store
from otel_agentic.store.export_layout import export_folder_of
from otel_agentic.store.instance import instance_id_of

if TYPE_CHECKING:
    from types import TracebackType

    from otel_agentic.config import EmitSettings, Settings
    from otel_agentic.stats import Estimator

#: Called with the progress of a long command: the stage, the work done, and the total work (None if unknown).
Progress = Callable[[str, int, int | None], None]


class EngineListener(EvaluationListener, Protocol):
    """Receives the events of an engine."""

    def late_spans(self, count: int) -> None:
        """Handle spans that arrived after their conversation was removed; they are counted but not rebuilt."""
        ...


class NoListener(NoEvaluationListener):
    """Ignores all events."""

    def late_spans(self, count: int) -> None:
        """Do nothing."""


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
    ) -> None:
        """Open the store that the settings name.

        Args:
            settings: all settings.
            create: create the DuckDB file if it is missing.
            upgrade: upgrade a store of an earlier release, after copying it; without this, it is rejected.
            collecting: whether a collector runs on the engine: it rebuilds what arrives, and windows end at its clock.
            clock: returns the current time, ns since the epoch.
            listener: receives the events of the engine; None ignores them.

        Raises:
            StoreError: the file cannot be used.
            PluginError: a dialect, judge or estimator does not load.
        """
        listener = listener or NoListener()
        self.settings = settings
        self.clock = clock
        self.collecting = collecting
        #: Set to end long operations early, at a safe point.
        self.stopping = threading.Event()
        #: Held by a backfill.
        self.backfilling = threading.Lock()
        #: How long senders wait; background work yields accordingly.
        self.pressure = Pressure()
        #: Held while old data is exported or removed.
        self.retaining = threading.Lock()
        self.reader = Reader.from_settings(settings.conversations, settings.dialects)
        self.store = Store(
            settings.store,
            self.reader,
            create=create,
            upgrade=upgrade,
            clock=clock,
            export_folder=export_folder_of(settings),
            redaction=settings.redaction,
        )
        self.rebuilder = Rebuilder(self.store, self.reader, settings.conversations, on_late=listener.late_spans)
        self.uploads = Uploads(self)
        self.evaluating = EvaluationRunner(
            self.store,
            settings.scoring,
            settings.judge,
            settings.sampling,
            settings.evaluators,
            matching=settings.matching,
            listener=listener,
        )

    @property
    def emit(self) -> EmitSettings:
        """The telemetry settings, with the store's instance id unless they set another."""
        emit = self.settings.emit
        return emit if emit.instance_id else emit.model_copy(update={"instance_id": instance_id_of(self.store)})

    def showing(self, evaluation: str) -> Engine:
        """Return a copy of this engine whose store queries return the scores of the named evaluation."""
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
        """Close the judge and the store. Returns the result of `Store.close`."""
        self.evaluating.close()
        return self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
