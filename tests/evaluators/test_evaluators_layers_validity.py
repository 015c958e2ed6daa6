"""Calls against tool definitions: validity of arguments, hallucinated tools, and schemas that mean harm."""

from __future__ import annotations

import socket
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from otel_agentic.evaluators.layers import Validity
from otel_agentic.testing import conversation, tool_call, turn
from otel_agentic.truth.values import SchemaUnusableError, schema_faults
from tests.evaluators.ragas_subjects import scores_of as by_name
from tests.evaluators.ragas_subjects import subject
from tests.snapshots import passage

if TYPE_CHECKING:
    from otel_agentic.conversations.model import ToolCall

SCHEMA = {
    "type": "object",
    "properties": {
        "id": {"type": "string", "pattern": "^[A-Z]{3}$"},
        "seats": {"type": "integer", "minimum": 1},
        "cabin": {"enum": ["economy", "business"]},
        "legs": {
            "type": "array",
            "items": {"type": "object", "required": ["date"], "properties": {"date": {"type": "string"}}},
        },
    },
    "required": ["id"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("arguments", "faults"),
    [
        ({"id": "ABC"}, []),
        ({"id": "ABC", "seats": 2.0, "cabin": "economy", "legs": [{"date": "x"}]}, []),
        ({}, ["id is required but missing"]),
        ({"id": "abc"}, ['id is "abc", which does not match the pattern "^[A-Z]{3}$"']),
        ({"id": 5}, ["id is 5, allowed: string"]),
        ({"id": "ABC", "seats": "2"}, ['seats is "2", allowed: integer']),
        ({"id": "ABC", "seats": True}, ["seats is true, allowed: integer"]),
        ({"id": "ABC", "seats": 0}, ["seats is 0, which breaks minimum 1"]),
        ({"id": "ABC", "cabin": "first"}, ['cabin is "first", allowed: "economy" or "business"']),
        ({"id": "ABC", "pay": 1, "tip": 2}, ["pay is not a parameter of the tool", "tip is not a parameter of the tool"]),
        ({"id": "ABC", "legs": [{"date": "x"}, {"date": 5}, {}]}, ["legs[1].date is 5, allowed: string", "legs[2].date is required but missing"]),
    ],
)  # fmt: skip
def test_faults_name_the_parameter_by_its_path_and_what_is_allowed(
    arguments: dict[str, Any], faults: list[str]
) -> None:
    assert faults == [f"{fault.path} {fault.message}" for fault in schema_faults(arguments, SCHEMA)]


@pytest.mark.parametrize(
    ("schema", "valid"),
    [
        # In draft 4 the bound is open by another keyword, later by a number of its own.
        ({"$schema": "http://json-schema.org/draft-04/schema#", "properties": {"n": {"minimum": 1, "exclusiveMinimum": True}}}, False),
        ({"$schema": "http://json-schema.org/draft-07/schema#", "properties": {"n": {"exclusiveMinimum": 1}}}, False),
        ({"$schema": "http://json-schema.org/draft-03/schema#", "properties": {"m": {"required": True}}}, False),
        ({"$schema": "https://example.com/our-own", "properties": {"n": {"const": 1}}}, True),
        ({"properties": {"n": {"$ref": "#/$defs/one"}}, "$defs": {"one": {"enum": [1]}}}, True),
        # Next to a reference draft 7 looks at nothing, 2020-12 at everything.
        ({"$schema": "http://json-schema.org/draft-07/schema#", "properties": {"n": {"$ref": "#/definitions/a", "minimum": 5}}, "definitions": {"a": {}}}, True),
        ({"properties": {"n": {"$ref": "#/$defs/a", "minimum": 5}}, "$defs": {"a": {}}}, False),
        (True, True),
        ({}, True),
    ],
)  # fmt: skip
def test_the_draft_is_that_of_the_schema(schema: Any, valid: bool) -> None:  # noqa: FBT001 — a row
    assert valid == (not schema_faults({"n": 1}, schema))


def _chain(links: int) -> dict[str, Any]:
    return {f"d{i}": {"allOf": [{"$ref": f"#/$defs/d{i + 1}"}] * 2} for i in range(links)} | {f"d{links}": {}}


def _nested(levels: int) -> dict[str, Any]:
    held: dict[str, Any] = {}
    for _ in range(levels):
        held = {"properties": {"n": held}}
    return held


@pytest.mark.parametrize(
    ("schema", "explanation"),
    [
        ({"$ref": "#"}, "nested too deeply"),
        ({"$ref": "http://127.0.0.1:9/schema.json"}, "nothing is fetched"),
        ({"properties": {"n": {"$ref": "file:///etc/passwd"}}}, "nothing is fetched"),
        ({"$ref": "#/$defs/nowhere"}, "nothing is fetched"),
        ({"$defs": _chain(40), "$ref": "#/$defs/d0"}, "more than 100,000 steps"),
        # A dialect inside would let the package continue without bounds.
        ({"$schema": "https://json-schema.org/draft/2020-12/schema", "$defs": _chain(40), "properties": {"n": {"$ref": "#/$defs/d0"}}}, "steps"),
        ({"$defs": {**_chain(40), "d0": {**_chain(40)["d0"], "$schema": "http://json-schema.org/draft-07/schema#"}}, "$ref": "#/$defs/d0"}, "steps"),
        ({"$defs": _chain(40), "$ref": "#/$defs/d0", "unevaluatedProperties": False}, "unevaluated"),
        (_nested(2_000), "not JSON"),
        (_nested(300), "nested too deeply"),
        ({"description": "x" * 200_001}, "200,000 characters"),
        ({"type": "strin"}, "not a valid JSON Schema, at type"),
        ({"properties": {"t": {"pattern": "("}}}, "cannot be applied to"),
        ({"patternProperties": {"(?=a)": {}}}, "cannot be applied to"),
        ({"$schema": ["x"]}, "not a valid JSON Schema"),
        ([1], "not a valid JSON Schema"),
        (None, "not a valid JSON Schema"),
        ({1, 2}, "not JSON"),
    ],
)  # fmt: skip
def test_a_schema_that_cannot_be_used_says_why_and_nothing_of_the_call(
    schema: Any, explanation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        pytest.fail("a schema was fetched")

    monkeypatch.setattr(socket, "create_connection", refuse)
    with pytest.raises(SchemaUnusableError, match=explanation):
        schema_faults({"n": 1, "t": "a" * 50 + "!", "a" * 50 + "!": 1}, schema)


def test_a_pattern_that_backtracks_forever_elsewhere_is_checked_in_linear_time() -> None:
    slow = "^(a|aa)+$"
    (fault,) = schema_faults({"t": "a" * 10_000 + "!"}, {"properties": {"t": {"pattern": slow}}})
    assert ("t", "pattern") == (fault.path, fault.keyword)
    assert () == schema_faults({"a" * 10_000 + "!": 1}, {"patternProperties": {slow: {"type": "string"}}})


def test_large_arguments_and_lists_are_checked_in_bounds() -> None:
    unique = {"properties": {"all": {"uniqueItems": True}}}
    assert () == schema_faults({"all": [{"x": i} for i in range(20_000)]}, unique)
    assert ["all"] == [fault.path for fault in schema_faults({"all": [{"a": 1, "b": 2}, {"b": 2.0, "a": 1}]}, unique)]
    assert () == schema_faults({"all": [1, True]}, unique)
    with pytest.raises(SchemaUnusableError, match="1,000,000 characters") as raised:
        schema_faults({"all": "x" * 1_000_001}, unique)
    assert raised.value.of_call
    items = {"properties": {"all": {"items": {"type": "string"}}}}
    assert 20 == len(schema_faults({"all": list(range(1_000))}, items))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "ABC", "economy"]),
    lambda held: st.lists(held, max_size=2) | st.dictionaries(st.sampled_from(["date", "id", "x"]), held, max_size=2),
    max_leaves=4,
)
ARGUMENTS = st.dictionaries(st.sampled_from(["id", "seats", "cabin", "legs", "x"]), VALUES, max_size=4)


@given(arguments=ARGUMENTS, random=st.randoms(use_true_random=False))
def test_the_order_of_keys_changes_no_fault(arguments: dict[str, Any], random: Any) -> None:
    shuffled = list(arguments.items())
    random.shuffle(shuffled)
    other = {key: SCHEMA[key] for key in reversed(list(SCHEMA))}
    assert schema_faults(arguments, SCHEMA) == schema_faults(dict(shuffled), other)


@given(schema=VALUES, arguments=ARGUMENTS)
def test_no_json_raises_but_that_a_schema_cannot_be_used(schema: Any, arguments: dict[str, Any]) -> None:
    with suppress(SchemaUnusableError):
        schema_faults(arguments, schema)


def scores(talk: Any) -> list[Any]:
    return list(Validity().evaluate(subject(talk, None)))


def talk(*calls: Any, **more: Any) -> Any:
    definitions = {"book": SCHEMA, "search": {"required": ["q"]}, "named": None}
    return conversation(turn("go", "done", *calls), **{"tool_definitions": definitions, **more})


def test_validity_is_the_share_of_calls_that_fit_their_schemas() -> None:
    calls = [
        tool_call("search"),
        tool_call("book", {"id": "ABC", "seats": "2"}, error="seats must be a number"),
        tool_call("book", {"id": "ABC", "seats": 2}),
        tool_call("named", {"any": 1}),
        replace(tool_call("book"), arguments=None),
        tool_call("stranger"),
        tool_call("book", {}, kind="transfer"),
    ]
    results = scores(talk(*calls))

    share = results[0]
    assert ("agentic.layers.parameter_validity", pytest.approx(2 / 3)) == (share.name, share.value)
    assert share.explanation == snapshot(
        '2 of 3 calls are valid; 2 could not be checked; book in turn 1, step 2: parameter seats is "2", allowed: integer'
    )
    assert [
        (0, "search", None, "valid", None),
        (1, "book", "seats", "invalid", None),
        (2, "book", None, "valid", None),
        (3, "named", None, None, "tool_definitions_not_recorded"),
        (4, "book", None, None, "content_not_captured"),
    ] == [(item.position, item.tool_name, item.parameter, item.label, item.reason) for item in results[1:-1]]
    assert [{"path": "seats", "keyword": "type", "message": 'is "2", allowed: integer'}] == results[2].details["faults"]


def test_an_unusable_schema_is_not_tried_again_and_its_calls_are_no_failures() -> None:
    bad = {"book": {"properties": {"t": {"pattern": "("}}}}
    calls = [tool_call("book", {"t": "x"}) for _ in range(50)]
    share, *item, _ = scores(talk(*calls, tool_definitions=bad))

    assert (None, "no_data") == (share.value, share.reason)
    assert {(None, None, "no_data")} == {(entry.value, entry.label, entry.reason) for entry in item}
    assert passage(share.explanation) == snapshot("cannot be applied to")


def test_a_hallucinated_tool_is_one_that_the_agent_was_not_given_to_the_letter() -> None:
    unknown: dict[str, Any] = {"result": None, "error": "no such tool"}
    calls = (tool_call("search"), tool_call("Search", **unknown), *[tool_call("teleport", **unknown)] * 2)
    results = scores(talk(*calls))[-1]

    assert 0.75 == results.value
    assert (results.explanation, results.tool_name) == snapshot(("no such tool: Search, teleport (2 times)", "Search"))
    assert [1, 2, 3] == [item["position"] for item in results.details["hallucinated"]]
    assert 0.0 == scores(talk(tool_call("search")))[-1].value


def test_transfers_agents_and_calls_inside_of_them_are_treated_rightly() -> None:
    handed, agent = tool_call("to_billing", kind="transfer"), tool_call("billing", kind="agent")
    inside = tool_call("look_up", parent_span_id="ab" * 8)
    strange = tool_call("teleport", parent_span_id="ab" * 8, error="no such tool")
    assert 0.0 == scores(talk(tool_call("search"), handed, agent, inside))[-1].value
    assert 0.5 == scores(talk(tool_call("search"), inside, strange))[-1].value
    assert (None, "no_data") == (scores(talk(handed))[-1].value, scores(talk(handed))[-1].reason)


@pytest.mark.parametrize(
    ("error", "refused"),
    [
        ("Error: teleport is not a valid tool, try one of [search].", True),
        ("Tool 'teleport' not found", True),
        ("Unknown tool name: 'teleport'", True),
        ("timed out after 30 s", False),
        ("hotel not found", False),
        ("invalid tool input: date", False),
    ],
)
def test_a_failure_inside_an_agent_is_no_hallucination_unless_there_is_no_such_tool(error: str, refused: bool) -> None:  # noqa: FBT001 — a row
    inside = tool_call("teleport", parent_span_id="ab" * 8, error=error)
    assert 0.5 * refused == scores(talk(tool_call("search"), inside))[-1].value


def test_without_definitions_or_calls_validity_abstains() -> None:
    undefined = talk(tool_call("a"), tool_definitions=None)
    for about, reason in ((undefined, "tool_definitions_not_recorded"), (talk(), "no_data")):
        assert {(None, reason)} == {
            (item.value, item.reason) for item in by_name(Validity(), subject(about, None)).values()
        }
    # An agent that was given no tool at all hallucinates every call.
    assert 1.0 == scores(talk(tool_call("a", error="failed"), tool_definitions={}))[-1].value


@pytest.mark.parametrize(
    ("calls", "share"),
    [
        # A tool that answered exists, by its span or by its result, even if its definition was not recorded.
        ([tool_call("python_interpreter", result="4")], 0.0),
        ([tool_call("python_interpreter", result=None, result_captured=False, span_id="ab" * 8)], 0.0),
        ([tool_call("look_up", result="a hotel"), tool_call("look_up", error="timed out")], 0.0),
        # Nothing shows that it exists: it failed, its result states it, or nothing came back.
        ([tool_call("teleport", error="timed out")], 1.0),
        ([tool_call("teleport", result="Model tried to call unavailable tool 'teleport'")], 1.0),
        ([tool_call("teleport", result=None, result_captured=False, source="message")], 1.0),
    ],
)
def test_a_tool_that_answered_is_not_hallucinated(calls: list[ToolCall], share: float) -> None:
    assert share == scores(talk(*calls))[-1].value
