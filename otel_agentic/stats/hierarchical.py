"""The hierarchical estimator: pass@k and pass^k of a new case, learnt from cases of which each was tried a few times.

Success rates of cases are Beta(mu kappa, (1 - mu) kappa). The prior of mu is uniform; that of kappa is log-normal with
median 2 and a standard deviation of 2 in log kappa, truncated to [.1, 1e4]: weak, and needed, since the likelihood is
flat in kappa where everything passes or fails, or each case was tried once.

- The value is the posterior predictive: the mean of E[p^k | mu, kappa] over the posterior of (mu, kappa).
- The bounds are the smallest and the largest E[p^k | mu, kappa] where the logarithm of likelihood times prior is within
  t^2 / 2 of its maximum: a profile likelihood interval, stretched to hold the value. t is Student's quantile with K - 1
  degrees of freedom (1 where K = 1) instead of the normal one, whose square is the usual chi-square quantile: what
  is between K cases is itself estimated from K of them. With the normal quantile 10 cases of 5 attempts covered as
  seldom as .74 (mean .9, kappa .2); with t, .99.

One attempt a case says nothing of kappa. The pass@1 is then (c + 1) / (n + 2), as under a uniform Beta prior; how pass@k
and pass^k follow from it is the prior's word alone, and the bounds run from nearly "cases differ wholly" (pass^k = pass^1)
to "cases are alike" (pass^k = (pass^1)^k). From one or two cases next to nothing follows for a new one: the bounds say so.

Ref: Gelman et al. 2013, "Bayesian Data Analysis", 3rd ed., section 5.3 (hierarchical Beta-binomial); Venzon and
Moolgavkar 1988, "A method for computing profile-likelihood-based confidence intervals".
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np
from numpy.polynomial.legendre import leggauss

from otel_agentic.stats.beta_binomial import BetaBinomial, all_and_none, bisected
from otel_agentic.stats.grouped import GroupedAttempts, GroupedEstimates
from otel_agentic.stats.interval import critical_values

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from otel_agentic.config import StatsSettings
    from otel_agentic.stats.model import Attempts, Estimates

    FloatArray = npt.NDArray[np.float64]
    BoolArray = npt.NDArray[np.bool_]

INTERVAL_METHOD: Final = "profile_likelihood"

#: log kappa: where the prior is cut, its median and its standard deviation.
_LOWEST, _HIGHEST = log(0.1), log(1e4)
_MEDIAN, _SPREAD = log(2.0), 2.0
#: What lies further below the maximum than this has no weight in a mean: e^-18.
_NO_WEIGHT: Final = 18.0
#: Points over log kappa: first look, each closer look, along the bounds.
_FIRST, _CLOSER, _ALONG = 25, 9, 33
#: Closer looks at the maximum: each sees 4 times as sharp, the last to 8e-3, and a parabola the rest.
_LOOKS: Final = 3
#: Nodes of the integral over log kappa, and over mu for each of them.
_NODES: Final = (24, 24)
#: Halvings to where the region ends: to 1e-4 of log kappa.
_TO_THE_END: Final = 12
#: Groups at a time: some 20 MB.
_CHUNK: Final = 64
#: The first look.
_GRID: Final[FloatArray] = np.linspace(_LOWEST, _HIGHEST, _FIRST)


@dataclass(frozen=True, slots=True, kw_only=True)
class HierarchicalEstimator:
    """Posterior predictive of a new case under a Beta-binomial model of cases, bounds by profile likelihood.

    For cases with few attempts each, where `per_case` has to leave cases out and a pooled estimate takes cases for
    alike. Undefined without attempts. Weights of attempts are not used: in a sample by chance a case's rate is that of
    its sampled attempts, whatever their number.

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
        known, inverse = np.unique(grouped.group, return_inverse=True)
        numbers = np.full((2, grouped.size, len(k), 3), np.nan)
        for first in range(0, len(known), _CHUNK):
            rows = slice(*np.searchsorted(inverse, [first, first + _CHUNK]))
            numbers[:, known[first : first + _CHUNK]] = self._numbers(_part(grouped, rows, inverse[rows] - first), k)
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
        values = np.array([(functionals(mu, log_kappa, each) * weight).sum(axis=-1) for each in k])
        degrees = np.maximum(grouped.total(np.ones(len(grouped.n))) - 1.0, 1.0)
        drop = critical_values(self.level, degrees)[:, None] ** 2 / 2.0
        log_kappas, lower, upper = posterior.boundary(drop)
        lows = np.array([-_crest(-functionals(lower, log_kappas, each)) for each in k])
        highs = np.array([_crest(functionals(upper, log_kappas, each)) for each in k])
        stacked = np.stack([values, np.minimum(lows, values), np.maximum(highs, values)], axis=-1)
        return np.asarray(stacked.clip(0.0, 1.0).transpose(1, 2, 0, 3) + 0.0)  # + 0.0: no -0.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Posterior:
    """The posterior of (mu, log kappa) in many groups, looked at along its ridge: the best mu for each kappa.

    Attributes:
        likelihood: of the groups.
        first: (groups, points) log-posterior along the ridge at the points of `_GRID`.
        peak: (groups, 1) the log kappa where the ridge is highest.
        top: (groups, 1) the log-posterior there.
    """

    likelihood: BetaBinomial
    first: FloatArray
    peak: FloatArray
    top: FloatArray

    @classmethod
    def of(cls, grouped: GroupedAttempts) -> Posterior:
        """Return the posterior of groups that all have attempts."""
        likelihood = BetaBinomial.of(grouped)
        log_kappa = np.broadcast_to(_GRID, (grouped.size, _FIRST))
        first = heights = _ridge(likelihood, log_kappa)[1]
        step = _GRID[1] - _GRID[0]
        for _ in range(_LOOKS):
            peak = _at_highest(log_kappa, heights)
            log_kappa = np.clip(peak + step * np.linspace(-1.0, 1.0, _CLOSER), _LOWEST, _HIGHEST)
            heights = _ridge(likelihood, log_kappa)[1]
            step /= (_CLOSER - 1) / 2
        top = np.maximum(_crest(heights)[:, None], first.max(axis=-1, keepdims=True))
        return cls(likelihood=likelihood, first=first, peak=_at_highest(log_kappa, heights), top=top)

    def nodes(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return mu, log kappa and the weights, summing to 1, whose weighted sums are posterior means: (groups, nodes).

        Gauss-Legendre over log kappa, and over mu for each, between the ends of what has weight.
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
        """Return log kappa with the lowest and highest mu of it, along where the posterior is `drop` below its top.

        The points lie as on an ellipse, denser to its ends: (groups, points) each.
        """
        middle, half = _halves(*self._within(drop))
        log_kappa = middle - half * np.cos(np.linspace(0.0, np.pi, _ALONG))
        # A region in two parts: the points between them are no part of it. The peak stands in, which bounds nothing.
        inside = _ridge(self.likelihood, log_kappa)[1] >= self.top - drop - 1e-9
        log_kappa = np.where(inside, log_kappa, self.peak)
        return log_kappa, *self._ends(log_kappa, drop)

    def _ends(self, log_kappa: FloatArray, drop: FloatArray | float) -> tuple[FloatArray, FloatArray]:
        kappa = np.exp(log_kappa)
        return self.likelihood.ends(kappa, self.likelihood.mode(kappa), self.top - drop - _log_prior(log_kappa))

    def _within(self, drop: FloatArray | float) -> tuple[FloatArray, FloatArray]:
        """Return the lowest and the highest log kappa where the ridge is at most `drop` below its top: (groups, 1)."""

        def likely(log_kappa: FloatArray) -> BoolArray:
            return np.asarray(_ridge(self.likelihood, log_kappa)[1] >= self.top - drop)

        seen = self.first >= self.top - drop
        lowest = np.minimum(self.peak, np.where(seen, _GRID, np.inf).min(axis=-1, keepdims=True))
        highest = np.maximum(self.peak, np.where(seen, _GRID, -np.inf).max(axis=-1, keepdims=True))
        below = _GRID[np.maximum(np.searchsorted(_GRID, lowest) - 1, 0)]
        above = _GRID[np.minimum(np.searchsorted(_GRID, highest, side="right"), _FIRST - 1)]
        ends = bisected(likely, np.hstack([lowest, highest]), np.hstack([below, above]), _TO_THE_END)
        return ends[:, :1], ends[:, 1:]


def functionals(mu: FloatArray, log_kappa: FloatArray, k: int) -> FloatArray:
    """Return pass@k and pass^k of a new case: (2, ...).

    >>> functionals(np.array(0.5), np.log(2.0), 3).round(9).tolist()  # a uniform rate
    [0.75, 0.25]
    """
    passes, fails = all_and_none(mu, np.exp(log_kappa), k)
    return np.array([passes if k == 1 else 1.0 - fails, passes])  # one attempt: pass@1 is pass^1, to the last digit


def _ridge(likelihood: BetaBinomial, log_kappa: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the best mu for each kappa and the log-posterior there."""
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
    within = (at >= before) & (at >= after)  # else the highest is the first or the last, and there is no top beyond it
    return np.asarray(np.where(within, at + rise, np.maximum(before, after)))


def _part(grouped: GroupedAttempts, rows: slice, group: npt.NDArray[np.int64]) -> GroupedAttempts:
    """Return some rows under new group numbers, ascending from 0."""
    return GroupedAttempts(
        size=int(group.max()) + 1, group=group, n=grouped.n[rows], c=grouped.c[rows], cases=grouped.cases[rows]
    )
