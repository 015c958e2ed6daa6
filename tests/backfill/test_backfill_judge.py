"""The questions that a dry run counts for an LLM judge are those that the run asks; a budget is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from otel_agentic.cli.backfill import judge_lines
from otel_agentic.judges import Verdict
from otel_agentic.results.evaluation import JudgeQuestions
from tests.builders import CASES, feed, fill_days, hotel_conversation, rows, run_backfill
from tests.judges.parts import Streaming, failing

if TYPE_CHECKING:
    from otel_agentic.engine.engine import Engine
    from otel_agentic.judges import Question
    from tests.backfill.conftest import DaysOf
    from tests.stores import OpenEngine


class Model(Streaming):
    """Claims to ask a model; an answer passes if it is the expected one."""

    def __init__(self) -> None:
        super().__init__(self._read)
        self.permit = lambda _: True

    def _read(self, question: Question) -> Verdict:
        score = float(question.answer == question.expected)
        return Verdict(score=score, reasoning="read", input_tokens=100, output_tokens=10)

    def estimated_tokens(self, question: Question) -> int:
        """Return a round number a question."""
        del question
        return 1_000


def with_model(engine: Engine) -> Model:
    judge = engine.runner.judge = Model()
    return judge


def test_a_dry_run_counts_the_different_questions_and_asks_none(open_engine: OpenEngine) -> None:
    engine = open_engine(judge={"input_price_usd": 2.0, "output_price_usd": 8.0})
    judge = with_model(engine)
    fill_days(engine)
    result = run_backfill(engine, dry_run=True)["judge"]

    assert 0 == judge.requests.total()
    assert (2, 0, 2, 2_000) == (result["questions"], result["cached"], result["calls"], result["tokens"])
    assert 2_000 * 8.0 / 1e6 == pytest.approx(result["cost_usd"])
    run_backfill(engine)
    assert result["calls"] == judge.requests.total()


def test_a_verdict_that_is_remembered_costs_nothing(days_of: DaysOf) -> None:
    engine = days_of(6)
    with_model(engine)
    run_backfill(engine)
    feed(engine, hotel_conversation(6), hotel_conversation(7))

    judge = run_backfill(engine, dry_run=True)["judge"]
    assert (2, 2, 0, 0) == (judge["questions"], judge["cached"], judge["calls"], judge["tokens"])


def test_a_budget_that_would_be_broken_is_named_and_kept(open_engine: OpenEngine) -> None:
    engine = open_engine(judge={"max_calls": 1})
    judge = with_model(engine)
    fill_days(engine)
    result = run_backfill(engine, dry_run=True)["judge"]
    assert "judge.max_calls 1" in result["over"]

    done = run_backfill(engine)
    assert 1 == judge.requests.total()
    refused = done["scoring"]["reasons"]["budget_exhausted"]
    assert [(refused,)] == rows(engine, "SELECT count(*) FROM results WHERE reason = 'budget_exhausted'")


def test_what_a_judge_failed_on_is_asked_again_by_the_next_run(engine: Engine) -> None:
    judge = with_model(engine)
    judge.say = failing
    fill_days(engine, 2)
    first = run_backfill(engine)
    assert {"judge_error": 2} == first["scoring"]["reasons"]

    judge.say = Model().say
    second = run_backfill(engine)
    assert {"pass": 1, "fail": 1} == second["scoring"]["outcomes"]
    assert second["windows"]["rows_changed"] > 0


def test_the_answers_of_cases_that_are_given_only_now_are_counted(engine: Engine) -> None:
    with_model(engine)
    feed(engine, hotel_conversation(1))

    assert 0 == run_backfill(engine, dry_run=True)["judge"]["questions"]
    assert 1 == run_backfill(engine, dry_run=True, cases=CASES)["judge"]["questions"]


def estimate(**changes: Any) -> dict[str, Any]:
    known = {"judge": "langchain", "asks_a_model": True, "questions": 120, "cached": 30, "calls": 90}
    return {**known, "tokens": 60_000, "cost_usd": 0.12, "over": None, **changes}


@pytest.mark.parametrize(
    ("changes", "lines"),
    [
        (
            {},
            [
                "judge langchain: 120 questions, 30 of them cached: 90 calls, about 60,000 tokens, about $0.1200",
                "  this assumes one call per question; retries, votes and canaries are extra",
            ],
        ),
        (
            {"cost_usd": None, "cached": 0, "calls": 120},
            [
                (
                    "judge langchain: 120 questions: 120 calls, about 60,000 tokens"
                    "; set judge.input_price_usd and judge.output_price_usd to see the cost"
                ),
                "  this assumes one call per question; retries, votes and canaries are extra",
            ],
        ),
        (
            {"cached": 120, "calls": 0, "tokens": 0, "cost_usd": 0.0},
            ["judge langchain: 120 questions, 120 of them cached: 0 calls, about 0 tokens, about $0.0000"],
        ),
    ],
    ids=["priced", "without a price", "all remembered"],
)
def test_the_estimate_is_described_in_words(changes: dict[str, Any], lines: list[str]) -> None:
    assert lines == list(judge_lines(JudgeQuestions(**estimate(**changes))))
