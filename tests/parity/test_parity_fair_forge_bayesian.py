"""Fair-forge's Bayesian mode by the same generator: the samples themselves, not only their distribution."""

from __future__ import annotations

from typing import Any

import pytest

from otel_agentic.compat.fair_forge import Agentic, BayesianMode

PARITY_SCHEMA = "otel_agentic.parity.bayesian/1"
OPTIONS = ("mc_samples", "ci_level", "beta_prior_a", "beta_prior_b", "rng_seed")


class Echo:
    """A judge of nothing: an answer is correct if its text is "correct"."""

    def invoke(self, messages: Any) -> Any:
        score = 1.0 if '"query": "right"' in messages[-1][1] else 0.0

        class Reply:
            content = f'{{"correctness_score": {score}, "reasoning": "so"}}'

        return Reply()


def test_samples_equal_fair_forge(parity_case: Any) -> None:
    case = parity_case.case
    mode = BayesianMode(**{name: case[name] for name in OPTIONS if name in case})
    [message] = run([case], case["k"], mode)
    assert message == close_to(case["expected_package"], parity_case.document)


def test_a_second_run_goes_on_with_the_same_generator(parity_document: Any) -> None:
    stateful = parity_document.get("stateful_generator")
    if stateful is None:
        pytest.skip("the document has no second run")
    mode = BayesianMode()
    for expected in (stateful["first_run"], stateful["second_run"]):
        message = run(stateful["conversations"], stateful["k"], mode)
        assert [close_to(item, parity_document) for item in expected] == message


def run(counts: list[dict[str, Any]], k: int, mode: BayesianMode) -> list[dict[str, float]]:
    data = [
        {"session_id": str(index), "assistant_id": "a", "context": "", "conversation": turns(item["n"], item["c"])}
        for index, item in enumerate(counts)
    ]
    results = Agentic.run(data, k=k, model=Echo(), statistical_mode=mode)
    return [
        {name: value for name, value in result.model_dump().items() if name.startswith("pass_")} for result in results
    ]


def turns(n: int, c: int) -> list[dict[str, Any]]:
    queries = ["right"] * c + ["wrong"] * (n - c)
    return [
        {"qa_id": str(index), "query": query, "assistant": "a", "ground_truth_assistant": "a"}
        for index, query in enumerate(queries)
    ]


def close_to(expected: dict[str, float], document: dict[str, Any]) -> Any:
    return pytest.approx(expected, abs=document["absolute_tolerance_same_generator"], rel=0)
