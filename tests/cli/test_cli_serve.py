"""`otel-agentic serve`, and every other command while it runs: the real exporter sends, the same `--db` asks."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
from inline_snapshot import snapshot
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcSpanExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter

from tests.cli.running import COMMAND, done, environment, run, wait_until
from tests.cli.small import conversation, write_cases, write_spans
from tests.snapshots import ending, exactly, opening, passage

_FREE: Final = "127.0.0.1:0"
_LISTEN: Final = ("--grpc", _FREE, "--http", _FREE, "--admin", _FREE)
_IMPATIENCE: Final = {
    "OTEL_AGENTIC_CONVERSATIONS__TURN_IDLE_S": "0.2",
    "OTEL_AGENTIC_CONVERSATIONS__IDLE_S": "0.4",
    "OTEL_AGENTIC_CONVERSATIONS__IDLE_WITHOUT_ID_S": "0.4",
}
_CASE: Final = {"case_id": "where", "turns": [{"query": "Where is my order?", "answer": "It arrives on Monday."}]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Live:
    """A collector that runs, and where it listens."""

    process: subprocess.Popen[str]
    db: Path
    admin: str
    http: str
    grpc: str


@contextmanager
def serving(folder: Path, *options: str) -> Iterator[Live]:
    """Run `otel-agentic serve` on free ports until the block ends."""
    db = folder / "live.duckdb"
    process = subprocess.Popen(
        [*COMMAND, "serve", "--db", str(db), *_LISTEN, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(_IMPATIENCE),
        text=True,
    )
    with process:
        server_file = folder / "live.duckdb.server.json"
        try:
            wait_until(lambda: server_file.exists() or process.poll() is not None)
            assert process.poll() is None, process.communicate()
            result = json.loads(server_file.read_bytes())
            yield Live(process=process, db=db, admin=result["admin"], http=result["http"], grpc=result["grpc"])
        finally:
            process.terminate()


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """Return a collector that two exporters sent a conversation each, both scored."""
    folder = tmp_path_factory.mktemp("live")
    cases = write_cases(folder / "cases.jsonl", [_CASE])
    with serving(folder, "--cases", str(cases)) as running:
        send(HttpSpanExporter(endpoint=f"{running.http}/v1/traces"), "over-http", "It arrives on Monday.")
        send(GrpcSpanExporter(endpoint=running.grpc, insecure=True), "over-grpc", "I do not know.")
        wait_until(lambda: 2 == len(scored(running)))
        yield running


def send(exporter: SpanExporter, name: str, answer: str) -> None:
    """Send the spans of a conversation as an agent's process does."""
    provider = TracerProvider(resource=Resource({"service.name": "shop", "deployment.environment.name": "production"}))
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    attributes = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "clerk",
        "gen_ai.conversation.id": name,
        "gen_ai.input.messages": _messages("user", "Where is my order?"),
        "gen_ai.output.messages": _messages("assistant", answer),
    }
    with provider.get_tracer("shop-tracing").start_as_current_span("invoke_agent clerk", attributes=attributes):
        pass
    provider.shutdown()


def _messages(role: str, text: str) -> str:
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": text}]}])


def scored(running: Live) -> list[dict[str, Any]]:
    rows = done("conversations", "list", "--db", running.db, "--format", "json").json
    return [row for row in rows if row["outcome"] is not None]


def test_spans_of_real_exporters_are_scored_as_they_close(live: Live) -> None:
    assert {("over-http", "pass"), ("over-grpc", "fail")} == {
        (row["conversation_id"], row["outcome"]) for row in scored(live)
    }


@pytest.mark.parametrize("by", ["--db", "--server"])
def test_every_command_asks_the_collector_without_another_flag(live: Live, by: str) -> None:
    where = ("--db", live.db) if by == "--db" else ("--server", live.admin)

    (group,) = done("report", *where, "--format", "json").json["groups"]
    assert ("clerk", 2, 1) == (group["agent"], group["n"], group["c"])
    assert "Reliability of clerk" in done("report", *where).out
    assert [] == done("tools", "failing", *where, "--format", "json").json
    assert [{"n": 2}] == done("query", "SELECT count(*) AS n FROM spans", *where, "--format", "json").json
    assert "over-grpc" in done("conversations", "list", *where).out
    assert passage(done("conversations", "show", "over-http", *where).out) == snapshot("It arrives on Monday.")
    lines = [json.loads(line) for line in done("conversations", "export", *where).out.splitlines()]
    assert {"over-http", "over-grpc"} == {line["conversation_id"] for line in lines}
    assert ["where"] == [row["case_id"] for row in done("truth", "list", *where, "--format", "json").json]
    assert 2 == len(done("truth", "matches", *where, "--format", "json").json)
    assert 0 == done("evaluate", *where, "--format", "json").json["scored"]


def test_errors_come_through_the_collector_with_their_exit_codes(live: Live) -> None:
    where = ("--server", live.admin)

    assert 3 == run("query", "DROP TABLE spans", *where).code
    assert 3 == run("conversations", "show", "nobody", *where).code
    assert 2 == run("report", "-k", "0", *where).code
    assert 2 == run("report", "--estimator", "guess", *where).code
    ran = run("query", "SELECT colour FROM spans", *where)
    assert (3, 1) == (ran.code, len(ran.lines))


def test_a_judge_that_the_collector_would_ignore_is_refused(live: Live) -> None:
    ran = run("evaluate", "--db", live.db, "--judge", "exact")

    assert (2, 1) == (ran.code, len(ran.lines))
    assert passage(ran.err) == snapshot("start it with `otel-agentic serve --judge exact`")


def test_a_url_of_the_collector_that_is_not_its_admin_address_is_reported(live: Live) -> None:
    ran = run("report", "--server", live.http)

    assert (5, 1) == (ran.code, len(ran.lines))
    assert passage(ran.err) == snapshot("is that the admin address of a collector?")


def test_ingest_into_a_live_file_is_refused_with_the_pid_and_where_to_send(live: Live, tmp_path: Path) -> None:
    ran = run("ingest", write_spans(tmp_path / "spans.jsonl", [conversation("c1")]), "--db", live.db)

    assert (4, 1) == (ran.code, len(ran.lines))
    assert f"process id {live.process.pid}" in ran.err
    assert live.http in ran.err


def test_a_second_collector_on_the_file_is_refused(live: Live) -> None:
    ran = run("serve", "--db", live.db, *_LISTEN)

    assert (4, "", 1) == (ran.code, ran.out, len(ran.lines))
    assert str(live.process.pid) in ran.err


def test_a_taken_port_is_wrong_usage_that_names_it(live: Live, tmp_path: Path) -> None:
    used = live.http.removeprefix("http://")
    options = ("--grpc", _FREE, "--http", used, "--admin", _FREE)
    ran = run("serve", "--db", tmp_path / "other.duckdb", *options)

    assert (2, "", 1) == (ran.code, ran.out, len(ran.lines))
    assert passage(ran.err, taken=used) == snapshot("cannot listen on <taken>: Address already in use")


def test_a_public_address_needs_a_token(tmp_path: Path) -> None:
    ran = run("serve", "--db", tmp_path / "other.duckdb", "--grpc", _FREE, "--http", "0.0.0.0:0", "--admin", _FREE)

    assert (2, 1) == (ran.code, len(ran.lines))
    assert passage(ran.err) == snapshot("can be reached from other machines: set a token")


def test_bad_cases_are_reported_before_anything_listens(tmp_path: Path) -> None:
    (tmp_path / "cases.jsonl").write_text('{"case_id": 5}\n', encoding="utf-8")
    ran = run("serve", "--db", tmp_path / "other.duckdb", *_LISTEN, "--cases", tmp_path / "cases.jsonl")

    assert (3, "") == (ran.code, ran.out)
    assert exactly(ran.err, value=tmp_path / "cases.jsonl") == snapshot(
        "otel-agentic: <value>:1: case_id: found 5; allowed: a text\n"
    )


@pytest.mark.parametrize("sent", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_a_collector_says_where_it_listens_and_ends_well_when_asked(tmp_path: Path, sent: signal.Signals) -> None:
    with serving(tmp_path) as running:
        running.process.send_signal(sent)
        out, err = running.process.communicate(timeout=20)

    assert 0 == running.process.returncode
    assert len(err.splitlines()) == 1
    assert passage(err) == snapshot(
        "WARNING otel_agentic.cli.serve: no cases are loaded, so no outcome can be computed"
    )
    assert opening(out, db=running.db) == snapshot("collecting into <db>; Ctrl-C stops\n")
    for address in (running.grpc, running.http, running.admin):
        assert address in out
    assert ending(out) == snapshot("stopping: writing accepted spans\n")
    assert not (tmp_path / "live.duckdb.server.json").exists()
    assert [] == done("conversations", "list", "--db", running.db, "--format", "json").json
