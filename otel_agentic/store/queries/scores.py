"""Queries about scores: stored scores of conversations, totals of metrics, and scores that a judge left open."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from otel_agentic.evaluators.base import Member, MetricScore
from otel_agentic.scoring.model import ConversationScore, CriterionScore, ToolScore, TurnScore
from otel_agentic.scoring.scope import DIMENSIONS, OPEN_REASONS, Outcome
from otel_agentic.store.connection import IN_EVALUATION
from otel_agentic.store.score_rows import (
    ANSWER,
    CONVERSATION,
    CONVERSATION_COLUMNS,
    CONVERSATION_DETAILS,
    HAS_ANSWER_SCORE,
    TOOLS,
)
from otel_agentic.store.table import (
    BOUNDS,
    Key,
    Scored,
    Selection,
    bounds,
    from_row,
    key_columns,
    parse_json,
    registered,
    rows_with,
)

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from otel_agentic.config import Threshold
    from otel_agentic.store.queries.scored_conversations import KindTable
    from otel_agentic.store.scores import Evaluation

#: Rows of the core scores of the newest conversation revision; or, with `$current`, of the current score.
_STORED: Final = """
SELECT
    environment, conversation_id, revision, s.name, s.turn_index, s.value, s.label, coalesce(s.reason, s.fail_reason),
    coalesce(s.explanation, ''), s.details, s.case_turn_index, {columns}
FROM scores s
JOIN conversations c USING (environment, conversation_id, revision)
SEMI JOIN requested USING (environment, conversation_id)
WHERE s.evaluation_id = $id AND NOT CASE WHEN $current THEN s.superseded ELSE c.superseded END
    AND (s.name IN ('agentic.conversation', 'agentic.tool.overall') OR (s.name = 'agentic.answer' AND s.target = 'turn'))
ORDER BY s.turn_index
""".replace("{columns}", ", ".join(f"s.{name}" for name in (*CONVERSATION_COLUMNS, *DIMENSIONS)))
#: Current scores that the same judge computed under the same settings, by any ground truth.
_COMPARABLE: Final = f"""
SELECT s.environment, s.conversation_id
FROM conversation_scores s
JOIN conversations c USING (environment, conversation_id, revision)
JOIN evaluations e USING (evaluation_id)
SEMI JOIN requested USING (environment, conversation_id)
WHERE s.{IN_EVALUATION} AND NOT s.superseded AND NOT c.superseded
    AND e.judge = $judge AND e.judge_version = $judge_version AND e.settings::VARCHAR = $settings
"""  # noqa: S608 — a constant of our own
_MODEL: Final = """
SELECT model FROM judge_calls
WHERE judge = $judge AND judge_version = $version AND model IS NOT NULL
ORDER BY judged_at DESC LIMIT 1
"""
#: The judge behind the newest score of each conversation, and whether it scored an answer.
_ORIGINS: Final = f"""
SELECT
    c.environment, c.conversation_id, e.evaluation_id, e.judge, e.judge_version, s.partial, s.has_judged_answer, s.revision,
    s.computed_outcome
FROM conversations c
JOIN (
    SELECT
        environment, conversation_id, revision, any_value(evaluation_id) FILTER (name = '{CONVERSATION}') AS evaluation_id,
        any_value(computed_outcome) FILTER (name = '{CONVERSATION}') AS computed_outcome,
        coalesce(bool_or(partial), false) AS partial, bool_or({HAS_ANSWER_SCORE}) AS has_judged_answer
    FROM scores
    WHERE {IN_EVALUATION} AND NOT superseded AND name IN ('{CONVERSATION}', '{ANSWER}')
    GROUP BY environment, conversation_id, revision
) s USING (environment, conversation_id, revision)
JOIN evaluations e USING (evaluation_id)
WHERE NOT c.superseded AND {BOUNDS}
"""  # noqa: S608 — a constant of our own
#: The same of one conversation of each kind.
_ORIGINS_BY_KIND: Final = f"""
SELECT
    r.environment, r.conversation_id, e.evaluation_id, e.judge, e.judge_version, coalesce(s.partial, false),
    r.has_judged_answer, r.revision, s.computed_outcome
FROM representatives r
JOIN representative_scores s USING (environment, conversation_id, revision)
JOIN evaluations e USING (evaluation_id)
WHERE s.name = '{CONVERSATION}' AND s.{IN_EVALUATION} AND NOT s.superseded
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
    """Return the origins of the newest scores of conversations; conversations without a score are omitted."""
    return _origins(con.execute(_ORIGINS, bounds(selection)).fetchall())


def origins_by_kind(table: KindTable) -> dict[Key, Origin]:
    """Return the origin of the newest score of one conversation of each kind, see `KindTable.conversations`."""
    return _origins(table.con.execute(_ORIGINS_BY_KIND).fetchall())


def _origins(rows: Iterable[Sequence[Any]]) -> dict[Key, Origin]:
    return {(row[0], row[1]): from_row(Origin, row[2:]) for row in rows}


class _Stored:
    """A row of a core score. `columns` and `details` contain further fields of its class."""

    def __init__(self, row: Sequence[Any]) -> None:
        """Read a row of `_STORED`."""
        self.key: Key = (row[0], row[1])
        (self.revision, self.name, self.turn_index, self.value, self.label, self.reason, self.explanation) = row[2:9]
        self.details: Mapping[str, Any] = parse_json(row[9]) or {}
        self.case_turn_index = row[10]
        self.columns = dict(zip((*CONVERSATION_COLUMNS, *DIMENSIONS), row[11:], strict=True))

    def turn_score(self) -> TurnScore:
        """Return the score of a turn from the row of its answer."""
        return TurnScore(
            turn_index=self.turn_index,
            case_turn_index=self.case_turn_index,
            outcome=self.columns["computed_outcome"],
            reason=self.columns["computed_reason"],
            answer_score=self.details.get("answer_score", self.value),
            answer_outcome=self.label,
            answer_reason=self.reason,
            tool_outcome=self.details.get("tool_outcome"),
            explanation=self.explanation,
        )

    def tool_score(self) -> ToolScore:
        """Return the score of an expectation, without its faults."""
        dimensions = {name: self.columns[name] for name in DIMENSIONS}
        return ToolScore(self.turn_index, self.label, self.reason, self.value, dimensions, faults=())

    def conversation_score(self, turns: Iterable[TurnScore], tools: Iterable[ToolScore]) -> ConversationScore:
        """Return the score of a conversation from its row, and the scores of its turns and expectations."""
        fields: dict[str, Any] = {name: self.details.get(name) for name in CONVERSATION_DETAILS}
        fields |= {name: self.columns[name] for name in CONVERSATION_COLUMNS}
        fields["missing_outputs"] = tuple(fields["missing_outputs"] or ())
        reasons = self.details.get("reasons", {})
        criteria = self.details.get("criteria", {}).items()
        return ConversationScore(
            environment=self.key[0],
            conversation_id=self.key[1],
            revision=self.revision,
            outcome=self.label,
            reason=self.reason,
            explanation=self.explanation,
            turns=tuple(turns),
            tools=tuple(tools),
            criteria=tuple(CriterionScore(name, outcome, reasons.get(name)) for name, outcome in criteria),
            **fields,
        )


def stored_scores(
    con: DuckDBPyConnection, evaluation_id: str, keys: Iterable[Key], *, current: bool = False
) -> dict[Key, ConversationScore]:
    """Return the scores of some conversations under an evaluation, without faults of tools.

    Args:
        con: a connection.
        evaluation_id: the evaluation.
        keys: the conversations; those without such a score are omitted.
        current: the current score; otherwise that of the newest revision, even if another evaluation's is current.
    """
    stored: dict[Key, dict[str, list[_Stored]]] = {}
    for row in map(_Stored, rows_with(con, key_columns(keys), _STORED, {"id": evaluation_id, "current": current})):
        parts = stored.setdefault(row.key, {CONVERSATION: [], ANSWER: [], TOOLS: []})
        parts[row.name].append(row)
    return {
        key: parts[CONVERSATION][0].conversation_score(
            [row.turn_score() for row in parts[ANSWER]], [row.tool_score() for row in parts[TOOLS]]
        )
        for key, parts in stored.items()
    }


def comparable_scores(con: DuckDBPyConnection, evaluation: Evaluation, keys: Iterable[Key]) -> set[Key]:
    """Return the conversations whose current score has the judge and the settings of an evaluation, by any ground truth."""
    parameters = {
        "judge": evaluation.judge,
        "judge_version": evaluation.judge_version,
        "settings": evaluation.settings_json,
    }
    return {(row[0], row[1]) for row in rows_with(con, key_columns(keys), _COMPARABLE, parameters)}


def with_faults(stored: ConversationScore, computed: ConversationScore) -> ConversationScore:
    """Return a stored score with the faults of the same score, computed again."""
    by_turn = {tools.turn_index: tools for tools in stored.tools}
    tools = [
        score._replace(outcome=old.outcome, reason=old.reason, overall=old.overall, dimensions=old.dimensions)
        if (old := by_turn.get(score.turn_index))
        else score
        for score in computed.tools
    ]
    return replace(stored, tools=tuple(tools), criteria=computed.criteria, annotated=computed.annotated)


def newest_model(con: DuckDBPyConnection, judge: str, version: str) -> str | None:
    """Return the model that last answered for a version of a judge, or None."""
    rows = con.execute(_MODEL, {"judge": judge, "version": version}).fetchall()
    return str(rows[0][0]) if rows else None


#: The conversations of each group, numbered from 0 in each group; the table exists until the connection is closed.
_MEMBERS: Final = """
CREATE OR REPLACE TEMP TABLE members AS
SELECT
    w.group_no, row_number() OVER (PARTITION BY w.group_no) - 1 AS number, c.environment, c.conversation_id, c.revision,
    {window_time} AS window_time
FROM requested w
JOIN {conversations} c USING ({identity})
"""
_MEMBERS_BY_KEY: Final = _MEMBERS.format(
    conversations="(FROM conversations WHERE NOT superseded)",
    identity="environment, conversation_id",
    window_time="c.window_time",
)
_MEMBERS_BY_KIND: Final = _MEMBERS.format(
    conversations="kinds", identity="kind", window_time="make_timestamp_ns(c.ended_ns)"
)
_NO_MEMBERS: Final = """
CREATE OR REPLACE TEMP TABLE members AS
SELECT 0 AS group_no, 0 AS number, environment, conversation_id, revision, window_time FROM conversations LIMIT 0
"""
_LARGEST: Final = "SELECT coalesce(max(number), 0) FROM members"
_METRIC_ROWS: Final = f"""
WITH found AS (
    SELECT m.group_no, m.number, m.window_time, s.*
    FROM members m
    JOIN scores s USING (environment, conversation_id, revision)
    WHERE s.{IN_EVALUATION} AND NOT s.superseded AND s.evaluator <> 'core'
        AND ($names IS NULL OR s.name IN (SELECT unnest($names)))
)
"""  # noqa: S608 — a constant of our own
#: Distinct conversations are counted in a set of bits, which takes a small part of the memory of a hash table.
_TOTALS: Final = f"""{_METRIC_ROWS}
SELECT
    group_no, name, evaluator, arg_max(evaluator_version, window_time), count(*) FILTER (reason IS NULL),
    coalesce(bit_count(bitstring_agg(number, 0, $largest) FILTER (reason IS NULL)), 0),
    bit_count(bitstring_agg(number, 0, $largest)), avg(value), min(value), max(value)
FROM found
GROUP BY group_no, name, evaluator
ORDER BY group_no, name, evaluator
"""  # noqa: S608 — a constant of our own
#: How often each label or reason occurs; for values, how many do not meet the threshold, and the median of all values of a
#: metric. Equal values are counted first, because the aggregate `median` keeps each value in memory.
_KINDS: Final = f"""{_METRIC_ROWS}, bounds AS (
    SELECT unnest($bound_names) AS name, unnest($lows) AS least, unnest($highs) AS most
), counted AS (
    SELECT group_no, name, evaluator, label, reason, value, count(*) AS n
    FROM found
    GROUP BY ALL
), ranked AS (
    SELECT
        group_no, name, evaluator, value, n,
        sum(n) OVER (PARTITION BY group_no, name, evaluator ORDER BY value ROWS UNBOUNDED PRECEDING) AS up_to,
        sum(n) OVER (PARTITION BY group_no, name, evaluator) AS total
    FROM counted
    WHERE value IS NOT NULL
), medians AS (
    SELECT group_no, name, evaluator, min(value) * 0.5 + max(value) * 0.5 AS median
    FROM ranked
    WHERE up_to >= total / 2 AND up_to - n <= total / 2
    GROUP BY ALL
)
SELECT
    group_no, name, evaluator, label, reason, sum(n)::BIGINT AS occurrences,
    coalesce(sum(n) FILTER (
        value < coalesce(least, '-infinity'::DOUBLE) OR value > coalesce(most, 'infinity'::DOUBLE)
    ), 0)::BIGINT,
    any_value(median)
FROM counted
LEFT JOIN bounds USING (name)
LEFT JOIN medians USING (group_no, name, evaluator)
GROUP BY group_no, name, evaluator, label, reason
ORDER BY occurrences DESC, label, reason
"""  # noqa: S608 — the same
_KEYS: Final = f"""
SELECT c.environment, c.conversation_id, c.agent, c.agent_version FROM conversations c
WHERE NOT c.superseded AND {BOUNDS}
ORDER BY c.environment, c.conversation_id
"""  # noqa: S608 — the same
_OUTCOMES: Final = f"""
SELECT m.group_no, m.environment, m.conversation_id, s.outcome
FROM members m
LEFT JOIN (SELECT * FROM conversation_scores WHERE {IN_EVALUATION} AND NOT superseded) s
    USING (environment, conversation_id, revision)
ORDER BY m.group_no, m.window_time, m.environment, m.conversation_id
"""  # noqa: S608 — a constant of our own
_METRIC_SCORES: Final = f"""{_METRIC_ROWS}
SELECT
    group_no, environment, conversation_id, name, value, label, coalesce(explanation, ''), reason, turn_index, position,
    tool_name, parameter
FROM found
ORDER BY turn_index, position
"""  # noqa: S608 — the same
#: Of each group: its conversations, those that passed or failed, and of these the ones with a known amount and its sum.
_AMOUNTS: Final = f"""
WITH amounts AS (
    SELECT
        group_no, number, sum(value) FILTER (name = $cost) AS cost,
        CASE WHEN count(value) FILTER (name = $input) > 0 AND count(value) FILTER (name = $output) > 0
            THEN sum(value) FILTER (name IN ($input, $output)) END AS tokens
    FROM members m
    JOIN scores s USING (environment, conversation_id, revision)
    WHERE s.{IN_EVALUATION} AND NOT s.superseded AND s.evaluator <> 'core' AND s.name IN ($cost, $input, $output)
    GROUP BY group_no, number
)
SELECT
    m.group_no, count(*), count(*) FILTER (s.outcome IN ('pass', 'fail')),
    count(a.cost) FILTER (s.outcome IN ('pass', 'fail')), count(a.cost) FILTER (s.outcome = 'pass'),
    fsum(a.cost) FILTER (s.outcome IN ('pass', 'fail')),
    count(a.tokens) FILTER (s.outcome IN ('pass', 'fail')), count(a.tokens) FILTER (s.outcome = 'pass'),
    fsum(a.tokens) FILTER (s.outcome IN ('pass', 'fail'))
FROM members m
LEFT JOIN (SELECT * FROM conversation_scores WHERE {IN_EVALUATION} AND NOT superseded) s
    USING (environment, conversation_id, revision)
LEFT JOIN amounts a USING (group_no, number)
GROUP BY m.group_no
"""  # noqa: S608 — a constant of our own
_LATENCIES: Final = f"""
SELECT group_no, count(value), quantile_cont(value, 0.5), quantile_cont(value, 0.95)
FROM members m
JOIN scores s USING (environment, conversation_id, revision)
WHERE s.{IN_EVALUATION} AND NOT s.superseded AND s.evaluator <> 'core' AND s.name = $latency AND s.value IS NOT NULL
GROUP BY group_no
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
    high: float | None
    median: float | None
    labels: dict[str, int]
    not_evaluated: dict[str, int]
    outside: dict[str | None, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class KindGroups:
    """Groups of closed conversations, each a set of kinds.

    Attributes:
        groups: the kinds of each group.
        table: the kinds of all conversations.
    """

    groups: Sequence[AbstractSet[int]]
    table: KindTable


#: Conversations by group: their identities, or their kinds.
MemberGroups = Sequence[AbstractSet[Key]] | KindGroups


def select_members(con: DuckDBPyConnection, groups: MemberGroups) -> None:
    """Create the temporary table of the conversations of each group, which the other queries of this connection read.

    Groups of kinds need the connection of their table.
    """
    if isinstance(groups, KindGroups):
        pairs = [(number, kind) for number, kinds in enumerate(groups.groups) for kind in kinds]
        columns: dict[str, list[Any]] = {
            "group_no": [number for number, _ in pairs],
            "kind": [kind for _, kind in pairs],
        }
        sql = _MEMBERS_BY_KIND
    else:
        rows = [(number, *key) for number, keys in enumerate(groups) for key in keys]
        names = ("group_no", "environment", "conversation_id")
        columns = {name: [row[index] for row in rows] for index, name in enumerate(names)}
        sql = _MEMBERS_BY_KEY
    arrays = {
        name: np.array(values, dtype=np.int64 if name in {"group_no", "kind"} else object)
        for name, values in columns.items()
    }
    if not len(arrays["group_no"]):
        con.execute(_NO_MEMBERS)
        return
    with registered(con, "requested", arrays):
        con.execute(sql)


def metric_totals(
    con: DuckDBPyConnection, names: Collection[str] | None, thresholds: Mapping[str, Threshold]
) -> list[Total]:
    """Return the totals of each group and metric that has a row, in the order of groups and names.

    Args:
        con: a connection on which `select_members` was called.
        names: full names of metrics, None for all.
        thresholds: the acceptable values, by name of the metric.
    """
    parameters = {"names": None if names is None else sorted(names)}
    ((largest,),) = con.execute(_LARGEST).fetchall()
    totals = {
        (row[0], row[1], row[2]): from_row(Total, (*row, None, {}, {}, {}))
        for row in con.execute(_TOTALS, {**parameters, "largest": largest}).fetchall()
    }
    for group, name, evaluator, label, reason, count, outside, median in con.execute(
        _KINDS, {**parameters, **_bounds(thresholds)}
    ).fetchall():
        total = totals[group, name, evaluator]
        total.median = median
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


def conversations_of(con: DuckDBPyConnection, selection: Selection) -> list[tuple[Key, str | None, str | None]]:
    """Return the conversations of a selection, as (identity, agent, agent version)."""
    rows = con.execute(_KEYS, bounds(selection)).fetchall()
    return [((environment, conversation_id), agent, version) for environment, conversation_id, agent, version in rows]


def members_of(con: DuckDBPyConnection, names: Collection[str], groups: int) -> list[list[Member]]:
    """Return the conversations of each group with their outcomes and newest scores of some metrics, by end time.

    Args:
        con: a connection on which `select_members` was called.
        names: full names of the metrics.
        groups: the number of groups.
    """
    scores: dict[tuple[int, str, str], dict[str, list[MetricScore]]] = {}
    for group, environment, conversation_id, *fields in con.execute(
        _METRIC_SCORES, {"names": sorted(names)}
    ).fetchall():
        score = _score(fields)
        scores.setdefault((group, environment, conversation_id), {}).setdefault(score.name, []).append(score)
    members: list[list[Member]] = [[] for _ in range(groups)]
    for group, environment, conversation_id, outcome in con.execute(_OUTCOMES).fetchall():
        members[group].append(Member(outcome=outcome, scores=scores.get((group, environment, conversation_id), {})))
    return members


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownAmounts:
    """The known amounts of conversations that passed or failed: their number, how many of them passed, and the sum."""

    known: int = 0
    passed: int = 0
    total: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupAmounts:
    """What the conversations of a group cost: the conversations, those that passed or failed, and the turns' latencies."""

    conversations: int = 0
    decided: int = 0
    cost: KnownAmounts = KnownAmounts()
    tokens: KnownAmounts = KnownAmounts()
    turns: int = 0
    latency_p50: float = 0.0
    latency_p95: float = 0.0


def amounts_of(
    con: DuckDBPyConnection, groups: int, *, cost: str, tokens: tuple[str, str], latency: str
) -> list[GroupAmounts]:
    """Return the amounts of each group.

    Args:
        con: a connection on which `select_members` was called.
        groups: the number of groups.
        cost: full name of the metric of cost.
        tokens: full names of the metrics of input and output tokens, whose sum counts where both are known.
        latency: full name of the metric of the latency of turns.
    """
    amounts = [GroupAmounts() for _ in range(groups)]
    names = {"cost": cost, "input": tokens[0], "output": tokens[1]}
    for group, conversations, decided, *known in con.execute(_AMOUNTS, names).fetchall():
        costs, token_counts = (
            KnownAmounts(known=count, passed=passed, total=total or 0.0)
            for count, passed, total in (known[:3], known[3:])
        )
        amounts[group] = GroupAmounts(conversations=conversations, decided=decided, cost=costs, tokens=token_counts)
    for group, turns, p50, p95 in con.execute(_LATENCIES, {"latency": latency}).fetchall():
        amounts[group] = replace(amounts[group], turns=turns, latency_p50=p50, latency_p95=p95)
    return amounts


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
SEMI JOIN requested USING (environment, conversation_id)
WHERE s.name IN (SELECT unnest($names)) AND s.{IN_EVALUATION} AND NOT s.superseded AND NOT c.superseded
    AND NOT (s.name = 'agentic.answer' AND s.target = 'turn')
ORDER BY ALL
"""  # noqa: S608 — a constant of our own


def scores_by_conversation(
    con: DuckDBPyConnection, keys: Iterable[Key], names: Sequence[str]
) -> dict[Key, list[MetricScore]]:
    """Return the newest scores of some metrics (full names), without explanations, of each conversation that has one.

    `agentic.answer` is the score of the conversation's criterion, not those of its turns.
    """
    scores: dict[Key, list[MetricScore]] = {}
    for environment, conversation_id, *fields in rows_with(
        con, key_columns(keys), _BY_CONVERSATION, {"names": list(names)}
    ):
        scores.setdefault((environment, conversation_id), []).append(_score(fields))
    return scores


#: Closed conversations whose newest score under an evaluation has a part for which the judge failed or was not asked.
_UNSETTLED: Final = f"""
SELECT c.environment, c.conversation_id
FROM conversations c
SEMI JOIN (
    SELECT environment, conversation_id, revision FROM scores
    WHERE evaluation_id = $id AND NOT superseded
        AND (reason IN (SELECT unnest($open)) OR computed_reason IN (SELECT unnest($open)))
) s USING (environment, conversation_id, revision)
WHERE NOT c.superseded AND c.closed_by IS NOT NULL AND {BOUNDS}
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
    stored = stored_scores(con, evaluation_id, again, current=True)
    contents = {key: _content(score) for key, score in stored.items()}
    return [item for item in scored if contents.get(item.conversation.key) != _content(item.score)]


def _content(score: ConversationScore) -> tuple[Any, ...]:
    """Return the fields that are compared with a stored score."""
    tools = {tools.turn_index: (tools.outcome, tools.reason, tools.overall) for tools in score.tools}
    turns = {turn.turn_index: (turn.outcome, turn.reason, turn.answer_score) for turn in score.turns}
    return ([getattr(score, name) for name in _COMPARED], turns, tools)


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


#: The cost and the duration of the closed conversations of each kind: sums, and the number of known costs.
_EFFORT: Final = f"""
WITH costs AS (
    SELECT environment, conversation_id, revision, avg(value) AS usd
    FROM scores
    WHERE name = $cost AND {IN_EVALUATION} AND NOT superseded AND value IS NOT NULL
    GROUP BY ALL
)
SELECT kind, fsum(usd), count(usd), fsum(seconds), count(*)
FROM kinds LEFT JOIN costs USING (environment, conversation_id, revision)
GROUP BY kind
"""  # noqa: S608 — a constant of our own


def effort_by_kind(table: KindTable, cost: str) -> dict[int, dict[str, tuple[float, int]]]:
    """Return the sum and the number of known costs (metric `cost`) and durations (`seconds`) of each kind."""
    rows = table.con.execute(_EFFORT, {"cost": cost}).fetchall()
    return {
        kind: {cost: (usd or 0.0, known), "seconds": (seconds or 0.0, count)}
        for kind, usd, known, seconds, count in rows
    }


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
