"""A judge that does not answer is not asked for a while; a prompt that gets no verdict stops nothing else."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from otel_agentic.config import JudgeSettings
from otel_agentic.judges import JudgeFailure, Verdict
from otel_agentic.judges.asking_judge import AskingJudge
from otel_agentic.judges.base import Breaker, FailureKind, NotAsked, Patience, ReplyForm, Rubric, rubric_question
from tests.judges.parts import Answer, CallBudget, MemoryCache, PlainJudge, Streaming, question, questions, right

if TYPE_CHECKING:
    from otel_agentic.judges import Question

FAILED = JudgeFailure(reason="judge_error", message="a text that must not be logged", kind="outage", tries=1)
UNREADABLE = JudgeFailure(reason="judge_error", message="no verdict", kind="prompt", tries=1)
REFUSED = JudgeFailure(reason="budget_exhausted", message="no budget")
Q = question()
BAD, GOOD = (
    Rubric(name=name, version="1", instructions=name, form=ReplyForm(kind="label", labels=("a", "b")))
    for name in ("bad", "good")
)


def lost(request: Question, kind: FailureKind = "outage") -> JudgeFailure:
    return JudgeFailure(reason="judge_error", message=f"no idea about {request.answer}", kind=kind, tries=2)


@dataclass
class Clock:
    now_s: float = 100.0

    def __call__(self) -> float:
        return self.now_s


@dataclass
class Moody:
    """Answers by its mood."""

    well: bool = False
    stated: list[str] = field(default_factory=list)

    def __call__(self, request: Question) -> Answer:
        self.stated.append(request.answer)
        return right(request) if self.well else lost(request)


def breaker(clock: Clock, failures: int = 3, wait_s: float = 30.0) -> Breaker:
    return Breaker(JudgeSettings(breaker_failures=failures, breaker_wait_s=wait_s), "plain", clock)


def fail(result: Breaker, times: int) -> None:
    for _ in range(times):
        result.record(Q, FAILED)


def test_failures_in_a_row_open_it_and_a_verdict_between_them_does_not() -> None:
    result = breaker(Clock())
    fail(result, 2)
    result.record(Q, right(question()))
    fail(result, 2)
    assert ("closed", True) == (result.state.state, (result.admit(Q) == "admitted"))
    fail(result, 1)
    assert ("open", 3, 30.0, 1, False) == (
        result.state.state,
        result.state.failures,
        result.state.retry_in_s,
        result.state.opened,
        (result.admit(Q) == "admitted"),
    )


def test_after_the_wait_one_question_is_let_through_and_its_verdict_closes_it() -> None:
    clock = Clock()
    result = breaker(clock)
    fail(result, 3)
    clock.now_s += 30
    assert "half_open" == result.state.state
    assert [True, False, False] == [(result.admit(Q) == "admitted") for _ in range(3)]
    result.record(Q, right(question()))
    assert ("closed", 0, True) == (result.state.state, result.state.failures, (result.admit(Q) == "admitted"))


def test_each_failed_try_doubles_the_wait_up_to_twenty_times() -> None:
    clock = Clock()
    result = breaker(clock, wait_s=1.0)
    fail(result, 3)
    waits = []
    for _ in range(8):
        waits.append(result.state.retry_in_s)
        clock.now_s += result.state.retry_in_s
        assert result.admit(Q) == "admitted"
        result.record(Q, FAILED)
    assert [1, 2, 4, 8, 16, 20, 20, 20] == waits
    clock.now_s += 20
    assert result.admit(Q) == "admitted"
    result.record(Q, right(question()))
    fail(result, 3)
    assert 1.0 == result.state.retry_in_s


@pytest.mark.parametrize("answer", [REFUSED, NotAsked(reason="judge_error", message="")])
def test_what_was_not_asked_is_no_failure_and_gives_its_turn_back(answer: JudgeFailure) -> None:
    clock = Clock()
    result = breaker(clock, failures=1)
    result.record(Q, answer)
    assert "closed" == result.state.state
    fail(result, 1)
    clock.now_s += 30
    assert result.admit(Q) == "admitted"
    result.record(Q, answer)
    assert result.admit(Q) == "admitted"


def test_failures_that_were_under_way_do_not_make_an_open_one_wait_longer() -> None:
    result = breaker(Clock())
    fail(result, 10)
    assert (30.0, 1) == (result.state.retry_in_s, result.state.opened)


def test_each_change_is_one_line_of_the_log_without_the_message_of_the_judge(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    result = breaker(clock)
    with caplog.at_level(logging.INFO):
        fail(result, 6)
        clock.now_s += 30
        assert result.admit(Q) == "admitted"
        result.record(Q, right(question()))
        result.record(Q, right(question()))
    assert [record.getMessage() for record in caplog.records] == snapshot(
        [
            "judge plain failed 3 times in a row: it is not called for 30 s, and its questions wait",
            "judge plain responds again",
        ]
    )


@given(st.lists(st.tuples(st.sampled_from(["right", "failed", "refused", "ask"]), st.floats(0, 40)), max_size=60))
def test_never_more_than_one_question_is_under_way_unless_it_is_closed(steps: list[tuple[str, float]]) -> None:
    clock = Clock()
    result, under_way = breaker(clock), 0
    answers: dict[str, Answer] = {"right": right(question()), "failed": FAILED, "refused": REFUSED}
    for step, passed_s in steps:
        clock.now_s += passed_s
        was_closed = result.state.state == "closed"
        if step == "ask":
            under_way = under_way + (result.admit(Q) == "admitted") if not was_closed else 0
        else:
            result.record(Q, answers[step])
            under_way = 0
        assert under_way <= 1
        assert result.state.retry_in_s <= 20 * 30


@pytest.mark.parametrize("kind", [PlainJudge, Streaming])
def test_a_failing_judge_is_not_called_again_and_the_other_questions_state_it(kind: type[PlainJudge]) -> None:
    mood, allowance, cache = Moody(), CallBudget(), MemoryCache()
    judge = AskingJudge(kind(mood), cache=cache, budget=allowance, breaker=breaker(Clock()))

    answers = judge.judge(questions(100))

    request = len(mood.stated)
    assert request <= 32  # the questions of one call of a judge that does not stream
    assert request < 10 or kind is PlainJudge
    assert 100 - request == sum(isinstance(answer, NotAsked) for answer in answers)
    assert {"judge_error"} == {answer.reason for answer in answers if isinstance(answer, JudgeFailure)}
    assert {0} == {answer.tries for answer in answers if isinstance(answer, NotAsked)}
    assert 2 * request == allowance.calls
    assert {} == cache.stored


def test_once_it_answers_again_each_question_is_judged_once() -> None:
    mood, cache, clock = Moody(), MemoryCache(), Clock()
    own = breaker(clock)
    judge = AskingJudge(Streaming(mood), cache=cache, breaker=own)
    judge.judge(questions(50))
    mood.stated.clear()
    assert [NotAsked] * 50 == [type(answer) for answer in judge.judge(questions(50))]
    assert [] == mood.stated

    mood.well = True
    clock.now_s += 30
    answers = judge.judge(questions(50))

    assert [Verdict] * 50 == [type(answer) for answer in answers]
    assert sorted(item.answer for item in questions(50)) == sorted(mood.stated)
    assert "closed" == own.state.state


def test_half_open_a_judge_that_still_fails_is_asked_once() -> None:
    mood, clock = Moody(), Clock()
    judge = AskingJudge(Streaming(mood), breaker=breaker(clock))
    judge.judge(questions(50))
    mood.stated.clear()
    clock.now_s += 30

    judge.judge(questions(50))

    assert 1 == len(mood.stated)


def test_a_question_that_the_budget_refuses_does_not_keep_the_turn() -> None:
    mood, clock = Moody(), Clock()
    own, allowance = breaker(clock), CallBudget(max_calls=100)
    judge = AskingJudge(Streaming(mood), budget=allowance, breaker=own)
    judge.judge(questions(20))
    clock.now_s += 30
    allowance.max_calls = 0
    assert {"budget_exhausted"} == {getattr(answer, "reason", None) for answer in judge.judge(questions(3))}
    assert own.admit(Q) == "admitted"


def test_a_run_that_is_left_gives_its_turn_back() -> None:
    mood, clock = Moody(), Clock()
    own = breaker(clock)
    judge = AskingJudge(Streaming(mood), breaker=own)
    judge.judge(questions(20))
    clock.now_s += 30
    mood.well = True
    answers = judge.verdicts(questions(5))
    next(answers)
    answers.close()
    assert own.admit(Q) == "admitted"


def about(rubric: Rubric, count: int) -> list[Question]:
    return [rubric_question(rubric, text=f"{rubric.name} {number}") for number in range(count)]


def reading_all_but(unreadable: Rubric, request: list[str]) -> PlainJudge:
    """Return a judge whose replies to one rubric never hold a verdict."""

    def say(item: Question) -> Answer:
        assert item.rubric is not None
        request.append(item.rubric.name)
        return UNREADABLE if item.rubric is unreadable else Verdict(score=0.0, reasoning="So.", label="a")

    judge = Streaming(say)
    judge.kinds = frozenset({"rubric"})  # type: ignore[attr-defined]
    return judge


def test_a_prompt_without_verdicts_stops_itself_and_no_other() -> None:
    request: list[str] = []
    own = breaker(Clock())
    judge = AskingJudge(reading_all_but(BAD, request), breaker=own)

    mixed = [item for pair in zip(about(BAD, 50), about(GOOD, 50), strict=True) for item in pair]
    bad, good = judge.judge(mixed)[::2], judge.judge(mixed)[1::2]

    assert {Verdict} == {type(answer) for answer in good}
    assert request.count("bad") <= 3 + 3  # those that open the circuit, and those in progress
    left = [answer for answer in bad if isinstance(answer, NotAsked)]
    assert 50 - request.count("bad") <= len(left)
    assert {("judge_error", 0, False)} == {(item.reason, item.tries, item.waits) for item in left}
    assert "prompt bad" in left[0].message
    assert "no verdict" in left[0].message
    assert "closed" == own.state.state


def test_once_a_prompt_gets_a_verdict_it_is_asked_as_before() -> None:
    clock = Clock()
    request: list[str] = []
    own = breaker(clock)
    AskingJudge(reading_all_but(BAD, request), breaker=own).judge(about(BAD, 10))
    clock.now_s += 30

    answers = AskingJudge(reading_all_but(GOOD, request), breaker=own).judge(about(BAD, 10))

    assert {Verdict} == {type(answer) for answer in answers}


def test_a_reply_that_cannot_be_read_shows_that_the_judge_answers() -> None:
    clock = Clock()
    result = breaker(clock)
    fail(result, 3)
    clock.now_s += 30
    assert "admitted" == result.admit(Q)
    result.record(Q, UNREADABLE)
    assert "closed" == result.state.state


def test_a_failure_of_a_single_question_opens_nothing() -> None:
    result = breaker(Clock(), failures=1)
    result.record(Q, JudgeFailure(reason="judge_error", message="too long"))
    assert ("closed", "admitted") == (result.state.state, result.admit(Q))


def test_conversations_wait_for_the_prompts_of_scoring_and_not_for_a_rubric() -> None:
    own = breaker(Clock(), failures=1)
    (bad,) = about(BAD, 1)
    own.record(bad, UNREADABLE)
    assert ("closed", "prompt_open") == (own.state.state, own.admit(bad))
    own.record(Q, UNREADABLE)
    assert ("open", "prompt_open") == (own.state.state, own.admit(Q))
    assert (False, True) == (own.not_asked(bad).waits, own.not_asked(Q).waits)


def patience(
    clock: Clock, longest_s: float, waited: list[float], well_after_s: float = 1e9, mood: Moody | None = None
) -> Patience:
    def sleep(seconds: float) -> None:
        waited.append(seconds)
        clock.now_s += seconds
        if mood is not None and sum(waited) >= well_after_s:
            mood.well = True

    return Patience(longest_s, sleep=sleep)


def test_a_run_waits_for_a_judge_that_does_not_answer_and_then_asks() -> None:
    mood, clock = Moody(), Clock()
    waited: list[float] = []
    own = breaker(clock)
    judge = AskingJudge(Streaming(mood), breaker=own, patience=patience(clock, 300, waited, 80, mood))

    answers = judge.judge(questions(50))

    lost = [answer for answer in answers if isinstance(answer, JudgeFailure)]
    assert 50 - len(lost) == sum(isinstance(answer, Verdict) for answer in answers)
    assert len(lost) <= 3 + 3 + 1  # asked before the circuit opened, and while it was half open
    assert [] == [answer for answer in lost if isinstance(answer, NotAsked)]
    assert 30 + 60 == round(sum(waited))


def test_a_run_does_not_wait_for_ever() -> None:
    clock = Clock()
    waited: list[float] = []
    judge = AskingJudge(Streaming(Moody()), breaker=breaker(clock), patience=patience(clock, 100, waited))

    answers = judge.judge(questions(50))

    assert 30 + 60 == round(sum(waited))
    assert NotAsked in {type(answer) for answer in answers}


def test_a_run_does_not_wait_for_credentials_that_are_refused() -> None:
    clock = Clock()
    waited: list[float] = []
    refusing = Streaming(lambda request: lost(request, "refused"))
    judge = AskingJudge(refusing, breaker=breaker(clock), patience=patience(clock, 300, waited))

    answers = judge.judge(questions(50))

    assert ([], True) == (waited, NotAsked in {type(answer) for answer in answers})


def test_a_wait_ends_when_the_run_is_to_stop() -> None:
    waited: list[float] = []
    result = Patience(300, stop=lambda: sum(waited) > 1, sleep=waited.append)
    assert not result.wait(60)
    assert sum(waited) < 2
