"""The judge that asks a model, over real LangChain models without a provider behind them: verdicts, tries, versions."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random
from typing import Any

import pytest
from inline_snapshot import snapshot
from langchain_core.messages import AIMessage

from otel_agentic.config import JudgeSettings
from otel_agentic.judges import Question, StreamingJudge, Verdict, kinds_of
from otel_agentic.judges.base import BudgetAwareJudge
from otel_agentic.judges.llm import LangChainJudge
from tests.judges.models import Bare, Slow, Structured, Tools, by_answer, verdict
from tests.judges.parts import question, questions
from tests.judges.scripted_judges import failed, in_turn, judge_of, only
from tests.snapshots import ending, passage

MODELS = pytest.mark.parametrize("kind", [Bare, Tools, Structured])


@MODELS
def test_a_verdict_has_score_reasons_model_tokens_and_cost(kind: type[Bare]) -> None:
    received = only(judge_of(kind(), input_price_usd=1, output_price_usd=2).judge([question()]))
    assert (1.0, "The text states it.", kind.__name__, 1, 100, 10, False) == (
        received.score,
        received.reasoning,
        received.model,
        received.tries,
        received.input_tokens,
        received.output_tokens,
        received.cached,
    )
    assert 0.00012 == pytest.approx(received.cost_usd)
    assert received.latency_s > 0


@MODELS
def test_verdicts_come_back_in_the_order_of_the_questions(kind: type[Bare]) -> None:
    request = questions(40)
    model = kind(say=by_answer({item.answer: index / 40 for index, item in enumerate(request)}))
    answers = judge_of(model).judge(request)
    assert [index / 40 for index in range(40)] == [item.score for item in answers if isinstance(item, Verdict)]


def test_no_question_is_no_call() -> None:
    model = Bare()
    assert [] == judge_of(model).judge([])
    assert [] == model.requests


def test_a_reply_without_its_tokens_counts_none_and_has_no_price() -> None:
    received = only(judge_of(Bare(usage=None), input_price_usd=1, output_price_usd=2).judge([question()]))
    assert (0, 0, None) == (received.input_tokens, received.output_tokens, received.cost_usd)


def test_it_judges_answers_parameters_and_utilization_each_by_its_own_prompt() -> None:
    model = Bare()
    judge = judge_of(model)
    for kind in sorted(kinds_of(judge) - {"rubric"}):
        judge.judge([Question(query="q", expected="e", answer="a", threshold=0.7, kind=kind)])
    prompts = [str(messages[-1].content) for messages in model.requests]
    assert [next(begin for begin in _BEGINNINGS if begin in prompt) for prompt in prompts] == snapshot(
        [
            "Grade whether `answer` is right",
            "Grade whether an agent called a tool",
            "Grade whether an agent used",
        ]
    )


_BEGINNINGS = ("Grade whether `answer` is right", "Grade whether an agent called a tool", "Grade whether an agent used")


def test_it_is_a_judge_that_streams_and_keeps_a_budget() -> None:
    judge = judge_of(Bare())
    assert isinstance(judge, StreamingJudge)
    assert isinstance(judge, BudgetAwareJudge)


@pytest.mark.parametrize(
    "stated",
    [
        "no JSON at all",
        '{"reasoning": "x", "score": NaN}',
        verdict(1e9),
        verdict(-1),
        verdict(True),
        "",
        AIMessage(verdict(), additional_kwargs={"refusal": "no"}),
        AIMessage(verdict(), response_metadata={"finish_reason": "length"}),
        TimeoutError("the read timed out"),
        ConnectionResetError("reset"),
        RuntimeError("an unknown problem"),
    ],
)
@MODELS
def test_a_judge_that_fails_in_any_way_never_gives_a_score(kind: type[Bare], stated: Any) -> None:
    model = kind(say=in_turn(stated))
    received = failed(judge_of(model, tries=3).judge([question()]))
    assert ("judge_error", 3, 3) == (received.reason, received.tries, len(model.requests))
    assert passage(received.message, name=kind.__name__) == snapshot("<name> gave no verdict in 3 tries: ")


@MODELS
def test_a_failure_that_passes_is_tried_again(kind: type[Bare]) -> None:
    model = kind(say=in_turn(TimeoutError("slow"), "no", verdict(0.4)))
    received = only(judge_of(model, tries=4).judge([question()]))
    assert (0.4, 3) == (received.score, received.tries)
    assert 200 == received.input_tokens  # the first call had no reply


def test_a_failure_tells_what_it_cost() -> None:
    received = failed(
        judge_of(Bare(say=in_turn("no")), tries=2, input_price_usd=1, output_price_usd=2).judge([question()])
    )
    assert (200, 20) == (received.input_tokens, received.output_tokens)
    assert 0.00024 == pytest.approx(received.cost_usd)


def test_after_an_unreadable_reply_the_model_receives_a_hint_in_our_own_words() -> None:
    model = Bare(say=in_turn("SCORE ME 1.0", verdict()))
    only(judge_of(model).judge([question()]))
    first, second = (str(messages[-1].content) for messages in model.requests)
    assert "Your last reply was no verdict" not in first
    assert ending(second) == snapshot("Your last reply was no verdict of this form. Keep to it exactly.")
    assert "SCORE ME" not in second


def test_waits_double_with_jitter() -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        await asyncio.sleep(0)

    settings = JudgeSettings(backoff_s=1, backoff_max_s=5, tries=5)
    failed(LangChainJudge(Bare(say=in_turn("no")), settings, sleep=sleep, rng=Random(7)).judge([question()]))  # noqa: S311 — jitter
    assert [True] * 4 == [
        low <= wait <= high for wait, (low, high) in zip(waits, [(0.5, 1), (1, 2), (2, 4), (2.5, 5)], strict=True)
    ]


def test_a_call_without_end_is_broken_off() -> None:
    model = Slow(takes_s=3600)
    received = failed(judge_of(model, timeout_s=0.05, tries=2).judge([question()]))
    assert "no reply within 0.05 s" in received.message
    assert (2, 2) == (received.tries, len(model.cancelled))


def test_the_version_is_that_of_what_a_verdict_depends_on(tmp_path: Path) -> None:
    own = tmp_path / "own.md"
    own.write_text("Grade by length.", encoding="utf-8")
    same = [judge_of(Bare()), judge_of(Bare(), concurrency=2, tries=9, canary_ratio=0.5, vote_band=0.3, timeout_s=5)]
    others = [
        judge_of(Tools()),
        judge_of(Bare(), prompt=own),
        judge_of(Bare(), method="text"),
        judge_of(Bare(), votes=3),
        judge_of(Bare(), votes=3, vote_band=0.3),
        judge_of(Bare(), max_answer_characters=10),
    ]
    assert 1 == len({judge.version for judge in same})
    assert 1 + len(others) == len({judge.version for judge in [*same, *others]})


def test_a_prompt_of_a_user_is_sent_to_the_model(tmp_path: Path) -> None:
    own = tmp_path / "own.md"
    own.write_text("---\nname: answer\nversion: 3\n---\nGrade by length.", encoding="utf-8")
    model = Bare()
    judge_of(model, prompt=own).judge([question()])
    human = str(model.requests[0][-1].content)
    assert passage(human) == snapshot("\n\nGrade by length.\n\nReply with")
    assert "strict on spelling" not in human
