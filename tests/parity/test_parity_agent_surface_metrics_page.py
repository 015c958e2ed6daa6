"""The functions of the Agent Surface metrics page, by their names there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, is_dataclass
from math import isinf
from typing import Any

import pytest

from otel_agentic.compat import agent_surface
from otel_agentic.errors import OtelAgenticError

PARITY_SCHEMA = "otel_agentic.parity.agent_surface/1"
PARITY_LIST = "metrics_page_cases"

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "calculatePassAtK": agent_surface.calculate_pass_at_k,
    "calculatePassCaretK": agent_surface.calculate_pass_caret_k,
    "calculateToolF1": agent_surface.calculate_tool_f1,
    "conformanceRate": agent_surface.conformance_rate,
    "costPerTask": agent_surface.cost_per_task,
    "hallucinationRate": agent_surface.hallucination_rate,
    "mttr": agent_surface.mttr,
    "percentile": agent_surface.percentile,
}


def test_functions_equal_those_of_the_page(parity_case: Any) -> None:
    function, expected = FUNCTIONS[parity_case.case["fn"]], parity_case.case.get("expected")
    if isinstance(expected, dict) and "error" in expected:
        with pytest.raises(OtelAgenticError):
            function(*parity_case.case["args"])
        return
    message = function(*parity_case.case["args"])
    if message is None or (isinstance(message, float) and isinf(message)):
        assert expected in (None, "Infinity", message)  # JSON has no infinity, and leaves undefined out
        return
    message = asdict(message) if is_dataclass(message) and not isinstance(message, type) else message
    assert message == pytest.approx(expected, abs=parity_case.document["absolute_tolerance"], rel=0)
