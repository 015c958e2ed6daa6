"""Definitions of tools in the shapes of all conventions, and counts of tokens."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_agentic.dialects.events import CUT, AgentRun, ModelCall, Plan, merged_definitions, read_definitions
from otel_agentic.dialects.values import count_of, usage_of
from otel_agentic.testing import log_record, span
from tests.dialects.hostile import anything
from tests.dialects.reading import read_as

SCHEMA = {"type": "object", "properties": {"a": {"type": "number"}}, "required": ["a"]}
ADD = {"add": SCHEMA}


@pytest.mark.parametrize(
    "definition",
    [
        pytest.param({"type": "function", "function": {"name": "add", "parameters": SCHEMA}}, id="openai chat"),
        pytest.param({"type": "function", "name": "add", "parameters": SCHEMA, "strict": True}, id="openai responses"),
        pytest.param({"name": "add", "description": "Adds.", "input_schema": SCHEMA}, id="anthropic"),
        pytest.param({"toolSpec": {"name": "add", "inputSchema": {"json": SCHEMA}}}, id="bedrock"),
        pytest.param({"name": "add", "parameters_json_schema": SCHEMA}, id="adk and pydantic-ai"),
        pytest.param({"type": "function", "name": "add", "inputSchema": SCHEMA}, id="vercel"),
        pytest.param({"name": "add", "inputSchema": {"jsonSchema": SCHEMA}}, id="vercel with a wrapped schema"),
        pytest.param({"tool": {"json_schema": json.dumps({"name": "add", "parameters": SCHEMA})}}, id="openinference"),
        pytest.param({"tool": {"name": "add", "json_schema": json.dumps(SCHEMA)}}, id="openinference, name apart"),
        pytest.param({"name": "add", "parameters": json.dumps(SCHEMA)}, id="openllmetry"),
        pytest.param({"function_declarations": [{"name": "add", "parameters": SCHEMA}]}, id="gemini"),
    ],
)
def test_each_shape_of_a_definition_tells_name_and_parameters(definition: dict[str, Any]) -> None:
    text = json.dumps(definition)

    assert [ADD] * 5 == [
        read_definitions(item) for item in ([definition], json.dumps([definition]), [text], definition, text)
    ]


def test_tools_by_name_tell_their_parameters() -> None:
    given_tools = {"add": {"description": "Adds.", "inputSchema": SCHEMA}, "now": {"inputSchema": {"type": "object"}}}

    assert {"add": SCHEMA, "now": {"type": "object"}} == read_definitions(given_tools)


@pytest.mark.parametrize(
    "names", [["add", "div"], '["add", "div"]', "['add', 'div']", [{"name": "add"}, {"name": "div"}]]
)
def test_where_only_names_are_recorded_the_parameters_are_unknown(names: Any) -> None:
    assert {"add": None, "div": None} == read_definitions(names)


def test_types_in_capitals_are_those_of_json_schema() -> None:
    """Gemini writes them so; a property that is called STRING keeps its name."""
    gemini = {
        "type": "OBJECT",
        "properties": {"STRING": {"type": "ARRAY", "items": {"type": "INTEGER"}}, "kind": {"enum": ["OBJECT"]}},
    }
    plain = {
        "type": "object",
        "properties": {"STRING": {"type": "array", "items": {"type": "integer"}}, "kind": {"enum": ["OBJECT"]}},
    }

    assert {"add": plain} == read_definitions([{"name": "add", "parameters": gemini}])


def test_a_parameter_that_is_called_name_makes_no_definition_of_a_schema() -> None:
    schema = {"type": "object", "properties": {"name": {"type": "string"}, "function": {"type": "string"}}}

    assert {"book": schema} == read_definitions([{"name": "book", "input_schema": schema}])


@pytest.mark.parametrize("nothing", [None, "", "none", 5, True, [5], {}, {"a": 1}, [[[[[[[["deep"]]]]]]]]])
def test_what_defines_no_tool_is_not_captured(nothing: Any) -> None:
    expected: dict[str, Any] | None = {} if nothing == {} else None

    assert expected == read_definitions(nothing)


def test_an_empty_list_says_that_there_are_no_tools() -> None:
    assert [{}, {}] == [read_definitions("[]"), read_definitions([])]


def test_of_a_list_that_was_cut_off_no_tool_is_known() -> None:
    """The rest of it would count as all available tools."""
    text = json.dumps([{"name": "add", "parameters": SCHEMA}, {"name": "div"}])

    cut = read_definitions(text[:-9])

    assert cut is CUT
    assert merged_definitions({"add": None}, cut) is CUT
    assert merged_definitions(cut, {"add": None}) is CUT


DIVISION = json.dumps({"type": "function", "function": {"name": "div", "parameters": SCHEMA}})


@pytest.mark.parametrize(
    "lost",
    [
        ["add", DIVISION[:40]],
        ["add", DIVISION[:-1]],
        [{"name": "add"}, {"tool": {"json_schema": DIVISION[:40]}}],
        [{"name": "add"}, {"name": "[REDACTED]"}],
        ["add", "[REDACTED]"],
        str([{"name": "add"}, {"name": "div"}])[:-8],
    ],
)
def test_where_one_tool_cannot_be_read_none_is_known(lost: Any) -> None:
    """The rest would count as all available tools, and a call of the lost one as a hallucination."""
    assert read_definitions(lost) is CUT


@pytest.mark.parametrize("kind", [["object", "null"], {"anyOf": []}, None, 7])
def test_a_schema_may_have_several_types_or_strange_ones(kind: Any) -> None:
    """A reader that raises costs the whole span."""
    assert {"add": {"type": kind}} == read_definitions([{"name": "add", "parameters": {"type": kind}}])


def test_a_schema_that_was_cut_off_leaves_the_name() -> None:
    assert {"add": None} == read_definitions([{"name": "add", "parameters": json.dumps(SCHEMA)[:-3]}])


def test_thousands_of_tools_and_endless_names_are_bounded() -> None:
    """The first thousand of them are not all."""
    names = [f"tool_{number}" for number in range(1001)]

    assert read_definitions(names) is CUT
    assert 1000 == len(read_definitions([*names[:1000], "x" * 300]) or ())
    assert merged_definitions(read_definitions(names[:600]), read_definitions(names[400:])) is CUT


def test_a_schema_nested_without_end_does_not_end_the_reader() -> None:
    deep: dict[str, Any] = {"type": "OBJECT"}
    for _ in range(5000):
        deep = {"type": "OBJECT", "properties": {"a": deep}}

    definitions = read_definitions([{"name": "x", "parameters": deep}])

    assert definitions is not None
    assert "object" == (definitions["x"] or {})["type"]


def test_merged_definitions_keep_what_is_known_of_parameters() -> None:
    assert {"add": SCHEMA, "div": None} == merged_definitions({"add": SCHEMA}, {"add": None, "div": None})
    assert {"add": {}} == merged_definitions({"add": SCHEMA}, {"add": {}})


@given(value=anything)
def test_no_value_makes_the_readers_raise(value: Any) -> None:
    for item in (
        value,
        json.dumps(value, default=str),
        [value],
        {"function": value},
        {"name": "x", "parameters": value},
    ):
        definitions = read_definitions(item)
        assert definitions is None or all(isinstance(name, str) for name in definitions)
        assert all(count is None or count >= 0 for count in (count_of(item), *usage_of(item)))


@given(value=st.one_of(st.floats(), st.integers(), st.text(max_size=20)))
def test_a_count_of_tokens_is_a_whole_number_or_none(value: Any) -> None:
    result = count_of(value)

    assert result is None or (result == float(value) and 0 <= result <= 10**12)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ({"input_tokens": 3, "output_tokens": 4, "total_tokens": 7}, (3, 4)),
        ({"prompt_tokens": 3, "completion_tokens": 4}, (3, 4)),
        ({"promptTokenCount": 3, "candidatesTokenCount": 4}, (3, 4)),
        ({"input": 3, "output": 0}, (3, 0)),
        ("total_tokens=108 prompt_tokens=80", (None, None)),
    ],
)
def test_one_value_may_hold_both_counts(message: Any, expected: tuple[int | None, int | None]) -> None:
    assert expected == usage_of(message)
    assert expected == usage_of(json.dumps(message) if isinstance(message, dict) else message)


LISTED = json.dumps([{"type": "function", "function": {"name": "add", "parameters": SCHEMA}}])


@pytest.mark.parametrize(
    "attributes",
    [
        pytest.param(
            {"llm.usage.prompt_tokens": 3, "llm.usage.completion_tokens": "4", "llm.tools": LISTED}, id="counts"
        ),
        pytest.param(
            {"acme.tokenUsage": '{"inputTokens": 3, "outputTokens": 4}', "acme.toolDefinitions": LISTED}, id="one value"
        ),
        pytest.param(
            {"acme.usage.input_tokens": 3, "acme.usage.output_tokens": 4, "acme.usage.cached_input_tokens": 9}
            | {"acme.max_output_tokens": 99, "acme.available_tools": LISTED},
            id="bounds and parts aside",
        ),
    ],
)
def test_tokens_and_tools_of_an_unknown_framework_are_read_by_common_words(attributes: dict[str, Any]) -> None:
    call = read_as(
        ModelCall,
        span("llm", attributes={"acme.span.kind": "LLM", "acme.input": "hi", "acme.output": "ho", **attributes}),
    )

    assert (3, 4, ADD) == (call.input_tokens, call.output_tokens, call.definitions)


def test_tools_that_were_used_are_not_those_that_were_given() -> None:
    attributes = {"acme.span.kind": "LLM", "acme.input": "hi", "acme.output": "ho", "acme.used_tools": '["add"]'}

    assert read_as(ModelCall, span("llm", attributes=attributes)).definitions is None


def test_what_the_span_leaves_out_may_stand_in_its_log_record() -> None:
    bare = span("chat m", attributes={"gen_ai.operation.name": "chat"})
    details = {"gen_ai.usage.input_tokens": 3, "gen_ai.usage.output_tokens": 4, "gen_ai.tool.definitions": LISTED}

    call = read_as(ModelCall, bare, log_record(bare, attributes=details))

    assert (3, 4, ADD) == (call.input_tokens, call.output_tokens, call.definitions)


def test_a_run_may_name_the_tools_of_its_agent() -> None:
    attributes = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.tools": '["add"]'}

    assert {"add": None} == read_as(AgentRun, span("invoke_agent a", attributes=attributes)).definitions


@pytest.mark.parametrize(
    "attributes",
    [
        {"gen_ai.operation.name": "plan", "gen_ai.output.messages": '[{"role": "assistant", "content": "Search."}]'},
        {"gen_ai.operation.name": "plan", "gen_ai.output.messages": "Search."},
        {"acme.span.kind": "PLANNING", "acme.input": "Find a hotel", "acme.output": "Search.", "acme.agent.id": "7"},
    ],
)
def test_a_plan_is_what_its_span_says(attributes: dict[str, Any]) -> None:
    assert "Search." == read_as(Plan, span("plan", attributes=attributes)).text
