"""The metrics of RAGAS for agents: answer accuracy, goal accuracy, topic adherence, tool call accuracy and F1.

The definitions are those of RAGAS and NeMo Evaluator. Where their arithmetic has faults, ours differs, as the `limits`
of each metric state. `otel_agentic.compat.ragas` reproduces their own numbers, faults included.

Ref: RAGAS 0.3.9 (and 0.2.15), metrics for agents and Nvidia metrics.
"""

from otel_agentic.evaluators.ragas.judge_metrics import (
    ANSWERED,
    OUTSIDE,
    REFUSED,
    WITHIN,
    Adherence,
    AnswerAccuracy,
    GoalAccuracy,
    GoalAccuracyWithoutReference,
    TopicAdherence,
)
from otel_agentic.evaluators.ragas.tool_calls import ToolCalls

__all__ = [
    "ANSWERED",
    "OUTSIDE",
    "REFUSED",
    "WITHIN",
    "Adherence",
    "AnswerAccuracy",
    "GoalAccuracy",
    "GoalAccuracyWithoutReference",
    "ToolCalls",
    "TopicAdherence",
]
