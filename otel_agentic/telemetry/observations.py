"""Results of conversations as telemetry that is not recorded yet: counts, values of histograms, and events.

They can be collected in a worker process and recorded in another. Equal counts, and values of equal series, are collected
first: a conversation has about fifty, and each call of an instrument of the SDK takes 20 us of CPU time.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from opentelemetry._logs import SeverityNumber
from opentelemetry.context import Context
from opentelemetry.trace import INVALID_SPAN, NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

from otel_agentic.telemetry import names

if TYPE_CHECKING:
    from opentelemetry._logs import Logger

    from otel_agentic.telemetry.names import Instrument

#: The attributes of a series, in a fixed order.
Attributes: TypeAlias = tuple[tuple[str, str | bool], ...]
#: The value of an attribute of an event.
EventValue: TypeAlias = "str | int | float | tuple[str, ...]"

#: A context with an explicit "no span"; the SDK would replace an empty context with the caller's current one.
_NO_SPAN: Final = set_span_in_context(INVALID_SPAN, Context())


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


@dataclass(slots=True, kw_only=True)
class Series:
    """The values of one series of a histogram; `newest` has the newest value of each bucket that belongs to a span."""

    counts: list[int]
    total: float = 0.0
    low: float = math.inf
    high: float = -math.inf
    newest: dict[int, tuple[float, SpanIds]] = field(default_factory=dict)

    @classmethod
    def of(cls, instrument: Instrument) -> Series:
        """Return a series without values."""
        return cls(counts=[0] * (len(instrument.bounds or ()) + 1))

    def add(self, instrument: Instrument, value: float, span: SpanIds) -> None:
        """Add one value."""
        bucket = bisect_left(instrument.bounds or (), value)
        self.counts[bucket] += 1
        self.total += value
        self.low, self.high = min(self.low, value), max(self.high, value)
        if span.span_id:
            self.newest[bucket] = value, span

    def merge(self, later: Series) -> None:
        """Add the values of another series of the same instrument."""
        self.counts = [count + more for count, more in zip(self.counts, later.counts, strict=True)]
        self.total += later.total
        self.low, self.high = min(self.low, later.low), max(self.high, later.high)
        self.newest.update(later.newest)


class Event(NamedTuple):
    """A `gen_ai.evaluation.result` event, in the context of the evaluated span. `time_ns`: the end of the evaluated target."""

    time_ns: int
    span: SpanIds
    body: str
    attributes: Mapping[str, EventValue]

    def emit(self, logger: Logger) -> None:
        """Emit the event. Never blocks: a full queue drops its oldest events."""
        logger.emit(
            timestamp=self.time_ns,
            context=self.span.context,
            event_name=names.EVALUATION_RESULT_EVENT,
            severity_number=SeverityNumber.INFO,
            severity_text=SeverityNumber.INFO.name,
            body=self.body,
            attributes=self.attributes,
        )


@dataclass(slots=True, kw_only=True)
class Observations:
    """Counts by instrument and attributes, each with its first span; the values of histograms; and events."""

    counts: dict[tuple[Instrument, Attributes], tuple[int, SpanIds]] = field(default_factory=dict)
    values: dict[tuple[Instrument, Attributes], Series] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)

    def count(self, instrument: Instrument, attributes: Attributes, span: SpanIds, n: int = 1) -> None:
        """Count `n` equal observations, of which the first belongs to the span."""
        count, first = self.counts.get((instrument, attributes), (0, span))
        self.counts[instrument, attributes] = count + n, first

    def measure(self, instrument: Instrument, attributes: Attributes, value: float, span: SpanIds) -> None:
        """Add one value to a histogram."""
        series = self.values.get((instrument, attributes))
        if series is None:
            series = self.values[instrument, attributes] = Series.of(instrument)
        series.add(instrument, value, span)

    def add_series(self, instrument: Instrument, attributes: Attributes, series: Series) -> None:
        """Add values to a histogram."""
        known = self.values.setdefault((instrument, attributes), series)
        if known is not series:
            known.merge(series)

    def merge(self, later: Observations) -> None:
        """Add other observations."""
        for (instrument, attributes), (count, span) in later.counts.items():
            self.count(instrument, attributes, span, count)
        for (instrument, attributes), series in later.values.items():
            self.add_series(instrument, attributes, series)
        self.events += later.events


def attributes_of(values: Mapping[str, str]) -> Attributes:
    """Return attributes in the order of their names."""
    return tuple(sorted(values.items()))
