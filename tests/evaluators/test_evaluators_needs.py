"""Missing data of a conversation is reported by name with a remedy; present data is not reported."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

import pytest
from inline_snapshot import snapshot

from otel_agentic.config import ScoringSettings
from otel_agentic.conversations.model import ModelUse, Turn
from otel_agentic.evaluators.base import (
    Need,
    Subject,
    case_turn_of,
    expectations_of,
    first_missing,
    missing,
    turn_missing,
)
from otel_agentic.judges import ExactJudge
from otel_agentic.scoring import MatchedConversation, score_conversations
from otel_agentic.testing import conversation, tool_call, turn
from otel_agentic.truth import Case, CaseIndex, parse_cases
from otel_agentic.truth.load import Label

FULL = turn(
    "hi",
    "Hello.",
    tool_call("look", {"a": 1}, result=3),
    models=(ModelUse(model="m", calls=1, input_tokens=5),),
    plans=("look",),
)
CASE = """{"case_id": "k", "goal": "g", "expected_state": {}, "plan": ["look"], "minimum_steps": 1,
    "turns": [{"query": "hi", "answer": "Hello.", "tools": {"calls": []}, "reference_topics": ["greetings"]}]}"""


def case(text: str = CASE) -> Case:
    (results,) = parse_cases("cases.jsonl", text.replace("\n", " ")).require()
    return results


def about(*turns: Turn, case: Case | None = None, **changes: Any) -> Subject:
    return Subject(
        conversation=conversation(*turns, **changes), case=case, score=None, aligned={0: 0}, settings=ScoringSettings()
    )


EMPTY = about()
EMPTY = replace(EMPTY, conversation=replace(EMPTY.conversation, turns=()))


def test_what_is_there_is_not_missed() -> None:
    total = about(FULL, case=case(), tool_definitions={"look": None}, final_state={})

    assert {"score"} == {need for need in get_args(Need) if missing(total, need) is not None}
    assert missing(total, "score") == snapshot(
        ("no_data", "the conversation has no score yet; `otel-agentic evaluate`")
    )


@pytest.mark.parametrize(
    ("need", "lacking", "reason", "explanation"),
    [
        ("turns", EMPTY, "empty", "the conversation has no turn"),
        ("answers", EMPTY, "empty", "the conversation has no turn"),
        ("queries", about(turn(None)), "no_data", "turn 1 has no query"),
        (
            "queries",
            about(turn(None, query_captured=False)),
            "content_not_captured",
            "the query of turn 1 was not recorded",
        ),
        (
            "answers",
            about(turn("a", None), turn("b", None)),
            "no_data",
            "turn 1 has no answer (and of 1 more turns)",
        ),
        (
            "answers",
            about(turn("a", None), turn("b", None, answer_captured=False)),
            "content_not_captured",
            "the answer of turn 2 was not recorded",
        ),
        ("calls", about(turn("a")), "no_data", "no tool was called in turn 1"),
        ("arguments", about(turn("a")), "no_data", "no tool was called in turn 1"),
        (
            "arguments",
            about(turn("a", "b", replace(tool_call("look"), arguments=None))),
            "content_not_captured",
            "the arguments of the calls of turn 1 were not recorded",
        ),
        (
            "results",
            about(turn("a", "b", tool_call(result_captured=False))),
            "content_not_captured",
            "the results of the calls of turn 1 were not recorded",
        ),
        ("results", about(turn("a", "b", tool_call(error="no"))), "no_data", "every call of turn 1 ended in an error"),
        ("definitions", about(turn("a")), "tool_definitions_not_recorded", "`gen_ai.tool.definitions`"),
        ("plan", about(turn("a")), "no_data", "the agent wrote down no plan in turn 1"),
        ("usage", about(turn("a")), "model_calls_not_recorded", "no model call of turn 1"),
        (
            "usage",
            about(turn("a", models=(ModelUse(model="m", calls=1),))),
            "tokens_not_recorded",
            "the model calls of turn 1",
        ),
        ("state", about(turn("a")), "state_not_recorded", "`agentic.final_state`"),
        ("case", about(turn("a")), "unmatched", "no case belongs to the conversation"),
        ("goal", about(turn("a")), "unmatched", "no case belongs to the conversation"),
    ],
)
def test_missing_data_is_reported_with_its_reason(need: Need, lacking: Subject, reason: str, explanation: str) -> None:
    results = missing(lacking, need)

    assert results is not None
    assert reason == results[0]
    assert explanation in results[1]


@pytest.mark.parametrize(
    ("need", "explanation"),
    [
        ("expected_tools", "the expected tool calls (`tools`)"),
        ("expected_answer", "an answer (`turns[].answer`)"),
        ("expected_state", "a state at the end (`expected_state`)"),
        ("expected_plan", "a plan (`plan`)"),
        ("goal", "a goal (`goal`)"),
        ("minimum_steps", "the minimum number of steps (`minimum_steps`)"),
        ("reference_topics", "topics (`turns[].reference_topics`)"),
    ],
)
def test_a_missing_annotation_is_reported_with_its_field(need: Need, explanation: str) -> None:
    bare = about(FULL, case=case('{"case_id": "bare", "turns": [{"query": "hi"}]}'))

    assert ("no_data", f"case 'bare' does not annotate {explanation}") == missing(bare, need)
    assert missing(bare, "case") is None


@pytest.mark.parametrize(
    ("cases", "reason", "explanation"),
    [
        (
            '{"case_id": "a", "turns": [{"query": "hi"}]}\n{"case_id": "b", "turns": [{"query": "hi"}]}',
            "ambiguous",
            "fit",
        ),
        ('{"case_id": "a", "reviewed": false, "turns": [{"query": "hi"}]}', "unreviewed", "is a draft"),
    ],
)
@pytest.mark.parametrize("verdict", [None, False])
def test_the_score_gives_the_reason_without_a_case_even_if_a_verdict_is_given(
    cases: str, reason: str, explanation: str, *, verdict: bool | None
) -> None:
    item = conversation(turn("hi", "Hello."))
    label = Label(conversation_id=item.conversation_id, case_id=None, verdict=verdict, line=1)
    index = CaseIndex(parse_cases("c.jsonl", cases).require())
    matched = MatchedConversation(conversation=item, match=index.match(item, label), label=label)
    (score,) = score_conversations([matched], judge=ExactJudge(), settings=ScoringSettings())

    results = missing(
        Subject(conversation=item, case=None, score=score, aligned={}, settings=ScoringSettings()), "expected_tools"
    )

    assert results is not None
    assert reason == results[0]
    assert explanation in results[1]


def test_the_case_is_missed_first_and_then_what_it_lacks() -> None:
    bare = about(turn("a", None), case=case('{"case_id": "bare", "turns": [{"query": "a"}]}'))

    assert ("unmatched",) == (first_missing(about(turn("a", None)), {"answers", "goal"}) or ())[:1]
    assert first_missing(bare, {"answers", "goal"}) == snapshot(
        ("no_data", "case 'bare' does not annotate a goal (`goal`)")
    )
    assert first_missing(bare, {"answers", "queries", "judge", "prices"}) == snapshot(
        ("no_data", "turn 1 has no answer")
    )
    assert first_missing(bare, {"queries"}) is None


def test_a_turn_without_an_answer_keeps_its_query_and_has_no_case_turn() -> None:
    silent = turn("b", None, index=1)
    subject = about(FULL, silent, case=case())

    assert turn_missing(silent, "queries") is turn_missing(silent, "goal") is None
    assert subject.case is not None
    assert subject.case.turns[0] == case_turn_of(subject, FULL)
    assert case_turn_of(subject, silent) is None
    assert 1 == len(expectations_of(subject.case))
