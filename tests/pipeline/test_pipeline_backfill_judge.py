"""What a dry run says of a judge that asks a model is what the run then asks; a budget is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from otel_agentic.cli.backfill import judge_lines
from otel_agentic.judges import Verdict
from tests.builders import CASES, feed, fill_days, hotel_conversation, rows, run_backfill
from tests.judges.parts import Streaming, failing

if TYPE_CHECKING:
    from otel_agentic.engine.engine import Engine
    from otel_agentic.judges import Question
    from tests.pipeline.conftest import OpenEngine


class Model(Streaming):
    """Asks a model, or says so: what passes is what the case says."""

    def __init__(self) -> None:
        super().__init__(self._read)
        self.permit = lambda _: True

    def _read(self, asked: Question) -> Verdict:
        score = float(asked.answer == asked.expected)
        return Verdict(score=score, reasoning="read", input_tokens=100, output_tokens=10)

    def estimated_tokens(self, question: Question) -> int:
        """Return a round number a question."""
        del question
        return 1_000


def with_model(engine: Engine) -> Model:
    judge = engine.evaluating.judge = Model()
    return judge


def test_a_dry_run_counts_the_different_questions_and_asks_none(open_engine: OpenEngine) -> None:
    engine = open_engine(judge={"input_price_usd": 2.0, "output_price_usd": 8.0})
    judge = with_model(engine)
    fill_days(engine)
    found = run_backfill(engine, dry_run=True)["judge"]

    assert 0 == judge.asked.total()
    assert (2, 0, 2, 2_000) == (found["questions"], found["cached"], found["calls"], found["tokens"])
    assert 2_000 * 8.0 / 1e6 == pytest.approx(found["cost_usd"])
    run_backfill(engine)
    assert found["calls"] == judge.asked.total()


def test_a_verdict_that_is_remembered_costs_nothing(engine: Engine) -> None:
    with_model(engine)
    fill_days(engine, 6)
    run_backfill(engine)
    feed(engine, hotel_conversation(6), hotel_conversation(7))

    found = run_backfill(engine, dry_run=True)["judge"]
    assert (2, 2, 0, 0) == (found["questions"], found["cached"], found["calls"], found["tokens"])


def test_a_budget_that_would_be_broken_is_named_and_kept(open_engine: OpenEngine) -> None:
    engine = open_engine(judge={"max_calls": 1})
    judge = with_model(engine)
    fill_days(engine)
    found = run_backfill(engine, dry_run=True)["judge"]
    assert "judge.max_calls 1" in found["over"]

    done = run_backfill(engine)
    assert 1 == judge.asked.total()
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
                "judge langchain: 120 questions, 30 of them remembered: 90 calls, about 60,000 tokens, at most $0.1200",
                "  one call a question is counted; retries, votes and canaries come on top",
            ],
        ),
        (
            {"cost_usd": None, "cached": 0, "calls": 120},
            [
                (
                    "judge langchain: 120 questions: 120 calls, about 60,000 tokens"
                    "; set judge.input_price_usd and judge.output_price_usd to see the cost"
                ),
                "  one call a question is counted; retries, votes and canaries come on top",
            ],
        ),
        (
            {"cached": 120, "calls": 0, "tokens": 0, "cost_usd": 0.0},
            ["judge langchain: 120 questions, 120 of them remembered: 0 calls, about 0 tokens, at most $0.0000"],
        ),
    ],
    ids=["priced", "without a price", "all remembered"],
)
def test_the_estimate_is_told_in_words(changes: dict[str, Any], lines: list[str]) -> None:
    assert lines == list(judge_lines(estimate(**changes)))
