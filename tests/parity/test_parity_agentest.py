"""Trajectories compared with Agentest's own matcher."""

from __future__ import annotations

from typing import Any

import pytest

from otel_agentic.compat.agentest import CallAssertion, MadeToolCall, TrajectoryAssertions, match_trajectory
from otel_agentic.errors import UsageError

PARITY_SCHEMA = "otel_agentic.parity.agentest/1"
PARITY_LIST = "trajectory"

FIELDS = {
    "missingCalls": "missing_calls",
    "extraCalls": "extra_calls",
    "orderingIssues": "ordering_issues",
    "forbiddenCalls": "forbidden_calls",
}


def test_trajectories_equal_agentest(parity_case: Any) -> None:
    case = parity_case.case
    actual = [MadeToolCall(name=call["name"], args=call.get("args") or {}) for call in case["actual"]]
    assertions = TrajectoryAssertions(
        match_mode=case["assertions"]["matchMode"],
        expected=rules(case["assertions"].get("expected") or []),
        forbidden=rules(case["assertions"].get("forbidden") or []),
    )
    if "error" in case["expected"]:
        with pytest.raises(UsageError):
            match_trajectory(actual, assertions)
        return
    message = match_trajectory(actual, assertions)
    assert message.matched is case["expected"]["matched"]
    expected = {field: case["expected"].get(field, []) for field in FIELDS}
    assert {field: list(getattr(message, name)) for field, name in FIELDS.items()} == expected


def rules(given: list[dict[str, Any]]) -> tuple[CallAssertion, ...]:
    return tuple(
        CallAssertion(name=item["name"], args=item.get("args"), mode=item.get("argMatchMode")) for item in given
    )
