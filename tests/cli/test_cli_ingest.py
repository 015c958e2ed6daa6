"""`otel-agentic ingest`: unreadable parts are reported, and the rest is stored."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from inline_snapshot import snapshot

from otel_agentic.testing import batch, span
from tests.cli.running import COMMAND, done, environment, run
from tests.cli.small import conversation, write_spans
from tests.conversations.wire import json_of, requests_of
from tests.snapshots import opening, passage

_SPANS = [conversation(name) for name in ("c1", "c2", "c3")]
_NOTHING_STORED = {"stored": 0, "duplicate": 0, "rejected": 0, "ignored": 0}


#: What `@observe()` of Langfuse writes for a helper that asks no model.
HELPER = span("helper", scope="langfuse-sdk", attributes={"langfuse.observation.type": "span", "session.id": "s1"})


def broken(folder: Path) -> Path:
    """Write three conversations with two lines between them that are not OTLP."""
    first, second, third = (json.dumps(item) for item in _SPANS)
    path = folder / "broken.jsonl"
    path.write_text(f'{first}\n{{"resourceSpans": [\n{second}\nnonsense\n{third}\n', encoding="utf-8")
    return path


def test_malformed_lines_are_reported_with_file_and_line_and_the_rest_is_stored(tmp_path: Path) -> None:
    ran = run("ingest", broken(tmp_path), "--db", "t.duckdb", "--format", "json")

    assert 3 == ran.code
    first, second = ran.lines
    assert first.startswith("otel-agentic: ")
    assert "broken.jsonl:2: " in first
    assert "broken.jsonl:4: " in second
    assert {"stored": 3, "duplicate": 0, "rejected": 2, "ignored": 0} == ran.json["spans"]
    assert {"malformed line": 2} == ran.json["reasons"]
    assert (3, 3, 0) == (ran.json["conversations"], ran.json["turns"], ran.json["tool_calls"])
    assert 2 == len(ran.json["problems"])


def test_the_summary_is_printed_before_the_problems(tmp_path: Path) -> None:
    ran = run("ingest", broken(tmp_path), "--db", "t.duckdb")

    assert opening(ran.out) == snapshot(
        "3 spans and log records stored, 0 duplicate, 2 rejected, 0 ignored\n  2 x malformed line"
    )
    assert passage(ran.out) == snapshot("Content captured in the store")
    assert "shop     genai" in ran.out


def test_quiet_prints_errors_only(tmp_path: Path) -> None:
    ran = run("ingest", broken(tmp_path), "--db", "t.duckdb", "--quiet")

    assert (3, "", 2) == (ran.code, ran.out, len(ran.lines))


def test_a_missing_path_is_bad_input_and_makes_no_database(tmp_path: Path) -> None:
    ran = run("ingest", write_spans(tmp_path / "spans.jsonl", _SPANS), "nowhere.jsonl", "no.gz", "--db", "t.duckdb")

    assert 3 == ran.code
    first, second = ran.lines
    assert first == snapshot(
        "otel-agentic: nowhere.jsonl: no such file; give an existing file, a directory, or - for standard input"
    )
    assert opening(second) == snapshot("otel-agentic: no.gz: ")
    assert not (tmp_path / "t.duckdb").exists()


def test_directories_and_compressed_files_are_read(tmp_path: Path) -> None:
    folder = tmp_path / "exports"
    folder.mkdir()
    write_spans(folder / "a.jsonl", _SPANS[:1])
    write_spans(folder / "b.jsonl.gz", _SPANS[1:])

    assert 3 == done("ingest", folder, "--db", "t.duckdb", "--format", "json").json["spans"]["stored"]


def test_standard_input_is_read(tmp_path: Path) -> None:
    text = write_spans(tmp_path / "spans.jsonl", _SPANS).read_bytes()
    ran = subprocess.run(
        [*COMMAND, "ingest", "-", "--db", "t.duckdb", "--format", "json"],
        input=text,
        capture_output=True,
        check=True,
        env=environment(),
    )

    assert 3 == json.loads(ran.stdout)["spans"]["stored"]


def test_reading_a_file_twice_changes_nothing_and_says_so(tmp_path: Path) -> None:
    path = write_spans(tmp_path / "spans.jsonl", _SPANS)
    done("ingest", path, "--db", "t.duckdb")
    again = done("ingest", path, "--db", "t.duckdb").out

    assert opening(again) == snapshot(
        "0 spans and log records stored, 3 duplicate, 0 rejected, 0 ignored\nno conversations new"
    )


def test_late_spans_make_a_new_revision_and_the_summary_counts_it(tmp_path: Path) -> None:
    early = conversation("c1", calls=[("look_up", {"order": "A1"}, "ok")])
    late = conversation("c1", calls=[("look_up", {"order": "A1"}, "ok"), ("refund", {"order": "A1"}, "ok")])
    done("ingest", write_spans(tmp_path / "early.jsonl", [early]), "--db", "t.duckdb")
    output = done("ingest", write_spans(tmp_path / "late.jsonl", [late]), "--db", "t.duckdb").out

    assert passage(output) == snapshot("1 conversation new or changed (1 new revision): 1 turn, 2 tool calls")


def test_an_empty_file_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").touch()

    assert _NOTHING_STORED == done("ingest", "empty.jsonl", "--db", "t.duckdb", "--format", "json").json["spans"]


def test_a_conversation_without_turns_is_stored_shown_and_counted_under_its_own_reason(tmp_path: Path) -> None:
    helper = json_of(requests_of(batch(HELPER))[0]).decode()
    spans, db = tmp_path / "helper.jsonl", tmp_path / "t.duckdb"
    spans.write_text(f"{helper}\n")

    summary = done("ingest", spans, "--db", db, "--format", "json").json
    assert (1, 0, []) == (summary["conversations"], summary["turns"], summary["problems"])
    (listed,) = done("conversations", "list", "--db", db, "--format", "json").json
    assert ("s1", 0, None) == (listed["conversation_id"], listed["turn_count"], listed["agent"])
    assert "conversation s1" in done("conversations", "show", "s1", "--db", db).out
    assert [] == json.loads(done("conversations", "export", "--db", db).out)["turns"]
    assert {"empty": 1} == done("evaluate", "--db", db, "--format", "json").json["reasons"]
    (group,) = done("report", "--db", db, "--format", "json").json["groups"]
    assert (0, {"empty": 1}) == (group["n"], group["not_evaluated"])
    (trace,) = done("doctor", spans, "--format", "json").json["traces"]
    assert [([], None)] == [(item["turns"], item["goes_on_with"]) for item in trace["conversations"]]
    assert "turn 1" not in done("doctor", spans).out
