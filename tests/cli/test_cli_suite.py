"""Suites of cases with a tag: built from production, evaluated and gated alone, and followed over versions and days."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from inline_snapshot import snapshot

from otel_agentic.reports.suites import trend
from otel_agentic.windows import ScoredConversation
from tests.cli.judged_runs import HOUR_NS, add_run, case_of, judged_store, write_run
from tests.cli.running import done, on_terminal, run
from tests.cli.small import NOON_NS, conversation, write_cases, write_spans
from tests.snapshots import passage

if TYPE_CHECKING:
    from otel_agentic.scoring.scope import Outcome

DAY_NS = 24 * HOUR_NS


@pytest.fixture(scope="module")
def orders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of two versions: B broke in 1.1, C was fixed there; A and D are of no suite."""
    folder = tmp_path_factory.mktemp("orders")
    first = {"A": [True], "B": [True, True], "C": [False, True], "D": [False]}
    db = judged_store(folder, first)
    cases = [case_of(name, ["regression"] if name in "BC" else []) for name in first]
    done("truth", "import", write_cases(folder / "run-cases.jsonl", cases), "--db", db)
    next_one = {"A": [True], "B": [True, False], "C": [True, True], "D": [True]}
    add_run(db, write_run(folder, next_one, name="next", version="1.1", start_ns=NOON_NS + DAY_NS))
    return db


def points(db: Path, *arguments: str) -> list[dict[str, Any]]:
    result: list[dict[str, Any]] = done(
        "suite", "trend", "regression", "--db", db, "--format", "json", *arguments
    ).json["points"]
    return result


def test_the_trend_tells_how_the_suite_did_and_what_flipped(orders: Path) -> None:
    first, second = points(orders)
    assert ("1.0", 2, 4, 3, 0.75, []) == tuple(first[name] for name in ("name", "cases", "n", "c", "rate", "flips"))
    assert ("1.1", 2, 4, 3) == tuple(second[name] for name in ("name", "cases", "n", "c"))
    assert [
        ("broke", "B", [2, 2], [1, 2], "1.0"),
        ("fixed", "C", [1, 2], [2, 2], "1.0"),
    ] == [(flip["change"], flip["case_id"], flip["before"], flip["now"], flip["since"]) for flip in second["flips"]]


def test_the_trend_is_shown_as_text(orders: Path) -> None:
    lines = on_terminal(100, "suite", "trend", "regression", "--db", str(orders))
    assert lines[0] == snapshot("Suite regression: 2 cases, by version")
    assert ["1.1", "2026-03-03", "16:01", "2", "3/4"] == lines[4].split()[:5]
    assert ["1", "1"] == lines[4].split()[-2:]
    assert lines[-2:] == snapshot(
        [
            "1.1: broke: B (1 of 2 correct, 2 of 2 at 1.0)",
            "1.1: fixed: C (2 of 2 correct, 1 of 2 at 1.0)",
        ]
    )


@pytest.mark.parametrize(("by", "names"), [("day", ["2026-03-02", "2026-03-03"]), ("week", ["2026-03-02"])])
def test_a_point_may_be_a_day_or_a_week(orders: Path, by: str, names: list[str]) -> None:
    assert names == [point["name"] for point in points(orders, "--by", by)]


def test_the_list_tells_each_tag(orders: Path) -> None:
    (row,) = done("suite", "list", "--db", orders, "--format", "json").json
    counts = {"cases": 2, "drafts": 0, "conversations": 8, "n": 8, "c": 6}
    assert {"evaluation": "default", "suite": "regression", **counts} == row
    assert "regression" in done("suite", "list", "--db", orders).out


def test_a_tag_that_no_case_has_is_bad_input(orders: Path) -> None:
    for command in (("suite", "trend", "regresion"), ("evaluate", "--suite", "regresion")):
        ran = run(*command, "--db", orders)
        assert (3, "") == (ran.code, ran.out)
        assert passage(ran.err) == snapshot("no active case has the tag 'regresion'; existing tags: regression; ")


def test_the_gate_looks_at_the_suite_alone(orders: Path) -> None:
    result = run("gate", "--db", orders, "--suite", "regression", "--min-success", "0.8", "--format", "json").json
    (success,) = (row for row in result["rows"] if row["condition"] == "success")
    assert (0.75, 8, "fail") == (success["value"], success["n"], success["verdict"])
    assert 0 == run("gate", "--db", orders, "--min-success", "0.6", "--min-n", "12").code


def test_only_conversations_of_the_suite_are_evaluated(tmp_path: Path) -> None:
    files = write_run(tmp_path, {"A": [True] * 3, "B": [True] * 2}, unmatched=1)
    write_cases(files.cases, [case_of("A", ["regression"]), case_of("B")])
    done("ingest", files.spans, "--db", tmp_path / "t.duckdb", "--quiet")

    result = done(
        "evaluate", "--db", tmp_path / "t.duckdb", "--cases", files.cases, "--suite", "regression", "--format", "json"
    ).json
    assert (3, {"pass": 3}) == (result["scored"], result["outcomes"])
    again = done("evaluate", "--db", tmp_path / "t.duckdb", "--suite", "regression", "--force", "--format", "json").json
    assert 3 == again["scored"]
    rest = done("evaluate", "--db", tmp_path / "t.duckdb", "--format", "json").json
    assert 3 == rest["scored"]


def test_a_suite_is_drafted_from_production_and_counts_once_it_is_reviewed(tmp_path: Path) -> None:
    db, drafts = tmp_path / "t.duckdb", tmp_path / "drafts.jsonl"
    conversations = [conversation(name, query=f"Where is {name}?", answer="It is lost.") for name in ("c1", "c2")]
    labels = tmp_path / "labels.csv"
    labels.write_text("conversation_id,verdict\nc1,fail\nc2,pass\n")
    done("ingest", write_spans(tmp_path / "spans.jsonl", conversations), "--db", db, "--quiet")
    done("evaluate", "--db", db, "--labels", labels, "--quiet")

    done("truth", "promote", "--failing", "--tag", "regression", "--db", db, "--output", drafts)
    (draft,) = map(json.loads, drafts.read_text().splitlines())
    assert (["production", "regression"], False, ["c1"]) == (draft["tags"], draft["reviewed"], draft["promoted_from"])

    labels.write_text("conversation_id,verdict\n")
    done("truth", "import", drafts, "--db", db)
    done("truth", "import", "--labels", labels, "--db", db)
    done("evaluate", "--db", db, "--quiet")
    listed = done("suite", "list", "--db", db).out
    assert passage(listed) == snapshot(
        "regression: 1 case is a draft and does not count until `reviewed` is set to true"
    )
    ran = run("gate", "--db", db, "--suite", "regression", "--min-success", "1")
    assert 1 == ran.code
    assert "1 x unreviewed" in ran.out

    draft["reviewed"] = True
    draft["turns"][0]["answer"] = "It arrives on Monday."
    write_cases(drafts, [draft])
    done("truth", "import", drafts, "--db", db)
    done("evaluate", "--db", db, "--suite", "regression", "--quiet")
    (point,) = points(db)
    assert (1, 0) == (point["n"], point["c"])


def test_a_case_that_is_in_force_gets_the_tag_and_is_not_drafted_again(tmp_path: Path) -> None:
    db = judged_store(tmp_path, {"A": [False, True], "B": [True]})
    ran = done("truth", "promote", "--failing", "--tag", "regression", "--db", db, "--output", tmp_path / "suite.jsonl")
    assert passage(ran.out) == snapshot("1 current case written to ")
    assert passage(ran.out) == snapshot("A of dataset orders; they are reviewed")
    (case,) = map(json.loads, (tmp_path / "suite.jsonl").read_text().splitlines())
    assert case_of("A", ["regression"]) | {"tags": ["regression"]} == {
        name: case[name] for name in ("case_id", "dataset", "tags", "tools")
    }

    done("truth", "import", tmp_path / "suite.jsonl", "--db", db)
    assert 2 == len(done("truth", "list", "--db", db, "--format", "json").json)
    done("evaluate", "--db", db, "--quiet")
    assert [2] == [point["n"] for point in points(db)]
    once_more = done("truth", "promote", "--failing", "--tag", "regression", "--db", db)
    assert "" == once_more.out
    assert passage(once_more.err) == snapshot(
        "left out, its case already has the tag regression: run-clerk-0 (case A of dataset orders)"
    )


def test_a_tag_needs_a_name(orders: Path) -> None:
    ran = run("truth", "promote", "--failing", "--tag", " ", "--db", orders)
    assert 2 == ran.code
    assert passage(ran.err) == snapshot("--tag: a tag needs a name, such as regression")


def scored(case: str | None, outcome: Outcome, version: str | None, day: int) -> ScoredConversation:
    return ScoredConversation(
        environment="",
        conversation_id=f"{case}-{version}-{day}-{outcome}",
        revision=1,
        agent="clerk",
        agent_version=version,
        service=None,
        ended_ns=NOON_NS + day * DAY_NS,
        dataset="orders",
        case_id=case,
        tags=("regression",),
        outcome=outcome,
        reason=None,
    )


def test_a_case_is_held_against_the_last_point_that_has_it() -> None:
    first, second, third = trend(
        [scored("A", "pass", "1", 0), scored("B", "pass", "2", 1), scored("A", "fail", "3", 2)], "version", 0.95
    )
    assert ([], []) == (first.flips, second.flips)
    (flip,) = third.flips
    assert ("A", "1", "broke") == (flip.case_id, flip.since, flip.change)


def test_what_was_not_evaluated_is_no_flip_and_no_rate() -> None:
    first, second = trend([scored("A", "pass", "1", 0), scored("A", "not_evaluated", "2", 1)], "version", 0.95)
    assert (1, 1.0) == (first.n, first.rate)
    assert (0, None, None, 1, []) == (second.n, second.rate, second.lower, second.not_evaluated, second.flips)


def test_versions_come_in_the_order_in_which_they_appeared() -> None:
    result = trend(
        [scored("A", "pass", "0.9", 3), scored("A", "pass", "0.10", 5), scored("A", "pass", "0.9", 7)], "version", 0.95
    )
    assert ["0.9", "0.10"] == [point.name for point in result]
