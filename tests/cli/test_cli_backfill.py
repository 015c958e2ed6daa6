"""`otel-agentic backfill` as people type it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from otel_agentic.cli.progress import progress_bar
from tests.cli.running import Terminal, done, on_terminal, run, run_process
from tests.cli.small import NOON_NS, conversation, write_cases, write_spans
from tests.live.running_collector import live_settings, running
from tests.snapshots import passage

HOUR_NS = 3_600 * 10**9
WINDOWS = ("--window", "6h", "--step", "1h", "-k", "1,3")
ROWS = ("query", 'SELECT * FROM windows ORDER BY "end", "window", k, estimator', "--format", "json")


@pytest.fixture
def spans(tmp_path: Path) -> Path:
    """A file of four conversations, one in three hours, the last one wrong."""
    conversations = [
        conversation(
            f"c-{number}",
            answer="Never." if number == 3 else "It arrives on Monday.",
            start_ns=NOON_NS + number * 3 * HOUR_NS,
        )
        for number in range(4)
    ]
    return write_spans(tmp_path / "spans.jsonl", conversations)


@pytest.fixture(scope="module")
def ingested(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a conversation. Leave it as it is."""
    folder = tmp_path_factory.mktemp("ingested")
    done("ingest", "--db", folder / "t.duckdb", write_spans(folder / "spans.jsonl", [conversation("c")]))
    return folder / "t.duckdb"


@pytest.fixture
def cases(tmp_path: Path) -> Path:
    turn = {"query": "Where is my order?", "answer": "It arrives on Monday."}
    return write_cases(tmp_path / "cases.jsonl", [{"case_id": "order", "turns": [turn]}])


@pytest.fixture
def db(tmp_path: Path) -> Path:
    return tmp_path / "t.duckdb"


def backfilled(db: Path, *arguments: str | Path) -> dict[str, Any]:
    result: dict[str, Any] = done("backfill", "--db", db, *WINDOWS, *arguments, "--format", "json").json
    return result


def test_files_come_out_as_windows_in_one_command(db: Path, spans: Path, cases: Path) -> None:
    ran = backfilled(db, spans, "--cases", cases)

    assert {"stored": 4, "duplicate": 0, "rejected": 0, "ignored": 0} == ran["ingested"]["spans"]
    assert {"pass": 3, "fail": 1} == ran["scoring"]["outcomes"]
    assert ran["windows"]["rows_changed"] == len(done(*ROWS, "--db", db).json) > 0


@pytest.mark.slow  # as a function: tests/backfill/test_backfill_run.py
def test_the_same_command_again_reads_duplicates_and_changes_nothing(db: Path, spans: Path, cases: Path) -> None:
    backfilled(db, spans, "--cases", cases)
    before = done(*ROWS, "--db", db).json
    ran = backfilled(db, spans, "--cases", cases)

    assert (4, 0, 0) == (
        ran["ingested"]["spans"]["duplicate"],
        ran["scoring"]["to_score"],
        ran["windows"]["rows_changed"],
    )
    assert before == done(*ROWS, "--db", db).json


def test_the_result_is_printed_in_lines_that_fit_a_terminal(db: Path, spans: Path, cases: Path) -> None:
    lines = on_terminal(80, "backfill", "--db", db, *WINDOWS, spans, "--cases", cases)

    assert all(len(line) <= 80 for line in lines)
    output = " ".join(lines)
    assert passage(output) == snapshot("4 conversations scored: 1 fail, 3 pass")
    assert passage(output) == snapshot(
        "10 window ends, 2026-03-02 13:00 to 2026-03-02 22:00 UTC, every 1h; windows 6h; k 1, 3"
    )
    assert passage(output) == snapshot("rows of table windows added or updated")
    again = " ".join(on_terminal(80, "backfill", "--db", db, *WINDOWS))
    assert passage(again) == snapshot("all conversations in these windows are already scored")
    assert passage(again) == snapshot("no rows of table windows changed")


def test_ends_are_counted_from_since(db: Path, spans: Path) -> None:
    ran = backfilled(db, spans, "--since", "2026-03-02T12:30:00Z", "--until", "2026-03-02T15:00:00Z")

    result = {name: ran["windows"][name] for name in ("ends", "first_end", "last_end")}
    assert {"ends": 3, "first_end": "2026-03-02T12:30:00Z", "last_end": "2026-03-02T14:30:00Z"} == result


def test_an_age_begins_at_a_whole_step(db: Path, spans: Path) -> None:
    ran = backfilled(db, spans, "--since", "2h")

    assert ran["windows"]["first_end"].endswith(":00:00Z")
    assert 3 == ran["windows"]["ends"] or 1 == ran["windows"]["ends"]


def test_a_dry_run_of_files_makes_no_store_and_tells_what_would_be_done(db: Path, spans: Path, cases: Path) -> None:
    output = done("backfill", "--db", db, *WINDOWS, spans, "--cases", cases, "--dry-run").out

    assert not db.exists()
    assert passage(output) == snapshot("dry run: nothing is scored, computed, sent or written")
    assert passage(output) == snapshot("4 to score, 0 already scored")
    assert passage(output) == snapshot("judge exact: calls no model, no cost")


def test_a_dry_run_of_files_knows_what_the_store_has_and_leaves_it_as_it_is(db: Path, spans: Path, cases: Path) -> None:
    backfilled(db, spans, "--cases", cases)
    before = db.read_bytes()
    more = write_spans(spans.with_name("more.jsonl"), [conversation("new", start_ns=NOON_NS)])

    ran = backfilled(db, spans, more, "--dry-run")

    assert before == db.read_bytes()
    assert (1, 4) == (ran["ingested"]["spans"]["stored"], ran["ingested"]["spans"]["duplicate"])
    assert {"in_windows": 5, "to_score": 1, "left_out_by_sampling": 0} == ran["conversations"]


def test_a_dry_run_of_files_does_not_copy_what_another_process_writes_to(ingested: Path, spans: Path) -> None:
    with process_that_holds(ingested) as holder:
        ran = run("backfill", "--db", ingested, spans, "--dry-run")

    assert 4 == ran.code
    assert passage(ran.err, holder=holder) == snapshot("is held by process <holder>")


@contextmanager
def process_that_holds(db: Path) -> Iterator[int]:
    """Run a process that has a file open for writing; gives its id."""
    script = "import duckdb, sys; con = duckdb.connect(sys.argv[1]); print(flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", script, str(db)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process.pid
        assert process.stdin is not None
        process.stdin.close()


@pytest.mark.slow
def test_workers_come_to_the_same_rows(db: Path, spans: Path, cases: Path) -> None:
    other = db.with_name("other.duckdb")
    ran = run_process(
        "backfill",
        "--db",
        other,
        *WINDOWS,
        spans,
        "--cases",
        cases,
        "--executor",
        "local",
        "--workers",
        "2",
        "--format",
        "json",
    )
    backfilled(db, spans, "--cases", cases)

    assert 0 == ran.code, ran.err
    assert [] == ran.json["problems"]
    expected, result = (done(*ROWS, "--db", file).json for file in (db, other))
    assert [{**row, "computed_at": None} for row in expected] == [{**row, "computed_at": None} for row in result]


def test_an_openmetrics_file_is_written_whole(db: Path, spans: Path, tmp_path: Path) -> None:
    out = tmp_path / "history.txt"
    output = done(
        "backfill", "--db", db, *WINDOWS, spans, "--emit", "openmetrics", "--output", out, "--label", "job=j"
    ).out

    assert ',job="j"}' in out.read_text("utf-8")
    assert out.read_text("utf-8").endswith("# EOF\n")
    assert f"points written to {out}" in output.replace("\n", " ")
    assert {"spans.jsonl", "history.txt", "t.duckdb"} == {path.name for path in tmp_path.iterdir()}


def test_an_unreadable_file_is_reported_and_the_rest_is_backfilled(db: Path, spans: Path) -> None:
    spans.write_text(spans.read_text("utf-8") + "{\n", encoding="utf-8")
    ran = run("backfill", "--db", db, *WINDOWS, spans)

    assert 3 == ran.code
    assert "spans.jsonl:5" in ran.err
    assert "4 conversations scored" in ran.out


def test_without_a_file_the_metrics_go_to_standard_output_and_what_was_done_to_standard_error(
    ingested: Path, tmp_path: Path
) -> None:
    out = tmp_path / "history.txt"
    done("backfill", "--db", ingested, "--step", "1h", "--emit", "openmetrics", "--output", out)
    ran = run("backfill", "--db", ingested, "--step", "1h", "--emit", "openmetrics")

    assert (0, out.read_text()) == (ran.code, ran.out)
    assert passage(ran.err) == snapshot("points written to standard output")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (
            ("--since", "2026-03-03", "--until", "2026-03-02"),
            2,
            "--until 2026-03-02T00:00:00Z is before --since 2026-03-03",
        ),
        (("--step", "0h"), 2, "--step '0h': give a time above 0, such as 5m, 1h, 24h"),
        (("--step", "soon"), 2, "--step 'soon': give a time above 0"),
        (("--window", "1x"), 2, "1x"),
        (("-k", "0"), 2, "k=0"),
        (("--since", "2100-01-01"), 2, "--since 2100-01-01T00:00:00Z is in the future"),
        (
            ("--emit", "openmetrics", "--format", "json"),
            2,
            "both go to standard output; name a file with --output FILE",
        ),
        (("--output", "x.txt"), 2, "--output FILE is for --emit openmetrics"),
        (("--emit", "openmetrics", "--output", "none/x.txt"), 2, "does not exist"),
        (("--emit", "openmetrics", "--output", "x" * 250), 3, "cannot be written: File name too long"),
        (("--label", "job=x"), 2, "--label NAME=VALUE is for --emit openmetrics"),
        (("--emit", "openmetrics", "--output", "x.txt", "--label", "job"), 2, "--label job: give NAME=VALUE"),
        (("--emit", "openmetrics", "--output", "x.txt", "--label", "a=1", "--label", "a=2"), 2, "a is given twice"),
        (("--emit", "otlp"), 2, "--emit otlp: pass --endpoint"),
        (("--endpoint", "http://127.0.0.1:1"), 2, "--endpoint URL is for --emit otlp"),
        (("--emit", "otlp", "--endpoint", "nowhere"), 2, "nowhere"),
        (("--workers", "2"), 2, "--workers N is for --executor local"),
        (("missing.jsonl",), 3, "missing.jsonl: no such file"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_makes_no_sense_is_refused_in_one_line(
    ingested: Path, arguments: tuple[str, ...], code: int, message: str
) -> None:
    ran = run("backfill", "--db", ingested, *arguments)

    assert code == ran.code
    (line,) = ran.lines
    assert message in line


def test_a_store_that_is_not_there_is_named(db: Path) -> None:
    ran = run("backfill", "--db", db)

    assert (4, False) == (ran.code, db.exists())
    assert passage(ran.err) == snapshot("no such DuckDB file")


def test_a_store_without_a_conversation_is_no_failure(db: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty.jsonl"
    empty.write_text("")
    output = done("backfill", "--db", db, empty).out

    assert passage(output) == snapshot("nothing to backfill: no closed conversations")


def test_files_are_not_read_into_a_store_that_a_collector_holds(db: Path, spans: Path) -> None:
    with running(live_settings(db)) as (_, addresses):
        ran = run("backfill", "--db", db, spans)
        assert 4 == ran.code
        assert passage(ran.err, http=addresses.http) == snapshot(
            "send the spans to it (<http>) and run backfill without PATHS"
        )
        ran = run("backfill", "--server", addresses.admin, spans)
        assert 2 == ran.code
        assert passage(ran.err) == snapshot("PATHS can only be read into a local store")


def test_a_terminal_is_shown_how_far_and_how_fast_each_stage_is(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm")
    with progress_bar(quiet=False) as step:
        for number in range(4):
            step("windows", number, 3)

    assert "windows" in terminal.getvalue()
    assert "3/3" in terminal.getvalue()
    assert "ends/s" in terminal.getvalue()


def test_a_pipe_is_shown_no_progress(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bar(quiet=False) as step:
        step("windows", 1, 2)

    assert "" == capsys.readouterr().err
