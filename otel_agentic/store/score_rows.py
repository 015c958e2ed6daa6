"""Scores as rows of `scores`, `matches`, `tool_faults`, `tool_counts` and `call_pairs`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, cast

from otel_agentic.evaluators.base import CORE, MetricScore, Target
from otel_agentic.evaluators.score_ids import core_score_ids, target_of
from otel_agentic.scoring.criteria import CASE_CRITERIA
from otel_agentic.scoring.model import (
    ConversationScore,
    FaultKind,
    ToolFault,
    ToolScore,
    TurnScore,
    faulty,
    impacts_of,
    judged_calls,
)
from otel_agentic.scoring.pairs import CallPair, alternative_of, call_pairs, tool_counts
from otel_agentic.scoring.scope import DIMENSIONS, Dimension, effect_of
from otel_agentic.store.connection import DEFAULT
from otel_agentic.store.table import (
    Measured,
    NewRows,
    Raw,
    Scored,
    fields_of,
)

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from otel_agentic.conversations.model import Conversation
    from otel_agentic.scoring.scope import FailReason, NotEvaluatedReason, Outcome
    from otel_agentic.truth.match import Match
    from otel_agentic.truth.model import Effect

#: The names of core scores; the last one is of each expectation of tools.
CONVERSATION: Final = "agentic.conversation"
ANSWER: Final = "agentic.answer"
TOOLS: Final = "agentic.tool.overall"
#: Condition on rows of `scores` that a judge scored an answer: an answer of which it is unsure has a score in its details only.
HAS_ANSWER_SCORE: Final = f"name = '{ANSWER}' AND target = 'turn' AND (value IS NOT NULL OR reason = 'judge_unsure')"
#: Fields of a conversation's score with a column, and those that are members of `details` unless they are empty.
CONVERSATION_COLUMNS: Final = (
    "dataset", "case_id", "case_version", "outcome_source", "computed_outcome", "computed_reason", "known_failure",
    "partial", "pass_probability",
)  # fmt: skip
CONVERSATION_DETAILS: Final = (
    "answer_outcome", "tool_outcome", "both_outcome", "match_method", "match_confidence", "warning", "missing_outputs",
)  # fmt: skip


def match_rows(con: DuckDBPyConnection, identity: Mapping[str, list[Any]], scored: Sequence[Scored]) -> NewRows:
    """Return the rows of `matches`: the case of each conversation."""
    matches = [item.match for item in scored]
    suggestions = [match.suggestion for match in matches]
    case: Callable[[Match, str], Any] = lambda match, name: getattr(match.case, name) if match.case else None  # noqa: E731
    return NewRows(
        con,
        "matches",
        {
            **identity,
            **fields_of(matches, "method", "confidence", "reason", "warning"),
            "dataset": [case(match, "dataset") for match in matches],
            "case_id": [case(match, "case_id") for match in matches],
            "case_version": [case(match, "version") for match in matches],
            "candidates": [list(match.candidates) for match in matches],
            "suggested_dataset": [suggestion and suggestion.case.dataset for suggestion in suggestions],
            "suggested_case_id": [suggestion and suggestion.case.case_id for suggestion in suggestions],
            "suggested_confidence": [suggestion and suggestion.confidence for suggestion in suggestions],
            "suggested_margin": [suggestion and suggestion.margin for suggestion in suggestions],
        },
    )


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


def identity_of(
    evaluation_ids: Sequence[str], items: Sequence[ConversationScore] | Sequence[Conversation]
) -> dict[str, list[Any]]:
    """Return the columns that identify an evaluation and a conversation revision."""
    return {"evaluation_id": list(evaluation_ids), **fields_of(items, "environment", "conversation_id", "revision")}


_Scores = list[tuple["Conversation", "ConversationScore", "ToolScore"]]


def fault_rows(con: DuckDBPyConnection, evaluation_id: str, scores: _Scores) -> NewRows:
    """Return the rows of `tool_faults`."""
    rows = [(conversation, score, tools, fault) for conversation, score, tools in scores for fault in tools.faults]
    faults = [fault for *_, fault in rows]
    impacts = [impact for _, _, tools in scores for impact in impacts_of(tools)]
    return NewRows(
        con,
        "tool_faults",
        {
            **identity_of([evaluation_id] * len(rows), [score for _, score, _, _ in rows]),
            **fields_of(faults, "turn_index", "tool_name", "parameter", "expected_index", "actual_position"),
            **fields_of(faults, "span_id", "explanation"),
            **fields_of(impacts, "failed", "tried"),
            "fault": [fault.kind for fault in faults],
            "dimension": [FAULT_DIMENSION[fault.kind] for fault in faults],
            "effect": [_effect(tools, fault) for _, _, tools, fault in rows],
            "expected": [_value(fault.expected, exists=_is_expected(fault)) for fault in faults],
            "actual": [_value(fault.actual, exists=fault.parameter is not None and fault.provided) for fault in faults],
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
    """Return the JSON value of a column: for None, JSON's `null` if the value exists, and SQL's null otherwise."""
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


def count_rows(con: DuckDBPyConnection, evaluation_id: str, scores: _Scores) -> NewRows:
    """Return the rows of `tool_counts`."""
    rows = [(score, tools.turn_index, count) for _, score, tools in scores for count in tool_counts(tools)]
    return NewRows(
        con,
        "tool_counts",
        {
            **identity_of([evaluation_id] * len(rows), [score for score, _, _ in rows]),
            "turn_index": [turn_index for _, turn_index, _ in rows],
            **fields_of([count for _, _, count in rows], *_COUNTS),
            "actual": [count.actual for _, _, count in rows],
            "unexpected": [count.unasked for _, _, count in rows],
        },
    )


def pair_rows(con: DuckDBPyConnection, evaluation_id: str, scored: Sequence[Scored]) -> NewRows:
    """Return the rows of `call_pairs`."""
    rows = [
        (evaluation_id, item.score.environment, item.score.conversation_id, item.score.revision, alternative, *pair)
        for item in scored
        for tools in item.score.tools
        for alternative in (alternative_of(tools, item.score, item.match.case),)
        for pair in call_pairs(tools)
    ]
    names = ("evaluation_id", "environment", "conversation_id", "revision", "alternative", *CallPair._fields)
    return NewRows(con, "call_pairs", dict(zip(names, zip(*rows, strict=True), strict=True)) if rows else {})


#: The columns of `scores` with equal values in all scores of one evaluator and conversation.
_IDENTITY: Final = (
    "evaluation_id", "evaluation", "evaluator", "evaluator_version", "environment", "conversation_id", "revision",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows of `scores`; `columns` are the values of columns that only some core scores have, empty without core scores."""

    identities: list[tuple[Any, ...]] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    targets: list[str] = field(default_factory=list)
    scores: list[MetricScore] = field(default_factory=list)
    columns: list[Mapping[str, Any]] = field(default_factory=list)

    def converted(self, con: DuckDBPyConnection, now_ns: int) -> NewRows:
        """Return the rows, of which there is at least one, as arrays."""
        size, scores = len(self.scores), self.scores
        names = dict.fromkeys(chain.from_iterable(dict.fromkeys(map(tuple, self.columns))))
        return NewRows(
            con,
            "scores",
            {
                **dict(zip(_IDENTITY, zip(*self.identities, strict=True), strict=True)),
                "score_id": self.ids,
                "target": self.targets,
                **fields_of(scores, "turn_index", "position", "name", "label", "reason", "tool_name", "parameter"),
                "value": [None if score.value is None else float(score.value) for score in scores],
                "explanation": [score.explanation or None for score in scores],
                "details": [score.details or None for score in scores],
                "superseded": [False] * size,
                "scored_at": [now_ns] * size,
                **{name: [columns.get(name) for columns in self.columns] for name in names},
            },
        )


def score_rows(
    con: DuckDBPyConnection,
    measured: Iterable[Measured],
    now_ns: int,
    core: Iterable[Scored] = (),
    *,
    evaluation_id: str = "",
    evaluation: str = DEFAULT,
) -> list[NewRows]:
    """Return the core scores of conversations, which have more columns, and the scores of evaluators.

    Args:
        con: a connection.
        measured: the scores of evaluators.
        now_ns: the current time.
        core: the conversations whose core scores are included.
        evaluation_id: the evaluation of the core scores.
        evaluation: its name.
    """
    rows = _Rows()
    for scored in core:
        score = scored.score
        identity = (
            evaluation_id, evaluation, CORE, evaluation_id, score.environment, score.conversation_id, score.revision,
        )  # fmt: skip
        items = list(_core_scores(scored, now_ns))
        ids = core_score_ids(score, evaluation_id, [(metric_score.name, *key) for _, key, metric_score, _ in items])
        rows.identities.extend([identity] * len(items))
        rows.ids.extend(ids)
        rows.targets.extend([target for target, *_ in items])
        rows.scores.extend([metric_score for _, _, metric_score, _ in items])
        rows.columns.extend([columns for *_, columns in items])
    plain = _Rows()
    for item in measured:
        plain.identities.extend([_identity_of(item)] * len(item.scores))
        plain.ids.extend(item.score_ids)
        plain.targets.extend(map(target_of, item.scores))
        plain.scores.extend(
            [score if score.reason is None or score.abstained else replace(score, reason=None) for score in item.scores]
        )
    return [part.converted(con, now_ns) for part in (rows, plain) if part.scores]


def _identity_of(item: Measured) -> tuple[Any, ...]:
    conversation, evaluator = item.conversation, item.evaluator
    return (
        item.evaluation_id,
        item.evaluation,
        evaluator.name,
        evaluator.version,
        conversation.environment,
        str(conversation.conversation_id),
        conversation.revision,
    )


#: Target, key that distinguishes scores of one name, score, and further columns.
_CoreScore = tuple[Target, tuple[int | str | None, ...], MetricScore, Mapping[str, Any]]


def _core_scores(item: Scored, now_ns: int) -> Iterator[_CoreScore]:
    score = item.score
    total = _core_score(
        CONVERSATION,
        score.outcome,
        score.reason,
        value=_VALUES[score.outcome],
        explanation=score.explanation,
        details=_details_of(score),
    )
    columns = {
        "fail_reason": _fail_reason(score.outcome, score.reason),
        **{name: getattr(score, name) for name in CONVERSATION_COLUMNS},
        "sample_ratio": item.sample_ratio,
        "metrics_at": now_ns if item.metrics else None,
    }
    yield "conversation", (), total, columns
    for name, outcome, reason, explanation in score.annotated:
        if name in CASE_CRITERIA:
            value = _VALUES[outcome]
            criterion = _core_score(f"agentic.{name}", outcome, reason, value=value, explanation=explanation)
            yield "conversation", ("criterion",), criterion, {}
    yield from map(_turn_score, score.turns)
    for tools in score.tools:
        yield from _tool_scores(tools)
    has_faults = any(tools.faults for tools in score.tools)
    for call, fault in faulty(judged_calls(item.conversation, score)) if has_faults else ():
        call_score = MetricScore(
            name="agentic.tool.call",
            value=0.0,
            label="fail",
            explanation=fault.explanation,
            turn_index=call.turn_index,
            position=call.actual_position,
            tool_name=call.tool_name,
        )
        yield "call", call.score_key(fault), call_score, {}


def _turn_score(turn: TurnScore) -> _CoreScore:
    outcome, reason = turn.answer_outcome, turn.answer_reason
    is_open = outcome == "not_evaluated"
    score = _core_score(
        ANSWER,
        outcome,
        reason,
        value=None if is_open else turn.answer_score,
        explanation=turn.explanation,
        turn_index=turn.turn_index,
        details=_present({"tool_outcome": turn.tool_outcome, "answer_score": turn.answer_score if is_open else None}),
    )
    columns = {
        "fail_reason": _fail_reason(outcome, reason),
        "computed_outcome": turn.outcome,
        "computed_reason": turn.reason,
        "case_turn_index": turn.case_turn_index,
    }
    return "turn", (turn.turn_index,), score, columns


def _tool_scores(tools: ToolScore) -> Iterator[_CoreScore]:
    """Yield the score of an expectation, and that of each dimension that applies."""
    target: Target = "conversation" if tools.turn_index is None else "turn"
    key, explanation, dimensions = (tools.turn_index,), tools.explanation, tools.dimensions
    columns: dict[str, Any] = {
        "fail_reason": _fail_reason(tools.outcome, tools.reason),
        **{name: dimensions.get(name) for name in DIMENSIONS},
    }
    overall = _core_score(
        TOOLS,
        tools.outcome,
        tools.reason,
        value=tools.overall,
        explanation=explanation,
        turn_index=tools.turn_index,
        details=tools.evidence,
    )
    yield target, key, overall, columns
    for name in DIMENSIONS:
        if (value := dimensions.get(name)) is not None:
            outcome: Outcome = "pass" if value >= 1.0 else "fail"
            score = _core_score(
                f"agentic.tool.{name}",
                "not_evaluated" if tools.outcome == "not_evaluated" else outcome,
                tools.reason,
                value=value,
                explanation=explanation,
                turn_index=tools.turn_index,
            )
            yield target, key, score, {}


_VALUES: Final[Mapping[str, float | None]] = {"pass": 1.0, "fail": 0.0, "not_evaluated": None}


def _core_score(
    name: str,
    outcome: Outcome,
    reason: FailReason | NotEvaluatedReason | None,
    *,
    explanation: str,
    value: float | None,
    turn_index: int | None = None,
    details: Mapping[str, Any] | None = None,
) -> MetricScore:
    return MetricScore(
        name=name,
        value=value,
        label=outcome,
        reason=cast("NotEvaluatedReason", reason) if outcome == "not_evaluated" else None,
        explanation=explanation,
        turn_index=turn_index,
        details=details or {},
    )


def _fail_reason(outcome: Outcome, reason: str | None) -> str | None:
    return None if outcome == "not_evaluated" else reason


def _details_of(score: ConversationScore) -> Mapping[str, Any]:
    """Return the deciding criteria, and the fields of the score without a column."""
    reasons = {criterion.name: criterion.reason for criterion in score.criteria if criterion.reason}
    return {
        "criteria": {criterion.name: criterion.outcome for criterion in score.criteria},
        **_present({"reasons": reasons, **{name: getattr(score, name) for name in CONVERSATION_DETAILS}}),
    }


def _present(details: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members that are neither None nor empty; a number of 0 is kept."""
    return {name: value for name, value in details.items() if value is not None and value not in ((), {})}
