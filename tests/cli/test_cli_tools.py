"""`tools failing` as people ask it: which tool, since when, in which version, show me one, and why there is none."""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING, Any

import pytest
from inline_snapshot import snapshot

from otel_agentic.cli.tools import told_difference, versions_of
from otel_agentic.results.failures import FailingTool
from tests.cli.hotel import BOOK_ROME, CASES, PARIS, ROME, build_hotel
from tests.cli.partial import partial
from tests.cli.running import done, on_terminal, run
from tests.cli.small import conversation, write_cases, write_spans
from tests.snapshots import item, passage

if TYPE_CHECKING:
    from pathlib import Path


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


def test_what_the_first_version_has_is_not_new_and_what_nobody_had_a_chance_at_is_not_either(hotel: Path) -> None:
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
    ("options", "found"),
    [
        (("--tool", "d*"), ["drop"]),
        (("--tool", "book", "--fault", "missing"), ["book"]),
        (("--dimension", "selection"), ["book", "drop"]),
        (("--fault", "errored"), ["book"]),
        (("--parameter", "nights"), []),
        (("--agent", "nobody"), []),
    ],
)
def test_filters_keep_what_fits(hotel: Path, options: tuple[str, ...], found: list[str]) -> None:
    assert found == [row["tool"] for row in failing(hotel, *options)]


def test_a_filter_leaves_the_share_that_of_all_faults(hotel: Path) -> None:
    (row,) = failing(hotel, "--tool", "drop")
    assert 0.2 == pytest.approx(row["share"])


def test_a_table_has_a_row_for_a_problem_over_all_versions(hotel: Path) -> None:
    told = done("tools", "failing", "--db", hotel).out.splitlines()
    assert told[0] == snapshot("Failing tools of clerk production")
    names = "# tool dimension fault failed faults rate share since versions for example conversation"
    assert names == " ".join(told[1].split())
    row = " ".join(told[3].split())
    assert row == snapshot(
        "1 book parameters wrong_parameters city 3 3 60% 50% 2026-03-04 1.10: 3 (new) Oslo instead of Rome c5"
    )
    assert told[-1] == snapshot("(6 tool faults; 6 of 7 scored conversations expected tools; --show N shows one)")
    split = failing(hotel, "--by", "problem")
    assert {None} == {row["agent_version"] for row in split}


def test_the_row_of_a_version_is_one_option_away(hotel: Path) -> None:
    told = done("tools", "failing", "--db", hotel, "--by", "version").out.splitlines()
    assert ["#", "version"] == told[1].split()[:2]
    assert ["1", "1.10", "book"] == told[3].split()[:3]


def test_show_prints_both_calls_side_by_side(hotel: Path) -> None:
    told = done("tools", "failing", "--db", hotel, "--show", "1").out.splitlines()
    lines = [" ".join(line.split()) for line in told]
    assert lines[:3] == snapshot(
        [
            "book wrong_parameters city (hurts parameters)",
            "3 faults in 5 calls expected and made (60%), in 3 conversations; the tools of 3 failed with it",
            "6 scored conversations expected the tool",
        ]
    )
    assert item(lines) == snapshot(
        "first seen 2026-03-04, after 2 conversations with the tool and without this; last seen 2026-03-06"
    )
    assert item(lines) == snapshot("in version 1.10: 3 (new): an earlier version used the tool without this")
    assert {"2 Paris Rome", "1 Oslo Rome"} <= set(lines)
    assert "newest: conversation c5, turn 1" in lines
    assert item(lines) == snapshot("query: A room in Rome, please")
    assert {"book expected actual", "city Rome Oslo <-", "nights 2 2"} <= set(lines)
    assert item(lines) == snapshot('book in turn 1, step 1: parameter city was "Oslo", expected "Rome"')
    assert any(line.startswith("trace ") and ", span " in line for line in lines)


@pytest.mark.parametrize(
    ("fault", "there"),
    [
        ("missing", ["book expected", "city Rome", "nights 2"]),
        ("spurious", ["drop actual", "all True"]),
        ("errored", ["book actual", "city Rome"]),
    ],
)
def test_show_prints_the_one_call_that_there_is(hotel: Path, fault: str, there: list[str]) -> None:
    told = done("tools", "failing", "--db", hotel, "--fault", fault, "--show", "1").out
    assert set(there) <= {" ".join(line.split()) for line in told.splitlines()}


def test_show_gives_machines_the_row_with_its_example(hotel: Path) -> None:
    found = failing(hotel, "--show", "1")
    assert ("book", "c5") == (found["tool"], found["example"]["conversation_id"])
    assert (ROME, {"city": "Oslo", "nights": 2}) == (found["example"]["expected_call"], found["example"]["actual_call"])


def test_a_row_that_is_not_there_is_a_usage_error(hotel: Path) -> None:
    ran = run("tools", "failing", "--db", hotel, "--show", "9")
    assert (ran.code, ran.lines) == snapshot((2, ["otel-agentic: --show 9: there is no such row; the last one is 4"]))


def test_csv_carries_everything(hotel: Path) -> None:
    told = done("tools", "failing", "--db", hotel, "--format", "csv").out
    rows = list(csv.DictReader(io.StringIO(told)))
    assert set(failing(hotel)[0]) == set(rows[0])
    assert json.loads(rows[0]["wrong_values"])[0] == {"actual": "Paris", "expected": "Rome", "count": 2}


@pytest.mark.parametrize("width", [80, 100, 160])
def test_no_line_is_wider_than_the_terminal(hotel: Path, width: int) -> None:
    for options in ((), ("--by", "version"), ("--show", "1")):
        lines = on_terminal(width, "tools", "failing", "--db", hotel, *options)
        assert max(map(len, lines)) <= width


def test_where_nothing_fails_it_says_what_was_looked_at(hotel: Path, tmp_path: Path) -> None:
    ask = ("tools", "failing", "--db")
    assert done(*ask, hotel, "--tool", "x").out == snapshot(
        "no such fault: the 6 tool faults of this selection are others\n"
    )
    first = done(*ask, hotel, "--until", "2026-03-03").out
    assert first == snapshot("no tool faults: 1 of 2 scored conversations had expected tools, and none went wrong\n")
    late = done(*ask, hotel, "--since", "2030-01-01").out
    assert late == snapshot("no tool faults: no closed conversations in this selection\n")
    done("ingest", write_spans(tmp_path / "s.jsonl", [conversation("c1", case="talk")]), "--db", "t.duckdb")
    assert passage(done(*ask, "t.duckdb").out) == snapshot("none of 1 closed conversation is scored")
    done("evaluate", "--db", "t.duckdb", "--cases", write_cases(tmp_path / "c.jsonl", CASES[1:]))
    told = done(*ask, "t.duckdb").out
    assert told == snapshot("no tool faults: none of 1 scored conversation has a case that expects tools\n")


def test_a_conversation_shows_what_its_results_were_used_for(hotel: Path) -> None:
    told = done("conversations", "show", "c1", "--db", hotel).out
    assert "result of" in told
    assert passage(told) == snapshot("the answer of turn 1 says 'Booked: AB12.', as the result does: code 'AB12'")


def test_an_expected_call_stands_beside_the_one_that_made_it_not_beside_one_that_failed(tmp_path: Path) -> None:
    calls = [("book", ROME, "Error: no room"), BOOK_ROME]
    made = [conversation("c1", query="Hi", answer="Hello", calls=calls, case="one")]
    expected = [{"tool_name": "book", "parameters": ROME}, {"tool_name": "pay"}]
    case = {"case_id": "one", "turns": [{"query": "Hi", "tools": {"calls": expected}}]}
    done("ingest", write_spans(tmp_path / "s.jsonl", made), "--db", "t.duckdb")
    done("evaluate", "--db", "t.duckdb", "--cases", write_cases(tmp_path / "c.jsonl", [case]))
    lines = [
        " ".join(line.split()) for line in done("conversations", "show", "c1", "--db", "t.duckdb").out.splitlines()
    ]
    book = 'book {"city":"Rome","nights":2}'
    assert [f"call {book}", f"call {book} {book}", "call pay {}"] == [line for line in lines if line.startswith("call")]
    faults = [line.split()[0] for line in lines if line.startswith(("missing", "errored"))]
    assert ["missing", "errored"] == faults


def test_a_conversation_shows_what_speaks_against_its_outcome(tmp_path: Path) -> None:
    made = [
        conversation("c1", calls=[("book", PARIS, "ok")], case="rome"),
        conversation("c2", query="Hi", answer="Hello", content=False, calls=[BOOK_ROME], case="mixed"),
    ]
    turns = [{"query": "Hi", "answer": "Hello"}, {"query": "Bye", "answer": "Bye"}]
    cases = [*CASES, {"case_id": "mixed", "turns": turns}]
    # With strict_turns the second turn, which never came, fails a conversation whose first answer was not captured.
    (tmp_path / "otel-agentic.toml").write_text("[scoring]\nstrict_turns = true\n", encoding="utf-8")
    (tmp_path / "labels.csv").write_text("conversation_id,verdict\nc1,pass\n", encoding="utf-8")
    done("ingest", write_spans(tmp_path / "s.jsonl", made), "--db", "t.duckdb")
    truth = ("--cases", write_cases(tmp_path / "c.jsonl", cases), "--labels", "labels.csv")
    done("evaluate", "--db", "t.duckdb", *truth)
    told = [done("conversations", "show", name, "--db", "t.duckdb").out for name in ("c1", "c2")]
    assert passage(told[0]) == snapshot("warning: the given verdict says pass, turns and tools say fail\n")
    assert passage(told[1]) == snapshot("warning: decided although other needed parts could not be evaluated\n")


@pytest.mark.parametrize(
    ("expected", "made", "told"),
    [
        ({"a": 1, "b": [1, {"c": 2}]}, {"a": 1, "b": [1, {"c": 3}]}, "b[1].c 3 instead of 2"),
        ([1, 2], [1], "[1] instead of [1,2]"),
        ({"a": 1}, {"b": 1}, '{"b":1} instead of {"a":1}'),
        ("x", None, "\u2014 instead of x"),
        (1, 1, "1 instead of 1"),
    ],
)
def test_of_two_values_the_first_difference_is_told(expected: Any, made: Any, told: str) -> None:
    assert told == told_difference(expected, made, 20)


def test_of_many_versions_the_first_and_the_last_are_told() -> None:
    versions = [{"agent_version": f"1.{number}", "faults": number} for number in range(1, 9)]
    row = {"versions": versions, "is_new": True, "agent_version": None, "introduced_in": "1.1"}
    assert "1.1: 1 (new), 1.8: 8, +6 more" == versions_of(partial(FailingTool, row))
