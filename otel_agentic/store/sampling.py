"""Sample ratios: the share of conversations that were evaluated, as recorded with the scores.

The ratio of a score is the probability with which its conversation is evaluated under its evaluation. Once a ratio is raised
and the additional conversations have been evaluated, the higher ratio applies to all of them, including the earlier ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from otel_agentic.store.results import note_changes
from otel_agentic.store.selection import BOUNDS, bounds
from otel_agentic.store.table import key_columns, rows_with

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from duckdb import DuckDBPyConnection

    from otel_agentic.store.selection import Selection
    from otel_agentic.store.table import Key

_RECORDED: Final = """
WITH known AS (
    SELECT environment, conversation_id, max(coalesce(sample_ratio, 1.0)) AS ratio, max(revision) AS revision
    FROM conversation_scores
    SEMI JOIN requested USING (environment, conversation_id)
    WHERE evaluation_id = $id
    GROUP BY ALL
)
SELECT c.environment, c.conversation_id, c.agent, k.ratio, k.revision IS NOT DISTINCT FROM c.revision
FROM conversations c
SEMI JOIN requested USING (environment, conversation_id)
LEFT JOIN known k USING (environment, conversation_id)
WHERE NOT c.superseded
"""
#: The agents with a current score whose ratio is below 1.
_SAMPLED: Final = f"""
SELECT DISTINCT c.agent
FROM conversations c
JOIN conversation_scores s USING (environment, conversation_id, revision)
WHERE NOT s.superseded AND s.evaluation_id = $id AND s.sample_ratio < 1.0 AND {BOUNDS}
"""  # noqa: S608 — a constant of our own
_RAISED: Final = f"""
SELECT c.environment, c.conversation_id, w.ratio
FROM conversations c
JOIN conversation_scores s USING (environment, conversation_id, revision)
JOIN requested w ON w.agent IS NOT DISTINCT FROM c.agent
WHERE NOT s.superseded AND s.evaluation_id = $id AND s.sample_ratio < w.ratio AND {BOUNDS}
"""  # noqa: S608 — a constant of our own
_RAISE: Final = """
UPDATE conversation_scores s SET sample_ratio = w.ratio FROM requested w
WHERE s.environment = w.environment AND s.conversation_id = w.conversation_id AND s.evaluation_id = $id
    AND NOT s.superseded
"""
_RAISE_RESULTS: Final = """
UPDATE results r SET sample_ratio = w.ratio FROM requested w
WHERE r.environment = w.environment AND r.conversation_id = w.conversation_id AND r.evaluation_id = $id
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """The recorded state of a conversation before it is decided whether to evaluate it.

    `ratio`: the highest one recorded under the evaluation, None without a score. `scored`: the newest revision has a score.
    """

    agent: str | None
    ratio: float | None
    scored: bool


def recorded_ratios(con: DuckDBPyConnection, evaluation_id: str, keys: Iterable[Key]) -> dict[Key, Recorded]:
    """Return the recorded ratios of some conversations under an evaluation."""
    rows = rows_with(con, key_columns(keys), _RECORDED, {"id": evaluation_id})
    return {(row[0], row[1]): Recorded(agent=row[2], ratio=row[3], scored=row[4]) for row in rows}


def raise_ratios(
    con: DuckDBPyConnection, evaluation_id: str, selection: Selection, ratio_of: Callable[[str | None], float]
) -> list[Key]:
    """Raise recorded ratios of an evaluation to the current ones if those are higher; return the changed conversations.

    Args:
        con: a connection in a transaction.
        evaluation_id: the evaluation.
        selection: the conversations to look at.
        ratio_of: returns the current ratio of an agent.
    """
    looked_at = {"id": evaluation_id, **bounds(selection)}
    agents = [row[0] for row in con.execute(_SAMPLED, looked_at).fetchall()]
    requested = {"agent": agents, "ratio": [ratio_of(agent) for agent in agents]}
    raised = rows_with(con, requested, _RAISED, looked_at)
    columns = {
        "environment": [row[0] for row in raised],
        "conversation_id": [row[1] for row in raised],
        "ratio": [row[2] for row in raised],
    }
    for statement in (_RAISE, _RAISE_RESULTS):
        rows_with(con, columns, statement, {"id": evaluation_id}, fetch=False)
    keys = [(row[0], row[1]) for row in raised]
    note_changes(con, keys)
    return keys
