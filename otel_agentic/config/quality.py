"""The sections `evaluators`, `gate` and `slo`: which metrics are computed, what fails a gate, and the objectives of agents."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import combinations
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from otel_agentic.config.patterns import globs_overlap
from otel_agentic.config.sections import Count, Section

Severity = Literal["low", "medium", "high", "critical"]
_Bound = Annotated[float, Field(allow_inf_nan=False)]
#: The least severity of a failure that fails the gate; `none`: a failure alone never does.
FailOn = Severity | Literal["none"]
#: The value compared with a limit: the estimate, or the lower (upper) end of its interval.
BoundKind = Literal["estimate", "lower"]
TierName = Literal["ready", "needs_improvement", "inconsistent", "not_ready", "insufficient_evidence", "no_row"]
_Ratio = Annotated[float, Field(ge=0.0, le=1.0)]
_K = Annotated[int, Field(ge=1, le=999_999)]
_Limit = Annotated[float, Field(allow_inf_nan=False)]
_Drop = Annotated[float, Field(ge=0.0, allow_inf_nan=False)]
Block = Literal["auto", "user", "session", "hour", "none"]


class Threshold(Section):
    """The good values of a metric: from `min` to `max`, both inclusive; None is no bound."""

    min: _Bound | None = None
    max: _Bound | None = None

    @model_validator(mode="after")
    def _some_bound(self) -> Self:
        if self.min is None and self.max is None:
            message = "give min, max or both"
            raise ValueError(message)
        if self.min is not None and self.max is not None and self.min > self.max:
            message = f"min {self.min:g} is above max {self.max:g}"
            raise ValueError(message)
        return self

    def met_by(self, value: float) -> bool:
        """Return whether a value is good, with a tolerance for rounding errors of sums."""
        return (self.min is None or value >= self.min - 1e-9) and (self.max is None or value <= self.max + 1e-9)


class Price(Section):
    """The price of a model, US dollars per million tokens."""

    input_usd: Annotated[float, Field(ge=0.0, allow_inf_nan=False)]
    output_usd: Annotated[float, Field(ge=0.0, allow_inf_nan=False)]


class EvaluatorSettings(Section):
    """The metrics computed in addition to the outcome, and what counts as a failure."""

    metrics: tuple[str, ...] = Field(
        default=("default",),
        description="metrics to compute: names of metrics, evaluators or families, `default` for all that need no judge, "
        "`none` for no metrics",
    )
    files: tuple[str, ...] = Field(
        default=(), description="your own evaluators, each as `path.py:name`; their metrics are computed, too"
    )
    thresholds: dict[str, Threshold] = Field(
        default={}, description="good values of a metric, by name of the metric, such as {min = 3}"
    )
    severities: dict[str, Severity] = Field(
        default={},
        description="severity of a failure, by `metric` or `metric=label`: low, medium, high or critical; the more specific "
        "entry wins, then the built-in one",
    )
    prices: dict[str, Price] = Field(
        default={}, description="prices of the agents' models, by name or glob, US dollars per million tokens"
    )


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


class Objective(Section):
    """An objective of an agent: pass^k at or above a target."""

    name: Annotated[str, Field(min_length=1, max_length=200)] | None = Field(
        default=None, description="name in metrics and reports; unset: made of k and target"
    )
    agent: Annotated[str, Field(min_length=1)] = Field(default="*", description="the agent, by name or glob")
    criterion: Annotated[str, Field(min_length=1)] = Field(
        default="correct", description="what the conversations must pass: correct, or a name in windows.criteria"
    )
    k: Count = Field(default=1, description="the k of pass^k")
    target: Annotated[float, Field(gt=0.0, lt=1.0)] = Field(description="promised pass^k")
    method: Literal["pooled", "per_case"] = Field(
        default="pooled",
        description="pooled monitors the pass rate over all conversations, per_case whether every case keeps the promise",
    )
    alpha: Annotated[float, Field(gt=0.0, lt=1.0)] = Field(
        default=0.05, description="probability of any false alarm; the alarm is at e-value 1 / alpha"
    )
    target_run_length: Annotated[float, Field(ge=1.0)] = Field(
        default=1000.0, description="minimum average number of conversations between false alarms of change"
    )

    @property
    def label(self) -> str:
        """The name, or by default a label made of the criterion, if it is not correct, k and target."""
        of = "" if self.criterion == "correct" else f"{self.criterion}: "
        return self.name or f"{of}pass^{self.k}>={self.target:g}"


class SloSettings(Section):
    """Objectives that agents are monitored against, conversation by conversation."""

    objectives: tuple[Objective, ...] = Field(default=(), description="objectives: tables with k, target, agent, …")
    since: datetime | None = Field(
        default=None,
        description="count from this time on, ISO 8601, UTC unless it contains an offset; unset: from the group's first "
        "conversation",
    )

    block: Block = Field(
        default="auto",
        description="the unit that counts once in pooled objectives, because related conversations have similar results: a "
        "run of one user, or session, or an hour; auto takes the user if spans contain one, else the session, else the hour; "
        "none counts each conversation",
    )

    @property
    def since_ns(self) -> int | None:
        """The time from which conversations count, ns since the epoch."""
        if self.since is None:
            return None
        aware = self.since if self.since.tzinfo else self.since.replace(tzinfo=UTC)
        return (aware - datetime.fromtimestamp(0, UTC)) // timedelta(microseconds=1) * 1_000

    @model_validator(mode="after")
    def _labels_are_distinct(self) -> SloSettings:
        for first, second in combinations(self.objectives, 2):
            if first.label == second.label and globs_overlap(first.agent, second.agent):
                message = (
                    f"two objectives are named {first.label!r}, for agents {first.agent!r} and {second.agent!r}, which may be "
                    "the same agent; set a distinct name on one of them"
                )
                raise ValueError(message)
        return self
