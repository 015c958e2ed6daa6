"""The same turn seen twice: two instrumentations of one process that each write a trace of their own."""

from __future__ import annotations

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
        if len(group) > 1:
            _mark(sorted(group, key=_rank), found)
    return found


def _mark(group: Sequence[Segment], found: dict[int, Segment]) -> None:
    for index, segment in enumerate(group):
        for first in group[:index]:
            if id(first) not in found and _is_echo(segment, first):
                found[id(segment)] = first
                break


def _rank(segment: Segment) -> tuple[bool, int, int, str]:
    """Return the sort key of equals: the one with an id, then the one that tells most, then the earlier one is kept."""
    return (segment.explicit_id is None, -segment.substance, segment.start_ns, segment.trace_id)


def _is_echo(segment: Segment, first: Segment) -> bool:
    if segment.trace_id == first.trace_id or segment.scopes & first.scopes:
        return False
    if segment.explicit_id is not None and segment.explicit_id != first.explicit_id:
        return False
    return len(segment.moments) == len(first.moments) and all(
        abs(a - b) <= _SAME_MOMENT_NS
        for own, other in zip(segment.moments, first.moments, strict=True)
        for a, b in zip(own, other, strict=True)
    )
