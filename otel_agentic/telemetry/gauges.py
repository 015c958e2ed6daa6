"""The window gauges: observable instruments that read the newest snapshot."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from opentelemetry.sdk.metrics import AlwaysOffExemplarFilter, MeterProvider, ObservableGauge, ObservableUpDownCounter
from opentelemetry.sdk.metrics.export import CardinalityLimits, InMemoryMetricReader

from otel_agentic.telemetry import names
from otel_agentic.telemetry.identity import own_version
from otel_agentic.telemetry.snapshot import observe, select

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from opentelemetry.metrics import CallbackOptions, CallbackT, Meter, Observation
    from opentelemetry.sdk.metrics.export import MetricsData
    from opentelemetry.sdk.resources import Resource

    from otel_agentic.telemetry.names import Instrument
    from otel_agentic.telemetry.scrape import Scrape
    from otel_agentic.windows.model import GroupKey, WindowPoint

#: The cap on groups bounds the points. The SDK's own limit of 2,000 would melt live gauges into one overflow point.
_LIMITS: Final[CardinalityLimits] = {ObservableGauge: 1_000_000, ObservableUpDownCounter: 1_000_000}


class WindowGauges:
    """Holds the newest window points and gives them to whoever collects. Thread-safe.

    The SDK keeps the state of every attribute set it has ever seen, so that agents and versions that come and go would
    grow without bound. Gauges have no past: their provider is thrown away and built anew once it has seen twice the
    cap on groups. That is why they do not share the provider of counters and histograms.
    """

    def __init__(self, *, resource: Resource, scrape: Scrape, max_groups: int) -> None:
        self._resource = resource
        self._scrape = scrape
        self._max_groups = max_groups
        self._lock = threading.Lock()
        self._observations: Mapping[str, Sequence[Observation]] = {}
        self._dropped: frozenset[GroupKey] = frozenset()
        self._seen: set[GroupKey] = set()
        self._provider, self._reader = self._build()

    def set(self, points: Iterable[WindowPoint]) -> int:
        """Replace the snapshot; return how many groups newly fell under the cap."""
        selection = select(points, self._max_groups)
        observations = observe(selection.points)
        with self._lock, self._scrape.lock:  # no collection may see half of each snapshot
            newly_dropped = len(selection.dropped - self._dropped)
            self._dropped = selection.dropped
            self._seen |= selection.groups
            if len(self._seen) > 2 * self._max_groups:
                self._provider.shutdown()
                self._provider, self._reader = self._build()
                self._seen = set(selection.groups)
            self._observations = observations
        return newly_dropped

    def collect(self) -> MetricsData | None:
        """Return the points of now for an exporter; None where there are none."""
        with self._lock:
            return self._reader.get_metrics_data()

    def shutdown(self) -> None:
        """Take the gauges out of the scrape."""
        with self._lock, self._scrape.lock:
            self._provider.shutdown()

    def _build(self) -> tuple[MeterProvider, InMemoryMetricReader]:
        reader = InMemoryMetricReader(cardinality_limits=_LIMITS)
        provider = MeterProvider(
            metric_readers=[reader, self._scrape.reader(cardinality_limits=_LIMITS)],
            resource=self._resource,
            exemplar_filter=AlwaysOffExemplarFilter(),
            shutdown_on_exit=False,
        )
        meter = provider.get_meter(names.SCOPE, own_version())
        for instrument in names.WINDOW_INSTRUMENTS:
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
