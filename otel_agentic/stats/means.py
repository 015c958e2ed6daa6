"""The difference of two means, with its interval: paired by case where both sides have the same cases.

Student's t over the differences of the shared cases, or Welch's t over the units of each side. A unit is a case (the mean of
its conversations), or a conversation without one: conversations of one case resemble each other.

Where values have a least and a greatest, they count as if one unit more were a little better and another a little worse: by
the standard error that so many values have at most, half the range for a single one. `compare` does the same with rates.
Without it a handful of cases that all do alike would give an interval without width. Values without bounds, such as times, are
seldom alike, and their spread is that of the data alone.

Ref: Student 1908, "The probable error of a mean"; Welch 1947, "The generalization of Student's problem when several different
population variances are involved"; Agresti and Min 2005, "Simple improved confidence intervals for comparing matched
proportions" (added pairs); Popoviciu 1935, "Sur les equations algebriques ayant toutes leurs racines reelles" (the greatest
variance within a range).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from otel_agentic.stats.interval import quantile

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from otel_agentic.stats.model import CaseKey

#: Fewer units than this have no spread to measure.
MIN_UNITS: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Values:
    """Values of one side: `n` of them in `units` units, the mean and the variance over the units.

    `cases` are the mean of each case and how many values it is the mean of. `variance` is the sample variance, 0 with fewer
    than two units.
    """

    n: int
    units: int
    mean: float
    variance: float
    cases: Mapping[CaseKey, tuple[float, int]] = field(default_factory=dict)

    @classmethod
    def of(cls, values: Iterable[tuple[CaseKey | None, float]]) -> Values | None:
        """Return what values say, each with its case (None: it has none); None without any.

        >>> made = Values.of([(("d", "a"), 1.0), (("d", "a"), 2.0), (None, 3.5)])
        >>> made.n, made.units, made.mean, made.variance
        (3, 2, 2.5, 2.0)
        """
        by_case: dict[CaseKey, list[float]] = {}
        alone: list[float] = []
        for case, value in values:
            (alone if case is None else by_case.setdefault(case, [])).append(value)
        cases = {case: (float(np.mean(found)), len(found)) for case, found in sorted(by_case.items())}
        units = np.array([*(mean for mean, _ in cases.values()), *alone], dtype=np.float64)
        if not units.size:
            return None
        n = len(alone) + sum(map(len, by_case.values()))
        variance = float(np.var(units, ddof=1)) if units.size >= MIN_UNITS else 0.0
        return cls(n=n, units=int(units.size), mean=float(np.mean(units)), variance=variance, cases=cases)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeanDifference:
    """B - A of two means; `lower` and `upper` are None where there are too few units to tell change from chance."""

    method: Literal["paired", "unpaired"]
    units: int
    value: float
    lower: float | None
    upper: float | None


def mean_difference(a: Values, b: Values, level: float, *, width: float | None = None) -> MeanDifference:
    """Return the mean of B minus that of A, paired where at least two cases have values on both sides.

    Args:
        a: the values of the one side.
        b: the values of the other.
        level: of the interval.
        width: the greatest value there can be minus the least, None where there is no such.

    >>> a = Values.of([(("d", name), value) for name, value in zip("xyz", (1.0, 2.0, 3.0))])
    >>> b = Values.of([(("d", name), value) for name, value in zip("xyz", (2.0, 3.5, 3.5))])
    >>> found = mean_difference(a, b, 0.95)
    >>> found.method, found.value, round(found.lower, 3), round(found.upper, 3)
    ('paired', 1.0, -0.242, 2.242)
    """
    worst = 0.0 if width is None else width**2 / 4.0  # the variance of one value can be no larger
    shared = sorted(a.cases.keys() & b.cases.keys())
    if len(shared) >= MIN_UNITS:
        gaps = np.array([b.cases[case][0] - a.cases[case][0] for case in shared])
        few = float(np.mean([1.0 / a.cases[case][1] + 1.0 / b.cases[case][1] for case in shared])) / 2.0
        part = _squared_error(float(np.var(gaps, ddof=1)), len(gaps), worst * few)
        return _around("paired", float(np.mean(gaps)), part**0.5, len(gaps) - 1.0, (len(gaps), level))
    units, value = a.units + b.units, b.mean - a.mean
    if min(a.units, b.units) < MIN_UNITS:
        return MeanDifference(method="unpaired", units=units, value=value, lower=None, upper=None)
    parts = (_squared_error(a.variance, a.units, worst), _squared_error(b.variance, b.units, worst))
    degrees = _welch(parts, (a.units - 1, b.units - 1))
    return _around("unpaired", value, sum(parts) ** 0.5, degrees, (units, level))


def _squared_error(variance: float, units: int, added: float) -> float:
    """Return the squared standard error of a mean, two units more counted in its spread, `added` squared off it each."""
    return (variance + 2.0 * added / (units - 1)) / units


def _around(
    method: Literal["paired", "unpaired"], value: float, error: float, degrees: float, basis: tuple[int, float]
) -> MeanDifference:
    units, level = basis
    half = quantile(level, degrees) * error
    return MeanDifference(method=method, units=units, value=value, lower=value - half, upper=value + half)


def _welch(parts: tuple[float, float], degrees: tuple[int, int]) -> float:
    """Return the degrees of freedom by Welch and Satterthwaite; where nothing varies, those of the smaller side."""
    total = sum(parts)
    if not total:
        return float(min(degrees))
    return total**2 / sum(part**2 / each for part, each in zip(parts, degrees, strict=True))
