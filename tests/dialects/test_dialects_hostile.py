"""Nothing that a stranger writes into an attribute makes a dialect raise."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_agentic.dialects import Table, TableDialect
from otel_agentic.dialects.detect import _Unknown
from otel_agentic.dialects.genai import GenAI
from otel_agentic.dialects.generic import Generic
from otel_agentic.dialects.openinference import OpenInference
from otel_agentic.testing import (
    AgentRunScript,
    check_dialect,
    event,
    log_record,
    made,
    span,
    speak_genai,
    speak_openinference,
)
from tests.dialects.reading import SETTINGS

DIALECTS: Final[tuple[TableDialect, ...]] = (
    GenAI(SETTINGS),
    OpenInference(SETTINGS),
    Generic(SETTINGS),
    _Unknown(SETTINGS),
)
_TURN: Final = AgentRunScript().ask("Which hotel?").calls(made("search", {"q": "x"}, result=["Ritz"])).says("The Ritz.")

#: Every key of every table, every key of real spans, and a few that code reads.
KEYS: Final = sorted(
    {
        *(key for dialect in DIALECTS for field in fields(Table) for key in getattr(dialect.table, field.name)),
        *(key for found in (*speak_genai(_TURN).spans, *speak_openinference(_TURN).spans) for key in found.attributes),
        "metadata", "agentic.case.id", "agentic.conversation.end", "gen_ai.agent.version",
        "llm.input_messages.0", "llm.input_messages.0.message",
        "llm.input_messages.0.message.contents.0.message_content",
        "gen_ai.evaluation.name", "gen_ai.evaluation.score.label", "exception.type", "message", "content", "tool_calls",
    }
)  # fmt: skip
WORDS: Final = (
    "role", "type", "content", "parts", "text", "id", "name", "arguments", "tool_calls", "function", "tool_call",
    "tool_call_response", "result", "response", "messages", "lc", "kwargs", "data", "toolUse", "toolResult", "status",
    "tool_call_id", "function_call", "output", "value", "user", "assistant", "tool", "error",
)  # fmt: skip

scalars = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats() | st.text(max_size=8)
words = scalars | st.sampled_from(WORDS) | st.binary(max_size=4)
values = st.recursive(
    words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=4),
    max_leaves=12,
)
#: Values as they are, and as the JSON text that most SDKs write.
anything = values | values.map(lambda value: json.dumps(value, default=str))


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
@given(attributes=st.dictionaries(st.sampled_from(KEYS), anything, max_size=6), body=anything)
@settings(max_examples=60)
def test_no_value_under_any_key_makes_a_dialect_raise(
    dialect: TableDialect, attributes: dict[str, Any], body: Any
) -> None:
    events = [event(name, attributes) for name in ("gen_ai.choice", "exception", "gen_ai.evaluation.result")]
    for operation in (None, "chat", "invoke_agent", "execute_tool"):
        named = {} if operation is None else {"gen_ai.operation.name": operation}
        kinds = {"openinference.span.kind": {"chat": "LLM", "execute_tool": "TOOL"}.get(operation or "", "AGENT")}
        found = span(attributes={**named, **kinds, **attributes}, events=events)
        logs = [
            log_record(found, name, body, attributes=attributes) for name in ("gen_ai.user.message", "gen_ai.choice")
        ]

        dialect.claims(found)
        assert dialect.read(found, logs) is not None


def test_the_genai_dialect_conforms() -> None:
    check_dialect(GenAI(SETTINGS), *speak_genai(_TURN).spans, *speak_genai(_TURN, "structured").spans)


def test_the_openinference_dialect_conforms() -> None:
    flattened = ("llm.input_messages", "llm.output_messages")

    check_dialect(OpenInference(SETTINGS), *speak_openinference(_TURN).spans, content=flattened)


def test_the_generic_dialect_conforms() -> None:
    check_dialect(
        Generic(SETTINGS),
        span(attributes={"tool.name": "weather", "tool.arguments": "{}", "tool.result": "21"}),
        span(attributes={"type": "llm", "prompt": "Weather?", "completion": "21 °C."}),
        span(attributes={"type": "agent", "query": "Weather?", "answer": "21 °C."}),
    )
