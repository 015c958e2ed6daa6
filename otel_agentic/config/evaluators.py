"""The section `evaluators`: which metrics are computed, what counts as a failure, and what models cost."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from otel_agentic.config.section import Section

Severity = Literal["low", "medium", "high", "critical"]
_Bound = Annotated[float, Field(allow_inf_nan=False)]


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
