"""An error is one readable line on standard error, and its exit code is that of the contract."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest
from inline_snapshot import snapshot

from otel_agentic.cli.errors import error_lines, was_interrupted
from otel_agentic.errors import CaseError, QueryError, StoreBusyError
from tests.cli.running import run
from tests.cli.small import conversation, write_cases, write_spans
from tests.snapshots import ending, opening, passage

if TYPE_CHECKING:
    from tests.cli.conftest import Shop


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-k", "0"), "k=0: each k must be a whole number of attempts, 1 or more"),
        (("-k", "a"), "-k 'a': give whole numbers such as 1,3,5"),
        (("-k", ""), "k is empty: give at least one whole number"),
        (
            ("--estimator", "guess"),
            "no estimators plug-in 'guess'; installed: bayesian, hierarchical, per_case, plugin, unbiased",
        ),
        (("--by", "mood"), "cannot group by 'mood'; allowed: agent, version"),
        (("--window", "3x"), "window width '3x': give a whole number above 0 and a unit"),
        (
            ("--since", "yesterday"),
            "--since 'yesterday': give a time such as 2026-03-01T12:00:00Z, or an age such as 24h",
        ),
        (("--server", "http://127.0.0.1:1"), "give --db or --server, not both"),
        (("--format", "pdf"), "'pdf' is not one of 'table', 'json', 'markdown', 'html'"),
        (("--colour",), "No such option '--colour'"),
        (("--config", "none.toml"), "settings file none.toml: No such file or directory"),
    ],
)
def test_a_wrong_option_of_report_is_wrong_usage(shop: Shop, arguments: tuple[str, ...], message: str) -> None:
    ran = run("report", "--db", shop.db, *arguments)

    assert (2, "", 1) == (ran.code, ran.out, len(ran.lines))
    assert ran.err.startswith("otel-agentic: ")
    assert message in ran.err


def test_wrong_usage_says_where_help_is() -> None:
    ran = run("report", "--colour")

    assert ending(ran.err) == snapshot("; see `otel-agentic report --help`\n")
    assert run("reprot").err == snapshot(
        "otel-agentic: No such command 'reprot' (did you mean `otel-agentic report`?); see `otel-agentic --help`\n"
    )


def test_without_a_command_the_help_is_shown() -> None:
    for arguments in ((), ("tools",), ("conversations",)):
        ran = run(*arguments)
        assert (2, "") == (ran.code, ran.out)
        assert ran.err.startswith("Usage: otel-agentic")


def test_a_missing_database_is_a_store_error_that_says_how_one_is_made() -> None:
    ran = run("report", "--db", "none.duckdb")

    assert 4 == ran.code
    assert ran.err == snapshot(
        "otel-agentic: none.duckdb: no such DuckDB file; `otel-agentic ingest --db none.duckdb …` makes one\n"
    )


def test_a_file_that_is_no_database_is_a_store_error(tmp_path: Path) -> None:
    (tmp_path / "notes.duckdb").write_text("these are my notes, not a database\n" * 200, encoding="utf-8")
    ran = run("report", "--db", "notes.duckdb")

    assert (4, 1) == (ran.code, len(ran.lines))
    assert "notes.duckdb" in ran.err


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "nonsense", "http://no.such.host.invalid:8321"])
def test_a_server_that_does_not_answer_is_unreachable(url: str) -> None:
    ran = run("report", "--server", url)

    assert (5, 1) == (ran.code, len(ran.lines))
    assert passage(ran.err, url=url) == snapshot("no collector answers at <url>")


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("DROP TABLE spans", "DROP is not allowed"),
        ("SELECT *\nFROM nowhere", "nowhere"),
        ("SELECT * FROM '/etc/passwd'", "the query failed"),
        *(
            pytest.param(sql, message, marks=pytest.mark.slow)
            for sql, message in (
                ("SELECT 1; SELECT 2", "2 statements; give exactly one SELECT"),
                ("SELEC 1", "syntax error"),
                ("SELECT colour FROM spans", 'Referenced column "colour" not found'),
                ("SELECT getenv('HOME')", "getenv is not allowed"),
            )
        ),
    ],
)
def test_a_refused_query_is_bad_input_in_one_line(shop: Shop, sql: str, message: str) -> None:
    ran = run("query", sql, "--db", shop.db)

    assert (3, "", 1) == (ran.code, ran.out, len(ran.lines))
    assert message in ran.err
    assert "^" not in ran.err


def test_an_unknown_conversation_is_bad_input(shop: Shop) -> None:
    ran = run("conversations", "show", "c9", "--db", shop.db)

    assert (ran.code, ran.err) == snapshot(
        (3, "otel-agentic: no conversation 'c9'; `otel-agentic conversations list` shows them\n")
    )


def test_an_unreadable_file_of_cases_is_wrong_usage(shop: Shop, tmp_path: Path) -> None:
    missing = run("evaluate", "--db", shop.db, "--cases", "none.jsonl")
    assert (missing.code, missing.err) == snapshot(
        (2, "otel-agentic: cases file none.jsonl: No such file or directory; give a readable file\n")
    )
    assert 2 == run("evaluate", "--db", shop.db, "--cases", tmp_path).code


def test_a_file_of_cases_that_is_no_text_is_bad_input(shop: Shop, tmp_path: Path) -> None:
    (tmp_path / "latin.jsonl").write_bytes('{"case_id": "é"}'.encode("latin-1"))
    ran = run("evaluate", "--db", shop.db, "--cases", "latin.jsonl")

    assert 3 == ran.code
    assert passage(ran.err) == snapshot("latin.jsonl: byte 13 is not UTF-8; save it as UTF-8")


def test_each_problem_of_a_file_of_cases_has_its_line(tmp_path: Path) -> None:
    write_spans(tmp_path / "spans.jsonl", [conversation("c1")])
    assert 0 == run("ingest", "spans.jsonl", "--db", "t.duckdb").code
    (tmp_path / "cases.jsonl").write_text(
        '{"case_id": "a", "colour": 3}\n{"case_id": 5}\n\nnot JSON\n{"case_id": "b"}\n', encoding="utf-8"
    )
    for command in (
        ("evaluate", "--db", "t.duckdb", "--cases"),
        ("truth", "validate"),
        ("truth", "import", "--db", "t.duckdb"),
    ):
        ran = run(*command, "cases.jsonl")

        assert 3 == ran.code, command
        unknown, invalid, no_json = ran.lines
        assert opening(unknown) == snapshot(
            "otel-agentic: cases.jsonl:1: colour: unknown field, found 3; allowed: agent, "
        )
        assert invalid == snapshot("otel-agentic: cases.jsonl:2: case_id: found 5; allowed: a text")
        assert opening(no_json) == snapshot("otel-agentic: cases.jsonl:4: not JSON")
    assert [] == json.loads(run("truth", "list", "--db", "t.duckdb", "--format", "json").out), "nothing was imported"


def test_a_conversation_that_is_labelled_twice_is_reported_with_both_lines(shop: Shop, tmp_path: Path) -> None:
    (tmp_path / "labels.csv").write_text("conversation_id,verdict\nc1,pass\nc1,fail\nc2,maybe\n", encoding="utf-8")
    ran = run("evaluate", "--db", shop.db, "--labels", "labels.csv")

    assert 3 == ran.code
    assert ran.lines == snapshot(
        [
            "otel-agentic: labels.csv:3:conversation_id: 'c1' is labelled differently on line 2; keep one of them",
            "otel-agentic: labels.csv:4:verdict: found 'maybe'; allowed: pass, true, 1, fail, false, 0, or empty",
        ]
    )


def test_a_duplicate_case_is_reported(tmp_path: Path) -> None:
    write_cases(tmp_path / "cases.jsonl", [{"case_id": "a"}, {"case_id": "a", "tags": ["regression"]}])
    ran = run("truth", "validate", "cases.jsonl")

    assert 3 == ran.code
    assert "cases.jsonl:2" in ran.err


def test_nothing_to_import_is_wrong_usage(shop: Shop) -> None:
    assert 2 == run("truth", "import", "--db", shop.db).code


@pytest.mark.parametrize("arguments", [("--debug", "report"), ("report", "--debug")])
def test_debug_shows_the_traceback_wherever_it_stands(arguments: tuple[str, str]) -> None:
    ran = run(*arguments, "--db", "none.duckdb")

    assert 4 == ran.code
    assert opening(ran.err) == snapshot("Traceback (most recent call last):")
    assert "StoreUnusableError: none.duckdb" in ran.err


def test_an_unforeseen_error_does_not_look_like_a_failed_gate() -> None:
    (line,) = error_lines(ZeroDivisionError("division by zero"))

    assert opening(line) == snapshot(
        "unexpected ZeroDivisionError: division by zero; run with --debug for the traceback"
    )


def test_an_error_is_one_line_unless_it_tells_several_problems() -> None:
    assert ["a b"] == error_lines(StoreBusyError("a\n  b"))
    assert ["a: 1", "b: 2"] == error_lines(CaseError("a: 1\nb: 2\n"))
    assert error_lines(QueryError("the query failed: no x\n\nLINE 2: SELECT x\n         ^")) == snapshot(
        ["the query failed: no x (line 2)"]
    )
    assert ["Bad thing"] == error_lines(click.ClickException("Bad\nthing."))


def test_an_error_does_not_steer_the_terminal() -> None:
    assert ["spans.jsonl:1: \ufffd[2Jgone"] == error_lines(CaseError("spans.jsonl:1: \x1b[2Jgone"))


def test_ctrl_c_in_duckdb_is_ctrl_c() -> None:
    assert was_interrupted(RuntimeError("Query interrupted"))
    assert not was_interrupted(RuntimeError("another thing"))
