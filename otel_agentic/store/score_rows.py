"""Scores as rows of `scores`, `matches`, `tool_faults`, `tool_counts` and `call_pairs`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, TypeAlias

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
    Table,
    fields_of,
    parse_json,
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
#: Selects the scores `s` between two times; null is no bound. They are stored nearly in this order, so that most others are not read.
SCORED_BETWEEN: Final = (
    "($scored_since IS NULL OR s.scored_at >= make_timestamp_ns($scored_since)) "
    "AND ($scored_until IS NULL OR s.scored_at <= make_timestamp_ns($scored_until))"
)
_HOUR_NS: Final = 3_600_000_000_000
#: A conversation is scored after its window time, which is at most five minutes after its first arrival, by a clock that may
#: be set back meanwhile.
_SET_BACK_NS: Final = _HOUR_NS
#: Most conversations are scored within this time after their window time, because idle ones are closed after half of it.
_PROMPT_NS: Final = _HOUR_NS
#: Fields of a conversation's score with a column, and those that are members of `details` unless they are empty.
CONVERSATION_COLUMNS: Final = (
    "dataset", "case_id", "case_version", "outcome_source", "computed_outcome", "computed_reason", "known_failure",
    "partial", "pass_probability",
)  # fmt: skip
CONVERSATION_DETAILS: Final = (
    "answer_outcome", "tool_outcome", "both_outcome", "match_method", "match_confidence", "warning", "missing_outputs",
)  # fmt: skip


#: The types of columns, by table.
Types: TypeAlias = Mapping[str, Mapping[str, str]]
_TABLES: Final = ("scores", "matches", "tool_faults", "tool_counts", "call_pairs")


def scored_since(window_times: Iterable[int]) -> int | None:
    """Return the earliest time at which conversations with these window times were probably scored, ns; None without any."""
    first_ns = min(window_times, default=None)
    return None if first_ns is None else first_ns - _SET_BACK_NS


def probably_scored(window_times: Sequence[int]) -> Iterator[dict[str, int | None]]:
    """Yield parameters of `SCORED_BETWEEN` for conversations with these window times, the most probable first, and no bound last.

    A conversation has only one core score that is not superseded, so a caller stops at the first ones that contain all.
    """
    if window_times:
        since_ns = scored_since(window_times)
        yield {"scored_since": since_ns, "scored_until": max(window_times) + _PROMPT_NS}
        yield {"scored_since": since_ns, "scored_until": None}
    yield {"scored_since": None, "scored_until": None}


def score_types(con: DuckDBPyConnection) -> Types:
    """Return the types of the columns of all tables of scores."""
    return {table: Table(con, table).types for table in _TABLES}


def match_rows(types: Types, identity: Mapping[str, list[Any]], scored: Sequence[Scored], now_ns: int) -> NewRows:
    """Return the rows of `matches`: the case of each conversation."""
    matches = [item.match for item in scored]
    suggestions = [match.suggestion for match in matches]
    case: Callable[[Match, str], Any] = lambda match, name: getattr(match.case, name) if match.case else None  # noqa: E731
    return NewRows.of(
        "matches",
        types["matches"],
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
            "scored_at": [now_ns] * len(scored),
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


def fault_rows(types: Types, evaluation_id: str, scores: _Scores, now_ns: int) -> NewRows:
    """Return the rows of `tool_faults`."""
    rows = [(conversation, score, tools, fault) for conversation, score, tools in scores for fault in tools.faults]
    faults = [fault for *_, fault in rows]
    impacts = [impact for _, _, tools in scores for impact in impacts_of(tools)]
    return NewRows.of(
        "tool_faults",
        types["tool_faults"],
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
            "scored_at": [now_ns] * len(rows),
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


def count_rows(types: Types, evaluation_id: str, scores: _Scores) -> NewRows:
    """Return the rows of `tool_counts`."""
    rows = [(score, tools.turn_index, count) for _, score, tools in scores for count in tool_counts(tools)]
    return NewRows.of(
        "tool_counts",
        types["tool_counts"],
        {
            **identity_of([evaluation_id] * len(rows), [score for score, _, _ in rows]),
            "turn_index": [turn_index for _, turn_index, _ in rows],
            **fields_of([count for _, _, count in rows], *_COUNTS),
            "actual": [count.actual for _, _, count in rows],
            "unexpected": [count.unasked for _, _, count in rows],
        },
    )


def pair_rows(types: Types, evaluation_id: str, scored: Sequence[Scored], now_ns: int) -> NewRows:
    """Return the rows of `call_pairs`."""
    rows = [
        (
            evaluation_id,
            item.score.environment,
            item.score.conversation_id,
            item.score.revision,
            now_ns,
            alternative,
            *pair,
        )
        for item in scored
        for tools in item.score.tools
        for alternative in (alternative_of(tools, item.score, item.match.case),)
        for pair in call_pairs(tools)
    ]
    names = (
        "evaluation_id",
        "environment",
        "conversation_id",
        "revision",
        "scored_at",
        "alternative",
        *CallPair._fields,
    )
    return NewRows.of("call_pairs", types["call_pairs"], _columns(names, rows))


def _columns(names: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> dict[str, Sequence[Any]]:
    """Return rows as columns; without rows, there are no columns."""
    return dict(zip(names, zip(*rows, strict=True), strict=True)) if rows else {}


#: The columns of `scores` with equal values in all scores of one evaluator and conversation.
_IDENTITY: Final = (
    "evaluation_id", "evaluation", "evaluator", "evaluator_version", "environment", "conversation_id", "revision",
)  # fmt: skip


#: The columns of `scores` that follow from a score, in the order of `_row` and `_metric_columns`.
_SCORE: Final = (
    "target", "name", "value", "label", "reason", "explanation", "turn_index", "position", "tool_name", "parameter", "details",
)  # fmt: skip
#: The columns of core scores that no other score has.
_FURTHER: Final = (
    "fail_reason", *CONVERSATION_COLUMNS, "sample_ratio", "metrics_at", "case_turn_index", *DIMENSIONS,
)  # fmt: skip


def core_rows(
    types: Types, scored: Sequence[Scored], now_ns: int, *, evaluation_id: str, evaluation: str = DEFAULT
) -> NewRows:
    """Return the core scores of conversations under an evaluation, which have more columns than other scores."""
    rows: list[tuple[Any, ...]] = []
    identities: list[tuple[Any, ...]] = []
    ids: list[str] = []
    for item in scored:
        score, own = item.score, list(_core_scores(item, now_ns))
        rows += [row for _, row in own]
        ids += core_score_ids(score, evaluation_id, [(row[1], *key) for key, row in own])
        identity = (
            evaluation_id, evaluation, CORE, evaluation_id, score.environment, score.conversation_id, score.revision,
        )  # fmt: skip
        identities += [identity] * len(own)
    return _rows(types, identities, ids, _columns((*_SCORE, *_FURTHER), rows), now_ns)


def metric_rows(types: Types, measured: Iterable[Measured], now_ns: int) -> NewRows:
    """Return the scores of evaluators."""
    scores: list[MetricScore] = []
    identities: list[tuple[Any, ...]] = []
    ids: list[str] = []
    for item in measured:
        scores += item.scores
        ids += item.score_ids
        identities += [_identity_of(item)] * len(item.scores)
    return _rows(types, identities, ids, _metric_columns(scores), now_ns)


def _rows(
    types: Types,
    identities: Sequence[tuple[Any, ...]],
    ids: Sequence[str],
    columns: Mapping[str, Sequence[Any]],
    now_ns: int,
) -> NewRows:
    """Return rows of `scores`, given their identities, ids and other columns."""
    size = len(ids)
    identity = _columns(_IDENTITY, identities)
    constant: dict[str, Sequence[Any]] = {"superseded": [False] * size, "scored_at": [now_ns] * size}
    return NewRows.of("scores", types["scores"], {**identity, "score_id": ids, **columns, **constant} if size else {})


def _metric_columns(scores: Sequence[MetricScore]) -> dict[str, Sequence[Any]]:
    """Return the columns `_SCORE` of scores of evaluators."""
    return {
        "target": list(map(target_of, scores)),
        **fields_of(scores, "name", "label", "turn_index", "position", "tool_name", "parameter"),
        "value": [None if score.value is None else float(score.value) for score in scores],
        "reason": [score.reason if score.value is None and score.label is None else None for score in scores],
        "explanation": [score.explanation or None for score in scores],
        "details": [score.details or None for score in scores],
    }


#: The columns of `scores` that are fields of a score, in the order of its fields.
_FIELDS: Final = (
    "name", "value", "label", "explanation", "reason", "turn_index", "position", "tool_name", "parameter", "details",
)  # fmt: skip


def read_metric_rows(rows: NewRows) -> tuple[list[MetricScore], list[str]]:
    """Return the scores of `metric_rows` and their ids."""
    *columns, ids = rows.columns(*_FIELDS, "score_id")
    scores = [
        MetricScore(
            name=name,
            value=value,
            label=label,
            explanation=explanation or "",
            reason=reason,
            turn_index=turn_index,
            position=position,
            tool_name=tool_name,
            parameter=parameter,
            details=parse_json(details) or {},
        )
        for name, value, label, explanation, reason, turn_index, position, tool_name, parameter, details in zip(
            *columns, strict=True
        )
    ]
    return scores, ids


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


#: What distinguishes scores of one name, and a row.
_CoreScore = tuple[tuple[int | str | None, ...], tuple[Any, ...]]
_NOTHING_FURTHER: Final = (None,) * len(_FURTHER)
_OF_CONVERSATION: Final = attrgetter(*CONVERSATION_COLUMNS)
#: Between `fail_reason` and `computed_outcome`, between `computed_reason` and `case_turn_index`, and between `fail_reason` and the
#: dimensions.
_BEFORE_COMPUTED: Final = (None,) * CONVERSATION_COLUMNS.index("computed_outcome")
_AFTER_COMPUTED: Final = (None,) * (len(CONVERSATION_COLUMNS) - len(_BEFORE_COMPUTED))
_BEFORE_DIMENSIONS: Final = (None,) * (len(_FURTHER) - 1 - len(DIMENSIONS))


def _core_scores(item: Scored, now_ns: int) -> Iterator[_CoreScore]:
    score = item.score
    metrics_at = now_ns if item.metrics else None
    further = (
        _fail_reason(score.outcome, score.reason), *_OF_CONVERSATION(score), item.sample_ratio, metrics_at, None,
        *_NO_DIMENSIONS,
    )  # fmt: skip
    value, details = _VALUES[score.outcome], _details_of(score)
    verdict = (score.outcome, score.reason, score.explanation)
    yield (), _row("conversation", CONVERSATION, value, verdict, details=details, further=further)
    for name, outcome, reason, explanation in score.annotated:
        if name in CASE_CRITERIA:
            value = _VALUES[outcome]
            yield ("criterion",), _row("conversation", f"agentic.{name}", value, (outcome, reason, explanation))
    yield from map(_turn_score, score.turns)
    for tools in score.tools:
        yield from _tool_scores(tools)
    has_faults = any(tools.faults for tools in score.tools)
    for call, fault in faulty(judged_calls(item.conversation, score)) if has_faults else ():
        yield call.score_key(fault), (
            "call", "agentic.tool.call", 0.0, "fail", None, fault.explanation or None, call.turn_index, call.actual_position,
            call.tool_name, None, None, *_NOTHING_FURTHER,
        )  # fmt: skip


def _turn_score(turn: TurnScore) -> _CoreScore:
    outcome, reason = turn.answer_outcome, turn.answer_reason
    is_open = outcome == "not_evaluated"
    value = None if is_open else turn.answer_score
    details = _present({"tool_outcome": turn.tool_outcome, "answer_score": turn.answer_score if is_open else None})
    computed = (*_BEFORE_COMPUTED, turn.outcome, turn.reason, *_AFTER_COMPUTED)
    further = (_fail_reason(outcome, reason), *computed, turn.case_turn_index, *_NO_DIMENSIONS)
    index = turn.turn_index
    verdict = (outcome, reason, turn.explanation)
    return (index,), _row("turn", ANSWER, value, verdict, turn_index=index, details=details, further=further)


def _tool_scores(tools: ToolScore) -> Iterator[_CoreScore]:
    """Yield the score of an expectation, and that of each dimension that applies."""
    target: Target = "conversation" if tools.turn_index is None else "turn"
    index, outcome, reason, explanation = tools.turn_index, tools.outcome, tools.reason, tools.explanation
    values = tuple(map(tools.dimensions.get, DIMENSIONS))
    further = (_fail_reason(outcome, reason), *_BEFORE_DIMENSIONS, *values)
    key = (index,)
    verdict = (outcome, reason, explanation)
    yield key, _row(target, TOOLS, tools.overall, verdict, turn_index=index, details=tools.evidence, further=further)
    for name, value in zip(DIMENSIONS, values, strict=True):
        if value is not None:
            own: Outcome = outcome if outcome == "not_evaluated" else "pass" if value >= 1.0 else "fail"
            yield key, _row(target, f"agentic.tool.{name}", value, (own, reason, explanation), turn_index=index)


_VALUES: Final[Mapping[str, float | None]] = {"pass": 1.0, "fail": 0.0, "not_evaluated": None}
_NO_DIMENSIONS: Final = (None,) * len(DIMENSIONS)


def _row(
    target: Target,
    name: str,
    value: float | None,
    verdict: tuple[Outcome, FailReason | NotEvaluatedReason | None, str],
    *,
    turn_index: int | None = None,
    details: Mapping[str, Any] | None = None,
    further: tuple[Any, ...] = _NOTHING_FURTHER,
) -> tuple[Any, ...]:
    """Return the columns `_SCORE` and `_FURTHER` of a core score; `verdict` is its outcome, reason and explanation."""
    outcome, reason, explanation = verdict
    reason = reason if outcome == "not_evaluated" else None
    return (
        target, name, value, outcome, reason, explanation or None, turn_index, None, None, None, details or None, *further,
    )  # fmt: skip


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
