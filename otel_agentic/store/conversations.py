"""Conversations, turns and tool calls in the store, revision by revision, and the tool definitions of agents.

Also the conversations and traces that retention removed, whose late spans are not rebuilt. Tool definitions are large,
and equal in thousands of conversations, so each list is stored once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import orjson

from otel_agentic.conversations.model import CLOCK_TOLERANCE_NS, Conversation, ModelUse, ToolCall, Turn
from otel_agentic.store.known_ids import rows_since
from otel_agentic.store.results import drop_results, drop_superseded_results
from otel_agentic.store.spans import bucket_of
from otel_agentic.store.table import LAST_NS, Key, RowMap, Table, fields_of, from_row, json_text, key_columns, rows_with

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_KNOWN_DEFINITIONS: Final = (
    "SELECT DISTINCT definitions_hash FROM tool_definitions SEMI JOIN requested USING (definitions_hash)"
)
_DEFINITIONS: Final = """
SELECT definitions_hash, name, parameters FROM tool_definitions SEMI JOIN requested USING (definitions_hash)
ORDER BY definitions_hash, name
"""
_UNUSED: Final = """
DELETE FROM tool_definitions WHERE definitions_hash NOT IN (
    SELECT definitions_hash FROM conversations WHERE definitions_hash IS NOT NULL
)
"""


def definitions_hash(definitions: Mapping[str, Any] | None) -> str | None:
    """Return the hash of a list of tools, independent of their order, or None if no list was captured."""
    if definitions is None:
        return None
    ordered = sorted(definitions.items())
    return hashlib.blake2b(json_text(ordered).encode(), digest_size=16).hexdigest()


#: The hash of the list without tools, which has no rows.
_NO_TOOLS: Final = definitions_hash({})


def save_definitions(con: DuckDBPyConnection, definitions: Mapping[str | None, Mapping[str, Any] | None]) -> None:
    """Write the lists of tools that are not stored yet, by their hash."""
    lists = {digest: tools for digest, tools in definitions.items() if digest is not None and tools}
    stored = {digest for (digest,) in rows_with(con, {"definitions_hash": sorted(lists)}, _KNOWN_DEFINITIONS)}
    rows = [
        (digest, tool, parameters)
        for digest, tools in sorted(lists.items())
        if digest not in stored
        for tool, parameters in sorted(tools.items())
    ]
    Table(con, "tool_definitions").insert(
        con,
        {
            "definitions_hash": [digest for digest, _, _ in rows],
            "name": [tool for _, tool, _ in rows],
            "parameters": [parameters for _, _, parameters in rows],
        },
    )


def load_definitions(con: DuckDBPyConnection, hashes: Iterable[str | None]) -> dict[str | None, Mapping[str, Any]]:
    """Return lists of tools by their hash; a list whose rows were not imported is omitted."""
    digests: Sequence[str] = sorted({digest for digest in hashes if digest is not None})
    definitions: dict[str | None, dict[str, Any]] = {_NO_TOOLS: {}}
    for digest, tool, parameters in rows_with(con, {"definitions_hash": digests}, _DEFINITIONS):
        definitions.setdefault(digest, {})[tool] = None if parameters is None else orjson.loads(parameters)
    return dict(definitions)


def drop_unused(con: DuckDBPyConnection) -> None:
    """Delete the lists of tools that no conversation refers to."""
    con.execute(_UNUSED)


_CURRENT: Final = """
SELECT
    environment, conversation_id, revision, closed_by IS NOT NULL AND NOT superseded, superseded, ambiguous_link,
    content_hash, epoch_ns(built_at)
FROM conversations
SEMI JOIN requested USING (environment, conversation_id)
WHERE built_at >= make_timestamp_ns($since)
QUALIFY row_number() OVER (PARTITION BY environment, conversation_id ORDER BY revision DESC) = 1
"""
_SUPERSEDE: Final = """
UPDATE conversations c SET superseded = true FROM requested w
WHERE c.environment = w.environment AND c.conversation_id = w.conversation_id AND NOT c.superseded
    AND c.built_at >= make_timestamp_ns($since)
"""
_CLOSE: Final = """
UPDATE conversations c SET closed_by = 'idle' FROM requested w
WHERE c.environment = w.environment AND c.conversation_id = w.conversation_id AND NOT c.superseded AND c.closed_by IS NULL
RETURNING
    c.environment, c.conversation_id, revision, agent, agent_version, epoch_ns(ended_at), link_method = 'explicit',
    turn_count, call_count
"""
_KNOWN_REVISIONS: Final = """
WITH stored AS (
    SELECT c.revision = w.revision AS is_same, c.started_at, c.turn_count, c.call_count
    FROM conversations c JOIN requested w USING (environment, conversation_id)
    WHERE c.built_at >= make_timestamp_ns($since)
)
SELECT
    count(*), count(*) FILTER (is_same), epoch_ns(min(started_at) FILTER (is_same)),
    sum(turn_count) FILTER (is_same), sum(call_count) FILTER (is_same)
FROM stored
"""
#: An open conversation is rewritten in place, so the rows of that revision are deleted first.
_DELETE: Final = """
DELETE FROM conversations t USING requested w
WHERE t.environment = w.environment AND t.conversation_id = w.conversation_id AND t.revision = w.revision
    AND t.built_at >= make_timestamp_ns($since)
"""
#: The same for turns, or calls, that started at a time or later, if it is not null. They are stored nearly in the order of
#: their times, so that most others are not read. Calls without a span have no times.
_DELETE_PARTS: Final = """
DELETE FROM {table} t USING requested w
WHERE t.environment = w.environment AND t.conversation_id = w.conversation_id AND t.revision = w.revision
    AND ($first IS NULL OR t.started_at IS NULL OR t.started_at >= make_timestamp_ns($first))
"""
#: By row id, as for spans: narrow columns are searched first, so that wide ones are read only for matching rows.
_LOAD_CONVERSATIONS: Final = """
SELECT
    c.turn_count, c.call_count, epoch_ns(c.started_at), epoch_ns(c.ended_at), epoch_ns(c.window_time), c.definitions_hash, {columns}
FROM conversations c
WHERE c.rowid IN (
    SELECT n.rowid FROM conversations n SEMI JOIN requested USING (environment, conversation_id)
    WHERE NOT n.superseded AND n.built_at >= make_timestamp_ns($since) AND n.built_at <= make_timestamp_ns($until)
)
ORDER BY c.started_at, c.environment, c.conversation_id
"""
#: Loads turns, or calls, of revisions, of those between two times if these are not null. They are stored nearly in the order of
#: their times, so that most others are not read. Calls without a span have no times.
_LOAD_PARTS: Final = """
SELECT t.environment, t.conversation_id, t.turn_index, {columns}
FROM {table} t
WHERE t.rowid IN (
    SELECT p.rowid FROM {table} p SEMI JOIN requested USING (environment, conversation_id, revision)
    WHERE $first IS NULL OR p.started_at IS NULL
        OR (p.started_at >= make_timestamp_ns($first) AND p.started_at <= make_timestamp_ns($last))
)
ORDER BY {order}
"""
_PART_ORDERS: Final = {"turns": "t.turn_index", "tool_calls": "t.turn_index, t.position"}
#: The first columns of `_LOAD_CONVERSATIONS`: the numbers of turns and calls, the start, the end, and the window time.
_FACTS: Final = 5
_NAMED: Final = """
SELECT DISTINCT w.name, c.environment, c.conversation_id
FROM (
    SELECT name, environment, conversation_id FROM conversations JOIN requested ON conversation_id = name
    UNION ALL
    SELECT name, environment, conversation_id FROM trace_links JOIN requested ON explicit_id = name
    UNION ALL
    SELECT name, environment, conversation_id FROM conversations JOIN requested ON concat(conversation_id, '#1') = name
) w
JOIN conversations c USING (environment, conversation_id)
WHERE NOT c.superseded
QUALIFY c.conversation_id = w.name OR NOT w.name LIKE '%#1' OR NOT bool_or(c.conversation_id = w.name) OVER (PARTITION BY w.name)
ORDER BY w.name, c.environment, c.conversation_id
"""
#: Fields of a turn that are not its content: the dialect that read it does not change a score. Facts are hashed
#: separately.
_NOT_CONTENT: Final = frozenset({"calls", "dialect", "scope", "models", "plans", "reasoning", "agent_name"})
#: The same for a call, whose times are those of the span that it refers to.
_NOT_CONTENT_OF_CALL: Final = frozenset({"started_ns", "ended_ns", "target_agent", "received"})
#: For conversations with a span that ended long after it was received: when their first span was received.
_CLOCK_AHEAD: Final = """
SELECT environment, conversation_id, epoch_ns(min(received_from))
FROM trace_links SEMI JOIN requested USING (environment, conversation_id)
WHERE received_until >= make_timestamp_ns($since)
GROUP BY environment, conversation_id HAVING bool_or(clock_ahead)
"""
_HAS_CLOCK_AHEAD: Final = "SELECT 1 FROM trace_links WHERE clock_ahead LIMIT 1"
_WINDOW_TIMES: Final = """
SELECT DISTINCT epoch_ns(window_time) FROM conversations SEMI JOIN requested USING (environment, conversation_id)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Current:
    """The newest revision of a conversation; `built_ns` is when it was built.

    `dissolved`: its traces were moved to other conversations, so that none of its revisions counts.
    """

    revision: int
    closed: bool
    dissolved: bool
    ambiguous_link: bool
    content_hash: str
    built_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """A conversation that was just rebuilt and must be saved, and what its links leave open; see the table's columns.

    `is_first`: no revision of it is stored yet.
    """

    conversation: Conversation
    ambiguous_link: bool
    possible_reuse: bool = False
    is_first: bool = False


class ClosedConversation(NamedTuple):
    """A conversation that was closed without another change; see the table's columns."""

    key: Key
    revision: int
    agent: str | None
    agent_version: str | None
    ended_ns: int
    has_id: bool
    turn_count: int
    call_count: int


def content_hash(conversation: Conversation) -> str:
    """Return a hash of the content of a conversation, without its revision and the way in which it was closed.

    Facts (models, plans, reasoning, agents of turns, hand-offs, tool definitions, final state, user, session, slices) that
    are not recorded are left out. So a conversation without facts has the same hash as one stored by a release that recorded
    none, and one with facts becomes a new revision when it is rebuilt.
    """
    content = [
        conversation.environment,
        conversation.conversation_id,
        conversation.agent_name,
        conversation.agent_version,
        conversation.service,
        conversation.started_ns,
        conversation.ended_ns,
        conversation.case_id,
        conversation.verdict,
        [_turn_content(turn) for turn in conversation.turns],
        *_facts(conversation),
    ]
    return hashlib.blake2b(json_text(content).encode(), digest_size=16).hexdigest()


def _turn_content(turn: Turn) -> list[Any]:
    return [*_TURN_CONTENT(turn), list(map(_CALL_CONTENT, turn.calls))]


def _facts(conversation: Conversation) -> list[Any]:
    facts = {
        "models": [[_use(use) for use in turn.models] for turn in conversation.turns],
        "plans": [turn.plans for turn in conversation.turns],
        "handoffs": [
            [[call.target_agent, call.received] for call in turn.calls if call.kind != "tool"]
            for turn in conversation.turns
        ],
        "reasoning": [turn.reasoning for turn in conversation.turns],
        "agents": [turn.agent_name for turn in conversation.turns],
        "definitions": definitions_hash(conversation.tool_definitions),
        "state": conversation.final_state,
        "user": conversation.user_hash,
        "session": conversation.session_hash,
        "slices": list(conversation.slices),
    }
    recorded = {
        name: fact for name, fact in facts.items() if (any(fact) if isinstance(fact, list) else fact is not None)
    }
    return [recorded] if recorded else []


def _use(use: ModelUse) -> dict[str, Any]:
    return {name: getattr(use, name) for name in ModelUse.__slots__}


#: A field that is added to one of these classes is stored and loaded if `schema.sql` has a column with its name.
_CONVERSATION_ROW: Final = RowMap(
    "conversations",
    Conversation,
    fields_of={"agent": "agent_name"},
    read={"slices": lambda texts: tuple(texts or ())},
)
_TURN_ROW: Final = RowMap(
    "turns",
    Turn,
    fields_of={"turn_index": "index"},
    read={
        "models": lambda text: tuple(ModelUse(**use) for use in orjson.loads(text or "[]")),
        "plans": lambda texts: tuple(texts or ()),
        "reasoning": lambda texts: tuple(texts or ()),
    },
)
_CALL_ROW: Final = RowMap("tool_calls", ToolCall)
#: The columns of turns and calls that identify their conversation revision.
_OWNER: Final = ("environment", "conversation_id", "revision")
_TURN_CONTENT: Final = attrgetter(*(name for name in Turn.__slots__ if name not in _NOT_CONTENT))
_CALL_CONTENT: Final = attrgetter(*(name for name in ToolCall.__slots__ if name not in _NOT_CONTENT_OF_CALL))


def current_revisions(con: DuckDBPyConnection, keys: Iterable[Key], since_ns: int = 0) -> dict[Key, Current]:
    """Return the newest revision of each conversation that has one.

    Args:
        con: a connection.
        keys: the conversations.
        since_ns: a time, ns, before which none of their revisions was built.
    """
    rows = rows_since(con, key_columns(keys), _CURRENT, since_ns)
    return {(row[0], row[1]): from_row(Current, row[2:]) for row in rows}


def save_conversations(con: DuckDBPyConnection, built: Sequence[Built], now_ns: int, since_ns: int = 0) -> None:
    """Write revisions. A stored revision with the same number, which was open, is replaced; an older one is superseded.

    The result of a superseded revision is deleted: the conversation counts as not scored until the new one is scored.

    Args:
        con: a connection in a transaction.
        built: the revisions.
        now_ns: the time at which they were built.
        since_ns: a time, ns, before which no row of the conversations or of their traces was written.
    """
    if not built:
        return
    conversations = [item.conversation for item in built]
    requested = fields_of([item.conversation for item in built if not item.is_first], *_OWNER)
    known = rows_since(con, requested, _KNOWN_REVISIONS, since_ns) or [(0, 0, None, 0, 0)]
    ((stored, same_revision, started_ns, turns, calls),) = known
    if same_revision:
        rows_with(con, requested, _DELETE, {"since": since_ns}, fetch=False)
        for table, count in (("turns", turns), ("tool_calls", calls)):
            _delete_parts(con, table, requested, started_ns, count)
    if stored:
        rows_with(con, requested, _SUPERSEDE, {"since": since_ns}, fetch=False)
    if stored > same_revision:
        drop_superseded_results(con, [conversation.key for conversation in conversations])
    hashes = [definitions_hash(conversation.tool_definitions) for conversation in conversations]
    definitions = zip(hashes, (conversation.tool_definitions for conversation in conversations), strict=True)
    save_definitions(con, dict(definitions))
    columns = {**_conversation_columns(con, built, now_ns, since_ns), "definitions_hash": hashes}
    Table(con, "conversations").insert(con, columns)
    Table(con, "turns").insert(con, _turn_columns(con, conversations))
    Table(con, "tool_calls").insert(con, _call_columns(con, conversations))


def _delete_parts(
    con: DuckDBPyConnection, table: str, requested: Mapping[str, list[Any]], first_ns: int, count: int
) -> None:
    """Delete the turns, or calls, of revisions: those from a time on, or all if these are not as many as they have."""
    sql = _DELETE_PARTS.format(table=table)
    ((deleted,),) = rows_with(con, requested, sql, {"first": first_ns})
    if deleted != count:
        rows_with(con, requested, sql, {"first": None}, fetch=False)


def close_conversations(con: DuckDBPyConnection, keys: Iterable[Key]) -> list[ClosedConversation]:
    """Close open conversations that have been idle, without another change; return those that were open."""
    return [
        ClosedConversation((environment, name), *values)
        for environment, name, *values in rows_with(con, key_columns(keys), _CLOSE)
    ]


def supersede(con: DuckDBPyConnection, keys: Iterable[Key]) -> None:
    """Supersede the newest revisions of conversations that dissolved into others, and delete their results."""
    dissolved = list(keys)
    rows_with(con, key_columns(dissolved), _SUPERSEDE, {"since": 0}, fetch=False)
    drop_results(con, dissolved)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationRows:
    """Conversations as they are stored: a process that has no connection restores them.

    `types` are the types of the columns, by table. `window_times` are those of the conversations, ns. `definitions` are the lists
    of tools, by hash.
    """

    types: Mapping[str, Mapping[str, str]]
    conversations: Sequence[tuple[Any, ...]]
    window_times: Sequence[int]
    turns: Sequence[tuple[Any, ...]]
    calls: Sequence[tuple[Any, ...]]
    definitions: Mapping[str | None, Mapping[str, Any]]

    def read(self) -> list[Conversation]:
        """Return the conversations, by start time."""
        for row in (_CONVERSATION_ROW, _TURN_ROW, _CALL_ROW):
            row.describe(self.types[row.table])
        calls: dict[tuple[str, str, int], list[ToolCall]] = {}
        for environment, conversation_id, index, *values in self.calls:
            calls.setdefault((environment, conversation_id, index), []).append(_CALL_ROW.build(values))
        turns: dict[Key, list[Turn]] = {}
        for environment, conversation_id, index, *values in self.turns:
            turn = _TURN_ROW.build(values, calls=tuple(calls.get((environment, conversation_id, index), ())))
            turns.setdefault((environment, conversation_id), []).append(turn)
        return [
            _CONVERSATION_ROW.build(
                values, turns=tuple(turns.get((values[0], values[1]), ())), tool_definitions=self.definitions.get(tools)
            )
            for tools, *values in self.conversations
        ]


def load_conversation_rows(
    con: DuckDBPyConnection, keys: Iterable[Key], since_ns: int = 0, until_ns: int = LAST_NS
) -> ConversationRows:
    """Return the rows of the newest revisions of some conversations, if these were built between two times, ns."""
    types = {row.table: Table(con, row.table).types for row in (_CONVERSATION_ROW, _TURN_ROW, _CALL_ROW)}
    sql = _LOAD_CONVERSATIONS.format(columns=_CONVERSATION_ROW.select(con, "c"))
    stored = rows_since(con, key_columns(keys), sql, since_ns, until=until_ns)
    facts, rows = [row[:_FACTS] for row in stored], [row[_FACTS:] for row in stored]
    columns = ["definitions_hash", *_CONVERSATION_ROW.describe(types["conversations"])]
    revisions = {name: [row[columns.index(name)] for row in rows] for name in _OWNER}
    turns, calls, started_ns, ended_ns, window_ns = zip(*facts, strict=True) if facts else ((), (), (), (), ())
    times = {"first": min(started_ns, default=None), "last": max(ended_ns, default=None)}
    return ConversationRows(
        types=types,
        conversations=rows,
        window_times=window_ns,
        turns=_part_rows(con, _TURN_ROW, revisions, times, sum(turns)),
        calls=_part_rows(con, _CALL_ROW, revisions, times, sum(calls)),
        definitions=load_definitions(con, {row[0] for row in rows}),
    )


def _part_rows(
    con: DuckDBPyConnection,
    row: RowMap[Any],
    revisions: Mapping[str, list[Any]],
    times: Mapping[str, int | None],
    count: int,
) -> list[tuple[Any, ...]]:
    """Return the rows of turns, or of calls, of revisions: those between two times, or all if these are not as many as they have."""
    sql = _LOAD_PARTS.format(columns=row.select(con, "t"), table=row.table, order=_PART_ORDERS[row.table])
    parts = rows_with(con, revisions, sql, times)
    return parts if len(parts) == count else rows_with(con, revisions, sql, dict.fromkeys(times))


def load_conversations(con: DuckDBPyConnection, keys: Iterable[Key], since_ns: int = 0) -> list[Conversation]:
    """Return the newest revisions of some conversations, by start time; `since_ns` as in `current_revisions`."""
    return load_conversation_rows(con, keys, since_ns).read()


def conversations_named(con: DuckDBPyConnection, names: Iterable[str]) -> dict[str, list[Key]]:
    """Return the conversations that each name fits: their own names, and the ids in their spans.

    Several conversations may have one id. `id#1` is the one that is named like the id itself. A name that fits none is
    omitted.
    """
    keys: dict[str, list[Key]] = {}
    for name, environment, conversation_id in rows_with(con, {"name": sorted(set(names))}, _NAMED):
        keys.setdefault(name, []).append((environment, conversation_id))
    return keys


def shared_id_message(name: str, keys: Iterable[Key]) -> str:
    """Return the message that several conversations share an id, with the name of each.

    >>> shared_id_message("1", [("", "1"), ("", "1#2")])
    "several conversations share the id '1'; use the name of one: '1#1', '1#2'"
    """
    names = ", ".join(repr(f"{name}#1" if own_name == name else own_name) for _, own_name in keys)
    return f"several conversations share the id {name!r}; use the name of one: {names}"


def window_times(con: DuckDBPyConnection, keys: Iterable[Key]) -> list[int]:
    """Return the distinct window times of all revisions of some conversations, ns."""
    return [time_ns for (time_ns,) in rows_with(con, key_columns(keys), _WINDOW_TIMES)]


def _window_times(con: DuckDBPyConnection, conversations: Sequence[Conversation], since_ns: int) -> list[int]:
    """Return the window times of conversations: their ends, capped if a sender's clock is ahead.

    The cap depends on the first arrival, which later spans do not change.
    """
    keys = [conversation.key for conversation in conversations]
    ahead = con.execute(_HAS_CLOCK_AHEAD).fetchall()  # usually reads one column of bits and nothing else
    rows = rows_since(con, key_columns(keys), _CLOCK_AHEAD, since_ns) if ahead else []
    first_arrivals = {(environment, conversation_id): first_ns for environment, conversation_id, first_ns in rows}
    return [
        min(conversation.ended_ns, first_arrivals[key] + CLOCK_TOLERANCE_NS)
        if key in first_arrivals
        else conversation.ended_ns
        for key, conversation in zip(keys, conversations, strict=True)
    ]


def _conversation_columns(
    con: DuckDBPyConnection, built: Sequence[Built], now_ns: int, since_ns: int
) -> Mapping[str, Sequence[Any]]:
    conversations = [item.conversation for item in built]
    return {
        **_CONVERSATION_ROW.columns(con, conversations),
        "slices": [list(conversation.slices) for conversation in conversations],
        "superseded": [False] * len(conversations),
        "window_time": _window_times(con, conversations, since_ns),
        "ambiguous_link": [item.ambiguous_link for item in built],
        "possible_reuse": [item.possible_reuse for item in built],
        "turn_count": [len(conversation.turns) for conversation in conversations],
        "call_count": [sum(len(turn.calls) for turn in conversation.turns) for conversation in conversations],
        "content_captured": [conversation.content_captured for conversation in conversations],
        "content_hash": [content_hash(conversation) for conversation in conversations],
        "bucket": [
            bucket_of(f"{conversation.environment}\0{conversation.conversation_id}") for conversation in conversations
        ],
        "built_at": [now_ns] * len(conversations),
    }


def _turn_columns(con: DuckDBPyConnection, conversations: Sequence[Conversation]) -> Mapping[str, Sequence[Any]]:
    turns = [turn for conversation in conversations for turn in conversation.turns]
    return {
        **fields_of([conversation for conversation in conversations for _ in conversation.turns], *_OWNER),
        **_TURN_ROW.columns(con, turns),
        "models": [[_use(use) for use in turn.models] or None for turn in turns],
        "plans": [turn.plans or None for turn in turns],
        "reasoning": [turn.reasoning or None for turn in turns],
    }


def _call_columns(con: DuckDBPyConnection, conversations: Sequence[Conversation]) -> Mapping[str, Sequence[Any]]:
    rows = [
        (conversation, turn, call)
        for conversation in conversations
        for turn in conversation.turns
        for call in turn.calls
    ]
    return {
        **fields_of([conversation for conversation, _, _ in rows], *_OWNER),
        **_CALL_ROW.columns(con, [call for _, _, call in rows]),
        "turn_index": [turn.index for _, turn, _ in rows],
    }


#: SQL of a 64-bit hash that identifies a conversation, or a trace; it is the same in every release.
CONVERSATION_ID: Final = "md5_number_lower(concat(environment, chr(10), conversation_id))"
TRACE_ID: Final = "md5_number_lower(trace_id)"
_RETENTION_STATE: Final = (
    "SELECT epoch_ns(conversations_from), epoch_ns(results_from), conversations, spans, log_records FROM retention"
)
_HAS_REMOVED: Final = "SELECT 1 FROM removed LIMIT 1"
_REMOVED_KEYS: Final = f"""
SELECT environment, conversation_id FROM requested w
WHERE EXISTS (SELECT 1 FROM removed r WHERE r.kind = 'conversation' AND r.identity = {CONVERSATION_ID})
"""  # noqa: S608 — a constant of our own
_REMOVED_TRACES: Final = f"""
SELECT trace_id FROM requested w
WHERE EXISTS (SELECT 1 FROM removed r WHERE r.kind = 'trace' AND r.identity = {TRACE_ID})
"""  # noqa: S608 — the same


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionState:
    """The times from which the store is complete, ns since the epoch (0 if nothing was removed), and removed items.

    Attributes:
        conversations_from_ns: closed conversations that ended before this time were removed.
        results_from_ns: results before this time were removed; never later than `conversations_from_ns`.
        conversations: number of conversations removed so far.
        spans: number of spans removed so far.
        log_records: number of log records removed so far.
    """

    conversations_from_ns: int = 0
    results_from_ns: int = 0
    conversations: int = 0
    spans: int = 0
    log_records: int = 0


def retention_state(con: DuckDBPyConnection) -> RetentionState:
    """Return the times from which the store is complete, and the number of removed items."""
    for row in con.execute(_RETENTION_STATE).fetchall():
        return from_row(RetentionState, row)
    return RetentionState()


def has_removed(con: DuckDBPyConnection) -> bool:
    """Return whether any conversation or trace was ever removed; if none was, nothing needs to be looked up."""
    return bool(con.execute(_HAS_REMOVED).fetchall())


def removed_keys(con: DuckDBPyConnection, keys: Iterable[Key]) -> set[Key]:
    """Return the removed conversations among `keys`; their late spans are not rebuilt."""
    return {
        (environment, conversation_id)
        for environment, conversation_id in rows_with(con, key_columns(keys), _REMOVED_KEYS)
    }


def removed_traces(con: DuckDBPyConnection, trace_ids: Iterable[str]) -> set[str]:
    """Return the removed traces among `trace_ids`; their late spans are not rebuilt."""
    return {trace_id for (trace_id,) in rows_with(con, {"trace_id": sorted(set(trace_ids))}, _REMOVED_TRACES)}
