"""Queries about failures: which tool fails and how, and what failed in each conversation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.resources import files
from itertools import groupby
from operator import itemgetter
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
from otel_agentic.store.score_rows import ANSWER, TOOLS
from otel_agentic.store.table import (
    BOUNDS,
    Key,
    Row,
    Selection,
    bounds,
    key_columns,
    object_array,
    parse_json,
    registered,
    rows,
    split_by_kind,
)

if TYPE_CHECKING:
    import numpy as np
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

_LOCATION: Final = "environment, conversation_id, revision, agent, agent_version, ended_ns"
_SELECTED: Final = f"""
(
    SELECT environment, conversation_id, revision, agent, agent_version, closed_by, epoch_ns(ended_at) AS ended_ns
    FROM conversations c {{only}}
    WHERE NOT superseded AND {BOUNDS}
)
"""  # noqa: S608 — a constant of our own
_ONLY_REQUESTED: Final = "SEMI JOIN requested USING (environment, conversation_id)"
#: Everything that fails in the selected conversations, as rows of different parts; what a part lacks is null.
#:
#: `failed` are conversations that failed, or are known to fail while the judge is unsure about another part. A draft case
#: fails nothing; without an end mark, missing turns may still arrive. Recovered faults do not count; faults without a
#: record of recovery do. Of other metrics, scores count that have a failing label, or a value out of bounds; NaN cannot be
#: compared. `blame` are the agents to which faults are attributed, see `evaluators.blame.Blame`, in a query of their own:
#: reading the column `details` of all scores is slow.
_PROBLEMS: Final = f"""
CREATE OR REPLACE TEMP TABLE problems AS
WITH failed AS MATERIALIZED (
    SELECT
        {_LOCATION}, s.evaluation_id, s.dataset, s.case_id, s.case_version, s.missing_outputs, s.explanation,
        s.outcome_source, s.computed_reason, s.computed_reason IS DISTINCT FROM 'unreviewed' AS held,
        held AND s.case_id IS NOT NULL AS lacking,
        coalesce(c.closed_by, 'open') NOT IN ('end_mark', 'agent_error') AND coalesce(s.partial, false) AS awaiting
    FROM conversation_scores s
    JOIN {_SELECTED} c USING (environment, conversation_id, revision)
    WHERE s.{IN_EVALUATION} AND NOT s.superseded
        AND (s.outcome = 'fail' OR (s.outcome = 'not_evaluated' AND s.known_failure IS NOT NULL))
), core AS MATERIALIZED (
    SELECT
        {_LOCATION}, held, s.evaluation_id, s.name, s.label, s.value, s.explanation, s.turn_index, s.case_turn_index,
        coalesce(s.reason, s.fail_reason, s.computed_reason) AS answer_reason, s.computed_reason AS turn_reason
    FROM scores s
    JOIN failed d USING (evaluation_id, environment, conversation_id, revision)
    WHERE s.name IN ('{TOOLS}', 'agentic.state') OR (s.name = '{ANSWER}' AND s.target = 'turn')
)
SELECT
    'conversation' AS part, {_LOCATION}, outcome_source AS name, computed_reason AS label, explanation, lacking, awaiting,
    missing_outputs
FROM failed
UNION ALL BY NAME
SELECT
    'fault' AS part, {_LOCATION}, f.fault AS label, f.explanation, f.turn_index, f.actual_position AS position, f.tool_name,
    f.parameter, f.expected_index, f.effect
FROM tool_faults f
JOIN failed USING (evaluation_id, environment, conversation_id, revision)
WHERE held AND coalesce(f.failed, true)
UNION ALL BY NAME
SELECT
    'answer' AS part, {_LOCATION}, t.turn_reason AS name, t.answer_reason AS label, t.value,
    coalesce(t.explanation, '') AS explanation, t.turn_index, o.explanation AS tools_explanation
FROM core t
LEFT JOIN (SELECT environment, conversation_id, turn_index, explanation FROM core WHERE name = '{TOOLS}') o
    USING (environment, conversation_id, turn_index)
WHERE t.name = '{ANSWER}' AND held
    AND (t.answer_reason IN ('wrong_answer', 'forbidden_answer') OR t.turn_reason = 'extra_turn')
UNION ALL BY NAME
SELECT 'missing_turn' AS part, {_LOCATION}, k.turn_index, k.query AS explanation, awaiting
FROM failed d
JOIN case_turns k ON k.dataset = d.dataset AND k.case_id = d.case_id AND k.version = d.case_version
ANTI JOIN (SELECT * FROM core WHERE name = '{ANSWER}') t ON t.environment = d.environment
    AND t.conversation_id = d.conversation_id AND t.case_turn_index = k.turn_index
WHERE lacking
UNION ALL BY NAME
SELECT 'state' AS part, {_LOCATION}, explanation FROM core WHERE name = 'agentic.state' AND label = 'fail' AND held
UNION ALL BY NAME
SELECT
    'score' AS part, {_LOCATION}, s.value, s.name, s.label, s.explanation, s.turn_index, s.position, s.tool_name, s.parameter
FROM scores s
JOIN {_SELECTED} c USING (environment, conversation_id, revision)
JOIN (SELECT unnest($names) AS name, unnest($failing) AS failing, unnest($least) AS least, unnest($most) AS most) r
    USING (name)
WHERE s.{IN_EVALUATION} AND NOT s.superseded AND s.evaluator <> 'core'
    AND (list_contains(r.failing, s.label) OR s.value < r.least OR s.value > r.most)
UNION ALL BY NAME
SELECT
    'blame' AS part, {_LOCATION}, s.value, s.details ->> '$.metric' AS name, s.details ->> '$.fault' AS label,
    s.details ->> '$.agent' AS explanation, s.turn_index, s.position, s.tool_name, s.parameter
FROM scores s
JOIN {_SELECTED} c USING (environment, conversation_id, revision)
WHERE s.name = '{BLAME}' AND s.{IN_EVALUATION} AND NOT s.superseded AND s.label IS NOT NULL
"""  # noqa: S608 — constants of our own
_PARTS: Final = (
    "part", "name", "label", "value", "explanation", "turn_index", "position", "tool_name", "parameter", "expected_index",
    "effect", "tools_explanation", "lacking", "awaiting", "missing_outputs",
)  # fmt: skip
#: The failing conversations with their kind: those of one kind differ only in id and time.
_FAILING_KINDS: Final = f"""
CREATE OR REPLACE TEMP TABLE failing AS
SELECT
    {_LOCATION}, hash(environment, revision, agent, agent_version, sum(hash({", ".join(_PARTS)}))) AS kind
FROM problems
GROUP BY {_LOCATION}
HAVING bool_or(part <> 'blame')
"""  # noqa: S608 — constants of our own
#: The newest conversation of each kind, which represents the others, and the end and the id of the oldest.
_REPRESENTATIVES: Final = """
CREATE OR REPLACE TEMP TABLE representatives AS
SELECT
    kind, any_value(environment) AS environment, max((ended_ns, conversation_id)) AS newest,
    min((ended_ns, conversation_id)) AS oldest, newest[2] AS conversation_id, count(*) AS count
FROM failing
GROUP BY kind
"""
_OF_REPRESENTATIVES: Final = """
SELECT p.*, r.kind, r.count, r.oldest
FROM problems p
JOIN representatives r USING (environment, conversation_id)
ORDER BY p.ended_ns, environment, conversation_id, part, p.name, turn_index, expected_index, position, label, parameter, explanation
"""
_MEMBERS: Final = f"""
SELECT kind, {_LOCATION}
FROM failing
QUALIFY $listed IS NULL OR row_number() OVER (PARTITION BY kind ORDER BY ended_ns DESC, conversation_id DESC) <= $listed
ORDER BY kind, ended_ns DESC, conversation_id DESC
"""  # noqa: S608 — a constant of our own
_ENDS: Final = "SELECT kind, ended_ns FROM failing ORDER BY kind, ended_ns"
#: Closed conversations by day (UTC); `split_ns` halves the scored ones by their end, `before` of the day ended before it.
_DAYS: Final = f"""
WITH closed AS MATERIALIZED (
    SELECT epoch_ns(c.ended_at) AS ended_ns, s.outcome, s.known_failure IS NOT NULL AS known
    FROM conversations c
    LEFT JOIN (FROM conversation_scores WHERE {IN_EVALUATION} AND NOT superseded) s
        USING (environment, conversation_id, revision)
    WHERE NOT c.superseded AND c.closed_by IS NOT NULL AND {BOUNDS}
)
SELECT
    strftime(make_timestamp_ns(ended_ns), '%Y-%m-%d') AS day, any_value(split_ns) AS split_ns, count(*) AS conversations,
    count(outcome) AS scored, count(outcome) FILTER (ended_ns < split_ns) AS before,
    count(*) FILTER (outcome = 'fail') AS failed, count(*) FILTER (outcome = 'not_evaluated') AS not_evaluated,
    count(*) FILTER (outcome = 'not_evaluated' AND known) AS known_failures
FROM closed, (SELECT quantile_disc(ended_ns, 0.5) FILTER (outcome IS NOT NULL) AS split_ns FROM closed)
GROUP BY day ORDER BY day
"""  # noqa: S608 — a constant of our own
_JUDGE_ERRORS: Final = f"""
SELECT count(*)
FROM scores s
JOIN conversations c USING (environment, conversation_id, revision)
WHERE s.{IN_EVALUATION} AND NOT s.superseded AND s.evaluator <> 'core' AND s.reason = 'judge_error'
    AND NOT c.superseded AND c.closed_by IS NOT NULL AND {BOUNDS}
"""  # noqa: S608 — a constant of our own


def failure_counts(con: DuckDBPyConnection, selection: Selection) -> tuple[dict[str, int], list[Row]]:
    """Return how many closed conversations exist, are scored, failed and were not evaluated, and the judge errors.

    Also return, for each day (UTC) with scored conversations, how many ended on it, and how many of them before `split_ns`.
    """
    days = rows(con, _DAYS, bounds(selection))
    names = ("conversations", "scored", "failed", "not_evaluated", "known_failures")
    counts = {name: sum(day[name] for day in days) for name in names}
    ((judge_errors,),) = con.execute(_JUDGE_ERRORS, bounds(selection)).fetchall()
    return {**counts, "judge_errors": judge_errors}, [day for day in days if day["scored"]]


#: What identifies a fault: its conversation, metric, label, turn index, position, tool and parameter.
FaultKey = tuple[Location, str, str | None, int | None, int | None, str | None, str | None]


@dataclass(slots=True, kw_only=True)
class ProblemScores:
    """The problems of conversations as scores: one conversation for each kind, which represents the others.

    Conversations of one kind differ only in id and time. The location of a score has the number of these conversations.

    Attributes:
        scores: the problems of the newest conversation of each kind. A conversation that failed has at least one: those of
            `evaluators.failures.core_scores`, then the scores of metrics that the rules may treat as failures.
        blamed: of conversations with several agents, the agent to which each fault is attributed.
        members: the conversations of each kind, the newest first, by the location that represents it.
        ends_ns: the ends of all conversations of each kind.
    """

    scores: list[LocatedScore]
    blamed: dict[FaultKey, str]
    members: dict[Location, tuple[Location, ...]]
    ends_ns: dict[Location, np.ndarray[Any, np.dtype[np.int64]]]


def problem_scores(
    con: DuckDBPyConnection,
    selection: Selection,
    rules: FailureRules,
    *,
    keys: Iterable[Key] | None = None,
    listed: int | None = None,
) -> ProblemScores:
    """Return the problems of conversations.

    Args:
        con: a connection.
        selection: the conversations.
        rules: decide which scores of metrics are problems.
        keys: only these of the selection; None for all.
        listed: the largest number of members of each kind; None for all.
    """
    names = [name for name, metric in rules.metrics.items() if metric.failing or name in rules.thresholds]
    thresholds = [rules.thresholds.get(name) for name in names]
    rules_by_name = {
        "names": names,
        "failing": [sorted(rules.metrics[name].failing) for name in names],
        "least": [None if threshold is None else threshold.min for threshold in thresholds],
        "most": [None if threshold is None else threshold.max for threshold in thresholds],
    }
    parameters = {**bounds(selection), **rules_by_name}
    if keys is None:
        con.execute(_PROBLEMS.format(only=""), parameters)
    else:
        columns = {name: object_array(values) for name, values in key_columns(keys).items()}
        with registered(con, "requested", columns):
            con.execute(_PROBLEMS.format(only=_ONLY_REQUESTED), parameters)
    con.execute(_FAILING_KINDS)
    con.execute(_REPRESENTATIVES)
    result = ProblemScores(scores=[], blamed={}, members={}, ends_ns={})
    locations: dict[int, Location] = {}
    for _, group in groupby(rows(con, _OF_REPRESENTATIVES, {}), key=itemgetter("kind")):
        problems = list(group)
        location = locations[problems[0]["kind"]] = _location(problems[0])
        result.scores += ((location, score) for score in _scores(problems))
        for row in problems:
            if row["part"] == "blame":
                fault = tuple(
                    row[name] for name in ("name", "label", "turn_index", "position", "tool_name", "parameter")
                )
                result.blamed[location, *fault] = row["explanation"]
    members: dict[int, list[Location]] = {}
    for row in rows(con, _MEMBERS, {"listed": listed}):
        members.setdefault(row.pop("kind"), []).append(Location(**row))
    result.members = {locations[kind]: tuple(of_kind) for kind, of_kind in members.items()}
    result.ends_ns = {locations[kind]: ends for kind, ends in split_by_kind(con, _ENDS).items()}
    return result


def _scores(problems: Sequence[Row]) -> Iterator[MetricScore]:
    """Yield the scores of one conversation from its rows in `problems`."""
    by_part: dict[str, list[Row]] = {}
    for row in problems:
        by_part.setdefault(row["part"], []).append(row)
    core = list(_core_scores(by_part))
    for row in by_part.get("conversation", ()):
        yield from core or [without_fault(row["name"], row["explanation"])]
    for row in by_part.get("score", ()):
        fields = ("name", "value", "label", "explanation", "turn_index", "position", "tool_name", "parameter")
        yield MetricScore(**{name: row[name] for name in fields})


def _core_scores(by_part: Mapping[str, Sequence[Row]]) -> Iterator[MetricScore]:
    for row in by_part.get("fault", ()):
        fields = ("label", "turn_index", "position", "tool_name", "parameter", "explanation")
        details = fault_details(row["expected_index"], row["effect"])
        yield MetricScore(name=TOOL, details=details, **{name: row[name] for name in fields})
    for row in by_part.get("answer", ()):
        index = row["turn_index"]
        if row["name"] == "extra_turn":
            yield extra_turn(index)
        else:
            explanations = row["explanation"], row["tools_explanation"] or ""
            yield wrong_answer(index, row["label"], row["value"], *explanations)
    missing = by_part.get("missing_turn", ())
    awaited = any(row["awaiting"] for row in missing)
    if not awaited:
        for row in missing:
            yield missing_turn(row["turn_index"], row["explanation"])
    for row in by_part.get("state", ()):
        yield wrong_state(row["explanation"])
    for row in by_part.get("conversation", ()):
        if row["label"] == "agent_error":
            yield agent_error(row["explanation"])
        if row["lacking"] and not awaited:
            yield from map(missing_output, row["missing_outputs"])


def _location(row: Row) -> Location:
    """Return the conversation of a row, with the number of those that it represents."""
    names = ("environment", "conversation_id", "revision", "agent", "agent_version", "ended_ns", "count", "oldest")
    return Location(**{name: row[name] for name in names})
