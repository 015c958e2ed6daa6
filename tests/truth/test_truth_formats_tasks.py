"""Outcome-style cases, ADK eval sets and tau-bench tasks: what becomes of them, and what of them has no place."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Final

import pytest
from inline_snapshot import snapshot

from otel_agentic.truth.formats import read_document, write_document
from otel_agentic.truth.formats.tau_bench import READS
from otel_agentic.truth.model import Case
from tests.truth.foreign import cases_of, lost, only_case, read


def test_an_outcome_names_tools_and_fields_of_the_end_state() -> None:
    result = read(
        {
            "id": "r1",
            "description": "must finalize first",
            "source": "incident",
            "inputs": {"task": "Send invoice 1", "invoice_status": "draft"},
            "expected_outcome": {"tools_called": ["finalize", "send"], "invoice_status": "sent"},
        },
        {
            "id": 2,
            "query": "Delete it",
            "tags": ["regression"],
            "expected_outcome": {
                "tools_called": [{"tool": "find", "args": {"id": 1}}],
                "tools_not_called": ["drop_*"],
                "final_state": {"there": False},
                "response": "Gone.",
            },
        },
        {"id": "t", "input": {"message": "Hi"}, "expected_outcome": "The user is greeted"},
    )
    any_arguments = {"ignore_extra_parameters": True}
    assert "outcome" == result.format
    assert cases_of(result) == [
        {
            "case_id": "r1",
            "dataset": "set",
            "turns": [{"query": "Send invoice 1"}],
            "tools": {
                "calls": [{"tool_name": "finalize", **any_arguments}, {"tool_name": "send", **any_arguments}],
                "extra_calls": "allow",
            },
            "expected_state": {"invoice_status": "sent"},
            "notes": "must finalize first",
            "metadata": {"source": "incident", "inputs": {"invoice_status": "draft"}},
        },
        {
            "case_id": "2",
            "dataset": "set",
            "tags": ["regression"],
            "turns": [{"query": "Delete it", "answer": "Gone."}],
            "tools": {
                "calls": [{"tool_name": "find", "parameters": {"id": 1}}],
                "extra_calls": "allow",
                "forbidden": ["drop_*"],
            },
            "expected_state": {"there": False},
        },
        {"case_id": "t", "dataset": "set", "turns": [{"query": "Hi"}], "goal": "The user is greeted"},
    ]
    assert [] == lost(result)


OUTCOME: Final[dict[str, Any]] = {"id": "a", "expected_outcome": {"tools_called": ["send"]}}


@pytest.mark.parametrize(
    ("fields", "metadata"),
    [
        ({"inputs": {"task": "Send it", "invoice_status": "draft"}}, {"inputs": {"invoice_status": "draft"}}),
        ({"grader": {"type": "state", "threshold": 1}, "source": "incident-7"}, None),
        ({"inputs": {"invoice_status": "draft"}}, None),
        ({"query": "Send it", "input": "Another text", "prompt": "p"}, {"input": "Another text", "prompt": "p"}),
        ({"query": "Send it", "inputs": ["a list"]}, {"inputs": ["a list"]}),
        ({"query": "Send it", "source": "", "grader": None}, {}),
        ({"inputs": {"invoice_status": "draft", "prompt": "Send it", "message": "m"}, "name": "n"}, {
            "inputs": {"invoice_status": "draft", "message": "m"}, "name": "n",
        }),
    ],
)  # fmt: skip
def test_fields_of_an_outcome_that_are_no_expectation_are_kept_and_written_again(
    fields: dict[str, Any], metadata: dict[str, Any] | None
) -> None:
    result = read({**OUTCOME, **fields})
    (case,) = result.require()
    assert ([], fields if metadata is None else metadata) == (lost(result), case.metadata)
    again = read(*json.loads(write_document([case], "outcome").text))
    assert case.turns == again.require()[0].turns
    assert ("name" in fields) or case == again.require()[0]


def test_the_version_of_a_case_without_metadata_is_what_it_was_before_metadata() -> None:
    plain = {"case_id": "a", "turns": [{"query": "Hi", "answer": "Hello"}]}
    content = json.dumps(plain, sort_keys=True, separators=(",", ":"))
    expected = hashlib.sha256(content.encode()).hexdigest()[:16]
    assert expected == Case.model_validate(plain).version == Case.model_validate({**plain, "metadata": {}}).version
    assert expected != Case.model_validate({**plain, "metadata": {"source": "x"}}).version


def test_an_invalid_outcome_is_reported_with_its_field() -> None:
    result = read({"id": "a", "expected_outcome": 5}, {"id": "b", "expected_outcome": {"tools_called": [{"nme": 1}]}})
    assert result.problems == snapshot(
        (
            "set.json:1: expected_outcome: found 5; allowed: an object",
            "set.json:1: expected_outcome.tools_called.0.name: missing; it is required here",
        )
    )


def invocation(query: str, **more: Any) -> dict[str, Any]:
    return {"invocation_id": "i", "user_content": {"role": "user", "parts": [{"text": query}]}, **more}


def test_an_eval_set_of_adk_is_a_dataset() -> None:
    uses = {"tool_uses": [{"id": "u", "name": "set", "args": {"id": 1}}], "intermediate_responses": []}
    final = {"role": "model", "parts": [{"text": "It is on."}]}
    eval_set = {
        "eval_set_id": "home",
        "name": "Home",
        "eval_cases": [
            {
                "eval_id": "on",
                "conversation": [
                    invocation("Light on", final_response=final, intermediate_data=uses, rubrics=[{"rubric_id": "x"}]),
                    invocation("Thanks", intermediate_data={}),
                    invocation("Bye", intermediate_data={"tool_uses": []}),
                ],
                "session_input": {"app_name": "home", "user_id": "u", "state": {"room": 1}},
                "final_session_state": {"light": "on"},
            },
            {
                "eval_id": "plan",
                "conversation_scenario": {"starting_prompt": "Hi", "conversation_plan": "Ask for light"},
            },
        ],
    }
    result = read_document("home.evalset.json", json.dumps(eval_set))
    assert "adk" == result.format
    assert cases_of(result) == [
        {
            "case_id": "on",
            "dataset": "home",
            "turns": [
                {
                    "query": "Light on",
                    "answer": "It is on.",
                    "tools": {"calls": [{"tool_name": "set", "parameters": {"id": 1}}], "order": "exact"},
                },
                {"query": "Thanks"},
                {"query": "Bye", "tools": {"calls": []}},
            ],
            "expected_state": {"light": "on"},
        },
        {"case_id": "plan", "dataset": "home", "turns": [{"query": "Hi"}], "goal": "Ask for light"},
    ]
    assert ["conversation.rubrics", "session_input.state"] == lost(result)


def test_adk_in_camel_case_and_with_events_is_read_too() -> None:
    event = {
        "author": "a",
        "content": {"parts": [{"functionCall": {"name": "set", "args": {"id": 2}}}, {"text": "ok"}]},
    }
    held = {"userContent": {"parts": [{"text": "Off"}]}, "intermediateData": {"invocationEvents": [event]}}
    text = json.dumps({"evalSetId": "home", "evalCases": [{"evalId": "off", "conversation": [held]}]})
    case = only_case(read_document("x.json", text))
    assert ("home", "off") == (case["dataset"], case["case_id"])
    assert ["set"] == [call["tool_name"] for call in case["turns"][0]["tools"]["calls"]]


def test_the_older_forms_of_adk_are_read_too() -> None:
    turn = {"query": "Roll", "expected_tool_use": [{"tool_name": "roll", "tool_input": {"sides": 6}}], "reference": "4"}
    turns = [
        {
            "query": "Roll",
            "answer": "4",
            "tools": {"calls": [{"tool_name": "roll", "parameters": {"sides": 6}}], "order": "exact"},
        }
    ]
    named = only_case(read({"name": "dice", "data": [turn], "initial_session": {"state": {}}}))
    assert {"case_id": "dice", "dataset": "set", "turns": turns} == named
    bare = only_case(read(turn, turn, name="dice.test.json"))
    assert {"case_id": "dice", "dataset": "dice", "turns": turns * 2} == bare


def test_an_invalid_eval_case_is_reported_with_its_field() -> None:
    text = '[{"query": "a", "expected_tool_use": []},\n {"query": 3, "expected_tool_use": []}]'
    assert read_document("d.json", text).problems == snapshot(("d.json:2: data.1.query: found 3; allowed: a text",))
    assert read({"eval_id": "x"}).problems == snapshot(
        ("set.json:1: an eval case has either `conversation` or `conversation_scenario`",)
    )


def test_a_tau_bench_task_requires_what_writes_and_leaves_reading_free() -> None:
    result = read(
        {
            "annotator": "0",
            "user_id": "mia",
            "instruction": "You are Mia.",
            "actions": [
                {"name": "get_user", "kwargs": {"id": "mia"}},
                {"name": "book", "arguments": {"seat": 1}},
                {"name": "respond", "kwargs": {"content": "Done."}},
            ],
            "outputs": ["327"],
        }
    )
    assert "tau-bench" == result.format
    assert only_case(result) == {
        "case_id": "0",
        "dataset": "set",
        "tools": {
            "calls": [
                {"tool_name": "get_user", "parameters": {"id": "mia"}, "required": False},
                {"tool_name": "book", "parameters": {"seat": 1}},
            ],
            "extra_calls": {"read": "allow", "write": "forbid"},
        },
        "outputs": ["327"],
        "effects": dict.fromkeys(READS, "read"),
        "goal": "You are Mia.",
    }
    assert ["user_id"] == lost(result)


def test_a_task_of_the_second_tau_bench_leaves_out_what_the_user_does() -> None:
    result = read(
        {
            "id": "t0",
            "user_scenario": {"instructions": {"reason_for_call": "Cancel X. ", "task_instructions": "Insist."}},
            "evaluation_criteria": {
                "actions": [
                    {"action_id": "0", "name": "cancel", "arguments": {"id": "X"}, "info": None},
                    {"action_id": "1", "name": "reboot", "arguments": {}, "requestor": "user"},
                    {"action_id": "2", "name": "note", "arguments": {"id": 1, "text": "x"}, "compare_args": ["id"]},
                ],
                "communicate_info": ["4"],
                "nl_assertions": ["be kind"],
            },
        },
        {"id": "t1", "user_scenario": {"instructions": "Ask."}, "evaluation_criteria": None},
    )
    first, second = cases_of(result)
    assert ("t0", "Cancel X.\n\nInsist.", ["4"]) == (first["case_id"], first["goal"], first["outputs"])
    assert [
        {"tool_name": "cancel", "parameters": {"id": "X"}},
        {"tool_name": "note", "parameters": {"id": 1}, "ignore_extra_parameters": True},
    ] == first["tools"]["calls"]
    assert ("Ask.", []) == (second["goal"], second["tools"]["calls"])
    assert ["evaluation_criteria.nl_assertions"] == lost(result)


def test_an_invalid_task_is_reported_with_its_field() -> None:
    assert read({"instruction": "x", "actions": "none"}).problems == snapshot(
        ('set.json:1: actions: found "none"; allowed: a list',)
    )
