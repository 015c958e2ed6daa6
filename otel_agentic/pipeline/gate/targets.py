"""What is compared with a baseline, and how much worse it may be."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from otel_agentic.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from otel_agentic.config import GateSettings
    from otel_agentic.evaluators.base import Metric

#: How much worse something may be: by a number, or by no more than chance explains.
Tolerance = float | Literal["chance"]
_RATE: Final = re.compile(r"pass([@^])([1-9][0-9]{0,5})")
SUCCESS: Final = "success"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What is compared: success or a pass rate (`metric` is None), or the mean of a metric."""

    name: str
    tolerance: Tolerance
    metric: Metric | None = None

    @property
    def falls(self) -> bool:
        """Whether less is worse."""
        return self.metric is None or self.metric.higher_is_better is not False

    @property
    def width(self) -> float | None:
        """The greatest value there can be minus the least, None where there is no such."""
        if self.metric is None or self.metric.low is None or self.metric.high is None:
            return None
        return self.metric.high - self.metric.low


def is_rate(name: str) -> bool:
    """Return whether a name is that of a rate.

    >>> is_rate("pass^3"), is_rate("success"), is_rate("helpfulness")
    (True, True, False)
    """
    return name == SUCCESS or _RATE.fullmatch(name) is not None


def targets(wanted: GateSettings, named: Mapping[str, Metric], limited: Iterable[Metric]) -> list[Target]:
    """Return what is compared with the baseline: what is asked for, else success and whatever else has a limit.

    Args:
        wanted: the conditions.
        named: the metrics that `max_regression` names, by that name.
        limited: the metrics that have a limit.

    Raises:
        UsageError: of a metric that is asked for neither more nor less is better, or it is one of groups.
    """
    chance: Tolerance = "chance"
    drop = chance if wanted.max_drop is None else wanted.max_drop
    if not wanted.max_regression:
        rates = [SUCCESS, *(f"pass@{k}" for k in sorted(wanted.min_pass_at_k) if k > 1)]
        rates += [f"pass^{k}" for k in sorted(wanted.min_pass_pow_k) if k > 1]  # of one attempt both are success
        metrics = [one for one in limited if one.higher_is_better is not None and one.target != "group"]
        return [
            *(Target(name=name, tolerance=drop) for name in rates),
            *(Target(name=metric.name, tolerance=chance, metric=metric) for metric in metrics),
        ]
    found = []
    for name, given in wanted.max_regression.items():
        metric = named.get(name)
        if metric is not None and metric.higher_is_better is None:
            raise UsageError(f"--max-regression {name}: of {metric.name} neither more nor less is better")
        if metric is not None and metric.target == "group":
            raise UsageError(
                f"--max-regression {name}: {metric.name} is of all conversations together, and has no spread to compare by; "
                f"--threshold {name}=V holds it against a limit"
            )
        tolerance = drop if given == "chance" and metric is None else given
        found.append(Target(name=metric.name if metric else name, tolerance=tolerance, metric=metric))
    return found


def parts(name: str) -> tuple[str, int]:
    """Return the sign and the k of a rate.

    >>> parts("pass@3"), parts("success")
    (('@', 3), ('^', 1))
    """
    found = _RATE.fullmatch(name)
    return (found[1], int(found[2])) if found else ("^", 1)
