"""Scores in the store: evaluations, the scores of scoring itself and of all evaluators, and the faults of tools.

The newest score of each conversation and evaluation counts; older ones are kept as superseded. The views
`conversation_scores`, `turn_scores` and `tool_scores` read rows of `scores`, the only table of scores.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, cast

from otel_agentic.evaluators.base import CORE, MetricScore, Target
from otel_agentic.evaluators.score_ids import core_score_id, target_of
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
from otel_agentic.scoring.scope import DIMENSIONS, OPEN_REASONS, Dimension, effect_of
from otel_agentic.store.connection import DEFAULT
from otel_agentic.store.results import save_results
from otel_agentic.store.table import (
    BOUNDS,
    Key,
    Measured,
    NewRows,
    Raw,
    Scored,
    Selection,
    Table,
    bounds,
    columns_of,
    fields_of,
    key_columns,
    rows_with,
)

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from otel_agentic.conversations.model import Conversation
    from otel_agentic.scoring.scope import FailReason, NotEvaluatedReason, Outcome
    from otel_agentic.truth.match import Match
    from otel_agentic.truth.model import Effect

_REMEMBER: Final = """
UPDATE evaluations SET last_run_at = make_timestamp_ns($now) WHERE evaluation_id IN (SELECT unnest($ids))
RETURNING evaluation_id
"""
#: Closed conversations whose newest revision has no score under this evaluation.
_UNSCORED: Final = f"""
SELECT c.environment, c.conversation_id
FROM conversations c
ANTI JOIN (
    SELECT * FROM conversation_scores WHERE evaluation_id = $id AND NOT superseded
) s USING (environment, conversation_id, revision)
WHERE NOT c.superseded AND c.closed_by IS NOT NULL
    AND {BOUNDS}
ORDER BY c.window_time, c.environment, c.conversation_id
"""  # noqa: S608 — a constant of our own
_CLOSED: Final = _UNSCORED.replace("WHERE evaluation_id = $id AND NOT superseded", "WHERE $id IS NULL")
#: Closed conversations whose newest revision has no score of the default evaluation.
_NEVER_SCORED: Final = f"""
SELECT environment, conversation_id
FROM conversations
ANTI JOIN (
    SELECT * FROM conversation_scores WHERE evaluation = '{DEFAULT}' AND NOT superseded
) USING (environment, conversation_id, revision)
WHERE NOT superseded AND closed_by IN ('idle', 'end_mark')
ORDER BY window_time, environment, conversation_id
"""  # noqa: S608 — a constant of our own
_SCORED_BEFORE: Final = """
SELECT DISTINCT environment, conversation_id FROM conversation_scores SEMI JOIN requested USING (environment, conversation_id)
WHERE evaluation = $evaluation
"""
#: One row: whether earlier core scores under the name are of this evaluation and revision, null without any.
_EARLIER: Final = """
SELECT bool_or(s.evaluation_id = w.evaluation_id AND s.revision = w.revision)
FROM conversation_scores s JOIN requested w USING (environment, conversation_id, evaluation)
"""
#: Supersedes the scores of evaluators; also those of other evaluators for another revision, even if these do not run
#: again.
_SUPERSEDE: Final = """
UPDATE scores s SET superseded = true FROM requested w
WHERE s.environment = w.environment AND s.conversation_id = w.conversation_id AND s.evaluation = w.evaluation
    AND NOT s.superseded AND (s.evaluator = w.evaluator OR s.revision <> w.revision)
"""
#: A score of the same conversation revision under the same evaluation is replaced.
_DELETE: Final = {
    table: f"DELETE FROM {table} t USING requested w WHERE t.evaluation_id = w.evaluation_id "  # noqa: S608 — our own table names
    "AND t.environment = w.environment AND t.conversation_id = w.conversation_id AND t.revision = w.revision"
    for table in ("scores", "matches", "tool_faults", "tool_counts", "call_pairs")
}
_NOTE: Final = """
UPDATE scores s SET metrics_at = make_timestamp_ns($now) FROM requested w
WHERE s.name = 'agentic.conversation' AND s.environment = w.environment AND s.conversation_id = w.conversation_id
    AND s.revision = w.revision AND s.evaluation = w.evaluation AND NOT s.superseded
"""
#: The names of core scores; the last one is of each expectation of tools.
CONVERSATION: Final = "agentic.conversation"
ANSWER: Final = "agentic.answer"
TOOLS: Final = "agentic.tool.overall"
#: Fields of a conversation's score with a column, and those that are members of `details` unless they are empty.
CONVERSATION_COLUMNS: Final = (
    "dataset", "case_id", "case_version", "outcome_source", "computed_outcome", "computed_reason", "known_failure",
    "partial", "pass_probability",
)  # fmt: skip
CONVERSATION_DETAILS: Final = (
    "answer_outcome", "tool_outcome", "both_outcome", "match_method", "match_confidence", "warning", "missing_outputs",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """A version of an evaluator: everything that a score depends on, apart from the conversation.

    `name` is the evaluation's name: scores under several names coexist. The evaluation of the core scores has no
    `evaluator` or `evaluator_version`.
    """

    evaluation_id: str
    judge: str
    judge_version: str
    settings_json: str
    truth_version: str
    name: str = DEFAULT
    evaluator: str | None = None
    evaluator_version: str | None = None


def save_evaluations(con: DuckDBPyConnection, evaluations: Sequence[Evaluation], now_ns: int) -> None:
    """Record versions of evaluators; of those that are stored, record that they ran again."""
    ids = [evaluation.evaluation_id for evaluation in evaluations]
    stored = {stored_id for (stored_id,) in con.execute(_REMEMBER, {"now": now_ns, "ids": ids}).fetchall()}
    new = [evaluation for evaluation in evaluations if evaluation.evaluation_id not in stored]
    names = ("evaluation_id", "judge", "judge_version", "truth_version", "evaluator", "evaluator_version")
    Table(con, "evaluations").insert(
        con,
        {
            **fields_of(new, *names),
            "evaluation": [evaluation.name for evaluation in new],
            "settings": [Raw(evaluation.settings_json) for evaluation in new],
            "first_run_at": [now_ns] * len(new),
            "last_run_at": [now_ns] * len(new),
        },
    )


def conversations_to_score(
    con: DuckDBPyConnection, evaluation_id: str, selection: Selection, *, again: bool
) -> list[Key]:
    """Return the closed conversations that must be scored, oldest first.

    Args:
        con: a connection.
        evaluation_id: the evaluation.
        selection: the conversations to consider.
        again: whether to include conversations that have a score under the evaluation.
    """
    rows = con.execute(_CLOSED if again else _UNSCORED, {"id": evaluation_id, **bounds(selection)}).fetchall()
    return [(environment, conversation_id) for environment, conversation_id in rows]


def never_scored(con: DuckDBPyConnection) -> list[Key]:
    """Return the conversations closed live whose newest revision has no score of the default evaluation, oldest first.

    Conversations ingested from files are omitted; only `evaluate` scores them, so that old results enter no live
    series.
    """
    return [(environment, conversation_id) for environment, conversation_id in con.execute(_NEVER_SCORED).fetchall()]


def scored_before(con: DuckDBPyConnection, keys: Iterable[Key], evaluation: str = DEFAULT) -> set[Key]:
    """Return the conversations among `keys` with a score of any revision under the named evaluation."""
    rows = rows_with(con, key_columns(keys), _SCORED_BEFORE, {"evaluation": evaluation})
    return {(environment, conversation_id) for environment, conversation_id in rows}


def save_scores(
    con: DuckDBPyConnection,
    evaluation_id: str,
    scored: Sequence[Scored],
    now_ns: int,
    *,
    evaluation: str = DEFAULT,
    criteria: str = "",
    core: bool = True,
) -> None:
    """Write scores under an evaluation, superseding older scores of the conversations under the same evaluation name.

    Scores under the default evaluation also replace the results of these conversations; `criteria` are the deciding ones.
    Without `core`, only the scores of evaluators are written, and the conversations keep their own.
    """
    NewScores(con, evaluation_id, scored, now_ns, evaluation=evaluation, criteria=criteria, core=core).save(con)


class NewScores:
    """Scores of conversations and of evaluators as rows of all tables, converted before the transaction that saves them."""

    def __init__(
        self,
        con: DuckDBPyConnection,
        evaluation_id: str,
        scored: Sequence[Scored],
        now_ns: int,
        *,
        evaluation: str = DEFAULT,
        criteria: str = "",
        core: bool = True,
    ) -> None:
        """Convert scores; see `save_scores`."""
        self._evaluation_id, self._evaluation, self._criteria = evaluation_id, evaluation, criteria
        self._now_ns, self._core, self._scored = now_ns, core, scored
        self._measured = [item for scored_item in scored for item in scored_item.metrics]
        self._identity = identity_of([evaluation_id] * len(scored), [item.score for item in scored])
        if not core:
            self._rows = _score_rows(con, self._measured, now_ns)
            return
        tools = [(item.conversation, item.score, tools) for item in scored for tools in item.score.tools]
        self._rows = [
            _match_rows(con, self._identity, scored),
            *_score_rows(con, self._measured, now_ns, scored, evaluation_id=evaluation_id, evaluation=evaluation),
            _fault_rows(con, evaluation_id, tools),
            _count_rows(con, evaluation_id, tools),
            _pair_rows(con, evaluation_id, scored),
        ]

    @property
    def keys(self) -> list[Key]:
        """The conversations."""
        return [item.conversation.key for item in self._scored]

    def save(self, con: DuckDBPyConnection) -> None:
        """Write the scores; see `save_scores`. The connection is in a transaction."""
        if not self._scored:
            return
        if restated := [item for item in self._measured if item.restated]:
            _replace(con, _requested(restated), ["scores"])
        if self._core:
            self._replace_core(con)
        for rows in self._rows:
            rows.insert(con)
        if not self._core:
            rows_with(con, _requested(self._measured), _NOTE, {"now": self._now_ns}, fetch=False)
        elif self._evaluation == DEFAULT:
            save_results(con, self._evaluation_id, self._scored, self._criteria)

    def _replace_core(self, con: DuckDBPyConnection) -> None:
        size = len(self._scored)
        requested = {**self._identity, "evaluation": [self._evaluation] * size, "evaluator": [CORE] * size}
        ((replaced,),) = rows_with(con, requested, _EARLIER)
        if replaced is not None:
            _replace(con, requested, _DELETE if replaced else ())


def _requested(measured: Sequence[Measured]) -> dict[str, list[Any]]:
    return {
        **identity_of([item.evaluation_id for item in measured], [item.conversation for item in measured]),
        "evaluation": [item.evaluation for item in measured],
        "evaluator": [item.evaluator.name for item in measured],
    }


def _replace(con: DuckDBPyConnection, requested: Mapping[str, list[Any]], tables: Iterable[str]) -> None:
    """Delete rows of the same evaluations and revisions from tables, and supersede earlier scores of the evaluators."""
    for statement in (*(_DELETE[table] for table in tables), _SUPERSEDE):
        rows_with(con, requested, statement, fetch=False)


def _match_rows(con: DuckDBPyConnection, identity: Mapping[str, list[Any]], scored: Sequence[Scored]) -> NewRows:
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


def _fault_rows(con: DuckDBPyConnection, evaluation_id: str, scores: _Scores) -> NewRows:
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


def _count_rows(con: DuckDBPyConnection, evaluation_id: str, scores: _Scores) -> NewRows:
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


def _pair_rows(con: DuckDBPyConnection, evaluation_id: str, scored: Sequence[Scored]) -> NewRows:
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
    """Rows of `scores`; `columns` are the values of columns that only some core scores have."""

    identities: list[tuple[Any, ...]] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    targets: list[str] = field(default_factory=list)
    scores: list[MetricScore] = field(default_factory=list)
    columns: list[Mapping[str, Any]] = field(default_factory=list)

    def converted(self, con: DuckDBPyConnection, now_ns: int) -> NewRows:
        """Return the rows, of which there is at least one, as arrays."""
        size, scores = len(self.scores), self.scores
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
                **columns_of(self.columns),
            },
        )


def _score_rows(
    con: DuckDBPyConnection,
    measured: Iterable[Measured],
    now_ns: int,
    core: Iterable[Scored] = (),
    *,
    evaluation_id: str = "",
    evaluation: str = DEFAULT,
) -> list[NewRows]:
    """Return the scores of evaluators, and the core scores of conversations, those with the same columns together.

    Args:
        con: a connection.
        measured: the scores of evaluators.
        now_ns: the current time.
        core: the conversations whose core scores are included.
        evaluation_id: the evaluation of the core scores.
        evaluation: its name.
    """
    groups: defaultdict[tuple[str, ...], _Rows] = defaultdict(_Rows)
    plain = groups[()]
    for scored in core:
        score = scored.score
        identity = (
            evaluation_id, evaluation, CORE, evaluation_id, score.environment, score.conversation_id, score.revision,
        )  # fmt: skip
        for target, key, metric_score, columns in _core_scores(scored, now_ns):
            rows = groups[tuple(columns)]
            rows.identities.append(identity)
            rows.ids.append(core_score_id(score, evaluation_id, metric_score.name, key))
            rows.targets.append(target)
            rows.scores.append(metric_score)
            if columns:
                rows.columns.append(columns)
    for item in measured:
        plain.identities.extend([_identity_of(item)] * len(item.scores))
        plain.ids.extend(item.score_ids)
        plain.targets.extend(map(target_of, item.scores))
        plain.scores.extend(
            score if score.reason is None or score.abstained else replace(score, reason=None) for score in item.scores
        )
    return [rows.converted(con, now_ns) for rows in groups.values() if rows.scores]


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
    for call, fault in faulty(judged_calls(item.conversation, score)):
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


#: Conversations with a core score, and the evaluations of evaluators that have no final score for them.
_LACKING: Final = f"""
WITH core AS (
    SELECT c.environment, c.conversation_id, c.revision, c.window_time
    FROM conversations c JOIN conversation_scores s USING (environment, conversation_id, revision)
    WHERE s.evaluation_id = $core AND NOT s.superseded AND NOT c.superseded AND c.closed_by IS NOT NULL AND {BOUNDS}
        AND ($live IS NOT TRUE OR c.closed_by IN ('idle', 'end_mark'))
), done AS (
    SELECT evaluation_id, environment, conversation_id, revision
    FROM scores
    WHERE evaluator <> 'core' AND NOT superseded AND evaluation_id IN (SELECT unnest($ids))
    GROUP BY ALL
    HAVING NOT bool_or(coalesce(reason IN (SELECT unnest($open)), false) AND evaluation_id IN (SELECT unnest($judged)))
)
SELECT core.environment, core.conversation_id, list(w.evaluation_id)
FROM core CROSS JOIN (SELECT unnest($ids) AS evaluation_id) w
ANTI JOIN done USING (evaluation_id, environment, conversation_id, revision)
GROUP BY core.environment, core.conversation_id, core.window_time
ORDER BY core.window_time, core.environment, core.conversation_id
"""  # noqa: S608 — a constant of our own


def with_restated(
    con: DuckDBPyConnection, scored: Sequence[Scored], restated: AbstractSet[Key], evaluation: str
) -> list[Scored]:
    """Return scores whose evaluators are marked as having scored a conversation before.

    Args:
        con: a connection.
        scored: the new scores.
        restated: conversations that had a score before; others cannot have scores of evaluators.
        evaluation: the name of the evaluation.
    """
    keys = [item.conversation.key for item in scored if item.metrics and item.conversation.key in restated]
    known = evaluated_before(con, keys, evaluation) if keys else set()
    if not known:
        return list(scored)
    return [
        replace(
            item,
            metrics=tuple(
                replace(measured, restated=(*item.conversation.key, measured.evaluator.name) in known)
                for measured in item.metrics
            ),
        )
        for item in scored
    ]


def missing_evaluations(
    con: DuckDBPyConnection,
    core: str,
    evaluations: Mapping[str, bool],
    selection: Selection,
    *,
    live: bool = False,
) -> dict[Key, frozenset[str]]:
    """Return the conversations with a core score that lack scores of evaluators, with those evaluations, oldest first.

    Args:
        con: a connection.
        core: the evaluation of the core scores.
        evaluations: evaluation ids of evaluators, and whether each asks a judge. Scores that a judge left open count as
            missing.
        selection: the conversations to consider.
        live: only conversations that were closed live.
    """
    if not evaluations:
        return {}
    parameters = {
        "core": core,
        "ids": list(evaluations),
        "judged": [evaluation_id for evaluation_id, asks_judge in evaluations.items() if asks_judge],
        "open": list(OPEN_REASONS),
        "live": live,
        **bounds(selection),
    }
    rows = con.execute(_LACKING, parameters).fetchall()
    return {(environment, conversation_id): frozenset(ids) for environment, conversation_id, ids in rows}


_HAD: Final = """
SELECT DISTINCT environment, conversation_id, evaluator FROM scores SEMI JOIN requested USING (environment, conversation_id)
WHERE evaluator <> 'core' AND evaluation = $evaluation
"""


def evaluated_before(
    con: DuckDBPyConnection, keys: Collection[Key], evaluation: str = DEFAULT
) -> set[tuple[str, str, str]]:
    """Return (environment, conversation id, evaluator) of all earlier scores of evaluators for some conversations."""
    return {(row[0], row[1], row[2]) for row in rows_with(con, key_columns(keys), _HAD, {"evaluation": evaluation})}
