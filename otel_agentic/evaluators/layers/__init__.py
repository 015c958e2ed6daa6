"""The three layers of an agent: reasoning (plans), action (calls), outcome; and which of them broke first.

The deterministic ones compare names, arguments and states; for plans and arguments in free words there are judged ones.
"""

from otel_agentic.evaluators.layers.judged import PlanAdherenceJudged, PlanQualityJudged
from otel_agentic.evaluators.layers.outcome import Outcome
from otel_agentic.evaluators.layers.parameters import Parameters
from otel_agentic.evaluators.layers.parameters_judged import ParametersJudged
from otel_agentic.evaluators.layers.reasoning import Reasoning
from otel_agentic.evaluators.layers.state_changes import StateChange
from otel_agentic.evaluators.layers.tools import Tools
from otel_agentic.evaluators.layers.validity import Validity
from otel_agentic.evaluators.layers.verdict import Verdict

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
