"""RAGAS and NeMo Evaluator rows: what becomes of them, and what of them has no place."""

from __future__ import annotations

import json
from typing import Any

import pytest

from otel_agentic.truth.formats import read_document
from tests.truth.foreign import call_fields, cases_of, lost, only_case, read

HUMAN = [
    {"type": "human", "content": "Book a table"},
    {
        "type": "ai",
        "content": "Looking.",
        "tool_calls": [{"name": "search", "args": {"q": "x"}}, {"name": "map", "args": {}}],
    },
    {"type": "tool", "content": '{"ok": true}'},
    {"type": "tool", "content": "Error: no map"},
    {"type": "ai", "content": "At which time?"},
    {"type": "human", "content": "8 pm"},
    {"type": "ai", "content": "Booked."},
]
OPENAI = [
    {"role": "system", "content": "Be kind."},
    {"role": "assistant", "content": "How can I help?"},
    {"role": "user", "content": [{"type": "text", "text": "Book a table"}]},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "search", "arguments": '{"q": "x"}'}},
            {"id": "c2", "type": "function", "function": {"name": "map", "arguments": "{}"}},
        ],
    },
    {"role": "tool", "tool_call_id": "c2", "content": "Error: no map"},
    {"role": "tool", "tool_call_id": "c1", "content": '{"ok": true}'},
    {"role": "assistant", "content": "At which time?"},
    {"role": "user", "content": "8 pm"},
    {"role": "assistant", "content": "Booked."},
]


@pytest.mark.parametrize("messages", [HUMAN, OPENAI])
def test_a_row_of_messages_of_either_form_is_a_conversation(messages: list[dict[str, Any]]) -> None:
    result = read(
        {
            "user_input": messages,
            "reference": "A table is booked.",
            "reference_tool_calls": [{"name": "search", "args": {"q": "x"}}],
            "reference_topics": ["restaurants"],
        }
    )
    assert ("ragas", "row-1") == (result.format, only_case(result)["case_id"])
    assert only_case(result) == {
        "case_id": "row-1",
        "dataset": "set",
        "turns": [
            {"query": "Book a table", "reference_topics": ["restaurants"]},
            {"query": "8 pm", "reference_topics": ["restaurants"]},
        ],
        "tools": {"calls": [{"tool_name": "search", "parameters": {"q": "x"}}], "order": "relative"},
        "goal": "A table is booked.",
    }
    (attempt,) = result.conversations
    assert [("Book a table", "At which time?"), ("8 pm", "Booked.")] == [(t.query, t.answer) for t in attempt.turns]
    assert [("search", {"q": "x"}, 1, {"ok": True}), ("map", {}, 1, "Error: no map")] == [
        call_fields(call) for call in attempt.turns[0].calls
    ]
    assert [None, "Error: no map"] == [call.error for call in attempt.turns[0].calls]


def test_a_row_with_a_question_has_the_reference_as_its_answer() -> None:
    result = read(
        {"user_input": "Capital of France?", "response": "Lyon", "reference": "Paris", "retrieved_contexts": ["x"]},
        {"user_input": "Capital of France?", "response": "Paris", "reference": "Paris"},
        {"user_input": "Capital of Spain?", "reference": "Madrid", "id": 7},
    )
    assert [("row-1", "Paris"), ("7", "Madrid")] == [
        (case["case_id"], case["turns"][0]["answer"]) for case in cases_of(result)
    ]
    assert [("row-1", "Lyon"), ("row-1", "Paris")] == [
        (attempt.case_id, attempt.turns[0].answer) for attempt in result.conversations
    ]
    assert ["retrieved_contexts"] == lost(result)


def test_a_response_answers_the_last_turn_where_no_message_does() -> None:
    (attempt,) = read({"user_input": [{"role": "user", "content": "Hi"}], "response": "Hello"}).conversations
    assert "Hello" == attempt.turns[0].answer


def test_text_next_to_calls_is_the_answer_only_if_there_is_no_other() -> None:
    question = {"type": "human", "content": "Hi"}
    alongside = {"type": "ai", "content": {"text": "On it.", "tool_calls": [{"name": "x", "args": {}}]}}
    (attempt,) = read({"user_input": [question, alongside]}).conversations
    assert ("On it.", ["x"]) == (attempt.turns[0].answer, [call.name for call in attempt.turns[0].calls])


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ({"user_input": 5}, "user_input: found 5; allowed: a text or a list of messages"),
        ({"user_input": None}, "user_input: found null; allowed: a text or a list of messages"),
        (
            {"user_input": [{"role": "robot", "content": "x"}]},
            (
                "user_input.0: found type or role 'robot'; allowed: "
                "human, user, ai, assistant, tool, function, system, developer"
            ),
        ),
        ({"user_input": [{"role": "user", "content": 5}]}, "user_input.0.content: found 5; allowed: a text"),
        ({"user_input": [3]}, "user_input.0: found 3; allowed: an object"),
        ({"user_input": "x", "reference": ["3"]}, 'reference: found ["3"]; allowed: a text'),
        (
            {"user_input": "x", "reference_tool_calls": [{"name": "a", "args": "nope"}]},
            'reference_tool_calls.0.args: found "nope"; allowed: an object',
        ),
        (
            {"user_input": "x", "reference_tool_calls": [{"args": {}}]},
            "reference_tool_calls.0.name: missing; it is required here",
        ),
    ],
)
def test_an_invalid_row_is_reported_with_its_field(row: dict[str, Any], problem: str) -> None:
    assert (f"r.jsonl:1: {problem}",) == read_document("r.jsonl", json.dumps(row)).problems


def test_rows_in_csv_hold_nested_values_as_json() -> None:
    text = 'user_input,reference,reference_tool_calls\nHi,Hello,"[{""name"": ""x"", ""args"": {}}]"\n'
    case = only_case(read_document("rows.csv", text))
    assert ("ragas", "Hello", ["x"]) == (
        read_document("rows.csv", text).format,
        case["turns"][0]["answer"],
        [call["tool_name"] for call in case["tools"]["calls"]],
    )


def test_rows_in_csv_hold_nested_values_as_ragas_writes_them() -> None:
    row = {"user_input": HUMAN, "reference_topics": ["it's a table"], "retrieved_contexts": [None, True]}
    cells = ",".join('"' + str(value).replace('"', '""') + '"' for value in row.values())
    result = read_document("rows.csv", f"{','.join(row)}\n{cells}\n")
    assert ["Book a table", "8 pm"] == [turn["query"] for turn in only_case(result)["turns"]]
    assert ["it's a table"] == only_case(result)["turns"][0]["reference_topics"]
    assert ["retrieved_contexts"] == lost(result)


@pytest.mark.parametrize("query", ["[EXTERNAL] Where is it?", "{name}, hello", "[1, 2", "{" * 5000])
def test_a_cell_that_only_begins_like_a_list_is_a_text(query: str) -> None:
    assert query == only_case(read_document("rows.csv", f'user_input,reference\n"{query}",x\n'))["turns"][0]["query"]


def test_what_tools_are_given_and_answer_need_not_be_text() -> None:
    calls = [{"id": "c1", "type": "function", "function": {"name": "ping", "arguments": ""}}]
    messages = [
        {"role": "user", "content": "Ping"},
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "tool_call_id": "c1", "content": {"up": True}},
    ]
    (turn,) = read({"user_input": messages, "reference": "It is up."}).conversations[0].turns
    assert [("ping", {}, 1, {"up": True})] == [call_fields(call) for call in turn.calls]


def test_a_number_is_accepted_as_a_text() -> None:
    result = read({"user_input": "2+2?", "reference": 4, "response": 4.5})
    assert ("4", "4.5") == (only_case(result)["turns"][0]["answer"], result.conversations[0].turns[0].answer)
