"""The commands that only look: query, plugins, config, conversations, truth."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from inline_snapshot import snapshot

from tests.cli.running import done, run
from tests.cli.small import conversation, write_cases, write_spans
from tests.snapshots import item, opening, passage

if TYPE_CHECKING:
    from tests.cli.conftest import Shop


def test_a_query_is_a_table_for_people(shop: Shop) -> None:
    sql = "SELECT outcome, count(*) AS n, avg(turn_count) AS t, max(ended_at) AS e FROM v_conversations GROUP BY ALL ORDER BY 1"
    lines = done("query", sql, "--db", shop.db).out.splitlines()

    assert ["outcome", "n", "t", "e"] == lines[0].split()
    assert ["fail", "1", "1", "2026-03-02", "12:01:00"] == lines[2].split()
    assert "(2 rows)" == lines[-1]


def test_rows_wider_than_the_terminal_become_lists(shop: Shop) -> None:
    output = done("query", "SELECT * FROM v_conversations ORDER BY conversation_id LIMIT 1", "--db", shop.db).out

    assert output.startswith("row 1\n")
    assert "conversation_id   c1\n" in output


def test_a_query_is_json_and_csv_for_machines(shop: Shop) -> None:
    sql = "SELECT case_id, count(*) AS n FROM conversation_scores GROUP BY ALL ORDER BY 1"

    result = [{"case_id": "cancel", "n": 2}, {"case_id": "where", "n": 2}]
    assert result == done("query", sql, "--db", shop.db, "--format", "json").json
    rows = list(csv.DictReader(io.StringIO(done("query", sql, "--db", shop.db, "--format", "csv").out)))
    assert [{"case_id": "cancel", "n": "2"}, {"case_id": "where", "n": "2"}] == rows


def test_a_query_that_is_cut_says_so(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_AGENTIC_STORE__QUERY_MAX_ROWS", "3")
    ran = done("query", "SELECT * FROM range(10)", "--db", shop.db, "--format", "csv")

    assert ["range", "0", "1", "2"] == ran.out.split()
    assert ran.err == snapshot("truncated after 3 rows (store.query_max_rows)\n")


def test_many_rows_of_csv_are_all_there(shop: Shop) -> None:
    output = done("query", "SELECT * FROM range(2500)", "--db", shop.db, "--format", "csv").out

    assert ["range", *map(str, range(2500))] == output.split()


def test_conversations_are_listed_by_outcome_and_newest_first(shop: Shop) -> None:
    failed = done("conversations", "list", "--db", shop.db, "--outcome", "fail", "--format", "json").json
    assert [("c2", "tool_fault")] == [(row["conversation_id"], row["reason"]) for row in failed]
    output = done("conversations", "list", "--db", shop.db, "--limit", "2").out
    assert opening(output) == snapshot("Conversations of clerk 1.0 production\n")
    assert passage(output) == snapshot("(the newest 2 conversations; --limit shows more)")


def test_a_conversation_shows_what_became_of_expected_calls(shop: Shop) -> None:
    output = done("conversations", "show", "c2", "--db", shop.db).out

    assert passage(output) == snapshot('look_up {"order":"A1"} turn 1, call 1 wrong_parameters order')
    assert passage(output) == snapshot('parameter order was "A2", expected "A1"')
    result = done("conversations", "show", "c2", "--db", shop.db, "--format", "json").json
    assert ("c2", "fail") == (result["conversation"]["conversation_id"], result["score"]["outcome"])


def test_a_turn_is_shown_next_to_the_expectations_of_its_case(tmp_path: Path) -> None:
    case = {
        "case_id": "where",
        "outputs": ["Monday", "a refund"],
        "turns": [
            {
                "query": "Where is my order?",
                "answer": "On Monday",
                "not_answer": "never",
                "tools": {"calls": [{"tool_name": "look_up", "parameters": {"order": "A1"}}, {"tool_name": "greet"}]},
            }
        ],
    }
    write_cases(tmp_path / "cases.jsonl", [case])
    spans = [conversation("c1", calls=[("look_up", {"order": "A1"}, "ok")], case="where")]
    done("ingest", write_spans(tmp_path / "spans.jsonl", spans), "--db", "t.duckdb")
    done("evaluate", "--db", "t.duckdb", "--cases", "cases.jsonl")

    output = done("conversations", "show", "c1", "--db", "t.duckdb").out
    assert re.search(r"turn 1 +actual +expected", output)
    assert passage(output) == snapshot('call look_up {"order":"A1"} look_up {"order":"A1"}')
    assert "greet {}" in output
    assert "never: never" in output
    assert ["Monday", "yes"] in [line.split() for line in output.splitlines()]
    assert ["a", "refund", "no"] in [line.split() for line in output.splitlines()]


#: Two expected calls of one tool that neither actual call meets in full, one that is missing, and an optional one.
SEATS: Final = {
    "case_id": "seats",
    "turns": [
        {
            "query": "Where is my order?",
            "answer": "It arrives on Monday.",
            "tools": {
                "calls": [
                    {"tool_name": "book", "parameters": {"row": 1, "seat": "A"}},
                    {"tool_name": "book", "parameters": {"row": 2, "seat": "B"}},
                    {"tool_name": "pay"},
                    {"tool_name": "greet", "required": False},
                ]
            },
        }
    ],
}


@pytest.fixture
def seats(tmp_path: Path) -> Path:
    calls = [("book", {"row": 2, "seat": "C"}, "ok"), ("book", {"row": 1, "seat": "C"}, "ok"), ("drop", {}, "ok")]
    write_cases(tmp_path / "cases.jsonl", [SEATS])
    spans = write_spans(tmp_path / "spans.jsonl", [conversation("c1", calls=calls, case="seats")])
    done("ingest", spans, "--db", tmp_path / "t.duckdb")
    return tmp_path / "t.duckdb"


def call_rows(output: str) -> list[tuple[str, ...]]:
    """Return the label, the actual and the expected call of each row of the turn that is about a call."""
    lines = [re.split(r"  +", line.rstrip()) for line in output.splitlines()]
    return [tuple(line) for line in lines if re.search(r"\b(book|pay|drop|greet) \{", " ".join(line))]


def test_an_expected_call_is_next_to_the_actual_call_with_which_it_was_scored(seats: Path) -> None:
    done("evaluate", "--db", seats, "--cases", "cases.jsonl")

    assert call_rows(done("conversations", "show", "c1", "--db", seats).out) == [
        ("call", 'book {"row":2,"seat":"C"}', 'book {"row":2,"seat":"B"}'),
        ("call", 'book {"row":1,"seat":"C"}', 'book {"row":1,"seat":"A"}'),
        ("spurious", "drop {}"),
        ("missing", "pay {}"),
        ("optional", "greet {} (optional)"),
    ]
    pairs = done("conversations", "show", "c1", "--db", seats, "--format", "json").json["score"]["call_pairs"]
    names = ("tool_name", "status", "expected_index", "actual_turn_index", "actual_position", "agreement")
    assert [tuple(pair[name] for name in names) for pair in pairs] == [
        ("book", "paired", 1, 0, 0, 0.5),
        ("book", "paired", 0, 0, 1, 0.5),
        ("drop", "spurious", None, 0, 2, None),
        ("pay", "missing", 2, None, None, None),
        ("greet", "optional", 3, None, None, None),
    ]


def test_calls_that_were_not_scored_are_not_paired(seats: Path) -> None:
    done("evaluate", "--db", seats, "--cases", "cases.jsonl", "--compat", "agentest")

    output = done("conversations", "show", "c1", "--db", seats, "--evaluation", "compat:agentest").out
    assert call_rows(output) == [
        ("call", 'book {"row":2,"seat":"C"}'),
        ("call", 'book {"row":1,"seat":"C"}'),
        ("call", "drop {}"),
        ("expected", 'book {"row":1,"seat":"A"}'),
        ("expected", 'book {"row":2,"seat":"B"}'),
        ("expected", "pay {}"),
        ("expected", "greet {} (optional)"),
    ]


def test_calls_of_any_turn_are_those_of_the_alternative_that_counted(tmp_path: Path) -> None:
    ways: list[dict[str, object]] = [
        {"calls": [{"tool_name": "refund"}]},
        {"calls": [{"tool_name": "cancel"}, {"tool_name": "book", "parameters": {"row": 1}}], "order": "exact"},
    ]
    case = {"case_id": "where", "tools": {**ways[0], "alternatives": [ways[1]]}}
    write_cases(tmp_path / "cases.jsonl", [case])
    calls = [("book", {"row": 2}, "ok"), ("cancel", {}, "ok")]
    done("ingest", write_spans(tmp_path / "spans.jsonl", [conversation("c1", calls=calls, case="where")]), "--db", "t")
    done("evaluate", "--db", "t", "--cases", "cases.jsonl")

    rows = [
        re.split(r"  +", line.rstrip()) for line in done("conversations", "show", "c1", "--db", "t").out.splitlines()
    ]
    assert ["cancel {}", "turn 1, call 2", "wrong_order"] in rows
    assert ['book {"row":1}', "turn 1, call 1", "wrong_parameters row, wrong_order"] in rows
    assert not any("refund {}" in row for row in rows)


def test_ground_truth_is_imported_listed_and_checked(shop: Shop, tmp_path: Path) -> None:
    write_spans(tmp_path / "spans.jsonl", [conversation("c1")])
    done("ingest", "spans.jsonl", "--db", "t.duckdb")
    assert passage(done("truth", "list", "--db", "t.duckdb").out) == snapshot("no current cases")

    imported = done("truth", "import", shop.cases, "--db", "t.duckdb").out.splitlines()
    assert imported[0] == snapshot("2 new case versions; 2 cases now current")
    again = done("truth", "import", shop.cases, "--db", "t.duckdb", "--format", "json").json
    assert (0, 2) == (again["new_case_versions"], again["cases"])
    assert passage(done("truth", "list", "--db", "t.duckdb").out) == snapshot("2 current cases, dataset cases")
    assert f"{shop.cases}: 2 cases, ok\n" == done("truth", "validate", shop.cases).out
    (checked,) = done("truth", "validate", shop.cases, "--format", "json").json
    assert {
        "file": str(shop.cases), "kind": "case", "format": "native", "count": 2, "problems": [], "left_out": [],
    } == checked  # fmt: skip


def test_labels_are_checked_by_their_name(tmp_path: Path) -> None:
    (tmp_path / "labels.csv").write_text("conversation_id,verdict\nc1,pass\n", encoding="utf-8")

    assert done("truth", "validate", "labels.csv").out == snapshot("labels.csv: 1 label, ok\n")


def test_plugins_are_listed_with_their_state() -> None:
    result = done("plugins", "--format", "json").json

    assert {"bayesian", "per_case", "plugin", "unbiased"} <= {
        row["name"] for row in result if row["group"] == "estimators"
    }
    assert {"ok"} == {row["state"] for row in result}
    assert "otlp_grpc" in done("plugins").out


def test_settings_are_shown_with_where_they_come_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "settings.toml").write_text("[stats]\nlevel = 0.9\n[admin]\ntoken = 'geheim'\n", encoding="utf-8")
    monkeypatch.setenv("OTEL_AGENTIC_STORE__QUERY_MAX_ROWS", "7")
    ran = done("config", "show", "--config", "settings.toml")
    lines = [" ".join(line.split()) for line in ran.out.splitlines()]

    assert item(lines) == snapshot("level 0.9 level of intervals (from the file)")
    assert item(lines) == snapshot("query_max_rows 7 rows a user query may return (from the environment)")
    assert {"[store]", "[receive]", "[admin]", "[conversations]", "[scoring]", "[stats]", "[windows]", "[emit]"} <= set(
        lines
    )
    assert "geheim" not in ran.out
    as_json = done("config", "show", "--config", "settings.toml", "--format", "json")
    assert (0.9, 7) == (as_json.json["stats"]["level"], as_json.json["store"]["query_max_rows"])
    assert "geheim" not in as_json.out


def test_a_wrong_setting_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_AGENTIC_STATS__LEVEL", "95")
    ran = run("config", "show")

    assert (2, 1) == (ran.code, len(ran.lines))
    assert "setting stats.level" in ran.err


def test_machine_output_is_nothing_but_json(shop: Shop) -> None:
    commands = (("report",), ("tools", "failing"), ("conversations", "list"), ("truth", "list"), ("truth", "matches"))
    for command in commands:
        ran = done(*command, "--db", shop.db, "--format", "json")
        assert "" == ran.err
        json.loads(ran.out)
