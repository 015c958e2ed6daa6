"""Tool call accuracy and F1 compared with RAGAS 0.3.9 and 0.2.15."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from otel_agentic.compat.ragas import RagasCall, legacy_tool_call_accuracy, tool_call_accuracy, tool_call_f1
from otel_agentic.errors import BadInputError

PARITY_SCHEMA = "otel_agentic.parity.ragas_tool_call/1"


def test_strict_tool_call_accuracy_equals_ragas(parity_case: Any) -> None:
    check(tool_call_accuracy, "strict", parity_case)


def test_unordered_tool_call_accuracy_equals_ragas(parity_case: Any) -> None:
    check(lambda actual, expected: tool_call_accuracy(actual, expected, strict_order=False), "unordered", parity_case)


def test_tool_call_f1_equals_ragas(parity_case: Any) -> None:
    check(tool_call_f1, "f1", parity_case)


def test_legacy_tool_call_accuracy_equals_ragas(parity_case: Any) -> None:
    check(legacy_tool_call_accuracy, "legacy_strict", parity_case)


def check(metric: Callable[[list[RagasCall], list[RagasCall]], float], name: str, parity_case: Any) -> None:
    messages = {**parity_case.case.get("expected", {}), "legacy_strict": parity_case.case.get("expected_legacy_strict")}
    if messages.get(name) is None:
        return  # it was not run there
    expected = messages[name]
    predicted = [actual for message in parity_case.case["predicted"] for actual in calls(message)]
    reference = calls(parity_case.case["reference"])
    if isinstance(expected, dict):
        with pytest.raises(BadInputError):
            metric(predicted, reference)
    else:
        tolerance = parity_case.document["absolute_tolerance"]
        assert metric(predicted, reference) == pytest.approx(expected, abs=tolerance, rel=0)


def calls(given: list[dict[str, Any]]) -> list[RagasCall]:
    return [RagasCall(name=item["name"], args=item.get("args") or {}) for item in given]
