"""`otel-agentic doctor`: how spans are read and what they come to, and whether this installation is sound."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from inline_snapshot import snapshot
from rich.cells import cell_len

from tests.cli.running import done, on_terminal, run
from tests.cli.small import conversation, request, spans_of, write_spans
from tests.snapshots import exactly, opening, passage

if TYPE_CHECKING:
    from tests.cli.conftest import Shop

_CALL: Final = ("look_up", {"order": "A1"}, '{"day": "Monday"}')


def test_each_span_has_its_event_and_each_trace_its_turns(shop: Shop) -> None:
    output = done("doctor", shop.spans, "--traces", "1").out

    assert passage(output) == snapshot("4 agent runs, 4 tool calls")
    assert passage(output) == snapshot(
        "── invoke_agent clerk — agent run of clerk, 1 message in, 1 message out, conversation c1\n"
    )
    assert passage(output) == snapshot('tool call look_up {"order":"A1"} -> {"day":"Monday"}')
    assert passage(output) == snapshot(
        "conversation c1 in production, id from gen_ai.conversation.id of span invoke_agent clerk\n"
    )
    assert passage(output) == snapshot("query   Where is my order?\n")
    assert passage(output) == snapshot('step 1  look_up {"order":"A1"} -> {"day":"Monday"}\n')
    assert passage(output) == snapshot("answer  It arrives on Monday.\n")
    assert passage(output) == snapshot("(3 more traces; --traces 4 shows all, --trace ID shows one)")


def test_json_has_every_trace_with_spans_turns_coverage_and_problems(shop: Shop) -> None:
    result = done("doctor", shop.spans, "--format", "json").json

    assert {"traces", "scopes", "coverage", "wrong_clocks", "problems"} == set(result)
    assert (4, []) == (len(result["traces"]), result["problems"])
    assert {"scope", "dialect", "because_of", "events"} == set(result["scopes"][0])
    (first, *_) = result["traces"]
    assert ["agent_run", "tool_call"] == [span["event"] for span in first["spans"]]
    assert first["spans"][0]["span_id"] == first["spans"][1]["parent_span_id"]
    assert (first["spans"][0]["dialect"], first["spans"][0]["because_of"]) == snapshot(
        ("genai", "attribute gen_ai.operation.name")
    )
    (output,) = first["conversations"]
    assert ("c1", [0], 0) == (
        output["conversation_id"],
        [turn["index"] for turn in output["turns"]],
        output["goes_on_with"],
    )
    (call,) = output["turns"][0]["tools"]
    assert ("look_up", 1, "tool", True) == (call["name"], call["step"], call["kind"], call["result_captured"])
    assert 1 == len(done("doctor", shop.spans, "--format", "json", "--traces", "1").json["traces"])


def test_one_trace_is_named_by_the_beginning_of_its_id(shop: Shop) -> None:
    names = [trace["trace_id"] for trace in done("doctor", shop.spans, "--format", "json").json["traces"]]

    result = done("doctor", shop.spans, "--trace", names[2][:9].upper(), "--format", "json").json
    ran = run("doctor", shop.spans, "--trace", "nothing")

    assert [names[2]] == [trace["trace_id"] for trace in result["traces"]]
    assert (ran.code, ran.lines) == snapshot(
        (3, ["otel-agentic: no trace 'nothing' in these files; they hold 4 traces"])
    )


def test_missing_content_is_reported_with_the_setting_that_records_it(tmp_path: Path) -> None:
    spans = write_spans(tmp_path / "spans.jsonl", [conversation("c1", calls=[_CALL], content=False)])
    output = done("doctor", spans).out

    assert passage(output) == snapshot("tool call look_up arguments not captured -> result not captured")
    assert "query   not captured\n" in output
    assert "answer  not captured\n" in output
    assert passage(output) == snapshot(
        "queries: 0 of 1, answers: 0 of 1, arguments: 0 of 1, results: 0 of 1 — content capture is off: "
        "set OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=SPAN_ONLY"
    )


def test_ingest_names_the_same_setting_and_says_nothing_where_nothing_is_missing(shop: Shop, tmp_path: Path) -> None:
    spans = write_spans(tmp_path / "spans.jsonl", [conversation("c1", content=False)])
    output = done("ingest", spans, "--db", "t.duckdb").out

    assert passage(output) == snapshot(
        "  queries: 0 of 1, answers: 0 of 1 — content capture is off: set OTEL_INSTRUMENTATION_GENAI_"
    )
    assert "0 of" not in done("ingest", shop.spans, "--db", "whole.duckdb").out
    (row,) = done("ingest", shop.spans, "--db", "again.duckdb", "--format", "json").json["coverage"]
    assert ("shop", "genai", "genai", ["shop-tracing"], 4, 1.0, []) == tuple(
        row[name] for name in ("service", "dialect", "framework", "scopes", "turns", "arguments", "missing")
    )


def test_a_duplicate_call_and_an_ignored_span_are_reported_with_their_reasons(tmp_path: Path) -> None:
    twice = conversation("c1", calls=[_CALL])
    (root, outer) = spans_of(twice)
    inner = {**outer, "spanId": "ab" * 8, "parentSpanId": outer["spanId"], "name": "the tool itself"}
    web = {**root, "spanId": "cd" * 8, "name": "GET /", "attributes": []}
    spans = write_spans(tmp_path / "spans.jsonl", [request([web, {**root, "parentSpanId": "cd" * 8}, outer, inner])])
    output = done("doctor", spans).out

    assert passage(output) == snapshot("GET / — ignored: no dialect knows it")
    assert passage(output, spanid=outer["spanId"]) == snapshot(
        "the tool itself — ignored: the same tool call as the span above it (<spanid>)"
    )


def test_a_trace_that_goes_on_with_an_earlier_turn_says_so(tmp_path: Path) -> None:
    user_message = {"role": "user", "parts": [{"type": "text", "content": "Where is my order?"}]}
    wants = {"role": "assistant", "parts": [{"type": "tool_call", "id": "1", "name": "look_up", "arguments": {}}]}
    result = {"role": "tool", "parts": [{"type": "tool_call_response", "id": "1", "response": "Monday"}]}
    says = {"role": "assistant", "parts": [{"type": "text", "content": "On Monday."}]}
    first = chat("t1", 0, [user_message], wants)
    spans = write_spans(
        tmp_path / "spans.jsonl", [request([first]), request([chat("t2", 3, [user_message, wants, result], says)])]
    )

    output = done("doctor", spans).out

    assert passage(output) == snapshot("id from the trace itself, because no span has a conversation id")
    assert passage(output, traceid=first["traceId"]) == snapshot(
        "id from trace <traceid>, joined by its message history"
    )
    assert passage(output) == snapshot("no turn begins here: the trace continues turn 1")
    assert passage(output) == snapshot("conversation ids: 0 of 1 — no span has one: ")


def test_a_trace_that_another_instrumentation_wrote_of_the_same_turn_adds_nothing(tmp_path: Path) -> None:
    user_message = {"role": "user", "parts": [{"type": "text", "content": "Where is my order?"}]}
    says = {"role": "assistant", "parts": [{"type": "text", "content": "On Monday."}]}
    first = request([chat("t1", 0, [user_message], says)])
    second = json.loads(
        json.dumps(request([chat("t2", 0, [user_message], says)])).replace("shop-tracing", "other-tracing")
    )
    traces = done("doctor", write_spans(tmp_path / "spans.jsonl", [first, second]), "--format", "json").json["traces"]

    output = {trace["trace_id"]: trace["conversations"][0] for trace in traces}
    (stored,) = [name for name, part in output.items() if part["turns"]]
    (again,) = output.keys() - {stored}
    assert (stored, output[stored]["conversation_id"]) == (output[again]["repeats"], output[again]["conversation_id"])
    assert exactly(output[again]["id_from"], kept=stored) == snapshot(
        "trace <kept>, which this one duplicates: another instrumentation recorded it"
    )
    assert passage(done("doctor", "spans.jsonl").out) == snapshot("no turn of its own: it duplicates another trace\n")


def test_a_trace_without_an_agent_says_so(tmp_path: Path) -> None:
    (root,) = spans_of(conversation("c1"))
    output = done(
        "doctor", write_spans(tmp_path / "s.jsonl", [request([{**root, "name": "GET /health", "attributes": []}])])
    ).out

    assert passage(output) == snapshot("no conversation: this trace has no agent run, model call or tool call")


def test_the_settings_choose_the_dialect_and_doctor_says_so(shop: Shop, tmp_path: Path) -> None:
    (tmp_path / "otel-agentic.toml").write_text('[dialects.scopes]\n"shop-*" = "none"\n', encoding="utf-8")

    (row,) = done("doctor", shop.spans, "--format", "json").json["scopes"]

    assert (row["dialect"], row["because_of"]) == snapshot(("none", "chosen by [dialects.scopes] shop-*"))


@pytest.mark.parametrize("command", [("doctor", "spans.jsonl"), ("ingest", "spans.jsonl", "--db", "t.duckdb")])
def test_a_dialect_that_is_not_there_is_refused_by_name(shop: Shop, tmp_path: Path, command: tuple[str, ...]) -> None:
    (tmp_path / "spans.jsonl").write_bytes(shop.spans.read_bytes())
    (tmp_path / "otel-agentic.toml").write_text('[dialects.scopes]\n"shop-*" = "openinfrence"\n', encoding="utf-8")

    ran = run(*command)

    assert 2 == ran.code
    assert opening(ran.err) == snapshot(
        "otel-agentic: setting dialects.scopes: unknown dialect 'openinfrence' for 'shop-*'; allowed: "
    )
    assert "wrong  dialects" in run("doctor").out


def test_unreadable_parts_are_reported_and_the_rest_is_shown(shop: Shop, tmp_path: Path) -> None:
    (tmp_path / "broken.jsonl").write_bytes(b"nonsense\n" + shop.spans.read_bytes())
    ran = run("doctor", "broken.jsonl")

    assert 3 == ran.code
    assert opening(ran.err) == snapshot("otel-agentic: broken.jsonl:1: ")
    assert "4 agent runs" in ran.out


def test_this_installation_is_found_sound() -> None:
    output = done("doctor").out
    checks = done("doctor", "--format", "json").json

    assert "ok     duckdb" in output
    assert {True} == {check["ok"] for check in checks}
    assert {"package collectors", "dialects"} <= {check["what"] for check in checks}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("doctor", "a.jsonl", "--live"), "give PATH or --live, not both"),
        (("doctor", "--db", "t.duckdb"), "--db and --server need --live"),
        (("doctor", "a.jsonl", "--server", "http://127.0.0.1:1"), "--db and --server need --live"),
    ],
)
def test_options_that_do_not_go_together_are_refused(arguments: tuple[str, ...], message: str) -> None:
    ran = run(*arguments)

    assert (2, True) == (ran.code, message in ran.err)


@pytest.mark.parametrize("width", [50, 80, 160])
def test_nothing_is_wider_than_the_terminal(tmp_path: Path, width: int) -> None:
    long = conversation("c" * 150, calls=[("t" * 90, {"a": "東京" * 40}, "r" * 200)], query="word " * 60, content=True)
    bare = conversation("c1", calls=[_CALL], content=False)
    lines = on_terminal(width, "doctor", str(write_spans(tmp_path / "spans.jsonl", [long, bare])))

    assert [] == [line for line in lines if cell_len(line) > width]


def chat(trace: str, second: int, recorded: list[Any], message: Any) -> dict[str, Any]:
    """Return a model call that is a trace of its own."""
    (root,) = spans_of(conversation(trace, start_ns=1_772_452_800_000_000_000 + second * 1_000_000_000))
    output = {
        "gen_ai.operation.name": "chat",
        "gen_ai.input.messages": json.dumps(recorded),
        "gen_ai.output.messages": json.dumps([message]),
    }
    attributes = [{"key": key, "value": {"stringValue": value}} for key, value in output.items()]
    end = str(int(root["startTimeUnixNano"]) + 1_000_000_000)
    return {**root, "name": "chat", "endTimeUnixNano": end, "attributes": attributes}
