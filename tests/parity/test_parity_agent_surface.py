"""The functions of the Agent Surface evaluation page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import pytest

from otel_agentic.compat import agent_surface
from otel_agentic.errors import OtelAgenticError

PARITY_SCHEMA = "otel_agentic.parity.agent_surface/1"

METRICS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "plan_quality": lambda case: agent_surface.plan_quality(case["plan"], case["expected_tools"]),
    "tool_routing_accuracy": lambda case: agent_surface.tool_routing_accuracy(case["calls"], case["expected_tools"]),
    "parameter_correctness": lambda case: asdict(
        agent_surface.parameter_correctness(case["arguments"], case["schema"], case.get("reference_args"))
    ),
    "step_efficiency": lambda case: agent_surface.step_efficiency(case["actual_steps"], case["minimum_steps"]),
    "task_completion": lambda case: agent_surface.task_completion(case["expected_state"], case["actual_state"]),
    "passat_k/passcaret_k": lambda case: {
        "passat_k": agent_surface.passat_k(case["results"]),
        "passcaret_k": agent_surface.passcaret_k(case["results"]),
    },
}


def test_metrics_equal_the_functions_of_the_page(parity_case: Any) -> None:
    metric, expected = METRICS[parity_case.case["metric"]], parity_case.case["expected"]
    if isinstance(expected, dict) and "error" in expected:
        with pytest.raises(OtelAgenticError):
            metric(parity_case.case)
        return
    message = metric(parity_case.case)
    if isinstance(expected, dict) and "schema_errors" in expected:
        assert message.pop("schema_errors") == tuple(expected["schema_errors"])
        expected = {name: value for name, value in expected.items() if name != "schema_errors"}
    assert message == pytest.approx(expected, abs=parity_case.document["absolute_tolerance"], rel=0)
