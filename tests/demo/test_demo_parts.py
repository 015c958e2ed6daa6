"""The parts of the demo, one by one."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from inline_snapshot import snapshot
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from otel_agentic.demo.agents import Outbox, ScriptedModel
from otel_agentic.demo.processes import (
    AGENTS,
    NEW,
    OLD,
    REFUND_DESK,
    REFUND_VERSION,
    TRIP_PLANNER,
    running_backend,
    running_collector,
    wait_until,
)
from otel_agentic.demo.recordings import Replay
from otel_agentic.demo.run import CASES, DB_NAME
from otel_agentic.demo.scenario import ATTEMPTS, AgentName, Call, Response, conversations
from otel_agentic.errors import BackendError
from otel_agentic.truth import read_cases
from tests.snapshots import raises


def test_every_case_is_attempted_and_the_queries_are_the_cases_own() -> None:
    cases = {case.case_id: tuple(turn.query for turn in case.turns) for case in read_cases(CASES).require()}
    request: list[tuple[str | None, ...]] = [
        tuple(turn.query for turn in conversation.turns)
        for agent, version in ((TRIP_PLANNER, OLD), (TRIP_PLANNER, NEW), (REFUND_DESK, REFUND_VERSION))
        for conversation in conversations(agent, version)
    ]
    attempts = {name: request.count(queries) for name, queries in cases.items()}
    expected = {name: 1 if name.startswith("refund-") else 2 * ATTEMPTS for name in cases}
    assert expected == attempts
    assert 1 == len(set(request) - set(cases.values()))


def test_the_model_says_its_script_and_repeats_calls_that_failed() -> None:
    model = ScriptedModel()
    model.load([Response(calls=(Call(name="search", arguments={"q": "x"}),)), Response(text="done")])
    question = HumanMessage("find x")
    request = model.invoke([question])
    failed = ToolMessage("Error: too slow", tool_call_id=request.tool_calls[0]["id"], status="error")
    again = model.invoke([question, request, failed])
    result = ToolMessage("x", tool_call_id=again.tool_calls[0]["id"])
    answer = model.invoke([question, request, failed, again, result])
    assert [("search", {"q": "x"})] * 2 == [
        (item.tool_calls[0]["name"], item.tool_calls[0]["args"]) for item in (request, again)
    ]
    assert request.tool_calls[0]["id"] != again.tool_calls[0]["id"]
    assert ("done", []) == (answer.text, answer.tool_calls)
    assert isinstance(answer, AIMessage)


def test_the_outbox_keeps_late_spans_back_until_they_are_released() -> None:
    sent = InMemorySpanExporter()
    outbox = Outbox(SimpleSpanProcessor(sent), _is_late)
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(outbox)
    for name in ("on time", "late", "on time"):
        provider.get_tracer("test").start_span(name).end()
    before = [span.name for span in sent.get_finished_spans()]
    counts = (outbox.passed, outbox.held)
    outbox.release()
    after = [span.name for span in sent.get_finished_spans()]
    provider.shutdown()
    assert ["on time", "on time"] == before
    assert (2, 1) == counts
    assert ["on time", "on time", "late"] == after


def _is_late(span: ReadableSpan) -> bool:
    return span.name == "late"


def test_the_backend_remembers_the_last_value_of_each_gauge() -> None:
    with running_backend() as backend:
        reader = PeriodicExportingMetricReader(OTLPMetricExporter(f"{backend.endpoint}/v1/metrics"))
        provider = MeterProvider([reader], shutdown_on_exit=False)
        gauge = provider.get_meter("test").create_gauge("load")
        for value in (0.25, 0.75):
            gauge.set(value, {"host": "a", "core": 1})
            provider.force_flush()
        gauge.set(3, {"host": "b", "core": 1})
        provider.shutdown()
        assert 3 <= backend.received.points["load"]
        assert 0.75 == backend.received.gauge("load", {"host": "a"})
        assert 3.0 == backend.received.gauge("load", {"host": "b", "core": 1})
        assert backend.received.gauge("load", {"host": "c"}) is None
        assert 200 == httpx.post(f"{backend.endpoint}/v1/logs", content=b"", trust_env=False).status_code


def test_waiting_ends_with_the_process_and_names_its_log() -> None:
    with raises(BackendError, snapshot("the collector ended while the demo waited for the moon; its log is c.log")):
        wait_until(lambda: False, lambda: False, what="the moon", log=Path("c.log"))


@pytest.mark.parametrize(("agent", "version"), AGENTS)
def test_a_recording_has_every_conversation_with_fresh_ids_and_ends_now(agent: AgentName, version: str) -> None:
    before_ns = time.time_ns()
    first, second = (list(_replayed(agent, version)) for _ in range(2))

    script = conversations(agent, version)
    names = {
        (span.attributes or {}).get("session.id", (span.attributes or {}).get("gen_ai.conversation.id"))
        for span in first
    }
    assert {conversation.conversation_id for conversation in script} == names - {None}
    assert [span.name for span in first] == [span.name for span in second]
    ids = [{(span.context.trace_id, span.context.span_id) for span in spans} for spans in (first, second)]
    assert len(ids[0]) == len(first)
    assert not ids[0] & ids[1]
    ends_ns = [span.end_time or 0 for span in first]
    assert before_ns <= max(ends_ns) <= time.time_ns()


def _replayed(agent: str, version: str) -> Iterator[ReadableSpan]:
    """Return the spans that a replay sends."""
    sent = InMemorySpanExporter()
    replay = Replay(agent, version, "http://127.0.0.1:1", lambda _: sent)
    replay.sent()
    replay.finish()
    yield from sent.get_finished_spans()


def test_a_collector_that_does_not_start_is_reported_with_its_last_output(tmp_path: Path) -> None:
    cases = tmp_path / "cases.jsonl"
    cases.write_text('{"case_id": "a", "colour": "red"}\n')
    with (
        running_backend() as backend,
        raises(
            BackendError,
            snapshot(
                'the collector ended with exit code 3: otel-agentic: <tmp_path>/cases.jsonl:1: colour: unknown field, found "red"; allowed: agent, '
            ),
            tmp_path=tmp_path,
        ),
        running_collector(tmp_path / DB_NAME, cases, backend.endpoint),
    ):
        pytest.fail("it started")
