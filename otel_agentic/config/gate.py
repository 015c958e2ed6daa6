"""The section `gate`: what `otel-agentic gate` asks for, beside the flags of the command."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from otel_agentic.config.evaluators import Severity, Threshold
from otel_agentic.config.section import Count, Section

#: From which severity on a failure fails the gate; `none`: no failure does by itself.
FailOn = Severity | Literal["none"]
#: What is held against a limit: the estimate, or the lower (upper) end of its interval.
BoundKind = Literal["estimate", "lower"]
TierName = Literal["ready", "needs_improvement", "inconsistent", "not_ready", "insufficient_evidence", "no_row"]

_Ratio = Annotated[float, Field(ge=0.0, le=1.0)]
_K = Annotated[int, Field(ge=1, le=999_999)]
_Limit = Annotated[float, Field(allow_inf_nan=False)]
_Drop = Annotated[float, Field(ge=0.0, allow_inf_nan=False)]


class GateSettings(Section):
    """What must hold of each agent for the gate to pass; flags of `otel-agentic gate` add to it, or take its place."""

    min_pass_pow_k: dict[_K, _Ratio] = Field(default={}, description="least pass^k by k, as in {3 = 0.7}")
    min_pass_at_k: dict[_K, _Ratio] = Field(default={}, description="least pass@k by k, as in {3 = 0.95}")
    min_success: _Ratio | None = Field(
        default=None, description="least share of evaluated conversations that are correct"
    )
    min_coverage: _Ratio | None = Field(
        default=None, description="least share of closed conversations that were evaluated"
    )
    min_n: Count = Field(
        default=10,
        description="least number of evaluated conversations; a smaller suite sets 1, knowing how little it proves",
    )
    thresholds: dict[str, Threshold | _Limit] = Field(
        default={},
        description="means of metrics that are good, by name of the metric, as in {min = 3}, or a number alone: the least, "
        "or the most where lower is better; beside those of `evaluators.thresholds`",
    )
    fail_on_severity: FailOn = Field(
        default="critical", description="a failure of this severity or a worse one fails the gate; `none`: none does"
    )
    tiers: tuple[TierName, ...] = Field(default=(), description="tiers that are good enough; empty: any")
    bound: BoundKind = Field(
        default="estimate",
        description="what is held against a limit: `estimate`, or `lower`, the end of its interval that speaks least for the "
        "agent: then too little evidence fails",
    )
    baseline: str | None = Field(
        default=None, description="name of a stored baseline, or a JSON file, that the agents may not be worse than"
    )
    max_regression: dict[str, _Drop | Literal["chance"]] = Field(
        default={},
        description="what may not be worse than in the baseline: success, pass^3, pass@3 or a metric, each with how much "
        "worse it may be, or `chance`; empty: success, and what else has a limit",
    )
    max_drop: _Drop | None = Field(
        default=None,
        description="how much worse rates may be than in the baseline, where `max_regression` gives no number; unset: by no "
        "more than chance explains",
    )
    allow_no_data: tuple[str, ...] = Field(
        default=(), description="conditions that pass without data: names of metrics or conditions, or `all`"
    )
