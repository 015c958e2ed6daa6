"""Queries about scores: stored scores of conversations, totals of metrics, and scores that a judge left open."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.evaluators.base import Member, MetricScore
from otel_agentic.scoring.scope import DIMENSIONS, OPEN_REASONS, Outcome
from otel_agentic.store.connection import IN_EVALUATION
from otel_agentic.store.scores import CONVERSATION_SCORE_ROW, TURN_SCORE_ROW
from otel_agentic.store.table import BOUNDS, Key, Scored, Selection, bounds, from_row, key_columns, rows_with

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from otel_agentic.config import Threshold
    from otel_agentic.scoring.model import ConversationScore, ToolScore, TurnScore

#: Scores of the newest conversation revision, even if another evaluation's score is current.
_SCORES: Final = """
SELECT m.confidence, {columns}
FROM conversation_scores s
JOIN conversations c USING (environment, conversation_id, revision)
LEFT JOIN matches m USING (evaluation_id, environment, conversation_id, revision)
SEMI JOIN requested USING (environment, conversation_id)
WHERE s.evaluation_id = $id AND NOT c.superseded
"""
_TURNS: Final = """
SELECT t.environment, t.conversation_id, {columns}
FROM turn_scores t
JOIN conversations c USING (environment, conversation_id, revision)
SEMI JOIN requested USING (environment, conversation_id)
WHERE t.evaluation_id = $id AND NOT c.superseded
ORDER BY t.turn_index
"""
_MODEL: Final = """
SELECT model FROM judge_calls
WHERE judge = $judge AND judge_version = $version AND model IS NOT NULL
ORDER BY judged_at DESC LIMIT 1
"""
#: The judge behind the newest score of each conversation, and whether it scored an answer.
_ORIGINS: Final = f"""
SELECT
    c.environment, c.conversation_id, e.evaluation_id, e.judge, e.judge_version, coalesce(s.partial, false),
    EXISTS (
        SELECT 1 FROM turn_scores t
        WHERE t.evaluation_id = s.evaluation_id AND t.environment = s.environment
            AND t.conversation_id = s.conversation_id AND t.revision = s.revision AND t.answer_score IS NOT NULL
    ),
    s.revision, s.computed_outcome
FROM conversations c
JOIN conversation_scores s USING (environment, conversation_id, revision)
JOIN evaluations e USING (evaluation_id)
WHERE NOT c.superseded AND s.{IN_EVALUATION} AND NOT s.superseded AND {BOUNDS}
"""  # noqa: S608 — a constant of our own


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The origin of the score of a conversation. `has_judged_answer`: the judge scored at least one of its answers.

    `partial`: the score is a fail although other required parts were not evaluated. `computed` is the outcome under
    that judge, regardless of any label.
    """

    evaluation_id: str
    judge: str
    judge_version: str
    partial: bool
    has_judged_answer: bool
    revision: int
    computed: Outcome


def origins(con: DuckDBPyConnection, selection: Selection) -> dict[Key, Origin]:
    """Return the origins of the newest scores of some conversations; conversations without a score are omitted."""
    return {(row[0], row[1]): from_row(Origin, row[2:]) for row in con.execute(_ORIGINS, bounds(selection)).fetchall()}


def stored_scores(con: DuckDBPyConnection, evaluation_id: str, keys: Iterable[Key]) -> dict[Key, ConversationScore]:
    """Return the scores of some conversations under an evaluation, with their turns and without their tools.

    Conversations whose newest revision has no such score are omitted.
    """
    requested, evaluation = key_columns(keys), {"id": evaluation_id}
    turns: dict[Key, list[TurnScore]] = {}
    columns = TURN_SCORE_ROW.select(con, "t")
    for environment, conversation_id, *values in rows_with(con, requested, _TURNS.format(columns=columns), evaluation):
        turns.setdefault((environment, conversation_id), []).append(TURN_SCORE_ROW.build(values))
    columns = CONVERSATION_SCORE_ROW.select(con, "s")
    scores: dict[Key, ConversationScore] = {}
    for confidence, *values in rows_with(con, requested, _SCORES.format(columns=columns), evaluation):
        key = (values[0], values[1])
        scores[key] = CONVERSATION_SCORE_ROW.build(
            values, match_confidence=confidence, turns=tuple(turns.get(key, ())), tools=()
        )
    return scores


def newest_model(con: DuckDBPyConnection, judge: str, version: str) -> str | None:
    """Return the model that last answered for a version of a judge, or None."""
    rows = con.execute(_MODEL, {"judge": judge, "version": version}).fetchall()
    return str(rows[0][0]) if rows else None


_OF_CONVERSATION: Final = (
    "outcome", "reason", "outcome_source", "computed_outcome", "computed_reason", "answer_outcome", "tool_outcome",
    "both_outcome", "explanation", "known_failure",
)  # fmt: skip
_OF_TURN: Final = (
    "outcome", "reason", "answer_score", "answer_outcome", "answer_reason", "tool_outcome", "explanation",
)  # fmt: skip
_OF_TOOLS: Final = ("outcome", "reason", "overall", *DIMENSIONS)
_FROM: Final = """
FROM {table} t
SEMI JOIN requested USING (environment, conversation_id)
SEMI JOIN (
    SELECT * FROM conversation_scores WHERE evaluation_id = $id AND NOT superseded
) s USING (evaluation_id, environment, conversation_id, revision)
"""


def _sql(table: str, *names: str) -> str:
    return f"SELECT {', '.join(('environment', 'conversation_id', *names))} {_FROM.format(table=table)}"


_STORED_CONVERSATIONS: Final = _sql("conversation_scores", *_OF_CONVERSATION)
_STORED_TURNS: Final = _sql("turn_scores", "turn_index", *_OF_TURN)
_STORED_TOOLS: Final = _sql("tool_scores", "turn_index", *_OF_TOOLS)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredOutcomes:
    """The outcomes of a stored score; turns and tools by index of the turn, None for the whole conversation."""

    conversation: tuple[Any, ...]
    turns: Mapping[int, tuple[Any, ...]]
    tools: Mapping[int | None, tuple[Any, ...]]

    def applied_to(self, score: ConversationScore) -> ConversationScore:
        """Return a recomputed score with the stored outcomes, but with the computed faults."""
        return replace(
            score,
            **dict(zip(_OF_CONVERSATION, self.conversation, strict=True)),
            turns=tuple(self._turn(turn) for turn in score.turns),
            tools=tuple(self._tools(tools) for tools in score.tools),
        )

    def _turn(self, turn: TurnScore) -> TurnScore:
        stored = self.turns.get(turn.turn_index)
        return turn if stored is None else replace(turn, **dict(zip(_OF_TURN, stored, strict=True)))

    def _tools(self, tools: ToolScore) -> ToolScore:
        stored = self.tools.get(tools.turn_index)
        if stored is None:
            return tools
        outcome, reason, overall, *dimensions = stored
        values = dict(zip(DIMENSIONS, dimensions, strict=True))
        return tools._replace(outcome=outcome, reason=reason, overall=overall, dimensions=values)


def stored_outcomes(con: DuckDBPyConnection, evaluation_id: str, keys: Collection[Key]) -> dict[Key, StoredOutcomes]:
    """Return the newest stored outcomes of some conversations under an evaluation."""
    requested, parameters = key_columns(keys), {"id": evaluation_id}
    parts: dict[str, dict[Key, dict[Any, tuple[Any, ...]]]] = {}
    for sql in (_STORED_TURNS, _STORED_TOOLS):
        by_key = parts.setdefault(sql, {})
        for environment, conversation_id, index, *stored in rows_with(con, requested, sql, parameters):
            by_key.setdefault((environment, conversation_id), {})[index] = tuple(stored)
    return {
        (row[0], row[1]): StoredOutcomes(
            conversation=row[2:],
            turns=parts[_STORED_TURNS].get((row[0], row[1]), {}),
            tools=parts[_STORED_TOOLS].get((row[0], row[1]), {}),
        )
        for row in rows_with(con, requested, _STORED_CONVERSATIONS, parameters)
    }


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
#: Tolerance for rounding errors of sums, as in `Threshold.met_by`.
_SLACK: Final = 1e-9


@dataclass(slots=True, kw_only=True)
class Total:
    """The newest scores of one metric in one group; `outside` counts values that miss the threshold, by label."""

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
    requested, parameters = _group_columns(groups), {"names": None if names is None else sorted(names)}
    totals = {
        (row[0], row[1], row[2]): from_row(Total, (*row, {}, {}, {}))
        for row in rows_with(con, requested, _TOTALS, parameters)
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


def _bounds(thresholds: Mapping[str, Threshold]) -> dict[str, list[Any]]:
    return {
        "bound_names": list(thresholds),
        "lows": [-math.inf if bound.min is None else bound.min - _SLACK for bound in thresholds.values()],
        "highs": [math.inf if bound.max is None else bound.max + _SLACK for bound in thresholds.values()],
    }


def _group_columns(groups: Sequence[AbstractSet[Key]]) -> dict[str, list[Any]]:
    """Return the conversations of all groups as columns, with the number of their group."""
    rows = [(number, *key) for number, keys in enumerate(groups) for key in sorted(keys)]
    return {
        "group_no": [row[0] for row in rows],
        "environment": [row[1] for row in rows],
        "conversation_id": [row[2] for row in rows],
    }


def conversations_of(con: DuckDBPyConnection, selection: Selection) -> list[tuple[Key, str | None, str | None]]:
    """Return the conversations of a selection, as (identity, agent, agent version)."""
    rows = con.execute(_KEYS, bounds(selection)).fetchall()
    return [((environment, conversation_id), agent, version) for environment, conversation_id, agent, version in rows]


def members_of(
    con: DuckDBPyConnection, groups: Sequence[AbstractSet[Key]], names: Collection[str]
) -> list[list[Member]]:
    """Return each group's conversations with their outcomes and their newest scores of some metrics, by end time."""
    requested = _group_columns(groups)
    scores: dict[tuple[int, str, str], dict[str, list[MetricScore]]] = {}
    for group, environment, conversation_id, *fields in rows_with(
        con, requested, _METRIC_SCORES, {"names": sorted(names)}
    ):
        score = _score(fields)
        scores.setdefault((group, environment, conversation_id), {}).setdefault(score.name, []).append(score)
    members: list[list[Member]] = [[] for _ in groups]
    for group, environment, conversation_id, outcome in rows_with(con, requested, _OUTCOMES):
        members[group].append(Member(outcome=outcome, scores=scores.get((group, environment, conversation_id), {})))
    return members


def _score(fields: Sequence[Any]) -> MetricScore:
    names = (
        "name", "value", "label", "explanation", "reason", "turn_index", "position", "tool_name", "parameter",
    )  # fmt: skip
    return MetricScore(**dict(zip(names, fields, strict=True)))


_BY_CONVERSATION: Final = f"""
SELECT
    s.environment, s.conversation_id, s.name, s.value, nullif(s.label, 'not_evaluated'), '', s.reason, s.turn_index,
    s.position, s.tool_name, s.parameter
FROM scores s
JOIN conversations c USING (environment, conversation_id, revision)
WHERE s.name IN (SELECT unnest($names)) AND s.{IN_EVALUATION} AND NOT s.superseded AND NOT c.superseded AND {BOUNDS}
    AND NOT (s.name = 'agentic.answer' AND s.target = 'turn')
ORDER BY ALL
"""  # noqa: S608 — a constant of our own


def scores_by_conversation(
    con: DuckDBPyConnection, selection: Selection, names: Sequence[str]
) -> dict[Key, list[MetricScore]]:
    """Return the newest scores of some metrics (full names), without explanations, by conversation.

    `agentic.answer` is the score of the conversation's criterion, not those of its turns.
    """
    scores: dict[Key, list[MetricScore]] = {}
    for environment, conversation_id, *fields in con.execute(
        _BY_CONVERSATION, {"names": list(names), **bounds(selection)}
    ).fetchall():
        scores.setdefault((environment, conversation_id), []).append(_score(fields))
    return scores


#: Newest scores of closed conversations under an evaluation in which the judge failed or was not asked.
_UNSETTLED: Final = f"""
WITH open AS (
    SELECT evaluation_id, environment, conversation_id, revision FROM turn_scores
    WHERE evaluation_id = $id
        AND (reason IN (SELECT unnest($open)) OR answer_reason IN (SELECT unnest($open)))
    UNION
    SELECT evaluation_id, environment, conversation_id, revision FROM tool_scores
    WHERE evaluation_id = $id AND reason IN (SELECT unnest($open))
    UNION
    SELECT evaluation_id, environment, conversation_id, revision FROM conversation_scores
    WHERE evaluation_id = $id
        AND (reason IN (SELECT unnest($open)) OR computed_reason IN (SELECT unnest($open)))
)
SELECT c.environment, c.conversation_id
FROM conversations c
JOIN conversation_scores s USING (environment, conversation_id, revision)
SEMI JOIN open USING (evaluation_id, environment, conversation_id, revision)
WHERE NOT c.superseded AND c.closed_by IS NOT NULL AND NOT s.superseded AND s.evaluation_id = $id AND {BOUNDS}
ORDER BY c.window_time, c.environment, c.conversation_id
"""  # noqa: S608 — a constant of our own
#: Fields of a score that are compared with the stored one, in addition to those of its turns and tool expectations.
_COMPARED: Final = (
    "outcome", "reason", "computed_outcome", "computed_reason", "answer_outcome", "tool_outcome", "both_outcome",
)  # fmt: skip


def waiting_for_judge(con: DuckDBPyConnection, evaluation_id: str, selection: Selection) -> list[Key]:
    """Return the conversations whose newest score under an evaluation waits for the judge, oldest first."""
    parameters = {"id": evaluation_id, "open": list(OPEN_REASONS), **bounds(selection)}
    rows = con.execute(_UNSETTLED, parameters).fetchall()
    return [(environment, conversation_id) for environment, conversation_id in rows]


def changed_scores(
    con: DuckDBPyConnection, evaluation_id: str, scored: Sequence[Scored], again: AbstractSet[Key]
) -> list[Scored]:
    """Return the scores that differ from the stored ones; a score that still waits for the judge does not.

    Args:
        con: a connection.
        evaluation_id: the evaluation of the scores.
        scored: the new scores.
        again: the conversations whose scores were open before.
    """
    stored = stored_outcomes(con, evaluation_id, again)
    return [item for item in scored if not _is_stored(item.score, stored.get(item.conversation.key))]


def _is_stored(score: ConversationScore, stored: StoredOutcomes | None) -> bool:
    """Return whether the stored outcomes are those of a score."""
    return (
        stored is not None
        and stored.turns.keys() == {turn.turn_index for turn in score.turns}
        and stored.tools.keys() == {tools.turn_index for tools in score.tools}
        and _content(stored.applied_to(score)) == _content(score)
    )


def _content(score: ConversationScore) -> tuple[Any, ...]:
    return (
        [getattr(score, name) for name in _COMPARED],
        [(turn.outcome, turn.reason, turn.answer_score) for turn in score.turns],
        [(tools.outcome, tools.reason, tools.overall) for tools in score.tools],
    )


#: The mean of each metric, the share of each of its labels, and the size of each conversation: one row per number.
_NUMBERS: Final = f"""
WITH selected AS (
    SELECT c.* FROM conversations c WHERE NOT c.superseded AND {BOUNDS}
), current_scores AS (
    SELECT s.environment, s.conversation_id, s.name, s.value, nullif(s.label, 'not_evaluated') AS label
    FROM scores s
    SEMI JOIN selected USING (environment, conversation_id, revision)
    WHERE s.name IN (SELECT unnest($names)) AND s.{IN_EVALUATION} AND NOT s.superseded
)
SELECT environment, conversation_id, name, NULL AS label, avg(value) AS number FROM current_scores
WHERE value IS NOT NULL GROUP BY ALL
UNION ALL
SELECT environment, conversation_id, name, label, count(*) / sum(count(*)) OVER (
    PARTITION BY environment, conversation_id, name
) FROM current_scores
WHERE label IS NOT NULL GROUP BY environment, conversation_id, name, label
UNION ALL
SELECT environment, conversation_id, 'turns', NULL, turn_count FROM selected
UNION ALL
SELECT environment, conversation_id, 'calls', NULL, call_count FROM selected
UNION ALL
SELECT environment, conversation_id, 'seconds', NULL, (epoch_ns(ended_at) - epoch_ns(started_at)) / 1e9 FROM selected
ORDER BY ALL
"""  # noqa: S608 — a constant of our own


#: A metric, or the size of a conversation, by name; and a label of the metric, or None for its mean value.
NumberName = tuple[str, str | None]


def numbers_by_conversation(
    con: DuckDBPyConnection, selection: Selection, names: Sequence[str]
) -> dict[Key, dict[NumberName, float]]:
    """Return the mean of some metrics, the share of each of their labels, and the size of each conversation.

    A label that does not occur in a conversation is absent, not 0.
    """
    numbers: dict[Key, dict[NumberName, float]] = {}
    parameters = {"names": list(names), **bounds(selection)}
    for environment, conversation_id, name, label, number in con.execute(_NUMBERS, parameters).fetchall():
        numbers.setdefault((environment, conversation_id), {})[name, label] = float(number)
    return numbers
