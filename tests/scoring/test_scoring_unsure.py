"""A verdict that does not decide: the turn and its conversation stay open, and what failed all the same is known."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from otel_agentic.config import ScoringSettings
from otel_agentic.evaluators.base import Subject
from otel_agentic.evaluators.failures import core_scores
from otel_agentic.judges import JudgeFailure, Question, Verdict
from otel_agentic.judges.registry import FunctionJudge
from otel_agentic.scoring.parts import Part, combine, failed, not_evaluated, passed
from otel_agentic.truth import CaseIndex, parse_cases
from tests.scoring.test_scoring_outcome import call, conversation, scored, turn
from tests.snapshots import passage

if TYPE_CHECKING:
    from otel_agentic.scoring import ConversationScore

QUERIES = ("Capital of France?", "Capital of Italy?")


def by_word(question: Question) -> Verdict | JudgeFailure:
    """Judge an answer by its own word."""
    if question.answer == "broken":
        return JudgeFailure(reason="judge_error", message="timeout", tries=1)
    scores = {"right": 0.9, "unsure": 0.5, "wrong": 0.1}
    return Verdict(score=scores[question.answer], reasoning=question.answer, unsure=question.answer == "unsure")


def messages(
    *answers: str,
    tools: dict[str, Any] | None = None,
    verdict: bool | None = None,
    judge: FunctionJudge | None = None,
    **rules: Any,
) -> ConversationScore:
    """The score of a conversation whose answers are judged by their own word."""
    turns = [{"query": query, "answer": "x"} for query in QUERIES]
    case = {"case_id": "c", "turns": turns, **({} if tools is None else {"tools": tools})}
    index = CaseIndex(parse_cases("d.jsonl", json.dumps(case)).require())
    actual = conversation(
        *(turn(query, answer) for query, answer in zip(QUERIES, answers, strict=False)), closed_by="end_mark"
    )
    return scored(index, actual, verdict=verdict, judge=judge or FunctionJudge(by_word), **rules)


def test_an_unsure_answer_leaves_its_turn_and_conversation_open_and_keeps_its_score() -> None:
    result = messages("unsure", "right")
    assert (result.outcome, result.reason, result.known_failure) == ("not_evaluated", "judge_unsure", None)
    first, second = result.turns
    assert (first.outcome, first.answer_reason, first.answer_score) == ("not_evaluated", "judge_unsure", 0.5)
    assert (second.outcome, second.answer_score) == ("pass", 0.9)
    assert passage(result.explanation) == snapshot("scores 0.50, of which the judge is unsure: unsure")
    assert not result.partial


@pytest.mark.parametrize(
    ("answers", "tools", "known"),
    [
        (("unsure", "wrong"), None, "wrong_answer"),
        (("wrong", "unsure"), None, "wrong_answer"),
        (("unsure", "right"), {"calls": [{"tool_name": "book"}]}, "tool_fault"),
        (("unsure",), None, "missing_turn"),
        (("unsure", "broken"), None, None),
    ],
)
def test_an_unsure_answer_outweighs_what_failed_and_the_failure_is_known(
    answers: tuple[str, ...], tools: dict[str, Any] | None, known: str | None
) -> None:
    result = messages(*answers, tools=tools)
    assert (result.outcome, result.reason, result.known_failure) == ("not_evaluated", "judge_unsure", known)
    assert result.partial == (known is not None)


def test_other_reasons_keep_the_rule_that_a_known_failure_suffices() -> None:
    result = messages("broken", "wrong")
    assert (result.outcome, result.reason, result.known_failure) == ("fail", "wrong_answer", None)


def test_an_unsure_answer_that_decides_nothing_leaves_the_conversation_evaluated() -> None:
    expected = {"calls": [], "extra_calls": "allow"}
    turns = [{"query": QUERIES[0], "answer": "x", "tools": expected}]
    index = CaseIndex(parse_cases("d.jsonl", json.dumps({"case_id": "c", "turns": turns})).require())
    actual = conversation(turn(QUERIES[0], "unsure", call("look")))
    results = [
        scored(index, actual, judge=FunctionJudge(by_word), criteria=(criterion,))
        for criterion in ("tools", "annotated")
    ]
    assert [result.outcome for result in results] == ["pass", "not_evaluated"]


@pytest.mark.parametrize("verdict", [True, False])
def test_a_persons_verdict_stands_above_an_unsure_judge(*, verdict: bool) -> None:
    result = messages("unsure", "wrong", verdict=verdict)
    assert (result.outcome, result.outcome_source) == ("pass" if verdict else "fail", "labels")
    assert (result.computed_outcome, result.computed_reason) == ("not_evaluated", "judge_unsure")
    assert not result.partial


def test_failures_of_an_open_conversation_are_listed() -> None:
    def listed(*answers: str) -> list[tuple[str | None, int | None]]:
        subject = Subject(
            conversation=conversation(), score=messages(*answers), case=None, aligned={}, settings=ScoringSettings()
        )
        return [(item.label, item.turn_index) for item in core_scores(subject)]

    assert listed("unsure", "wrong") == [("wrong_answer", 1)]
    assert listed("unsure", "right") == []


def test_a_parameter_that_the_judge_is_unsure_about_leaves_the_tools_open() -> None:
    class OfParameters(FunctionJudge):
        kinds = frozenset({"answer", "parameter"})

    expected = {"calls": [{"tool_name": "book", "parameters": {"note": "quiet"}, "match": {"note": "judge"}}]}
    index = CaseIndex(
        parse_cases("d.jsonl", json.dumps({"case_id": "c", "tools": expected, "turns": [{"query": "q"}]})).require()
    )
    actual = conversation(turn("q", "done", call("book", arguments={"note": "silent"})))
    judge = OfParameters(lambda _: Verdict(score=0.5, reasoning="perhaps", unsure=True))
    result = scored(index, actual, judge=judge)
    assert (result.outcome, result.reason) == ("not_evaluated", "judge_unsure")
    assert [tools.reason for tools in result.tools] == ["judge_unsure"]


PARTS = st.sampled_from(
    [
        passed("p"),
        failed("wrong_answer", "w"),
        failed("tool_fault", "t"),
        not_evaluated("judge_error", "e"),
        not_evaluated("judge_unsure", "u"),
    ]
)


@given(st.lists(PARTS, min_size=1, max_size=5), st.integers(0, 5))
def test_parts_add_up_the_same_in_whichever_groups_they_are_added(parts: list[Part], cut: int) -> None:
    """Turns add up answers and tools, conversations add up turns: that an unsure part is among them must not get lost."""
    groups = [group for group in (parts[:cut], parts[cut:]) if group]
    full, nested = combine(parts), combine([combine(group) for group in groups])
    assert full.outcome == nested.outcome
    assert (
        (full.reason == "judge_unsure")
        == (nested.reason == "judge_unsure")
        == any(part.reason == "judge_unsure" for part in parts)
    )
    if full.reason == "judge_unsure":
        assert (
            (full.known_failure is None)
            == (nested.known_failure is None)
            == all(part.outcome != "fail" for part in parts)
        )


class Calibrated(FunctionJudge):
    """A judge whose scores are probabilities."""

    calibrated = True


@pytest.mark.parametrize(
    ("answers", "tools", "verdict", "probability"),
    [
        (("right", "right"), None, None, 0.81),
        (("right", "wrong"), None, None, 0.09),
        (("unsure", "right"), None, None, 0.45),
        (("right", "right"), {"calls": [{"tool_name": "book"}]}, None, 0.0),
        (("unsure", "right"), {"calls": [{"tool_name": "book"}]}, None, 0.0),
        (("broken", "right"), None, None, None),
        (("right", "right"), None, True, None),
    ],
)
def test_a_calibrated_judge_gives_the_probability_to_pass(
    answers: tuple[str, ...], tools: dict[str, Any] | None, *, verdict: bool | None, probability: float | None
) -> None:
    result = messages(*answers, tools=tools, verdict=verdict, judge=Calibrated(by_word))
    assert result.pass_probability == (probability if probability is None else pytest.approx(probability))
    assert messages(*answers, tools=tools, verdict=verdict).pass_probability is None
