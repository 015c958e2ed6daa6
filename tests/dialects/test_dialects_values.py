"""Untrusted values: JSON in text, marks of removed content, arguments and results in their wrappings."""

from __future__ import annotations

from typing import Any

import pytest

from otel_agentic.dialects.values import (
    arguments_of,
    flat,
    has_named_arguments,
    id_of,
    is_cut,
    is_redacted,
    parsed,
    result_of,
    text_of,
    tool_message,
)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ('{"a": 1}', {"a": 1}),
        ("[1, 2]", [1, 2]),
        ('"quoted"', "quoted"),
        ("42", "42"),
        ("007", "007"),
        ("null", "null"),
        ("true", "true"),
        ('{"cut": "he', '{"cut": "he'),
        ("[sic] as he wrote", "[sic] as he wrote"),
        ("\\u00fc", "\\u00fc"),
        ('{"a": "\\u00fc"}', {"a": "ü"}),
        (42, 42),
        (None, None),
        ({"a": 1}, {"a": 1}),
    ],
)
def test_json_text_is_read_once_and_all_else_stays(value: Any, expected: Any) -> None:
    assert expected == parsed(value)


def test_json_text_nested_beyond_all_sense_stays_text() -> None:
    deep = "[" * 500 + "]" * 500

    assert deep == parsed(deep)
    assert [{"a": []}] * 200 == parsed("[" + ", ".join(['{"a": []}'] * 200) + "]")


@pytest.mark.parametrize(
    "mark", ["__REDACTED__", "[Scrubbed due to 'session']", "<elided>", "[REDACTED]", " __REDACTED__\n"]
)
def test_marks_of_removed_content_are_known(mark: str) -> None:
    assert is_redacted(mark)


@pytest.mark.parametrize("text", ["", "redacted", "I wrote __REDACTED__ there", "__REDACTED__" + " " * 300, None, 5])
def test_ordinary_values_are_no_marks(text: object) -> None:
    assert not is_redacted(text)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ('{"city": "Paris"}', {"city": "Paris"}),
        ({"city": "Paris"}, {"city": "Paris"}),
        ('"{\\"city\\": \\"Paris\\"}"', {"city": "Paris"}),
        ("Paris", {"input": "Paris"}),
        ("[1, 2]", {"input": [1, 2]}),
        ("{}", {}),
        ("", {}),
        ("  ", {}),
        (None, None),
        ("__REDACTED__", None),
        ('{"city": "Pa', {"input": '{"city": "Pa'}),
        (7, {"input": 7}),
    ],
)
def test_arguments_become_an_object_or_none_when_not_captured(value: Any, expected: Any) -> None:
    assert expected == arguments_of(value)


def test_a_lone_value_has_lost_its_parameter_name() -> None:
    assert not has_named_arguments(arguments_of("Paris"))
    assert not has_named_arguments(None)
    assert has_named_arguments({"city": "Paris"})
    assert has_named_arguments({})


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("plain", "plain"),
        ('"quoted"', "quoted"),
        ('{"a": 1}', {"a": 1}),
        ([{"type": "text", "text": "21 °C"}], "21 °C"),
        ([{"text": '{"t": 21}'}], {"t": 21}),
        ([{"json": {"t": 21}}], {"t": 21}),
        ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], [{"type": "text", "text": "a"}] * 1 + [{"type": "text", "text": "b"}]),
        ({"type": "json", "value": {"t": 21}}, {"t": 21}),
        ({"type": "room", "value": 21}, {"type": "room", "value": 21}),
        ([{"text": "a", "price": 3}], [{"text": "a", "price": 3}]),
        (None, None),
        (0, 0),
    ],
)  # fmt: skip
def test_results_lose_their_wrapping_and_nothing_else(value: Any, expected: Any) -> None:
    assert expected == result_of(value)


@pytest.mark.parametrize(
    "dump",
    [
        {"content": "5", "tool_call_id": "c1"},
        {"type": "tool", "data": {"content": "5", "tool_call_id": "c1"}},
        {"lc": 1, "type": "constructor", "id": ["x", "ToolMessage"], "kwargs": {"content": "5", "tool_call_id": "c1"}},
    ],
)
def test_a_tool_message_is_known_in_each_of_langchains_dumps(dump: dict[str, Any]) -> None:
    result = tool_message(dump)

    assert result is not None
    assert ("5", "c1") == (result["content"], result["tool_call_id"])


def test_a_result_that_merely_has_content_is_no_tool_message() -> None:
    assert tool_message({"content": "5"}) is None


@pytest.mark.parametrize(
    ("value", "expected"),
    [("call_1", "call_1"), (7, "7"), ("", None), (" ", None), ("<not specified>", None), (None, None)],
)
def test_an_id_that_is_empty_or_a_placeholder_is_none(value: Any, expected: str | None) -> None:
    assert expected == id_of(value)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("a", "a"),
        (None, None),
        (5, "5"),
        (True, "true"),
        ([1, "b"], '[1,"b"]'),
        (b"\xff", "\ufffd"),
        (2**70, str(2**70)),
    ],
)
def test_anything_has_a_text(value: Any, expected: str | None) -> None:
    assert expected == text_of(value)


def test_flattened_lists_are_in_numeric_order_for_any_order_of_keys() -> None:
    keys = {f"m.{index}.role": str(index) for index in range(12)}
    expected = [{"role": str(index)} for index in range(12)]

    assert expected == flat(keys, "m")
    assert expected == flat(dict(reversed(list(keys.items()))), "m")


def test_a_key_that_is_both_leaf_and_branch_is_the_branch_in_either_order() -> None:
    assert [{"a": 1}] == flat({"m.0": "x", "m.0.a": 1}, "m")
    assert [{"a": 1}] == flat({"m.0.a": 1, "m.0": "x"}, "m")


def test_hostile_keys_do_not_nest_without_end() -> None:
    assert flat({"m." + "a." * 5000 + "z": 1}, "m") is None
    assert {"9" * 5000: 1} == flat({"m." + "9" * 5000: 1}, "m")
    assert flat({"n.0": 1}, "m") is None


def test_json_text_is_cut_wherever_it_ends_too_early() -> None:
    text = '{"args": ["Zürich \\"now\\"", {"n": -1.5e3, "t": true, "z": null}], "kwargs": {}}'

    assert [length for length in range(1, len(text)) if not is_cut(text[:length])] == []
    assert not is_cut(text)


@pytest.mark.parametrize(
    "value", ['{"a": 1} is no JSON', '"Yes," he wrote', "[sic] as he wrote", "plain", "", None, {}]
)
def test_text_that_a_user_wrote_is_not_cut(value: object) -> None:
    assert not is_cut(value)
