"""The same turn seen twice: two instrumentations of one process that each write a trace of their own."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from otel_agentic.conversations.segments import Segment

#: Both see a model call begin and end at nearly the same moment, in nanoseconds.
_SAME_MOMENT_NS: Final = 50_000_000


def echoes_of(segments: Iterable[Segment]) -> dict[int, Segment]:
    """Return the segments that only repeat another one, as `id()` of the echo -> the segment that it repeats.

    Attempts of one case may run side by side and begin alike, so the query alone proves nothing: an echo comes from other
    instrumentation scopes, and each of its model calls happens when one of the other's does.
    """
    alike: dict[tuple[str, str | None, str], list[Segment]] = defaultdict(list)
    for segment in segments:
        if segment.query_digest is not None and segment.moments:
            alike[segment.environment, segment.service, segment.query_digest].append(segment)
    found: dict[int, Segment] = {}
    for group in alike.values():
        if len({segment.scopes for segment in group}) > 1:
            _mark(sorted(group, key=_rank), found)
    return found


def _mark(group: Sequence[Segment], found: dict[int, Segment]) -> None:
    """Mark the echoes in a group of one query; only those that begin at nearly the same moment are compared."""
    kept: list[Segment] = []  # by the moment of their first model call
    for segment in group:
        start_ns = segment.moments[0][0]
        low = bisect_left(kept, start_ns - _SAME_MOMENT_NS, key=_begins)
        high = bisect_right(kept, start_ns + _SAME_MOMENT_NS, key=_begins)
        first = next((other for other in sorted(kept[low:high], key=_rank) if _is_echo(segment, other)), None)
        if first is not None:
            found[id(segment)] = first
        else:
            insort(kept, segment, key=_begins)


def _begins(segment: Segment) -> int:
    return segment.moments[0][0]


def _rank(segment: Segment) -> tuple[bool, int, int, str]:
    """Return the sort key of equals: the one with an id, then the one that tells most, then the earlier one is kept."""
    return (segment.explicit_id is None, -segment.substance, segment.start_ns, segment.trace_id)


def _is_echo(segment: Segment, first: Segment) -> bool:
    if segment.trace_id == first.trace_id or segment.scopes & first.scopes:
        return False
    if segment.explicit_id is not None and segment.explicit_id != first.explicit_id:
        return False
    if len({segment.answer_digest, first.answer_digest} - {None}) > 1:
        return False
    return len(segment.moments) == len(first.moments) and all(
        _is_same_moment(own, other) for own, other in zip(segment.moments, first.moments, strict=True)
    )


def _is_same_moment(own: tuple[int, int], other: tuple[int, int]) -> bool:
    """Return whether two spans may be one call: one of them is around the other, so that they overlap however short."""
    apart = max(abs(a - b) for a, b in zip(own, other, strict=True))
    return apart <= _SAME_MOMENT_NS and own[0] <= other[1] and other[0] <= own[1]
