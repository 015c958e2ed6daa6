"""The tables `trace_links` and `not_rebuilt`: the conversation of each trace, pending traces, and failed rebuilds."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from otel_agentic.conversations.segments import Segment
from otel_agentic.store.known_ids import KnownIds, rows_since
from otel_agentic.store.table import LAST_NS, Key, Table, fields_of, key_columns, rows_with

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from otel_agentic.conversations.segments import Linked
    from otel_agentic.store.spans import Arrival

#: Traces with spans or log records committed after they were last read, and traces that were read but not linked yet.
#: They are in order of arrival, so that processing them in portions reads each part of the file once.
_PENDING: Final = """
WITH arrived AS (
    SELECT trace_id, max(received_at) AS received_at, min(received_at) AS first_at
    FROM (
        SELECT trace_id, received_at FROM spans WHERE dialect <> 'none'
        UNION ALL
        SELECT trace_id, received_at FROM log_records
        UNION ALL
        SELECT trace_id, received_at FROM spans SEMI JOIN trace_links USING (trace_id) WHERE dialect = 'none'
    )
    GROUP BY trace_id
), read AS (
    SELECT trace_id, max(received_until) AS received_until FROM trace_links GROUP BY trace_id
)
SELECT trace_id
FROM (
    SELECT trace_id, first_at
    FROM arrived
    LEFT JOIN read USING (trace_id)
    WHERE received_until IS NULL OR received_at > received_until
    UNION ALL
    SELECT trace_id, received_until FROM trace_links WHERE conversation_id IS NULL AND events > 0
)
GROUP BY trace_id
ORDER BY min(first_at), trace_id
"""
_BY_ARRIVAL: Final = """
SELECT environment, conversation_id
FROM trace_links
SEMI JOIN requested USING (environment, conversation_id)
GROUP BY environment, conversation_id
ORDER BY min(received_until), environment, conversation_id
"""
_OF_TRACES: Final = """
SELECT DISTINCT environment, conversation_id
FROM trace_links
WHERE conversation_id IS NOT NULL AND trace_id IN (SELECT trace_id FROM requested)
    AND received_until >= make_timestamp_ns($since)
"""
_TRACES: Final = """
SELECT environment, conversation_id, list(DISTINCT trace_id)
FROM trace_links SEMI JOIN requested USING (environment, conversation_id)
WHERE received_until >= make_timestamp_ns($since)
GROUP BY environment, conversation_id
"""
_FORGET: Final = """
DELETE FROM trace_links
WHERE trace_id IN (SELECT trace_id FROM requested) AND received_until >= make_timestamp_ns($since)
RETURNING trace_id, epoch_ns(received_from), clock_ahead, environment, explicit_id, conversation_id
"""
#: The rows of conversations, and of all conversations whose spans contain the same id: which of these a trace belongs to
#: depends on all of them.
_FAMILIES: Final = """
WITH stored AS (
    SELECT trace_id, environment, conversation_id, explicit_id, started_at FROM trace_links
    WHERE received_until >= make_timestamp_ns($since)
), families AS (
    SELECT DISTINCT environment, explicit_id
    FROM stored SEMI JOIN requested USING (environment, conversation_id)
    WHERE explicit_id IS NOT NULL
), identities AS (
    SELECT environment, conversation_id FROM requested
    UNION
    SELECT environment, conversation_id FROM stored SEMI JOIN families USING (environment, explicit_id)
)
SELECT trace_id, environment, conversation_id, explicit_id
FROM stored SEMI JOIN identities USING (environment, conversation_id)
ORDER BY started_at DESC, trace_id DESC
"""
#: The names that are ids in spans.
_EXPLICIT: Final = """
SELECT DISTINCT environment, explicit_id FROM trace_links l
SEMI JOIN requested w ON w.environment = l.environment AND w.conversation_id = l.explicit_id
WHERE l.received_until >= make_timestamp_ns($since)
"""
_REMAINING: Final = """
SELECT environment, explicit_id, epoch_ns(min(started_at)) FROM trace_links l
SEMI JOIN requested w ON w.environment = l.environment AND w.conversation_id = l.explicit_id
GROUP BY environment, explicit_id
"""
_OPEN_ARRIVALS: Final = """
SELECT l.environment, l.conversation_id, epoch_ns(max(l.received_until))
FROM trace_links l
SEMI JOIN requested USING (environment, conversation_id)
SEMI JOIN (SELECT * FROM conversations WHERE NOT superseded AND closed_by IS NULL) USING (environment, conversation_id)
GROUP BY l.environment, l.conversation_id
"""
#: Conversations that are open or do not include all that was read of their traces (closed ones, too, if a process was
#: killed in between); and those that no longer have a trace, with the current time as their last arrival.
_LAST_ARRIVALS: Final = """
SELECT l.environment, l.conversation_id, epoch_ns(max(l.received_until)), bool_or(l.explicit_id IS NOT NULL)
FROM trace_links l
LEFT JOIN conversations c
    ON c.environment = l.environment AND c.conversation_id = l.conversation_id AND NOT c.superseded
WHERE l.conversation_id IS NOT NULL AND (c.closed_by IS NULL OR NOT l.built)
GROUP BY l.environment, l.conversation_id
UNION ALL
SELECT c.environment, c.conversation_id, $now, c.link_method = 'explicit'
FROM conversations c
ANTI JOIN trace_links l USING (environment, conversation_id)
WHERE NOT c.superseded
"""
#: Of these, the conversations that a killed process had read but not built: they need not wait for more spans.
_UNBUILT: Final = """
SELECT DISTINCT l.environment, l.conversation_id
FROM trace_links l
LEFT JOIN conversations c
    ON c.environment = l.environment AND c.conversation_id = l.conversation_id AND NOT c.superseded
WHERE l.conversation_id IS NOT NULL
    AND (c.conversation_id IS NULL OR (c.closed_by IS NOT NULL AND NOT l.built))
"""
#: The conversations that a collector has read and not built yet, as until `conversations.turn_idle_s` after their last span.
_AWAITED: Final = """
SELECT count(DISTINCT (l.environment, coalesce(l.conversation_id, l.trace_id)))
FROM trace_links l
ANTI JOIN conversations c ON c.environment = l.environment AND c.conversation_id = l.conversation_id AND NOT c.superseded
ANTI JOIN not_rebuilt n
    ON n.trace_id = l.trace_id OR (n.environment = l.environment AND n.conversation_id = l.conversation_id)
WHERE l.events > 0
"""
#: The neighbours of traces: those whose messages they may continue; those that may continue theirs (so that all
#: candidates for one predecessor are included); those tied to them by span links; and those in which another
#: instrumentation may report the same turn. The query is repeated until it finds no new trace. An existing conversation
#: is included completely, because otherwise a long chain of links would take one query per trace. The traces are
#: grouped first, because many begin with the same messages, and comparing all pairs would take too long. All parts of
#: the table are bounded by times passed as parameters, so that DuckDB skips row groups by their minimum and maximum,
#: and the cost does not grow with the store. (An index would be as fast, but DuckDB keeps it completely in memory, 40
#: to 70 bytes per trace.) Only the lists of span links, which are mostly empty, are read completely.
_NEIGHBOURS: Final = """
WITH near AS MATERIALIZED (
    SELECT * FROM trace_links
    WHERE ended_at >= make_timestamp_ns($first) AND started_at <= make_timestamp_ns($last)
), own AS (
    SELECT * FROM near SEMI JOIN requested USING (trace_id) WHERE events > 0
), goes_on AS (
    SELECT trace_id, environment, service, started_at, unnest(history_in) AS digest FROM near
), ends AS (
    SELECT trace_id, environment, service, ended_at, unnest(history_out) AS digest FROM near
), own_goes_on AS (
    SELECT environment, service, digest, min(started_at) AS first, max(started_at) AS last
    FROM goes_on SEMI JOIN requested USING (trace_id) GROUP BY ALL
), own_ends AS (
    SELECT environment, service, digest, min(ended_at) AS first, max(ended_at) AS last
    FROM ends SEMI JOIN requested USING (trace_id) GROUP BY ALL
), own_queries AS (
    SELECT environment, service, query_digest, scopes, min(started_at) AS first, max(ended_at) AS last
    FROM own WHERE query_digest IS NOT NULL GROUP BY ALL
), tied AS (
    SELECT trace_id AS before, unnest(linked_traces) AS after FROM trace_links WHERE len(linked_traces) > 0
)
SELECT b.trace_id
FROM ends b
JOIN own_goes_on a ON a.digest = b.digest AND a.environment = b.environment AND a.service IS NOT DISTINCT FROM b.service
WHERE b.ended_at <= a.last AND b.ended_at + to_microseconds($idle_us) >= a.first
UNION
SELECT a.trace_id
FROM goes_on a
JOIN own_ends b ON b.digest = a.digest AND b.environment = a.environment AND b.service IS NOT DISTINCT FROM a.service
WHERE a.started_at >= b.first AND a.started_at <= b.last + to_microseconds($idle_us)
UNION SELECT before FROM tied SEMI JOIN requested ON requested.trace_id = after
UNION SELECT after FROM tied SEMI JOIN requested ON requested.trace_id = before
UNION
SELECT o.trace_id
FROM trace_links o
JOIN own ON own.environment = o.environment AND own.conversation_id = o.conversation_id
WHERE own.explicit_id IS NULL AND o.explicit_id IS NULL AND o.started_at >= make_timestamp_ns($conversations_first)
UNION
SELECT n.trace_id
FROM near n
JOIN own_queries o
    ON n.query_digest = o.query_digest AND n.environment = o.environment AND n.service IS NOT DISTINCT FROM o.service
WHERE n.started_at <= o.last AND o.first <= n.ended_at
    AND coalesce(NOT list_has_any(n.scopes, o.scopes), true)
"""
#: Whether a trace can have neighbours: a trace without an id may continue or repeat any other, and a span link ties any two.
_CAN_HAVE_NEIGHBOURS: Final = """
SELECT EXISTS (SELECT 1 FROM trace_links WHERE explicit_id IS NULL AND events > 0)
    OR EXISTS (SELECT 1 FROM trace_links WHERE len(linked_traces) > 0)
"""
#: Rows at the end of the table, which were written last; they are searched first.
_RECENT: Final = 16_384
_SIZE: Final = "SELECT count(*) FROM trace_links"
_TIMES: Final = """
SELECT
    l.trace_id, l.events > 0, epoch_ns(l.started_at), epoch_ns(l.ended_at),
    CASE WHEN l.explicit_id IS NULL THEN l.conversation_id END
FROM trace_links l
SEMI JOIN requested USING (trace_id)
WHERE l.rowid >= $from
"""
_ASSIGN: Final = """
UPDATE trace_links l
SET conversation_id = w.conversation_id, built = w.built
FROM requested w
WHERE l.trace_id = w.trace_id AND l.environment = w.environment AND l.explicit_id IS NOT DISTINCT FROM w.explicit_id
    AND (l.conversation_id IS DISTINCT FROM w.conversation_id OR l.built <> w.built)
    AND l.received_until >= make_timestamp_ns($since)
"""


_SINCE: Final = """
SELECT count(*) FROM spans s JOIN requested w ON w.trace_id = s.trace_id WHERE s.received_at > make_timestamp_ns(w.since)
"""


_UNREAD: Final = """
SELECT count(*) FROM spans s
JOIN requested w USING (trace_id)
LEFT JOIN (SELECT trace_id, max(received_until) AS until FROM trace_links GROUP BY trace_id) l USING (trace_id)
WHERE l.until IS NULL OR s.received_at > l.until
"""


#: The segment of a trace that belongs to no conversation.
_EMPTY_SEGMENT: Final = partial(
    Segment, environment="", service=None, agent_name=None, explicit_id=None, nodes=(), start_ns=0, end_ns=0,
    linked_traces=frozenset(), history_in=(), history_out=(),
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenConversation:
    """A conversation that may need a rebuild: time of its last arrival (ns), and whether its spans contain its id."""

    key: Key
    last_ns: int
    has_id: bool


def spans_since(con: DuckDBPyConnection, since_ns: Mapping[str, int]) -> int:
    """Return how many spans were committed after the time, ns, that `since_ns` has for their trace id."""
    trace_ids = sorted(since_ns)
    rows = rows_with(con, {"trace_id": trace_ids, "since": [since_ns[trace_id] for trace_id in trace_ids]}, _SINCE)
    return int(rows[0][0]) if rows else 0


def unread_spans(con: DuckDBPyConnection, trace_ids: Iterable[str]) -> int:
    """Return how many spans of some traces were committed after the traces were last read."""
    rows = rows_with(con, _traces(trace_ids), _UNREAD)
    return int(rows[0][0]) if rows else 0


def pending_traces(con: DuckDBPyConnection) -> list[str]:
    """Return the traces that must be read or linked, in order of arrival."""
    return [trace_id for (trace_id,) in con.execute(_PENDING).fetchall()]


def awaited_conversations(con: DuckDBPyConnection) -> int:
    """Return the number of conversations whose traces were read, but which were not built yet."""
    ((count,),) = con.execute(_AWAITED).fetchall()
    return int(count)


def conversations_of(con: DuckDBPyConnection, trace_ids: Iterable[str], known: KnownIds) -> set[Key]:
    """Return the (environment, conversation id) that the traces are currently linked to."""
    requested = _traces(trace_ids)
    rows = rows_since(con, requested, _OF_TRACES, known.since(requested["trace_id"]))
    return {(environment, conversation_id) for environment, conversation_id in rows}


def traces_of(con: DuckDBPyConnection, keys: Iterable[Key], known: KnownIds) -> dict[Key, frozenset[str]]:
    """Return the traces of conversations; one without a trace is omitted."""
    requested = key_columns(keys)
    return {
        (environment, conversation_id): frozenset(trace_ids)
        for environment, conversation_id, trace_ids in rows_since(
            con, requested, _TRACES, known.since(requested["conversation_id"])
        )
    }


def save_segments(
    con: DuckDBPyConnection,
    trace_ids: Iterable[str],
    segments: Sequence[Segment],
    arrivals: Mapping[str, Arrival],
    known_ids: KnownIds,
) -> set[Key]:
    """Replace the links of some traces; return the conversations that they were linked to before.

    A trace without a segment gets a row, too, so that it counts as read until more of it arrives. The first arrival of
    a trace, and whether a clock was ahead, are kept: spans that an import commits again change neither. So is the
    conversation of a segment with an id, until it is linked again.
    """
    first_ns_of = {trace_id: arrival.first_ns for trace_id, arrival in arrivals.items()}
    clocks_ahead = {trace_id for trace_id, arrival in arrivals.items() if arrival.clock_ahead}
    known: dict[tuple[str, str, str], str] = {}
    before: set[Key] = set()
    requested = _traces(trace_ids)
    stored = rows_since(con, requested, _FORGET, known_ids.since(requested["trace_id"]))
    for trace_id, first_ns, clock_ahead, environment, explicit_id, name in stored:
        first_ns_of[trace_id] = min(first_ns_of[trace_id], first_ns)
        clocks_ahead |= {trace_id} if clock_ahead else set()
        if explicit_id is not None:
            known[trace_id, environment, explicit_id] = name
        if name is not None:
            before.add((environment, name))
    without_segments = set(trace_ids) - {segment.trace_id for segment in segments}
    rows = [*segments, *(_EMPTY_SEGMENT(trace_id=trace_id) for trace_id in sorted(without_segments))]
    names = [
        None
        if segment.explicit_id is None
        else known.get((segment.trace_id, segment.environment, segment.explicit_id), segment.explicit_id)
        for segment in rows
    ]
    written_ns = [arrivals[segment.trace_id].last_ns for segment in rows]
    texts = [
        (text, time_ns)
        for segment, name, time_ns in zip(rows, names, written_ns, strict=True)
        for text in (segment.trace_id, segment.explicit_id, name)
        if text is not None
    ]
    known_ids.add([text for text, _ in texts], [time_ns for _, time_ns in texts])
    Table(con, "trace_links").insert(
        con,
        {
            **fields_of(rows, "trace_id", "environment", "service", "explicit_id", "query_digest"),
            "conversation_id": names,
            "linked_traces": [sorted(segment.linked_traces) for segment in rows],
            "history_in": [list(segment.history_in) for segment in rows],
            "history_out": [list(segment.history_out) for segment in rows],
            "scopes": [sorted(segment.scopes) if segment.nodes else None for segment in rows],
            "events": [len(segment.nodes) for segment in rows],
            "started_at": [segment.start_ns for segment in rows],
            "ended_at": [segment.end_ns for segment in rows],
            "received_until": written_ns,
            "received_from": [first_ns_of[segment.trace_id] for segment in rows],
            "clock_ahead": [segment.trace_id in clocks_ahead for segment in rows],
            "built": [False] * len(rows),
        },
    )
    return before


@dataclass(frozen=True, slots=True, kw_only=True)
class Families:
    """Some conversations with all those whose spans contain the same ids, and their traces.

    `first_names` is the conversation of the earliest trace with each id, by (environment, id).
    """

    keys: frozenset[Key] = frozenset()
    traces: frozenset[str] = frozenset()
    first_names: Mapping[Key, str]

    @property
    def ids(self) -> AbstractSet[Key]:
        """The ids in the spans: (environment, id)."""
        return self.first_names.keys()

    def __or__(self, other: Families) -> Families:
        """Return the union."""
        return Families(
            keys=self.keys | other.keys,
            traces=self.traces | other.traces,
            first_names={**self.first_names, **other.first_names},
        )


def families_of(con: DuckDBPyConnection, keys: Iterable[Key], known: KnownIds) -> Families:
    """Return some conversations and all those whose spans contain the same ids."""
    named = frozenset(keys)
    since_ns, needed_ns = LAST_NS, known.since(name for _, name in named)
    rows: list[tuple[Any, ...]] = []
    while needed_ns < since_ns:  # an id in these rows may have others that were written earlier
        since_ns = needed_ns
        rows = rows_since(con, key_columns(named), _FAMILIES, since_ns)
        needed_ns = known.since(text for _, _, *texts in rows for text in texts if text is not None)
    return Families(
        keys=named | {(environment, name) for _, environment, name, _ in rows},
        traces=frozenset(trace_id for trace_id, _, _, _ in rows),
        first_names={(environment, raw_id): name for _, environment, name, raw_id in rows if raw_id is not None},
    )


def explicit_ids(con: DuckDBPyConnection, keys: Iterable[Key], known: KnownIds) -> set[Key]:
    """Return the (environment, id) among `keys` that spans contain."""
    requested = key_columns(keys)
    rows = rows_since(con, requested, _EXPLICIT, known.since(requested["conversation_id"]))
    return {(environment, name) for environment, name in rows}


def earliest_starts(con: DuckDBPyConnection, ids: Iterable[Key]) -> dict[Key, int]:
    """Return the start, ns, of the earliest stored trace with each (environment, id) that the spans contain."""
    return {
        (environment, name): start_ns for environment, name, start_ns in rows_with(con, key_columns(ids), _REMAINING)
    }


def open_arrivals(con: DuckDBPyConnection, keys: Iterable[Key]) -> dict[Key, int]:
    """Return the time, ns, of the last arrival of each conversation that is open."""
    rows = rows_with(con, key_columns(keys), _OPEN_ARRIVALS)
    return {(environment, name): last_ns for environment, name, last_ns in rows}


def by_arrival(con: DuckDBPyConnection, keys: Iterable[Key]) -> list[Key]:
    """Return conversations in the order in which their traces arrived; those without a trace come last."""
    distinct_keys = set(keys)
    arrived = [
        (environment, conversation_id)
        for environment, conversation_id in rows_with(con, key_columns(distinct_keys), _BY_ARRIVAL)
    ]
    return arrived + sorted(distinct_keys.difference(arrived))


def open_conversations(con: DuckDBPyConnection, now_ns: int) -> list[OpenConversation]:
    """Return the conversations that are open, or whose traces were all moved to others."""
    return [
        OpenConversation(key=(environment, conversation_id), last_ns=min(last_ns, now_ns), has_id=has_id)
        for environment, conversation_id, last_ns, has_id in con.execute(_LAST_ARRIVALS, {"now": now_ns}).fetchall()
    ]


def unbuilt_conversations(con: DuckDBPyConnection) -> set[Key]:
    """Return the conversations that were not built after their traces were read, except open ones built before."""
    return {(environment, conversation_id) for environment, conversation_id in con.execute(_UNBUILT).fetchall()}


def neighbourhood(con: DuckDBPyConnection, trace_ids: Iterable[str], idle_ns: int) -> set[str]:
    """Return the traces that may share a conversation with some traces, including these.

    Traces with different ids never share one, so in a store where every trace has an id and none has a span link, there are no
    others.
    """
    neighbours = set(trace_ids)
    ((can_have_neighbours,),) = con.execute(_CAN_HAVE_NEIGHBOURS).fetchall()
    frontier = neighbours if can_have_neighbours else set()
    while frontier:
        rows = rows_with(con, _traces(frontier), _NEIGHBOURS, _bounds(con, frontier, idle_ns))
        frontier = {trace_id for (trace_id,) in rows} - neighbours
        neighbours = neighbours | frontier
    return neighbours


def _bounds(con: DuckDBPyConnection, trace_ids: AbstractSet[str], idle_ns: int) -> dict[str, int]:
    """Return the times (ns) between which the neighbourhood of some traces lies, as parameters of `_NEIGHBOURS`."""
    rows = _times(con, trace_ids)
    # The derived id of a conversation is the id of its first trace: its other traces start later, except one in which
    # another instrumentation reports the same turn.
    first_ids = {derived_id for row in rows if (derived_id := row[4]) is not None}
    first_rows = _times(con, first_ids - trace_ids) + [row for row in rows if row[0] in first_ids]
    is_complete = first_ids <= {row[0] for row in first_rows}
    return {
        "idle_us": idle_ns // 1000,
        "first": max(0, min((row[2] for row in rows if row[1]), default=0) - idle_ns),
        "last": min(LAST_NS, max((row[3] for row in rows if row[1]), default=0) + idle_ns),
        "conversations_first": max(0, min((row[2] for row in first_rows), default=0) - idle_ns) if is_complete else 0,
    }


def _times(con: DuckDBPyConnection, trace_ids: AbstractSet[str]) -> list[tuple[Any, ...]]:
    """Return (trace id, whether it has events, start, end, derived conversation id) of traces.

    The newest rows are searched first.
    """
    if not trace_ids:
        return []
    ((size,),) = con.execute(_SIZE).fetchall()
    first_recent = max(0, size - _RECENT)
    rows = rows_with(con, _traces(trace_ids), _TIMES, {"from": first_recent})
    older = trace_ids - {row[0] for row in rows}
    return rows + rows_with(con, _traces(older), _TIMES, {"from": 0}) if first_recent and older else rows


def assign(
    con: DuckDBPyConnection, linked: Iterable[Linked], known: KnownIds, failed: Container[Item] = frozenset()
) -> None:
    """Store the conversation that each segment was linked to, and that it was built with it unless it is in `failed`."""
    rows = [
        (segment, conversation) for conversation in linked for segment in (*conversation.segments, *conversation.echoes)
    ]
    requested = {
        **fields_of([segment for segment, _ in rows], "trace_id", "environment", "explicit_id"),
        "conversation_id": [str(conversation.conversation_id) for _, conversation in rows],
        "built": [
            (conversation.environment, str(conversation.conversation_id)) not in failed for _, conversation in rows
        ],
    }
    since_ns = known.since(requested["trace_id"])
    known.add(requested["conversation_id"], [since_ns] * len(rows))
    rows_with(con, requested, _ASSIGN, {"since": since_ns}, fetch=False)


def _traces(trace_ids: Iterable[str]) -> dict[str, list[str]]:
    return {"trace_id": sorted(set(trace_ids))}


#: The id of a trace, or the (environment, conversation id) of a conversation.
Item: TypeAlias = str | Key

_LOAD: Final = """
SELECT trace_id, environment, conversation_id, reason, epoch_ns(first_at), epoch_ns(last_at)
FROM not_rebuilt
ORDER BY last_at, trace_id, environment, conversation_id
"""
_DELETE_TRACES: Final = "DELETE FROM not_rebuilt WHERE trace_id IN (SELECT trace_id FROM requested)"
_DELETE_CONVERSATIONS: Final = """
DELETE FROM not_rebuilt n USING requested w
WHERE n.environment = w.environment AND n.conversation_id = w.conversation_id
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotRebuilt:
    """A trace or a conversation that could not be rebuilt, the reason, and when it was first and last tried (ns)."""

    item: Item
    reason: str
    first_ns: int
    last_ns: int

    @property
    def message(self) -> str:
        """The problem as a sentence."""
        subject = f"trace {self.item!r}" if isinstance(self.item, str) else f"conversation {self.item!r}"
        return f"{subject} is stored but cannot be rebuilt ({self.reason}); please report it"


def load_not_rebuilt(con: DuckDBPyConnection) -> list[NotRebuilt]:
    """Return the traces and conversations that could not be rebuilt, by the time of the last try."""
    return [
        NotRebuilt(
            item=(environment, conversation_id) if trace_id is None else trace_id,
            reason=reason,
            first_ns=first_ns,
            last_ns=last_ns,
        )
        for trace_id, environment, conversation_id, reason, first_ns, last_ns in con.execute(_LOAD).fetchall()
    ]


def save_not_rebuilt(con: DuckDBPyConnection, failures: Sequence[NotRebuilt]) -> None:
    """Write rows, replacing those of the same traces and conversations."""
    delete_not_rebuilt(con, [failure.item for failure in failures])
    Table(con, "not_rebuilt").insert(
        con,
        {
            "trace_id": [failure.item if isinstance(failure.item, str) else None for failure in failures],
            "environment": ["" if isinstance(failure.item, str) else failure.item[0] for failure in failures],
            "conversation_id": [None if isinstance(failure.item, str) else failure.item[1] for failure in failures],
            "reason": [failure.reason for failure in failures],
            "first_at": [failure.first_ns for failure in failures],
            "last_at": [failure.last_ns for failure in failures],
        },
    )


def delete_not_rebuilt(con: DuckDBPyConnection, items: Iterable[Item]) -> None:
    """Delete the rows of traces and conversations."""
    all_items = list(items)
    traces = [item for item in all_items if isinstance(item, str)]
    rows_with(con, {"trace_id": traces}, _DELETE_TRACES, fetch=False)
    keys = [item for item in all_items if not isinstance(item, str)]
    rows_with(con, key_columns(keys), _DELETE_CONVERSATIONS, fetch=False)
