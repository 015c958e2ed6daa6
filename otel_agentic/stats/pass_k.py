"""pass@k and pass^k as plain formulas over counts or rates, vectorised over numpy arrays.

pass@k is the chance that at least one of k attempts is correct, pass^k that all k are. The plug-in forms put the
observed rate into the Bernoulli formulas (draws with replacement); the unbiased forms count subsets of the attempts
made (draws without replacement) and are undefined (NaN here, null in reports) with fewer than k attempts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import gammaln

from otel_agentic.errors import UsageError

if TYPE_CHECKING:
    import numpy.typing as npt

    FloatArray = npt.NDArray[np.float64]


def any_of(p: npt.ArrayLike, k: int) -> FloatArray:
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
        return np.asarray(-np.expm1(k * np.log1p(-rate)))


def all_of(p: npt.ArrayLike, k: int) -> FloatArray:
    """Return pass^k of a success rate p: p^k, rising in p and falling in k.

    Raises:
        UsageError: k is below 1.

    Ref: k independent Bernoulli attempts; Fritz and Fiorenza 2026, "Agentic Evaluation Metric", section 3.3.

    >>> [round(float(all_of(2 / 3, k)), 3) for k in (1, 2, 3, 4, 5)]
    [0.667, 0.444, 0.296, 0.198, 0.132]
    """
    _require_k(k)
    return np.asarray(np.asarray(p, dtype=np.float64) ** k)


def plugin_pass_at_k(n: npt.ArrayLike, c: npt.ArrayLike, k: int) -> FloatArray:
    """Return the plug-in pass@k of c correct among n attempts; NaN where n = 0. Biased for small n.

    Raises:
        UsageError: k is below 1, or not 0 <= c <= n.

    Ref: Bernoulli formula at the maximum-likelihood rate c / n.

    >>> round(float(plugin_pass_at_k(3, 2, 3)), 3)
    0.963
    """
    return any_of(_rate(n, c), k)


def plugin_pass_pow_k(n: npt.ArrayLike, c: npt.ArrayLike, k: int) -> FloatArray:
    """Return the plug-in pass^k of c correct among n attempts; NaN where n = 0. Biased for small n.

    Raises:
        UsageError: k is below 1, or not 0 <= c <= n.

    Ref: Bernoulli formula at the maximum-likelihood rate c / n.

    >>> round(float(plugin_pass_pow_k(3, 2, 3)), 3)
    0.296
    """
    return all_of(_rate(n, c), k)


def unbiased_pass_at_k(n: npt.ArrayLike, c: npt.ArrayLike, k: int) -> FloatArray:
    """Return 1 - C(n-c, k) / C(n, k), the share of k-subsets with a correct attempt; NaN where n < k.

    Raises:
        UsageError: k is below 1, or not 0 <= c <= n.

    Ref: Chen et al. 2021, "Evaluating Large Language Models Trained on Code", equation 1.

    >>> float(unbiased_pass_at_k(3, 2, 3)), float(unbiased_pass_at_k(2, 1, 3))
    (1.0, nan)
    """
    attempts, correct = _counts(n, c)
    return 1.0 - _subset_ratio(attempts - correct, attempts, k)


def unbiased_pass_pow_k(n: npt.ArrayLike, c: npt.ArrayLike, k: int) -> FloatArray:
    """Return C(c, k) / C(n, k), the share of k-subsets that are all correct; NaN where n < k.

    Raises:
        UsageError: k is below 1, or not 0 <= c <= n.

    Ref: Yao et al. 2024, "tau-bench: A Benchmark for Tool-Agent-User Interaction in Real-World Domains", pass^k.

    >>> float(unbiased_pass_pow_k(3, 2, 3)), round(float(unbiased_pass_pow_k(10, 7, 3)), 4)
    (0.0, 0.2917)
    """
    attempts, correct = _counts(n, c)
    return _subset_ratio(correct, attempts, k)


def _subset_ratio(part: FloatArray, whole: FloatArray, k: int) -> FloatArray:
    """Return C(part, k) / C(whole, k): 0 where part < k, NaN where whole < k."""
    _require_k(k)
    # Gamma has poles at 0, -1, ...: the arguments stay legal where the ratio is decided without it.
    drawn, of = np.maximum(part, k), np.maximum(whole, k)
    log_ratio = gammaln(drawn + 1) - gammaln(drawn - k + 1) - gammaln(of + 1) + gammaln(of - k + 1)
    drawn_alone = np.minimum(part, of) / of  # one attempt: the rate itself, without the rounding of logarithms
    ratio = np.where(part < k, 0.0, drawn_alone if k == 1 else np.exp(np.minimum(log_ratio, 0.0)))
    return np.asarray(np.where(whole < k, np.nan, ratio))


def _rate(n: npt.ArrayLike, c: npt.ArrayLike) -> FloatArray:
    attempts, correct = _counts(n, c)
    return np.asarray(np.divide(correct, attempts, out=np.full(attempts.shape, np.nan), where=attempts > 0))


def _counts(n: npt.ArrayLike, c: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    attempts, correct = np.broadcast_arrays(np.asarray(n, dtype=np.float64), np.asarray(c, dtype=np.float64))
    if np.any(correct < 0) or np.any(correct > attempts):
        raise UsageError(f"counts c={c!r} of n={n!r}: each c must lie between 0 and its n")
    return attempts, correct


def _require_k(k: int) -> None:
    if k < 1:
        raise UsageError(f"k={k!r}: k must be a whole number of attempts, 1 or more")
