"""What Fair Forge reports, under its own field names.

Pydantic, because its users dump and reload these: `model_dump`, `model_dump_json`, `model_validate`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import BaseModel, Field

Ratio = Annotated[float, Field(ge=0.0, le=1.0)]


class ToolCorrectnessScore(BaseModel):
    """The tool score of one interaction; every number is in [0, 1]."""

    tool_selection_correct: Ratio
    parameter_accuracy: Ratio
    sequence_correct: Ratio
    result_utilization: Ratio
    overall_correctness: Ratio
    is_correct: bool
    reasoning: str | None = None


class AgenticMetric(BaseModel):
    """The result for one conversation. `pass_at_k` and `pass_pow_k` are over its *interactions*, as in Fair Forge.

    The bounds are None in frequentist mode. `judge_failures` is not in Fair Forge: the interactions whose score of 0.0
    is the judge's failure and says nothing about the agent.
    """

    session_id: str
    assistant_id: str
    total_interactions: int
    correct_interactions: int
    is_fully_correct: bool
    threshold: float
    correctness_scores: list[float]
    correct_indices: list[int]
    tool_correctness_scores: list[ToolCorrectnessScore | None] = []
    k: int = 0
    pass_at_k: float = 0.0
    pass_at_k_ci_low: float | None = None
    pass_at_k_ci_high: float | None = None
    pass_pow_k: float = 0.0
    pass_pow_k_ci_low: float | None = None
    pass_pow_k_ci_high: float | None = None
    judge_failures: list[int] = []


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationLevel:
    """pass@k and pass^k over conversations: n of them, c fully correct."""

    n: int
    c: int
    pass_at_k: float
    pass_pow_k: float
