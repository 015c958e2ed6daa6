"""What live telemetry would have said of window points of the past."""

from __future__ import annotations

from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from otel_agentic.telemetry.gauges import points_of
from otel_agentic.telemetry.snapshot import samples_of_all, select

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opentelemetry.util.types import Attributes

    from otel_agentic.config import EmitSettings
    from otel_agentic.telemetry.gauges import WindowPoints
    from otel_agentic.telemetry.names import Instrument


class PastSample(NamedTuple):
    """One value of one series at the end of its window."""

    instrument: Instrument
    attributes: Attributes
    time_ns: int
    value: float


def past_samples(points: WindowPoints, emit: EmitSettings) -> Iterator[PastSample]:
    """Return the gauges of window points by ascending end; the cap on groups holds at each end, as it did live.

    Args:
        points: all points of some window ends, in any order.
        emit: the cap on groups, and the estimators to emit.
    """
    end_of = attrgetter("end_ns")
    for end_ns, together in groupby(sorted(points_of(points), key=end_of), key=end_of):
        points_then = select(together, emit.max_groups).points
        for instrument, observation in samples_of_all(points_then, emit.estimators):
            yield PastSample(instrument, observation.attributes, end_ns, observation.value)
