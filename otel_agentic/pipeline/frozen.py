"""What comes late for conversations that were removed: it is counted, and not rebuilt into a stump."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_agentic.store.kept import frozen_keys, frozen_traces

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_agentic.conversations.segments import Segment
    from otel_agentic.store.database import Connection


def without_frozen(
    con: Connection, trace_ids: Sequence[str], segments: Sequence[Segment]
) -> tuple[list[Segment], set[str]]:
    """Return the segments that are to be rebuilt, and the traces of which one is not.

    A segment is frozen with its trace, or with the conversation that it names.
    """
    traces = frozen_traces(con, trace_ids)
    named = {(each.environment, each.explicit_id) for each in segments if each.explicit_id is not None}
    keys = frozen_keys(con, named)
    frozen = [each for each in segments if each.trace_id in traces or (each.environment, each.explicit_id) in keys]
    if not frozen:
        return list(segments), traces
    left = [each for each in segments if each not in frozen]
    return left, traces | {each.trace_id for each in frozen}
