"""`judge` and `prompts`, and the notes of `evaluate` and `report` about judges."""

from __future__ import annotations

from pathlib import Path

import pytest
from inline_snapshot import snapshot

from tests.cli.running import done, on_terminal, run
from tests.cli.small import NOON_NS, SECOND_NS, conversation, write_cases, write_spans
from tests.snapshots import item, passage

_RIGHT = "It arrives on Monday."
_INVALID = "It arrives on Friday."


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a store of six scored conversations, three of them correct, and human labels of them."""
    folder = tmp_path_factory.mktemp("judged")
    answers = [_RIGHT, _RIGHT, _RIGHT, _INVALID, _INVALID, _INVALID]
    output = [
        conversation(f"c{number}", answer=answer, start_ns=NOON_NS + number * SECOND_NS)
        for number, answer in enumerate(answers, 1)
    ]
    case = {"case_id": "when", "turns": [{"query": "Where is my order?", "answer": "On Monday."}]}
    (folder / "labels.csv").write_text(
        "conversation_id,turn,verdict\nc1,1,pass\nc2,1,pass\nc3,1,fail\nc4,1,fail\nc5,1,fail\nc5,,fail\nc6,1,\nc9,1,pass\n",
        encoding="utf-8",
    )
    done("ingest", write_spans(folder / "spans.jsonl", output), "--db", folder / "t.duckdb")
    done("evaluate", "--db", folder / "t.duckdb", "--cases", write_cases(folder / "cases.jsonl", [case]))
    return folder


def test_a_calibration_is_shown_on_a_terminal(prepared: Path) -> None:
    lines = on_terminal(100, "judge", "calibrate", "--labels", prepared / "labels.csv", "--db", prepared / "t.duckdb")
    output = "\n".join(lines)

    assert all(len(line) <= 100 for line in lines)
    assert passage(lines[0]) == snapshot("Judge exact, version exact-")
    assert "decided 6, unsure about 0" in output
    assert any(line.startswith("exact exact-") for line in lines)
    assert item(lines) == snapshot("1 row without a verdict skipped")
    assert item(lines) == snapshot("On 5 turns (wilson_one_case intervals)")
    assert any(line.startswith("agreement    .800 [") for line in lines)
    assert item(lines) == snapshot("Scored as a pass, failed by people")
    assert any(line.startswith("c3") for line in lines)
    assert item(lines) == snapshot("On 1 conversation (wilson intervals)")
    assert passage(output) == snapshot("warning: 1 label skipped (the store has no such conversation): c9 turn 1")


def test_a_calibration_is_shown_with_the_rates(prepared: Path) -> None:
    done("judge", "calibrate", "--labels", prepared / "labels.csv", "--random-sample", "--db", prepared / "t.duckdb")
    output = done("report", "--db", prepared / "t.duckdb").out
    (group,) = done("report", "--db", prepared / "t.duckdb", "--format", "json").json["groups"]

    assert passage(output) == snapshot("answers judged by exact: agreement with people .800 [")
    assert (5, True) == (group["judge"]["calibration"]["turn"]["n"], group["judge"]["calibration"]["random_sample"])


def test_a_calibration_in_json_holds_the_whole_curve_and_no_more_examples_than_asked_for(prepared: Path) -> None:
    command = ("judge", "calibrate", "--labels", prepared / "labels.csv", "--db", prepared / "t.duckdb")
    result = done(*command, "--format", "json").json
    without = done(*command, "--examples", "0", "--format", "json").json

    assert (1, 0) == (len(result["turn"]["examples"]), len(without["turn"]["examples"]))
    assert {"threshold", "agreement", "sensitivity", "specificity", "youden"} == result["turn"]["curve"][0].keys()


def test_bad_labels_are_reported_with_line_and_column(prepared: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.csv"
    bad.write_text("conversation_id,turn,verdict\nc1,0,pass\nc2,1,good\n", encoding="utf-8")
    ran = run("judge", "calibrate", "--labels", bad, "--db", prepared / "t.duckdb")

    assert (3, "") == (ran.code, ran.out)
    assert [
        f"otel-agentic: {bad}:2: turn: found '0'; allowed: a whole number from 1 (a column turn_index counts from 0), or empty",
        f"otel-agentic: {bad}:3: verdict: found 'good'; allowed: pass, true, 1, fail, false, 0, or empty",
    ] == ran.lines


def test_rates_of_an_uncalibrated_judge_have_a_note(shop_of_answers: Path) -> None:
    assert passage(done("report", "--db", shop_of_answers, "--details").out) == snapshot(
        "answers judged by exact, not compared with people yet: `otel-agentic judge calibrate --labels CSV` measures how far it "
        "agrees with them"
    )


@pytest.fixture
def shop_of_answers(tmp_path: Path) -> Path:
    """A store of one conversation whose query is nearly that of the case."""
    output = conversation("c1", query="Wheer is my order?", answer=_RIGHT)
    cases = [{"case_id": "when", "turns": [{"query": "Where is my order?", "answer": "On Monday."}]}]
    db = tmp_path / "t.duckdb"
    done("ingest", write_spans(tmp_path / "spans.jsonl", [output]), "--db", db)
    done("evaluate", "--db", db, "--cases", write_cases(tmp_path / "cases.jsonl", cases), "--fuzzy")
    return db


def test_similar_queries_match_where_that_is_asked_for(shop_of_answers: Path) -> None:
    strict = done("evaluate", "--db", shop_of_answers, "--no-fuzzy", "--format", "json").json
    fuzzy = done("evaluate", "--db", shop_of_answers, "--fuzzy", "--force", "--format", "json").json

    assert ({"not_evaluated": 1}, {"pass": 1}) == (strict["outcomes"], fuzzy["outcomes"])
    assert strict["evaluation_id"] != fuzzy["evaluation_id"]


def test_the_exact_judge_needs_no_memory(prepared: Path) -> None:
    assert done("judge", "cache", "--db", prepared / "t.duckdb").out.splitlines() == snapshot(
        [
            "no cached verdicts; the exact judge needs none",
            "no budget is set (judge.max_calls, judge.max_tokens, judge.max_cost_usd); 0 calls in 24h",
        ]
    )
    assert "0 verdicts deleted\n" == done("judge", "cache", "--clear", "--db", prepared / "t.duckdb").out


def test_the_spent_budget_is_shown_with_its_limit(prepared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_AGENTIC_JUDGE__MAX_CALLS", "1000")
    output = done("judge", "cache", "--db", prepared / "t.duckdb").out

    assert passage(output) == snapshot("spent in the last 24h: 0 of 1,000 (judge.max_calls)")


def test_what_says_what_to_forget_needs_the_flag_that_forgets(prepared: Path) -> None:
    ran = run("judge", "cache", "--before", "7d", "--db", prepared / "t.duckdb")

    assert (ran.code, ran.lines) == snapshot(
        (2, ["otel-agentic: --judge and --before select what --clear deletes: add --clear"])
    )


def test_the_prompts_in_force_are_shown_with_their_versions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    every = done("prompts", "show", "--format", "json").json
    output = done("prompts", "show", "--metric", "parameter").out
    own = tmp_path / "own.md"
    own.write_text("---\nname: answer\nversion: 9\n---\nBe kind.\n", encoding="utf-8")
    monkeypatch.setenv("OTEL_AGENTIC_JUDGE__PROMPT", str(own))

    assert ["answer", "parameter", "utilization"] == [prompt["metric"] for prompt in every][:3]
    assert output.startswith("parameter, version ")
    assert "answer, version 9, digest " in done("prompts", "show", "--metric", "answer").out
    assert "Be kind." in done("prompts", "show").out


def test_a_metric_without_annotations_names_the_next_step_and_no_labels_are_counted(prepared: Path) -> None:
    out = done("judge", "calibrate", "--metric", "agentest.coherence", "--db", prepared / "t.duckdb").out
    assert passage(out) == snapshot(
        "agentest.coherence: not annotated yet; `otel-agentic label ID pass|fail --turn N --name agentest.coherence`"
    )
    assert "compared with 0 labels" not in out


@pytest.mark.parametrize("command", ["calibrate", "drift"])
def test_the_examples_of_the_help_are_on_lines_of_their_own(command: str) -> None:
    lines = done("judge", command, "--help").out.splitlines()
    assert "  Examples:" in lines
    assert not any("\\b" in line for line in lines)
