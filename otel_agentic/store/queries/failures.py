"""Queries about failures: which tool fails and how, and what failed in each conversation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.evaluators.base import MetricScore
from otel_agentic.evaluators.blame import BLAME
from otel_agentic.evaluators.failures import (
    agent_error,
    extra_turn,
    fault_details,
    missing_output,
    missing_turn,
    without_fault,
    wrong_answer,
    wrong_state,
)
from otel_agentic.evaluators.root_causes import TOOL
from otel_agentic.evaluators.run import FailureRules, Location
from otel_agentic.scoring.model import FaultKind  # noqa: TC001 — same
from otel_agentic.scoring.scope import Dimension  # noqa: TC001 — the arguments of a command are checked by it
from otel_agentic.store.connection import IN_EVALUATION
from otel_agentic.store.score_rows import ANSWER
from otel_agentic.store.table import BOUNDS, Row, Selection, bounds, parse_json, rows

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


#: Columns that contain JSON.
_JSON: Final = ("expected", "actual", "versions", "wrong_values", "expected_call", "actual_call")
#: The leading numbers of a version, so that 1.9 comes before 1.10; null without numbers.
NUMBERS: Final = "try_cast(nullif(regexp_extract_all(regexp_extract(agent_version, '^v?([0-9]+([.][0-9]+)*)', 1), '[0-9]+'), []) AS HUGEINT[])"
#: The query of `failing_tools.sql`, with its fragments filled in.
_FAILING: Final = (
    (files("otel_agentic.store.queries") / "failing_tools.sql")
    .read_text("utf-8")
    .replace("{BOUNDS}", BOUNDS)
    .replace("{IN_EVALUATION}", IN_EVALUATION)
    .replace("{NUMBERS}", NUMBERS)
)
_EXAMPLE: Final = f"""
SELECT v.* EXCLUDE (evaluation_id)
FROM v_tool_faults v
JOIN conversations c USING (environment, conversation_id)
WHERE NOT c.superseded AND {BOUNDS} AND v.agent IS NOT DISTINCT FROM $of_agent AND v.environment = $of_environment
    AND (NOT $by_version OR v.agent_version IS NOT DISTINCT FROM $of_agent_version) AND v.tool = $tool AND v.fault = $fault
    AND v.parameter IS NOT DISTINCT FROM $parameter
ORDER BY c.window_time DESC, v.conversation_id DESC, v.turn_index DESC, v.step DESC, v.explanation
LIMIT 1
"""  # noqa: S608 — a constant of our own
_TOOL_COUNTS: Final = f"""
SELECT
    count(*) AS conversations, count(s.outcome) AS scored, count(t.evaluation_id) AS with_tools,
    count(*) FILTER (t.unknown) AS unknown_tools, count(*) FILTER (t.failed) AS failed_tools,
    coalesce(sum(f.faults), 0)::BIGINT AS faults
FROM conversations c
LEFT JOIN (FROM conversation_scores WHERE {IN_EVALUATION} AND NOT superseded) s
    USING (environment, conversation_id, revision)
LEFT JOIN (
    SELECT
        evaluation_id, environment, conversation_id, revision, bool_or(outcome = 'not_evaluated') AS unknown,
        bool_or(outcome = 'fail') AS failed
    FROM tool_scores GROUP BY evaluation_id, environment, conversation_id, revision
) t USING (evaluation_id, environment, conversation_id, revision)
LEFT JOIN (
    SELECT evaluation_id, environment, conversation_id, revision, count(*) AS faults FROM tool_faults GROUP BY ALL
) f USING (evaluation_id, environment, conversation_id, revision)
WHERE NOT c.superseded AND c.closed_by IS NOT NULL AND {BOUNDS}
"""  # noqa: S608 — a constant of our own


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultFilter:
    """The faults to return; None means any. `tool` is a name or glob."""

    tool: str | None = None
    dimension: Dimension | None = None
    fault: FaultKind | None = None
    parameter: str | None = None


def failing_tools(
    con: DuckDBPyConnection,
    selection: Selection,
    only: FaultFilter | None = None,
    *,
    by_version: bool = True,
) -> list[Row]:
    """Return the faults of tools, grouped, with one example each; those that made most conversations fail come first.

    Args:
        con: a connection.
        selection: the conversations to consider.
        only: the faults to return; shares still refer to all faults.
        by_version: one row per agent version; otherwise one row for all versions, whose `agent_version` is None.
    """
    where = {**bounds(selection), **asdict(only or FaultFilter()), "by_version": by_version}
    return [_read(row) for row in rows(con, _FAILING, where)]


def example_of(con: DuckDBPyConnection, selection: Selection, row: Mapping[str, Any], *, by_version: bool) -> Row:
    """Return the newest fault counted by a row of `failing_tools`, with both calls."""
    of_row = {f"of_{name}": row[name] for name in ("agent", "agent_version", "environment")}
    fault_key = {name: row[name] for name in ("tool", "fault", "parameter")}
    parameters = {**bounds(selection), **of_row, **fault_key, "by_version": by_version}
    (fault,) = rows(con, _EXAMPLE, parameters)
    return _read(fault)


def scored_with_tools(con: DuckDBPyConnection, selection: Selection) -> Row:
    """Return the numbers of closed conversations, of scored ones, of those with expected tools, and of their faults.

    `unknown_tools` counts conversations with tools that could not be evaluated. `failed_tools` counts those whose tools
    failed, because the arithmetic of other systems reports no faults.
    """
    return rows(con, _TOOL_COUNTS, bounds(selection))[0]


def _read(row: Row) -> Row:
    return {name: parse_json(value) if name in _JSON else value for name, value in row.items()}


LocatedScore = tuple[Location, MetricScore]

_LOCATION: Final = """
    c.environment, c.conversation_id, c.revision, c.agent, c.agent_version, epoch_ns(c.ended_at) AS ended_ns
"""
#: Conversations that failed, or are known to fail while the judge is unsure about another part. A draft case fails
#: nothing; without an end mark, missing turns may still arrive.
_FAILED: Final = f"""
CREATE OR REPLACE TEMP TABLE failed AS
SELECT
    {_LOCATION}, s.evaluation_id, s.dataset, s.case_id, s.case_version, s.missing_outputs, s.explanation, s.outcome_source,
    s.computed_reason, s.computed_reason IS DISTINCT FROM 'unreviewed' AS held,
    held AND s.case_id IS NOT NULL AS lacking,
    coalesce(c.closed_by, 'open') NOT IN ('end_mark', 'agent_error') AND coalesce(s.partial, false) AS awaiting
FROM conversation_scores s
JOIN conversations c USING (environment, conversation_id, revision)
WHERE s.{IN_EVALUATION} AND NOT s.superseded AND NOT c.superseded AND {BOUNDS}
    AND (s.outcome = 'fail' OR (s.outcome = 'not_evaluated' AND s.known_failure IS NOT NULL))
"""  # noqa: S608 — a constant of our own
_WHOSE: Final = "d.* EXCLUDE (missing_outputs, explanation, outcome_source, computed_reason)"
_CONVERSATIONS: Final = "SELECT * FROM failed ORDER BY ended_ns, environment, conversation_id"
#: Recovered faults do not count; faults without a record of recovery do.
_FAULTS: Final = f"""
SELECT
    {_WHOSE}, f.fault AS label, f.turn_index, f.actual_position AS position, f.tool_name, f.parameter,
    f.explanation, f.expected_index, f.effect
FROM tool_faults f
JOIN failed d USING (evaluation_id, environment, conversation_id, revision)
WHERE d.held AND coalesce(f.failed, true)
ORDER BY f.turn_index, f.expected_index, f.actual_position, f.fault, f.parameter, f.explanation
"""  # noqa: S608 — a constant of our own
#: The columns of `turn_scores`, without the details that only answers with an unsure judge need: reading them takes long.
_TURNS: Final = f"""
SELECT
    {_WHOSE}, t.turn_index, coalesce(t.reason, t.fail_reason, t.computed_reason) AS label, t.computed_reason AS reason, t.value,
    coalesce(t.explanation, '') AS explanation, o.explanation AS tools_explanation
FROM scores t
JOIN failed d USING (evaluation_id, environment, conversation_id, revision)
LEFT JOIN tool_scores o USING (evaluation_id, environment, conversation_id, revision, turn_index)
WHERE t.name = '{ANSWER}' AND t.target = 'turn' AND d.held
    AND (coalesce(t.reason, t.fail_reason, t.computed_reason) IN ('wrong_answer', 'forbidden_answer')
        OR t.computed_reason = 'extra_turn')
ORDER BY t.turn_index
"""  # noqa: S608 — a constant of our own
_MISSING_TURNS: Final = f"""
SELECT {_WHOSE}, k.turn_index AS case_turn_index, k.query
FROM failed d
JOIN case_turns k ON k.dataset = d.dataset AND k.case_id = d.case_id AND k.version = d.case_version
ANTI JOIN turn_scores t ON t.evaluation_id = d.evaluation_id AND t.environment = d.environment
    AND t.conversation_id = d.conversation_id AND t.revision = d.revision AND t.case_turn_index = k.turn_index
WHERE d.lacking
ORDER BY k.turn_index
"""  # noqa: S608 — a constant of our own
_STATES: Final = f"""
SELECT {_WHOSE}, t.explanation
FROM failed d
JOIN scores t USING (evaluation_id, environment, conversation_id, revision)
WHERE d.held AND t.name = 'agentic.state' AND t.label = 'fail'
"""  # noqa: S608 — a constant of our own
#: Scores of metrics with a failing label, or with a value out of bounds. NaN cannot be compared.
_SCORES: Final = f"""
SELECT
    {_LOCATION}, s.name, s.value, s.label, s.explanation, s.turn_index, s.position, s.tool_name, s.parameter
FROM scores s
JOIN conversations c USING (environment, conversation_id, revision)
JOIN (SELECT unnest($names) AS name, unnest($failing) AS failing, unnest($least) AS least, unnest($most) AS most) r
    USING (name)
WHERE s.{IN_EVALUATION} AND NOT s.superseded AND NOT c.superseded AND s.evaluator <> 'core' AND {BOUNDS}
    AND (list_contains(r.failing, s.label) OR s.value < r.least OR s.value > r.most)
ORDER BY c.ended_at, c.environment, c.conversation_id, s.name, s.turn_index, s.position, s.label
"""  # noqa: S608 — a constant of our own
#: The agents to which faults of failed conversations are attributed, see `evaluators.blame.Blame`.
_BLAMED: Final = f"""
SELECT
    {_LOCATION}, s.details ->> '$.agent' AS blamed, s.details ->> '$.metric' AS metric, s.details ->> '$.fault' AS label,
    s.turn_index, s.position, s.tool_name, s.parameter
FROM scores s
JOIN conversations c USING (environment, conversation_id, revision)
WHERE s.{IN_EVALUATION} AND NOT s.superseded AND NOT c.superseded AND s.name = $name AND s.label IS NOT NULL AND {BOUNDS}
ORDER BY c.ended_at, c.environment, c.conversation_id, s.turn_index, s.position, blamed
"""  # noqa: S608 — a constant of our own
_COUNTS: Final = f"""
SELECT
    count(*) AS conversations, count(s.outcome) AS scored, count(*) FILTER (s.outcome = 'fail') AS failed,
    count(*) FILTER (s.outcome = 'not_evaluated') AS not_evaluated,
    count(*) FILTER (s.outcome = 'not_evaluated' AND s.known_failure IS NOT NULL) AS known_failures,
    coalesce(sum(e.errors), 0)::BIGINT AS judge_errors
FROM conversations c
LEFT JOIN (FROM conversation_scores WHERE {IN_EVALUATION} AND NOT superseded) s
    USING (environment, conversation_id, revision)
LEFT JOIN (
    SELECT environment, conversation_id, revision, count(*) AS errors
    FROM scores
    WHERE {IN_EVALUATION} AND NOT superseded AND evaluator <> 'core' AND reason = 'judge_error'
    GROUP BY environment, conversation_id, revision
) e USING (environment, conversation_id, revision)
WHERE NOT c.superseded AND c.closed_by IS NOT NULL AND {BOUNDS}
"""  # noqa: S608 — a constant of our own
#: Scored conversations by day (UTC); `split_ns` halves all of them by their end, `before` of the day ended before it.
_DAYS: Final = f"""
WITH scored AS (
    SELECT c.ended_at, epoch_ns(c.ended_at) AS ended_ns
    FROM conversations c
    JOIN conversation_scores s USING (environment, conversation_id, revision)
    WHERE s.{IN_EVALUATION} AND NOT s.superseded AND NOT c.superseded AND c.closed_by IS NOT NULL AND {BOUNDS}
)
SELECT
    strftime(ended_at, '%Y-%m-%d') AS day, count(*) AS scored, any_value(split_ns) AS split_ns,
    count(*) FILTER (ended_ns < split_ns) AS before
FROM scored, (SELECT quantile_disc(ended_ns, 0.5) AS split_ns FROM scored)
GROUP BY day ORDER BY day
"""  # noqa: S608 — a constant of our own


def scored_days(con: DuckDBPyConnection, selection: Selection) -> list[Row]:
    """Return for each day (UTC) how many scored conversations ended on it, and how many of them before `split_ns`."""
    return rows(con, _DAYS, bounds(selection))


def core_failures(con: DuckDBPyConnection, selection: Selection) -> list[LocatedScore]:
    """Return the problems of the conversations that failed, at least one for each, oldest first.

    The result equals that of `evaluators.failures.core_scores` for each of them.
    """
    con.execute(_FAILED, bounds(selection))
    scores_by_location: dict[Location, list[MetricScore]] = {}
    conversations = rows(con, _CONVERSATIONS, {})
    for row in conversations:
        scores_by_location[_location(row)] = []
    for location, score in (*_faults(con), *_answers(con)):
        scores_by_location[location].append(score)
    awaited: set[Location] = set()
    for row in rows(con, _MISSING_TURNS, {}):
        if row["awaiting"]:
            awaited.add(_location(row))
        else:
            scores_by_location[_location(row)].append(missing_turn(row["case_turn_index"], row["query"]))
    for row in rows(con, _STATES, {}):
        scores_by_location[_location(row)].append(wrong_state(row["explanation"]))
    for row in conversations:
        conversation_problems = scores_by_location[_location(row)]
        if row["computed_reason"] == "agent_error":
            conversation_problems.append(agent_error(row["explanation"]))
        if row["lacking"] and _location(row) not in awaited:
            conversation_problems += map(missing_output, row["missing_outputs"])
        if not conversation_problems:
            conversation_problems.append(without_fault(row["outcome_source"], row["explanation"]))
    return [(location, score) for location, scores in scores_by_location.items() for score in scores]


def bad_scores(con: DuckDBPyConnection, selection: Selection, rules: FailureRules) -> list[LocatedScore]:
    """Return the scores of metrics that the rules may treat as failures, oldest first."""
    names = [name for name, metric in rules.metrics.items() if metric.failing or name in rules.thresholds]
    thresholds = [rules.thresholds.get(name) for name in names]
    rules_by_name = {
        "names": names,
        "failing": [sorted(rules.metrics[name].failing) for name in names],
        "least": [None if threshold is None else threshold.min for threshold in thresholds],
        "most": [None if threshold is None else threshold.max for threshold in thresholds],
    }
    fields = ("name", "value", "label", "explanation", "turn_index", "position", "tool_name", "parameter")
    return [
        (_location(row), MetricScore(**{name: row[name] for name in fields}))
        for row in rows(con, _SCORES, {**bounds(selection), **rules_by_name})
    ]


#: What identifies a fault: its conversation, metric, label, turn index, position, tool and parameter.
FaultKey = tuple[Location, str, str | None, int | None, int | None, str | None, str | None]


def blamed_agents(con: DuckDBPyConnection, selection: Selection) -> dict[FaultKey, str]:
    """Return, of conversations with several agents, the agent to which each fault is attributed."""
    fields = ("metric", "label", "turn_index", "position", "tool_name", "parameter")
    return {
        (_location(row), *(row[name] for name in fields)): row["blamed"]
        for row in rows(con, _BLAMED, {**bounds(selection), "name": BLAME})
    }


def failure_counts(con: DuckDBPyConnection, selection: Selection) -> Row:
    """Return how many closed conversations exist, are scored, failed and were not evaluated; and the judge errors."""
    return rows(con, _COUNTS, bounds(selection))[0]


def _faults(con: DuckDBPyConnection) -> Iterator[LocatedScore]:
    fields = ("label", "turn_index", "position", "tool_name", "parameter")
    for row in rows(con, _FAULTS, {}):
        values = {name: row[name] for name in fields}
        details = fault_details(row["expected_index"], row["effect"])
        yield _location(row), MetricScore(name=TOOL, explanation=row["explanation"], details=details, **values)


def _answers(con: DuckDBPyConnection) -> Iterator[LocatedScore]:
    for row in rows(con, _TURNS, {}):
        index = row["turn_index"]
        if row["reason"] == "extra_turn":
            yield _location(row), extra_turn(index)
        else:
            explanations = row["explanation"], row["tools_explanation"] or ""
            yield _location(row), wrong_answer(index, row["label"], row["value"], *explanations)


def _location(row: Row) -> Location:
    names = ("environment", "conversation_id", "revision", "agent", "agent_version", "ended_ns")
    return Location(**{name: row[name] for name in names})
