"""`otel-agentic backfill` as people type it."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from inline_snapshot import snapshot

from otel_agentic.cli.progress import progress_bar
from tests.cli.running import Terminal, done, on_terminal, run, run_process
from tests.cli.small import NOON_NS, conversation, write_cases, write_spans
from tests.pipeline.running import live_settings, running
from tests.snapshots import passage

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HOUR_NS = 3_600 * 10**9
WINDOWS = ("--window", "6h", "--step", "1h", "-k", "1,3")
ROWS = ("query", 'SELECT * FROM windows ORDER BY "end", "window", k, estimator', "--format", "json")


@pytest.fixture
def spans(tmp_path: Path) -> Path:
    """A file of four conversations, one in three hours, the last one wrong."""
    made = [
        conversation(
            f"c-{number}",
            answer="Never." if number == 3 else "It arrives on Monday.",
            start_ns=NOON_NS + number * 3 * HOUR_NS,
        )
        for number in range(4)
    ]
    return write_spans(tmp_path / "spans.jsonl", made)


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
    found: dict[str, Any] = done("backfill", "--db", db, *WINDOWS, *arguments, "--format", "json").json
    return found


def test_files_come_out_as_windows_in_one_command(db: Path, spans: Path, cases: Path) -> None:
    told = backfilled(db, spans, "--cases", cases)

    assert {"stored": 4, "duplicate": 0, "rejected": 0, "ignored": 0} == told["ingested"]["spans"]
    assert {"pass": 3, "fail": 1} == told["scoring"]["outcomes"]
    assert told["windows"]["rows_changed"] == len(done(*ROWS, "--db", db).json) > 0


def test_the_same_command_again_reads_duplicates_and_changes_nothing(db: Path, spans: Path, cases: Path) -> None:
    backfilled(db, spans, "--cases", cases)
    before = done(*ROWS, "--db", db).json
    told = backfilled(db, spans, "--cases", cases)

    assert (4, 0, 0) == (
        told["ingested"]["spans"]["duplicate"],
        told["scoring"]["to_score"],
        told["windows"]["rows_changed"],
    )
    assert before == done(*ROWS, "--db", db).json


def test_it_is_told_what_was_done_in_lines_that_fit_a_terminal(db: Path, spans: Path, cases: Path) -> None:
    lines = on_terminal(80, "backfill", "--db", db, *WINDOWS, spans, "--cases", cases)

    assert all(len(line) <= 80 for line in lines)
    told = " ".join(lines)
    assert passage(told) == snapshot("4 conversations scored: 1 fail, 3 pass")
    assert passage(told) == snapshot(
        "10 window ends, 2026-03-02 13:00 to 2026-03-02 22:00 UTC, every 1h; windows 6h; k 1, 3"
    )
    assert passage(told) == snapshot("rows of the table windows new or restated")
    again = " ".join(on_terminal(80, "backfill", "--db", db, *WINDOWS))
    assert passage(again) == snapshot("every conversation in these windows has a score already")
    assert passage(again) == snapshot("no row of the table windows is new or differs")


def test_ends_are_counted_from_since(db: Path, spans: Path) -> None:
    told = backfilled(db, spans, "--since", "2026-03-02T12:30:00Z", "--until", "2026-03-02T15:00:00Z")

    found = {name: told["windows"][name] for name in ("ends", "first_end", "last_end")}
    assert {"ends": 3, "first_end": "2026-03-02T12:30:00Z", "last_end": "2026-03-02T14:30:00Z"} == found


def test_an_age_begins_at_a_whole_step(db: Path, spans: Path) -> None:
    told = backfilled(db, spans, "--since", "2h")

    assert told["windows"]["first_end"].endswith(":00:00Z")
    assert 3 == told["windows"]["ends"] or 1 == told["windows"]["ends"]


def test_a_dry_run_of_files_makes_no_store_and_tells_what_would_be_done(db: Path, spans: Path, cases: Path) -> None:
    told = done("backfill", "--db", db, *WINDOWS, spans, "--cases", cases, "--dry-run").out

    assert not db.exists()
    assert passage(told) == snapshot("dry run: nothing is scored, computed, sent or written")
    assert passage(told) == snapshot("4 to score, 0 scored already")
    assert passage(told) == snapshot("judge exact: asks no model, costs nothing")


def test_a_dry_run_of_files_knows_what_the_store_has_and_leaves_it_as_it_is(db: Path, spans: Path, cases: Path) -> None:
    backfilled(db, spans, "--cases", cases)
    before = db.read_bytes()
    more = write_spans(spans.with_name("more.jsonl"), [conversation("new", start_ns=NOON_NS)])

    told = backfilled(db, spans, more, "--dry-run")

    assert before == db.read_bytes()
    assert (1, 4) == (told["ingested"]["spans"]["stored"], told["ingested"]["spans"]["duplicate"])
    assert {"in_windows": 5, "to_score": 1, "left_out_by_sampling": 0} == told["conversations"]


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
    told = run_process(
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

    assert 0 == told.code, told.err
    assert [] == told.json["problems"]
    wanted, found = (done(*ROWS, "--db", file).json for file in (db, other))
    assert [{**row, "computed_at": None} for row in wanted] == [{**row, "computed_at": None} for row in found]


def test_an_openmetrics_file_is_written_whole(db: Path, spans: Path, tmp_path: Path) -> None:
    out = tmp_path / "history.txt"
    told = done("backfill", "--db", db, *WINDOWS, spans, "--emit", "openmetrics", "--out", out, "--label", "job=j").out

    assert ',job="j"}' in out.read_text("utf-8")
    assert out.read_text("utf-8").endswith("# EOF\n")
    assert f"points written to {out}" in told.replace("\n", " ")
    assert {"spans.jsonl", "history.txt", "t.duckdb"} == {path.name for path in tmp_path.iterdir()}


def test_a_file_that_cannot_be_read_is_told_and_the_rest_is_backfilled(db: Path, spans: Path) -> None:
    spans.write_text(spans.read_text("utf-8") + "{\n", encoding="utf-8")
    ran = run("backfill", "--db", db, *WINDOWS, spans)

    assert 3 == ran.code
    assert "spans.jsonl:5" in ran.err
    assert "4 conversations scored" in ran.out


def test_without_a_file_the_metrics_go_to_standard_output_and_what_was_done_to_standard_error(
    ingested: Path, tmp_path: Path
) -> None:
    out = tmp_path / "history.txt"
    done("backfill", "--db", ingested, "--step", "1h", "--emit", "openmetrics", "--out", out)
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
        (("--emit", "openmetrics", "--format", "json"), 2, "both go to standard output; name a file with --out FILE"),
        (("--out", "x.txt"), 2, "--out FILE is for --emit openmetrics"),
        (("--emit", "openmetrics", "--out", "none/x.txt"), 2, "does not exist"),
        (("--emit", "openmetrics", "--out", "x" * 250), 3, "cannot be written: File name too long"),
        (("--label", "job=x"), 2, "--label NAME=VALUE is for --emit openmetrics"),
        (("--emit", "openmetrics", "--out", "x.txt", "--label", "job"), 2, "--label job: give NAME=VALUE"),
        (("--emit", "openmetrics", "--out", "x.txt", "--label", "a=1", "--label", "a=2"), 2, "a is given twice"),
        (("--emit", "otlp"), 2, "--emit otlp: pass --endpoint"),
        (("--endpoint", "http://127.0.0.1:1"), 2, "--endpoint URL is for --emit otlp"),
        (("--emit", "otlp", "--endpoint", "nowhere"), 2, "nowhere"),
        (("--workers", "2"), 2, "--workers N is for --executor local"),
        (("missing.jsonl",), 3, "missing.jsonl: no such file"),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, tuple) else "",
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
    told = done("backfill", "--db", db, empty).out

    assert passage(told) == snapshot("no conversation is closed: there is nothing to backfill")


def test_files_are_not_read_into_a_store_that_a_collector_holds(db: Path, spans: Path) -> None:
    with running(live_settings(db)) as (_, found):
        ran = run("backfill", "--db", db, spans)
        assert 4 == ran.code
        assert passage(ran.err, http=found.http) == snapshot("send the spans to it (<http>) and backfill without PATHS")
        ran = run("backfill", "--server", found.admin, spans)
        assert 2 == ran.code
        assert passage(ran.err) == snapshot("PATHS are read into a file that this process opens")


def test_a_terminal_is_shown_how_far_and_how_fast_each_stage_is(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = Terminal()
    monkeypatch.setattr("sys.stderr", shown)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm")
    with progress_bar(quiet=False) as step:
        for number in range(4):
            step("windows", number, 3)

    assert "windows" in shown.getvalue()
    assert "3/3" in shown.getvalue()
    assert "ends/s" in shown.getvalue()


def test_a_pipe_is_shown_no_progress(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bar(quiet=False) as step:
        step("windows", 1, 2)

    assert "" == capsys.readouterr().err
