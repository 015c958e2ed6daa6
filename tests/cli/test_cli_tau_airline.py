"""The acceptance of the main job, typed as a user does: real runs in, the published table out."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from inline_snapshot import snapshot

from tests.cli.running import Ran, done, run, run_process
from tests.snapshots import opening, passage

if TYPE_CHECKING:
    from tests.cli.conftest import Flights

_REPORT = ("report", "-k", "1,2,3,4", "--estimator", "per_case", "--format", "json")
_GROUP_KEYS = [
    "agent", "agent_version", "environment", "service", "tag", "dataset", "case", "tool", "window", "n", "c", "coverage", "bounds",
    "not_evaluated", "known_failures", "default_estimator", "effective_n", "targets", "estimates", "tool_dimensions", "tier", "leaning",
    "needed",
    "tier_evidence", "criterion", "pooled", "per_case",
    "partial_fails", "judge", "corrected", "not_corrected", "label_correction", "not_label_corrected", "first_success",
    "sampling", "cases_left_out", "gauge_estimator",
    "tool_bands", "metrics",
]  # fmt: skip
_LINE_KEYS = [
    "conversation_id", "environment", "revision", "agent_name", "agent_version", "service", "started_at", "ended_at",
    "closed_by", "verdict", "case_id", "outcome", "reason", "slices", "turns",
]  # fmt: skip
_TURN_KEYS = ["index", "query", "query_captured", "answer", "answer_captured", "trace_id", "span_id", "error", "tools"]
_CALL_KEYS = [
    "name", "kind", "arguments", "result", "result_captured", "step", "error", "call_id", "span_id", "parent_span_id",
    "agent_name", "used",
]  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Airline:
    """The store after the commands of the issue, and what each of them printed."""

    data: Path
    db: Path
    ingested: Ran
    evaluated: Ran
    reported: Ran


@pytest.fixture(scope="module")
def airline(flights: Flights, tmp_path_factory: pytest.TempPathFactory) -> Airline:
    db = tmp_path_factory.mktemp("airline") / "t.duckdb"
    shutil.copy(flights.db, db)
    return Airline(
        data=flights.data,
        db=db,
        ingested=flights.ingested,
        evaluated=run("evaluate", "--db", db, *_truth(flights.data)),
        reported=run(*_REPORT, "--db", db),
    )


@pytest.mark.slow
def test_typed_into_a_shell_the_three_commands_say_the_same(airline: Airline, tmp_path: Path) -> None:
    output = [
        run_process("ingest", "--db", "t.duckdb", airline.data / "spans.jsonl.gz", cwd=tmp_path),
        run_process("evaluate", "--db", "t.duckdb", *_truth(airline.data), cwd=tmp_path),
        run_process(*_REPORT, "--db", "t.duckdb", cwd=tmp_path),
    ]

    assert [(0, ""), (0, ""), (0, "")] == [(ran.code, ran.err) for ran in output]
    assert airline.reported.json == output[2].json


def _truth(data: Path) -> tuple[str | Path, ...]:
    return ("--cases", data / "cases.jsonl", "--labels", data / "labels.csv")


def exported(airline: Airline) -> list[dict[str, Any]]:
    return [json.loads(line) for line in done("conversations", "export", "--db", airline.db).out.splitlines()]


def test_the_three_commands_succeed_without_a_word_on_standard_error(airline: Airline) -> None:
    runs = (airline.ingested, airline.evaluated, airline.reported)
    assert [(0, ""), (0, ""), (0, "")] == [(ran.code, ran.err) for ran in runs]


def test_the_report_gives_the_published_row(airline: Airline) -> None:
    (group,) = airline.reported.json["groups"]
    result = group["estimates"]["per_case"]

    assert (200, 84, 1.0) == (group["n"], group["c"], group["coverage"])
    powers = [result["pass_pow_k"][k]["value"] for k in "1234"]
    assert pytest.approx([0.420, 0.273, 0.220, 0.200], abs=0.0005) == powers
    chances = [result["pass_at_k"][k]["value"] for k in "1234"]
    assert pytest.approx([0.420, 0.567, 0.660, 0.720], abs=0.0005) == chances


def test_the_report_has_the_shape_of_the_contract(airline: Airline) -> None:
    result = airline.reported.json
    (group,) = result["groups"]

    assert ["evaluation", "criteria", "groups", "cases_left_out", "wrong_clocks"] == list(result)
    assert _GROUP_KEYS == list(group)
    unused = ("agent_version", "environment", "service", "tag", "case", "tool", "window")
    assert [None] * len(unused) == [group[name] for name in unused]
    assert ["interval_method", "level", "pass_at_k", "pass_pow_k"] == list(group["estimates"]["per_case"])
    assert {"value", "lower", "upper"} == set(group["estimates"]["per_case"]["pass_at_k"]["1"])
    assert {"mean", "n"} == set(group["tool_dimensions"]["selection"])
    assert {"per_case": {"1": 0, "2": 0, "3": 0, "4": 0}} == result["cases_left_out"]
    assert [0.42, 0.42] == group["bounds"]


def test_everything_is_rebuilt(airline: Airline) -> None:
    output = airline.ingested.out

    assert passage(output) == snapshot("4,959 spans and log records stored, 0 duplicate, 0 rejected")
    assert passage(output) == snapshot("200 conversations new or changed: 1,341 turns, 1,164 tool calls")
    lines = exported(airline)
    turns = [turn for line in lines for turn in line["turns"]]
    calls = [call for turn in turns for call in turn["tools"]]
    assert (200, 1341, 1164) == (len(lines), len(turns), len(calls))
    assert 73 == sum(call["error"] is not None for call in calls)


def test_exported_lines_have_the_shape_of_the_contract(airline: Airline) -> None:
    for line in exported(airline):
        assert _LINE_KEYS == list(line)
        assert line["outcome"] in {"pass", "fail"}
        assert list(range(len(line["turns"]))) == [turn["index"] for turn in line["turns"]]
        for turn in line["turns"]:
            assert _TURN_KEYS == list(turn)
            for call in turn["tools"]:
                assert _CALL_KEYS == list(call)
                assert isinstance(call["arguments"], dict)
                assert call["error"] is None or isinstance(call["error"], str)
                assert call["step"] >= 1


@pytest.mark.slow  # without the command line: tests/evaluation/test_evaluation_run.py
def test_ingesting_and_evaluating_again_changes_nothing(airline: Airline) -> None:
    before, report = exported(airline), done(*_REPORT, "--db", airline.db).json

    again = done("ingest", "--db", airline.db, airline.data / "spans.jsonl.gz", "--format", "json").json
    assert {"stored": 0, "duplicate": 4959, "rejected": 0, "ignored": 0} == again["spans"]
    assert (0, 0, []) == (again["conversations"], again["revised"], again["problems"])
    truth = ("--cases", airline.data / "cases.jsonl", "--labels", airline.data / "labels.csv")
    rescored = done("evaluate", "--db", airline.db, *truth, "--format", "json").json
    assert (0, 0, 0) == (rescored["scored"], rescored["restated"], rescored["new_case_versions"])
    remembered = done("evaluate", "--db", airline.db)
    assert passage(remembered.out) == snapshot("50 cases and 200 labels now current")
    assert "nothing to score" in remembered.out

    assert before == exported(airline)
    assert report == done(*_REPORT, "--db", airline.db).json
    revisions = "SELECT count(*) n, max(revision) last FROM conversations"
    assert [{"n": 200, "last": 1}] == done("query", revisions, "--db", airline.db, "--format", "json").json


def test_tool_scores_and_faults_are_there(airline: Airline) -> None:
    (group,) = airline.reported.json["groups"]
    failing = done("tools", "failing", "--db", airline.db, "--format", "json").json

    assert {"selection", "parameters", "utilization"} == set(group["tool_dimensions"])
    assert {"errored", "missing", "spurious", "wrong_parameters"} == {row["fault"] for row in failing}
    assert 73 == sum(row["faults"] for row in failing if row["fault"] == "errored")
    counts = [(row["failed"], row["faults"]) for row in failing]
    assert sorted(counts, reverse=True) == counts
    assert ("cancel_reservation", "spurious", 22) == tuple(failing[0][name] for name in ("tool", "fault", "failed"))
    assert all(row["example_conversation"].startswith("conv_") for row in failing)


@pytest.mark.slow
def test_a_report_by_tool_folds_nothing_but_text(airline: Airline) -> None:
    output = done("report", "--db", airline.db, "--by", "tool", "-k", "1,3", "--details").out

    assert opening(output) == snapshot("Reliability of airline-support-agent (all time)\ntool ")
    assert passage(output) == snapshot("cancel_reservation               12/60      100%  not_ready")
    assert ".442 [.306, .588]" in output
    assert passage(output) == snapshot("Tool correctness: mean score (conversations)")
    assert passage(output) == snapshot("per_case leaves out cases with fewer than k attempts: 10 cases at k=3")


@pytest.mark.slow  # of a few: tests/reports/test_reports_report.py
def test_a_window_is_named_and_counted_back_from_the_newest_conversation(airline: Airline) -> None:
    narrow = ("report", "--db", airline.db, "--window", "1h")

    (group,) = done(*narrow, "--format", "json").json["groups"]
    assert ("1h", 2) == (group["window"], group["n"])
    assert "(window 1h)" in done(*narrow).out
    until = done(*narrow, "--until", "2026-03-05").out
    assert "window 1h up to 2026-03-05" in until or "no closed conversations" in until


@pytest.mark.slow  # of a few groups: tests/cli/test_cli_tables.py
def test_markdown_tables_are_rectangular(airline: Airline) -> None:
    output = done("report", "--db", airline.db, "--by", "case", "-k", "1", "--format", "markdown").out

    assert opening(output) == snapshot(
        "## Reliability of airline-support-agent, dataset tau-airline\n\nAll time.\n\n| case |"
    )
    assert {9} == {_cells(line) for line in _first_table(output)}
    assert 52 == len(list(_first_table(output)))
    assert passage(output) == snapshot("- per case: per\\_case (mean over cases); 95% intervals wilson\\_one\\_case")


def _first_table(text: str) -> Iterator[str]:
    lines = iter(text.splitlines())
    for line in lines:
        if line.startswith("|"):
            yield line
            break
    for line in lines:
        if not line.startswith("|"):
            return
        yield line


def _cells(line: str) -> int:
    return line.replace("\\|", "").count("|") - 1


def test_a_conversation_is_shown_with_what_was_expected(airline: Airline) -> None:
    (failed, *_) = done("conversations", "list", "--db", airline.db, "--outcome", "fail", "--format", "json").json
    output = done("conversations", "show", failed["conversation_id"], "--db", airline.db).out

    assert f"conversation {failed['conversation_id']}" in output
    assert passage(output, case_id=failed["case_id"]) == snapshot(
        "case <case_id>: fail (verdict) — verdict of labels: fail"
    )
    assert re.search(r"turn 1 +actual", output)
    assert "tools of " in output


def test_matches_say_how_each_conversation_found_its_case(airline: Airline) -> None:
    result = done("truth", "matches", "--db", airline.db, "--format", "json").json

    assert 200 == len(result)
    assert {("case_id", 1.0)} == {(row["method"], row["confidence"]) for row in result}
    listed = done("truth", "list", "--db", airline.db, "--format", "json").json
    assert {4} == {row["attempts"] for row in listed}
    assert passage(done("truth", "list", "--db", airline.db).out) == snapshot("50 current cases, dataset tau-airline")


@pytest.mark.slow  # of one conversation: tests/reports/test_reports_report.py
def test_without_content_nothing_is_scored_and_the_report_says_what_to_do(airline: Airline, tmp_path: Path) -> None:
    db = tmp_path / "nocontent.duckdb"
    done("ingest", "--db", db, airline.data / "variant-nocontent.jsonl.gz")
    output = done("evaluate", "--db", db, "--cases", airline.data / "cases.jsonl").out

    assert passage(output) == snapshot("20 conversations scored: 20 not_evaluated; coverage 0%")
    assert "  20 x content_not_captured" in output
    report = done("report", "--db", db).out
    assert passage(report) == snapshot(
        "no conversation was evaluated, so there is no number to give: 20 content_not_captured"
    )
    assert "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT" in report
    (group,) = done("report", "--db", db, "--format", "json").json["groups"]
    assert (0, 0, 0.0, {"content_not_captured": 20}) == (
        group["n"], group["c"], group["coverage"], group["not_evaluated"],
    )  # fmt: skip
    values = [value["value"] for value in group["estimates"]["bayesian"]["pass_at_k"].values()]
    assert [None, None, None] == values
