"""Averages and thresholds compared with Agentest's own scorer."""

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
    message = violations(averages, case["thresholds"])
    assert [item.metric for item in message] == [item["metric"] for item in case["expected_violations"]]
    for item, expected in zip(message, case["expected_violations"], strict=True):
        assert item.average == pytest.approx(expected["avg"], abs=tolerance, rel=0)
        assert item.threshold == expected["threshold"]
