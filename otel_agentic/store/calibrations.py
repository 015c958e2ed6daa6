"""Queries for calibrations of metrics: the newest scores of a metric, with the judge behind them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from otel_agentic.store.connection import IN_EVALUATION
from otel_agentic.store.table import from_row

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from otel_agentic.stats.model import CaseKey

_SCORES: Final = f"""
SELECT
    s.environment, s.conversation_id, s.revision, s.turn_index, s.position, s.value, s.label, s.reason, s.explanation,
    s.evaluation_id, e.judge, e.judge_version, k.dataset, k.case_id, epoch_ns(c.ended_at)
FROM scores s
JOIN conversations c USING (environment, conversation_id, revision)
JOIN evaluations e USING (evaluation_id)
LEFT JOIN (SELECT * FROM conversation_scores WHERE {IN_EVALUATION} AND NOT superseded) k
    USING (environment, conversation_id, revision)
WHERE s.name = $name AND s.{IN_EVALUATION} AND NOT s.superseded AND NOT c.superseded AND c.closed_by IS NOT NULL
ORDER BY c.window_time, s.environment, s.conversation_id, s.turn_index, s.position, s.parameter
"""  # noqa: S608 — a constant of our own


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredMetricScore:
    """A stored score of a metric; without a value and a label it has a `reason`."""

    environment: str
    conversation_id: str
    revision: int
    turn_index: int | None
    position: int | None
    value: float | None
    label: str | None
    reason: str | None
    explanation: str | None
    evaluation_id: str
    judge_name: str
    judge_version: str
    dataset: str | None
    case_id: str | None
    ended_ns: int

    @property
    def judge(self) -> tuple[str, str]:
        """The name and version of the judge."""
        return (self.judge_name, self.judge_version)

    @property
    def case_key(self) -> CaseKey:
        """The cluster of attempts: the case, else the conversation itself, as in `Labelled.case_key`."""
        if self.case_id is None:
            return ("", repr((self.environment, self.conversation_id)))
        return (self.dataset or "", self.case_id)


def metric_scores(con: DuckDBPyConnection, name: str) -> list[StoredMetricScore]:
    """Return the newest scores of a metric on closed conversations, by the time of their conversation."""
    return [from_row(StoredMetricScore, row) for row in con.execute(_SCORES, {"name": name}).fetchall()]
