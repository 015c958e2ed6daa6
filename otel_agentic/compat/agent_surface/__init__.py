"""The functions that the Agent Surface pages print, under our spelling of their names.

`docs/compat.md` tells which faults they have.
"""

from otel_agentic.compat.agent_surface.evaluation_page import (
    ParameterGrade,
    parameter_correctness,
    passat_k,
    passcaret_k,
    plan_quality,
    step_efficiency,
    task_completion,
    tool_routing_accuracy,
)
from otel_agentic.compat.agent_surface.metrics_page import (
    ToolF1,
    calculate_pass_at_k,
    calculate_pass_caret_k,
    calculate_tool_f1,
    conformance_rate,
    cost_per_task,
    hallucination_rate,
    mttr,
    percentile,
)

__all__ = [
    "ParameterGrade",
    "ToolF1",
    "calculate_pass_at_k",
    "calculate_pass_caret_k",
    "calculate_tool_f1",
    "conformance_rate",
    "cost_per_task",
    "hallucination_rate",
    "mttr",
    "parameter_correctness",
    "passat_k",
    "passcaret_k",
    "percentile",
    "plan_quality",
    "step_efficiency",
    "task_completion",
    "tool_routing_accuracy",
]
