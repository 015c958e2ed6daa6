"""What strangers wrote is shown as it is: it neither steers the terminal nor becomes markup or a formula."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Any

import pytest

from otel_agentic.cli.text import csv_cell, markdown
from tests.cli.running import done
from tests.cli.small import conversation, write_cases, write_spans

if TYPE_CHECKING:
    from pathlib import Path

_ESCAPE = "\x1b[2J\x1b]0;owned\x07"
_MARKUP = "[red]ok[/red] [/] :bomb: [link=http://x]y[/link]"
_FORMULA = '=HYPERLINK("http://x")'
_PIPES = "a|b`c`<script>"
_TABLES = (
    ("conversations", "list"),
    ("tools", "failing"),
    ("truth", "list"),
    ("truth", "matches"),
    ("report", "--by", "tool", "--by", "version"),
    ("report", "--format", "markdown"),
    ("query", "SELECT name, service, tool_name FROM spans"),
    ("query", "SELECT * FROM spans"),
)


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store in which every name is hostile."""
    folder = tmp_path_factory.mktemp("hostile")
    calls: list[Any] = [
        (f"tool {_MARKUP}", {f"key {_ESCAPE}": _ESCAPE}, _ESCAPE),
        (_FORMULA, {}, "done"),
        (_PIPES, {}, "done"),
    ]
    hostile = conversation(
        f"id {_ESCAPE}",
        query=f"query {_ESCAPE} {_MARKUP}",
        answer=f"answer {_ESCAPE} {_MARKUP}",
        calls=calls,
        agent=f"agent {_MARKUP}",
        version=f"1{_ESCAPE}",
        case="k",
        span_name=f"span {_MARKUP}{_ESCAPE}",
    )
    case = {
        "case_id": "k",
        "tags": [_MARKUP],
        "tools": {"calls": [{"tool_name": "other", "parameters": {"a": _ESCAPE}}]},
    }
    write_spans(folder / "spans.jsonl", [hostile])
    write_cases(folder / "cases.jsonl", [case])
    done("ingest", folder / "spans.jsonl", "--db", folder / "t.duckdb")
    done("evaluate", "--db", folder / "t.duckdb", "--cases", folder / "cases.jsonl")
    return folder / "t.duckdb"


@pytest.mark.parametrize("command", _TABLES, ids=" ".join)
def test_tables_show_escapes_and_do_not_obey_them(db: Path, command: tuple[str, ...]) -> None:
    told = done(*command, "--db", db).out

    assert {"\x1b", "\x07"} & set(told) == set()


def test_a_conversation_is_shown_without_obeying_it(db: Path) -> None:
    (row,) = done("conversations", "list", "--db", db, "--format", "json").json
    told = done("conversations", "show", row["conversation_id"], "--db", db).out

    assert {"\x1b", "\x07"} & set(told) == set()
    assert f"query \ufffd[2J\ufffd]0;owned\ufffd {_MARKUP}" in told


def test_markup_in_names_is_shown_literally(db: Path) -> None:
    assert f"Conversations of agent {_MARKUP}" in done("conversations", "list", "--db", db).out
    named = done("query", "SELECT tool_name FROM spans WHERE tool_name LIKE 'tool%'", "--db", db).out
    assert f"tool {_MARKUP}" in named
    assert f"Reliability of agent {_MARKUP}" in done("report", "--db", db).out


def test_doctor_shows_hostile_span_names_literally(db: Path) -> None:
    told = done("doctor", db.with_name("spans.jsonl")).out

    assert "\x1b" not in told
    assert "span [red]ok[/red]" in told


def test_json_keeps_what_was_written(db: Path) -> None:
    (row,) = done("conversations", "list", "--db", db, "--format", "json").json

    assert f"id {_ESCAPE}".replace("\x1b", "") == row["conversation_id"].replace("\x1b", "")


@pytest.mark.parametrize("command", [("tools", "failing"), ("query", "SELECT DISTINCT tool_name AS tool FROM spans")])
def test_csv_holds_no_formula(db: Path, command: tuple[str, ...]) -> None:
    told = done(*command, "--db", db, "--format", "csv").out

    rows = list(csv.DictReader(io.StringIO(told)))
    assert f"'{_FORMULA}" in {row["tool"] for row in rows}
    assert not any(cell.startswith(("=", "+", "@", "\t")) for row in rows for cell in row.values() if cell)


@pytest.mark.parametrize("formula", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1"])
def test_a_formula_in_a_cell_becomes_text(formula: str) -> None:
    assert f"'{formula}" == csv_cell(formula)


def test_numbers_are_no_formulas() -> None:
    assert [-1, -0.5, None, "1"] == [csv_cell(value) for value in (-1, -0.5, None, "1")]


def test_markdown_shows_strangers_text_as_it_is() -> None:
    assert r"a\|b\`c\`\<script\>" == markdown(_PIPES)
    assert "one two" == markdown("one\ntwo")


def test_a_query_whose_column_names_are_hostile_is_shown_literally(db: Path) -> None:
    assert "[red]" in done("query", 'SELECT 1 AS "[red]"', "--db", db).out
    wide = ", ".join(f"'{'x' * 60}' AS \"[b]{number}\"" for number in range(6))
    assert "[b]5" in done("query", f"SELECT {wide}", "--db", db).out
