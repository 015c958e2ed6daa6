"""Rates and metrics that are compared with a baseline, and how much worse they may be."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from otel_agentic.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from otel_agentic.config import GateSettings
    from otel_agentic.evaluators.base import Metric

#: How much worse a value may be: by a number, or by no more than chance explains.
Tolerance = float | Literal["chance"]
_RATE: Final = re.compile(r"pass([@^])([1-9][0-9]{0,5})")
SUCCESS: Final = "success"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A compared quantity: success or a pass rate (`metric` is None), or the mean of a metric."""

    name: str
    tolerance: Tolerance
    metric: Metric | None = None

    @property
    def falls(self) -> bool:
        """Whether lower values are worse."""
        return self.metric is None or self.metric.higher_is_better is not False

    @property
    def width(self) -> float | None:
        """The range of the metric, or None if it is not bounded."""
        if self.metric is None or self.metric.low is None or self.metric.high is None:
            return None
        return self.metric.high - self.metric.low


def is_rate(name: str) -> bool:
    """Return whether a name is the name of a rate.

    >>> is_rate("pass^3"), is_rate("success"), is_rate("helpfulness")
    (True, True, False)
    """
    return name == SUCCESS or _RATE.fullmatch(name) is not None


def targets(conditions: GateSettings, named: Mapping[str, Metric], limited: Iterable[Metric]) -> list[Target]:
    """Return the targets of `max_regression`, or if it is empty success and every rate and metric with a limit.

    Args:
        conditions: the conditions of the gate.
        named: the metrics that `max_regression` names, by that name.
        limited: the metrics that have a limit.

    Raises:
        UsageError: a named metric has no better direction, or is computed for groups.
    """
    chance: Tolerance = "chance"
    drop = chance if conditions.max_drop is None else conditions.max_drop
    if not conditions.max_regression:
        rates = [SUCCESS, *(f"pass@{k}" for k in sorted(conditions.min_pass_at_k) if k > 1)]
        rates += [f"pass^{k}" for k in sorted(conditions.min_pass_pow_k) if k > 1]  # for k = 1 both equal success
        metrics = [metric for metric in limited if metric.higher_is_better is not None and metric.target != "group"]
        return [
            *(Target(name=name, tolerance=drop) for name in rates),
            *(Target(name=metric.name, tolerance=chance, metric=metric) for metric in metrics),
        ]
    chosen = []
    for name, allowed in conditions.max_regression.items():
        metric = named.get(name)
        if metric is not None and metric.higher_is_better is None:
            raise UsageError(f"--max-regression {name}: {metric.name} has no better direction")
        if metric is not None and metric.target == "group":
            raise UsageError(
                f"--max-regression {name}: {metric.name} is one value for all conversations, without a spread to compare; "
                f"use --threshold {name}=V to compare it with a limit"
            )
        tolerance = drop if allowed == "chance" and metric is None else allowed
        chosen.append(Target(name=metric.name if metric else name, tolerance=tolerance, metric=metric))
    return chosen


def parts(name: str) -> tuple[str, int]:
    """Return the sign and the k of a rate.

    >>> parts("pass@3"), parts("success")
    (('@', 3), ('^', 1))
    """
    match = _RATE.fullmatch(name)
    return (match[1], int(match[2])) if match else ("^", 1)
