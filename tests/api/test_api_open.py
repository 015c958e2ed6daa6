"""`otel_agentic.open`: the results of the command line as typed rows, in text, HTML and data frames."""

from __future__ import annotations

import gc
import io
import pydoc
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from inline_snapshot import snapshot

import otel_agentic
from collectors import AgenticSpanProcessor
from otel_agentic.api import stores
from otel_agentic.errors import OtelAgenticError, StoreBusyError, UsageError
from otel_agentic.testing import NOON_NS, AgentRunScript, scripted_call, speak_genai
from tests.builders import CASE
from tests.cli.running import done
from tests.snapshots import raises

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def db(tmp_path: Path) -> Path:
    """Return a store with a right conversation, and one with a wrong parameter and a hostile answer."""
    path = tmp_path / "agents.duckdb"
    cases = tmp_path / "cases.jsonl"
    cases.write_text(CASE)
    with otel_agentic.open(path, create=True) as store:
        for name, searched in (("right", "hotels"), ("<b>wrong</b>", "hostels")):
            script = AgentRunScript(conversation_id=name).ask("Which hotel?")
            script = script.calls(scripted_call("search", {"q": searched}, result=["Ritz"])).answers("The Ritz.")
            store.sink.accept(speak_genai(script, start_ns=NOON_NS))
        assert store.rebuild() == 2
        assert store.evaluate(cases=[cases]) == {"pass": 1, "fail": 1}
    return path


def test_the_results_are_those_of_the_command_line(db: Path) -> None:
    (group,) = done("report", "--db", db, "--format", "json").json["groups"]
    with otel_agentic.open(db) as store:
        report = store.report()
        assert (report.groups[0].n, report.groups[0].c, report.groups[0].tier) == (
            group["n"],
            group["c"],
            group["tier"],
        )
        assert [row.outcome for row in store.conversations(outcome="fail")] == ["fail"]
        assert [(row.tool, row.parameter, row.expected, row.actual) for row in store.failing_tools()] == [
            ("search", "q", "hotels", "hostels")
        ]
        assert [row.title for row in store.failures()] == snapshot(["search was given a wrong q"])
        assert store.query("SELECT 1 AS a, 'x' AS b")[0] == (1, "x")
        assert store.conversation("right").conversation.turns[0].answer == "The Ritz."


def test_rows_are_tables_in_text_html_and_pandas(db: Path) -> None:
    with otel_agentic.open(db) as store:
        conversations, report = store.conversations(), store.report(k=[1, 3])

    assert repr(conversations).splitlines()[0].split()[0] == "conversation_id"
    assert "&lt;b&gt;wrong&lt;/b&gt;" in conversations._repr_html_()
    assert "<b>" not in conversations._repr_html_()
    frame = conversations.to_pandas()
    assert str(frame["ended_at"].dtype).startswith("datetime64[")
    assert list(report.to_pandas()["pass^3_lower"]) == [report.groups[0].pooled.pass_pow_k["3"].lower]
    assert "pass^3" in repr(report)


def test_times_are_datetimes_text_or_ages(db: Path) -> None:
    noon = datetime.fromtimestamp(NOON_NS / 1e9, UTC)
    with otel_agentic.open(db) as store:
        for since, count in ((noon, 2), (noon + timedelta(days=1), 0), ((noon - timedelta(days=1)).isoformat(), 2)):
            assert len(store.conversations(since=since)) == count
        with raises(
            UsageError, snapshot("since 'soon': give a time such as 2026-03-01T12:00:00Z, or an age such as 24h")
        ):
            store.conversations(since="soon")


def test_a_store_rows_and_frames_are_evaluated(db: Path) -> None:
    pandas = pytest.importorskip("pandas")
    rows = [
        {"input": "Where?", "output": "On Monday.", "expected": "Monday"},
        {"input": "When?", "output": "At noon.", "expected": "Monday"},
    ]

    for conversations in (db, str(db), rows, pandas.DataFrame(rows)):
        table = otel_agentic.evaluate(conversations).table()
        assert sorted(row["outcome"] for row in table) == ["fail", "pass"]


def test_a_store_closes_with_its_last_reference(db: Path) -> None:
    first = otel_agentic.open(db).report().details.groups
    second = otel_agentic.open(db).report().details.groups
    assert first == second

    script = f"import otel_agentic; store = otel_agentic.open({str(db)!r}); print(len(store.conversations()))"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, text=True)
    assert (ran.stdout, ran.stderr) == ("2\n", "")


def test_a_sink_keeps_its_store_open(tmp_path: Path) -> None:
    sink = otel_agentic.open(tmp_path / "new.duckdb", create=True).sink
    gc.collect()

    sink.accept(speak_genai(AgentRunScript(conversation_id="c").ask("Which hotel?").answers("The Ritz.")))
    with pytest.raises(StoreBusyError):
        otel_agentic.open(tmp_path / "new.duckdb").report()
    for store in list(stores._SINKS):
        store.close()


def test_a_missing_store_and_a_file_as_a_sink_name_the_way(tmp_path: Path) -> None:
    with raises(UsageError, snapshot("no such store; give an existing file, or create=True")):
        otel_agentic.open(tmp_path / "missing.duckdb")
    with raises(UsageError, snapshot("a DuckDB file has `otel_agentic.open('agents.duckdb', create=True).sink`")):
        AgenticSpanProcessor("agents.duckdb")  # type: ignore[arg-type]  # that is the point
    with raises(UsageError, snapshot("open: give a file or a server, not both")):
        otel_agentic.open("a.duckdb", server="http://127.0.0.1:1")
    assert issubclass(UsageError, OtelAgenticError)


def test_completion_and_help_list_the_public_names() -> None:
    assert dir(otel_agentic) == otel_agentic.__all__
    text = io.StringIO()
    pydoc.Helper(output=text)(otel_agentic)
    for name in ("evaluate(", "open(", "class Case"):
        assert name in text.getvalue()


def test_progress_is_reported_to_a_function(db: Path) -> None:
    steps: list[tuple[int, int]] = []

    otel_agentic.evaluate(db, progress=lambda finished, total: steps.append((finished, total)))

    assert steps[-1] == (2, 2)
