"""The fallback: spans whose attributes are named by common words, under any prefix."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from otel_agentic.dialects import AgentRun, Ignored, ModelCall, ToolCall
from otel_agentic.spans.model import SpanKind
from otel_agentic.testing import span
from tests.dialects.disguises import DISGUISES, disguised
from tests.dialects.reading import READER, read_as, texts_of
from tests.golden.comparing import batches, compared
from tests.golden.test_golden_captures import COMPARISON_ABSENT, FOLDERS

#: How many turns of the captures in each disguise are right, of 268, 69, 231, 188, 60, 60 and 108.
RIGHT: Final = {
    "openinference": 263,
    "langfuse": 69,
    "openllmetry": 213,
    "vercel": 185,
    "langsmith": 60,
    "mlflow": 60,
    "stranger": 101,
}
#: Input and output of a run of the agent, next to which other attributes are tested.
RUN_CONTENT: Final = {"acme.agent.input": "Weather?", "acme.agent.output": "21 °C."}


def test_a_span_that_names_a_tool_is_a_call_of_it() -> None:
    tool = read_as(
        ToolCall,
        span(attributes={"tool.name": "weather", "tool.arguments": '{"city": "Zürich"}', "tool.result": "21 °C"}),
    )

    assert ("weather", {"city": "Zürich"}, "21 °C", "generic") == (
        tool.name,
        tool.arguments,
        tool.result,
        tool.header.dialect,
    )


@pytest.mark.parametrize(
    "name",
    [
        "execute_tool weather",
        "running tool: weather",
        "tools/call weather",
        "tool: weather",
        "Tool weather",
        "function: weather",
        "weather.tool",
        "weather (tool)",
    ],
)
def test_a_span_may_be_named_like_a_tool_call(name: str) -> None:
    tool = read_as(ToolCall, span(name, attributes={"acme.args": '{"city": "Oslo"}', "acme.result": "21 °C"}))

    assert ("weather", {"city": "Oslo"}, "21 °C") == (tool.name, tool.arguments, tool.result)


@pytest.mark.parametrize(
    "key", ["acme.span.kind", "acme:metadata:subtype", "spanType", "acme.observation.type", "type"]
)
@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("TOOL", ToolCall),
        ("tool_call", ToolCall),
        ('"TOOL"', ToolCall),
        ("acme.toolCall", ToolCall),
        ("llm", ModelCall),
        ("LLMCall", ModelCall),
        ("generation", ModelCall),
        ("agent", AgentRun),
        ("agent_run", AgentRun),
        ("CHAIN", AgentRun),
    ],
)
def test_a_span_may_name_its_kind(key: str, kind: str, expected: type) -> None:
    read_as(expected, span(attributes={key: kind}))


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("function", ToolCall), ("chat", ModelCall), ("text_completion", ModelCall), ("workflow", AgentRun)],
)
def test_a_kind_that_others_use_too_counts_where_there_is_content(kind: str, expected: type) -> None:
    read_as(expected, span(attributes={"acme.span.kind": kind, "acme.input": "x"}))
    assert read_as(Ignored, span(attributes={"acme.span.kind": kind})).header.dialect == "none"


def test_a_kind_that_lies_gives_way_to_the_name_of_a_tool() -> None:
    assert read_as(ToolCall, span(attributes={"acme.span.kind": "agent", "acme.tool.name": "ask"})).name == "ask"


@pytest.mark.parametrize(
    ("question", "answered"),
    [
        ("input", "output"),
        ("span.input", "span.output"),
        ("entity.inputs", "entity.outputs"),
        ("input.value", "output.value"),
        ("requestBody", "responseBody"),
        ("prompt", "completion"),
        ("prompt", "response"),
        ("input_messages", "output_messages"),
    ],
)
@pytest.mark.parametrize("prefix", ["", "acme.", "acme:trace:", "acme_"])
def test_content_is_read_under_any_prefix(prefix: str, question: str, answered: str) -> None:
    attributes = {"acme.span.kind": "llm", prefix + question: "Weather?", prefix + answered: "21 °C."}
    model = read_as(ModelCall, span(attributes=attributes))

    assert [("user", "Weather?")] == texts_of(model.messages_in)
    assert [("assistant", "21 °C.")] == texts_of(model.messages_out)


def test_spelled_out_messages_are_read_under_any_prefix() -> None:
    attributes = {
        "acme.span.kind": "llm",
        "acme.prompt.0.role": "user",
        "acme.prompt.0.content": "Weather?",
        "acme.completion.0.content": "21 °C.",
    }
    model = read_as(ModelCall, span(attributes=attributes))

    assert [("user", "Weather?")] == texts_of(model.messages_in)
    assert [("assistant", "21 °C.")] == texts_of(model.messages_out)


def test_the_richer_of_two_records_of_one_request_is_taken() -> None:
    attributes = {
        "acme.span.kind": "llm",
        "acme.llm.input_messages.0.message.role": "user",
        "acme.input": '{"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Weather?"}]}',
    }

    assert [("system", "Be brief."), ("user", "Weather?")] == texts_of(
        read_as(ModelCall, span(attributes=attributes)).messages_in
    )


def test_one_record_of_a_whole_conversation_is_divided() -> None:
    listed = '[{"role": "user", "content": "Weather?"}, {"role": "assistant", "content": "21 °C."}]'
    run = read_as(AgentRun, span(attributes={"acme.span.kind": "agent", "acme.messages": listed}))

    assert [("user", "Weather?")] == texts_of(run.messages_in)
    assert [("assistant", "21 °C.")] == texts_of(run.messages_out)


@pytest.mark.parametrize(
    "attributes",
    [
        {"gen_ai.request.model": "m", "gen_ai.input.messages": "Weather?", "gen_ai.output.messages": "21 °C."},
        {"llm.model": "m", "llm.prompts": '["Weather?"]', "llm.completions": '["21 °C."]'},
        {
            "acme.model": "m",
            "acme.request": '{"messages": [{"role": "user", "content": "Weather?"}]}',
            "acme.answer": "21 °C.",
        },
    ],
)
def test_a_model_with_content_is_a_model_call(attributes: dict[str, Any]) -> None:
    model = read_as(ModelCall, span(attributes=attributes))

    assert "m" == model.model
    assert model.messages_in is not None
    assert ("assistant", "21 °C.") == (texts_of(model.messages_out) or [])[-1]


def test_a_span_with_a_conversation_and_content_may_be_a_run() -> None:
    run = read_as(
        AgentRun, span(attributes={"session_id": "s1", "query": "Weather?", "answer": "21 °C.", "agent": "travel"})
    )

    assert ("Weather?", "21 °C.", "s1", "travel", False) == (
        run.query,
        run.answer,
        run.header.conversation_id,
        run.header.agent_name,
        run.certain,
    )


@pytest.mark.parametrize(
    "attributes",
    [
        {"session.id": "c1"},
        {"app.chat_id": "c1"},
        {"acme:metadata:agent:sessionId": "c1"},
        {"acme.observation.metadata.thread_id": '"c1"'},
        {"thread.id": "c1"},
        {"acme.metadata": '{"user_id": "u1", "thread_id": "c1"}'},
        {"acme.config": {"configurable": {"thread_id": "c1"}}},
        {"acme.input": '{"kwargs": {"session_id": "c1", "text": "Weather?"}}'},
        {"thread_id": "c2", "conversation_id": "c1"},
    ],
)
def test_a_conversation_id_is_found_under_its_common_names(attributes: dict[str, Any]) -> None:
    assert "c1" == read_as(AgentRun, span(attributes={**RUN_CONTENT, **attributes})).header.conversation_id


@pytest.mark.parametrize(
    "attributes",
    [
        {"user.id": "u1"},
        {"acme.trace_id": "t1", "acme.run.id": "r1"},
        {"thread.id": 140233, "thread.name": "MainThread"},
        {"acme.session.name": "project"},
        {"acme.metadata": '{"user_id": "u1", "run_id": "r1"}'},
        {"acme.metadata": "no JSON"},
    ],
)
def test_other_ids_are_no_conversation(attributes: dict[str, Any]) -> None:
    assert read_as(AgentRun, span(attributes={**RUN_CONTENT, **attributes})).header.conversation_id is None


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        ({"acme.status": "ERROR", "acme.status_message": "no seat"}, "no seat"),
        ({"acme.level": "ERROR"}, "error"),
        ({"acme.is_error": True}, "error"),
        ({"acme.error": "no seat"}, "no seat"),
        ({"acme.error": False, "acme.state": "success"}, None),
        ({"acme.error": ""}, None),
    ],
)
def test_an_outcome_may_say_that_a_tool_failed(outcome: dict[str, Any], expected: str | None) -> None:
    assert expected == read_as(ToolCall, span(attributes={"acme.tool.name": "seats", **outcome})).header.error


def test_the_schema_of_a_tool_is_not_its_arguments() -> None:
    schema = '{"type": "object", "properties": {"city": {"type": "string"}}}'

    tool = read_as(ToolCall, span(attributes={"acme.tool.name": "weather", "acme.tool.parameters": schema}))
    assert tool.arguments is None

    given = {"acme.tool.name": "weather", "acme.tool.parameters": '{"city": "Oslo"}'}
    assert {"city": "Oslo"} == read_as(ToolCall, span(attributes=given)).arguments


def test_an_empty_result_was_captured() -> None:
    tool = read_as(
        ToolCall, span(attributes={"acme.tool.name": "clear", "acme.tool.input": "", "acme.tool.output": ""})
    )

    assert ({}, "", True) == (tool.arguments, tool.result, tool.result_captured)


def test_numbers_of_tokens_are_no_content() -> None:
    counts = {"acme.span.kind": "llm", "acme.usage.input": 24, "acme.usage.output": "9", "acme.tokens.prompt": 3}
    model = read_as(ModelCall, span(attributes=counts))

    assert (None, None) == (model.messages_in, model.messages_out)


@pytest.mark.parametrize(
    ("name", "attributes"),
    [
        (
            "POST /chat",
            {
                "http.request.method": "POST",
                "http.route": "/chat",
                "url.path": "/chat",
                "url.query": "prompt=hi",
                "user_agent.original": "curl",
                "session.id": "web-1",
                "http.request.body.size": 12,
            },
        ),
        ("GET /search", {"http.method": "GET", "http.url": "http://x/?q=1", "query": "shoes", "session_id": "web-1"}),
        (
            "SELECT orders",
            {"db.system.name": "postgresql", "db.query.text": "select 1", "db.response.status_code": "0"},
        ),
        ("SELECT", {"db.system": "mysql", "db.statement": "select 1", "db.operation": "SELECT", "thread.id": 7}),
        ("orders process", {"messaging.system": "kafka", "messaging.operation.type": "process"}),
        ("send", {"messaging.message.conversation_id": "m1", "messaging.operation.name": "send", "input": "x"}),
        ("grpc.health.v1.Health/Check", {"rpc.system": "grpc", "rpc.method": "Check", "rpc.service": "Health"}),
        ("query Orders", {"graphql.operation.type": "query", "graphql.document": "query Orders { id }"}),
        ("GET", {"db.system": "redis", "db.query.text": "GET session:1", "session.id": "s"}),
        ("resize", {"input": "cat.png", "output": "cat-small.png"}),
        ("checkout", {"app.order.id": 7, "user.id": "u1", "session.id": "web-1"}),
        ("handler", {"faas.invoked_name": "f", "code.function.name": "handler", "faas.trigger": "http"}),
        ("documentLoad", {"session.id": "web-1", "browser.language": "de", "url.full": "http://x"}),
        ("nightly job", {"job.type": "batch", "task.type": "python", "state": "success"}),
        ("deploy", {"type": "workflow", "cicd.pipeline.name": "deploy"}),
        ("cache lookup", {"cache.key": "k", "component": "cache", "operation": "get", "result": "hit"}),
    ],
)
def test_a_span_of_something_else_is_left_alone(name: str, attributes: dict[str, Any]) -> None:
    assert read_as(Ignored, span(name, kind=SpanKind.SERVER, attributes=attributes)).header.dialect == "none"


def test_a_request_of_a_protocol_may_still_be_a_tool_call() -> None:
    attributes = {"acme.span.kind": "tool", "acme.tool.name": "weather", "http.request.method": "GET"}

    assert read_as(ToolCall, span("GET", attributes=attributes)).name == "weather"


def test_what_the_conventions_leave_out_is_read_from_the_vendors_own_attributes() -> None:
    run = read_as(
        AgentRun,
        span(
            attributes={
                "gen_ai.operation.name": "invoke_agent",
                "acme.agent_run.input": '[{"role": "user", "content": "Weather?"}]',
                "acme.agent_run.output": '{"text": "21 °C.", "files": []}',
            }
        ),
    )
    tool = read_as(
        ToolCall,
        span(
            attributes={"gen_ai.tool.name": "weather", "acme.tool.input": '{"city": "Oslo"}', "acme.tool.output": "21"}
        ),
    )
    model = read_as(
        ModelCall, span(attributes={"gen_ai.operation.name": "chat", "acme.input": "Weather?", "acme.output": "21 °C."})
    )

    assert ([("user", "Weather?")], "21 °C.") == (texts_of(run.messages_in), run.answer)
    assert ({"city": "Oslo"}, "21") == (tool.arguments, tool.result)
    assert [("user", "Weather?")] == texts_of(model.messages_in)
    assert [("assistant", "21 °C.")] == texts_of(model.messages_out)


def test_content_that_was_not_recorded_stays_not_captured() -> None:
    run = read_as(AgentRun, span(attributes={"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "travel"}))

    assert (None, None, None, None) == (run.query, run.answer, run.messages_in, run.messages_out)


@pytest.mark.slow
@pytest.mark.skipif(COMPARISON_ABSENT is not None, reason=str(COMPARISON_ABSENT))
@pytest.mark.parametrize("disguise", DISGUISES)
def test_known_frameworks_are_read_in_disguise(disguise: str, tmp_path: Path) -> None:
    captures = [folder for folder in FOLDERS if folder.name.startswith(f"{disguise}-")]
    copies = [disguised(folder, DISGUISES[disguise], tmp_path) for folder in captures]
    dialects = {
        READER.read(item).event.header.dialect for copy in copies for batch in batches(copy) for item in batch.spans
    }

    assert set() == dialects - {"generic", "none"}
    assert sum(compared(copy)["right"] for copy in copies) >= RIGHT[disguise]
