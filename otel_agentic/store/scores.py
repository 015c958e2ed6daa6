"""Matches, scores and faults in the store: the newest ones of each conversation count, older ones are kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.store.evaluations import DEFAULT
from otel_agentic.store.named_scores import insert_named
from otel_agentic.store.results import save_results
from otel_agentic.store.selection import BOUNDS, bounds
from otel_agentic.store.table import Raw, Table, key_columns, rows_with
from otel_agentic.store.tool_rows import fields_of, identity_of, insert_tools

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from duckdb import DuckDBPyConnection

    from otel_agentic.scoring.model import ConversationScore
    from otel_agentic.store.selection import Scored, Selection
    from otel_agentic.store.table import Key
    from otel_agentic.truth.match import Match

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
_SUPERSEDE: Final = """
UPDATE conversation_scores s SET superseded = true FROM requested w
WHERE s.environment = w.environment AND s.conversation_id = w.conversation_id AND s.evaluation = $evaluation
    AND NOT s.superseded
RETURNING 1
"""
#: Core scores by name; and those of evaluators of another revision, even if that evaluator does not run again.
_SUPERSEDE_NAMED: Final = """
UPDATE scores s SET superseded = true FROM requested w
WHERE s.environment = w.environment AND s.conversation_id = w.conversation_id AND s.evaluation = $evaluation
    AND NOT s.superseded AND (coalesce(s.evaluator, 'core') = 'core' OR s.revision <> w.revision)
"""
_TABLES: Final = (
    "matches",
    "conversation_scores",
    "turn_scores",
    "tool_scores",
    "tool_faults",
    "tool_counts",
    "scores",
)
_KNOWN_SCORE: Final = """
SELECT 1 FROM conversation_scores SEMI JOIN requested USING (evaluation_id, environment, conversation_id, revision) LIMIT 1
"""
#: A score of the same conversation revision under the same evaluation is replaced.
_DELETE: Final = tuple(
    f"DELETE FROM {table} t USING requested w WHERE t.evaluation_id = w.evaluation_id "  # noqa: S608 — our own table names
    "AND t.environment = w.environment AND t.conversation_id = w.conversation_id AND t.revision = w.revision"
    for table in _TABLES
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """A version of an evaluator: everything that a score depends on, apart from the conversation.

    `name` is the evaluation's name: scores under several names coexist. The evaluation of the core scores has no `evaluator` or
    `evaluator_version`.
    """

    evaluation_id: str
    judge: str
    judge_version: str
    settings_json: str
    truth_version: str
    name: str = DEFAULT
    evaluator: str | None = None
    evaluator_version: str | None = None


def save_evaluation(con: DuckDBPyConnection, evaluation: Evaluation, now_ns: int) -> None:
    """Record a version of an evaluator, or that it ran again."""
    save_evaluations(con, [evaluation], now_ns)


def save_evaluations(con: DuckDBPyConnection, evaluations: Sequence[Evaluation], now_ns: int) -> None:
    """Record versions of evaluators, or that they ran again."""
    ids = [evaluation.evaluation_id for evaluation in evaluations]
    known = {name for (name,) in con.execute(_REMEMBER, {"now": now_ns, "ids": ids}).fetchall()}
    fresh = [evaluation for evaluation in evaluations if evaluation.evaluation_id not in known]
    names = ("evaluation_id", "judge", "judge_version", "truth_version", "evaluator", "evaluator_version")
    Table(con, "evaluations").insert(
        con,
        {
            **fields_of(fresh, *names),
            "evaluation": [evaluation.name for evaluation in fresh],
            "settings": [Raw(evaluation.settings_json) for evaluation in fresh],
            "first_run_at": [now_ns] * len(fresh),
            "last_run_at": [now_ns] * len(fresh),
        },
    )


def to_score(con: DuckDBPyConnection, evaluation_id: str, selection: Selection, *, again: bool) -> list[Key]:
    """Return the closed conversations that must be scored, oldest first.

    Args:
        con: a connection.
        evaluation_id: the evaluation; conversations that have a score under it are omitted,
        selection: the conversations to look at,
        again: unless this is set.
    """
    rows = con.execute(_CLOSED if again else _UNSCORED, {"id": evaluation_id, **bounds(selection)}).fetchall()
    return [(environment, name) for environment, name in rows]


def never_scored(con: DuckDBPyConnection) -> list[Key]:
    """Return the conversations closed live whose newest revision has not been scored by any evaluation, oldest first.

    Conversations ingested from files wait for `evaluate`: old results never enter live series by themselves.
    """
    return [(environment, name) for environment, name in con.execute(_NEVER_SCORED).fetchall()]


def scored_before(con: DuckDBPyConnection, keys: Iterable[Key], evaluation: str = DEFAULT) -> set[Key]:
    """Return those conversations that have a score of any revision under an evaluation, by its name."""
    rows = rows_with(con, key_columns(keys), _SCORED_BEFORE, {"evaluation": evaluation})
    return {(environment, name) for environment, name in rows}


def save_scores(
    con: DuckDBPyConnection, evaluation_id: str, scored: Sequence[Scored], now_ns: int, *, evaluation: str = DEFAULT
) -> None:
    """Write scores under an evaluation; older scores of the same conversations and evaluation name are superseded.

    Scores under the default evaluation also replace the results of these conversations.
    """
    if not scored:
        return
    named = {"evaluation": evaluation}
    identity = identity_of(evaluation_id, [item.score for item in scored])
    known = rows_with(con, identity, _KNOWN_SCORE)
    for statement in _DELETE if known else ():
        rows_with(con, identity, statement, fetch=False)
    if rows_with(con, identity, _SUPERSEDE, named) or known:
        rows_with(con, identity, _SUPERSEDE_NAMED, named, fetch=False)
    _insert_matches(con, identity, scored)
    _insert_conversations(con, {**identity, "evaluation": [evaluation] * len(scored)}, scored, now_ns)
    _insert_turns(con, evaluation_id, _scores(scored))
    insert_tools(con, evaluation_id, [(item.conversation, item.score) for item in scored])
    insert_named(con, evaluation_id, evaluation, [(item.conversation, item.score) for item in scored])
    if evaluation == DEFAULT:
        save_results(con, evaluation_id, scored)


def _scores(scored: Sequence[Scored]) -> list[ConversationScore]:
    return [item.score for item in scored]


def _insert_matches(con: DuckDBPyConnection, identity: Mapping[str, list[Any]], scored: Sequence[Scored]) -> None:
    matches = [item.match for item in scored]
    suggested = [match.suggestion for match in matches]
    case: Callable[[Match, str], Any] = lambda match, name: getattr(match.case, name) if match.case else None  # noqa: E731
    Table(con, "matches").insert(
        con,
        {
            **identity,
            **fields_of(matches, "method", "confidence", "reason", "warning"),
            "dataset": [case(match, "dataset") for match in matches],
            "case_id": [case(match, "case_id") for match in matches],
            "case_version": [case(match, "version") for match in matches],
            "candidates": [list(match.candidates) for match in matches],
            "suggested_dataset": [item and item.case.dataset for item in suggested],
            "suggested_case_id": [item and item.case.case_id for item in suggested],
            "suggested_confidence": [item and item.confidence for item in suggested],
            "suggested_margin": [item and item.margin for item in suggested],
        },
    )


def _insert_conversations(
    con: DuckDBPyConnection, identity: Mapping[str, list[Any]], scored: Sequence[Scored], now_ns: int
) -> None:
    scores = _scores(scored)
    names = (
        "dataset",
        "case_id",
        "case_version",
        "outcome",
        "reason",
        "outcome_source",
        "computed_outcome",
        "computed_reason",
        "answer_outcome",
        "tool_outcome",
        "both_outcome",
        "match_method",
        "warning",
        "explanation",
        "partial",
        "known_failure",
        "pass_probability",
    )
    Table(con, "conversation_scores").insert(
        con,
        {
            **identity,
            **fields_of(scores, *names),
            "superseded": [False] * len(scores),
            "missing_outputs": [list(score.missing_outputs) for score in scores],
            "sample_ratio": [item.sample_ratio for item in scored],
            "scored_at": [now_ns] * len(scores),
        },
    )


def _insert_turns(con: DuckDBPyConnection, evaluation_id: str, scores: Sequence[ConversationScore]) -> None:
    rows = [(score, turn) for score in scores for turn in score.turns]
    names = ("turn_index", "case_turn_index", "outcome", "reason", "answer_score", "answer_outcome", "tool_outcome")
    Table(con, "turn_scores").insert(
        con,
        {
            **identity_of(evaluation_id, [score for score, _ in rows]),
            **fields_of([turn for _, turn in rows], *names, "answer_reason", "explanation"),
        },
    )
