"""Agentest 0.0.17: trajectory assertions and score thresholds.

`docs/compat.md` tells what is reproduced and which faults that includes.
"""

from otel_agentic.compat.agentest.thresholds import Violation, metric_averages, violations
from otel_agentic.compat.agentest.trajectory import (
    CallAssertion,
    MadeToolCall,
    TrajectoryAssertions,
    TrajectoryResult,
    match_trajectory,
)

__all__ = [
    "CallAssertion",
    "MadeToolCall",
    "TrajectoryAssertions",
    "TrajectoryResult",
    "Violation",
    "match_trajectory",
    "metric_averages",
    "violations",
]
