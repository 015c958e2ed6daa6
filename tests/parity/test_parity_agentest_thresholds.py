"""Averages and thresholds beside Agentest's own scorer."""

from __future__ import annotations

from typing import Any

import pytest

from otel_agentic.compat.agentest import metric_averages, violations

PARITY_SCHEMA = "otel_agentic.parity.agentest/1"
PARITY_LIST = "thresholds"


def test_averages_and_violations_equal_agentest(parity_case: Any) -> None:
    case, tolerance = parity_case.case, parity_case.document["absolute_tolerance"]
    averages = metric_averages(case["evaluations"])
    assert averages == pytest.approx(case["expected_averages"], abs=tolerance, rel=0)
    told = violations(averages, case["thresholds"])
    assert [one.metric for one in told] == [one["metric"] for one in case["expected_violations"]]
    for one, expected in zip(told, case["expected_violations"], strict=True):
        assert one.average == pytest.approx(expected["avg"], abs=tolerance, rel=0)
        assert one.threshold == expected["threshold"]
