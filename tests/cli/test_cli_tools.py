"""`tools failing`: tools, first occurrences, versions, an example, and the reason for an empty list."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from otel_agentic.cli.tools import versions_of
from otel_agentic.results.failures import FailingTool
from tests.cli.hotel import BOOK_ROME, CASES, PARIS, ROME, build_hotel
from tests.cli.partial import partial
from tests.cli.running import done, on_terminal, run
from tests.cli.small import conversation, write_cases, write_spans
from tests.snapshots import item, passage


@pytest.fixture(scope="module")
def hotel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store that tests read and do not change."""
    return build_hotel(tmp_path_factory.mktemp("hotel"))


def failing(db: Path, *options: str) -> Any:
    return done("tools", "failing", "--db", db, "--format", "json", *options).json


def names(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [(row["agent_version"], row["tool"], row["fault"], row["parameter"], row["faults"]) for row in rows]


def test_json_has_a_row_for_each_version_and_problem(hotel: Path) -> None:
    assert [
        ("1.10", "book", "wrong_parameters", "city", 3),
        ("1.9", "book", "missing", None, 1),
        ("1.10", "drop", "spurious", None, 1),
        ("1.10", "book", "errored", None, 1),
    ] == names(failing(hotel))
    assert [3, 1, 1, 0] == [row["failed"] for row in failing(hotel)]


def test_a_row_says_how_often_since_when_and_which_version_brought_it(hotel: Path) -> None:
    (row,) = failing(hotel, "--parameter", "city")
    assert (3, 3, 4, 0.75, 4) == tuple(
        row[name] for name in ("faults", "conversations", "calls", "rate", "expected_conversations")
    )
    assert 0.6 == pytest.approx(row["share"])
    assert ("2026-03-04", "2026-03-06") == (row["since"][:10], row["last_seen"][:10])
    assert ("1.10", True, 2) == (row["introduced_in"], row["is_new"], row["clean_before"])
    assert [{"agent_version": "1.10", "faults": 3}] == row["versions"]
    assert [
        {"actual": "Paris", "expected": "Rome", "count": 2},
        {"actual": "Oslo", "expected": "Rome", "count": 1},
    ] == row["wrong_values"]
    assert ("c5", "Oslo", "Rome") == (row["example_conversation"], row["actual"], row["expected"])


def test_a_rate_is_of_the_calls_that_could_have_the_fault(hotel: Path) -> None:
    rates = {(row["tool"], row["fault"]): (row["calls"], row["rate"]) for row in failing(hotel)}
    assert {
        ("book", "missing"): (2, 0.5),
        ("book", "wrong_parameters"): (4, 0.75),
        ("book", "errored"): (5, 0.2),
        ("drop", "spurious"): (1, 1.0),
    } == rates


def test_faults_of_the_first_version_are_not_new_and_neither_are_those_of_unused_tools(hotel: Path) -> None:
    news = {(row["tool"], row["fault"]): row["is_new"] for row in failing(hotel)}
    assert {
        ("book", "missing"): False,
        ("book", "wrong_parameters"): True,
        ("book", "errored"): True,
        ("drop", "spurious"): False,
    } == news


def test_every_column_is_about_the_selection(hotel: Path) -> None:
    (row,) = failing(hotel, "--since", "2026-03-05", "--parameter", "city")
    assert (2, 3) == (row["faults"], row["calls"])
    assert ("2026-03-05", "2026-03-05") == (row["first_seen"][:10], row["since"][:10])
    assert [{"agent_version": "1.10", "faults": 2}] == row["versions"]


@pytest.mark.parametrize(
    ("options", "tools"),
    [
        (("--tool", "d*"), ["drop"]),
        (("--tool", "book", "--fault", "missing"), ["book"]),
        (("--dimension", "selection"), ["book", "drop"]),
        (("--fault", "errored"), ["book"]),
        (("--parameter", "nights"), []),
    ],
)
def test_filters_keep_what_fits(hotel: Path, options: tuple[str, ...], tools: list[str]) -> None:
    assert tools == [row["tool"] for row in failing(hotel, *options)]


def test_a_filter_leaves_the_share_that_of_all_faults(hotel: Path) -> None:
    (row,) = failing(hotel, "--tool", "drop")
    assert 0.2 == pytest.approx(row["share"])


def test_a_table_has_a_row_for_a_problem_over_all_versions(hotel: Path) -> None:
    lines = done("tools", "failing", "--db", hotel).out.splitlines()
    assert lines[0] == snapshot("Failing tools of clerk production")
    names = "# tool dimension fault failed faults rate share since versions for example conversation"
    assert names == " ".join(lines[1].split())
    row = " ".join(lines[3].split())
    assert row == snapshot(
        "1 book parameters wrong_parameters city 3 3 60% 50% 2026-03-04 1.10: 3 (new) Oslo ≠ Rome c5"
    )
    assert lines[-1] == snapshot("(6 tool faults; 6 of 7 scored conversations expected tools; --show N shows one)")
    split = failing(hotel, "--by", "problem")
    assert {None} == {row["agent_version"] for row in split}


@pytest.mark.parametrize("output", ["json", "csv", "table"])
def test_an_agent_that_the_store_lacks_is_refused_in_every_format(hotel: Path, output: str) -> None:
    ran = run("tools", "failing", "--db", hotel, "--agent", "unknown", "--format", output)

    assert (ran.code, ran.out) == (2, "")
    assert "no agent matches 'unknown'; the store has: clerk" in ran.err


def test_the_row_of_a_version_is_one_option_away(hotel: Path) -> None:
    lines = done("tools", "failing", "--db", hotel, "--by", "version").out.splitlines()
    assert ["#", "version"] == lines[1].split()[:2]
    assert ["1", "1.10", "book"] == lines[3].split()[:3]


def test_show_prints_both_calls_side_by_side(hotel: Path) -> None:
    output_lines = done("tools", "failing", "--db", hotel, "--show", "1").out.splitlines()
    lines = [" ".join(line.split()) for line in output_lines]
    assert lines[:3] == snapshot(
        [
            "book wrong_parameters city (affects parameters)",
            "3 faults in 5 matched calls (60%), in 3 conversations; tools failed in 3 of them",
            "6 scored conversations expected the tool",
        ]
    )
    assert item(lines) == snapshot(
        "first seen 2026-03-04, after 2 conversations with the tool and without this fault; last seen 2026-03-06"
    )
    assert item(lines) == snapshot("in version 1.10: 3 (new): an earlier version used the tool without this fault")
    assert {"2 Paris ≠ Rome", "1 Oslo ≠ Rome"} <= set(lines)
    assert "newest: conversation c5, turn 1" in lines
    assert item(lines) == snapshot("query: A room in Rome, please")
    assert {"book expected actual", "city Rome Oslo <-", "nights 2 2"} <= set(lines)
    assert item(lines) == snapshot('book in turn 1, step 1: parameter city was "Oslo", expected "Rome"')
    assert any(line.startswith("trace ") and ", span " in line for line in lines)


@pytest.mark.parametrize(
    ("fault", "there"),
    [
        ("missing", ["book expected", "city Rome", "nights 2"]),
        ("spurious", ["drop actual", "all true"]),
        ("errored", ["book actual", "city Rome"]),
    ],
)
def test_show_prints_the_one_call_that_there_is(hotel: Path, fault: str, there: list[str]) -> None:
    output = done("tools", "failing", "--db", hotel, "--fault", fault, "--show", "1").out
    assert set(there) <= {" ".join(line.split()) for line in output.splitlines()}


def test_show_gives_machines_the_row_with_its_example(hotel: Path) -> None:
    result = failing(hotel, "--show", "1")
    assert ("book", "c5") == (result["tool"], result["example"]["conversation_id"])
    assert (ROME, {"city": "Oslo", "nights": 2}) == (
        result["example"]["expected_call"],
        result["example"]["actual_call"],
    )


def test_a_row_that_is_not_there_is_a_usage_error(hotel: Path) -> None:
    ran = run("tools", "failing", "--db", hotel, "--show", "9")
    assert (ran.code, ran.lines) == snapshot((2, ["otel-agentic: --show 9: no such row; the last row is 4"]))


def test_csv_carries_everything(hotel: Path) -> None:
    output = done("tools", "failing", "--db", hotel, "--format", "csv").out
    rows = list(csv.DictReader(io.StringIO(output)))
    assert set(failing(hotel)[0]) == set(rows[0])
    assert json.loads(rows[0]["wrong_values"])[0] == {"actual": "Paris", "expected": "Rome", "count": 2}


@pytest.mark.parametrize("width", [80, *(pytest.param(wide, marks=pytest.mark.slow) for wide in (100, 160))])
def test_no_line_is_wider_than_the_terminal(hotel: Path, width: int) -> None:
    for options in ((), ("--by", "version"), ("--show", "1")):
        lines = on_terminal(width, "tools", "failing", "--db", hotel, *options)
        assert max(map(len, lines)) <= width


def test_where_nothing_fails_it_says_what_was_looked_at(hotel: Path, tmp_path: Path) -> None:
    ask = ("tools", "failing", "--db")
    assert done(*ask, hotel, "--tool", "x").out == snapshot(
        "no matching fault: the selection has 6 other tool faults\n"
    )
    first = done(*ask, hotel, "--until", "2026-03-03").out
    assert first == snapshot("no tool faults: 1 of 2 scored conversations expected tools, without a fault\n")
    late = done(*ask, hotel, "--since", "2030-01-01").out
    assert late == snapshot("""\
no tool faults: no closed conversations in this selection
7 other conversations of the store: not in this selection
""")
    done("ingest", write_spans(tmp_path / "s.jsonl", [conversation("c1", case="talk")]), "--db", "t.duckdb")
    assert passage(done(*ask, "t.duckdb").out) == snapshot("none of 1 closed conversation is scored")
    done("evaluate", "--db", "t.duckdb", "--cases", write_cases(tmp_path / "c.jsonl", CASES[1:]))
    output = done(*ask, "t.duckdb").out
    assert output == snapshot("no tool faults: none of 1 scored conversation has a case that expects tools\n")


def test_a_conversation_shows_what_its_results_were_used_for(hotel: Path) -> None:
    output = done("conversations", "show", "c1", "--db", hotel).out
    assert "result of" in output
    assert passage(output) == snapshot("the answer of turn 1 says 'Booked: AB12.', as the result does: code 'AB12'")


def test_an_expected_call_is_shown_next_to_the_successful_call_not_to_a_failed_one(tmp_path: Path) -> None:
    calls = [("book", ROME, "Error: no room"), BOOK_ROME]
    conversations = [conversation("c1", query="Hi", answer="Hello", calls=calls, case="one")]
    expected = [{"tool_name": "book", "parameters": ROME}, {"tool_name": "pay"}]
    case = {"case_id": "one", "turns": [{"query": "Hi", "tools": {"calls": expected}}]}
    done("ingest", write_spans(tmp_path / "s.jsonl", conversations), "--db", "t.duckdb")
    done("evaluate", "--db", "t.duckdb", "--cases", write_cases(tmp_path / "c.jsonl", [case]))
    lines = [
        " ".join(line.split()) for line in done("conversations", "show", "c1", "--db", "t.duckdb").out.splitlines()
    ]
    book = 'book {"city":"Rome","nights":2}'
    displayed = [line for line in lines if line.startswith(("call", "missing", "errored")) and "{" in line]
    assert [f"errored {book}", f"call {book} {book}", "missing pay {}"] == displayed
    faults = [
        line.split()[0] for line in lines if line.startswith(("missing pay ", "errored book ")) and "{" not in line
    ]
    assert ["missing", "errored"] == faults


def test_a_conversation_shows_what_speaks_against_its_outcome(tmp_path: Path) -> None:
    conversations = [
        conversation("c1", calls=[("book", PARIS, "ok")], case="rome"),
        conversation("c2", query="Hi", answer="Hello", content=False, calls=[BOOK_ROME], case="mixed"),
    ]
    turns = [{"query": "Hi", "answer": "Hello"}, {"query": "Bye", "answer": "Bye"}]
    cases = [*CASES, {"case_id": "mixed", "turns": turns}]
    # With strict_turns the second turn, which never came, fails a conversation whose first answer was not captured.
    (tmp_path / "otel-agentic.toml").write_text("[scoring]\nstrict_turns = true\n", encoding="utf-8")
    (tmp_path / "labels.csv").write_text("conversation_id,verdict\nc1,pass\n", encoding="utf-8")
    done("ingest", write_spans(tmp_path / "s.jsonl", conversations), "--db", "t.duckdb")
    truth = ("--cases", write_cases(tmp_path / "c.jsonl", cases), "--labels", "labels.csv")
    done("evaluate", "--db", "t.duckdb", *truth)
    output = [done("conversations", "show", name, "--db", "t.duckdb").out for name in ("c1", "c2")]
    assert passage(output[0]) == snapshot("warning: the recorded verdict is pass, but turns and tools result in fail\n")
    assert passage(output[1]) == snapshot("warning: decided although other required parts could not be evaluated\n")


def test_of_many_versions_the_first_and_the_last_are_shown() -> None:
    versions = [{"agent_version": f"1.{number}", "faults": number} for number in range(1, 9)]
    row = {"versions": versions, "is_new": True, "agent_version": None, "introduced_in": "1.1"}
    assert "1.1: 1 (new), 1.8: 8, +6 more" == versions_of(partial(FailingTool, row))
