"""Untrusted text is shown literally: it neither steers the terminal nor becomes markup or a formula."""

from __future__ import annotations

import csv
import io
import logging
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from otel_agentic.cli.logs import JsonLines, Lines
from otel_agentic.cli.truth.files import FORMAT_NAMES
from otel_agentic.render.text import csv_cell, markdown
from tests.cli.running import Terminal, done, run
from tests.cli.small import conversation, write_cases, write_spans
from tests.snapshots import passage

#: Clears the screen and names the window; the same in one byte, and marks that turn a line around.
_ESCAPE = "\x1b[2J\x1b]0;owned\x07\x9b31m\u202e\u2066\u2028\x7f\r"
_MARKUP = "[red]ok[/red] [/] :bomb: [link=http://x]y[/link]"
_FORMULA = '=HYPERLINK("http://x")'
_PIPES = "a|b`c`<script>alert(1)</script>"
_ALL = f"{_PIPES} {_ESCAPE} {_MARKUP}"
_TIMES = ("--since", "2026-03-02T12:00:00Z", "--until", "2026-03-02T14:00:00Z", "--window", "1h", "--step", "1h")
_SPANS = "SELECT * FROM spans"
#: Commands whose only formats are a table and JSON.
_TABLES = (
    ("truth", "list"),
    ("truth", "matches"),
    ("truth", "datasets"),
    ("judge", "cache"),
    ("evaluate", "--force"),
    ("backfill", *_TIMES),
    ("store", "stats"),
    ("failures",),
    ("suite", "list"),
)
#: Every command that shows untrusted text, in each of its formats.
_COMMANDS = (
    *_TABLES,
    *(("conversations", "list", "--format", form) for form in ("table", "json")),
    ("conversations", "export"),
    *(("tools", "failing", "--format", form) for form in ("table", "csv")),
    *(("report", "--by", "tool", "--format", form) for form in ("table", "markdown")),
    *(
        ("report", "--by", "case", "--by", "tag", "--by", "service", "--format", form)
        for form in ("table", "json", "markdown")
    ),
    ("report", "--plot"),
    *(("query", _SPANS, "--format", form) for form in ("table", "json", "csv")),
    ("query", f'SELECT 1 AS "{_ALL}"', "--format", "csv"),
    *(("truth", "export", "--format", form) for form in FORMAT_NAMES if form != "parquet"),
    *(("truth", "promote", "--format", form) for form in ("jsonl", "yaml")),
    ("backfill", *_TIMES, "--emit", "openmetrics"),
    ("report", "--format", "html"),
)
#: Further rows and columns in these formats: one writer serves all JSON, one all tables of a query.
_REPETITIONS = (
    ("query", f'SELECT 1 AS "{_ALL}"'),
    *(("query", "SELECT name, service, tool_name FROM spans", "--format", form) for form in ("table", "csv")),
    *(("query", "FROM turns", "--format", form) for form in ("table", "json", "csv")),
    *(("report", "--by", by, "--format", form) for by in ("agent", "version") for form in ("table", "markdown")),
    *((*command, "--format", "json") for command in (("tools", "failing"), *_TABLES)),
)
#: Errors that quote their input.
_ERRORS = (
    ("conversations", "show", f"nobody {_ESCAPE}"),
    ("query", f'SELECT "{_ESCAPE}" FROM spans'),  # noqa: S608 — of a test
    ("query", "SELECT name::INTEGER FROM spans"),
    ("report", "--estimator", f"none{_ESCAPE}"),
    ("report", "--compare", f"version={_ESCAPE},b"),
    ("tools", "failing", "--since", _ESCAPE),
    ("evaluate", "--cases", f"nowhere{_ESCAPE}.jsonl"),
    ("evaluate", "--judge", f"nobody{_ESCAPE}"),
    ("truth", "import", "--cases", f"nowhere{_ESCAPE}.jsonl"),
    ("backfill", "--since", _ESCAPE),
)
#: Further ones of a query, quoted like the others.
_FURTHER_ERRORS = (
    ("query", f"SELECT '{_ESCAPE}' +"),
    ("query", f'SELECT * FROM "{_ESCAPE}"'),  # noqa: S608 — of a test
    ("query", f"SELECT CAST('{_ESCAPE}' AS INTEGER)"),
)


def obeyed(output: str) -> set[str]:
    """Return the characters of an output that a terminal would obey."""
    return {char for char in output if not char.isprintable() and char not in "\n\t"}


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store in which every name is hostile."""
    folder = tmp_path_factory.mktemp("hostile")
    calls: list[Any] = [
        (f"tool {_MARKUP}", {f"key {_ESCAPE}": _ESCAPE}, _ESCAPE),
        (f"other {_ALL}", {_ALL: _ALL}, f"Error: {_ALL}"),
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
        "tags": [_MARKUP, _ALL],
        "turns": [{"query": f"query {_ESCAPE} {_MARKUP}", "answer": f"expected\n{_ALL}"}],
        "notes": _ALL,
        "tools": {"calls": [{"tool_name": "other", "parameters": {"a": _ESCAPE, _ALL: [_ALL]}}]},
    }
    write_spans(folder / "spans.jsonl", [hostile])
    write_cases(folder / "cases.jsonl", [case])
    done("ingest", folder / "spans.jsonl", "--db", folder / "t.duckdb")
    done("evaluate", "--db", folder / "t.duckdb", "--cases", folder / "cases.jsonl")
    return folder / "t.duckdb"


@pytest.mark.parametrize(
    "command",
    [*_COMMANDS, *(pytest.param(command, marks=pytest.mark.slow) for command in _REPETITIONS)],
    ids=lambda command: " ".join(command[:5])[:60],
)
def test_no_command_in_no_format_steers_a_terminal(db: Path, command: tuple[str, ...]) -> None:
    ran = done(*command, "--db", db)

    assert (set(), set()) == (obeyed(ran.out), obeyed(ran.err))


@pytest.mark.parametrize("form", [pytest.param("native", marks=pytest.mark.slow), "yaml"])
def test_cases_with_control_characters_come_back_from_standard_output(db: Path, tmp_path: Path, form: str) -> None:
    copy, file = tmp_path / "copy.duckdb", tmp_path / f"cases.{'yaml' if form == 'yaml' else 'jsonl'}"
    file.write_text(done("truth", "export", "--format", form, "--db", db).out, encoding="utf-8", newline="")
    done("ingest", db.with_name("spans.jsonl"), "--db", copy)
    done("truth", "import", file, "--db", copy)

    (sent,), (result,) = (done("truth", "list", "--format", "json", "--db", item).json for item in (db, copy))
    assert (sent["case_id"], sent["tags"]) == (result["case_id"], result["tags"])
    exported = [done("truth", "export", "--db", item).out for item in (db, copy)]
    assert exported[0] == exported[1]


def test_csv_of_cases_keeps_control_characters_in_a_file_only(db: Path, tmp_path: Path) -> None:
    file = tmp_path / "cases.csv"
    done("truth", "export", "--output", file, "--db", db)

    assert "\u202e" in file.read_text(encoding="utf-8")
    assert "\u202e" not in done("truth", "export", "--format", "csv", "--db", db).out


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_log_does_not_steer_a_terminal(form: str) -> None:
    out = StringIO()
    handler = logging.StreamHandler(out)
    handler.setFormatter(JsonLines(debugging=False) if form == "json" else Lines(debugging=False))
    handler.handle(logging.LogRecord("a", logging.INFO, "", 0, f"agent {_ALL}", None, None))

    assert set() == obeyed(out.getvalue())


@pytest.mark.parametrize(
    "command",
    [*_ERRORS, *(pytest.param(command, marks=pytest.mark.slow) for command in _FURTHER_ERRORS)],
    ids=lambda command: " ".join(command[:2]),
)
def test_no_error_steers_a_terminal(db: Path, command: tuple[str, ...]) -> None:
    ran = run(*command, "--db", db)

    assert 0 != ran.code
    assert "otel-agentic: " in ran.err
    assert set() == obeyed(ran.err + ran.out)


def test_series_are_shown_safely_on_a_terminal_and_in_a_pipe(db: Path) -> None:
    command = ("backfill", *_TIMES, "--emit", "openmetrics", "--db", db)

    for out in (Terminal(), StringIO()):
        output = run(*command, out=out).out
        assert set() == obeyed(output)
        assert passage(output, markup=_MARKUP) == snapshot('gen_ai_agent_name="agent <markup>"')


def test_files_with_hostile_names_and_lines_are_reported_safely(tmp_path: Path) -> None:
    cases = tmp_path / "cases[red]\x1b[2J.jsonl"
    cases.write_text(f'{{"case_id": "a", "{_MARKUP}": 1}}\n{{"case_id": 3}}\nno {_ESCAPE}\n', encoding="utf-8")
    spans = tmp_path / "spans[red]\x1b[2J.jsonl"
    spans.write_text(f"no {_ESCAPE}\n", encoding="utf-8")
    for command in (
        ("truth", "validate", cases),
        ("truth", "import", "--cases", cases, "--db", tmp_path / "t.duckdb"),
        ("ingest", spans, "--db", tmp_path / "t.duckdb"),
        ("doctor", spans),
    ):
        ran = run(*command)
        assert set() == obeyed(ran.err + ran.out), command


def test_settings_with_hostile_values_are_shown_safely(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text('[emit]\nendpoint = "http://x/\\u001b[2J\\u009b"\n', encoding="utf-8")
    for form in ("table", "json"):
        ran = run("config", "show", "--config", tmp_path / "own.toml", "--format", form)
        assert set() == obeyed(ran.out + ran.err)


def test_a_page_shows_untrusted_markup_as_text(db: Path, tmp_path: Path) -> None:
    done("report", "--by", "tool", "--format", "html", "--out", tmp_path / "page.html", "--db", db)

    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "alert(1)</script>" not in page
    assert "alert(1)" in page


def test_a_conversation_is_shown_without_obeying_it(db: Path) -> None:
    (row,) = done("conversations", "list", "--db", db, "--format", "json").json
    output = done("conversations", "show", row["conversation_id"], "--db", db).out

    assert {"\x1b", "\x07"} & set(output) == set()
    assert "query \ufffd[2J\ufffd]0;owned\ufffd\ufffd31m" in output
    assert _MARKUP in output


def test_markup_in_names_is_shown_literally(db: Path) -> None:
    assert f"Conversations of agent {_MARKUP}" in done("conversations", "list", "--db", db).out
    named = done("query", "SELECT tool_name FROM spans WHERE tool_name LIKE 'tool%'", "--db", db).out
    assert f"tool {_MARKUP}" in named
    assert f"agent {_MARKUP}: no conversation was evaluated" in done("report", "--db", db).out


def test_doctor_shows_hostile_span_names_literally(db: Path) -> None:
    output = done("doctor", db.with_name("spans.jsonl")).out

    assert "\x1b" not in output
    assert passage(output) == snapshot("span [red]ok[/red]")


def test_json_keeps_what_was_written(db: Path) -> None:
    (row,) = done("conversations", "list", "--db", db, "--format", "json").json

    assert f"id {_ESCAPE}".replace("\x1b", "") == row["conversation_id"].replace("\x1b", "")


@pytest.mark.parametrize("command", [("tools", "failing"), ("query", "SELECT DISTINCT tool_name AS tool FROM spans")])
def test_csv_holds_no_formula(db: Path, command: tuple[str, ...]) -> None:
    output = done(*command, "--db", db, "--format", "csv").out

    rows = list(csv.DictReader(io.StringIO(output)))
    assert f"'{_FORMULA}" in {row["tool"] for row in rows}
    assert not any(cell.startswith(("=", "+", "@", "\t")) for row in rows for cell in row.values() if cell)


@pytest.mark.parametrize("formula", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1"])
def test_a_formula_in_a_cell_becomes_text(formula: str) -> None:
    assert f"'{formula}" == csv_cell(formula)


def test_numbers_are_no_formulas() -> None:
    assert [-1, -0.5, None, "1"] == [csv_cell(value) for value in (-1, -0.5, None, "1")]


def test_markdown_shows_untrusted_text_literally() -> None:
    assert r"a\|b\`c\`\<script\>alert(1)\</script\>" == markdown(_PIPES)
    assert "one two" == markdown("one\ntwo")


def test_a_query_whose_column_names_are_hostile_is_shown_literally(db: Path) -> None:
    assert "[red]" in done("query", 'SELECT 1 AS "[red]"', "--db", db).out
    wide = ", ".join(f"'{'x' * 60}' AS \"[b]{number}\"" for number in range(6))
    assert "[b]5" in done("query", f"SELECT {wide}", "--db", db).out
