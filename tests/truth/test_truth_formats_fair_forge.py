"""Fair Forge datasets: what becomes of them, and what of them has no place."""

from __future__ import annotations

import json
from typing import Any

import pytest
from inline_snapshot import snapshot

from otel_agentic.truth.formats import read_document
from tests.truth.foreign import call_fields, cases_of, lost, only_case, read

EXPECTED = {
    "expected_tools": [{"tool_name": "calc", "parameters": {"a": 1}, "step": 1}],
    "tool_sequence_matters": False,
}
USED = {
    "tools_used": [{"tool_name": "calc", "parameters": {"a": 1}, "step": 1, "result": 2}],
    "final_answer_uses_tools": True,
}


def session(name: str, assistant: str, *batches: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"session_id": name, "assistant_id": assistant, "context": "", "conversation": list(batches), **more}


def batch(query: str, assistant: str = "", truth: str = "", **more: Any) -> dict[str, Any]:
    return {"qa_id": "q", "query": query, "assistant": assistant, "ground_truth_assistant": truth, **more}


def test_a_fair_forge_session_is_a_case_and_a_conversation() -> None:
    result = read(
        session(
            "s", "bot", batch("1+1?", "2", "It is 2.", agentic=USED, ground_truth_agentic=EXPECTED), batch("Thanks")
        )
    )
    assert "fair-forge" == result.format
    assert only_case(result) == {
        "case_id": "s",
        "dataset": "set",
        "turns": [
            {
                "query": "1+1?",
                "answer": "It is 2.",
                "tools": {"calls": [{"tool_name": "calc", "parameters": {"a": 1}, "step": 1}]},
            },
            {"query": "Thanks"},
        ],
    }
    (made_conversation,) = result.conversations
    assert ("s", "bot", "s") == (
        made_conversation.conversation_id,
        made_conversation.agent_name,
        made_conversation.case_id,
    )
    first, second = made_conversation.turns
    assert ("1+1?", "2", [("calc", {"a": 1}, 1, 2)]) == (
        first.query,
        first.answer,
        [call_fields(call) for call in first.calls],
    )
    assert (True, None) == (first.calls[0].used_flag, second.answer)
    assert "full" == made_conversation.content_captured


@pytest.mark.parametrize(
    ("truth", "tools"),
    [
        ({"expected_tools": [], "tool_sequence_matters": False}, {"calls": []}),
        ({"expected_tools": [{"tool_name": "x"}]}, {"calls": [{"tool_name": "x"}], "order": "relative"}),
        (
            {"expected_tools": [{"tool_name": "x", "parameters": None}], "tool_sequence_matters": True},
            {"calls": [{"tool_name": "x"}], "order": "relative"},
        ),
        ({"expected_tools": [], "tool_sequence_matters": None}, {"calls": [], "order": "relative"}),
        ({}, None),
        (None, None),
    ],
)
def test_whether_the_sequence_matters_becomes_the_order(truth: Any, tools: Any) -> None:
    assert tools == only_case(read(session("s", "bot", batch("x", ground_truth_agentic=truth))))["turns"][0].get(
        "tools"
    )


def test_numbers_are_names_and_texts_too_and_a_query_may_be_missing() -> None:
    message: dict[str, Any] = {"qa_id": 3, "query": None, "assistant": 42, "ground_truth_assistant": 42, "logprobs": {}}
    result = read({"session_id": 7, "assistant_id": 1, "conversation": [message]})
    assert {"case_id": "7", "dataset": "set", "turns": [{"answer": "42"}]} == only_case(result)
    assert ("1", "42") == (result.conversations[0].agent_name, result.conversations[0].turns[0].answer)


def test_sessions_that_expect_the_same_are_attempts_at_one_case() -> None:
    result = read(
        session("s", "bot-1", batch("1+1?", "2", "2")),
        session("s", "bot-2", batch("1+1?", "3", "2")),
        session("t", "bot-3", batch("1+1?", "4", "2")),
        session("s", "bot-4", batch("2+2?", "4", "4")),
    )
    assert ["s", "s/bot-4"] == [case["case_id"] for case in cases_of(result)]
    assert [("s", "s"), ("s/bot-2", "s"), ("t", "s"), ("s/bot-4", "s/bot-4")] == [
        (str(attempt.conversation_id), attempt.case_id) for attempt in result.conversations
    ]


def test_sessions_without_an_answer_are_templates_and_stay_apart() -> None:
    result = read(session("s", "bot", batch("Hi")), session("t", "bot", batch("Hi")))
    assert ["s", "t"] == [case["case_id"] for case in cases_of(result)]
    assert () == result.conversations


def test_fields_of_fair_forge_without_a_counterpart_are_reported_unless_empty() -> None:
    result = read(
        session("s", "bot", batch("x", observation="easy", logprobs={}), language="german", context="Be kind.")
    )
    assert ["context", "conversation.observation", "language"] == sorted(lost(result))
    assert {loss.reason for loss in result.losses} == snapshot({"cases do not have this field"})


@pytest.mark.parametrize(
    ("broken", "problem"),
    [
        (session("s", "bot", batch("x"), dataset=""), 'dataset: found ""; allowed: a text that is not empty'),
        (session("", "bot"), 'session_id: found ""; allowed: a text that is not empty'),
        (session("s", "bot", {"assistant": "x"}), "conversation.0.query: missing; it is required here"),
        (session("s", "bot", batch("x", agentic=[])), "conversation.0.agentic: found []; allowed: an object"),
        (
            session("s", "bot", batch("x", ground_truth_agentic={"expected_tools": [{"tool_name": "x", "step": -1}]})),
            "conversation.0.ground_truth_agentic.expected_tools.0.step: found -1; allowed: a number of at least 0",
        ),
    ],
)
def test_a_bad_session_loses_no_other(broken: Any, problem: str) -> None:
    result = read_document("s.jsonl", "\n".join(json.dumps(item) for item in (session("ok", "bot"), broken)))
    assert ["ok"] == [case.case_id for case in result.cases]
    assert (f"s.jsonl:2: {problem}",) == result.problems
