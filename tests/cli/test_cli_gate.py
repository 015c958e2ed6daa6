"""`otel-agentic gate`: the conditions that hold, the reason of each, and the exit code."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from otel_agentic import load_settings
from tests.cli.judged_runs import add_run, judged_store, write_run
from tests.cli.running import Ran, done, on_terminal, run
from tests.snapshots import ending, opening, passage

#: Six cases, four attempts each: of two cases one attempt is wrong.
MIXED = {name: [True, True, True, name not in {"A", "B"}] for name in "ABCDEF"}

#: An evaluator of any name; the metric is always the same.
OWN = """
from otel_agentic.conversations.model import Conversation
from otel_agentic.evaluators.base import Metric, MetricScore
from otel_agentic.evaluators.custom import evaluator

TONE = Metric(name="desk.tone", title="tone", definition="", source="", target="conversation", high=10.0)

@evaluator(name="desk.{name}", metrics=[TONE])
def own(conversation: Conversation) -> MetricScore:
    return MetricScore(name="desk.tone", value={value})
"""


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of clerk, 22 of 24 right, and two conversations without a case."""
    return judged_store(tmp_path_factory.mktemp("mixed"), MIXED, unmatched=2, metrics="ragas.tool_calls")


@pytest.fixture(scope="module")
def perfect(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of clerk, 3 of 3 right, each of a case of its own."""
    return judged_store(tmp_path_factory.mktemp("perfect"), {name: [True] for name in "ABC"})


@pytest.fixture(scope="module")
def versions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of clerk, version 1.0 right and 2.0 wrong."""
    folder = tmp_path_factory.mktemp("versions")
    db = judged_store(folder, {"A": [True] * 4})
    add_run(db, write_run(folder, {"A": [False]}, name="next", version="2.0"))
    return db


def gate(db: Path, *arguments: str) -> Ran:
    few = () if "--min-n" in arguments else ("--min-n", "1")
    return run("gate", "--db", db, *few, *arguments)


def rows(db: Path, *arguments: str) -> dict[str, dict[str, Any]]:
    """Return the rows of a gate by condition."""
    return {row["condition"]: row for row in gate(db, *arguments, "--format", "json").json["rows"]}


def test_a_condition_that_holds_lets_the_script_go_on(mixed: Path) -> None:
    ran = gate(mixed, "--min-success", "0.9", "--min-coverage", "0.9", "--min-n", "24")
    assert 0 == ran.code
    assert ran.out.splitlines()[-1] == snapshot("gate passed: 4 conditions of clerk hold")


def test_a_condition_that_does_not_hold_stops_it(mixed: Path) -> None:
    ran = gate(mixed, "--min-success", "0.95", "--min-coverage", "0.9")
    assert 1 == ran.code
    assert passage(ran.out) == snapshot("gate failed: 1 of 4 conditions of clerk does not hold")
    assert "" == ran.err


def test_values_are_those_that_the_report_shows(mixed: Path) -> None:
    by_condition = rows(
        mixed,
        "--min-pass-pow-k",
        "3=0.5,1=0.1",
        "--min-pass-at-k",
        "5=0.5",
        "--min-success",
        "0.5",
        "--min-coverage",
        "0.5",
    )
    (group,) = done("report", "--db", mixed, "--format", "json").json["groups"]
    estimates = group["estimates"][group["default_estimator"]]
    assert estimates["pass_pow_k"]["3"]["value"] == by_condition["pass^3"]["value"]
    assert estimates["pass_pow_k"]["1"]["value"] == by_condition["pass^1"]["value"]
    assert estimates["pass_at_k"]["5"]["value"] == by_condition["pass@5"]["value"]
    assert (group["coverage"], group["c"] / group["n"]) == (
        by_condition["coverage"]["value"],
        by_condition["success"]["value"],
    )


@pytest.mark.parametrize(("limit", "verdict"), [("0.9166666666666666", "pass"), ("0.9167", "fail")])
def test_what_is_just_as_much_as_wanted_holds(mixed: Path, limit: str, verdict: str) -> None:
    assert verdict == rows(mixed, "--min-success", limit)["success"]["verdict"]  # 22 / 24 = .91667


def test_three_of_three_hold_by_the_estimate_and_the_reason_is_that_they_prove_nothing(perfect: Path) -> None:
    row = rows(perfect, "--min-success", "0.9")["success"]
    # The lower end of Clopper and Pearson's is .025^(1/3) = .292.
    assert ("pass", 1.0, pytest.approx(0.292, abs=1e-3)) == (row["verdict"], row["value"], row["lower"])
    assert row["reason"] == snapshot(
        "the estimate meets it; the 95 % interval extends down to .292: 3 conversations do not prove it, 33 more like these would"
    )


def test_by_the_lower_bound_three_of_three_do_not_hold(perfect: Path) -> None:
    row = rows(perfect, "--min-success", "0.9", "--bound", "lower")["success"]
    assert ("fail", "lower") == (row["verdict"], row["compared"])
    # .292 >= .2: proven.
    assert "pass" == rows(perfect, "--min-success", "0.2", "--bound", "lower")["success"]["verdict"]


def test_a_tier_is_good_enough_only_where_the_evidence_supports_it(perfect: Path) -> None:
    row = rows(perfect, "--tier", "ready")["tier"]
    assert ("fail", "insufficient_evidence") == (row["verdict"], row["label"])
    assert opening(row["reason"]) == snapshot("too little evidence for any tier, leaning ")
    assert "pass" == rows(perfect, "--tier", "ready", "--tier", "insufficient_evidence")["tier"]["verdict"]


def test_each_agent_must_hold_each_condition(tmp_path: Path) -> None:
    db = judged_store(tmp_path, {"A": [True] * 4})
    add_run(db, write_run(tmp_path, {"A": [True, False]}, name="other", agent="porter"))

    payload = gate(db, "--min-success", "0.9", "--fail-on-severity", "high", "--format", "json").json
    by_agent = {(row["agent"], row["condition"]): row for row in payload["rows"]}
    assert {
        ("clerk", "n"): "pass",
        ("porter", "n"): "pass",
        ("clerk", "success"): "pass",
        ("clerk", "severity"): "pass",
        ("porter", "success"): "fail",
        ("porter", "severity"): "fail",
    } == {key: row["verdict"] for key, row in by_agent.items()}
    assert ending(by_agent["porter", "severity"]["reason"]) == snapshot("for example conversation other-porter-1")
    assert not payload["passed"]
    assert 0 == gate(db, "--min-success", "0.9", "--agent", "clerk").code
    assert "of 2 agents" in gate(db, "--min-success", "0.9").out


def test_a_version_is_looked_at_alone(versions: Path) -> None:
    assert 1 == gate(versions, "--min-success", "0.9", "--agent-version", "2.0").code
    assert 0 == gate(versions, "--min-success", "0.9", "--agent-version", "1.0").code
    assert 1 == gate(versions, "--agent-version", "3.0").code
    assert 0 == gate(versions, "--min-success", "1", "--environment", "production", "--agent-version", "1.0").code


def test_a_window_counts_back_from_the_newest_conversation(tmp_path: Path) -> None:
    db = judged_store(tmp_path, {"A": [False, False, True, True]})  # an hour apart
    assert 1 == gate(db, "--min-success", "0.9").code
    assert 0 == gate(db, "--min-success", "0.9", "--window", "2h").code
    assert 0 == gate(db, "--min-success", "0.9", "--window", "n2").code


class TestSeverity:
    def test_a_failure_of_the_chosen_severity_fails_and_is_named(self, mixed: Path) -> None:
        ran = gate(mixed, "--fail-on-severity", "high", "--format", "json")
        (row,) = (row_of_all for row_of_all in ran.json["rows"] if row_of_all["condition"] == "severity")
        assert (1, "fail", 2.0, 24) == (ran.code, row["verdict"], row["value"], row["n"])
        assert passage(row["reason"]) == snapshot("for example conversation run-clerk-7")

    def test_unless_asked_for_only_critical_ones_do(self, mixed: Path) -> None:
        row = rows(mixed)["severity"]
        assert (row["verdict"], row["label"], row["reason"]) == snapshot(
            ("pass", "critical", "none in 24 conversations; 2 more not evaluated")
        )

    def test_a_forbidden_call_is_critical(self, tmp_path: Path) -> None:
        files = write_run(tmp_path, {"A": [True]})
        files.cases.write_text(json.dumps({"case_id": "A", "tools": {"calls": [], "forbidden": ["look_*"]}}))
        done("ingest", files.spans, "--db", tmp_path / "t.duckdb", "--quiet")
        done("evaluate", "--db", tmp_path / "t.duckdb", "--cases", files.cases, "--quiet")
        assert 1 == gate(tmp_path / "t.duckdb").code

    def test_none_looks_at_no_failure(self, mixed: Path) -> None:
        assert {"n"} == rows(mixed, "--fail-on-severity", "none", "--min-n", "1").keys()

    def test_a_gate_that_asks_for_nothing_is_a_mistake_unless_it_saves(self, mixed: Path, tmp_path: Path) -> None:
        nothing = run("gate", "--db", mixed, "--fail-on-severity", "none")
        assert (2, "") == (nothing.code, nothing.out)
        assert passage(nothing.err) == snapshot("no condition: the check of severities is turned off,")
        assert 0 == gate(mixed, "--fail-on-severity", "none", "--save-baseline", str(tmp_path / "b.json")).code

    def test_failures_of_other_versions_do_not_count(self, versions: Path) -> None:
        assert 0 == gate(versions, "--fail-on-severity", "low", "--agent-version", "1.0").code
        assert 1 == gate(versions, "--fail-on-severity", "low", "--agent-version", "2.0").code


class TestMetrics:
    def test_the_reason_has_the_number_of_conversations_without_the_metric(self, tmp_path: Path) -> None:
        db = judged_store(tmp_path, {"A": [True] * 3})
        done("evaluate", "--db", db, "--metrics", "trajectory", "--until", "2026-03-02T12:30:00Z", "--quiet")
        by_condition = rows(db, "--threshold", "trajectory.f1=0.5")["agentic.trajectory.f1"]
        assert ("pass", 1) == (by_condition["verdict"], by_condition["n"])
        assert ending(by_condition["reason"]) == snapshot("; not computed for 2 conversations")

    def test_a_threshold_of_answers_is_no_condition_on_a_mean(self, mixed: Path, tmp_path: Path) -> None:
        (tmp_path / "s.toml").write_text("[evaluators.thresholds]\nanswer = {min = 0.5}\n")
        assert {"n", "severity"} == rows(mixed, "--config", str(tmp_path / "s.toml")).keys()

    def test_scores_of_an_evaluator_that_is_gone_do_not_count(self, tmp_path: Path) -> None:
        db = judged_store(tmp_path, {"A": [True]})
        for name, value in (("new", 1.0), ("old", 5.0)):
            (tmp_path / f"{name}.py").write_text(OWN.format(name=name, value=value))
            own = ("--metrics", "none", "--evaluator", tmp_path / f"{name}.py:own")
            done("evaluate", "--db", db, *own, "--quiet")
        settings = tmp_path / "settings.toml"
        settings.write_text(f"[evaluators]\nfiles = [{json.dumps(f'{tmp_path}/new.py:own')}]\n")
        by_condition = rows(db, "--config", str(settings), "--threshold", "desk.tone=3")["desk.tone"]
        assert ("fail", 1.0) == (by_condition["verdict"], by_condition["value"])

    def test_the_mean_is_held_against_the_least_value(self, mixed: Path) -> None:
        # 22 calls as expected, 2 with a wrong order: parameters of all 24 are there, one call each.
        by_condition = rows(
            mixed, "--threshold", "ragas.tool_call_accuracy=0.9", "--threshold", "ragas.tool_call_f1>=0.99"
        )
        assert "pass" == by_condition["agentic.ragas.tool_call_accuracy"]["verdict"]
        assert pytest.approx(22 / 24) == by_condition["agentic.ragas.tool_call_accuracy"]["value"]
        assert "fail" == by_condition["agentic.ragas.tool_call_f1"]["verdict"]
        assert 24 == by_condition["agentic.ragas.tool_call_f1"]["n"]

    def test_a_most_value_is_asked_for_with_its_sign(self, mixed: Path) -> None:
        row = rows(mixed, "--threshold", "ragas.tool_call_accuracy<=0.5")["agentic.ragas.tool_call_accuracy"]
        assert ("<=", 0.5, "fail") == (row["operator"], row["limit"], row["verdict"])

    def test_thresholds_of_the_settings_count_and_a_flag_takes_their_place(self, mixed: Path, tmp_path: Path) -> None:
        (tmp_path / "otel-agentic.toml").write_text(
            '[evaluators.thresholds]\n"ragas.tool_call_accuracy" = {min = 0.99}\n[gate]\nmin_success = 0.5\n'
            "min_pass_pow_k = {3 = 0.2}\nfail_on_severity = 'none'\n"
        )
        by_condition = rows(mixed)
        assert ["n", "success", "pass^3", "agentic.ragas.tool_call_accuracy"] == list(by_condition)
        assert "fail" == by_condition["agentic.ragas.tool_call_accuracy"]["verdict"]
        over = rows(
            mixed, "--threshold", "tool_call_accuracy=0.5", "--min-success", "0.99", "--min-pass-pow-k", "1=0.5"
        )
        assert {"n": 1, "success": 0.99, "pass^1": 0.5, "pass^3": 0.2, "agentic.ragas.tool_call_accuracy": 0.5} == {
            name: row["limit"] for name, row in over.items()
        }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--threshold", "invalid=1"), "--threshold invalid: no metric 'invalid'"),
        (("--threshold", "helpfulness"), "--threshold 'helpfulness': give METRIC=V"),
        (("--threshold", "helpfulness=much"), "--threshold 'helpfulness=much': give METRIC=V"),
        (("--threshold", "helpfulness=nan"), "--threshold 'helpfulness=nan': give METRIC=V"),
        (("--threshold", "layers.verdict=1"), "has no better direction; give one"),
        (("--min-pass-pow-k", "3"), "--min-pass-pow-k '3': give K=V"),
        (("--min-pass-pow-k", "0=0.7"), "--min-pass-pow-k '0=0.7': give K=V"),
        (("--min-pass-at-k", "3=70"), "--min-pass-at-k '3=70': give K=V"),
        (("--min-pass-at-k", "three=0.7"), "--min-pass-at-k 'three=0.7': give K=V"),
        (("--min-success", "70"), "70.0 is not in the range"),
        (("--min-n", "0"), "0 is not in the range"),
        (("--fail-on-severity", "worst"), "'worst' is not one of 'low', 'medium', 'high', 'critical', 'none'"),
        (("--tier", "best"), "'best' is not one of 'ready'"),
        (
            ("--allow-no-data", "invalid"),
            "--allow-no-data invalid: neither a condition (all, conversations, coverage",
        ),
        (("--max-drop", "0.1"), "--max-regression and --max-drop need a --baseline to compare with"),
        (("--estimator", "nope"), "no estimators plug-in 'nope'"),
        (("--window", "24x"), "window width '24x'"),
    ],
)
def test_an_invalid_argument_is_named_before_anything_is_printed(
    perfect: Path, arguments: tuple[str, ...], message: str
) -> None:
    ran = gate(perfect, *arguments)
    assert (2, "") == (ran.code, ran.out)
    assert message in ran.err
    assert 1 == len(ran.lines)


def test_a_suite_that_no_case_is_of_is_bad_input(perfect: Path) -> None:
    ran = gate(perfect, "--suite", "regresion")
    assert (3, "") == (ran.code, ran.out)
    assert passage(ran.err) == snapshot("no active case has the tag 'regresion'; no active case has a tag")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("min_success = 70", "setting gate.min_success"),
        ("min_pass_pow_k = {0 = 0.7}", "setting gate.min_pass_pow_k"),
        ("fail_on_severity = 'worst'", "setting gate.fail_on_severity"),
        ("min_sucess = 0.7", "unknown setting gate.min_sucess"),
    ],
)
def test_a_wrong_setting_is_named(perfect: Path, tmp_path: Path, settings: str, message: str) -> None:
    (tmp_path / "otel-agentic.toml").write_text(f"[gate]\n{settings}\n")
    ran = gate(perfect)
    assert 2 == ran.code
    assert message in ran.err


def test_the_settings_of_the_guide_are_accepted() -> None:
    (example,) = re.findall(
        r"```toml\n(.*?)```", (Path(__file__).parents[2] / "docs" / "gate.md").read_text(), re.DOTALL
    )
    Path("otel-agentic.toml").write_text(example)
    gate_settings = load_settings().gate
    assert {1: 0.9, 3: 0.7} == gate_settings.min_pass_pow_k
    assert {"success": "chance", "pass^3": 0.05} == gate_settings.max_regression


def test_the_table_fits_a_narrow_terminal(mixed: Path) -> None:
    lines = on_terminal(80, "gate", "--db", str(mixed), "--min-success", "0.9", "--min-coverage", "0.5")
    assert all(len(line) <= 80 for line in lines)
    assert ["condition", "wanted", "found"] == lines[0].split()[:3]
    assert lines[-1] == snapshot("gate passed: 4 conditions of clerk hold")


def test_a_value_just_short_of_its_limit_is_not_shown_as_the_limit(mixed: Path) -> None:
    out = gate(mixed, "--min-success", "0.917").out  # 22 / 24 = .916667 would round to .917
    assert ".9167 [" in out
