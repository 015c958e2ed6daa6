"""Histograms that accept many values in one call; those of the SDK accept one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from opentelemetry.sdk.metrics import Exemplar
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricsData,
    ResourceMetrics,
    ScopeMetrics,
)

from otel_agentic.telemetry import names
from otel_agentic.telemetry.observations import Series

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope

    from otel_agentic.telemetry.names import Instrument
    from otel_agentic.telemetry.observations import Attributes

#: Maximum number of series of a histogram, as in the SDK; values of further ones are recorded in one series.
_MAX_SERIES: Final = 2000
_OVERFLOW: Final[Attributes] = (("otel.metric.overflow", True),)


@dataclass(slots=True, kw_only=True)
class _Recorded:
    """All values of one series since its first; `exemplars` has the newest of each bucket."""

    values: Series
    start_ns: int
    exemplars: dict[int, Exemplar] = field(default_factory=dict)


class Histograms:
    """Cumulative histograms with the newest exemplar of each bucket. Thread-safe; memory is bounded."""

    def __init__(self, resource: Resource, scope: InstrumentationScope) -> None:
        self._resource = resource
        self._scope = scope
        self._lock = threading.Lock()
        self._series: dict[Instrument, dict[Attributes, _Recorded]] = {}

    def record(self, instrument: Instrument, attributes: Attributes, values: Series) -> None:
        """Add values to a series, which begins with its first value."""
        with self._lock:
            now_ns = time.time_ns()
            recorded = self._series_of(instrument, attributes, now_ns)
            recorded.values.merge(values)
            for bucket, (value, span_ids) in values.newest.items():
                span = span_ids.parsed()
                if span is not None:
                    recorded.exemplars[bucket] = Exemplar({}, value, now_ns, span.span_id, span.trace_id)

    def reader(self) -> Callable[[], MetricsData]:
        """Return a function that returns all histograms, with the exemplars that are newer than those of its last call."""
        seen_ns = -1

        def read() -> MetricsData:
            nonlocal seen_ns
            with self._lock:
                after_ns, seen_ns = seen_ns, time.time_ns()
                return self._collected(after_ns, seen_ns)

        return read

    def _series_of(self, instrument: Instrument, attributes: Attributes, now_ns: int) -> _Recorded:
        by_attributes = self._series.setdefault(instrument, {})
        if attributes not in by_attributes and len(by_attributes) >= _MAX_SERIES - 1:
            attributes = _OVERFLOW
        if attributes not in by_attributes:
            by_attributes[attributes] = _Recorded(values=Series.of(instrument), start_ns=now_ns)
        return by_attributes[attributes]

    def _collected(self, after_ns: int, now_ns: int) -> MetricsData:
        metrics = [
            Metric(
                name=instrument.name,
                description=instrument.description,
                unit=instrument.unit,
                data=Histogram(
                    [_point(instrument, key, recorded, after_ns, now_ns) for key, recorded in by_attributes.items()],
                    AggregationTemporality.CUMULATIVE,
                ),
            )
            for instrument, by_attributes in self._series.items()
        ]
        scopes = [ScopeMetrics(self._scope, metrics, names.SCHEMA_URL)] if metrics else []
        return MetricsData([ResourceMetrics(self._resource, scopes, names.SCHEMA_URL)] if scopes else [])


def _point(
    instrument: Instrument, attributes: Attributes, recorded: _Recorded, after_ns: int, now_ns: int
) -> HistogramDataPoint:
    values = recorded.values
    return HistogramDataPoint(
        attributes=dict(attributes),
        start_time_unix_nano=recorded.start_ns,
        time_unix_nano=now_ns,
        count=sum(values.counts),
        sum=values.total,
        bucket_counts=tuple(values.counts),
        explicit_bounds=instrument.bounds or (),
        min=values.low,
        max=values.high,
        exemplars=[exemplar for exemplar in recorded.exemplars.values() if exemplar.time_unix_nano > after_ns],
    )
