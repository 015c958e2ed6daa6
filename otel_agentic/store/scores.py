"""Matches, scores and faults in the store: the newest of each conversation counts, the older ones stay."""

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
#: Core scores by name; and of evaluators those of another revision, whatever becomes of that evaluator.
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
    """An evaluator version: everything that a score depends on besides the conversation.

    `name` is the evaluation's name: scores of other names stand beside it. `evaluator` and `evaluator_version` are None
    for the evaluation of the core scores.
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
    """Remember an evaluator version, or that it ran again."""
    save_evaluations(con, [evaluation], now_ns)


def save_evaluations(con: DuckDBPyConnection, evaluations: Sequence[Evaluation], now_ns: int) -> None:
    """Remember evaluator versions, or that they ran again."""
    ids = [one.evaluation_id for one in evaluations]
    known = {name for (name,) in con.execute(_REMEMBER, {"now": now_ns, "ids": ids}).fetchall()}
    fresh = [one for one in evaluations if one.evaluation_id not in known]
    names = ("evaluation_id", "judge", "judge_version", "truth_version", "evaluator", "evaluator_version")
    Table(con, "evaluations").insert(
        con,
        {
            **fields_of(fresh, *names),
            "evaluation": [one.name for one in fresh],
            "settings": [Raw(one.settings_json) for one in fresh],
            "first_run_at": [now_ns] * len(fresh),
            "last_run_at": [now_ns] * len(fresh),
        },
    )


def to_score(con: DuckDBPyConnection, evaluation_id: str, selection: Selection, *, again: bool) -> list[Key]:
    """Return the closed conversations that want a score, oldest first.

    Args:
        con: a connection.
        evaluation_id: those that have a score under it are left out,
        selection: which conversations to look at,
        again: unless this is set.
    """
    rows = con.execute(_CLOSED if again else _UNSCORED, {"id": evaluation_id, **bounds(selection)}).fetchall()
    return [(environment, name) for environment, name in rows]


def never_scored(con: DuckDBPyConnection) -> list[Key]:
    """Return the conversations closed live whose newest revision no evaluation has scored, oldest first.

    What was ingested from files waits for `evaluate`: old results never go into live series by themselves.
    """
    return [(environment, name) for environment, name in con.execute(_NEVER_SCORED).fetchall()]


def scored_before(con: DuckDBPyConnection, keys: Iterable[Key], evaluation: str = DEFAULT) -> set[Key]:
    """Return those of the conversations that have a score of any revision and version of an evaluation, by its name."""
    found = rows_with(con, key_columns(keys), _SCORED_BEFORE, {"evaluation": evaluation})
    return {(environment, name) for environment, name in found}


def save_scores(
    con: DuckDBPyConnection, evaluation_id: str, scored: Sequence[Scored], now_ns: int, *, evaluation: str = DEFAULT
) -> None:
    """Write scores of an evaluation; older ones of the same conversations and evaluation name are superseded.

    Scores of the default evaluation replace the results of these conversations, too.
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
            "suggested_dataset": [found and found.case.dataset for found in suggested],
            "suggested_case_id": [found and found.case.case_id for found in suggested],
            "suggested_confidence": [found and found.confidence for found in suggested],
            "suggested_margin": [found and found.margin for found in suggested],
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
