"""Scores in the store: evaluations, the scores of scoring itself and of all evaluators, and the faults of tools.

The newest score of each conversation and evaluation counts; older ones are kept as superseded. The views
`conversation_scores`, `turn_scores` and `tool_scores` read rows of `scores`, the only table of scores.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.evaluators.base import CORE
from otel_agentic.scoring.scope import OPEN_REASONS
from otel_agentic.store.connection import DEFAULT
from otel_agentic.store.results import save_results
from otel_agentic.store.score_rows import count_rows, fault_rows, identity_of, match_rows, pair_rows, score_rows
from otel_agentic.store.table import (
    BOUNDS,
    Key,
    Measured,
    Raw,
    Scored,
    Selection,
    Table,
    bounds,
    fields_of,
    key_columns,
    rows_with,
)

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


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
WHERE NOT superseded AND closed_by <> 'end_of_input'
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
        """Convert scores under an evaluation.

        Scores under the default evaluation also replace the results of their conversations; `criteria` are the deciding
        ones. Without `core`, only the scores of evaluators are written, and the conversations keep their own.
        """
        self._evaluation_id, self._evaluation, self._criteria = evaluation_id, evaluation, criteria
        self._now_ns, self._core, self._scored = now_ns, core, scored
        self._measured = [item for scored_item in scored for item in scored_item.metrics]
        self._identity = identity_of([evaluation_id] * len(scored), [item.score for item in scored])
        if not core:
            self._rows = score_rows(con, self._measured, now_ns)
            return
        tools = [(item.conversation, item.score, tools) for item in scored for tools in item.score.tools]
        self._rows = [
            match_rows(con, self._identity, scored),
            *score_rows(con, self._measured, now_ns, scored, evaluation_id=evaluation_id, evaluation=evaluation),
            fault_rows(con, evaluation_id, tools),
            count_rows(con, evaluation_id, tools),
            pair_rows(con, evaluation_id, scored),
        ]

    @property
    def keys(self) -> list[Key]:
        """The conversations."""
        return [item.conversation.key for item in self._scored]

    def save(self, con: DuckDBPyConnection) -> None:
        """Write the scores, superseding older ones of the conversations under the same evaluation name.

        The connection is in a transaction.
        """
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


#: Conversations with a core score, and the evaluations of evaluators that have no final score for them.
_LACKING: Final = f"""
WITH core AS (
    SELECT c.environment, c.conversation_id, c.revision, c.window_time
    FROM conversations c JOIN conversation_scores s USING (environment, conversation_id, revision)
    WHERE s.evaluation_id = $core AND NOT s.superseded AND NOT c.superseded AND c.closed_by IS NOT NULL AND {BOUNDS}
        AND ($live IS NOT TRUE OR c.closed_by <> 'end_of_input')
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
