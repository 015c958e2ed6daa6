"""Finds turns that were recorded twice, by two instrumentations of one process that each write their own trace."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from otel_agentic.conversations.segments import Segment

#: The largest difference between the two recorded times of the start or end of a model call, in nanoseconds.
_SAME_MOMENT_NS: Final = 50_000_000


def echoes_of(segments: Iterable[Segment]) -> dict[int, Segment]:
    """Return the segments that only repeat another one, as `id()` of the echo -> the segment that it repeats.

    Attempts of one case may run in parallel with the same query, so the query alone proves nothing: an echo comes from other
    instrumentation scopes, and each of its model calls happens at the same time as one of the other segment.
    """
    by_query: dict[tuple[str, str | None, str], list[Segment]] = defaultdict(list)
    for segment in segments:
        if segment.query_digest is not None and segment.moments:
            by_query[segment.environment, segment.service, segment.query_digest].append(segment)
    echoes: dict[int, Segment] = {}
    for group in by_query.values():
        if len({segment.scopes for segment in group}) > 1:
            _add_echoes(sorted(group, key=_rank), echoes)
    return echoes


def _add_echoes(group: Sequence[Segment], echoes: dict[int, Segment]) -> None:
    """Add the echoes in a group with the same query; only segments that begin at nearly the same time are compared."""
    originals: list[Segment] = []  # by the start of their first model call
    for segment in group:
        start_ns = segment.moments[0][0]
        low = bisect_left(originals, start_ns - _SAME_MOMENT_NS, key=_begins)
        high = bisect_right(originals, start_ns + _SAME_MOMENT_NS, key=_begins)
        first = next((other for other in sorted(originals[low:high], key=_rank) if _is_echo(segment, other)), None)
        if first is not None:
            echoes[id(segment)] = first
        else:
            insort(originals, segment, key=_begins)


def _begins(segment: Segment) -> int:
    return segment.moments[0][0]


def _rank(segment: Segment) -> tuple[bool, int, int, str]:
    """Return the sort key for the original among equals: with an id first, then most messages, then the earliest."""
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
    """Return whether two spans may record the same call: one contains the other, so they overlap however short they are."""
    apart = max(abs(a - b) for a, b in zip(own, other, strict=True))
    return apart <= _SAME_MOMENT_NS and own[0] <= other[1] and other[0] <= own[1]
