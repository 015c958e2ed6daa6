"""Scored conversations as tables of plain values; columns are named as in the DuckDB file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from otel_agentic.errors import UsageError
from otel_agentic.evaluators.identity import target_of
from otel_agentic.pipeline.faults import fault_rows
from otel_agentic.scoring.model import DIMENSIONS
from otel_agentic.windows import scored_conversation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from otel_agentic.pipeline.faults import ScoredAttempt
    from otel_agentic.scoring.model import Dimension

TableName = Literal["conversations", "turns", "tools", "faults", "metrics"]
TABLES: Final[tuple[TableName, ...]] = get_args(TableName)
#: The type of a column: `time` is nanoseconds since the epoch, `json` any JSON value.
ColumnKind = Literal["text", "int", "float", "bool", "time", "json"]
Row = dict[str, Any]

_KEY: Final[Mapping[str, ColumnKind]] = {"environment": "text", "conversation_id": "text"}
_SCORES: Final[Mapping[str, ColumnKind]] = dict.fromkeys(DIMENSIONS, "float")
_CONVERSATIONS: Final[Mapping[str, ColumnKind]] = {
    **_KEY,
    **dict.fromkeys(("agent", "agent_version", "service"), "text"),
    **dict.fromkeys(("started_at", "ended_at"), "time"),
    **dict.fromkeys(("turn_count", "call_count"), "int"),
    **dict.fromkeys(("dataset", "case_id", "match_method"), "text"),
    "match_confidence": "float",
    **dict.fromkeys(("outcome", "reason", "outcome_source", "computed_outcome", "computed_reason"), "text"),
    **dict.fromkeys(("answer_outcome", "tool_outcome", "both_outcome"), "text"),
    **_SCORES,
    "missing_outputs": "json",
    "warning": "text",
    "explanation": "text",
}
_TURNS: Final[Mapping[str, ColumnKind]] = {
    **_KEY,
    "turn_index": "int",
    "case_turn_index": "int",
    **dict.fromkeys(("query", "answer", "expected_answer"), "text"),
    "also_accepted": "json",
    **dict.fromkeys(("outcome", "reason"), "text"),
    "answer_score": "float",
    **dict.fromkeys(("answer_outcome", "tool_outcome", "explanation"), "text"),
}
_TOOLS: Final[Mapping[str, ColumnKind]] = {
    **_KEY,
    "turn_index": "int",
    **dict.fromkeys(("outcome", "reason"), "text"),
    "overall": "float",
    **_SCORES,
    "evidence": "json",
    "explanation": "text",
}
_FAULTS: Final[Mapping[str, ColumnKind]] = {
    **_KEY,
    **dict.fromkeys(("agent", "agent_version"), "text"),
    "ended_at": "time",
    "turn_index": "int",
    **dict.fromkeys(("tool", "dimension", "fault", "parameter"), "text"),
    **dict.fromkeys(("expected", "actual"), "json"),
    **dict.fromkeys(("trace_id", "span_id", "explanation"), "text"),
}
_METRICS: Final[Mapping[str, ColumnKind]] = {
    **_KEY,
    **dict.fromkeys(("evaluator", "metric", "target"), "text"),
    **dict.fromkeys(("turn_index", "position"), "int"),
    "value": "float",
    **dict.fromkeys(("label", "reason", "explanation", "tool_name", "parameter"), "text"),
    "details": "json",
}
COLUMNS: Final[Mapping[TableName, Mapping[str, ColumnKind]]] = {
    "conversations": _CONVERSATIONS,
    "turns": _TURNS,
    "tools": _TOOLS,
    "faults": _FAULTS,
    "metrics": _METRICS,
}


def rows_of(table: TableName, attempts: Iterable[ScoredAttempt]) -> list[Row]:
    """Return the rows of a table, each with all columns; a missing value is None.

    Raises:
        UsageError: the table is unknown; the message lists the tables.
    """
    if table not in COLUMNS:
        raise UsageError(f"unknown table {table!r}; allowed: {', '.join(TABLES)}")
    return [{name: row.get(name) for name in COLUMNS[table]} for attempt in attempts for row in _ROWS[table](attempt)]


def _conversation_key(attempt: ScoredAttempt) -> Row:
    return {"environment": attempt.conversation.environment, "conversation_id": attempt.score.conversation_id}


def _named(dimensions: Mapping[Dimension, float | None] | Mapping[Dimension, float]) -> Row:
    return {str(name): value for name, value in dimensions.items()}


def _attributes(row: Any, names: Iterable[str]) -> Row:
    return {name: getattr(row, name) for name in names if hasattr(row, name)}


def _conversation(attempt: ScoredAttempt) -> Iterator[Row]:
    conversation = attempt.conversation
    yield {
        **_attributes(attempt.score, _CONVERSATIONS),
        **_conversation_key(attempt),
        "agent": conversation.agent_name,
        "agent_version": conversation.agent_version,
        "service": conversation.service,
        "started_at": conversation.started_ns or None,
        "ended_at": conversation.ended_ns or None,
        "turn_count": len(conversation.turns),
        "call_count": sum(len(turn.calls) for turn in conversation.turns),
        **_named(scored_conversation(conversation, attempt.match.case, attempt.score).dimensions),
        "missing_outputs": list(attempt.score.missing_outputs),
    }


def _turns(attempt: ScoredAttempt) -> Iterator[Row]:
    turns = {turn.index: turn for turn in attempt.conversation.turns}
    expected = () if attempt.match.case is None else attempt.match.case.turns
    for score in attempt.score.turns:
        turn, index = turns[score.turn_index], score.case_turn_index
        yield {
            **_attributes(score, _TURNS),
            **_conversation_key(attempt),
            "query": turn.query,
            "answer": turn.answer,
            "expected_answer": None if index is None else expected[index].first_answer,
            "also_accepted": None if index is None else list(expected[index].accepted_answers[1:]) or None,
        }


def _tools(attempt: ScoredAttempt) -> Iterator[Row]:
    for score in attempt.score.tools:
        yield {
            **_attributes(score, _TOOLS),
            **_conversation_key(attempt),
            **_named(score.dimensions),
            "evidence": dict(score.evidence) or None,
        }


def _faults(attempt: ScoredAttempt) -> Iterator[Row]:
    for fault in fault_rows(attempt.conversation, attempt.score):
        yield {
            **fault,
            **_conversation_key(attempt),
            "agent": attempt.conversation.agent_name,
            "agent_version": attempt.conversation.agent_version,
            "ended_at": attempt.conversation.ended_ns or None,
        }


def _metrics(attempt: ScoredAttempt) -> Iterator[Row]:
    for evaluator, scores in attempt.evaluator_scores.items():
        for score in scores:
            yield {
                **_attributes(score, _METRICS),
                **_conversation_key(attempt),
                "evaluator": evaluator,
                "metric": score.name,
                "target": target_of(score),
                "details": dict(score.details) or None,
            }


_ROWS: Final[Mapping[str, Callable[[ScoredAttempt], Iterator[Row]]]] = {
    "conversations": _conversation,
    "turns": _turns,
    "tools": _tools,
    "faults": _faults,
    "metrics": _metrics,
}
