"""Fair Forge 3.0.0: its agentic metric, number for number, with its constructor names and result fields.

    from otel_agentic.compat.fair_forge import Agentic

    results = Agentic.run(datasets, k=3, model=model)  # what `fair_forge.metrics.agentic.Agentic.run` gave

`docs/compat.md` tells what is reproduced, which faults that includes, and how to migrate.
"""

from otel_agentic.compat.fair_forge.agentic import Agentic
from otel_agentic.compat.fair_forge.datasets import Dataset, Interaction
from otel_agentic.compat.fair_forge.rates import (
    BayesianMode,
    FrequentistMode,
    StatisticalMode,
    conversation_level,
    pass_at_k,
    pass_pow_k,
)
from otel_agentic.compat.fair_forge.results import AgenticMetric, ConversationLevel, ToolCorrectnessScore
from otel_agentic.compat.fair_forge.tools import DEFAULT_WEIGHTS, tool_correctness, turn_tool_correctness

__all__ = [
    "DEFAULT_WEIGHTS",
    "Agentic",
    "AgenticMetric",
    "BayesianMode",
    "ConversationLevel",
    "Dataset",
    "FrequentistMode",
    "Interaction",
    "StatisticalMode",
    "ToolCorrectnessScore",
    "conversation_level",
    "pass_at_k",
    "pass_pow_k",
    "tool_correctness",
    "turn_tool_correctness",
]
