"""Reports that count conversations by kind equal those that read each conversation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from otel_agentic.commands import Commands
from otel_agentic.config import EvaluatorSettings
from otel_agentic.evaluators.operations import Totals
from otel_agentic.evaluators.run import FailureRules
from otel_agentic.reports import metric_summary
from otel_agentic.reports.gate_conditions import GateSelection
from otel_agentic.reports.report import ReportRequest
from otel_agentic.store.queries.failures import failing_tools, problem_scores
from otel_agentic.store.queries.scored_conversations import Kinds, KindTable
from otel_agentic.store.queries.scores import (
    KindGroups,
    conversations_of,
    members_of,
    metric_totals,
    origins,
    origins_by_kind,
    select_members,
)
from otel_agentic.store.table import Selection
from otel_agentic.testing import NOON_NS, AgentRunScript, speak_genai
from tests.builders import CASE, HOUR_NS, ask_hotel, feed

if TYPE_CHECKING:
    from otel_agentic.engine.engine import Engine
    from otel_agentic.store.connection import Connection
    from tests.stores import CopyOf, PreparedStore

REQUESTS: list[dict[str, Any]] = [
    {"by": ["version", "environment", "service"]},
    {"by": ["tool"]},
    {"by": ["tag"]},
    {"window": "2h", "until_ns": NOON_NS + 5 * HOUR_NS},
    {"since_ns": NOON_NS + 3 * HOUR_NS, "metrics": []},
    {"criterion": "tools,correct,state"},
    {"criterion": "latency <= 2", "window": "3h"},
    {"criterion": "answer and tools", "by": ["case"], "compare": "agent=travel,tours"},
    {"metrics": ["latency", "operations.cost"]},
]
#: Parts of those.
FURTHER_REQUESTS: list[dict[str, Any]] = [
    {},
    {"by": ["case"]},
    {"window": "2h"},
    {"since_ns": NOON_NS + 3 * HOUR_NS},
    {"compare": "agent=travel,tours"},
    {"metrics": []},
    {"criterion": "answer"},
]


def fill(engine: Engine) -> None:
    """Store right and wrong answers to a case and questions without one, of two agents, an hour apart; score them."""
    for number in range(12):
        agent = ("travel", "tours")[number % 2]
        script = AgentRunScript(conversation_id=f"other-{number}", agent_name=agent).ask("Which inn?").answers("None.")
        if number % 4 < 3:
            script = ask_hotel(f"hotel-{number}", agent_name=agent)
        if number % 3 == 0:
            script = script.answers("The Savoy.")
        feed(engine, speak_genai(script, start_ns=NOON_NS + number // 2 * HOUR_NS))
    Commands(engine).evaluate(cases=[("cases.jsonl", CASE.replace('"case_id"', '"tags": ["stay"], "case_id"'))])


@pytest.fixture
def filled(copy_of: CopyOf, prepared_store: PreparedStore) -> Engine:
    """An engine on a copy of the filled store."""
    return copy_of(prepared_store(fill))


@pytest.mark.parametrize("requests", [REQUESTS, pytest.param(FURTHER_REQUESTS, marks=pytest.mark.slow)])
def test_counting_by_kind_changes_no_figure(filled: Engine, requests: list[dict[str, Any]]) -> None:
    commands = Commands(filled)
    for arguments in requests:
        request = {name: value for name, value in arguments.items() if name != "metrics"}
        assert ReportRequest(**request).counts_by_kind(filled)

        by_kind = commands.report(**arguments)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ReportRequest, "counts_by_kind", lambda *_: False)
            assert list(leaves(commands.report(**arguments))) == list(leaves(by_kind)), arguments


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path and the value of each field; the last digits of a sum depend on the order of its terms."""
    if isinstance(value, dict):
        for name, item in value.items():
            yield from leaves(item, (*path, name))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from leaves(item, (*path, index))
    else:
        yield *path, pytest.approx(value, rel=1e-12) if isinstance(value, float) else value


@pytest.mark.parametrize(
    "arguments",
    [
        {"window": "n3"},
        {"interval": "bootstrap"},
        {"compare": "tag=a,b"},
    ],
    ids=str,
)
def test_what_needs_each_conversation_reads_each(engine: Engine, arguments: dict[str, Any]) -> None:
    assert not ReportRequest(**arguments).counts_by_kind(engine)


def test_a_label_makes_the_report_read_each_conversation(engine: Engine) -> None:
    feed(engine, speak_genai(ask_hotel("one")))
    commands = Commands(engine)
    commands.evaluate(cases=[("cases.jsonl", CASE)], labels=[("labels.csv", "conversation_id,verdict\none,pass\n")])

    assert not ReportRequest().counts_by_kind(engine)


def test_totals_in_sql_are_those_of_the_evaluator(filled: Engine) -> None:
    invented = "UPDATE scores SET reason = NULL, value = (hash(conversation_id, name) % 1000) / 8 WHERE name LIKE $name"
    for name in ("agentic.operations.cost", "agentic.operations.%_tokens", "agentic.operations.latency"):
        filled.store.write(lambda con, name=name: con.execute(invented, {"name": name}))  # type: ignore[misc]
    unknown = "UPDATE scores SET value = NULL, reason = 'no_data' WHERE name LIKE '%input_tokens' AND conversation_id = 'hotel-1'"
    filled.store.write(lambda con: con.execute(unknown))
    totals = Totals()
    with filled.store.read() as con:
        keys = {key for key, _, _ in conversations_of(con, Selection())}
        groups = [keys, {key for key in keys if key[1] >= "other"}, set()]
        select_members(con, groups)
        amounts = metric_summary._amounts(con, len(groups))
        expected = [totals.evaluate_group(members) for members in members_of(con, totals.reads, len(groups))]

    matches = [metric_summary._totals(group) for group in amounts]
    assert [list(leaves(list(map(asdict, scores)))) for scores in expected] == [
        list(leaves(list(map(asdict, scores)))) for scores in matches
    ]
    assert {"no_data", None} == {score.reason for scores in matches for score in scores}


@pytest.mark.parametrize("conditions", [{"min_success": 0.5}, {"min_coverage": 0.9, "tiers": ["ready"]}])
def test_a_gate_that_counts_by_kind_equals_one_that_reads_each_conversation(
    filled: Engine, conditions: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    commands = Commands(filled)
    by_kind = commands.gate(conditions=conditions)

    read_each = GateSelection.groups
    monkeypatch.setattr(GateSelection, "groups", lambda self, engine, **_: read_each(self, engine))

    assert commands.gate(conditions=conditions) == by_kind


def test_the_times_of_a_kind_are_those_of_its_conversations(filled: Engine) -> None:
    with filled.store.read() as con:
        table = KindTable(con, Kinds(selection=Selection()))
        times = table.times()

        assert {row.kind: (row.count, row.ended_ns) for row in table.conversations} == {
            kind: (len(ends), ends[0]) for kind, ends in times.items()
        }
        assert table.period == (min(ends[0] for ends in times.values()), max(ends[-1] for ends in times.values()))


def test_different_scores_make_different_kinds(engine: Engine) -> None:
    fill(engine)

    def kinds(*names: str) -> int:
        with engine.store.read() as con:
            return len(KindTable(con, Kinds(selection=Selection(agent="travel"), names=names)).conversations)

    without, latency = kinds(), "agentic.operations.latency"
    differing = "UPDATE scores SET value = hash(conversation_id) / 1e6, reason = NULL WHERE name = $name"
    engine.store.write(lambda con: con.execute(differing, {"name": latency}))

    assert (without, kinds(latency)) == (kinds(), 6)
    assert without < 6


class PlannedConnection:
    """A connection that records, for each query, how often its plan reads each table of the store."""

    def __init__(self, con: Connection) -> None:
        self.con = con
        self.scans: list[Counter[str]] = []

    def execute(self, sql: str, parameters: Any = None) -> Any:
        plan = self.con.execute(f"EXPLAIN (FORMAT JSON) {sql}", parameters).fetchall()
        self.scans.append(Counter(_tables(orjson.loads(plan[0][1]))))
        return self.con.execute(sql, parameters)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.con, name)


def _tables(operators: list[dict[str, Any]]) -> Iterator[str]:
    for operator in operators:
        if "Table" in operator["extra_info"]:
            yield operator["extra_info"]["Table"].rpartition(".")[2]
        yield from _tables(operator["children"])


def test_each_part_of_a_report_reads_the_scores_once(engine: Engine) -> None:
    """Scores have about sixty rows for each conversation, so that each further scan of them is noticeable."""
    fill(engine)
    with engine.store.read() as con:
        planned: Any = PlannedConnection(con)
        table = KindTable(planned, Kinds(selection=Selection(), names=("agentic.operations.latency",)))
        assert planned.scans == [{"conversations": 1, "scores": 1, "tool_faults": 1}]

        select_members(con, KindGroups(groups=[{row.kind for row in table.conversations if row.kind}], table=table))
        planned.scans.clear()
        metric_totals(planned, None, {})
        assert [scans["scores"] for scans in planned.scans] == [0, 1, 1]

        planned.scans.clear()
        origins(planned, Selection())
        assert [scans["scores"] for scans in planned.scans] == [1]

        planned.scans.clear()
        of_kinds = origins_by_kind(table)
        assert [scans["scores"] for scans in planned.scans] == [0]
        assert of_kinds
        assert of_kinds.items() <= origins(con, Selection()).items()


def test_the_scores_of_the_conversations_that_represent_a_kind_are_read_once(engine: Engine) -> None:
    fill(engine)
    with engine.store.read() as con:
        planned: Any = PlannedConnection(con)
        table = KindTable(planned, Kinds(selection=Selection()))
        planned.scans.clear()
        assert table.conversations

    # The representatives; their row ids and then their rows; and what a report reads of them.
    assert [scans["scores"] for scans in planned.scans] == [0, 2, 0]


def test_failed_conversations_are_selected_once(engine: Engine) -> None:
    fill(engine)
    with engine.store.read() as con:
        planned: Any = PlannedConnection(con)
        assert problem_scores(planned, Selection(), FailureRules((), EvaluatorSettings())).scores

    assert [scans["conversations"] for scans in planned.scans] == [3, 0, 0, 0, 0, 0]
    assert [scans["scores"] for scans in planned.scans] == [4, 0, 0, 0, 0, 0]


def test_conversations_with_the_same_failures_are_read_once(engine: Engine) -> None:
    fill(engine)
    with engine.store.read() as con:
        result = problem_scores(con, Selection(), FailureRules((), EvaluatorSettings()), listed=1)
        failed = con.execute(
            "SELECT environment, conversation_id FROM conversation_scores WHERE outcome = 'fail' AND NOT superseded"
        ).fetchall()

    kinds = {location for location, _ in result.scores}
    assert 0 < len(kinds) < len(failed)
    assert sum(location.count for location in kinds) == len(failed)
    assert {location: len(ends) for location, ends in result.ends_ns.items()} == {kind: kind.count for kind in kinds}
    for kind, (newest,) in result.members.items():
        assert (newest.conversation_id, newest.ended_ns) == (kind.conversation_id, max(result.ends_ns[kind]))
        assert kind.first[0] == min(result.ends_ns[kind])


def test_the_history_of_faults_is_computed_once(engine: Engine) -> None:
    """It reads all conversations, to count their versions, their faults, and the calls without a fault."""
    fill(engine)
    with engine.store.read() as con:
        history: Any = PlannedConnection(con)
        history.execute("FROM v_fault_history")
        planned: Any = PlannedConnection(con)
        failing_tools(planned, Selection())

    assert planned.scans[0]["tool_counts"] == history.scans[0]["tool_counts"] + 1
