"""Counts of the newest scores of evaluators, by group of conversations and metric."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.evaluators.base import Member, MetricScore
from otel_agentic.store.evaluations import IN_EVALUATION
from otel_agentic.store.selection import BOUNDS, bounds
from otel_agentic.store.table import rows_with

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from duckdb import DuckDBPyConnection

    from otel_agentic.config import Threshold
    from otel_agentic.store.selection import Selection
    from otel_agentic.store.table import Key

_METRIC_ROWS: Final = f"""
WITH found AS (
    SELECT w.group_no, c.window_time, s.*
    FROM requested w
    JOIN conversations c USING (environment, conversation_id)
    JOIN scores s USING (environment, conversation_id, revision)
    WHERE NOT c.superseded AND s.{IN_EVALUATION} AND NOT s.superseded AND s.evaluator <> 'core'
        AND ($names IS NULL OR s.name IN (SELECT unnest($names)))
)
"""  # noqa: S608 — a constant of our own
_TOTALS: Final = f"""{_METRIC_ROWS}
SELECT
    group_no, name, evaluator, arg_max(evaluator_version, window_time), count(*) FILTER (reason IS NULL),
    count(DISTINCT (environment, conversation_id)) FILTER (reason IS NULL), count(DISTINCT (environment, conversation_id)),
    avg(value), min(value), median(value), max(value)
FROM found
GROUP BY group_no, name, evaluator
ORDER BY group_no, name, evaluator
"""  # noqa: S608 — a constant of our own
#: How often each label or reason occurs; and, for values, how many do not meet the threshold.
_KINDS: Final = f"""{_METRIC_ROWS}, bounds AS (
    SELECT unnest($bound_names) AS name, unnest($lows) AS least, unnest($highs) AS most
)
SELECT
    group_no, name, evaluator, label, reason, count(*),
    count(*) FILTER (value < coalesce(least, '-infinity'::DOUBLE) OR value > coalesce(most, 'infinity'::DOUBLE))
FROM found LEFT JOIN bounds USING (name)
GROUP BY group_no, name, evaluator, label, reason
ORDER BY count(*) DESC, label, reason
"""  # noqa: S608 — the same
_KEYS: Final = f"""
SELECT c.environment, c.conversation_id, c.agent, c.agent_version FROM conversations c
WHERE NOT c.superseded AND {BOUNDS}
ORDER BY c.environment, c.conversation_id
"""  # noqa: S608 — the same
_OUTCOMES: Final = f"""
SELECT w.group_no, c.environment, c.conversation_id, s.outcome
FROM requested w
JOIN conversations c USING (environment, conversation_id)
LEFT JOIN (SELECT * FROM conversation_scores WHERE {IN_EVALUATION} AND NOT superseded) s
    USING (environment, conversation_id, revision)
WHERE NOT c.superseded
ORDER BY w.group_no, c.window_time, c.environment, c.conversation_id
"""  # noqa: S608 — a constant of our own
_METRIC_SCORES: Final = f"""{_METRIC_ROWS}
SELECT
    group_no, environment, conversation_id, name, value, label, coalesce(explanation, ''), reason, turn_index, position,
    tool_name, parameter
FROM found
ORDER BY turn_index, position
"""  # noqa: S608 — the same
_VALUES: Final = f"""{_METRIC_ROWS}
SELECT environment, conversation_id, avg(value)
FROM found
GROUP BY environment, conversation_id
HAVING count(value) > 0
ORDER BY environment, conversation_id
"""  # noqa: S608 — the same
#: The last bits of a sum are tolerated, as in `Threshold.met_by`.
_SLACK: Final = 1e-9


@dataclass(slots=True, kw_only=True)
class Total:
    """The newest scores of one metric in one group; `outside` counts values that do not meet the threshold, by label."""

    group: int
    name: str
    evaluator: str
    evaluator_version: str
    n: int
    conversations: int
    looked_at: int
    mean: float | None
    low: float | None
    median: float | None
    high: float | None
    labels: dict[str, int]
    not_evaluated: dict[str, int]
    outside: dict[str | None, int]


def metric_totals(
    con: DuckDBPyConnection,
    groups: Sequence[AbstractSet[Key]],
    names: Collection[str] | None,
    thresholds: Mapping[str, Threshold],
) -> list[Total]:
    """Return the totals of each group and metric that has a row, in the order of groups and names.

    Args:
        con: a connection.
        groups: conversations by group.
        names: full names of metrics, None for all.
        thresholds: the acceptable values, by name of the metric.
    """
    requested, parameters = _requested(groups), {"names": None if names is None else sorted(names)}
    totals = {
        (row[0], row[1], row[2]): _total(row, {}, {}, {}) for row in rows_with(con, requested, _TOTALS, parameters)
    }
    for group, name, evaluator, label, reason, count, outside in rows_with(
        con, requested, _KINDS, {**parameters, **_bounds(thresholds)}
    ):
        total = totals[group, name, evaluator]
        if reason is not None:
            total.not_evaluated[reason] = count
            continue
        if label is not None:
            total.labels[label] = count
        total.outside[label] = outside
    return list(totals.values())


def _total(row: tuple[Any, ...], *counts: Any) -> Total:
    names = (
        "group", "name", "evaluator", "evaluator_version", "n", "conversations", "looked_at", "mean", "low", "median",
        "high", "labels", "not_evaluated", "outside",
    )  # fmt: skip
    return Total(**dict(zip(names, (*row, *counts), strict=True)))


def _bounds(thresholds: Mapping[str, Threshold]) -> dict[str, list[Any]]:
    return {
        "bound_names": list(thresholds),
        "lows": [-math.inf if bound.min is None else bound.min - _SLACK for bound in thresholds.values()],
        "highs": [math.inf if bound.max is None else bound.max + _SLACK for bound in thresholds.values()],
    }


def _requested(groups: Sequence[AbstractSet[Key]]) -> dict[str, list[Any]]:
    rows = [(number, *key) for number, keys in enumerate(groups) for key in sorted(keys)]
    return {
        "group_no": [row[0] for row in rows],
        "environment": [row[1] for row in rows],
        "conversation_id": [row[2] for row in rows],
    }


def conversations_of(con: DuckDBPyConnection, selection: Selection) -> list[tuple[Key, str | None, str | None]]:
    """Return the conversations of a selection, as (identity, agent, agent version)."""
    rows = con.execute(_KEYS, bounds(selection)).fetchall()
    return [((environment, name), agent, version) for environment, name, agent, version in rows]


def members_of(
    con: DuckDBPyConnection, groups: Sequence[AbstractSet[Key]], names: Collection[str]
) -> list[list[Member]]:
    """Return each group's conversations with their outcomes and their newest scores of some metrics, by end time."""
    requested = _requested(groups)
    scores: dict[tuple[int, str, str], dict[str, list[MetricScore]]] = {}
    for group, environment, name, *fields in rows_with(con, requested, _METRIC_SCORES, {"names": sorted(names)}):
        score = _score(fields)
        scores.setdefault((group, environment, name), {}).setdefault(score.name, []).append(score)
    members: list[list[Member]] = [[] for _ in groups]
    for group, environment, name, outcome in rows_with(con, requested, _OUTCOMES):
        members[group].append(Member(outcome=outcome, scores=scores.get((group, environment, name), {})))
    return members


def _score(fields: Sequence[Any]) -> MetricScore:
    names = (
        "name", "value", "label", "explanation", "reason", "turn_index", "position", "tool_name", "parameter",
    )  # fmt: skip
    return MetricScore(**dict(zip(names, fields, strict=True)))


def values_of(con: DuckDBPyConnection, keys: AbstractSet[Key], name: str) -> dict[Key, float]:
    """Return the mean value of a metric in each conversation that has one."""
    rows = rows_with(con, _requested([keys]), _VALUES, {"names": [name]})
    return {(environment, conversation): value for environment, conversation, value in rows}
