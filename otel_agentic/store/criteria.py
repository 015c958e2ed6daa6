"""Results of conversations by criteria other than the deciding ones: each has windows, gauges and monitors of its own."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.evaluators.criteria import StoredCriterion, combined
from otel_agentic.scoring.criteria import CORRECT
from otel_agentic.store.queries.scores import scores_by_conversation
from otel_agentic.store.results import NEW_SUBJECTS, SAME_AGENT, SUBJECT_COLUMNS, note
from otel_agentic.store.table import BOUNDS, Key, Selection, bounds, key_columns, rows_with

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_FORGET: Final = f"""
DELETE FROM results r USING requested w
WHERE r.environment = w.environment AND r.conversation_id = w.conversation_id AND r.criterion <> '{CORRECT}'
"""  # noqa: S608 — the same
#: The result of a conversation by another criterion has everything but its outcome from its result by `correct`.
_BY_CORRECT: Final = f"""
SELECT
    r.agent, r.agent_version, r.environment, r.service, r.conversation_id, r.outcome, r.reason
FROM results r SEMI JOIN requested USING (environment, conversation_id)
WHERE r.criterion = '{CORRECT}'
"""  # noqa: S608 — the same
_INSERT: Final = f"""
INSERT INTO results BY NAME
SELECT r.* REPLACE (
    s.subject AS subject, w.criterion AS criterion, w.criteria AS criteria, w.outcome AS outcome, CAST(w.reason AS VARCHAR) AS reason,
    CAST(NULL AS DOUBLE) AS pass_probability
)
FROM requested w
JOIN results r USING (environment, conversation_id)
JOIN subjects s ON {SAME_AGENT.format("r")} AND s.criterion = w.criterion AND s.criteria = w.criteria
WHERE r.criterion = '{CORRECT}'
ORDER BY r.window_time, r.environment, r.conversation_id, w.criterion
RETURNING epoch_ns(window_time), closed_by
"""  # noqa: S608 — the same


_OTHERWISE: Final = f"""
SELECT count(*)
FROM results r JOIN conversations c USING (environment, conversation_id, revision)
WHERE r.criterion = '{CORRECT}' AND r.criteria <> $criteria AND NOT c.superseded AND {BOUNDS}
"""  # noqa: S608 — the same


@dataclass(frozen=True, slots=True, kw_only=True)
class FurtherCriterion:
    """A criterion that gets results and windows of its own: its name, what it means, and how it is computed."""

    name: str
    criteria: str
    parts: Sequence[StoredCriterion]


def save_further_results(con: DuckDBPyConnection, keys: Collection[Key], further: Sequence[FurtherCriterion]) -> None:
    """Replace the results of conversations by further criteria; they are computed from the stored scores.

    Args:
        con: a connection in the transaction that saves the scores.
        keys: the conversations; those without a result have none by further criteria either.
        further: the criteria.
    """
    requested = key_columns(keys)
    if not further or not keys:
        return
    rows_with(con, requested, _FORGET, fetch=False)
    stored = scores_by_conversation(
        con, keys, sorted({name for item in further for part in item.parts for name in part.names})
    )
    rows = [
        (agent, version, environment, service, item.name, item.criteria, name, part.outcome, part.reason)
        for agent, version, environment, service, name, outcome, reason in rows_with(con, requested, _BY_CORRECT)
        for item in further
        for part in [combined(item.parts, stored.get((environment, name), ()), outcome, reason)]
    ]
    names = (*SUBJECT_COLUMNS, "conversation_id", "outcome", "reason")
    columns: dict[str, list[Any]] = {name: [row[index] for row in rows] for index, name in enumerate(names)}
    rows_with(con, {name: columns[name] for name in SUBJECT_COLUMNS}, NEW_SUBJECTS, fetch=False)
    inserted = ("environment", "conversation_id", "criterion", "criteria", "outcome", "reason")
    note(con, rows_with(con, {name: columns[name] for name in inserted}, _INSERT))


def scored_otherwise(con: DuckDBPyConnection, selection: Selection, criteria: str) -> int:
    """Return how many conversations have a result by other deciding criteria than these."""
    ((count,),) = con.execute(_OTHERWISE, {"criteria": criteria, **bounds(selection)}).fetchall()
    return int(count)
