"""pass@k and pass^k as formulas over counts or rates, vectorised over numpy arrays, and the ratios of rising factorials below them.

Ratios of rising factorials: what counting subsets and averaging over a Beta both come down to.

`(x)_k = x (x + 1) ... (x + k - 1)`. The share of k-subsets that are all correct is `(c - k + 1)_k / (n - k + 1)_k`, the mean
of p^k under Beta(a, b) is `(a)_k / (a + b)_k`.

pass@k is the chance that at least one of k attempts is correct, pass^k that all k are. The plug-in forms put the
observed rate into the Bernoulli formulas (draws with replacement); the unbiased forms count subsets of the attempts
made (draws without replacement) and are undefined (NaN here, null in reports) with fewer than k attempts.

All arguments broadcast against each other, k too. Counts may be real numbers: with attempts of unequal weight the correct
ones are the weighted rate times the attempts, and the binomials are the Gamma function's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.special import gammaln

from otel_agentic.errors import UsageError

if TYPE_CHECKING:
    import numpy.typing as npt

    FloatArray = npt.NDArray[np.float64]

#: From here on Stirling's series with four terms has all digits of a double.
_LARGE: Final = 16.0
#: So many factors below 1e19 have a product that is a double.
_FEW: Final = 16


def log_rising(x: npt.ArrayLike, k: npt.ArrayLike) -> FloatArray:
    """Return log (x)_k = log Gamma(x + k) - log Gamma(x), elementwise, for x > 0.

    For large x the two logarithms are near 1e8 and their difference keeps eight digits only; there Stirling's series is
    subtracted term by term.

    Ref: Abramowitz and Stegun 1964, 6.1.40 (Stirling's series) and 6.1.22 (rising factorial).

    >>> round(float(np.exp(log_rising(3.0, 4))), 9), float(log_rising(3.0, 0))  # 3 * 4 * 5 * 6
    (360.0, 0.0)
    >>> round(float(log_rising(1e7, 3)), 6)
    48.354287
    """
    start, steps = np.asarray(x, dtype=np.float64), np.asarray(k, dtype=np.float64)
    large = np.maximum(start, _LARGE)
    series = (large - 0.5) * np.log1p(steps / large) + steps * (np.log(large + steps) - 1.0)
    series += _stirling_tail(large + steps) - _stirling_tail(large)
    return np.asarray(np.where(start < _LARGE, gammaln(start + steps) - gammaln(start), series))


def rising_ratio(part: npt.ArrayLike, total: npt.ArrayLike, k: npt.ArrayLike) -> FloatArray:
    """Return (part)_k / (whole)_k, elementwise, for 0 < part <= whole: in [0, 1].

    Up to k = 16 the factors are multiplied: of small whole numbers the ratio is then the nearest double, so that a tier whose
    threshold it meets exactly does not hang on the rounding of logarithms. Beyond that, log Gamma.

    >>> round(float(rising_ratio(8.0, 12.0, 3)), 4)  # (8 * 9 * 10) / (12 * 13 * 14)
    0.3297
    """
    steps = np.asarray(k)
    few = _rising(part, steps) / _rising(total, steps)
    if np.all(steps <= _FEW):
        return np.asarray(few)
    many = np.exp(np.minimum(log_rising(part, steps) - log_rising(total, steps), 0.0))
    return np.where(steps <= _FEW, few, many)


def _rising(x: npt.ArrayLike, k: npt.NDArray[np.integer]) -> FloatArray:
    """Return (x)_k, by its first factors only where k is above the few."""
    steps = np.arange(min(int(k.max(initial=0)), _FEW))
    factors = np.asarray(x, dtype=np.float64)[..., None] + steps
    return np.asarray(np.where(steps < k[..., None], factors, 1.0).prod(axis=-1))


def _stirling_tail(x: FloatArray) -> FloatArray:
    square = x * x
    return np.asarray((1.0 / 12.0 - (1.0 / 360.0 - (1.0 / 1260.0 - 1.0 / (1680.0 * square)) / square) / square) / x)


def any_of(p: npt.ArrayLike, k: npt.ArrayLike) -> FloatArray:
    """Return pass@k of a success rate p: 1 - (1 - p)^k, rising in p and in k.

    Raises:
        UsageError: k is below 1.

    Ref: k independent Bernoulli attempts; Fritz and Fiorenza 2026, "Agentic Evaluation Metric", section 3.2.

    >>> [round(float(any_of(2 / 3, k)), 3) for k in (1, 2, 3, 4, 5)]
    [0.667, 0.889, 0.963, 0.988, 0.996]
    """
    _require_k(k)
    rate = np.asarray(p, dtype=np.float64)
    with np.errstate(divide="ignore"):  # p = 1: log1p(-1) is -inf, and expm1(-inf) is the -1 that we want
        some = -np.expm1(np.asarray(k) * np.log1p(-rate))
    return np.where(np.equal(k, 1), rate, some)  # one attempt: pass@1 is pass^1, to the last digit


def all_of(p: npt.ArrayLike, k: npt.ArrayLike) -> FloatArray:
    """Return pass^k of a success rate p: p^k, rising in p and falling in k.

    Raises:
        UsageError: k is below 1.

    Ref: k independent Bernoulli attempts; Fritz and Fiorenza 2026, "Agentic Evaluation Metric", section 3.3.

    >>> [round(float(all_of(2 / 3, k)), 3) for k in (1, 2, 3, 4, 5)]
    [0.667, 0.444, 0.296, 0.198, 0.132]
    """
    _require_k(k)
    return np.asarray(np.asarray(p, dtype=np.float64) ** np.asarray(k))


def plugin_pass_at_k(n: npt.ArrayLike, c: npt.ArrayLike, k: npt.ArrayLike) -> FloatArray:
    """Return the plug-in pass@k of c correct among n attempts; NaN where n = 0. Biased for small n.

    Raises:
        UsageError: k is below 1, or not 0 <= c <= n.

    Ref: Bernoulli formula at the maximum-likelihood rate c / n.

    >>> round(float(plugin_pass_at_k(3, 2, 3)), 3)
    0.963
    """
    return any_of(_rate(n, c), k)


def plugin_pass_pow_k(n: npt.ArrayLike, c: npt.ArrayLike, k: npt.ArrayLike) -> FloatArray:
    """Return the plug-in pass^k of c correct among n attempts; NaN where n = 0. Biased for small n.

    Raises:
        UsageError: k is below 1, or not 0 <= c <= n.

    Ref: Bernoulli formula at the maximum-likelihood rate c / n.

    >>> round(float(plugin_pass_pow_k(3, 2, 3)), 3)
    0.296
    """
    return all_of(_rate(n, c), k)


def unbiased_pass_at_k(n: npt.ArrayLike, c: npt.ArrayLike, k: npt.ArrayLike) -> FloatArray:
    """Return 1 - C(n-c, k) / C(n, k), the share of k-subsets with a correct attempt; NaN where n < k.

    Raises:
        UsageError: k is below 1, or not 0 <= c <= n.

    Ref: Chen et al. 2021, "Evaluating Large Language Models Trained on Code", equation 1.

    >>> float(unbiased_pass_at_k(3, 2, 3)), float(unbiased_pass_at_k(2, 1, 3))
    (1.0, nan)
    """
    attempts, correct = _counts(n, c)
    some = 1.0 - _subset_ratio(attempts - correct, attempts, k)
    return np.where(np.equal(k, 1), _rate(attempts, correct), some)


def unbiased_pass_pow_k(n: npt.ArrayLike, c: npt.ArrayLike, k: npt.ArrayLike) -> FloatArray:
    """Return C(c, k) / C(n, k), the share of k-subsets that are all correct; NaN where n < k.

    Raises:
        UsageError: k is below 1, or not 0 <= c <= n.

    Ref: Yao et al. 2024, "tau-bench: A Benchmark for Tool-Agent-User Interaction in Real-World Domains", pass^k.

    >>> float(unbiased_pass_pow_k(3, 2, 3)), round(float(unbiased_pass_pow_k(10, 7, 3)), 4)
    (0.0, 0.2917)
    """
    attempts, correct = _counts(n, c)
    return _subset_ratio(correct, attempts, k)


def _subset_ratio(part: FloatArray, total: FloatArray, k: npt.ArrayLike) -> FloatArray:
    """Return C(part, k) / C(whole, k): 0 where part <= k - 1, NaN where whole < k."""
    _require_k(k)
    last = np.asarray(k) - 1.0
    # The factors are positive where they are needed; elsewhere they are replaced by 1, because the ratio is decided without them.
    none, undefined = part <= last, total <= last
    ratio = rising_ratio(np.where(none, 1.0, part - last), np.where(undefined, 1.0, total - last), k)
    return np.asarray(np.where(undefined, np.nan, np.where(none, 0.0, ratio)))


def _rate(n: npt.ArrayLike, c: npt.ArrayLike) -> FloatArray:
    attempts, correct = _counts(n, c)
    return np.asarray(np.divide(correct, attempts, out=np.full(attempts.shape, np.nan), where=attempts > 0))


def _counts(n: npt.ArrayLike, c: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    attempts, correct = np.broadcast_arrays(np.asarray(n, dtype=np.float64), np.asarray(c, dtype=np.float64))
    if np.any(correct < 0) or np.any(correct > attempts):
        raise UsageError(f"counts c={c!r} of n={n!r}: each c must lie between 0 and its n")
    return attempts, correct


def _require_k(k: npt.ArrayLike) -> None:
    if np.any(np.asarray(k, dtype=np.float64) < 1):
        raise UsageError(f"k={k!r}: k must be a whole number of attempts, 1 or more")
