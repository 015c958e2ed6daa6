"""Evidence that the mean rate over cases is above, or below, a value: valid at every look, for any distribution of cases.

Case j has a rate p_j, drawn from some distribution G of rates, and c_j of its n_j attempts are correct. Against "the mean
of G is at most p0" the e-value is

    sum over alternatives of prior * prod_j B(a + c_j, b + n_j - c_j) / B(a, b)      alternatives: Beta(a, b), mean > p0
    -------------------------------------------------------------------------
    max over all G with mean <= p0 of prod_j integral of p^c_j (1-p)^(n_j - c_j) dG(p)

At the true G the ratio would be a mixture of likelihood ratios, which no stopping rule makes reach 1/alpha with probability
above alpha (Ville); the maximum in the denominator can only make it smaller. G has no assumed shape: with a Beta in the
denominator too, cases of which some never pass are taken for others, and false claims become certain. Which case is tried
next may depend on everything that was observed. The e-value is a function of the counts: it needs no memory of its own.

Ref: Wasserman, Ramdas and Balakrishnan (2020), Universal inference, PNAS 117(29), arXiv:1912.11436 (the ratio); Laird (1978),
J. Amer. Statist. Assoc. 73 (likelihood of G without a shape); Wang (2007), J. R. Statist. Soc. B 69(2) (its maximisation).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Final, Literal

import numpy as np
from scipy.optimize import nnls
from scipy.special import gammaln, logsumexp, roots_jacobi

if TYPE_CHECKING:
    import numpy.typing as npt

    FloatArray = npt.NDArray[np.float64]
    IntArray = npt.NDArray[np.int64]

Side = Literal["above", "below"]
#: What a group's cases are like: (attempts, correct ones, how many cases), each (attempts, correct) once, sorted.
CaseKinds = tuple[tuple[int, int, int], ...]

#: Alternatives: means at the nodes of a Gauss-Jacobi quadrature between p0 and the end of the scale, and how similar cases are.
_MEANS: Final = 24
_CONCENTRATIONS: Final = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 1000.0)
#: Rates that G may put mass on, besides the observed rates of the cases, spread evenly in arcsine scale.
_RATES: Final = 200
#: Every so many of them the search begins with.
_FIRST: Final = 8
#: The maximum is bracketed to so much of its logarithm; the upper end counts, so that the remainder makes no claim.
_TOLERANCE: Final = 1e-3
_ROUNDS: Final = 100
#: Log-likelihoods of a case are no further than this below its largest one: no rate makes an outcome impossible.
_LEAST: Final = -500.0
#: Attempts of a case up to which rising factorials are looked up.
_LOOKED_UP: Final = 4096


@lru_cache(maxsize=4096)
def mean_evidence(kinds: CaseKinds, p0: float, side: Side) -> MeanEvidence:
    """Return the evidence that the mean rate over cases is above (or below) p0.

    Args:
        kinds: the cases.
        p0: the value.
        side: above or below it.

    >>> [round(mean_evidence(((1, 1, cases),), 0.9, "above").log_e, 2) for cases in (20, 100)]
    [1.33, 8.84]
    """
    n, c, cases = np.array(kinds, dtype=np.int64).reshape(-1, 3).T
    if side == "below":
        c, p0 = n - c, 1.0 - p0
    return MeanEvidence(n=n, c=c, cases=cases.astype(np.float64), p0=p0)


@dataclass(frozen=True, kw_only=True, eq=False)
class MeanEvidence:
    """The evidence that the mean rate over cases is above p0.

    Attributes:
        n: (kinds,) attempts of a case.
        c: (kinds,) correct ones.
        cases: (kinds,) how many cases are of this kind.
        p0: the value.
    """

    n: IntArray
    c: IntArray
    cases: FloatArray
    p0: float

    @property
    def log_e(self) -> float:
        """Log of the e-value."""
        return self.grown(1.0)

    def grown(self, factor: float) -> float:
        """Return the log e-value of so many times the cases, of the same kinds in the same shares."""
        # The best G stays the best, so the denominator's logarithm is proportional to the number of cases.
        return self._numerator(factor) - factor * self._largest

    @cached_property
    def most(self) -> float:
        """An upper bound of the log e-value that is known with little work: Beta distributions of mean p0 are some G."""
        return self._numerator(1.0) - float(self._likelihoods[alternatives(self.p0).count :].max(initial=-math.inf))

    def _numerator(self, factor: float) -> float:
        bets = alternatives(self.p0)
        value = self._likelihoods[: bets.count] * factor + bets.log_prior
        return float(logsumexp(value))

    @cached_property
    def _likelihoods(self) -> FloatArray:
        """Log-likelihood of all cases under each alternative, then under each Beta of mean p0."""
        if not self.n.size:
            return np.zeros(alternatives(self.p0).a.size)
        return np.asarray(alternatives(self.p0).log_likelihood(self.n, self.c) @ self.cases)

    @cached_property
    def _largest(self) -> float:
        return _largest_likelihood(self.n, self.c, self.cases, self.p0) if self.n.size else 0.0


class Alternatives:
    """Beta distributions of rates: those that are bet on, with their prior, then those of mean p0."""

    def __init__(self, p0: float) -> None:
        nodes, weights = roots_jacobi(_MEANS, -0.5, -0.5)
        means = p0 + (1.0 - p0) * (nodes + 1.0) / 2.0
        like = np.array(_CONCENTRATIONS)
        self.count = means.size * like.size
        self.log_prior = np.log(np.repeat(weights / weights.sum(), like.size) / like.size)
        every = np.concatenate((np.repeat(means, like.size), np.full(like.size, p0)))
        kappa = np.concatenate((np.tile(like, means.size), like))
        self.a, self.b = every * kappa, (1.0 - every) * kappa
        self._tables = [np.zeros((item.size, 1)) for item in (self.a, self.b, kappa)]
        self._parameters = (self.a, self.b, kappa)

    def log_likelihood(self, n: IntArray, c: IntArray) -> FloatArray:
        """Return log B(a + c, b + n - c) / B(a, b): (distributions, kinds)."""
        a, b, both = (self._rising(index, counts) for index, counts in enumerate((c, n - c, n)))
        return np.asarray(a + b - both)

    def _rising(self, index: int, counts: IntArray) -> FloatArray:
        """Return log of x (x+1) ... (x+count-1) for each parameter x of one kind."""
        x = self._parameters[index][:, np.newaxis]
        most = int(counts.max())
        if most > _LOOKED_UP:
            return np.asarray(gammaln(x + counts) - gammaln(x))
        table = self._tables[index]
        if table.shape[1] <= most:
            logs = np.log(x + np.arange(2 * most))
            table = np.concatenate((np.zeros_like(x), np.cumsum(logs, axis=1)), axis=1)
            self._tables[index] = table
        return np.asarray(table[:, counts])


@lru_cache(maxsize=64)
def alternatives(p0: float) -> Alternatives:
    """Return the alternatives to a mean of p0 or less."""
    return Alternatives(p0)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Parts:
    """What every G of mean p0 or less is a mixture of: one rate up to p0, or two around it that have the mean p0.

    Attributes:
        low: (low,) rates up to p0.
        high: (high,) rates above it.
        share: (low, high) of the lower one of two.
        of_low: (kinds, low) likelihood of a case of each kind at each rate, up to a factor a kind.
        of_high: (kinds, high) the same.
    """

    low: FloatArray
    high: FloatArray
    share: FloatArray
    of_low: FloatArray
    of_high: FloatArray

    @classmethod
    def of(cls, rates: FloatArray, likelihood: FloatArray, p0: float) -> _Parts:
        below = rates <= p0
        low, high = rates[below], rates[~below]
        return cls(
            low=low,
            high=high,
            share=(high - p0) / (high - low[:, np.newaxis]),
            of_low=likelihood[:, below],
            of_high=likelihood[:, ~below],
        )

    def column(self, part: tuple[int, int]) -> FloatArray:
        """Return the likelihood of a case of each kind under a part: (place among low, among high or -1 for none)."""
        low, high = part
        if high < 0:
            return self.of_low[:, low]
        share = self.share[low, high]
        return np.asarray(share * self.of_low[:, low] + (1.0 - share) * self.of_high[:, high])

    def first(self) -> list[tuple[int, int]]:
        """Return some parts to begin with: evenly spread ones, and those of the likeliest rates of some kinds of cases."""
        low, high = len(self.low), len(self.high)
        best_low = set(self.of_low.argmax(axis=1)[:: 1 + len(self.of_low) // _FIRST**2].tolist())
        best_high = set(self.of_high.argmax(axis=1)[:: 1 + len(self.of_high) // _FIRST**2].tolist())
        parts = [(index, high - 1) for index in sorted(best_low.union(range(0, low, _FIRST)))]
        parts += [(0, index) for index in sorted(best_high.union(range(0, high, _FIRST)))]
        return list(dict.fromkeys([*parts, (low - 1, 0)]))

    def gains(self, per_case: FloatArray) -> tuple[float, set[tuple[int, int]]]:
        """Return the largest gain of the likelihood a part promises, and the parts where it has a peak.

        Args:
            per_case: (kinds,) number of cases divided by their likelihood now.
        """
        low, high = self.of_low.T @ per_case, self.of_high.T @ per_case
        pairs = self.share * low[:, np.newaxis] + (1.0 - self.share) * high
        best_low, best_high = pairs.argmax(axis=0), pairs.argmax(axis=1)
        value = {(int(best_low[index]), index) for index in _peaks(pairs.max(axis=0))}
        value |= {(index, int(best_high[index])) for index in _peaks(pairs.max(axis=1))}
        value |= {(index, -1) for index in _peaks(low)}
        return float(max(pairs.max(), low.max())), value


def _largest_likelihood(n: IntArray, c: IntArray, cases: FloatArray, p0: float) -> float:
    """Return the largest log-likelihood of all cases under any G of mean p0 or less, from above to `_TOLERANCE`.

    By the constrained Newton method over the parts of G: parts at the peaks of the gradient join, weights are those of a
    non-negative least squares problem, and parts of weight 0 leave. The likelihood is concave in G, so that the largest
    gradient bounds the remainder: log-likelihood + N log(gradient / N).
    """
    rates = np.unique(np.concatenate((np.sin(np.linspace(0.0, np.pi / 2.0, _RATES)) ** 2, c / n)))
    with np.errstate(divide="ignore"):
        log_likelihood = _times(c, np.log(rates)) + _times(n - c, np.log1p(-rates))
    highest = log_likelihood.max(axis=1)
    parts = _Parts.of(rates, np.exp(np.maximum(log_likelihood - highest[:, np.newaxis], _LEAST)), p0)
    total, root = float(cases.sum()), np.sqrt(cases)
    chosen = parts.first()
    columns = np.stack([parts.column(item) for item in chosen], axis=1)
    weights = np.full(len(chosen), 1.0 / len(chosen))
    now = columns @ weights
    for _ in range(_ROUNDS):
        gradient, peaks = parts.gains(cases / now)
        left = total * math.log(max(gradient, total) / total)
        if left < _TOLERANCE:
            break
        new = sorted(peaks.difference(chosen))
        chosen += new
        columns = np.concatenate((columns, *(parts.column(item)[:, np.newaxis] for item in new)), axis=1)
        scaled = columns * (root / now)[:, np.newaxis]
        # The second-order expansion of log-likelihood - N (sum of weights - 1) - N (sum of weights - 1)^2 / 2.
        optimum, _ = nnls(
            np.vstack((scaled, np.full(len(chosen), math.sqrt(total)))), np.concatenate((2.0 * root, [0.0]))
        )
        optimum /= optimum.sum()
        step = _step(now, columns @ optimum - now, cases)
        weights = np.concatenate((weights, np.zeros(len(new)))) * (1.0 - step) + step * optimum
        positive = weights > 1e-12  # noqa: PLR2004 — nothing
        chosen = [item for item, stays in zip(chosen, positive, strict=True) if stays]
        columns, weights = columns[:, positive], weights[positive] / weights[positive].sum()
        now = columns @ weights
    else:
        left = math.inf if left > 1.0 else left  # no claim from a search that has not come to its end
    return float(cases @ (np.log(now) + highest)) + left


def _step(now: FloatArray, direction: FloatArray, cases: FloatArray) -> float:
    """Return how far to go in a direction of ascent: the largest 1, 1/2, 1/4, ... that raises the likelihood enough."""
    slope, step = float(cases @ (direction / now)), 1.0
    while step > 1e-9:  # noqa: PLR2004 — a step
        gain = float(cases @ np.log(np.maximum(1.0 + step * direction / now, 1e-300)))
        if gain >= 1e-4 * step * slope:
            break
        step /= 2.0
    return step


def _times(counts: IntArray, logs: FloatArray) -> FloatArray:
    """Return counts x logs, where 0 times minus infinity is 0: (kinds, rates)."""
    some = counts[:, np.newaxis]
    return np.where(some > 0, np.where(some > 0, some, 1) * logs, 0.0)


def _peaks(values: FloatArray) -> IntArray:
    around = np.concatenate(([-np.inf], values, [-np.inf]))
    return np.flatnonzero((values >= around[:-2]) & (values >= around[2:]))
