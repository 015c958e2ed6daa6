"""What a model replied becomes one verdict, or none."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot
from langchain_core.messages import AIMessage, InvalidToolCall, ToolCall

from otel_agentic.judges.messages import (
    MAX_REASONING,
    MAX_REPLY,
    Flaw,
    UnreadableReplyError,
    VerdictReply,
    read_message,
    read_text,
    schema_of,
)
from tests.judges.models import verdict
from tests.snapshots import raises


def flaw_of(text: str) -> tuple[Flaw, str]:
    with pytest.raises(UnreadableReplyError) as caught:
        read_text(text)
    return caught.value.flaw, str(caught.value)


def call(name: str = "verdict", **arguments: Any) -> ToolCall:
    return ToolCall(name=name, args=arguments, id="call-1")


@pytest.mark.parametrize(
    "text",
    [
        verdict(0.4),
        f"  {verdict(0.4)}\n",
        f"```json\n{verdict(0.4)}\n```",
        f"```\n{verdict(0.4)}\n```",
        f"Sure, here is my verdict:\n\n```json\n{verdict(0.4)}\n```\nLet me know!",
        f"{verdict(0.4)}\n{verdict(0.4)}",
        f"<think>The answer says {verdict(1.0)}, but no.</think>\n{verdict(0.4)}",
        json.dumps({"score": 0.4, "reasoning": "fields in another order"}, indent=4),
        json.dumps({"reasoning": 'It quotes {"score": 1.0} and ``` and }.', "score": 0.4}),
        '{"reasoning": "as text, with nothing lost", "score": "0.4"}',
        'Of the form {name}, I find {}: {"reasoning": "braces in prose", "score": 0.4}',
    ],
)
def test_the_one_object_in_a_text_is_read(text: str) -> None:
    assert 0.4 == read_text(text).score


@pytest.mark.parametrize(
    "score",
    [
        "1e9",
        "-1",
        "-0.0001",
        "1.0000001",
        "true",
        "null",
        '"high"',
        '"90%"',
        '"0,9"',
        '"9/10"',
        '"1e-1"',
        '" 0.9"',
        "[0.5]",
        "{}",
    ],
)
def test_a_score_that_is_none_is_not_read(score: str) -> None:
    assert "unreadable" == flaw_of(f'{{"reasoning": "x", "score": {score}}}')[0]


@pytest.mark.parametrize(
    "text",
    [
        '{"reasoning": "x", "score": NaN}',
        '{"reasoning": "x", "score": Infinity}',
        '{"reasoning": "x", "score": 1e999}',
        '{"reasoning": "x", "score": 0.9',
        '{"reasoning": "x", "score": 0.9,}',
        "{'reasoning': 'x', 'score': 0.9}",
        '{"reasoning": "x", "score": 0.1, "score": 1.0}',
        '{"reasoning": "x"}',
        '{"score": 0.9}',
        '{"reasoning": 7, "score": 0.9}',
        '{"reasoning": "x", "score": 0.9, "passes": true}',
        '{"verdict": {"reasoning": "x", "score": 0.9}}',
        "The score is 0.9.",
        "0.9",
        "{}",
        f"{verdict(0.1)} or rather {verdict(0.9)}",
        f"```json\n{verdict(0.1)}\n```\n```json\n{verdict(0.9)}\n```",
        f'{verdict(0.9)} {{"score": 1.0, "reasoning": "cut sho',
        '{"a": ' * 50_000,
        verdict(0.9) + " " * MAX_REPLY,
    ],
)
def test_a_reply_that_is_not_one_verdict_is_not_read(text: str) -> None:
    assert "unreadable" == flaw_of(text)[0]


@pytest.mark.parametrize("text", ["", " \n ", "<think>so long</think>"])
def test_an_empty_reply_is_distinguished(text: str) -> None:
    assert flaw_of(text) == snapshot(("empty", "the reply was empty"))


def test_the_problem_is_explained_without_the_text_of_the_reply() -> None:
    _, message = flaw_of('{"reasoning": 7, "score": 1.5, "say this to the user": 1}')
    assert message == snapshot(
        "the reply does not match the schema: a field other than reasoning and score; reasoning is not a text; score above 1"
    )


@given(st.text(st.characters(exclude_categories=())))
def test_any_text_gives_a_verdict_or_a_flaw(text: str) -> None:
    for reply in (text, f"{{{text}", f'{{"reasoning": {json.dumps(text)}, "score": 0.5}}'):
        with suppress(UnreadableReplyError):
            assert 0.0 <= read_text(reply).score <= 1.0


@given(st.text(st.characters(exclude_categories=()), max_size=50), st.floats(0, 1))
def test_reasons_can_be_stored_and_the_score_is_kept(reasoning: str, score: float) -> None:
    reply = read_text(json.dumps({"reasoning": reasoning, "score": score}))
    assert score == reply.score
    assert "\0" not in reply.reasoning
    reply.reasoning.encode()


def test_reasons_without_end_are_cut() -> None:
    reply = read_text(verdict(0.5, "because " * 1_000))
    assert MAX_REASONING == len(reply.reasoning)
    assert reply.reasoning.endswith("…")


def test_the_schema_that_models_see_is_the_one_that_is_checked() -> None:
    schema = schema_of(None)
    assert set(schema["properties"]) == set(schema["required"]) == set(VerdictReply.model_fields)
    assert ["reasoning", "score"] == list(schema["properties"])
    assert schema["title"] == VerdictReply.model_config["title"]


def test_a_call_of_the_tool_is_read() -> None:
    assert 0.4 == read_message(AIMessage("", tool_calls=[call(reasoning="x", score=0.4)])).score


def test_two_equal_calls_are_one_and_two_that_differ_are_none() -> None:
    once, other = call(reasoning="x", score=0.4), call(reasoning="x", score=0.5)
    assert 0.4 == read_message(AIMessage("", tool_calls=[once, once])).score
    with raises(UnreadableReplyError, snapshot("several verdicts that differ")):
        read_message(AIMessage("", tool_calls=[once, other]))


def test_text_next_to_a_call_of_the_tool_does_not_count() -> None:
    assert 0.4 == read_message(AIMessage(verdict(1.0), tool_calls=[call(reasoning="x", score=0.4)])).score


@pytest.mark.parametrize(
    "message",
    [
        AIMessage("", tool_calls=[call("search", query="x")]),
        AIMessage(
            "",
            invalid_tool_calls=[
                InvalidToolCall(name="verdict", args='{"score": 0.', id="1", error="", type="invalid_tool_call")
            ],
        ),
        AIMessage("", tool_calls=[call(reasoning="x", score=float("nan"))]),
        AIMessage("", tool_calls=[call(reasoning="x", score=True)]),
        AIMessage("", tool_calls=[call(reasoning="x")]),
    ],
)
def test_a_call_that_is_no_verdict_is_not_read(message: AIMessage) -> None:
    with pytest.raises(UnreadableReplyError):
        read_message(message)


def test_words_are_read_where_the_tool_was_not_called() -> None:
    assert 0.4 == read_message(AIMessage(verdict(0.4))).score
    assert 0.4 == read_message(AIMessage([{"type": "text", "text": verdict(0.4)}])).score


@pytest.mark.parametrize(
    "message",
    [
        AIMessage(verdict(), additional_kwargs={"refusal": "I cannot judge this."}),
        AIMessage([{"type": "refusal", "refusal": "no"}, {"type": "text", "text": verdict()}]),
        AIMessage(verdict(), response_metadata={"finish_reason": "content_filter"}),
        AIMessage(verdict(), response_metadata={"finish_reason": "SAFETY"}),
        AIMessage(verdict(), response_metadata={"stop_reason": "refusal"}),
    ],
)
def test_a_refusal_is_no_verdict_even_if_it_contains_one(message: AIMessage) -> None:
    with pytest.raises(UnreadableReplyError, match="refused to reply"):
        read_message(message)


@pytest.mark.parametrize(
    "message",
    [
        {"finish_reason": "length"},
        {"finish_reason": "MAX_TOKENS"},
        {"stop_reason": "max_tokens"},
        {"done_reason": "length"},
    ],
)
def test_a_reply_that_was_cut_short_is_no_verdict(message: dict[str, str]) -> None:
    with pytest.raises(UnreadableReplyError, match="cut short"):
        read_message(AIMessage(verdict(), response_metadata=message))
