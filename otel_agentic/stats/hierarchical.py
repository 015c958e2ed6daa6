"""The hierarchical estimator: pass@k and pass^k of a new case, and of the traffic as it is, from cases with a few attempts each.

The Beta-binomial likelihood of many groups: success rates of cases are Beta(mu kappa, (1 - mu) kappa).

`mu` is the mean rate of cases, `kappa` measures how similar they are: a case's rate has variance
mu (1 - mu) / (kappa + 1). For a fixed kappa the log-likelihood is concave in mu (a sum of logarithms of linear
functions), so plain bisection finds its mode and its ends, in all groups at once.

Ref: Griffiths 1973, "Maximum likelihood estimation for the beta-binomial distribution and an application to the
household distribution of the total number of cases of a disease"; Williams 1975, "The analysis of binary responses from
toxicological experiments involving reproduction and teratogenicity".

The hierarchical estimator estimates pass@k and pass^k of a new case from cases with a few attempts each. Success rates
of cases are Beta(mu kappa, (1 - mu) kappa). The prior of mu is uniform; that of kappa is log-normal with median 2 and a
standard deviation of 2 in log kappa, truncated to [.1, 1e4]: weak, and needed, since the likelihood is flat in kappa if
everything passes or fails, or if each case has one attempt.

- The value is the posterior predictive: the mean of E[p^k | mu, kappa] over the posterior of (mu, kappa).
- The bounds are the smallest and the largest E[p^k | mu, kappa] where the logarithm of likelihood times prior is within
  t^2 / 2 of its maximum: a profile likelihood interval, stretched to contain the value. t is Student's quantile for
  K - 1 degrees of freedom (1 where K = 1) instead of the normal one, whose square is the usual chi-square quantile: the
  variation between K cases is itself estimated from K of them. With the normal quantile, the coverage of 10 cases of 5
  attempts was as low as .74 (mean .9, kappa .2); with t, .99.

One attempt per case gives no information about kappa. The pass@1 is then (c + 1) / (n + 2), as under a uniform Beta prior; how pass@k
and pass^k follow from it depends on the prior alone, and the bounds range from almost "each case always passes or
always fails" (pass^k = pass^1) to "all cases are equal" (pass^k = (pass^1)^k). One or two cases contain almost no
information about a new one, which the bounds show.

Ref: Gelman et al. 2013, "Bayesian Data Analysis", 3rd ed., section 5.3 (hierarchical Beta-binomial); Venzon and
Moolgavkar 1988, "A method for computing profile-likelihood-based confidence intervals".

There are two targets: the future of this traffic, and the result of a new case.

- **This traffic**: these cases in these shares. Its success rate is `sum n_i p_i / n`, p_i being the rate of case i.
  There is no uncertainty between cases, since no new case is drawn; only the outcomes of the attempts of each case are
  random.
- **A new case like these**: one more draw from the population that the cases came from. For k attempts of the same new case
  that is the mean of p^k over the population, which `per_case` estimates where every case has k attempts, and `hierarchical`
  otherwise.

The interval of this traffic is that of Clopper and Pearson on `max(n, p (1 - p) / v)` attempts, v being the variance within
cases: `sum n_i s_i / n^2`, with s_i = (c_i (n_i - c_i) / n_i + p (1 - p)) / n_i, the variance of a case with one more,
average attempt. With n attempts the interval would never cover less than its level, since the sum of attempts of
unequal rates varies less than that of attempts of one rate; v removes this excess of coverage if cases differ much.

Ref: Hoeffding 1956, "On the distribution of the number of successes in independent trials"; Clopper and Pearson 1934, "The
use of confidence or fiducial limits illustrated in the case of the binomial".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import log
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np
import scipy
from numpy.polynomial.legendre import leggauss

from otel_agentic.stats.cluster import pooled_samples
from otel_agentic.stats.estimators import PerCaseEstimator
from otel_agentic.stats.model import GroupedAttempts, GroupedEstimates, row_weights, unequal_weights
from otel_agentic.stats.rates import (
    all_of,
    any_of,
    bounded,
    clopper_pearson_bounds,
    critical_values,
    log_rising,
    rising_ratio,
)

if TYPE_CHECKING:
    import numpy.typing as npt

    from otel_agentic.config import StatsSettings
    from otel_agentic.stats.model import Attempts, Estimate, Estimates

    FloatArray = npt.NDArray[np.float64]
    IntArray = npt.NDArray[np.int64]
    BoolArray = npt.NDArray[np.bool_]
    _OfRemainder = Callable[[FloatArray, FloatArray], FloatArray]

#: Number of factors of a rising factorial that are computed one by one; the gamma function covers the others. A
#: logarithm takes a fraction of the time of a gamma function, and cases with many attempts are rare.
_WRITTEN_OUT: Final = 32
#: Number of bisections of an interval within [0, 1]; the precision is 1e-9.
HALVINGS: Final = 30
#: Replaces a = 0; far below any relevant a.
_TINY: Final = 1e-300


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RisingFactorials:
    """Sums over the cases of each group of log (a)_m, with (a)_m = a (a + 1) ... (a + m - 1) and m a count of the case.

    Attributes:
        factors: (groups, i) number of cases whose m is above i, so that they have the factor a + i.
        beyond: (groups, j) counts m above `_WRITTEN_OUT`, padded.
        cases: (groups, j) number of cases with that count, 0 for padding.
    """

    factors: FloatArray
    beyond: FloatArray
    cases: FloatArray

    @classmethod
    def of(cls, grouped: GroupedAttempts, m: IntArray) -> RisingFactorials:
        """Return the sums for a count m by row of the grouped attempts."""
        written = np.arange(min(int(m.max(initial=0)), _WRITTEN_OUT))
        factors = np.zeros((grouped.size, len(written)))
        np.add.at(factors, grouped.group, (m[:, None] > written) * grouped.cases[:, None])
        many = np.flatnonzero(m > _WRITTEN_OUT)
        group = grouped.group[many]
        index = np.arange(len(many)) - np.searchsorted(group, group)
        width = int(index.max(initial=-1)) + 1
        beyond, cases = np.full((grouped.size, width), float(_WRITTEN_OUT)), np.zeros((grouped.size, width))
        beyond[group, index], cases[group, index] = m[many], grouped.cases[many]
        return cls(factors=factors, beyond=beyond, cases=cases)

    def log(self, a: FloatArray) -> FloatArray:
        """Return the sums at a (groups, points), each 0 or above."""
        return self._summed(np.log, log_rising, a)

    def slope(self, a: FloatArray) -> FloatArray:
        """Return the derivatives of the sums by a, which must be above 0."""
        return self._summed(np.reciprocal, _digamma_rise, a)

    def _summed(
        self, of_factor: Callable[[FloatArray], FloatArray], of_remainder: _OfRemainder, a: FloatArray
    ) -> FloatArray:
        # At a = 0 the logarithm must be finite, because 0 cases times infinity would be NaN.
        total, above_0 = np.zeros_like(a), np.maximum(a, _TINY)
        for i, cases in enumerate(self.factors.T):
            total += cases[:, None] * of_factor(above_0 + i)
        for m, cases in zip(self.beyond.T, self.cases.T, strict=True):
            total += cases[:, None] * of_remainder(a + _WRITTEN_OUT, m[:, None] - _WRITTEN_OUT)
        return total


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BetaBinomial:
    """The log-likelihood of (mu, kappa) in many groups, without the binomial coefficients, which depend on neither.

    >>> from otel_agentic.stats import Attempts, GroupedAttempts
    >>> twice = GroupedAttempts.of([Attempts.of([("a", True), ("a", True), ("b", True), ("b", False)])])
    >>> likelihood = BetaBinomial.of(twice)
    >>> mu, kappa = np.array([[0.5]]), np.array([[2.0]])
    >>> round(float(np.exp(likelihood.log(mu, kappa))[0, 0]), 4)  # a uniform rate: E[p p] E[p (1 - p)] = 1/3 * 1/6
    0.0556
    """

    passed: RisingFactorials
    failed: RisingFactorials
    rising_factorials: RisingFactorials

    @classmethod
    def of(cls, grouped: GroupedAttempts) -> BetaBinomial:
        """Return the likelihood of the counts of each group; weights of attempts are ignored."""
        return cls(
            passed=RisingFactorials.of(grouped, grouped.c),
            failed=RisingFactorials.of(grouped, grouped.n - grouped.c),
            rising_factorials=RisingFactorials.of(grouped, grouped.n),
        )

    def log(self, mu: FloatArray, kappa: FloatArray) -> FloatArray:
        """Return the log-likelihood at mu in [0, 1] and kappa above 0, all (groups, points)."""
        passed, failed = self.passed.log(mu * kappa), self.failed.log((1.0 - mu) * kappa)
        return passed + failed - self.rising_factorials.log(kappa)

    def mode(self, kappa: FloatArray) -> FloatArray:
        """Return the mu of highest likelihood for each kappa: (groups, points), to 1e-9.

        >>> from otel_agentic.stats import Attempts, GroupedAttempts
        >>> likelihood = BetaBinomial.of(GroupedAttempts.of([Attempts.of([("a", True), ("b", True), ("c", False)])]))
        >>> likelihood.mode(np.array([[1.0, 50.0]])).round(6).tolist()  # one attempt a case: c / n, for any kappa
        [[0.666667, 0.666667]]
        """

        def rises(mu: FloatArray) -> BoolArray:
            return np.asarray(self.passed.slope(mu * kappa) > self.failed.slope((1.0 - mu) * kappa))

        return bisected(rises, np.zeros_like(kappa), np.ones_like(kappa))

    def ends(self, kappa: FloatArray, mode: FloatArray, least: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the lowest and the highest mu with a log-likelihood of at least `least`, or else the mode.

        Args:
            kappa: (groups, points).
            mode: (groups, points) the mode for each kappa.
            least: (groups, points) the lower limit of the log-likelihood.
        """

        def likely(mu: FloatArray) -> BoolArray:
            return np.asarray(self.log(mu, kappa) >= least)

        return bisected(likely, mode, np.zeros_like(kappa)), bisected(likely, mode, np.ones_like(kappa))


def bisected(
    holds: Callable[[FloatArray], BoolArray], inside: FloatArray, outside: FloatArray, halvings: int = HALVINGS
) -> FloatArray:
    """Return the last point from `inside` towards `outside` at which a condition holds, elementwise.

    >>> bisected(lambda x: x * x < 2.0, np.array([0.0]), np.array([2.0])).round(6).tolist()
    [1.414214]
    """
    for _ in range(halvings):
        middle = (inside + outside) / 2.0
        holds_there = holds(middle)
        inside, outside = np.where(holds_there, middle, inside), np.where(holds_there, outside, middle)
    return inside


def all_and_none(mu: FloatArray, kappa: FloatArray, k: int) -> tuple[FloatArray, FloatArray]:
    """Return the chances that k attempts of a new case all pass, E[p^k], and that none does, E[(1 - p)^k].

    E[p^k] is (mu kappa)_k / (kappa)_k, and E[(1 - p)^k] the same with 1 - mu: Polya's urn.

    >>> passes, fails = all_and_none(np.array([0.5]), np.array([2.0]), 3)  # a uniform rate: 1/4 and 1/4
    >>> passes.tolist(), fails.tolist()
    ([0.25], [0.25])
    """
    return rising_ratio(mu * kappa, kappa, k), rising_ratio((1.0 - mu) * kappa, kappa, k)


def _digamma_rise(x: FloatArray, k: FloatArray) -> FloatArray:
    return np.asarray(scipy.special.digamma(x + k) - scipy.special.digamma(x))


INTERVAL_METHOD: Final = "profile_likelihood"

#: The limits of log kappa, its prior median and standard deviation.
_LOWEST, _HIGHEST = log(0.1), log(1e4)
_MEDIAN, _SPREAD = log(2.0), 2.0
#: Points further than this below the maximum of the log-posterior are ignored in means: e^-18.
_NO_WEIGHT: Final = 18.0
#: Number of points over log kappa: in the first search, in each refinement, and along the bounds.
_FIRST_POINTS, _REFINED_POINTS, _BOUND_POINTS = 25, 9, 33
#: Number of refinements around the maximum: each is 4 times as fine, the last one has steps of 8e-3; a parabola is
#: fitted to these.
_REFINEMENTS: Final = 3
#: Nodes of the integral over log kappa, and over mu for each of them.
_NODES: Final = (24, 24)
#: Number of bisections to the ends of the region; the precision is 1e-4 in log kappa.
_END_BISECTIONS: Final = 12
#: Number of groups computed at once: about 20 MB.
_CHUNK: Final = 256
#: The points of the first search.
_GRID: Final[FloatArray] = np.linspace(_LOWEST, _HIGHEST, _FIRST_POINTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class HierarchicalEstimator:
    """Posterior predictive of a new case under a Beta-binomial model of cases, bounds by profile likelihood.

    It is meant for cases with few attempts each, where `per_case` has to exclude cases and a pooled estimate treats
    cases as equal. Undefined without attempts. Weights of attempts are not used: in a random sample, the sampled
    attempts of a case have its rate, in any number.

    >>> from otel_agentic.stats.model import Attempts
    >>> cases = [(f"case {i}", attempt < i % 3) for i in range(12) for attempt in range(2)]
    >>> third = HierarchicalEstimator().estimate(Attempts.of(cases), [3]).pass_pow_k[3]
    >>> [round(number, 3) for number in (third.lower, third.value, third.upper)]
    [0.048, 0.246, 0.59]
    """

    name: ClassVar[str] = "hierarchical"
    level: float = 0.95

    @classmethod
    def from_settings(cls, settings: StatsSettings) -> HierarchicalEstimator:
        """Return the estimator with the level of the settings."""
        return cls(level=settings.level)

    def estimate(self, attempts: Attempts, k: Sequence[int]) -> Estimates:
        """Return the estimates for each k; undefined without attempts."""
        return self.estimate_groups(GroupedAttempts.of([attempts]), k).of(0)

    def estimate_groups(self, grouped: GroupedAttempts, k: Sequence[int]) -> GroupedEstimates:
        """Return the estimates of every group for each k; NaN for a group without attempts."""
        known, kinds, distinct = _kinds(grouped)
        of_kinds = np.empty((2, distinct.size, len(k), 3))
        for first in range(0, distinct.size, _CHUNK):
            rows = slice(*np.searchsorted(distinct.group, [first, first + _CHUNK]))
            of_kinds[:, first : first + _CHUNK] = self._numbers(_part(distinct, rows, distinct.group[rows] - first), k)
        numbers = np.full((2, grouped.size, len(k), 3), np.nan)
        numbers[:, known] = of_kinds[:, kinds]
        return GroupedEstimates(
            estimator=self.name,
            level=self.level,
            k=tuple(k),
            interval_methods=[INTERVAL_METHOD] * grouped.size,
            pass_at_k=numbers[0],
            pass_pow_k=numbers[1],
        )

    def _numbers(self, grouped: GroupedAttempts, k: Sequence[int]) -> FloatArray:
        """Return (pass@k and pass^k, groups, k, value and bounds) of groups that all have attempts."""
        posterior = Posterior.of(grouped)
        mu, log_kappa, weight = posterior.nodes()
        values = np.array([(functionals(mu, log_kappa, each_k) * weight).sum(axis=-1) for each_k in k])
        degrees = np.maximum(grouped.total(np.ones(len(grouped.n))) - 1.0, 1.0)
        drop = critical_values(self.level, degrees)[:, None] ** 2 / 2.0
        log_kappas, lower, upper = posterior.boundary(drop)
        lows = np.array([-_crest(-functionals(lower, log_kappas, each_k)) for each_k in k])
        highs = np.array([_crest(functionals(upper, log_kappas, each_k)) for each_k in k])
        stacked = np.stack([values, np.minimum(lows, values), np.maximum(highs, values)], axis=-1)
        return np.asarray(stacked.clip(0.0, 1.0).transpose(1, 2, 0, 3) + 0.0)  # + 0.0: no -0.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Posterior:
    """The posterior of (mu, log kappa) in many groups, evaluated along its ridge: the most likely mu for each kappa.

    Attributes:
        likelihood: the likelihood of the groups.
        first: (groups, points) log-posterior along the ridge at the points of `_GRID`.
        peak: (groups, 1) the log kappa of the maximum of the ridge.
        top: (groups, 1) the log-posterior at the peak.
    """

    likelihood: BetaBinomial
    first: FloatArray
    peak: FloatArray
    top: FloatArray

    @classmethod
    def of(cls, grouped: GroupedAttempts) -> Posterior:
        """Return the posterior of groups that all have attempts."""
        likelihood = BetaBinomial.of(grouped)
        log_kappa = np.broadcast_to(_GRID, (grouped.size, _FIRST_POINTS))
        first = heights = _ridge(likelihood, log_kappa)[1]
        step = _GRID[1] - _GRID[0]
        for _ in range(_REFINEMENTS):
            peak = _at_highest(log_kappa, heights)
            log_kappa = np.clip(peak + step * np.linspace(-1.0, 1.0, _REFINED_POINTS), _LOWEST, _HIGHEST)
            heights = _ridge(likelihood, log_kappa)[1]
            step /= (_REFINED_POINTS - 1) / 2
        top = np.maximum(_crest(heights)[:, None], first.max(axis=-1, keepdims=True))
        return cls(likelihood=likelihood, first=first, peak=_at_highest(log_kappa, heights), top=top)

    def nodes(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return mu, log kappa and the weights, summing to 1, whose weighted sums are posterior means: (groups, nodes).

        Gauss-Legendre over log kappa, and over mu for each log kappa, within the region that has weight.
        """
        (across, across_weight), (along, along_weight) = (leggauss(count) for count in _NODES)
        middle, half = _halves(*self._within(_NO_WEIGHT))
        log_kappa = middle + half * across
        lower, upper = self._ends(log_kappa, _NO_WEIGHT)
        centre, reach = _halves(lower, upper)
        mu = centre[..., None] + reach[..., None] * along
        size = len(log_kappa), -1
        every_mu, every_kappa = mu.reshape(size), np.repeat(log_kappa, len(along), axis=-1)
        relative = np.exp(self.likelihood.log(every_mu, np.exp(every_kappa)) + _log_prior(every_kappa) - self.top)
        weight = relative * (across_weight[:, None] * reach[..., None] * along_weight).reshape(size)
        return every_mu, every_kappa, weight / weight.sum(axis=-1, keepdims=True)

    def boundary(self, drop: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return log kappa with its lowest and highest mu, along the contour `drop` below the maximum.

        The points are spaced as on an ellipse, denser towards its ends: (groups, points) each.
        """
        middle, half = _halves(*self._within(drop))
        log_kappa = middle - half * np.cos(np.linspace(0.0, np.pi, _BOUND_POINTS))
        # If the region has two parts, the points between them are not in it. The peak replaces them, without effect on
        # bounds.
        inside = _ridge(self.likelihood, log_kappa)[1] >= self.top - drop - 1e-9
        log_kappa = np.where(inside, log_kappa, self.peak)
        return log_kappa, *self._ends(log_kappa, drop)

    def _ends(self, log_kappa: FloatArray, drop: FloatArray | float) -> tuple[FloatArray, FloatArray]:
        kappa = np.exp(log_kappa)
        return self.likelihood.ends(kappa, self.likelihood.mode(kappa), self.top - drop - _log_prior(log_kappa))

    def _within(self, drop: FloatArray | float) -> tuple[FloatArray, FloatArray]:
        """Return the lowest and the highest log kappa whose ridge is at most `drop` below its maximum: (groups, 1)."""

        def likely(log_kappa: FloatArray) -> BoolArray:
            return np.asarray(_ridge(self.likelihood, log_kappa)[1] >= self.top - drop)

        inside_drop = self.first >= self.top - drop
        lowest = np.minimum(self.peak, np.where(inside_drop, _GRID, np.inf).min(axis=-1, keepdims=True))
        highest = np.maximum(self.peak, np.where(inside_drop, _GRID, -np.inf).max(axis=-1, keepdims=True))
        below = _GRID[np.maximum(np.searchsorted(_GRID, lowest) - 1, 0)]
        above = _GRID[np.minimum(np.searchsorted(_GRID, highest, side="right"), _FIRST_POINTS - 1)]
        ends = bisected(likely, np.hstack([lowest, highest]), np.hstack([below, above]), _END_BISECTIONS)
        return ends[:, :1], ends[:, 1:]


def functionals(mu: FloatArray, log_kappa: FloatArray, k: int) -> FloatArray:
    """Return pass@k and pass^k of a new case: (2, ...).

    >>> functionals(np.array(0.5), np.log(2.0), 3).round(9).tolist()  # a uniform rate
    [0.75, 0.25]
    """
    passes, fails = all_and_none(mu, np.exp(log_kappa), k)
    return np.array([passes if k == 1 else 1.0 - fails, passes])  # pass@1 must equal pass^1 to the last digit


def _ridge(likelihood: BetaBinomial, log_kappa: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the most likely mu for each kappa and its log-posterior."""
    kappa = np.exp(log_kappa)
    mode = likelihood.mode(kappa)
    return mode, likelihood.log(mode, kappa) + _log_prior(log_kappa)


def _log_prior(log_kappa: FloatArray) -> FloatArray:
    return -(((log_kappa - _MEDIAN) / _SPREAD) ** 2) / 2.0


def _halves(lower: FloatArray, upper: FloatArray) -> tuple[FloatArray, FloatArray]:
    return (lower + upper) / 2.0, (upper - lower) / 2.0


def _at_highest(values: FloatArray, heights: FloatArray) -> FloatArray:
    return np.take_along_axis(values, heights.argmax(axis=-1, keepdims=True), axis=-1)


def _crest(heights: FloatArray) -> FloatArray:
    """Return the highest point of curves (..., points): the top of the parabola through the highest and its neighbours.

    >>> float(_crest(-((np.array([0.0, 1.0, 2.0]) - 0.8) ** 2)).round(12))
    0.0
    """
    top = np.clip(heights.argmax(axis=-1, keepdims=True), 1, heights.shape[-1] - 2)
    before, at, after = (np.take_along_axis(heights, top + side, axis=-1)[..., 0] for side in (-1, 0, 1))
    bend = 2.0 * at - before - after
    rise = np.divide((after - before) ** 2, 8.0 * bend, out=np.zeros_like(at), where=bend > 0.0)
    within = (at >= before) & (at >= after)  # otherwise the maximum is the first or the last point
    return np.asarray(np.where(within, at + rise, np.maximum(before, after)))


def _kinds(grouped: GroupedAttempts) -> tuple[IntArray, IntArray, GroupedAttempts]:
    """Return the groups that have attempts, the kind of each, and one group of each kind.

    Groups of a kind have equal counts, and thus equal estimates: groups of one case with a few attempts are of few kinds.
    """
    known, starts = np.unique(grouped.group, return_index=True)
    counts = np.stack((grouped.n, grouped.c, grouped.cases), axis=1)
    numbers: dict[bytes, int] = {}
    kinds = (
        [numbers.setdefault(rows.tobytes(), len(numbers)) for rows in np.split(counts, starts[1:])]
        if len(known)
        else []
    )
    examples = known[np.unique(kinds, return_index=True)[1]]
    chosen = grouped.where(np.isin(grouped.group, examples))
    return (
        known,
        np.array(kinds, np.int64),
        replace(chosen, size=len(numbers), group=np.searchsorted(examples, chosen.group)),
    )


def _part(grouped: GroupedAttempts, rows: slice, group: npt.NDArray[np.int64]) -> GroupedAttempts:
    """Return the selected rows with new group numbers, ascending from 0."""
    return GroupedAttempts(
        size=int(group.max()) + 1, group=group, n=grouped.n[rows], c=grouped.c[rows], cases=grouped.cases[rows]
    )


TARGET_INTERVAL_METHOD: Final = "clopper_pearson_within_cases"


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetEstimate:
    """pass@k and pass^k of one target for one k, with the name of their estimator."""

    estimator: str
    pass_at_k: Estimate
    pass_pow_k: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class Targets:
    """Estimates by k of the two targets; `new_case` lacks a k without an estimate.

    Attributes:
        cases: number of cases.
        fewest: lowest number of attempts of a case.
        most: highest number of attempts of a case.
        this_traffic: k conversations, each drawn from these cases in these shares.
        new_case: k attempts of the same new case like these.
    """

    cases: int
    fewest: int
    most: int
    this_traffic: Mapping[int, TargetEstimate]
    new_case: Mapping[int, TargetEstimate]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficEstimator:
    """The observed rate, with an interval about these cases in these shares.

    >>> from otel_agentic.stats.model import Attempts
    >>> halves = Attempts.of((f"case {i}", i < 10) for i in range(20) for _ in range(5))
    >>> found = TrafficEstimator().estimate(halves, [1]).pass_pow_k[1]
    >>> [round(number, 3) for number in (found.lower, found.value, found.upper)]
    [0.455, 0.5, 0.545]
    """

    name: ClassVar[str] = "this_traffic"
    level: float = 0.95

    def estimate(self, attempts: Attempts, k: Sequence[int]) -> Estimates:
        """Return the estimates for each k; undefined without attempts."""
        return self.estimate_groups(GroupedAttempts.of([attempts]), k).of(0)

    def estimate_groups(self, grouped: GroupedAttempts, k: Sequence[int]) -> GroupedEstimates:
        """Return the estimates of every group for each k; NaN without attempts."""
        rate, ks = pooled_samples(grouped).observed, np.asarray(k)
        ends = clopper_pearson_bounds(rate, _attempts_within(grouped, rate), self.level)[:, None, :]
        return GroupedEstimates(
            estimator=self.name,
            level=self.level,
            k=tuple(k),
            interval_methods=[TARGET_INTERVAL_METHOD] * grouped.size,
            pass_at_k=bounded(any_of(rate[:, None], ks), any_of(ends, ks[:, None])),
            pass_pow_k=bounded(all_of(rate[:, None], ks), all_of(ends, ks[:, None])),
        )


def targets_of(attempts: Attempts, this_traffic: Estimates, estimates: Mapping[str, Estimates]) -> Targets:
    """Return both targets of a group that has attempts.

    Args:
        attempts: the attempts of the group.
        this_traffic: the estimates of `TrafficEstimator`, for each k.
        estimates: the estimates by estimator, of which `per_case` and `hierarchical` are used if present.
    """
    sizes = [case.n for case in attempts.cases]
    traffic = {k: _target_estimate(this_traffic, k) for k in this_traffic.pass_pow_k}
    new_case = {}
    for k in traffic:
        name = PerCaseEstimator.name if k <= min(sizes) else HierarchicalEstimator.name
        if name in estimates:
            new_case[k] = _target_estimate(estimates[name], k)
    return Targets(cases=len(sizes), fewest=min(sizes), most=max(sizes), this_traffic=traffic, new_case=new_case)


def _attempts_within(grouped: GroupedAttempts, rate: FloatArray) -> FloatArray:
    """Return the number of independent attempts with the same information about the rate of these cases: (size,)."""
    n, c = grouped.n.astype(np.float64), grouped.c.astype(np.float64)
    variances, cases, attempts = grouped.total(np.stack((c * (n - c) / n, np.ones_like(n), n), axis=1)).T
    total, _, squares = grouped.total(row_weights(grouped)).T
    with np.errstate(divide="ignore", invalid="ignore"):  # a group without attempts, or where all pass or fail
        unit_variance = rate * (1.0 - rate)
        equivalent_n = np.fmax(attempts, attempts**2 * unit_variance / (variances + cases * unit_variance))
        return np.asarray(np.where(unequal_weights(grouped), total * total / squares, equivalent_n))


def _target_estimate(estimates: Estimates, k: int) -> TargetEstimate:
    return TargetEstimate(
        estimator=estimates.estimator, pass_at_k=estimates.pass_at_k[k], pass_pow_k=estimates.pass_pow_k[k]
    )
