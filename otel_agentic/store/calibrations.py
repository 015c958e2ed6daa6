"""Data for calibrations of metrics and for drift: the newest scores of a metric with their judge, and frozen anchors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.store.connection import IN_EVALUATION
from otel_agentic.store.table import RowMap, Table, from_row

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


def stored_scores_of(con: DuckDBPyConnection, name: str) -> list[StoredMetricScore]:
    """Return the newest scores of a metric on closed conversations, by the time of their conversation."""
    return [from_row(StoredMetricScore, row) for row in con.execute(_SCORES, {"name": name}).fetchall()]


@dataclass(frozen=True, slots=True, kw_only=True)
class Anchor:
    """An annotated answer or score with the verdict of people and that of a judge, True for a pass; see `judge_anchors`."""

    freeze_id: str
    environment: str
    conversation_id: str
    revision: int
    turn_index: int | None
    position: int | None
    name: str
    human: bool
    question: Any
    judge: str
    judge_version: str
    model: str | None
    passed: bool
    score: float | None
    label: str | None
    frozen_ns: int


_ANCHOR_ROW: Final = RowMap("judge_anchors", Anchor)
_ANCHORS: Final = """
SELECT {columns} FROM judge_anchors a
WHERE a.freeze_id = (SELECT freeze_id FROM judge_anchors ORDER BY frozen_at DESC, rowid DESC LIMIT 1)
ORDER BY a.name, a.environment, a.conversation_id, a.turn_index, a.position
"""


def save_anchors(con: DuckDBPyConnection, anchors: Sequence[Anchor]) -> None:
    """Write the anchors of one freeze; they replace the earlier ones."""
    Table(con, "judge_anchors").insert(con, _ANCHOR_ROW.columns(con, anchors))


def load_anchors(con: DuckDBPyConnection) -> list[Anchor]:
    """Return the anchors of the newest freeze."""
    sql = _ANCHORS.format(columns=_ANCHOR_ROW.select(con, "a"))
    return [_ANCHOR_ROW.build(row) for row in con.execute(sql).fetchall()]
