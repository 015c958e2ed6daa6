"""Scores in the store: evaluations, the scores of scoring itself and of all evaluators, and the faults of tools.

The newest score of each conversation and evaluation counts; older ones are kept as superseded. The views
`conversation_scores`, `turn_scores` and `tool_scores` read rows of `scores`, the only table of scores.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.evaluators.base import CORE
from otel_agentic.scoring.scope import OPEN_REASONS
from otel_agentic.store.connection import DEFAULT
from otel_agentic.store.results import result_columns, save_results
from otel_agentic.store.score_rows import (
    Types,
    core_rows,
    count_rows,
    fault_rows,
    identity_of,
    match_rows,
    metric_rows,
    pair_rows,
    read_metric_rows,
)
from otel_agentic.store.table import (
    BOUNDS,
    Column,
    Key,
    Measured,
    NewRows,
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

    from otel_agentic.evaluators.base import MetricScore

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
#: Closed conversations whose newest revision has no result, and whether it is their first one. The bound of both tables
#: saves reading most of their rows, which are stored nearly in this order.
_NEVER_SCORED: Final = """
SELECT environment, conversation_id, revision = 1
FROM (SELECT * FROM conversations WHERE $since IS NULL OR ended_at >= make_timestamp_ns($since))
ANTI JOIN (
    SELECT * FROM results WHERE $since IS NULL OR ended_at >= make_timestamp_ns($since)
) USING (environment, conversation_id, revision)
WHERE NOT superseded AND closed_by <> 'end_of_input'
ORDER BY window_time, environment, conversation_id
"""
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


def never_scored(con: DuckDBPyConnection, since_ns: int | None = None) -> dict[Key, bool]:
    """Return the conversations closed live whose newest revision has no score of the default evaluation, oldest first.

    Conversations ingested from files are omitted; only `evaluate` scores them, so that old results enter no live
    series.

    Args:
        con: a connection.
        since_ns: only conversations that ended at this time or later, ns.

    Returns:
        The conversations, and whether the revision is their first, so that there is no earlier score.
    """
    rows = con.execute(_NEVER_SCORED, {"since": since_ns}).fetchall()
    return {(environment, conversation_id): is_first for environment, conversation_id, is_first in rows}


def scored_before(con: DuckDBPyConnection, keys: Iterable[Key], evaluation: str = DEFAULT) -> set[Key]:
    """Return the conversations among `keys` with a score of any revision under the named evaluation."""
    rows = rows_with(con, key_columns(keys), _SCORED_BEFORE, {"evaluation": evaluation})
    return {(environment, conversation_id) for environment, conversation_id in rows}


@dataclass(frozen=True, slots=True, kw_only=True)
class NewScores:
    """Scores of conversations and of evaluators as rows of all tables, by column.

    They are created before the transaction that saves them, in this process or in a worker process.

    Attributes:
        evaluation: the name of the evaluation.
        criteria: the deciding criteria.
        now_ns: the time of the scores.
        core: False if only the scores of evaluators are written, and the conversations keep their own.
        identity: the columns that identify the evaluation and the conversations.
        measured: the same of each evaluator and conversation, with the number of scores in `sizes`.
        metrics: the scores of evaluators.
        tables: the rows of other tables, and the core scores.
        results: see `store.results.result_columns`; empty if the evaluation is not the default one.
    """

    evaluation: str
    criteria: str
    now_ns: int
    core: bool
    identity: Mapping[str, list[Any]]
    measured: Mapping[str, list[Any]]
    sizes: Sequence[int]
    metrics: NewRows
    tables: Sequence[NewRows]
    results: Mapping[str, Column]

    @classmethod
    def of(
        cls,
        types: Types,
        evaluation_id: str,
        scored: Sequence[Scored],
        now_ns: int,
        *,
        evaluation: str = DEFAULT,
        criteria: str = "",
        core: bool = True,
    ) -> NewScores:
        """Convert scores under an evaluation.

        Scores under the default evaluation also replace the results of their conversations.
        """
        measured = [item for scored_item in scored for item in scored_item.metrics]
        identity = identity_of([evaluation_id] * len(scored), [item.score for item in scored])
        tables: list[NewRows] = []
        if core:
            tools = [(item.conversation, item.score, tools) for item in scored for tools in item.score.tools]
            tables = [
                match_rows(types, identity, scored, now_ns),
                core_rows(types, scored, now_ns, evaluation_id=evaluation_id, evaluation=evaluation),
                fault_rows(types, evaluation_id, tools, now_ns),
                count_rows(types, evaluation_id, tools),
                pair_rows(types, evaluation_id, scored, now_ns),
            ]
        return cls(
            evaluation=evaluation,
            criteria=criteria,
            now_ns=now_ns,
            core=core,
            identity=identity,
            measured=_requested(measured),
            sizes=[len(item.scores) for item in measured],
            metrics=metric_rows(types, measured, now_ns),
            tables=tables,
            results=result_columns(evaluation_id, scored) if core and evaluation == DEFAULT else {},
        )

    @classmethod
    def joined(cls, parts: Sequence[NewScores]) -> NewScores:
        """Return the scores of several parts of one evaluation, of which there is at least one, to be saved together."""
        if len(parts) == 1:
            return parts[0]
        return replace(
            parts[0],
            identity=_concatenated([part.identity for part in parts]),
            measured=_concatenated([part.measured for part in parts]),
            sizes=[size for part in parts for size in part.sizes],
            metrics=NewRows.joined([part.metrics for part in parts]),
            tables=[NewRows.joined(rows) for rows in zip(*(part.tables for part in parts), strict=True)],
            results=_concatenated([part.results for part in parts]),
        )

    def metric_scores(self) -> Iterator[tuple[Key, str, list[MetricScore], list[str]]]:
        """Yield conversation, evaluator, scores and their ids of each evaluator and conversation, as they are stored."""
        scores = zip(*read_metric_rows(self.metrics), strict=True)
        names = ("environment", "conversation_id", "evaluator")
        owners = zip(*(self.measured[name] for name in names), self.sizes, strict=True)
        for environment, conversation_id, evaluator, size in owners:
            own = list(islice(scores, size))
            yield (environment, conversation_id), evaluator, [score for score, _ in own], [name for _, name in own]

    @property
    def keys(self) -> list[Key]:
        """The conversations."""
        return list(zip(self.identity["environment"], self.identity["conversation_id"], strict=True))

    def save(
        self, con: DuckDBPyConnection, restated: Container[tuple[str, str, str]] = (), *, are_first: bool = False
    ) -> None:
        """Write the scores, superseding older ones of the conversations under the same evaluation name.

        Args:
            con: a connection in a transaction.
            restated: (environment, conversation id, evaluator) of evaluators that have scored a conversation before;
                see `evaluated_before`.
            are_first: whether none of the conversations has a score, so that none is superseded.
        """
        if not self.keys:
            return
        evaluators = zip(
            *(self.measured[name] for name in ("environment", "conversation_id", "evaluator")), strict=True
        )
        if indices := [index for index, item in enumerate(evaluators) if item in restated]:
            _replace(
                con, {name: [column[index] for index in indices] for name, column in self.measured.items()}, ["scores"]
            )
        if self.core and not are_first:
            self._replace_core(con)
        for rows in (*self.tables, self.metrics):
            rows.insert(con)
        if not self.core:
            rows_with(con, self.measured, _NOTE, {"now": self.now_ns}, fetch=False)
        elif self.results:
            save_results(con, self.results, self.criteria, are_first=are_first)

    def _replace_core(self, con: DuckDBPyConnection) -> None:
        size = len(self.keys)
        requested = {**self.identity, "evaluation": [self.evaluation] * size, "evaluator": [CORE] * size}
        ((replaced,),) = rows_with(con, requested, _EARLIER)
        if replaced is not None:
            _replace(con, requested, _DELETE if replaced else ())


def _concatenated(parts: Sequence[Mapping[str, Column]]) -> dict[str, list[Any]]:
    """Return columns of equal names as one."""
    return {name: [value for part in parts for value in part[name]] for name in parts[0]}


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


#: Conversations with a core score, and the evaluations of evaluators that have no final score for them. The evaluations of
#: each conversation are a set of bits: grouping by both would take a row of a hash table for each pair.
_LACKING: Final = f"""
WITH core AS (
    SELECT c.environment, c.conversation_id, c.revision, c.window_time
    FROM conversations c JOIN conversation_scores s USING (environment, conversation_id, revision)
    WHERE s.evaluation_id = $core AND NOT s.superseded AND NOT c.superseded AND c.closed_by IS NOT NULL AND {BOUNDS}
        AND ($live IS NOT TRUE OR c.closed_by <> 'end_of_input')
), wanted AS (
    SELECT unnest($ids) AS evaluation_id, generate_subscripts($ids, 1)::INTEGER - 1 AS number
), scored AS (
    SELECT
        environment, conversation_id, revision, bitstring_agg(number, 0, $last) AS found,
        bitstring_agg(number, 0, $last) FILTER (
            list_contains($open, reason) AND list_contains($judged::VARCHAR[], evaluation_id)
        ) AS waiting
    FROM scores JOIN wanted USING (evaluation_id)
    WHERE evaluator <> 'core' AND NOT superseded
    GROUP BY environment, conversation_id, revision
), incomplete AS (
    SELECT * FROM core LEFT JOIN scored USING (environment, conversation_id, revision)
    WHERE found IS NULL OR waiting IS NOT NULL OR bit_count(found) <= $last
)
SELECT environment, conversation_id, list(evaluation_id)
FROM incomplete CROSS JOIN wanted
WHERE found IS NULL OR get_bit(found, number) = 0 OR coalesce(get_bit(waiting, number) = 1, false)
GROUP BY environment, conversation_id, window_time
ORDER BY window_time, environment, conversation_id
"""  # noqa: S608 — a constant of our own


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
        "last": len(evaluations) - 1,
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
