"""What may be a failure, out of the store: what is wrong with conversations that failed, and scores that are not good."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from otel_agentic.evaluators.base import MetricScore
from otel_agentic.evaluators.core import TOOL, extra_turn, missing_output, missing_turn, without_fault, wrong_answer
from otel_agentic.evaluators.failures import Place
from otel_agentic.store.evaluations import IN_EVALUATION
from otel_agentic.store.selection import BOUNDS, bounds, rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duckdb import DuckDBPyConnection

    from otel_agentic.evaluators.failures import FailureRules
    from otel_agentic.store.selection import Row, Selection

Found = tuple[Place, MetricScore]

_PLACE: Final = """
    c.environment, c.conversation_id, c.revision, c.agent, c.agent_version, epoch_ns(c.ended_at) AS ended_ns
"""
#: Conversations that failed, or are known to fail while the judge is unsure about another part. Nothing fails by a draft; without an end mark, turns that are missing may still exist.
_FAILED: Final = f"""
WITH failed AS (
    SELECT
        {_PLACE}, s.evaluation_id, s.dataset, s.case_id, s.case_version, s.missing_outputs, s.explanation, s.outcome_source,
        s.computed_reason IS DISTINCT FROM 'unreviewed' AS held,
        held AND s.case_id IS NOT NULL AS lacking,
        c.closed_by IS DISTINCT FROM 'end_mark' AND coalesce(s.partial, false) AS awaiting
    FROM conversation_scores s
    JOIN conversations c USING (environment, conversation_id, revision)
    WHERE s.{IN_EVALUATION} AND NOT s.superseded AND NOT c.superseded AND {BOUNDS}
        AND (s.outcome = 'fail' OR (s.outcome = 'not_evaluated' AND s.known_failure IS NOT NULL))
)
"""  # noqa: S608 — a constant of our own
_WHOSE: Final = "d.* EXCLUDE (missing_outputs, explanation, outcome_source)"
_CONVERSATIONS: Final = f"""
{_FAILED}
SELECT * FROM failed
ORDER BY ended_ns, environment, conversation_id
"""  # noqa: S608 — a constant of our own
#: Faults that were made good are none; of those written before that was kept, all count.
_FAULTS: Final = f"""
{_FAILED}
SELECT
    {_WHOSE}, f.fault AS label, f.turn_index, f.actual_position AS position, f.tool_name, f.parameter,
    f.explanation AS told
FROM tool_faults f
JOIN failed d USING (evaluation_id, environment, conversation_id, revision)
WHERE d.held AND coalesce(f.failed, true)
ORDER BY f.turn_index, f.expected_index, f.actual_position, f.fault, f.parameter, f.explanation
"""  # noqa: S608 — a constant of our own
_TURNS: Final = f"""
{_FAILED}
SELECT
    {_WHOSE}, t.turn_index, coalesce(t.answer_reason, t.reason) AS label, t.reason, t.answer_score AS value,
    t.explanation AS told, o.explanation AS told_of_tools
FROM turn_scores t
JOIN failed d USING (evaluation_id, environment, conversation_id, revision)
LEFT JOIN tool_scores o USING (evaluation_id, environment, conversation_id, revision, turn_index)
WHERE d.held AND (label IN ('wrong_answer', 'forbidden_answer') OR t.reason = 'extra_turn')
ORDER BY t.turn_index
"""  # noqa: S608 — a constant of our own
_MISSING_TURNS: Final = f"""
{_FAILED}
SELECT {_WHOSE}, k.turn_index AS case_turn_index, k.query
FROM failed d
JOIN case_turns k ON k.dataset = d.dataset AND k.case_id = d.case_id AND k.version = d.case_version
ANTI JOIN turn_scores t ON t.evaluation_id = d.evaluation_id AND t.environment = d.environment
    AND t.conversation_id = d.conversation_id AND t.revision = d.revision AND t.case_turn_index = k.turn_index
WHERE d.lacking
ORDER BY k.turn_index
"""  # noqa: S608 — a constant of our own
#: Scores of metrics whose label is a failing one, or whose value is out of bounds. NaN is no number to compare with.
_SCORES: Final = f"""
SELECT
    {_PLACE}, s.name, s.value, s.label, s.explanation, s.turn_index, s.position, s.tool_name, s.parameter
FROM scores s
JOIN conversations c USING (environment, conversation_id, revision)
JOIN (SELECT unnest($names) AS name, unnest($failing) AS failing, unnest($least) AS least, unnest($most) AS most) r
    USING (name)
WHERE s.{IN_EVALUATION} AND NOT s.superseded AND NOT c.superseded AND s.evaluator <> 'core' AND {BOUNDS}
    AND (list_contains(r.failing, s.label) OR s.value < r.least OR s.value > r.most)
ORDER BY c.ended_at, c.environment, c.conversation_id, s.name, s.turn_index, s.position, s.label
"""  # noqa: S608 — a constant of our own
_COUNTS: Final = f"""
SELECT
    count(*) AS conversations, count(s.outcome) AS scored, count(*) FILTER (s.outcome = 'fail') AS failed,
    count(*) FILTER (s.outcome = 'not_evaluated') AS not_evaluated,
    count(*) FILTER (s.outcome = 'not_evaluated' AND s.known_failure IS NOT NULL) AS known_failures,
    coalesce(sum((
        SELECT count(*) FROM scores m
        WHERE m.environment = c.environment AND m.conversation_id = c.conversation_id AND m.revision = c.revision
            AND m.{IN_EVALUATION} AND NOT m.superseded AND m.evaluator <> 'core' AND m.reason = 'judge_error'
    )), 0)::BIGINT AS judge_errors
FROM conversations c
LEFT JOIN conversation_scores s
    ON s.environment = c.environment AND s.conversation_id = c.conversation_id AND s.revision = c.revision
    AND s.{IN_EVALUATION} AND NOT s.superseded
WHERE NOT c.superseded AND c.closed_by IS NOT NULL AND {BOUNDS}
"""  # noqa: S608 — a constant of our own


def core_found(con: DuckDBPyConnection, selection: Selection) -> list[Found]:
    """Return what is wrong with the conversations that failed, one thing each at least, oldest first.

    The same as `evaluators.core.core_scores` says of each of them.
    """
    where = bounds(selection)
    found: dict[Place, list[MetricScore]] = {}
    conversations = rows(con, _CONVERSATIONS, where)
    for row in conversations:
        found[_place(row)] = []
    for place, score in (*_faults(con, where), *_answers(con, where)):
        found[place].append(score)
    awaited: set[Place] = set()
    for row in rows(con, _MISSING_TURNS, where):
        if row["awaiting"]:
            awaited.add(_place(row))
        else:
            found[_place(row)].append(missing_turn(row["case_turn_index"], row["query"]))
    for row in conversations:
        of_one = found[_place(row)]
        if row["lacking"] and _place(row) not in awaited:
            of_one += map(missing_output, row["missing_outputs"])
        if not of_one:
            of_one.append(without_fault(row["outcome_source"], row["explanation"]))
    return [(place, score) for place, scores in found.items() for score in scores]


def bad_scores(con: DuckDBPyConnection, selection: Selection, rules: FailureRules) -> list[Found]:
    """Return the scores of metrics that the rules may call failures, oldest first."""
    names = list(rules.metrics)
    bounds_of = [rules.thresholds.get(name) for name in names]
    told = {
        "names": names,
        "failing": [sorted(rules.metrics[name].failing) for name in names],
        "least": [None if one is None else one.min for one in bounds_of],
        "most": [None if one is None else one.max for one in bounds_of],
    }
    fields = ("name", "value", "label", "explanation", "turn_index", "position", "tool_name", "parameter")
    return [
        (_place(row), MetricScore(**{name: row[name] for name in fields}))
        for row in rows(con, _SCORES, {**bounds(selection), **told})
    ]


def failure_counts(con: DuckDBPyConnection, selection: Selection) -> Row:
    """Return how many closed conversations there are, are scored, failed, could not be evaluated; scores without a judge."""
    return rows(con, _COUNTS, bounds(selection))[0]


def _faults(con: DuckDBPyConnection, where: dict[str, Any]) -> Iterator[Found]:
    fields = ("label", "turn_index", "position", "tool_name", "parameter")
    for row in rows(con, _FAULTS, where):
        told = {name: row[name] for name in fields}
        yield _place(row), MetricScore(name=TOOL, explanation=row["told"], **told)


def _answers(con: DuckDBPyConnection, where: dict[str, Any]) -> Iterator[Found]:
    for row in rows(con, _TURNS, where):
        index = row["turn_index"]
        if row["reason"] == "extra_turn":
            yield _place(row), extra_turn(index)
        else:
            told = row["told"], row["told_of_tools"] or ""
            yield _place(row), wrong_answer(index, row["label"], row["value"], *told)


def _place(row: Row) -> Place:
    return Place(
        environment=row["environment"],
        conversation_id=row["conversation_id"],
        revision=row["revision"],
        agent=row["agent"],
        agent_version=row["agent_version"],
        ended_ns=row["ended_ns"],
    )
