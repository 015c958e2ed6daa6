"""Verdicts of a judge inside tool scoring: requested once for all, and a failing judge is never the agent's fault."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pytest

from otel_agentic.config import JudgeSettings, ScoringSettings
from otel_agentic.judges import ExactJudge, JudgeFailure, Question, Verdict
from otel_agentic.scoring import ConversationScore, MatchedConversation, score_conversations
from otel_agentic.testing import conversation, tool_call, turn
from otel_agentic.truth import CaseIndex, parse_cases

if TYPE_CHECKING:
    from otel_agentic.conversations.model import Conversation, ToolCall

BOOK: Final = {"tool_name": "book", "parameters": {"city": "Rome", "nights": 2}, "match": {"city": "judge"}}
FIND: Final = {"tool_name": "find"}


class Knowing:
    """A judge of answers, parameters and utilization that knows some verdicts by the expected value; 1.0 for the rest."""

    name = "knowing"
    version = "1"

    def __init__(
        self, stated: dict[str, float | JudgeFailure] | None = None, kinds: Sequence[str] | None = None
    ) -> None:
        self.stated = stated or {}
        self.kinds = frozenset(kinds or ("answer", "parameter", "utilization"))
        self.batches: list[list[Question]] = []

    @classmethod
    def from_settings(cls, settings: JudgeSettings, argument: str | None = None) -> Knowing:
        raise NotImplementedError((settings, argument))

    @property
    def request(self) -> list[Question]:
        return [question for batch in self.batches for question in batch]

    def judge(self, questions: Sequence[Question]) -> list[Verdict | JudgeFailure]:
        self.batches.append(list(questions))
        return [self._verdict(self.stated.get(question.expected, 1.0)) for question in questions]

    @staticmethod
    def _verdict(stated: float | JudgeFailure) -> Verdict | JudgeFailure:
        return stated if isinstance(stated, JudgeFailure) else Verdict(score=stated, reasoning="as scripted")


FAILED: Final = JudgeFailure(reason="judge_error", message="timed out")
NOT_ASKED: Final = JudgeFailure(reason="budget_exhausted", message="over budget")


def scores(
    judge: Any, *actual: Conversation, tools: list[dict[str, Any]], per_turn: bool = False, **settings: Any
) -> list[ConversationScore]:
    """Return the scores of conversations of one case."""
    fields = {key: settings.pop(key) for key in ("answer_threshold", "order", "alternatives") if key in settings}
    expected: dict[str, Any] = {
        "calls": tools,
        **{key: fields[key] for key in ("order", "alternatives") if key in fields},
    }
    case: dict[str, Any] = {"case_id": "x", "turns": [{"query": "Go", "answer": "Done"}]}
    case |= {"answer_threshold": fields["answer_threshold"]} if "answer_threshold" in fields else {}
    if per_turn:
        case["turns"][0]["tools"] = expected
    else:
        case["tools"] = expected
    index = CaseIndex(parse_cases("d.jsonl", json.dumps(case)).require())
    matched = [MatchedConversation(conversation=item, match=index.match(item)) for item in actual]
    return score_conversations(matched, judge=judge, settings=ScoringSettings(**settings))


def talk(*calls: ToolCall, answer: str = "Done") -> Conversation:
    return conversation(turn("Go", answer, *calls), closed_by="end_of_input")


def booked(city: str = "Roma", **fields: Any) -> ToolCall:
    return tool_call("book", {"city": city, "nights": 2}, result=fields.pop("result", ""), span_id="s1", **fields)


def test_a_parameter_that_only_a_judge_can_compare_is_asked_in_one_call_with_the_answers() -> None:
    judge = Knowing()
    result = scores(judge, talk(booked()), talk(booked("Rom")), talk(booked("Rome")), tools=[BOOK])
    assert ["pass"] * 3 == [item.outcome for item in result]
    # The answer is the same in all three, so it is asked about once.
    assert [["answer", "parameter", "parameter"]] == [[q.kind for q in b] for b in judge.batches]
    assert (
        Question(kind="parameter", query="tool book, parameter city", expected='"Rome"', answer='"Roma"', threshold=0.7)
        in judge.request
    )


@pytest.mark.parametrize(
    ("stated", "outcome", "reason"),
    [
        (0.7, "pass", None),
        (0.69, "fail", "tool_fault"),
        (FAILED, "not_evaluated", "judge_error"),
        (NOT_ASKED, "not_evaluated", "budget_exhausted"),
    ],
)
def test_a_verdict_on_a_parameter_decides_and_a_failure_of_the_judge_does_not(
    stated: float | JudgeFailure, outcome: str, reason: str | None
) -> None:
    (result,) = scores(Knowing({'"Rome"': stated}), talk(booked()), tools=[BOOK])
    (tools,) = result.tools
    assert (outcome, reason) == (result.outcome, result.reason)
    assert (outcome, reason) == (tools.outcome, tools.reason)
    assert (tools.dimensions["parameters"] is None) == (outcome == "not_evaluated")
    assert [fault.parameter for fault in tools.faults] == (["city"] if outcome == "fail" else [])


def test_another_wrong_parameter_fails_although_the_judge_failed() -> None:
    invalid = tool_call("book", {"city": "Roma", "nights": 3}, result="")
    (match,) = scores(Knowing({'"Rome"': FAILED}), talk(invalid), tools=[BOOK])
    assert ("fail", "tool_fault") == (match.outcome, match.reason)


def test_the_verdict_on_a_parameter_is_stored_as_evidence() -> None:
    (result,) = scores(Knowing({'"Rome"': 0.9}), talk(booked()), tools=[BOOK])
    assert {
        "tool": "book",
        "turn_index": 0,
        "position": 0,
        "span_id": "s1",
        "parameter": "city",
        "score": 0.9,
        "agrees": True,
        "how": "judge",
        "explanation": "as scripted",
    } == result.tools[0].evidence["parameters"][0]


def test_evidence_has_one_record_a_parameter_however_often_a_pair_was_looked_at() -> None:
    milan = {**BOOK, "parameters": {"city": "Milan", "nights": 2}}
    actual = talk(booked("Milano"), booked("Roma", position=1))
    (result,) = scores(Knowing(), actual, tools=[BOOK], alternatives=[{"calls": [BOOK, milan]}])
    assert [0, 1] == [record["position"] for record in result.tools[0].evidence["parameters"]]


def test_a_judge_that_takes_answers_only_is_asked_for_nothing_else() -> None:
    judge = Knowing(kinds=["answer"])
    (result,) = scores(judge, talk(booked()), tools=[BOOK], judged_utilization=True)
    assert ["answer"] == [question.kind for question in judge.request]
    assert ("not_evaluated", "no_data") == (result.outcome, result.reason)
    (exact,) = scores(ExactJudge(), talk(booked()), tools=[BOOK])
    assert "no_data" == exact.reason


def test_the_threshold_of_the_case_holds_for_all_questions() -> None:
    judge = Knowing({'"Rome"': 0.5})
    (result,) = scores(judge, talk(booked()), tools=[BOOK], answer_threshold=0.5)
    assert "pass" == result.outcome
    assert {0.5} == {question.threshold for question in judge.request}


class Translating(Knowing):
    """A judge that knows two cities in two languages."""

    def judge(self, questions: Sequence[Question]) -> list[Verdict | JudgeFailure]:
        self.batches.append(list(questions))
        same = {('"Rome"', '"Roma"'), ('"Milan"', '"Milano"')}
        right = [question.kind == "answer" or (question.expected, question.answer) in same for question in questions]
        return [Verdict(score=float(item), reasoning="") for item in right]


def test_calls_of_one_name_are_paired_by_what_the_judge_says() -> None:
    cities = [{**BOOK, "parameters": {"city": city, "nights": 2}} for city in ("Rome", "Milan")]
    judge = Translating()
    (result,) = scores(judge, talk(booked("Milano"), booked("Roma")), tools=cities)
    assert "pass" == result.outcome
    assert 4 == sum(question.kind == "parameter" for question in judge.request)


RESULT: Final = {"temperature": 11, "wind": 3, "sky": "grey", "seats": 2}


def test_the_use_of_a_result_is_asked_only_where_it_is_wanted_and_the_data_do_not_tell() -> None:
    match, used = tool_call("find", {"q": "x"}, result=RESULT), tool_call("find", {"q": "x"}, result={"code": "HAT136"})
    judge = Knowing()
    scores(judge, talk(match), tools=[FIND], per_turn=True)
    scores(judge, talk(used, answer="Done: HAT136"), tools=[FIND], per_turn=True, judged_utilization=True)
    assert {"answer"} == {question.kind for question in judge.request}
    scores(judge, talk(match), tools=[FIND], per_turn=True, judged_utilization=True)
    assert judge.request[-1] == Question(
        kind="utilization",
        query='tool find, called with {"q": "x"}',
        expected='{"seats": 2, "sky": "grey", "temperature": 11, "wind": 3}',
        answer="Done",
        threshold=0.7,
    )


@pytest.mark.parametrize(
    ("stated", "utilization", "outcome"), [(0.9, 1.0, "pass"), (0.1, 0.0, "fail"), (FAILED, None, "pass")]
)
def test_a_verdict_on_use_decides_for_a_turn_where_use_has_weight_and_a_failure_leaves_it_unknown(
    stated: float | JudgeFailure, utilization: float | None, outcome: str
) -> None:
    judge = Knowing({'{"seats": 2, "sky": "grey", "temperature": 11, "wind": 3}': stated})
    actual = talk(tool_call("find", {}, result=RESULT, span_id="s9"))
    expected = [{"tool_name": "find"}]
    request: dict[str, Any] = {"tools": expected, "judged_utilization": True}
    (match,) = scores(judge, actual, **request, per_turn=True, criteria=("annotated",))
    assert (utilization, "pass") == (match.tools[0].dimensions["utilization"], match.outcome)
    weights = {"selection": 1.0, "utilization": 1.0}
    (match,) = scores(judge, actual, **request, per_turn=True, criteria=("annotated",), tool_weights=weights)
    (tools,) = match.tools
    assert (utilization, outcome) == (tools.dimensions["utilization"], tools.outcome)
    assert (["unused_result"] if stated == 0.1 else []) == [fault.kind for fault in tools.faults]
    if utilization is not None:
        (record,) = tools.evidence["utilization"]
        assert ("judge", "s9", utilization) == (record["how"], record["span_id"], record["score"])
    (full,) = scores(judge, actual, **request, tool_weights=weights)
    assert (utilization, "pass") == (full.tools[0].dimensions["utilization"], full.outcome)


def test_nothing_is_asked_of_an_empty_result_or_where_nothing_followed() -> None:
    judge = Knowing()
    silent = replace(turn("Go", None, tool_call("find", {}, result=RESULT)), answer_captured=False)
    scores(judge, talk(tool_call("find", {}, result=[])), tools=[FIND], per_turn=True, judged_utilization=True)
    scores(judge, conversation(silent), tools=[FIND], per_turn=True, judged_utilization=True)
    assert {"answer"} == {question.kind for question in judge.request}


def test_the_same_conversation_asks_the_same_questions_in_the_same_order() -> None:
    judges = [Knowing(), Knowing()]
    for judge in judges:
        actual = talk(booked(), tool_call("find", {}, result=RESULT), booked("Rom"))
        scores(judge, actual, tools=[BOOK, FIND, BOOK], judged_utilization=True)
    assert judges[0].request == judges[1].request
    assert 4 == len(judges[0].request)
