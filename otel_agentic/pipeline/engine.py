"""The parts of one store, opened together: what every command works with."""

from __future__ import annotations

import copy
import threading
import time
from typing import TYPE_CHECKING, Self

from otel_agentic import plugins
from otel_agentic.dialects import Reader
from otel_agentic.pipeline.evaluate import Evaluating
from otel_agentic.pipeline.pressure import Pressure
from otel_agentic.pipeline.rebuild import Rebuilder
from otel_agentic.pipeline.uploads import Uploads
from otel_agentic.store import Store
from otel_agentic.store.export_layout import export_folder_of
from otel_agentic.store.instance import instance_id_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from otel_agentic.config import EmitSettings, Settings
    from otel_agentic.stats import Estimator


class Engine:
    """A store with everything that reads it, rebuilds it and scores it. A context manager that closes the store."""

    def __init__(
        self,
        settings: Settings,
        *,
        create: bool = False,
        upgrade: bool = False,
        collecting: bool = False,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        """Open the store that the settings name.

        Args:
            settings: all settings.
            create: make the DuckDB file when it is missing.
            upgrade: bring a store of an earlier release up to date, after a copy; else it is refused.
            collecting: whether a collector runs on the engine: it rebuilds what arrives, and windows end at its clock.
            clock: the present, ns since the epoch.

        Raises:
            StoreError: the file cannot be used.
            PluginError: a dialect, judge or estimator does not load.
        """
        self.settings = settings
        self.clock = clock
        self.collecting = collecting
        #: Set to have what takes long end soon, and well.
        self.stopping = threading.Event()
        #: Held by a backfill.
        self.backfilling = threading.Lock()
        #: How hard the ways in are pressed; background work gives way.
        self.pressure = Pressure()
        #: Held by what exports or removes what is old.
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
        self.rebuilder = Rebuilder(self.store, self.reader, settings.conversations)
        self.uploads = Uploads(self)
        self.evaluating = Evaluating(
            self.store,
            settings.scoring,
            settings.judge,
            settings.sampling,
            settings.evaluators,
            matching=settings.matching,
        )

    @property
    def emit(self) -> EmitSettings:
        """The settings of telemetry, with the instance id of the store unless they name another."""
        emit = self.settings.emit
        return emit if emit.instance_id else emit.model_copy(update={"instance_id": instance_id_of(self.store)})

    def showing(self, evaluation: str) -> Engine:
        """Return this engine with a store whose queries show the scores of an evaluation."""
        shown = copy.copy(self)
        shown.store = self.store.showing(evaluation)
        return shown

    def estimators(self, name: str | None = None) -> list[Estimator]:
        """Return every installed estimator, or the one of that name.

        Raises:
            PluginError: there is none of that name, nor of the settings' own, or one does not load.
        """
        if self.settings.stats.estimator:
            plugins.get("estimators", self.settings.stats.estimator)
        chosen = [plugins.get("estimators", name)] if name else list(plugins.find("estimators").values())
        return [plugin.load().from_settings(self.settings.stats) for plugin in chosen]

    def close(self) -> bool:
        """Close the judge and the store; return what `Store.close` does."""
        self.evaluating.close()
        return self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
