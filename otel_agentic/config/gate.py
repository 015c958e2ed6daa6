"""The section `gate`: the conditions of `otel-agentic gate`, in addition to the flags of the command."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from otel_agentic.config.evaluators import Severity, Threshold
from otel_agentic.config.section import Count, Section

#: The least severity of a failure that fails the gate; `none`: a failure alone never does.
FailOn = Severity | Literal["none"]
#: The value compared with a limit: the estimate, or the lower (upper) end of its interval.
BoundKind = Literal["estimate", "lower"]
TierName = Literal["ready", "needs_improvement", "inconsistent", "not_ready", "insufficient_evidence", "no_row"]

_Ratio = Annotated[float, Field(ge=0.0, le=1.0)]
_K = Annotated[int, Field(ge=1, le=999_999)]
_Limit = Annotated[float, Field(allow_inf_nan=False)]
_Drop = Annotated[float, Field(ge=0.0, allow_inf_nan=False)]


class GateSettings(Section):
    """The conditions that each agent has to meet; flags of `otel-agentic gate` add to them or replace them."""

    min_pass_pow_k: dict[_K, _Ratio] = Field(default={}, description="minimum pass^k by k, such as {3 = 0.7}")
    min_pass_at_k: dict[_K, _Ratio] = Field(default={}, description="minimum pass@k by k, such as {3 = 0.95}")
    min_success: _Ratio | None = Field(
        default=None, description="minimum share of evaluated conversations that are correct"
    )
    min_coverage: _Ratio | None = Field(
        default=None, description="minimum share of closed conversations that were evaluated"
    )
    min_n: Count = Field(
        default=10,
        description="minimum number of evaluated conversations; a smaller suite sets 1, which proves little",
    )
    thresholds: dict[str, Threshold | _Limit] = Field(
        default={},
        description="good means of metrics, by name of the metric, such as {min = 3}, or a number alone: the minimum, or the "
        "maximum of a metric for which lower is better; in addition to `evaluators.thresholds`",
    )
    fail_on_severity: FailOn = Field(
        default="critical", description="a failure of at least this severity fails the gate; `none`: no failure does"
    )
    tiers: tuple[TierName, ...] = Field(default=(), description="sufficient tiers; empty: any")
    bound: BoundKind = Field(
        default="estimate",
        description="the value compared with a limit: `estimate`, or `lower`, the end of its interval that is worse for the "
        "agent, so that too little evidence fails",
    )
    baseline: str | None = Field(
        default=None, description="name of a stored baseline, or a JSON file, that agents must not fall below"
    )
    max_regression: dict[str, _Drop | Literal["chance"]] = Field(
        default={},
        description="values that must not be worse than in the baseline: success, pass^3, pass@3 or a metric, each with the "
        "allowed difference, or `chance`; empty: success, and everything that has a limit",
    )
    max_drop: _Drop | None = Field(
        default=None,
        description="allowed difference of rates from the baseline, if `max_regression` has no number; unset: no more than "
        "chance explains",
    )
    allow_no_data: tuple[str, ...] = Field(
        default=(), description="conditions that pass without data: names of metrics or conditions, or `all`"
    )
