"""Late spans of removed conversations: they are counted, not rebuilt into a partial conversation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_agentic.store.kept import removed_keys, removed_traces

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_agentic.conversations.segments import Segment
    from otel_agentic.store.database import Connection


def without_frozen(
    con: Connection, trace_ids: Sequence[str], segments: Sequence[Segment]
) -> tuple[list[Segment], set[str]]:
    """Return the segments to rebuild, and the traces with at least one frozen segment.

    A segment is frozen if its trace is, or the conversation that it names.
    """
    traces = removed_traces(con, trace_ids)
    named = {(segment.environment, segment.explicit_id) for segment in segments if segment.explicit_id is not None}
    keys = removed_keys(con, named)
    frozen = [
        segment
        for segment in segments
        if segment.trace_id in traces or (segment.environment, segment.explicit_id) in keys
    ]
    if not frozen:
        return list(segments), traces
    remaining = [segment for segment in segments if segment not in frozen]
    return remaining, traces | {segment.trace_id for segment in frozen}
