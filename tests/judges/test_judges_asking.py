"""A judge asked with care: cache, budget, and each question once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from otel_agentic.config import JudgeSettings
from otel_agentic.errors import StoreUnusableError, UsageError
from otel_agentic.judges import Judge, JudgeFailure, Question, Verdict
from otel_agentic.judges.asking_judge import AskingJudge
from tests.judges.parts import CallBudget, MemoryCache, PlainJudge, Streaming, failing, question, questions, right

JUDGES = pytest.mark.parametrize("kind", [PlainJudge, Streaming])


@JUDGES
def test_verdicts_come_back_in_the_order_of_the_questions(kind: type[PlainJudge]) -> None:
    batch = questions(70)
    assert [right(item) for item in batch] == AskingJudge(kind()).judge(batch)


@JUDGES
def test_of_equal_questions_one_is_asked(kind: type[PlainJudge]) -> None:
    inner = kind()
    verdicts = AskingJudge(inner).judge([question("a"), question("b"), question("a"), question("a")])
    assert Counter(a=1, b=1) == inner.requests
    assert [False, False, True, True] == [isinstance(item, Verdict) and item.cached for item in verdicts]


def test_a_failure_of_equal_questions_costs_once() -> None:
    first, copy = AskingJudge(PlainJudge(say=failing)).judge([question(), question()])
    assert [(2, 50), (0, 0)] == [(item.tries, item.input_tokens) for item in (first, copy)]
    assert [JudgeFailure, JudgeFailure] == [type(first), type(copy)]


@JUDGES
def test_what_the_cache_knows_is_not_asked_again(kind: type[PlainJudge]) -> None:
    cache, inner = MemoryCache(), kind()
    AskingJudge(kind(), cache=cache).judge(questions(3))
    verdicts = AskingJudge(inner, cache=cache).judge(questions(5))
    assert Counter({"answer 3": 1, "answer 4": 1}) == inner.requests
    assert [True, True, True, False, False] == [isinstance(item, Verdict) and item.cached for item in verdicts]


def test_a_failure_is_recorded_but_asked_again() -> None:
    cache, inner = MemoryCache(), PlainJudge(say=failing)
    judge = AskingJudge(inner, cache=cache)
    judge.judge(questions(1))
    judge.judge(questions(1))
    assert Counter({"answer 0": 2}) == inner.requests
    assert 2 == len(cache.failures)


def test_another_version_or_another_judge_is_asked_anew() -> None:
    cache = MemoryCache()
    for inner in (PlainJudge(), PlainJudge(version="2"), PlainJudge(name="other")):
        AskingJudge(inner, cache=cache).judge(questions(1))
        assert 1 == inner.requests.total()


@pytest.mark.parametrize(("reads", "expected_calls"), [(True, 2), (False, 1)])
def test_a_verdict_holds_for_another_threshold_where_the_judge_never_looks_at_it(
    reads: object, expected_calls: int
) -> None:
    inner, cache = PlainJudge(), MemoryCache()
    inner.reads_threshold = reads  # type: ignore[attr-defined]
    for threshold in (0.7, 0.8):
        (verdict,) = AskingJudge(inner, cache=cache).judge([question(threshold=threshold)])
        assert isinstance(verdict, Verdict)
    assert expected_calls == sum(inner.requests.values())


def test_a_killed_run_resumes_where_it_was() -> None:
    cache, first, second = MemoryCache(), Streaming(slots=1), Streaming(slots=1)
    verdicts = AskingJudge(first, cache=cache).verdicts(questions(10))
    list(islice(verdicts, 4))
    verdicts.close()
    AskingJudge(second, cache=cache).judge(questions(10))
    assert 4 == first.requests.total()
    assert Counter({f"answer {number}": 1 for number in range(4, 10)}) == second.requests


def test_the_cache_is_flushed_even_when_a_run_is_broken_off() -> None:
    cache = MemoryCache()

    def interrupted(_: Question) -> Verdict:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        AskingJudge(PlainJudge(say=interrupted), cache=cache).judge(questions(2))
    assert 1 == cache.flushes


@JUDGES
@given(
    max_calls=st.integers(0, 40),
    max_tokens=st.integers(0, 10_000),
    count=st.integers(0, 40),
    fails=st.booleans(),
)
def test_every_question_is_answered_and_the_budget_is_kept(
    kind: type[PlainJudge],
    max_calls: int,
    max_tokens: int,
    count: int,
    fails: bool,  # noqa: FBT001 — hypothesis gives it by name
) -> None:
    allowance = CallBudget(max_calls=max_calls, max_tokens=max_tokens)
    say = (lambda request: JudgeFailure(reason="judge_error", message=request.answer, tries=1)) if fails else right
    inner = kind(say=say)
    answers = AskingJudge(inner, budget=allowance).judge(questions(count))
    assert count == len(answers)
    assert inner.requests.total() == allowance.calls <= max_calls
    assert allowance.tokens <= max_tokens
    refused = [item for item in answers if isinstance(item, JudgeFailure) and item.reason == "budget_exhausted"]
    assert count - inner.requests.total() == len(refused)


def test_a_budget_of_calls_is_used_to_the_last_one() -> None:
    inner = Streaming(slots=4)
    answers = AskingJudge(inner, budget=CallBudget(max_calls=7)).judge(questions(10))
    assert 7 == inner.requests.total()
    assert ["Verdict"] * 7 + ["JudgeFailure"] * 3 == [type(item).__name__ for item in answers]


def test_what_is_held_back_for_calls_under_way_is_offered_again_when_they_cost_less() -> None:
    inner = Streaming(slots=8)  # an estimate is about 600 tokens a call, the true cost 110
    answers = AskingJudge(inner, budget=CallBudget(max_tokens=2_000)).judge(questions(20))
    assert 13 == inner.requests.total() == sum(isinstance(item, Verdict) for item in answers)
    assert 3 == inner.most_at_once


def test_a_smaller_question_does_not_take_the_place_of_one_that_the_budget_refused() -> None:
    """The first questions are judged, in their order: small conversations are not preferred."""
    batch = [question(text * "x") for text in (10, 20, 8_000, 30, 40)]
    answers = AskingJudge(Streaming(slots=1), budget=CallBudget(max_tokens=1_500)).judge(batch)
    assert ["Verdict"] * 2 + ["JudgeFailure"] * 3 == [type(item).__name__ for item in answers]


def test_a_refusal_names_the_limit_and_its_setting() -> None:
    (refused,) = AskingJudge(PlainJudge(), budget=CallBudget(max_calls=0)).judge(questions(1))
    assert isinstance(refused, JudgeFailure)
    assert ("budget_exhausted", 0) == (refused.reason, refused.tries)
    assert "judge.max_calls" in refused.message
    assert "judge.budget_window" in refused.message


def test_a_budget_may_say_itself_which_limit_is_reached() -> None:
    class Exact(CallBudget):
        used_up = "5 of 5 calls are spent (judge.max_calls)"

    (refused,) = AskingJudge(PlainJudge(), budget=Exact(max_calls=0)).judge(questions(1))
    assert isinstance(refused, JudgeFailure)
    assert refused.message == snapshot("not asked: 5 of 5 calls are spent (judge.max_calls)")


def test_what_the_cache_knows_needs_no_budget() -> None:
    cache = MemoryCache()
    AskingJudge(PlainJudge(), cache=cache).judge(questions(1))
    (verdict,) = AskingJudge(PlainJudge(), cache=cache, budget=CallBudget(max_calls=0)).judge(questions(1))
    assert isinstance(verdict, Verdict)


def test_what_was_not_asked_is_not_kept() -> None:
    cache = MemoryCache()
    AskingJudge(PlainJudge(), cache=cache, budget=CallBudget(max_calls=0)).judge(questions(1))
    assert ({}, []) == (cache.stored, cache.failures)


class BudgetAware(Streaming):
    """Tries each question three times, if it is let, and then gives up."""

    permit = staticmethod(lambda _: True)

    def estimated_tokens(self, request: Question) -> int:
        return len(request.answer)

    def stream(self, questions: Iterable[tuple[int, Question]]) -> Iterator[tuple[int, Verdict | JudgeFailure]]:
        for number, request in questions:
            tries = 1
            while tries < 3 and self.permit(request):
                tries += 1
            self.requests[request.answer] += tries
            yield number, JudgeFailure(reason="judge_error", message="no", tries=tries)


def test_the_retries_of_a_judge_that_asks_leave_stay_within_the_budget() -> None:
    inner, allowance = BudgetAware(), CallBudget(max_calls=7)
    AskingJudge(inner, budget=allowance).judge(questions(10))
    assert [3, 3, 1] == list(inner.requests.values())
    assert 7 == allowance.calls


def test_a_judge_that_raises_fails_every_question_and_holds_nothing_back() -> None:
    class Broken(Streaming):
        def stream(self, questions: Iterable[tuple[int, Question]]) -> Iterator[tuple[int, Verdict | JudgeFailure]]:
            yield from islice(super().stream(questions), 2)
            raise ValueError("lost my notes")

    allowance = CallBudget(max_calls=100)
    judge = AskingJudge(Broken(), budget=allowance)
    answers = judge.judge(questions(10))
    assert {item.message for item in answers if isinstance(item, JudgeFailure)} == snapshot(
        {"judge plain raised ValueError: lost my notes"}
    )
    assert 8 == sum(isinstance(item, JudgeFailure) for item in answers)
    assert [0, 0, 0, 0, 0, 1, 1, 1] == sorted(item.tries for item in answers if isinstance(item, JudgeFailure))
    assert 5 == allowance.calls
    assert allowance.allows(calls=95, tokens=0)


def test_a_judge_that_forgets_a_question_fails_it() -> None:
    class Forgetful(Streaming):
        def stream(self, questions: Iterable[tuple[int, Question]]) -> Iterator[tuple[int, Verdict | JudgeFailure]]:
            return ((number, answer) for number, answer in super().stream(questions) if number != 1)

    answers = AskingJudge(Forgetful()).judge(questions(3))
    assert [Verdict, JudgeFailure, Verdict] == [type(item) for item in answers]


def test_a_list_of_the_wrong_length_and_a_score_outside_0_to_1_are_failures() -> None:
    class Short(PlainJudge):
        def judge(self, questions: Sequence[Question]) -> list[Verdict | JudgeFailure]:
            return super().judge(questions)[1:]

    class Wild(PlainJudge):
        def judge(self, questions: Sequence[Question]) -> list[Verdict | JudgeFailure]:
            scores = (float("nan"), 1e9, -1.0)
            return [Verdict(score=score, reasoning=item.answer) for score, item in zip(scores, questions, strict=True)]

    class Odd(PlainJudge):
        def judge(self, questions: Sequence[Question]) -> list[Any]:
            return [None, 0.9, Verdict(score="0.9", reasoning="")][: len(questions)]  # type: ignore[arg-type]

    cache = MemoryCache()
    for inner in (Short(), Wild(), Odd()):
        answers = AskingJudge(inner, cache=cache).judge(questions(3))
        assert {JudgeFailure} == {type(item) for item in answers}
    assert {} == cache.stored


def test_a_store_that_breaks_is_no_failure_of_the_judge() -> None:
    class Broken(CallBudget):
        def allows(self, *, calls: int, tokens: int) -> bool:
            raise StoreUnusableError(f"the disk is full: {calls} calls, {tokens} tokens")

    with pytest.raises(StoreUnusableError):
        AskingJudge(Streaming(), budget=Broken()).judge(questions(1))


def test_it_is_a_judge_of_the_same_name_version_and_kinds_and_closes_its_own() -> None:
    class Closing(PlainJudge):
        kinds = frozenset({"answer", "parameter"})
        closed = False

        def close(self) -> None:
            self.closed = True

    inner = Closing()
    judge = AskingJudge(inner)
    judge.close()
    AskingJudge(PlainJudge()).close()
    assert isinstance(judge, Judge)
    assert ("plain", "1", frozenset({"answer", "parameter"})) == (judge.name, judge.version, judge.kinds)
    assert inner.closed


def test_it_is_made_around_a_judge_not_from_settings() -> None:
    with pytest.raises(UsageError, match=r"AskingJudge\(judge\)"):
        AskingJudge.from_settings(JudgeSettings())
