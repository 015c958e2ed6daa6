from __future__ import annotations

from typing import TYPE_CHECKING

from otel_agentic.judges.base import JudgeFailure, Verdict
from otel_agentic.telemetry import Agreement

if TYPE_CHECKING:
    from otel_agentic.telemetry import Telemetry
    from tests.telemetry.conftest import MakeTelemetry
    from tests.telemetry.receiver.over_http import HttpReceiver


def verdict(*, cached: bool = False, cost_usd: float | None = 0.25, model: str | None = "gpt-5-mini") -> Verdict:
    return Verdict(score=1.0, reasoning="Yes.", model=model, cost_usd=cost_usd, cached=cached)


def test_cost_is_summed_by_judge_and_model(telemetry: Telemetry, receiver: HttpReceiver) -> None:
    for model in ("gpt-5-mini", "gpt-5-mini", "qwen"):
        telemetry.record_answer(verdict(model=model), "langchain")
    telemetry.record_answer(JudgeFailure(reason="judge_error", message="429", tries=4, cost_usd=0.5), "langchain")
    assert telemetry.force_flush(5.0)
    metric = receiver.received.by_name()["agentic.judge.cost"]
    assert (metric.unit, metric.sum.is_monotonic) == ("{USD}", True)
    assert receiver.received.values(metric.name, "agentic.evaluator", "gen_ai.request.model") == {
        ("langchain", "gpt-5-mini"): 0.5,
        ("langchain", "qwen"): 0.25,
        ("langchain", None): 0.5,
    }


def test_what_has_no_price_and_what_was_cached_cost_nothing(telemetry: Telemetry, receiver: HttpReceiver) -> None:
    telemetry.record_answer(verdict(cost_usd=None), "langchain")
    telemetry.record_answer(verdict(cached=True), "langchain")
    assert telemetry.force_flush(5.0)
    assert "agentic.judge.cost" not in receiver.received.by_name()


def test_look_ups_of_the_cache_are_counted_by_result(telemetry: Telemetry, receiver: HttpReceiver) -> None:
    for cached in (True, True, False):
        telemetry.record_answer(verdict(cached=cached), "langchain")
    telemetry.record_answer(JudgeFailure(reason="budget_exhausted", message="budget"), "langchain")  # never asked
    assert telemetry.force_flush(5.0)
    metric = receiver.received.by_name()["agentic.judge.cache.requests"]
    assert metric.unit == "{request}"
    assert receiver.received.values(metric.name, "agentic.result") == {("hit",): 2, ("miss",): 1}


def test_agreement_follows_the_newest_calibration(telemetry: Telemetry, receiver: HttpReceiver) -> None:
    turn = Agreement(evaluator="langchain", model="qwen", target="turn", kappa=0.8)
    telemetry.set_agreement([turn, Agreement(evaluator="langchain", model="qwen", target="conversation", kappa=None)])
    assert telemetry.force_flush(5.0)
    metric = receiver.received.by_name()["agentic.judge.agreement"]
    assert metric.unit == "{kappa}"
    ((labels, point),) = receiver.received.points(metric.name)
    assert (labels, point.as_double) == (
        {"agentic.evaluator": "langchain", "gen_ai.request.model": "qwen", "agentic.evaluation.target": "turn"},
        0.8,
    )
    telemetry.set_agreement([])
    assert telemetry.force_flush(5.0)
    assert "agentic.judge.agreement" not in receiver.received.by_name()


def test_a_backfill_counts_no_judge_into_live_series(make_telemetry: MakeTelemetry) -> None:
    telemetry = make_telemetry(trigger="backfill")
    telemetry.record_answer(verdict(), "langchain")
    assert b"agentic_judge" not in telemetry.render()[1]
