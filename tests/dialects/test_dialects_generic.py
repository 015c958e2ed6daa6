"""The fallback: spans that say what they are in common words."""

from __future__ import annotations

import pytest

from otel_agentic.dialects import AgentRun, Ignored, ModelCall, ToolCall
from otel_agentic.testing import span
from tests.dialects.reading import read_as, said


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
    ("kind", "expected"), [("llm", ModelCall), ("tool", ToolCall), ("agent", AgentRun), ("chain", AgentRun)]
)
def test_a_span_may_name_its_kind(kind: str, expected: type) -> None:
    read_as(expected, span(attributes={"span.kind": kind}))


def test_what_a_model_said_is_the_assistants() -> None:
    model = read_as(ModelCall, span(attributes={"type": "llm", "prompt": "Weather?", "completion": "21 °C."}))

    assert [("user", "Weather?")] == said(model.messages_in)
    assert [("assistant", "21 °C.")] == said(model.messages_out)


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


def test_an_ordinary_span_is_left_alone() -> None:
    ordinary = {"http.request.method": "GET", "db.system": "postgresql", "input": "x"}

    assert read_as(Ignored, span(attributes=ordinary)).header.dialect == "none"
