"""The Bayesian estimator compared with the exact posterior, and with fair-forge's samples of it."""

from __future__ import annotations

from typing import Any

import pytest

from otel_agentic.stats import Attempts, BayesianEstimator

PARITY_SCHEMA = "otel_agentic.parity.bayesian/1"


def test_closed_forms_equal_the_exact_posterior(parity_case: Any) -> None:
    tolerance = parity_case.document["absolute_tolerance_same_generator"]
    ours = _estimates(parity_case.case)
    for field, exact in parity_case.case["exact_closed_form"].items():
        assert ours[field] == pytest.approx(exact, abs=tolerance, rel=0)


def test_closed_forms_lie_within_the_sampling_error_of_fair_forge(parity_case: Any) -> None:
    ours = _estimates(parity_case.case)
    for field, theirs in parity_case.case["expected_package"].items():
        assert ours[field] == pytest.approx(theirs, abs=parity_case.case["tolerance_monte_carlo"][field], rel=0)


def _estimates(case: dict[str, Any]) -> dict[str, float | None]:
    estimator = BayesianEstimator(level=case["ci_level"], prior=(case["beta_prior_a"], case["beta_prior_b"]))
    attempts = Attempts.of((f"case {i}", i < case["c"]) for i in range(case["n"]))
    actual, k = estimator.estimate(attempts, [case["k"]]), case["k"]
    return {
        "pass_at_k": actual.pass_at_k[k].value,
        "pass_at_k_ci_low": actual.pass_at_k[k].lower,
        "pass_at_k_ci_high": actual.pass_at_k[k].upper,
        "pass_pow_k": actual.pass_pow_k[k].value,
        "pass_pow_k_ci_low": actual.pass_pow_k[k].lower,
        "pass_pow_k_ci_high": actual.pass_pow_k[k].upper,
    }
