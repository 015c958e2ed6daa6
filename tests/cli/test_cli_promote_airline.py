"""Production conversations become cases: typed as a user does, over two hundred real conversations."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from inline_snapshot import snapshot

from tests.cli.running import Ran, done
from tests.cli.small import write_cases
from tests.snapshots import exactly, opening

if TYPE_CHECKING:
    from tests.cli.conftest import Flights

# Of a few conversations: tests/cli/test_cli_promote.py and tests/truth/test_truth_promote.py.
pytestmark = pytest.mark.slow
_FIELDS = ["case_id", "dataset", "reviewed", "notes", "promoted_from", "tags", "agent", "turns"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Promoting:
    """tau-airline, not evaluated (`fresh`) and evaluated (`scored`), and its failing conversations as cases."""

    fresh: Path
    scored: Path
    cases: Path
    promoted: Ran

    @property
    def drafts(self) -> list[dict[str, Any]]:
        """The cases written."""
        return [json.loads(line) for line in self.cases.read_text("utf-8").splitlines()]


@pytest.fixture(scope="module")
def airline(flights: Flights, tmp_path_factory: pytest.TempPathFactory) -> Promoting:
    folder = tmp_path_factory.mktemp("promoting")
    scored, cases = folder / "scored.duckdb", folder / "drafts.jsonl"
    shutil.copy(flights.db, scored)
    done("evaluate", "--db", scored, "--cases", flights.data / "cases.jsonl")
    promoted = done("truth", "promote", "--failing", "--db", scored, "--output", cases)
    return Promoting(fresh=flights.db, scored=scored, cases=cases, promoted=promoted)


def query_rows(db: Path | str, sql: str) -> list[dict[str, Any]]:
    result: list[dict[str, Any]] = done("query", sql, "--db", db, "--format", "json").json
    return result


def test_each_failing_conversation_becomes_a_case_that_validates(airline: Promoting) -> None:
    failing = query_rows(airline.scored, "SELECT conversation_id FROM v_conversations WHERE outcome = 'fail'")

    assert {row["conversation_id"] for row in failing} == {
        name for draft in airline.drafts for name in draft["promoted_from"]
    }
    assert 116 == len(airline.drafts) == len({draft["case_id"] for draft in airline.drafts})
    assert f"{airline.cases}: 116 cases, ok\n" == done("truth", "validate", airline.cases).out
    assert airline.promoted.err == ""
    first, then = airline.promoted.out.splitlines()
    assert opening(first, cases=airline.cases) == snapshot(
        "116 cases of 116 conversations written to <cases>, dataset production: drafts, until "
    )
    validate, import_ = then.removeprefix("then: ").split(" && ")
    assert exactly(validate, cases=airline.cases) == snapshot("otel-agentic truth validate <cases>")
    assert opening(import_, cases=airline.cases) == snapshot("otel-agentic truth import <cases> --db ")


def test_a_draft_says_what_happened_and_why_it_is_there(airline: Promoting) -> None:
    (draft,) = (draft_2 for draft_2 in airline.drafts if draft_2["promoted_from"] == ["conv_549d841f5760de6f0751"])
    result = done("conversations", "show", "conv_549d841f5760de6f0751", "--db", airline.scored, "--format", "json").json
    turns = result["conversation"]["turns"]

    assert _FIELDS == list(draft)
    assert (False, ["production"], "airline-support-agent") == (draft["reviewed"], draft["tags"], draft["agent"])
    assert [turn["query"] for turn in turns] == [turn["query"] for turn in draft["turns"]]
    assert [turn["answer"] for turn in turns] == [turn.get("answer") for turn in draft["turns"]]
    created = [[(call["name"], call["arguments"]) for call in turn["tools"] if not call["error"]] for turn in turns]
    expected = [turn.get("tools", {"calls": []})["calls"] for turn in draft["turns"]]
    assert created == [[(call["tool_name"], call.get("parameters", {})) for call in calls] for calls in expected]
    assert exactly(draft["notes"], explanation=result["score"]["explanation"]) == snapshot(
        "Promoted because it failed case airline-1 of dataset tau-airline (tool_fault): <explanation>. Its answers and calls are from a failing run: correct them before you set `reviewed` to true."
    )


def test_unedited_each_matches_its_own_conversation_and_scores_nothing(airline: Promoting, tmp_path: Path) -> None:
    db = shutil.copy(airline.fresh, tmp_path / "fresh.duckdb")
    done("truth", "import", airline.cases, "--db", db)
    done("evaluate", "--db", db)

    own = {name: draft["case_id"] for draft in airline.drafts for name in draft["promoted_from"]}
    rows = query_rows(db, "SELECT conversation_id, case_id, outcome, reason FROM v_conversations")
    result = {row["conversation_id"]: row for row in rows}
    assert own == {name: result[name]["case_id"] for name in own}
    assert {("not_evaluated", "unreviewed")} == {(result[name]["outcome"], result[name]["reason"]) for name in own}
    assert {"not_evaluated"} == {row["outcome"] for row in rows}


def test_taken_as_reviewed_each_passes_its_own_conversation(airline: Promoting, tmp_path: Path) -> None:
    db = shutil.copy(airline.fresh, tmp_path / "fresh.duckdb")
    cases = write_cases(tmp_path / "reviewed.jsonl", [{**draft, "reviewed": True} for draft in airline.drafts])
    done("evaluate", "--db", db, "--cases", cases)

    passed = query_rows(db, "SELECT conversation_id FROM v_conversations WHERE outcome = 'pass'")
    own = {name for draft in airline.drafts for name in draft["promoted_from"]}
    assert own <= {row["conversation_id"] for row in passed}


def test_next_to_the_original_cases_nothing_changes(airline: Promoting, tmp_path: Path) -> None:
    db = shutil.copy(airline.scored, tmp_path / "beside.duckdb")
    output = "SELECT conversation_id, case_id, outcome, reason FROM v_conversations ORDER BY ALL"
    report = ("report", "-k", "1,4", "--format", "json", "--db", db)
    before = (query_rows(db, output), done(*report).json)

    done("truth", "import", airline.cases, "--db", db)
    done("evaluate", "--db", db)

    assert before == (query_rows(db, output), done(*report).json)
    listed = done("truth", "list", "--db", db, "--format", "json").json
    assert {("tau-airline", True): 50, ("production", False): 116} == {
        key: sum((row["dataset"], row["reviewed"]) == key for row in listed)
        for key in {(row["dataset"], row["reviewed"]) for row in listed}
    }
    lines = done("truth", "list", "--db", db).out.splitlines()
    assert lines[0] == snapshot("166 current cases, 116 drafts among them")
    assert "draft" in next(line for line in lines if line.startswith("production-"))
    again = done("truth", "promote", "--failing", "--db", db)
    assert (again.out, again.lines[0]) == snapshot(("", "nothing to promote in this selection"))
    assert opening(again.lines[1]) == snapshot("left out, already an active case: conv_")
    assert again.lines[1].endswith(" and 113 more")


def test_without_arguments_the_unmatched_come_after_the_failing(airline: Promoting, tmp_path: Path) -> None:
    db = shutil.copy(airline.fresh, tmp_path / "fresh.duckdb")
    done("evaluate", "--db", db, "--cases", write_cases(tmp_path / "one.jsonl", [_one_case(airline)]))
    result = [json.loads(line) for line in done("truth", "promote", "--db", db).out.splitlines()]

    why = [item["notes"].split(" ", 3)[2] for item in result]
    assert ["it"] * why.count("it") + ["no"] * why.count("no") == why
    assert 1 <= why.count("it") < len(why)
    clusters = done("truth", "matches", "--clusters", "--limit", "1000", "--db", db, "--format", "json").json
    examples = [row["example_conversation"] for row in clusters]
    assert examples == [item["promoted_from"][0] for item in result[why.count("it") :]]
    assert [row["size"] for row in clusters] == sorted((row["size"] for row in clusters), reverse=True)
    assert pytest.approx(1.0) == sum(row["share"] for row in clusters)
    limited = done("truth", "promote", "--unmatched", "--limit", "3", "--db", db)
    assert examples[:3] == [json.loads(line)["promoted_from"][0] for line in limited.out.splitlines()]


def _one_case(airline: Promoting) -> dict[str, Any]:
    """Return a case that some conversations name and fail."""
    calls = {"calls": [{"tool_name": "cancel_reservation", "parameters": {"reservation_id": "NONE"}}]}
    return {"case_id": "airline-1", "dataset": "tau-airline", "tools": calls}
