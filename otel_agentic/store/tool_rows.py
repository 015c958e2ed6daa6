"""Tool scores, faults, and counts of expected and actual calls, as rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from otel_agentic.scoring.counts import tool_counts
from otel_agentic.scoring.effects import effect_of
from otel_agentic.scoring.impact import impacts_of
from otel_agentic.scoring.model import DIMENSIONS
from otel_agentic.store.table import Raw, Table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from duckdb import DuckDBPyConnection

    from otel_agentic.conversations.model import Conversation
    from otel_agentic.scoring.model import ConversationScore, Dimension, FaultKind, ToolFault, ToolScore
    from otel_agentic.truth.model import Effect

#: The dimension that a fault lowers. A call that returned an error lowers none by itself, because the retry is scored.
FAULT_DIMENSION: Final[Mapping[FaultKind, Dimension | None]] = {
    "missing": "selection",
    "spurious": "selection",
    "forbidden": "selection",
    "wrong_parameters": "parameters",
    "wrong_order": "sequence",
    "unused_result": "utilization",
    "errored": None,
}
_COUNTS: Final = (
    "tool_name", "expected", "errored", "paired", "parameters", "compared", "in_order", "ordered", "used", "known",
)  # fmt: skip

_ScoredPair = tuple["Conversation", "ConversationScore"]


def insert_tools(con: DuckDBPyConnection, evaluation_id: str, scored: Sequence[_ScoredPair]) -> None:
    """Write the tool scores of conversations, their faults and their counts."""
    scores = [(conversation, score, tools) for conversation, score in scored for tools in score.tools]
    _insert_scores(con, evaluation_id, scores)
    _insert_faults(con, evaluation_id, scores)
    _insert_counts(con, evaluation_id, scores)


def identity_of(evaluation_id: str, scores: Sequence[ConversationScore]) -> dict[str, list[Any]]:
    """Return the columns that identify an evaluation and a conversation revision."""
    return {
        "evaluation_id": [evaluation_id] * len(scores),
        "environment": [score.environment for score in scores],
        "conversation_id": [score.conversation_id for score in scores],
        "revision": [score.revision for score in scores],
    }


def fields_of(items: Sequence[Any], *names: str) -> dict[str, list[Any]]:
    """Return columns filled from the fields of the same name."""
    return {name: [getattr(item, name) for item in items] for name in names}


_Scores = list[tuple["Conversation", "ConversationScore", "ToolScore"]]


def _insert_scores(con: DuckDBPyConnection, evaluation_id: str, rows: _Scores) -> None:
    scores = [tools for _, _, tools in rows]
    Table(con, "tool_scores").insert(
        con,
        {
            **identity_of(evaluation_id, [score for _, score, _ in rows]),
            **fields_of(scores, "turn_index", "outcome", "reason", "overall", "explanation"),
            **{name: [tools.dimensions.get(name) for tools in scores] for name in DIMENSIONS},
            "evidence": [tools.evidence or None for tools in scores],
        },
    )


def _insert_faults(con: DuckDBPyConnection, evaluation_id: str, scores: _Scores) -> None:
    rows = [(conversation, score, tools, fault) for conversation, score, tools in scores for fault in tools.faults]
    faults = [fault for *_, fault in rows]
    impacts = [impact for _, _, tools in scores for impact in impacts_of(tools)]
    Table(con, "tool_faults").insert(
        con,
        {
            **identity_of(evaluation_id, [score for _, score, _, _ in rows]),
            **fields_of(faults, "turn_index", "tool_name", "parameter", "expected_index"),
            "actual_position": [fault.made_position for fault in faults],
            **fields_of(faults, "span_id", "explanation"),
            **fields_of(impacts, "failed", "tried"),
            "fault": [fault.kind for fault in faults],
            "dimension": [FAULT_DIMENSION[fault.kind] for fault in faults],
            "effect": [_effect(tools, fault) for _, _, tools, fault in rows],
            "expected": [_value(fault.expected, exists=_is_expected(fault)) for fault in faults],
            "actual": [_value(fault.made, exists=fault.parameter is not None and fault.given) for fault in faults],
            "expected_call": [_expected_call(tools, fault) for _, _, tools, fault in rows],
            "trace_id": [_trace_of(conversation, fault) for conversation, _, _, fault in rows],
        },
    )


def _is_expected(fault: ToolFault) -> bool:
    """Return whether a fault concerns an expected parameter."""
    return fault.parameter is not None and fault.mode is not None


def _effect(tools: ToolScore, fault: ToolFault) -> Effect | None:
    """Return the effect of the tool of a fault, or None if the score has no calls whose rules define it."""
    return None if tools.raw is None else effect_of(fault.tool_name, tools.raw[0].rules.effects)


def _value(value: Any, *, exists: bool) -> Any:
    """Return the JSON value of a column, which is `null` for None if the value exists, and SQL's null otherwise."""
    return (Raw("null") if value is None else value) if exists else None


def _expected_call(tools: ToolScore, fault: ToolFault) -> Mapping[str, Any] | None:
    """Return the parameters of the expected call of a fault, or None if no call was expected."""
    if fault.expected_index is None:
        return None
    if tools.calls is None:
        return fault.expected if fault.kind == "missing" else None
    return tools.calls.expectation.calls[fault.expected_index].call.parameters


def _trace_of(conversation: Conversation, fault: ToolFault) -> str | None:
    if fault.span_id is None:
        return None
    calls = (call for turn in conversation.turns if turn.index == fault.turn_index for call in turn.calls)
    return next((call.trace_id for call in calls if call.span_id == fault.span_id), None)


def _insert_counts(con: DuckDBPyConnection, evaluation_id: str, scores: _Scores) -> None:
    rows = [(score, tools.turn_index, count) for _, score, tools in scores for count in tool_counts(tools)]
    Table(con, "tool_counts").insert(
        con,
        {
            **identity_of(evaluation_id, [score for score, _, _ in rows]),
            "turn_index": [turn_index for _, turn_index, _ in rows],
            **fields_of([count for _, _, count in rows], *_COUNTS),
            "actual": [count.made for _, _, count in rows],
            "unexpected": [count.unasked for _, _, count in rows],
        },
    )
