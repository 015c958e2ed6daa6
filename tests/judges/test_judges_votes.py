"""Votes, budget and canaries of the judge that asks a model."""

from __future__ import annotations

import pytest
from inline_snapshot import snapshot

from otel_agentic.judges import JudgeFailure, Verdict
from otel_agentic.judges.asking_judge import AskingJudge
from tests.judges.models import Bare, fields_of, verdict
from tests.judges.parts import CallBudget, question, questions
from tests.judges.scripted_judges import failed, in_turn, judge_of, only, scores_in_turn
from tests.snapshots import passage


@pytest.mark.parametrize(
    ("scores", "retained", "calls"),
    [
        ([0.9], 0.9, 1),  # not close to the threshold of 0.7
        ([0.5], 0.5, 1),
        ([0.85, 0.85], 0.85, 2),  # as close as may be, above
        ([0.55, 0.5], 0.5, 2),  # and below; of two the lower one
        ([0.75, 0.8], 0.75, 2),
        ([0.75, 0.6, 0.65], 0.6, 3),
        ([0.65, 0.9, 0.7], 0.7, 3),  # the threshold passes
        ([0.65, 0.0, 1.0], 0.0, 2),  # settled before the third
    ],
)
def test_a_score_close_to_the_threshold_is_asked_again(scores: list[float], retained: float, calls: int) -> None:
    model = Bare(say=scores_in_turn(*scores))
    received = only(judge_of(model, votes=3).judge([question()]))
    assert (retained, calls, 100 * calls) == (received.score, received.tries, received.input_tokens)
    assert calls == len(model.requests)


def test_the_reasons_are_those_of_the_score_that_is_kept() -> None:
    received = only(judge_of(Bare(say=scores_in_turn(0.75, 0.8, 0.2, 0.2, 0.9)), votes=5).judge([question()]))
    assert (0.8, "vote 2", 5) == (received.score, received.reasoning, received.tries)


def test_a_vote_that_fails_is_no_vote() -> None:
    received = only(
        judge_of(Bare(say=in_turn(verdict(0.75), "no", verdict(0.8))), votes=3, tries=1).judge([question()])
    )
    assert (0.75, 3) == (received.score, received.tries)


def test_without_a_majority_there_is_no_verdict() -> None:
    received = failed(
        judge_of(Bare(say=in_turn(verdict(0.75), verdict(0.6), "no")), votes=3, tries=1).judge([question()])
    )
    assert passage(received.message) == snapshot(
        "no majority among 2 of 3 votes: Bare gave no verdict in 3 tries: the reply was not one JSON object"
    )
    assert ("judge_error", 3) == (received.reason, received.tries)


# --- Budget


def test_tries_and_votes_stay_within_the_budget() -> None:
    model, allowance = Bare(say=in_turn("no")), CallBudget(max_calls=7)
    answers = AskingJudge(judge_of(model, tries=3, concurrency=2), budget=allowance).judge(questions(10))
    assert 7 == len(model.requests) == allowance.calls
    assert 10 == sum(isinstance(item, JudgeFailure) for item in answers)
    assert any("the budget allows no other try" in item.message for item in answers if isinstance(item, JudgeFailure))


def test_a_score_that_cannot_be_voted_on_is_no_verdict() -> None:
    model, allowance = Bare(say=scores_in_turn(0.75)), CallBudget(max_calls=1)
    received = failed(AskingJudge(judge_of(model, votes=3), budget=allowance).judge([question()]))
    assert ("budget_exhausted", 1) == (received.reason, len(model.requests))
    assert received.message == snapshot("Bare scored 0.75, too close to the threshold for one vote; no budget for more")


def test_the_estimate_of_tokens_grows_with_what_is_shown() -> None:
    judge = judge_of(Bare(), max_answer_characters=400)
    short, long, longer = (judge.estimated_tokens(question("x" * size)) for size in (0, 400, 4_000_000))
    assert 100 == long - short
    assert long == longer
    assert 400 < short < 1_500


# --- Canaries


def test_a_canary_passes_only_a_judge_that_does_not_look() -> None:
    request = [question(answer, expected=answer) for answer in ("Paris", "Rome", "Oslo", "Bern")]
    blind, seeing = judge_of(Bare(), canary_ratio=1.0), judge_of(Bare(say=_compares), canary_ratio=1.0)
    blind.judge(request)
    seeing.judge(request)
    assert (3, 3) == (blind.canaries.total, blind.canaries.fooled)  # the first one has none before it
    assert (3, 0) == (seeing.canaries.total, seeing.canaries.fooled)
    assert {("Paris", "Rome"), ("Rome", "Oslo"), ("Oslo", "Bern")} == {
        (item.expected, item.answer) for item in blind.canaries.examples
    }


def _compares(human: str, _: str) -> str:
    fields = fields_of(human)
    return verdict(1.0 if fields["expected"] == fields["answer"] else 0.0)


def test_a_canary_that_passes_is_a_warning_without_the_texts(caplog: pytest.LogCaptureFixture) -> None:
    towns = ("Paris", "Rome", "Oslo", "Bern", "Riga", "Lima")
    judge_of(Bare(), canary_ratio=1.0, concurrency=1).judge([question(town, expected=town) for town in towns])
    assert [  # one each time that their number doubles
        f"the judge let a canary pass: {count} of {count} wrong answers passed so far" for count in (1, 2, 4)
    ] == caplog.messages


def test_canaries_change_no_verdict_and_are_paid_for() -> None:
    request = [
        question("Paris", expected="Paris"),
        question("Rome", expected="Rome"),
        question("Bonn", expected="Oslo"),
    ]
    without, watched = (judge_of(Bare(say=_compares), canary_ratio=ratio).judge(request) for ratio in (0.0, 1.0))
    assert [1.0, 1.0, 0.0] == [item.score for item in without if isinstance(item, Verdict)]
    assert [1.0, 1.0, 0.0] == [item.score for item in watched if isinstance(item, Verdict)]
    assert [(1, 100), (2, 200), (1, 100)] == [(item.tries, item.input_tokens) for item in watched]


def test_the_same_questions_make_the_same_canaries() -> None:
    request = [question(f"town {index}", expected=f"{index} is the town") for index in range(100)]

    def canaries() -> set[tuple[str, str]]:
        model = Bare()
        judge_of(model, canary_ratio=0.3).judge(request)
        material = [fields_of(str(messages[-1].content)) for messages in model.requests]
        return {
            (item["expected"], item["answer"])
            for item in material
            if item["expected"].split()[0] not in item["answer"].split()
        }

    first = canaries()
    assert first == canaries()
    assert 12 <= len(first) <= 50


def test_equal_expected_answers_make_no_canary() -> None:
    judge = judge_of(Bare(), canary_ratio=1.0)
    judge.judge([question("a", expected="Paris."), question("b", expected="paris"), question("c", expected="In Paris")])
    assert 0 == judge.canaries.total


def test_only_votes_make_a_verdict_depend_on_the_threshold() -> None:
    assert [False, True] == [judge_of(Bare(), votes=votes).reads_threshold for votes in (1, 3)]
