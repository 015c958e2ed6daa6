"""The Beta-binomial likelihood of many groups: success rates of cases are Beta(mu kappa, (1 - mu) kappa).

`mu` is the mean rate of cases, `kappa` how alike they are: a case's rate has variance mu (1 - mu) / (kappa + 1). For a
fixed kappa the log-likelihood is concave in mu (a sum of logarithms of linear functions), which is why plain bisection
finds its mode and its ends, in all groups at once.

Ref: Griffiths 1973, "Maximum likelihood estimation for the beta-binomial distribution and an application to the
household distribution of the total number of cases of a disease"; Williams 1975, "The analysis of binary responses from
toxicological experiments involving reproduction and teratogenicity".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.special import digamma

from otel_agentic.stats.rising import log_rising, rising_ratio

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from otel_agentic.stats.grouped import GroupedAttempts

    FloatArray = npt.NDArray[np.float64]
    IntArray = npt.NDArray[np.int64]
    BoolArray = npt.NDArray[np.bool_]
    _OfRest = Callable[[FloatArray, FloatArray], FloatArray]

#: Factors of a rising factorial that are multiplied out; beyond them the gamma function takes over. A logarithm costs a
#: small part of a gamma function, and cases with many attempts are rare.
_WRITTEN_OUT: Final = 32
#: Halvings of an interval within [0, 1]: to 1e-9.
HALVINGS: Final = 30
#: Far below any a that matters.
_ABOVE_0: Final = 1e-300


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RisingFactorials:
    """Sums over the cases of each group of log (a)_m, with (a)_m = a (a + 1) ... (a + m - 1) and m a count of the case.

    Attributes:
        factors: (groups, i) cases whose m is above i, which thus have the factor a + i.
        beyond: (groups, j) counts m above `_WRITTEN_OUT`, padded.
        cases: (groups, j) how many cases have that count, 0 for padding.
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
        place = np.arange(len(many)) - np.searchsorted(group, group)
        width = int(place.max(initial=-1)) + 1
        beyond, cases = np.full((grouped.size, width), float(_WRITTEN_OUT)), np.zeros((grouped.size, width))
        beyond[group, place], cases[group, place] = m[many], grouped.cases[many]
        return cls(factors=factors, beyond=beyond, cases=cases)

    def log(self, a: FloatArray) -> FloatArray:
        """Return the sums at a (groups, points), each 0 or above."""
        return self._summed(np.log, log_rising, a)

    def slope(self, a: FloatArray) -> FloatArray:
        """Return the derivatives of the sums by a, which must be above 0."""
        return self._summed(np.reciprocal, _digamma_rise, a)

    def _summed(self, of_factor: Callable[[FloatArray], FloatArray], of_rest: _OfRest, a: FloatArray) -> FloatArray:
        # The factor a at a = 0 counts where no case has it, too: 0 times a large number, but not 0 times infinity.
        total, above_0 = np.zeros_like(a), np.maximum(a, _ABOVE_0)
        for i, cases in enumerate(self.factors.T):
            total += cases[:, None] * of_factor(above_0 + i)
        for m, cases in zip(self.beyond.T, self.cases.T, strict=True):
            total += cases[:, None] * of_rest(a + _WRITTEN_OUT, m[:, None] - _WRITTEN_OUT)
        return total


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BetaBinomial:
    """The log-likelihood of (mu, kappa) in many groups, without the binomial coefficients, which hold neither.

    >>> from otel_agentic.stats import Attempts, GroupedAttempts
    >>> twice = GroupedAttempts.of([Attempts.of([("a", True), ("a", True), ("b", True), ("b", False)])])
    >>> likelihood = BetaBinomial.of(twice)
    >>> mu, kappa = np.array([[0.5]]), np.array([[2.0]])
    >>> round(float(np.exp(likelihood.log(mu, kappa))[0, 0]), 4)  # a uniform rate: E[p p] E[p (1 - p)] = 1/3 * 1/6
    0.0556
    """

    passed: RisingFactorials
    failed: RisingFactorials
    made: RisingFactorials

    @classmethod
    def of(cls, grouped: GroupedAttempts) -> BetaBinomial:
        """Return the likelihood of the counts of each group; weights of attempts are not looked at."""
        return cls(
            passed=RisingFactorials.of(grouped, grouped.c),
            failed=RisingFactorials.of(grouped, grouped.n - grouped.c),
            made=RisingFactorials.of(grouped, grouped.n),
        )

    def log(self, mu: FloatArray, kappa: FloatArray) -> FloatArray:
        """Return the log-likelihood at mu in [0, 1] and kappa above 0, all (groups, points)."""
        passed, failed = self.passed.log(mu * kappa), self.failed.log((1.0 - mu) * kappa)
        return passed + failed - self.made.log(kappa)

    def mode(self, kappa: FloatArray) -> FloatArray:
        """Return the mu of highest likelihood for each kappa: (groups, points), to 1e-9.

        >>> from otel_agentic.stats import Attempts, GroupedAttempts
        >>> likelihood = BetaBinomial.of(GroupedAttempts.of([Attempts.of([("a", True), ("b", True), ("c", False)])]))
        >>> likelihood.mode(np.array([[1.0, 50.0]])).round(6).tolist()  # one attempt a case: c / n, whatever kappa is
        [[0.666667, 0.666667]]
        """

        def rises(mu: FloatArray) -> BoolArray:
            return np.asarray(self.passed.slope(mu * kappa) > self.failed.slope((1.0 - mu) * kappa))

        return bisected(rises, np.zeros_like(kappa), np.ones_like(kappa))

    def ends(self, kappa: FloatArray, mode: FloatArray, least: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the lowest and the highest mu with at least some log-likelihood; the mode itself where none has it.

        Args:
            kappa: (groups, points).
            mode: (groups, points) the mode for each kappa.
            least: (groups, points) the log-likelihood.
        """

        def likely(mu: FloatArray) -> BoolArray:
            return np.asarray(self.log(mu, kappa) >= least)

        return bisected(likely, mode, np.zeros_like(kappa)), bisected(likely, mode, np.ones_like(kappa))


def bisected(
    holds: Callable[[FloatArray], BoolArray], inside: FloatArray, outside: FloatArray, halvings: int = HALVINGS
) -> FloatArray:
    """Return how far from `inside` towards `outside` a condition holds, element by element.

    >>> bisected(lambda x: x * x < 2.0, np.array([0.0]), np.array([2.0])).round(6).tolist()
    [1.414214]
    """
    for _ in range(halvings):
        middle = (inside + outside) / 2.0
        held = holds(middle)
        inside, outside = np.where(held, middle, inside), np.where(held, outside, middle)
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
    return np.asarray(digamma(x + k) - digamma(x))
