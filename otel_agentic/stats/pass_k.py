"""pass@k and pass^k as plain formulas over counts or rates, vectorised over numpy arrays.

pass@k is the chance that at least one of k attempts is correct, pass^k that all k are. The plug-in forms put the
observed rate into the Bernoulli formulas (draws with replacement); the unbiased forms count subsets of the attempts
made (draws without replacement) and are undefined (NaN here, null in reports) with fewer than k attempts.

All arguments broadcast against each other, k too. Counts may be real numbers: with attempts of unequal weight the correct
ones are the weighted rate times the attempts, and the binomials are the Gamma function's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from otel_agentic.errors import UsageError
from otel_agentic.stats.rising import rising_ratio

if TYPE_CHECKING:
    import numpy.typing as npt

    FloatArray = npt.NDArray[np.float64]


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


def _subset_ratio(part: FloatArray, whole: FloatArray, k: npt.ArrayLike) -> FloatArray:
    """Return C(part, k) / C(whole, k): 0 where part <= k - 1, NaN where whole < k."""
    _require_k(k)
    last = np.asarray(k) - 1.0
    # The factors are positive where they are needed; elsewhere 1 stands in, for the ratio is decided without them.
    none, undefined = part <= last, whole <= last
    ratio = rising_ratio(np.where(none, 1.0, part - last), np.where(undefined, 1.0, whole - last), k)
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
