"""Conversations, turns and tool calls in the store, revision by revision."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import orjson

from otel_agentic.conversations.model import CLOCK_TOLERANCE_NS, Conversation, ConversationId, ModelUse, ToolCall, Turn
from otel_agentic.store.definitions import definitions_hash, load_definitions, save_definitions
from otel_agentic.store.results import drop_results, drop_superseded_results
from otel_agentic.store.span_columns import bucket_of
from otel_agentic.store.table import Key, Table, json_text, key_columns, rows_with

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from duckdb import DuckDBPyConnection

_CURRENT: Final = """
SELECT
    environment, conversation_id, revision, closed_by IS NOT NULL, superseded, ambiguous_link, content_hash,
    epoch_ns(built_at)
FROM conversations
SEMI JOIN requested USING (environment, conversation_id)
QUALIFY row_number() OVER (PARTITION BY environment, conversation_id ORDER BY revision DESC) = 1
"""
_SUPERSEDE: Final = """
UPDATE conversations c SET superseded = true FROM requested w
WHERE c.environment = w.environment AND c.conversation_id = w.conversation_id AND NOT c.superseded
"""
_KNOWN: Final = """
SELECT count(*), count(*) FILTER (c.revision = w.revision)
FROM conversations c JOIN requested w USING (environment, conversation_id)
"""
#: One statement a table: an open conversation is rewritten in place, so its rows of that revision go first.
_DELETE: Final = tuple(
    f"DELETE FROM {table} t USING requested w WHERE t.environment = w.environment "  # noqa: S608 — our own table names
    "AND t.conversation_id = w.conversation_id AND t.revision = w.revision"
    for table in ("conversations", "turns", "tool_calls")
)
_SELECTED: Final = """
SELECT
    environment, conversation_id, revision, agent, agent_version, service, epoch_ns(started_at), epoch_ns(ended_at),
    closed_by, link_method, case_id, verdict, definitions_hash, final_state, user_hash, session_hash
FROM conversations
SEMI JOIN requested USING (environment, conversation_id)
WHERE NOT superseded
ORDER BY started_at, environment, conversation_id
"""
_TURNS: Final = """
SELECT
    t.environment, t.conversation_id, t.turn_index, t.query, t.query_captured, t.answer, t.answer_captured, t.error,
    t.trace_id, t.span_id, epoch_ns(t.started_at), epoch_ns(t.ended_at), t.response_id, t.dialect, t.scope,
    t.models, t.plans
FROM turns t
JOIN conversations c USING (environment, conversation_id, revision)
SEMI JOIN requested USING (environment, conversation_id)
WHERE NOT c.superseded
ORDER BY t.turn_index
"""
_CALLS: Final = """
SELECT
    t.environment, t.conversation_id, t.turn_index, t.name, t.kind, t.step, t.position, t.arguments, t.result,
    t.result_captured, t.error, t.call_id, t.trace_id, t.span_id, t.parent_span_id, t.agent_name, t.source, t.used_flag,
    epoch_ns(t.started_at), epoch_ns(t.ended_at)
FROM tool_calls t
JOIN conversations c USING (environment, conversation_id, revision)
SEMI JOIN requested USING (environment, conversation_id)
WHERE NOT c.superseded
ORDER BY t.turn_index, t.position
"""
#: What a turn holds besides its content: who read it is no news to anybody who scored it. Facts have a place of their own.
_NOT_CONTENT: Final = frozenset({"calls", "dialect", "scope", "models", "plans"})
#: The same of a call: its times are those of a span that it names.
_NOT_CONTENT_OF_CALL: Final = frozenset({"started_ns", "ended_ns"})
#: Of conversations with a span that ended long after it was received: when the first of their spans was.
_CLOCK_AHEAD: Final = """
SELECT environment, conversation_id, epoch_ns(min(received_from))
FROM trace_links SEMI JOIN requested USING (environment, conversation_id)
GROUP BY environment, conversation_id HAVING bool_or(clock_ahead)
"""
_WINDOW_TIMES: Final = """
SELECT DISTINCT epoch_ns(window_time) FROM conversations SEMI JOIN requested USING (environment, conversation_id)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Current:
    """The newest revision of a conversation; `built_ns` is when it was built.

    `dissolved` tells that its traces went to other conversations, so that none of its revisions counts.
    """

    revision: int
    closed: bool
    dissolved: bool
    ambiguous_link: bool
    content_hash: str
    built_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """A conversation as it was just rebuilt, ready to be saved."""

    conversation: Conversation
    ambiguous_link: bool


def content_hash(conversation: Conversation) -> str:
    """Return a hash of everything that a conversation says: not its revision, nor what closed it.

    Facts of which there are none take no part, so that a conversation without any is the same as before they were kept; one
    that was written then, and has some, becomes a new revision when it is rebuilt.
    """
    said = [
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
    return hashlib.blake2b(json_text(said).encode(), digest_size=16).hexdigest()


def _turn_content(turn: Turn) -> list[Any]:
    fields = [getattr(turn, name) for name in _TURN_CONTENT]
    return [*fields, [[getattr(call, name) for name in _CALL_CONTENT] for call in turn.calls]]


def _facts(conversation: Conversation) -> list[Any]:
    facts = {
        "models": [[_use(use) for use in turn.models] for turn in conversation.turns],
        "plans": [turn.plans for turn in conversation.turns],
        "definitions": definitions_hash(conversation.tool_definitions),
        "state": conversation.final_state,
    }
    told = {name: fact for name, fact in facts.items() if (any(fact) if isinstance(fact, list) else fact is not None)}
    return [told] if told else []


def _use(use: ModelUse) -> dict[str, Any]:
    return {name: getattr(use, name) for name in ModelUse.__slots__}


_TURN_CONTENT: Final = tuple(name for name in Turn.__slots__ if name not in _NOT_CONTENT)
_CALL_CONTENT: Final = tuple(name for name in ToolCall.__slots__ if name not in _NOT_CONTENT_OF_CALL)


def current_revisions(con: DuckDBPyConnection, keys: Iterable[Key]) -> dict[Key, Current]:
    """Return the newest revision of each conversation that has one."""
    rows = rows_with(con, key_columns(keys), _CURRENT)
    return {
        (row[0], row[1]): Current(
            revision=row[2],
            closed=row[3] and not row[4],
            dissolved=row[4],
            ambiguous_link=row[5],
            content_hash=row[6],
            built_ns=row[7],
        )
        for row in rows
    }


def save_conversations(con: DuckDBPyConnection, built: Sequence[Built], now_ns: int) -> None:
    """Write revisions. One whose number is there already (it was open) is replaced; an older one is superseded.

    The result of a superseded revision goes at once: the conversation counts as not scored until the new one is scored.
    """
    if not built:
        return
    conversations = [item.conversation for item in built]
    keys = [(conversation.environment, str(conversation.conversation_id)) for conversation in conversations]
    requested: dict[str, Sequence[str | int]] = {
        "environment": [environment for environment, _ in keys],
        "conversation_id": [name for _, name in keys],
        "revision": [conversation.revision for conversation in conversations],
    }
    ((known, same_revision),) = rows_with(con, requested, _KNOWN)
    for statement, needed in (*((each, same_revision) for each in _DELETE), (_SUPERSEDE, known)):
        if needed:
            rows_with(con, requested, statement, fetch=False)
    if known > same_revision:
        drop_superseded_results(con, keys)
    hashes = [definitions_hash(conversation.tool_definitions) for conversation in conversations]
    given = zip(hashes, (conversation.tool_definitions for conversation in conversations), strict=True)
    save_definitions(con, dict(given))
    columns = {
        **_conversation_columns(built, now_ns),
        "definitions_hash": hashes,
        "window_time": _window_times(con, conversations),
    }
    Table(con, "conversations").insert(con, columns)
    Table(con, "turns").insert(con, _turn_columns(conversations))
    Table(con, "tool_calls").insert(con, _call_columns(conversations))


def supersede(con: DuckDBPyConnection, keys: Iterable[Key]) -> None:
    """Mark the newest revisions of conversations that dissolved into others as superseded; their results go."""
    gone = list(keys)
    rows_with(con, key_columns(gone), _SUPERSEDE, fetch=False)
    drop_results(con, gone)


def load_conversations(con: DuckDBPyConnection, keys: Iterable[Key]) -> list[Conversation]:
    """Return the newest revisions of some conversations, by start time."""
    requested = key_columns(keys)
    calls: dict[tuple[str, str, int], list[ToolCall]] = {}
    for row in rows_with(con, requested, _CALLS):
        calls.setdefault((row[0], row[1], row[2]), []).append(_call(row))
    turns: dict[Key, list[Turn]] = {}
    for row in rows_with(con, requested, _TURNS):
        turns.setdefault((row[0], row[1]), []).append(_turn(row, tuple(calls.get((row[0], row[1], row[2]), ()))))
    rows = rows_with(con, requested, _SELECTED)
    definitions = load_definitions(con, {row[12] for row in rows})
    return [
        Conversation(
            environment=row[0],
            conversation_id=ConversationId(row[1]),
            revision=row[2],
            agent_name=row[3],
            agent_version=row[4],
            service=row[5],
            started_ns=row[6],
            ended_ns=row[7],
            closed_by=row[8],
            link_method=row[9],
            case_id=row[10],
            verdict=row[11],
            turns=tuple(turns.get((row[0], row[1]), ())),
            tool_definitions=definitions.get(row[12]),
            final_state=_json(row[13]),
            user_hash=row[14],
            session_hash=row[15],
        )
        for row in rows
    ]


def window_times(con: DuckDBPyConnection, keys: Iterable[Key]) -> list[int]:
    """Return when some conversations count in windows, ns: each time that one of their revisions had, once."""
    return [time_ns for (time_ns,) in rows_with(con, key_columns(keys), _WINDOW_TIMES)]


def _window_times(con: DuckDBPyConnection, conversations: Sequence[Conversation]) -> list[int]:
    """Return when conversations count: at their end, capped where a sender's clock is ahead.

    The cap rests on the first arrival, which nothing that comes later changes.
    """
    keys = [(conversation.environment, str(conversation.conversation_id)) for conversation in conversations]
    first = {
        (environment, name): first_ns for environment, name, first_ns in rows_with(con, key_columns(keys), _CLOCK_AHEAD)
    }
    return [
        min(item.ended_ns, first[key] + CLOCK_TOLERANCE_NS) if key in first else item.ended_ns
        for key, item in zip(keys, conversations, strict=True)
    ]


def _turn(row: tuple[Any, ...], calls: tuple[ToolCall, ...]) -> Turn:
    return Turn(
        index=row[2],
        query=row[3],
        query_captured=row[4],
        answer=row[5],
        answer_captured=row[6],
        error=row[7],
        calls=calls,
        trace_id=row[8],
        span_id=row[9],
        started_ns=row[10],
        ended_ns=row[11],
        response_id=row[12],
        dialect=row[13],
        scope=row[14],
        models=tuple(ModelUse(**use) for use in _json(row[15]) or ()),
        plans=tuple(row[16] or ()),
    )


def _call(row: tuple[Any, ...]) -> ToolCall:
    return ToolCall(
        name=row[3],
        kind=row[4],
        step=row[5],
        position=row[6],
        arguments=_json(row[7]),
        result=_json(row[8]),
        result_captured=row[9],
        error=row[10],
        call_id=row[11],
        trace_id=row[12],
        span_id=row[13],
        parent_span_id=row[14],
        agent_name=row[15],
        source=row[16],
        used_flag=row[17],
        started_ns=row[18],
        ended_ns=row[19],
    )


def _json(text: str | None) -> Any:
    return None if text is None else orjson.loads(text)


def _conversation_columns(built: Sequence[Built], now_ns: int) -> Mapping[str, Sequence[Any]]:
    conversations = [item.conversation for item in built]
    return {
        "environment": [item.environment for item in conversations],
        "conversation_id": [str(item.conversation_id) for item in conversations],
        "revision": [item.revision for item in conversations],
        "superseded": [False] * len(conversations),
        "agent": [item.agent_name for item in conversations],
        "agent_version": [item.agent_version for item in conversations],
        "service": [item.service for item in conversations],
        "started_at": [item.started_ns for item in conversations],
        "ended_at": [item.ended_ns for item in conversations],
        "closed_by": [item.closed_by for item in conversations],
        "link_method": [item.link_method for item in conversations],
        "ambiguous_link": [item.ambiguous_link for item in built],
        "case_id": [item.case_id for item in conversations],
        "verdict": [item.verdict for item in conversations],
        "turn_count": [len(item.turns) for item in conversations],
        "call_count": [sum(len(turn.calls) for turn in item.turns) for item in conversations],
        "content_captured": [item.content_captured for item in conversations],
        "content_hash": [content_hash(item) for item in conversations],
        "bucket": [bucket_of(f"{item.environment}\0{item.conversation_id}") for item in conversations],
        "built_at": [now_ns] * len(conversations),
        "final_state": [item.final_state for item in conversations],
        "user_hash": [item.user_hash for item in conversations],
        "session_hash": [item.session_hash for item in conversations],
    }


def _turn_columns(conversations: Sequence[Conversation]) -> Mapping[str, Sequence[Any]]:
    rows = [(item, turn) for item in conversations for turn in item.turns]
    return {
        "environment": [item.environment for item, _ in rows],
        "conversation_id": [str(item.conversation_id) for item, _ in rows],
        "revision": [item.revision for item, _ in rows],
        "turn_index": [turn.index for _, turn in rows],
        "query": [turn.query for _, turn in rows],
        "query_captured": [turn.query_captured for _, turn in rows],
        "answer": [turn.answer for _, turn in rows],
        "answer_captured": [turn.answer_captured for _, turn in rows],
        "error": [turn.error for _, turn in rows],
        "response_id": [turn.response_id for _, turn in rows],
        "trace_id": [turn.trace_id for _, turn in rows],
        "span_id": [turn.span_id for _, turn in rows],
        "dialect": [turn.dialect for _, turn in rows],
        "scope": [turn.scope for _, turn in rows],
        "started_at": [turn.started_ns for _, turn in rows],
        "ended_at": [turn.ended_ns for _, turn in rows],
        "models": [[_use(use) for use in turn.models] or None for _, turn in rows],
        "plans": [turn.plans or None for _, turn in rows],
    }


def _call_columns(conversations: Sequence[Conversation]) -> Mapping[str, Sequence[Any]]:
    rows = [(item, turn, call) for item in conversations for turn in item.turns for call in turn.calls]
    return {
        "environment": [item.environment for item, _, _ in rows],
        "conversation_id": [str(item.conversation_id) for item, _, _ in rows],
        "revision": [item.revision for item, _, _ in rows],
        "turn_index": [turn.index for _, turn, _ in rows],
        "position": [call.position for _, _, call in rows],
        "step": [call.step for _, _, call in rows],
        "kind": [call.kind for _, _, call in rows],
        "name": [call.name for _, _, call in rows],
        "arguments": [call.arguments for _, _, call in rows],
        "result": [call.result for _, _, call in rows],
        "result_captured": [call.result_captured for _, _, call in rows],
        "error": [call.error for _, _, call in rows],
        "call_id": [call.call_id for _, _, call in rows],
        "trace_id": [call.trace_id for _, _, call in rows],
        "span_id": [call.span_id for _, _, call in rows],
        "parent_span_id": [call.parent_span_id for _, _, call in rows],
        "agent_name": [call.agent_name for _, _, call in rows],
        "source": [call.source for _, _, call in rows],
        "used_flag": [call.used_flag for _, _, call in rows],
        "started_at": [call.started_ns for _, _, call in rows],
        "ended_at": [call.ended_ns for _, _, call in rows],
    }
