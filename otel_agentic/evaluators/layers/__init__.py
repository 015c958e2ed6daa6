"""The three layers of an agent: reasoning (plans), action (calls), outcome; and which of them broke first.

The deterministic metrics compare names, arguments and states; judged metrics cover plans and arguments in free text.
"""

from otel_agentic.evaluators.layers.calls import Parameters, Tools, Validity
from otel_agentic.evaluators.layers.judge_metrics import ParametersJudged, PlanAdherenceJudged, PlanQualityJudged
from otel_agentic.evaluators.layers.outcome import Outcome, StateChange, Verdict
from otel_agentic.evaluators.layers.plans import Reasoning

__all__ = [
    "Outcome",
    "Parameters",
    "ParametersJudged",
    "PlanAdherenceJudged",
    "PlanQualityJudged",
    "Reasoning",
    "StateChange",
    "Tools",
    "Validity",
    "Verdict",
]
