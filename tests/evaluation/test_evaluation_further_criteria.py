"""Further criteria have results, windows and gauges of their own; outcomes by different rules are never counted together."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from otel_agentic.commands import Commands
from otel_agentic.errors import UsageError
from otel_agentic.live.loops import WindowLoop
from otel_agentic.store.windows import save_windows
from otel_agentic.telemetry import Telemetry
from otel_agentic.testing import NOON_NS, SECOND_NS, AgentRunScript, scripted_call, speak_genai
from tests.builders import feed, rows

if TYPE_CHECKING:
    from otel_agentic.engine.engine import Engine
    from tests.stores import OpenEngine

QUERY = "Refund order 7."
LINE = '{"case_id": "refund", "turns": [{"query": "Refund order 7.", "answer": "Refunded.", "tools": {"calls": [{"tool_name": "refund", "parameters": {"amount": 10}}]}}]}'  # fmt: skip
FURTHER = ["tools", "answer and tools", "traffic"]
WINDOWS = {"criteria": FURTHER, "widths": ["24h"]}
COUNTS = """
SELECT criterion, criteria, count(*), count(*) FILTER (outcome = 'pass'), count(*) FILTER (outcome = 'not_evaluated')
FROM results GROUP BY ALL ORDER BY ALL
"""


def talk(name: str, amount: int, answer: str) -> Any:
    call = scripted_call("refund", {"amount": amount}, result="ok")
    return speak_genai(AgentRunScript(conversation_id=name).ask(QUERY).calls(call).answers(answer))


def evaluated(engine: Engine) -> Commands:
    stored = (("right", 10, "Refunded."), ("amount", 99, "Refunded."), ("answer", 10, "No."))
    feed(engine, *(talk(name, amount, answer) for name, amount, answer in stored))
    commands = Commands(engine)
    commands.evaluate(cases=[("cases.jsonl", LINE)])
    return commands


def traffic_rule(engine: Engine) -> str:
    return ", ".join(engine.settings.scoring.profiles["traffic"])


def test_results_of_each_criterion_agree_with_its_report(open_engine: OpenEngine) -> None:
    engine = open_engine(windows=WINDOWS)
    commands = evaluated(engine)
    counted = {(name, criteria): (passed, n - missing) for name, criteria, n, passed, missing in rows(engine, COUNTS)}
    assert counted == {
        ("answer and tools", ""): (1, 3),
        ("correct", ""): (1, 3),
        ("tools", ""): (2, 3),
        ("traffic", traffic_rule(engine)): (3, 3),
    }
    for criterion, _ in counted:
        (group,) = commands.report(criterion=criterion, k=[1])["groups"]
        assert (group["c"], group["n"]) in {value for (name, _), value in counted.items() if name == criterion}


def test_metrics_that_are_computed_later_complete_the_results(open_engine: OpenEngine) -> None:
    criteria = ["operations.tool_calls <= 0"]
    engine = open_engine(windows={"criteria": criteria})
    feed(engine, talk("right", 10, "Refunded."))
    commands = Commands(engine)
    commands.evaluate(cases=[("cases.jsonl", LINE)], metrics=["none"])
    outcome = "SELECT outcome, reason FROM results WHERE criterion <> 'correct'"
    assert [("not_evaluated", "not_scored")] == rows(engine, outcome)
    commands.evaluate()
    assert [("fail", "criterion")] == rows(engine, outcome)


def test_windows_and_gauges_name_the_criterion_and_only_correct_has_a_tier(open_engine: OpenEngine) -> None:
    engine = open_engine(windows=WINDOWS)
    evaluated(engine)
    now_ns = NOON_NS + 3600 * SECOND_NS
    engine.clock = lambda: now_ns
    telemetry = Telemetry.from_settings(engine.emit, run_id="run", trigger="online")
    table = WindowLoop(engine, telemetry).show()
    text = telemetry.render()[1].decode()
    telemetry.shutdown(1.0)
    engine.store.write(lambda con: save_windows(con, table, [now_ns], now_ns))
    shares = rows(engine, "SELECT DISTINCT criterion, c, n, tier FROM windows ORDER BY ALL")
    assert [row[:3] for row in shares] == [("answer and tools", 1, 3), ("correct", 1, 3), ("tools", 2, 3), ("traffic", 3, 3)]  # fmt: skip
    assert {row[3] for row in shares if row[0] != "correct"} == {"insufficient_evidence"}
    passed = [
        line for line in text.splitlines() if line.startswith("agentic_window_conversations{") and '="pass"' in line
    ]
    assert len(passed) == len(shares)
    assert all(any(f'agentic_criterion="{row[0]}"' in line for line in passed) for row in shares)
    tiers = [line for line in text.splitlines() if line.startswith("agentic_tier_status{")]
    assert tiers
    assert all('agentic_criterion="correct"' in line for line in tiers)


def test_a_change_of_the_criteria_starts_new_series(open_engine: OpenEngine, tmp_path: Path) -> None:
    db = tmp_path / "changed.duckdb"
    earlier = open_engine(db, windows={"widths": ["n9"]})
    evaluated(earlier)
    earlier.close()
    engine = open_engine(db, scoring={"criteria": ["answer"]}, windows={"widths": ["n9"]})
    (rule,) = Commands(engine).report(k=[1])["criteria"]
    assert 3 == rule["scored_otherwise"]
    feed(engine, talk("later", 99, "Refunded."))
    Commands(engine).evaluate()
    counted = [(criteria, n) for _, criteria, n, *_ in rows(engine, COUNTS)]
    assert counted == [("answer", 4)]
    assert [("correct", ""), ("correct", "answer")] == rows(
        engine, "SELECT criterion, criteria FROM subjects ORDER BY ALL"
    )
    assert "scored_otherwise" not in Commands(engine).report(k=[1])["criteria"][0]


def test_a_gate_is_by_any_criterion(open_engine: OpenEngine) -> None:
    gate = evaluated(open_engine()).gate
    conditions = {"min_success": 0.6, "fail_on_severity": "none", "bound": "estimate", "min_n": 1}
    assert [False, True] == [
        gate(conditions=conditions, criterion=criterion)["passed"] for criterion in ("correct", "tools")
    ]
    with pytest.raises(UsageError, match="--tier is about the criterion correct"):
        gate(conditions={"tiers": ["ready"]}, criterion="tools")


def save_baseline(gate: Callable[..., Any], **arguments: Any) -> Any:
    conditions = {"fail_on_severity": "none", "min_n": 1}
    return gate(conditions=conditions, measure="main", **arguments)["measured"]


@pytest.mark.parametrize(
    ("saved", "compared", "settings", "message"),
    [
        ("correct", "tools", {}, "was measured by correct, this gate by tools"),
        ("correct", "correct", {"criteria": ["answer"]}, r"by correct, this gate by correct \(answer\)"),
        ("traffic", "traffic", {"profiles": {"traffic": ["operations.loops"]}}, r"this gate by traffic \(operations.loops\)"),
    ],
)  # fmt: skip
def test_a_baseline_is_compared_with_the_same_criterion_only(
    open_engine: OpenEngine, saved: str, compared: str, settings: dict[str, Any], message: str
) -> None:
    engine = open_engine()
    commands = evaluated(engine)
    baseline = save_baseline(commands.gate, criterion=saved)
    assert (saved, "" if saved == "correct" else traffic_rule(engine)) == (
        baseline["criterion"],
        baseline["criteria"],
    )
    conditions = {"fail_on_severity": "none", "min_n": 1}
    assert commands.gate(conditions=conditions, criterion=saved, baseline=baseline)["passed"]
    engine.close()
    changed = Commands(open_engine(scoring=settings))
    with pytest.raises(UsageError, match=message):
        changed.gate(conditions=conditions, criterion=compared, baseline=baseline)


def test_an_objective_is_about_its_criterion(open_engine: OpenEngine) -> None:
    objectives = [{"target": 0.5}, {"target": 0.9, "criterion": "tools"}]
    engine = open_engine(windows=WINDOWS, slo={"objectives": objectives, "block": "none"})
    commands = evaluated(engine)
    statuses = commands.report(k=[1])["objectives"]
    assert [(status["objective"], status["n"], status["c"]) for status in statuses] == [
        ("pass^1>=0.5", 3, 1),
        ("tools: pass^1>=0.9", 3, 2),
    ]


def test_a_criterion_whose_metric_is_not_computed_is_refused_by_name(open_engine: OpenEngine) -> None:
    engine = open_engine(windows={"criteria": ["operations.loops"]}, evaluators={"metrics": ["none"]})
    with pytest.raises(UsageError, match=r"windows.criteria: 'operations.loops' reads agentic.operations.loops"):
        _ = engine.runner.further
