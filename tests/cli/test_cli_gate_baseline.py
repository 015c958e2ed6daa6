"""Gates against a baseline, by name or in a file: changes for the worse beyond chance or beyond the allowed drop."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from otel_agentic.reports.baselines import Baseline
from otel_agentic.stats import Attempts
from tests.cli.judged_runs import HOUR_NS, add_run, judged_store, write_run
from tests.cli.running import Ran, done, run
from tests.cli.small import NOON_NS
from tests.snapshots import passage

CASES = "ABCDEFGH"
RAGAS = "ragas.tool_calls"
DAY_NS = 24 * HOUR_NS
GOOD = {name: [True] * 4 for name in CASES}
#: Half of the attempts of each case are wrong.
HALF = {name: [True, False] * 2 for name in CASES}
#: One attempt of one case is wrong.
SLIP = {name: [True, True, True, name != "A"] for name in CASES}


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A baseline file of clerk, 32 of 32 right."""
    folder = tmp_path_factory.mktemp("good")
    done(
        "gate",
        "--db",
        judged_store(folder, GOOD, metrics=RAGAS),
        "--min-n",
        "1",
        "--save-baseline",
        folder / "good.json",
    )
    return folder / "good.json"


@pytest.fixture(scope="module")
def half(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A later store of clerk, 16 of 32 right."""
    return judged_store(
        tmp_path_factory.mktemp("half"), HALF, name="half", start_ns=NOON_NS + 30 * DAY_NS, metrics=RAGAS
    )


@pytest.fixture(scope="module")
def slip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A later store of clerk, 31 of 32 right."""
    return judged_store(
        tmp_path_factory.mktemp("slip"), SLIP, name="slip", start_ns=NOON_NS + 30 * DAY_NS, metrics=RAGAS
    )


def gate(db: Path, *arguments: str | Path) -> Ran:
    few = () if "--min-n" in arguments else ("--min-n", "1")
    return run("gate", "--db", db, *few, *arguments)


def regressions(db: Path, *arguments: str | Path) -> dict[str, dict[str, Any]]:
    """Return the regressions of a gate by condition."""
    by_name = gate(db, *arguments, "--format", "json").json["rows"]
    return {row["condition"]: row for row in by_name if row["kind"] == "regression"}


def test_what_is_worse_by_more_than_chance_fails(good: Path, half: Path) -> None:
    ran = gate(half, "--baseline", good)
    assert 1 == ran.code
    row = regressions(half, "--baseline", good)["success"]
    assert ("fail", -0.5, "chance") == (row["verdict"], row["value"], row["limit"])
    assert row["upper"] < 0
    assert row["reason"] == snapshot(
        "worse by more than chance explains at 95 % (paired over 8 cases; always correct before, not now: A (2 of 4 correct), B (2 of 4 correct), C (2 of 4 correct) and 5 more)"
    )
    assert "success against baseline" in ran.out
    assert "baseline " in ran.out


def test_what_chance_explains_passes(good: Path, slip: Path) -> None:
    row = regressions(slip, "--baseline", good)["success"]
    assert ("pass", -0.03125) == (row["verdict"], row["value"])
    assert row["reason"] == snapshot(
        "worse, by no more than chance explains (paired over 8 cases; always correct before, not now: A (3 of 4 correct))"
    )


def test_the_limits_of_the_gate_are_compared_too(good: Path, half: Path) -> None:
    by_name = regressions(
        half,
        "--baseline",
        good,
        "--min-pass-pow-k",
        "3=0.1,1=0.1",
        "--min-pass-at-k",
        "3=0.1",
        "--threshold",
        "ragas.tool_call_f1=0.1",
    )
    assert ["success", "pass@3", "pass^3", "agentic.ragas.tool_call_f1"] == list(by_name)
    # Of four attempts two right: no three of them are; C(2, 3) / C(4, 3) = 0. Before, all were.
    assert -1.0 == by_name["pass^3"]["value"]
    assert 0.0 == by_name["pass@3"]["value"]


@pytest.mark.parametrize(("drop", "code"), [("0.02", 1), ("0.04", 0)])
def test_an_allowed_drop_holds_although_chance_does_not_explain_it(
    good: Path, slip: Path, drop: str, code: int
) -> None:
    ran = gate(slip, "--baseline", good, "--max-drop", drop)
    assert code == ran.code
    assert f"drop <= {float(drop):.3f}".replace("0.", ".") in ran.out


def test_by_the_lower_bound_it_must_be_proven_that_the_drop_is_no_larger(good: Path, slip: Path) -> None:
    row = regressions(slip, "--baseline", good, "--max-drop", "0.04", "--bound", "lower")["success"]
    assert ("fail", "lower") == (row["verdict"], row["compared"])
    assert passage(row["reason"]) == snapshot("; it may be worse by ")


def test_what_is_asked_for_by_name_is_compared_alone(good: Path, half: Path) -> None:
    by_name = regressions(
        half, "--baseline", good, "--max-regression", "ragas.tool_call_f1=0.6", "--max-regression", "pass^2"
    )
    assert {"agentic.ragas.tool_call_f1": "pass", "pass^2": "fail"} == {
        name: row["verdict"] for name, row in by_name.items()
    }
    assert (-0.5, -0.6) == (
        by_name["agentic.ragas.tool_call_f1"]["value"],
        by_name["agentic.ragas.tool_call_f1"]["limit"],
    )


def test_a_metric_is_worse_by_more_than_chance_too(good: Path, half: Path, slip: Path) -> None:
    arguments = ("--baseline", good, "--max-regression", "ragas.tool_call_f1")
    assert "fail" == regressions(half, *arguments)["agentic.ragas.tool_call_f1"]["verdict"]
    assert "pass" == regressions(slip, *arguments)["agentic.ragas.tool_call_f1"]["verdict"]


def changed(good: Path, folder: Path, old: str, new: str) -> Path:
    """Return a baseline file in which a text is replaced by another."""
    file = folder / "changed.json"
    file.write_text(good.read_text().replace(old, new))
    return file


def test_an_agent_that_the_baseline_does_not_know_has_no_data(good: Path, slip: Path, tmp_path: Path) -> None:
    other = changed(good, tmp_path, '"clerk"', '"porter"')
    payload = gate(slip, "--baseline", other, "--format", "json").json
    by_agent = {(row["agent"], row["condition"]): (row["verdict"], row["reason"]) for row in payload["rows"]}
    assert by_agent["clerk", "success"] == snapshot(
        ("no_data", "the baseline has no evaluated conversation of this agent; it has porter")
    )
    assert by_agent["porter", "conversations"] == snapshot(
        ("no_data", "the baseline has 32 conversations of it, this selection has none")
    )
    assert 0 == gate(slip, "--baseline", other, "--allow-no-data", "regression,conversations").code


def test_an_agent_that_is_not_asked_for_need_not_be_there(good: Path, slip: Path, tmp_path: Path) -> None:
    both = json.loads(good.read_text())
    both["agents"].append({**both["agents"][0], "agent": "cook"})
    (tmp_path / "both.json").write_text(json.dumps(both))
    compared = ("--baseline", tmp_path / "both.json", "--format", "json")

    missing = {row["agent"]: row for row in gate(slip, *compared).json["rows"] if row["kind"] == "data"}
    assert "no_data" == missing["cook"]["verdict"]
    for agent in ("clerk", "cl*"):
        ran = gate(slip, *compared, "--agent", agent)
        assert (0, {"clerk"}) == (ran.code, {row["agent"] for row in ran.json["rows"]})


def test_a_metric_of_all_conversations_together_is_not_compared(good: Path, slip: Path) -> None:
    limited = ("--baseline", good, "--threshold", "operations.latency_p50=1000")
    assert {"success"} == regressions(slip, *limited).keys()
    assert 0 == gate(slip, *limited, "--allow-no-data", "metric").code

    ran = gate(slip, "--baseline", good, "--max-regression", "operations.latency_p50")
    assert (2, "") == (ran.code, ran.out)
    assert passage(ran.err) == snapshot("agentic.operations.latency_p50 is one value for all conversations,")


def test_without_shared_cases_the_two_are_compared_unpaired(good: Path, half: Path, tmp_path: Path) -> None:
    row = regressions(half, "--baseline", changed(good, tmp_path, '"orders"', '"others"'))["success"]
    assert row["reason"] == snapshot("worse by more than chance explains at 95 % (32 and 32 conversations)")


def test_a_baseline_is_kept_in_the_store_by_name(tmp_path: Path) -> None:
    db = judged_store(tmp_path, GOOD)
    assert passage(done("gate", "--db", db, "--min-n", "1", "--save-baseline", "main").out) == snapshot(
        "baseline main saved: 32 conversations\n"
    )
    add_run(db, write_run(tmp_path, HALF, name="next", start_ns=NOON_NS + 30 * DAY_NS))

    assert 1 == gate(db, "--baseline", "main", "--since", "2026-03-20").code
    ran = gate(db, "--baseline", "main", "--format", "json")
    assert ran.json["notes"] == snapshot(
        [
            "32 of the conversations ended no later than the baseline's last one, and may be part of it; use --since to select later ones only"
        ]
    )
    (saved,) = done("query", "SELECT name, conversations FROM gate_baselines", "--db", db, "--format", "json").json
    assert {"name": "main", "conversations": 32} == saved
    done(
        "gate", "--db", db, "--min-n", "1", "--save-baseline", "main", "--since", "2026-03-20"
    )  # the name means the new one
    assert 0 == gate(db, "--baseline", "main", "--since", "2026-03-20").code
    missing = gate(db, "--baseline", "release")
    assert (3, "") == (missing.code, missing.out)
    assert passage(missing.err) == snapshot("no baseline 'release' in this store (saved: main)")


def test_a_gate_that_fails_saves_no_baseline(half: Path, tmp_path: Path) -> None:
    ran = gate(half, "--min-success", "0.9", "--save-baseline", tmp_path / "new.json")
    assert 1 == ran.code
    assert passage(ran.out) == snapshot("new.json not saved: the gate failed\n")
    assert not (tmp_path / "new.json").exists()


def test_scores_of_another_evaluator_version_have_a_note(good: Path, half: Path) -> None:
    document = json.loads(good.read_text())
    document["evaluations"] = ["another"]
    other = good.with_name("other.json")
    other.write_text(json.dumps(document))
    assert passage(gate(half, "--baseline", other).out) == snapshot(
        "the baseline was scored under another evaluator version"
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("not json", "is not JSON"),
        ("[]", "the baseline file was not written by `otel-agentic gate --save-baseline`: document: "),
        (
            '{"name": "x", "saved_at": "now", "conversations": 1, "agents": [], "extra": 1}',
            "was not written by `otel-agentic gate",
        ),
        ('{"name": "x", "saved_at": "now", "conversations": -1, "agents": []}', ": conversations: "),
    ],
)
def test_a_file_that_is_no_baseline_is_bad_input(half: Path, tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "bad.json").write_text(content)
    ran = gate(half, "--baseline", tmp_path / "bad.json")
    assert (3, "") == (ran.code, ran.out)
    assert message in ran.err


def test_a_file_that_is_not_there_is_bad_input(half: Path) -> None:
    ran = gate(half, "--baseline", "no/such.json")
    assert 3 == ran.code
    assert passage(ran.err) == snapshot(
        "baseline file no/such.json: No such file or directory; `otel-agentic gate --save-baseline no/such.json` creates it"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--max-regression", "politeness"), "--max-regression politeness: no metric 'politeness'"),
        (("--max-regression", "success=-1"), "--max-regression 'success=-1': give WHAT, or WHAT=V"),
        (("--max-regression", "layers.verdict"), "has no better direction"),
        (("--save-baseline", "a b"), "baseline 'a b': a name is up to 100 letters"),
    ],
)
def test_an_invalid_comparison_is_named(good: Path, half: Path, arguments: tuple[str, ...], message: str) -> None:
    ran = gate(
        half, "--fail-on-severity", "none", *(("--baseline", good) if "save" not in arguments[0] else ()), *arguments
    )
    assert (2, "") == (ran.code, ran.out)
    assert message in ran.err


def test_a_baseline_of_the_settings_is_compared_with(good: Path, half: Path, tmp_path: Path) -> None:
    (tmp_path / "otel-agentic.toml").write_text(f'[gate]\nbaseline = "{good}"\nmax_regression = {{success = 0.6}}\n')
    assert {"success": "pass"} == {name: row["verdict"] for name, row in regressions(half).items()}


def test_a_baseline_gives_the_attempts_back_that_it_was_made_of(good: Path) -> None:
    (agent,) = Baseline.model_validate_json(good.read_bytes()).agents
    assert Attempts.of((("orders", name), True) for name in CASES for _ in range(4)) == agent.attempts
    assert (32, ("1.0",)) == (agent.n, agent.versions)
