"""Rows of evaluation datasets, row by row: order, names, repeated rows, and all problems reported together."""

from __future__ import annotations

import json
from typing import Any

import pytest
from inline_snapshot import snapshot

from otel_agentic.errors import CaseError
from otel_agentic.truth.formats.files import read_attempts
from tests.snapshots import opening

QUESTION = {"user_input": "Capital of France?", "response": "Paris", "reference": "Paris"}


def lines(*rows: Any) -> str:
    return "".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows)


def test_rows_come_in_their_order_with_file_line_and_name() -> None:
    text = lines(QUESTION, "", {**QUESTION, "id": 7}, {"user_input": "Capital of Spain?"})
    result = read_attempts("data/set.jsonl", text)

    assert [("data/set.jsonl", 1, "row-1"), ("data/set.jsonl", 3, "7"), ("data/set.jsonl", 4, "row-3")] == [
        (row.file, row.line, row.name) for row in result
    ]
    assert [True, True, False] == [row.conversation is not None for row in result]
    assert {"set"} == {row.case.dataset for row in result}


def test_a_json_list_is_read_too_with_the_line_of_each_row() -> None:
    result = read_attempts("set.json", json.dumps([QUESTION, QUESTION], indent=1))
    assert [("row-1", 2), ("row-2", 7)] == [(row.name, row.line) for row in result]


def test_a_row_that_repeats_its_id_is_a_further_attempt() -> None:
    result = read_attempts("set.jsonl", lines({**QUESTION, "id": "a"}, {**QUESTION, "id": "a", "response": "Lyon"}))
    assert [("a", "Paris"), ("a#2", "Lyon")] == [
        (row.name, row.conversation.turns[0].answer) for row in result if row.conversation
    ]
    assert result[0].case is result[1].case


def test_an_id_of_two_different_references_is_reported() -> None:
    with pytest.raises(CaseError) as message:
        read_attempts("set.jsonl", lines({**QUESTION, "id": "a"}, {**QUESTION, "id": "a", "reference": "Lyon"}))
    assert str(message.value) == snapshot(
        "set.jsonl:2: id: 'a' is already used on line 1, with other queries, or another reference or dataset; "
        "give each row its own"
    )


def test_an_id_that_looks_like_the_number_of_a_further_attempt_leaves_names_unique() -> None:
    result = read_attempts("set.jsonl", lines(*({**QUESTION, "id": name} for name in ("a", "a", "a#2", "a", "a#2"))))
    assert ["a", "a#2", "a#2#2", "a#3", "a#2#3"] == [row.name for row in result]


def test_all_invalid_rows_are_reported_together_with_file_line_and_field() -> None:
    with pytest.raises(CaseError) as message:
        read_attempts("set.jsonl", lines(QUESTION, "{nope", {"user_input": 5}, [1], {"response": "x"}))
    first, *more = str(message.value).split("\n")
    assert opening(first) == snapshot("set.jsonl:2: not JSON")
    assert more[:1] == snapshot(["set.jsonl:3: user_input: found 5; allowed: a text or a list of messages"])
    assert [":4:", ":5:"] == [line[9:12] for line in more[1:]]


@pytest.mark.parametrize("text", ["", "\n \n", "[]", '"x\x00"'])
def test_a_file_without_rows_is_reported(text: str) -> None:
    with pytest.raises(CaseError, match=r"^set\.jsonl"):
        read_attempts("set.jsonl", text)


def test_what_nothing_looks_at_is_named_by_row() -> None:
    (row,) = read_attempts("set.jsonl", lines({**QUESTION, "retrieved_contexts": ["x"], "rubrics": {}}))
    assert ("retrieved_contexts",) == row.left_out


def test_what_a_text_row_does_not_tell_of_calls_is_unknown_and_not_none() -> None:
    row = {"user_input": "Weather?", "response": "Sunny.", "reference_tool_calls": [{"name": "weather", "args": {}}]}
    untold, none_made = read_attempts("rows.jsonl", lines(row, {**row, "tool_calls": []}))

    assert untold.case.tools is None
    assert untold.left_out == snapshot(("reference_tool_calls without tool_calls",))
    assert none_made.case.tools is not None
    assert () == none_made.left_out
