"""The default arithmetic with the constructor of Fair Forge's metric."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from otel_agentic.api.fair_forge import Agentic
from otel_agentic.compat.fair_forge import BayesianMode, Dataset, Retriever
from otel_agentic.errors import UsageError
from otel_agentic.judges import JudgeFailure, Question, Verdict

ANSWERS = (("Paris", "Madrid"), ("Paris", "Madrid"), ("Lyon", "Madrid"))
QUERIES = (("Capital of France?", "Paris"), ("Capital of Spain?", "Madrid"))


class Sessions(Retriever):
    """Three attempts at a conversation of two turns; the last one begins with a wrong answer."""

    def load_dataset(self) -> list[Dataset]:
        return [Dataset.model_validate(session(number, answers)) for number, answers in enumerate(ANSWERS)]


def session(number: int, answers: tuple[str, ...]) -> dict[str, Any]:
    call = {"tool_name": "atlas", "parameters": {}, "step": 1}
    turns = [
        {
            "qa_id": query,
            "query": query,
            "assistant": answer,
            "ground_truth_assistant": expected,
            "agentic": {"tools_used": [call], "final_answer_uses_tools": True},
            "ground_truth_agentic": {"expected_tools": [call]},
        }
        for (query, expected), answer in zip(QUERIES, answers, strict=True)
    ]
    return {"session_id": f"s{number}", "assistant_id": "guide", "context": "", "conversation": turns}


def test_rates_are_over_sessions() -> None:
    evaluation = Agentic.run(Sessions, k=3, model="exact")
    assert (evaluation.n, evaluation.c) == (3, 2)
    assert (evaluation.pass_at_k[3].value, evaluation.pass_pow_k[3].value) == pytest.approx((26 / 27, 8 / 27))


def test_a_bayesian_mode_sets_level_and_prior() -> None:
    evaluation = Agentic.run(
        Sessions, k=1, model="exact", statistical_mode=BayesianMode(ci_level=0.9, beta_prior_a=2.0)
    )
    assert evaluation.pass_at_k[1].value == pytest.approx(4 / 6)
    assert (evaluation.settings.stats.level, evaluation.settings.stats.prior) == (0.9, (2.0, 1.0))


def test_a_failure_of_the_judge_is_not_a_failure_of_the_agent() -> None:
    class Failing:
        name, version = "failing", "1"

        def judge(self, questions: list[Question]) -> list[Verdict | JudgeFailure]:
            return [JudgeFailure(reason="judge_error", message="timeout") for _ in questions]

    evaluation = Agentic.run(Sessions, k=1, model=Failing())
    assert (evaluation.n, evaluation.reasons) == (0, {"judge_error": 3})


def test_the_reasoning_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "otel_agentic.api.fair_forge"):
        Agentic.run(Sessions, k=1, model="exact", verbose=True)
    assert len(caplog.messages) == 6
    assert caplog.messages[0].startswith("session 's0', turn 0: pass: answer of turn 1 scores 1.00")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bos_json_clause": "<json>"}, "JSON is read with and without a fence"),
        ({"tool_weights": {"choice": 1.0}}, "tool_weights: found 'choice'"),
        ({"threshold": 7}, "answer_threshold: found 7"),
        ({"k": 0}, "k"),
    ],
)
def test_invalid_arguments_are_named(options: dict[str, Any], message: str) -> None:
    defaults: dict[str, Any] = {"k": 1, "model": "exact"}
    with pytest.raises(UsageError, match=message):
        Agentic.run(Sessions, **(defaults | options))


def test_without_structured_output_the_model_is_asked_for_text() -> None:
    assert Agentic(Sessions, "exact", 1, use_structured_output=False).evaluate().settings.judge.method == "text"
