"""The gauges of windows and objectives: observable instruments that read the newest snapshot."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias, runtime_checkable

from opentelemetry.sdk.metrics import AlwaysOffExemplarFilter, MeterProvider, ObservableGauge, ObservableUpDownCounter
from opentelemetry.sdk.metrics.export import CardinalityLimits, InMemoryMetricReader

from otel_agentic.telemetry import names
from otel_agentic.telemetry.identity import own_version
from otel_agentic.telemetry.snapshot import observe, observe_objectives, select
from otel_agentic.windows.model import WindowPoint

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from opentelemetry.metrics import CallbackOptions, CallbackT, Meter, Observation
    from opentelemetry.sdk.metrics.export import MetricsData
    from opentelemetry.sdk.resources import Resource

    from otel_agentic.telemetry.names import Instrument
    from otel_agentic.telemetry.scrape import Scrape
    from otel_agentic.windows.model import GroupKey
    from otel_agentic.windows.objectives import ObjectivePoint

_logger = logging.getLogger(__name__)
#: The cap on groups bounds the points. The SDK's own limit of 2,000 would melt live gauges into one overflow point.
_LIMITS: Final[CardinalityLimits] = {ObservableGauge: 1_000_000, ObservableUpDownCounter: 1_000_000}


@runtime_checkable
class PointTable(Protocol):
    """Many window points at once, made into points when they are asked for."""

    def points(self) -> Iterable[WindowPoint]:
        """Return the points."""
        ...


WindowPoints: TypeAlias = Iterable[WindowPoint] | PointTable


def points_of(given: WindowPoints) -> Iterable[WindowPoint]:
    """Return the points, whichever way they are given."""
    return given.points() if isinstance(given, PointTable) else given


@dataclass(frozen=True, slots=True, kw_only=True)
class _Snapshot:
    """What was said last of windows and of objectives."""

    windows: WindowPoints = ()
    objectives: Sequence[ObjectivePoint] = ()


class WindowGauges:
    """Holds the newest points and gives them to whoever collects. Thread-safe.

    To set points costs nothing: what they say is made into observations when somebody collects, once a snapshot.

    The SDK keeps the state of every attribute set it has ever seen, so that agents and versions that come and go would
    grow without bound. Gauges have no past: their provider is thrown away and built anew once it has seen twice the
    cap on groups. That is why they do not share the provider of counters and histograms.
    """

    def __init__(self, *, resource: Resource, scrape: Scrape, max_groups: int, estimators: Sequence[str] = ()) -> None:
        """Prepare; there are no points yet.

        Args:
            resource: who emits.
            scrape: where they are shown.
            max_groups: groups that get gauges.
            estimators: names of those to emit; none: the headline estimator.
        """
        self._resource = resource
        self._scrape = scrape
        self._max_groups = max_groups
        self._estimators = tuple(estimators)
        self._lock = threading.Lock()
        self._waiting = threading.Lock()
        self._newest = self._shown = _Snapshot()
        self._observations: Mapping[str, Sequence[Observation]] = {}
        self._dropped: frozenset[GroupKey] = frozenset()
        self._ever_dropped = 0
        self._seen: set[GroupKey] = set()
        self._provider, self._reader = self._build()

    def set_windows(self, points: WindowPoints) -> None:
        """Replace the points of windows."""
        kept = points if isinstance(points, PointTable) else tuple(points)
        with self._waiting:
            self._newest = _Snapshot(windows=kept, objectives=self._newest.objectives)

    def set_objectives(self, points: Iterable[ObjectivePoint]) -> None:
        """Replace the points of objectives."""
        kept = tuple(points)
        with self._waiting:
            self._newest = _Snapshot(windows=self._newest.windows, objectives=kept)

    def prepare(self) -> None:
        """Make the newest points ready to be collected; needed before a scrape begins."""
        with self._lock:
            newest = self._unshown()
            if newest is not None:
                with self._scrape.lock:  # no collection may see half of each snapshot
                    self._show(newest)

    def collect(self) -> MetricsData | None:
        """Return the points of now for an exporter; None where there are none."""
        self.prepare()
        with self._lock:
            return self._reader.get_metrics_data()

    def groups_dropped(self) -> int:
        """Return how often a group newly fell under the cap; what the cap is, the newest points decide."""
        self._prepare_unless_busy()
        return self._ever_dropped

    def shutdown(self) -> None:
        """Take the gauges out of the scrape."""
        with self._lock, self._scrape.lock:
            self._provider.shutdown()

    def _prepare_unless_busy(self) -> None:
        """Prepare, unless that meant to wait.

        A collection calls this and holds a lock of the SDK, for which a scrape that is under way waits: to wait for that
        scrape would be to wait forever. It was prepared itself, so at worst a count is told with the next export.
        """
        if not self._lock.acquire(blocking=False):
            return
        try:
            newest = self._unshown()
            if newest is not None and self._scrape.lock.acquire(blocking=False):
                try:
                    self._show(newest)
                finally:
                    self._scrape.lock.release()
        finally:
            self._lock.release()

    def _unshown(self) -> _Snapshot | None:
        with self._waiting:
            return None if self._newest is self._shown else self._newest

    def _show(self, newest: _Snapshot) -> None:
        self._shown = newest
        try:
            selection = select(points_of(newest.windows), self._max_groups)
            evidence = observe_objectives(newest.objectives, selection.groups, self._max_groups)
            observations = {**observe(selection.points, self._estimators), names.SLO_E_VALUE.name: evidence}
        except Exception:
            # Counters, and the gauges of before, must not end with these.
            _logger.exception("window points could not be shown; gauges keep their last values")
            return
        self._ever_dropped += len(selection.dropped - self._dropped)
        self._dropped = selection.dropped
        self._seen |= selection.groups.union(point.key for point in newest.objectives)
        if len(self._seen) > 2 * self._max_groups:
            self._provider.shutdown()
            self._provider, self._reader = self._build()
            self._seen = set(selection.groups)
        self._observations = observations

    def _build(self) -> tuple[MeterProvider, InMemoryMetricReader]:
        reader = InMemoryMetricReader(cardinality_limits=_LIMITS)
        provider = MeterProvider(
            metric_readers=[reader, self._scrape.reader(cardinality_limits=_LIMITS)],
            resource=self._resource,
            exemplar_filter=AlwaysOffExemplarFilter(),
            shutdown_on_exit=False,
        )
        meter = provider.get_meter(names.SCOPE, own_version(), names.SCHEMA_URL)
        for instrument in (*names.WINDOW_INSTRUMENTS, names.SLO_E_VALUE):
            _create(meter, instrument, self._callback(instrument.name))
        return provider, reader

    def _callback(self, name: str) -> CallbackT:
        def read(_options: CallbackOptions) -> Iterable[Observation]:
            return self._observations.get(name, ())

        return read


def _create(meter: Meter, instrument: Instrument, callback: CallbackT) -> None:
    create = (
        meter.create_observable_gauge
        if instrument.kind == "observable_gauge"
        else meter.create_observable_up_down_counter
    )
    create(instrument.name, callbacks=[callback], unit=instrument.unit, description=instrument.description)
