"""Scores of evaluators in the store: the newest ones of each evaluator and conversation count, older ones are kept."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.evaluators.identity import score_ids_of, target_of
from otel_agentic.scoring.model import OPEN_REASONS
from otel_agentic.store.evaluations import DEFAULT
from otel_agentic.store.selection import BOUNDS, bounds
from otel_agentic.store.table import Table, key_columns, rows_with

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from duckdb import DuckDBPyConnection

    from otel_agentic.conversations.model import Conversation
    from otel_agentic.evaluators.base import AskingEvaluator, Evaluator, MetricScore
    from otel_agentic.store.selection import Selection
    from otel_agentic.store.table import Key

_DELETE_METRICS: Final = """
DELETE FROM scores s USING requested w
WHERE s.evaluation_id = w.evaluation_id AND s.environment = w.environment AND s.conversation_id = w.conversation_id
    AND s.revision = w.revision
"""
_SUPERSEDE_METRICS: Final = """
UPDATE scores s SET superseded = true FROM requested w
WHERE s.evaluator = w.evaluator AND s.evaluation = w.evaluation AND s.environment = w.environment
    AND s.conversation_id = w.conversation_id AND NOT s.superseded
"""
_NOTE: Final = """
UPDATE conversation_scores s SET metrics_at = make_timestamp_ns($now) FROM requested w
WHERE s.environment = w.environment AND s.conversation_id = w.conversation_id AND s.revision = w.revision
    AND s.evaluation = w.evaluation AND NOT s.superseded
"""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The scores of one evaluator for a conversation revision; `score_ids` contains the id of each of `scores`.

    `restated`: the evaluator has scored the conversation before. `case_id` is that of the reviewed case.
    `evaluation` is the name of the evaluation, `evaluation_id` identifies the evaluator's version under it.
    """

    conversation: Conversation
    case_id: str | None
    evaluator: Evaluator | AskingEvaluator
    evaluation_id: str
    scores: tuple[MetricScore, ...]
    score_ids: tuple[str, ...] = field(default=())
    restated: bool = False
    evaluation: str = DEFAULT

    def __post_init__(self) -> None:
        """Compute the ids."""
        conversation = self.conversation
        ids = score_ids_of(
            self.evaluation_id,
            conversation.environment,
            str(conversation.conversation_id),
            conversation.revision,
            self.scores,
        )
        object.__setattr__(self, "score_ids", tuple(ids))


def save_metrics(con: DuckDBPyConnection, measured: Sequence[Measured], now_ns: int, *, fresh: bool) -> None:
    """Write scores of evaluators; their earlier scores of the same conversations are superseded or replaced.

    Args:
        con: a connection in a transaction.
        measured: one item per evaluator and conversation, with all its scores.
        now_ns: the present.
        fresh: no evaluator has scored these conversations before.
    """
    if not measured:
        return
    identity = _identity(measured)
    if not fresh:
        names: dict[str, list[Any]] = {
            "evaluator": [item.evaluator.name for item in measured],
            "evaluation": [item.evaluation for item in measured],
            **identity,
        }
        for statement in (_DELETE_METRICS, _SUPERSEDE_METRICS):
            rows_with(con, names, statement, fetch=False)
    _insert(
        con,
        [
            (item, score, score_id)
            for item in measured
            for score, score_id in zip(item.scores, item.score_ids, strict=True)
        ],
    )
    keys = {(item.evaluation, *item.conversation.key): item.conversation.revision for item in measured}
    requested: dict[str, list[Any]] = {
        "evaluation": [evaluation for evaluation, _, _ in keys],
        "environment": [environment for _, environment, _ in keys],
        "conversation_id": [str(name) for _, _, name in keys],
        "revision": list(keys.values()),
    }
    rows_with(con, requested, _NOTE, {"now": now_ns}, fetch=False)


def _identity(measured: Sequence[Measured]) -> dict[str, list[Any]]:
    conversations = [item.conversation for item in measured]
    return {
        "evaluation_id": [item.evaluation_id for item in measured],
        "environment": [item.environment for item in conversations],
        "conversation_id": [str(item.conversation_id) for item in conversations],
        "revision": [item.revision for item in conversations],
    }


def _insert(con: DuckDBPyConnection, rows: Sequence[tuple[Measured, MetricScore, str]]) -> None:
    scores = [score for _, score, _ in rows]
    names = ("turn_index", "position", "name", "label", "tool_name", "parameter")
    Table(con, "scores").insert(
        con,
        {
            **_identity([item for item, _, _ in rows]),
            **{name: [getattr(score, name) for score in scores] for name in names},
            "target": [target_of(score) for score in scores],
            "value": [None if score.value is None else float(score.value) for score in scores],
            "reason": [score.reason if score.abstained else None for score in scores],
            "explanation": [score.explanation or None for score in scores],
            "details": [score.details or None for score in scores],
            "evaluator": [item.evaluator.name for item, _, _ in rows],
            "evaluator_version": [item.evaluator.version for item, _, _ in rows],
            "score_id": [score_id for _, _, score_id in rows],
            "evaluation": [item.evaluation for item, _, _ in rows],
            "superseded": [False] * len(rows),
        },
    )


def lacking(
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
        evaluations: evaluation ids of evaluators, and whether they ask a judge: scores that a judge left open are missing, too.
        selection: the conversations to look at.
        live: only conversations that were closed live.
    """
    if not evaluations:
        return {}
    parameters = {
        "core": core,
        "ids": list(evaluations),
        "judged": [name for name, asks_judge in evaluations.items() if asks_judge],
        "open": list(OPEN_REASONS),
        "live": live,
        **bounds(selection),
    }
    rows = con.execute(_LACKING, parameters).fetchall()
    return {(environment, name): frozenset(ids) for environment, name, ids in rows}


_HAD: Final = """
SELECT DISTINCT environment, conversation_id, evaluator FROM scores SEMI JOIN requested USING (environment, conversation_id)
WHERE evaluator <> 'core' AND evaluation = $evaluation
"""


def evaluated_before(
    con: DuckDBPyConnection, keys: Collection[Key], evaluation: str = DEFAULT
) -> set[tuple[str, str, str]]:
    """Return (environment, conversation id, evaluator) of all earlier scores of evaluators for some conversations."""
    return {(row[0], row[1], row[2]) for row in rows_with(con, key_columns(keys), _HAD, {"evaluation": evaluation})}
