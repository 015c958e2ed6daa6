"""Measurements of many results at once: counts for the counters of the SDK, and histograms of values.

Each call of an instrument of the SDK takes 20 us of CPU time, and a conversation has about fifty values. So equal counts of a
batch are added by one call, and histograms are kept here, since those of the SDK accept only one value in a call.
"""

from __future__ import annotations

import math
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from opentelemetry.context import Context
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
from opentelemetry.trace import INVALID_SPAN, NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

from otel_agentic.telemetry import names

if TYPE_CHECKING:
    from opentelemetry.metrics import Counter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope

    from otel_agentic.telemetry.names import Instrument

#: The attributes of a series, in a fixed order.
Attributes: TypeAlias = tuple[tuple[str, str | bool], ...]

#: A context with an explicit "no span"; the SDK would replace an empty context with the caller's current one.
_NO_SPAN: Final = set_span_in_context(INVALID_SPAN, Context())
#: Maximum number of series of a histogram, as in the SDK; values of further ones are recorded in one series.
_MAX_SERIES: Final = 2000
_OVERFLOW: Final[Attributes] = (("otel.metric.overflow", True),)


class SpanIds(NamedTuple):
    """The ids of an evaluated span, as hex text; a missing or malformed id means no span."""

    trace_id: str
    span_id: str | None

    @property
    def context(self) -> Context:
        """The context of the span, so that exemplars and events refer to it."""
        span = self.parsed()
        return _NO_SPAN if span is None else set_span_in_context(NonRecordingSpan(span), Context())

    def parsed(self) -> SpanContext | None:
        """Return the context of the span alone; None for no span."""
        try:
            span = SpanContext(
                trace_id=int(self.trace_id, 16),
                span_id=int(self.span_id or "", 16),
                is_remote=True,
                # The evaluated span was exported, so its sender sampled it; exemplars are taken from sampled spans only.
                trace_flags=TraceFlags(TraceFlags.SAMPLED),
            )
        except ValueError:
            return None
        return span if span.is_valid else None


NO_SPAN: Final = SpanIds("", None)


@dataclass(slots=True)
class _Series:
    """The values of one series; `exemplars` has the newest of each bucket."""

    counts: list[int]
    start_ns: int
    total: float = 0.0
    low: float = math.inf
    high: float = -math.inf
    exemplars: dict[int, Exemplar] = field(default_factory=dict)


class Histograms:
    """Cumulative histograms with the newest exemplar of each bucket. Thread-safe; memory is bounded."""

    def __init__(self, resource: Resource, scope: InstrumentationScope) -> None:
        self._resource = resource
        self._scope = scope
        self._lock = threading.Lock()
        self._series: dict[Instrument, dict[Attributes, _Series]] = {}

    def record(self, instrument: Instrument, attributes: Attributes, values: Sequence[tuple[float, SpanIds]]) -> None:
        """Record values of one series, each with the span that it belongs to."""
        if not values:
            return  # a series begins with its first value
        bounds, newest = instrument.bounds or (), dict[int, tuple[float, SpanIds]]()
        with self._lock:
            now_ns = time.time_ns()
            series = self._series_of(instrument, attributes, now_ns)
            for value, ids in values:
                bucket = bisect_left(bounds, value)
                series.counts[bucket] += 1
                series.total += value
                series.low, series.high = min(series.low, value), max(series.high, value)
                if ids.span_id:
                    newest[bucket] = value, ids
            for bucket, (value, ids) in newest.items():
                span = ids.parsed()
                if span is not None:
                    series.exemplars[bucket] = Exemplar({}, value, now_ns, span.span_id, span.trace_id)

    def reader(self) -> Callable[[], MetricsData]:
        """Return a function that returns all histograms, with the exemplars that are newer than those of its last call."""
        seen_ns = -1

        def read() -> MetricsData:
            nonlocal seen_ns
            with self._lock:
                after_ns, seen_ns = seen_ns, time.time_ns()
                return self._collected(after_ns, seen_ns)

        return read

    def _series_of(self, instrument: Instrument, attributes: Attributes, now_ns: int) -> _Series:
        by_attributes = self._series.setdefault(instrument, {})
        if attributes not in by_attributes and len(by_attributes) >= _MAX_SERIES - 1:
            attributes = _OVERFLOW
        if attributes not in by_attributes:
            counts = [0] * (len(instrument.bounds or ()) + 1)
            by_attributes[attributes] = _Series(counts=counts, start_ns=now_ns)
        return by_attributes[attributes]

    def _collected(self, after_ns: int, now_ns: int) -> MetricsData:
        metrics = [
            Metric(
                name=instrument.name,
                description=instrument.description,
                unit=instrument.unit,
                data=Histogram(
                    [_point(instrument, key, series, after_ns, now_ns) for key, series in by_attributes.items()],
                    AggregationTemporality.CUMULATIVE,
                ),
            )
            for instrument, by_attributes in self._series.items()
        ]
        scopes = [ScopeMetrics(self._scope, metrics, names.SCHEMA_URL)] if metrics else []
        return MetricsData([ResourceMetrics(self._resource, scopes, names.SCHEMA_URL)] if scopes else [])


def _point(
    instrument: Instrument, attributes: Attributes, series: _Series, after_ns: int, now_ns: int
) -> HistogramDataPoint:
    return HistogramDataPoint(
        attributes=dict(attributes),
        start_time_unix_nano=series.start_ns,
        time_unix_nano=now_ns,
        count=sum(series.counts),
        sum=series.total,
        bucket_counts=tuple(series.counts),
        explicit_bounds=instrument.bounds or (),
        min=series.low,
        max=series.high,
        exemplars=[exemplar for exemplar in series.exemplars.values() if exemplar.time_unix_nano > after_ns],
    )


class Batch:
    """Collects measurements, and records those of equal series by one call; the exemplar of a count is its first span."""

    def __init__(self) -> None:
        self._counts: dict[tuple[Counter, Attributes], tuple[int, SpanIds]] = {}
        self._values: dict[tuple[Instrument, Attributes], list[tuple[float, SpanIds]]] = {}

    def count(self, counter: Counter, attributes: Attributes, span: SpanIds) -> None:
        """Count one event."""
        count, first = self._counts.get((counter, attributes), (0, span))
        self._counts[counter, attributes] = count + 1, first

    def measure(self, instrument: Instrument, attributes: Attributes, value: float, span: SpanIds) -> None:
        """Add one value to a histogram."""
        self._values.setdefault((instrument, attributes), []).append((value, span))

    def record(self, histograms: Histograms) -> None:
        """Record everything."""
        for (counter, attributes), (count, span) in self._counts.items():
            counter.add(count, dict(attributes), context=span.context)
        for (instrument, key), values in self._values.items():
            histograms.record(instrument, key, values)


def attributes_of(values: Mapping[str, str]) -> Attributes:
    """Return attributes in the order of their names."""
    return tuple(sorted(values.items()))
