from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from inline_snapshot import snapshot

from otel_agentic import compat
from otel_agentic.config import ScoringSettings
from otel_agentic.errors import UsageError
from otel_agentic.judges import ExactJudge, JudgeFailure, Question, Verdict
from otel_agentic.scoring import ConversationScore, MatchedConversation, score_conversations
from otel_agentic.testing import conversation, tool_call, turn
from otel_agentic.truth import CaseIndex, parse_cases
from tests.snapshots import opening, raises

if TYPE_CHECKING:
    from otel_agentic.conversations.model import Conversation

NAMES = ("agent-surface", "agentest", "fair-forge", "ragas")
SEARCH = {"tool_name": "search", "parameters": {"q": "hotels"}}
BOOK = {"tool_name": "book", "parameters": {"id": 7}}


class Scripted:
    """A judge that gives scores in turn, a failure for None, and keeps the questions."""

    name, version = "scripted", "1"

    def __init__(self, *scores: float | None) -> None:
        self.scores = iter(scores)
        self.questions: list[Question] = []

    @classmethod
    def from_settings(cls, _settings: Any, _argument: str | None = None) -> Scripted:
        return cls()

    def judge(self, questions: Sequence[Question]) -> list[Verdict | JudgeFailure]:
        self.questions += questions
        return [self._verdict(next(self.scores)) for _ in questions]

    def _verdict(self, score: float | None) -> Verdict | JudgeFailure:
        if score is None:
            return JudgeFailure(reason="judge_error", message="timeout")
        return Verdict(score=score, reasoning="so")


def scored(
    name: str, actual: Conversation, *expected: dict[str, Any], judge: Any = None, settings: Any = None, **case: Any
) -> ConversationScore:
    text = json.dumps({"case_id": "x", "turns": expected, **case})
    index = CaseIndex(parse_cases("d.jsonl", text).require())
    actual = replace(actual, case_id="x")
    matched = MatchedConversation(conversation=actual, match=index.match(actual))
    [score] = score_conversations(
        [matched], judge=judge or ExactJudge(), settings=ScoringSettings(**(settings or {})), score=compat.scorer(name)
    )
    return score


def search(**changes: Any) -> Any:
    return tool_call("search", {"q": "hotels"}, **changes)


def book() -> Any:
    return tool_call("book", {"id": 7})


def talk(*calls: Any, answer: str | None = "The Ritz.", **changes: Any) -> Conversation:
    return conversation(turn("Which hotel?", answer, *calls, **changes))


def asks(answer: str | None = None, *calls: dict[str, Any], **tools: Any) -> dict[str, Any]:
    expected: dict[str, Any] = {"query": "Which hotel?"}
    if answer is not None:
        expected["answer"] = answer
    if calls or tools:
        expected["tools"] = {"calls": calls, **tools}
    return expected


def test_an_unknown_system_is_refused() -> None:
    with raises(UsageError, snapshot("allowed: agent-surface, agentest, fair-forge, ragas")):
        compat.scorer("tau")


@pytest.mark.parametrize("name", NAMES)
class TestEverySystem:
    def test_says_whose_arithmetic_it_is(self, name: str) -> None:
        score = scored(name, talk(search()), asks("The Ritz.", SEARCH))
        assert score.outcome == "pass"
        assert opening(score.explanation) == snapshot("by the arithmetic of ")

    def test_leaves_a_conversation_without_a_case_without_an_outcome(self, name: str) -> None:
        actual = talk()
        matched = MatchedConversation(conversation=actual, match=CaseIndex([]).match(actual))
        [score] = score_conversations(
            [matched], judge=ExactJudge(), settings=ScoringSettings(), score=compat.scorer(name)
        )
        assert (score.outcome, score.reason, score.case_id) == ("not_evaluated", "unmatched", None)

    def test_leaves_a_conversation_without_a_turn_without_an_outcome(self, name: str) -> None:
        score = scored(name, replace(talk(), turns=()), asks("The Ritz."))
        assert (score.outcome, score.reason) == ("not_evaluated", "empty")

    def test_leaves_a_draft_without_an_outcome(self, name: str) -> None:
        score = scored(name, talk(search()), asks("The Ritz.", SEARCH), reviewed=False)
        assert (score.outcome, score.reason) == ("not_evaluated", "unreviewed")

    def test_does_not_judge_arguments_that_were_not_captured(self, name: str) -> None:
        blind = replace(search(), arguments=None)
        [tools] = scored(name, talk(blind), asks(None, SEARCH)).tools
        assert (tools.outcome, tools.reason, tools.overall) == ("not_evaluated", "content_not_captured", None)

    def test_keeps_the_order_and_number_of_conversations(self, name: str) -> None:
        index = CaseIndex([])
        actual = [replace(talk(), revision=number) for number in range(1, 301)]
        matched = [MatchedConversation(conversation=item, match=index.match(item)) for item in actual]
        scores = score_conversations(matched, judge=ExactJudge(), settings=ScoringSettings(), score=compat.scorer(name))
        assert [score.revision for score in scores] == list(range(1, 301))


class TestFairForge:
    def test_a_conversation_is_correct_by_its_answers_alone(self) -> None:
        score = scored(
            "fair-forge", talk(book()), asks("The Ritz.", SEARCH), settings={"criteria": ["answer", "tools"]}
        )
        assert (score.outcome, score.answer_outcome, score.tool_outcome, score.both_outcome) == (
            "pass",
            "pass",
            "fail",
            "fail",
        )

    def test_all_four_numbers_are_shown_with_1_for_a_free_order(self) -> None:
        flagged = search(used_flag=True)
        [tools] = scored("fair-forge", talk(flagged, book()), asks(None, SEARCH)).tools
        assert tools.dimensions == {"selection": 0.5, "parameters": 1.0, "sequence": 1.0, "utilization": 1.0}
        assert tools.overall == 0.875
        assert tools.outcome == "fail"

    def test_use_of_results_is_what_the_spans_flag_or_what_is_found_in_the_answer(self) -> None:
        def utilization(answer: str, **flag: Any) -> float | None:
            actual = talk(search(result={"hotel": "Ritz-4711"}, **flag), answer=answer)
            [tools] = scored("fair-forge", actual, asks(None, SEARCH)).tools
            return tools.dimensions["utilization"]

        assert utilization("Take Ritz-4711.") == 1.0
        assert utilization("No idea.") == 0.0
        assert utilization("No idea.", used_flag=True) == 1.0
        assert utilization("Take Ritz-4711.", used_flag=False) == 0.0

    def test_a_turn_without_calls_has_no_tool_score(self) -> None:
        score = scored("fair-forge", talk(), asks("The Ritz.", SEARCH))
        [tools] = score.tools
        assert (score.outcome, tools.outcome, tools.reason, tools.overall) == ("pass", "not_evaluated", "no_data", None)

    def test_a_turn_that_never_came_is_not_missed(self) -> None:
        score = scored("fair-forge", talk(), asks("The Ritz."), {"query": "And for two?", "answer": "Yes."})
        assert score.outcome == "pass"

    def test_one_wrong_answer_fails_the_conversation(self) -> None:
        actual = conversation(turn("a?", "A"), turn("b?", "B"))
        expected = ({"query": "a?", "answer": "A"}, {"query": "b?", "answer": "B"})
        score = scored("fair-forge", actual, *expected, judge=Scripted(0.9, 0.69))
        assert (score.outcome, score.reason) == ("fail", "wrong_answer")
        assert [item.answer_score for item in score.turns] == [0.9, 0.69]

    def test_a_failing_judge_is_not_the_agents_failure(self) -> None:
        score = scored("fair-forge", talk(), asks("The Ritz."), judge=Scripted(None))
        assert (score.outcome, score.reason) == ("not_evaluated", "judge_error")

    def test_a_fail_with_another_answer_unjudged_is_partial(self) -> None:
        actual = conversation(turn("a?", "A"), turn("b?", "B"))
        expected = ({"query": "a?", "answer": "A"}, {"query": "b?", "answer": "B"})
        assert scored("fair-forge", actual, *expected, judge=Scripted(0.1, None)).partial
        assert not scored("fair-forge", actual, *expected, judge=Scripted(0.1, 0.9)).partial

    def test_forbidden_answers_are_unknown_to_it(self) -> None:
        expected = asks("The Ritz.") | {"not_answer": "Ritz"}
        assert scored("fair-forge", talk(), expected).outcome == "pass"

    def test_weights_that_it_cannot_work_with_give_no_tool_score(self) -> None:
        weights = {"selection": 2.0}
        [tools] = scored("fair-forge", talk(search()), asks(None, SEARCH), settings={"tool_weights": weights}).tools
        assert (tools.outcome, tools.reason) == ("not_evaluated", "no_data")
        assert "with tool_weights {'selection': 2.0}" in tools.note


class TestRagas:
    def test_an_answer_is_the_average_of_both_directions(self) -> None:
        judge = Scripted(1.0, 0.5)
        score = scored("ragas", talk(answer="the ritz hotel"), asks("The Ritz."), judge=judge)
        assert score.turns[0].answer_score == 0.75
        assert [(q.expected, q.answer) for q in judge.questions] == [
            ("The Ritz.", "the ritz hotel"),
            ("the ritz hotel", "The Ritz."),
        ]

    @pytest.mark.parametrize("verdicts", [(None, 1.0), (1.0, None)])
    def test_a_judge_that_fails_in_one_direction_gives_no_outcome(self, verdicts: tuple[float | None, ...]) -> None:
        score = scored("ragas", talk(answer="Hotel Ritz."), asks("The Ritz."), judge=Scripted(*verdicts))
        assert (score.outcome, score.reason) == ("not_evaluated", "judge_error")

    def test_one_extra_call_makes_the_tool_score_0(self) -> None:
        score = scored("ragas", talk(search(), book()), asks(None, SEARCH))
        assert (score.outcome, score.tools[0].overall) == ("fail", 0.0)
        assert "tool call F1 0.6667" in score.explanation

    def test_the_order_counts_only_where_the_case_has_one(self) -> None:
        actual = talk(book(), search())
        assert scored("ragas", actual, asks(None, SEARCH, BOOK)).outcome == "pass"
        assert scored("ragas", actual, asks(None, SEARCH, BOOK, order="relative")).outcome == "fail"

    def test_tools_are_scored_over_the_whole_conversation(self) -> None:
        actual = conversation(turn("a?", "A", search()), turn("b?", "B", book()))
        expected = (
            {"query": "a?", "tools": {"calls": [SEARCH]}},
            {"query": "b?", "tools": {"calls": [BOOK]}},
        )
        score = scored("ragas", actual, *expected)
        assert [(tools.turn_index, tools.overall) for tools in score.tools] == [(None, 1.0)]

    def test_an_f1_that_it_cannot_compute_is_reported(self) -> None:
        lists = tool_call("search", {"ids": [1]})
        expected = {"tool_name": "search", "parameters": {"ids": [1]}}
        score = scored("ragas", talk(lists), asks(None, expected))
        assert score.outcome == "pass"
        assert "tool call F1 unknown" in score.explanation

    def test_answers_and_tools_decide_by_the_rule_of_the_settings(self) -> None:
        actual, expected = talk(book()), asks("The Ritz.", SEARCH)
        assert scored("ragas", actual, expected).outcome == "pass"
        assert scored("ragas", actual, expected, settings={"criteria": ["answer", "tools"]}).outcome == "fail"

    def test_only_parts_that_decide_make_a_fail_partial(self) -> None:
        actual, expected = talk(replace(search(), arguments=None)), asks("The Ritz.", SEARCH)
        for criteria, partial in ((["answer"], False), (["answer", "tools"], True)):
            score = scored("ragas", actual, expected, judge=Scripted(0.0, 0.0), settings={"criteria": criteria})
            assert (score.outcome, score.partial) == ("fail", partial)
        by_tools = scored("ragas", actual, expected, judge=Scripted(0.0, 0.0), settings={"criteria": ["tools"]})
        assert (by_tools.outcome, by_tools.partial) == ("not_evaluated", False)


class TestAgentSurface:
    def test_a_call_too_early_makes_routing_wrong(self) -> None:
        score = scored("agent-surface", talk(book(), search()), asks(None, SEARCH))
        [tools] = score.tools
        assert (tools.overall, tools.outcome) == (0.0, "fail")
        assert tools.dimensions == pytest.approx(
            {"selection": 2 / 3, "parameters": 0.0, "sequence": None, "utilization": None}
        )

    def test_efficiency_is_reported_if_the_case_has_the_minimum(self) -> None:
        score = scored("agent-surface", talk(search(), search()), asks(None, SEARCH), minimum_steps=1)
        assert "step efficiency 0.50" in score.explanation

    def test_answers_have_no_score_and_no_judge_is_asked(self) -> None:
        judge = Scripted()
        score = scored("agent-surface", talk(answer="Wrong."), asks("The Ritz."), judge=judge)
        assert (score.outcome, score.reason, judge.questions) == ("not_evaluated", "no_data", [])


class TestAgentest:
    @pytest.mark.parametrize(
        ("tools", "outcome", "explanation"),
        [
            ({}, "fail", "unordered match: extra: book"),
            ({"order": "exact"}, "fail", "strict match: extra: book"),
            ({"extra_calls": "allow"}, "pass", "contains match: every call is as asserted"),
            ({"extra_calls": "allow", "forbidden": ["b*"]}, "fail", "contains match: forbidden: book"),
        ],
    )
    def test_the_match_mode_is_the_one_that_comes_closest(
        self, tools: dict[str, Any], outcome: str, explanation: str
    ) -> None:
        score = scored("agentest", talk(search(), book()), asks(None, SEARCH, **tools))
        assert score.outcome == outcome
        assert explanation in score.explanation

    def test_optional_calls_alone_are_what_calls_must_lie_within(self) -> None:
        optional = SEARCH | {"required": False}
        assert scored("agentest", talk(search(), search()), asks(None, optional)).outcome == "pass"
        assert scored("agentest", talk(book()), asks(None, optional)).outcome == "fail"

    def test_parameters_that_the_case_ignores_are_left_out(self) -> None:
        actual = talk(tool_call("search", {"q": "hotels", "page": 3}))
        assert scored("agentest", actual, asks(None, SEARCH)).outcome == "fail"
        assert scored("agentest", actual, asks(None, SEARCH | {"ignore_extra_parameters": True})).outcome == "pass"
        loose = {"tool_name": "search", "parameters": {"q": "hotels"}, "match": {"page": "any"}}
        assert scored("agentest", actual, asks(None, loose)).outcome == "pass"

    def test_a_match_is_all_or_nothing(self) -> None:
        [tools] = scored("agentest", talk(search()), asks(None, SEARCH, BOOK)).tools
        assert (tools.overall, set(tools.dimensions.values())) == (0.0, {None})
