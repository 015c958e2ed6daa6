"""Evidence that a pass rate is below what was promised, valid whenever one looks: a one-sided e-process.

The e-value is what a bettor would have made of 1 who bets, conversation by conversation, that the rate lies below `p0`.
While every conversation passes with probability `p0` or more, whatever came before it, no betting system gets rich: the
probability that the e-value ever reaches 1/alpha is at most alpha, for any number of looks.

Ref: Ville (1939), Étude critique de la notion de collectif (the inequality); Robbins (1970), Ann. Math. Statist. 41(5)
(mixtures of likelihood ratios); Ramdas, Grünwald, Vovk and Shafer (2023), Statist. Sci. 38(4), arXiv:2210.01948.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.special import betainc, betaln

from otel_agentic.errors import UsageError

if TYPE_CHECKING:
    import numpy.typing as npt

    FloatArray = npt.NDArray[np.float64]
    IntArray = npt.NDArray[np.int64]

#: (a, b) of the Beta on [0, p0] that the bets are spread over: the quickest over 13 pairs of promised and true rates
#: among the priors tried; the table is in docs/monitoring.md.
PRIOR: Final = (3.0, 0.5)
#: Bounds of an e-value that is told as a number; beyond them its logarithm is told.
LEAST, LARGEST = 1e-300, 1e300
#: Below this the regularised incomplete beta is close to underflow and a continued fraction takes over.
_SMALL: Final = 1e-250
_MAX_TERMS: Final = 10_000
_CONVERGED: Final = 1e-15


def promised_rate(k: int, target: float) -> float:
    """Return the pass rate below which pass^k is below the target: target ** (1 / k).

    >>> round(promised_rate(3, 0.7), 4)
    0.8879
    """
    return float(target ** (1.0 / k))


def log_e_value(
    n: npt.ArrayLike, c: npt.ArrayLike, p0: npt.ArrayLike, prior: tuple[float, float] = PRIOR
) -> FloatArray:
    """Return the natural logarithm of the e-value against "p >= p0" after n conversations of which c are correct.

    e = B(a+c, b+n-c)/B(a,b) * I_p0(a+c, b+n-c)/I_p0(a,b) / (p0^c (1-p0)^(n-c)): the likelihood averaged over a
    Beta(a, b) truncated to [0, p0], divided by the likelihood at p0. Arguments broadcast.

    Raises:
        UsageError: c is not within 0..n, p0 not between 0 and 1, or a prior parameter not above 0.

    Ref: Robbins (1970); the truncation makes it one-sided.

    >>> log_e_value(0, 0, 0.9).item(), round(float(np.exp(log_e_value(10, 5, 0.9))), 1)
    (0.0, 54.9)
    """
    n, c, p0 = np.broadcast_arrays(*(np.asarray(each, dtype=np.float64) for each in (n, c, p0)))
    _require_counts(n, c, p0, prior)
    a, b = prior
    with np.errstate(divide="ignore"):
        share = betainc(a + c, b + n - c, p0)
        log_e = np.asarray(betaln(a + c, b + n - c) + np.log(share) - c * np.log(p0) - (n - c) * np.log1p(-p0))
    small = share < _SMALL
    if small.any():
        # Powers of p0 and 1-p0 cancel here by hand: what is left neither under- nor overflows.
        powers = a * np.log(p0[small]) + b * np.log1p(-p0[small])
        log_e[small] = powers + _log_tail(a + c[small], b + n[small] - c[small], p0[small])
    return np.asarray(np.where(n == 0, 0.0, log_e - betaln(a, b) - np.log(betainc(a, b, p0))), dtype=np.float64)


def log_e_path(outcomes: npt.ArrayLike, p0: npt.ArrayLike, prior: tuple[float, float] = PRIOR) -> FloatArray:
    """Return the log e-value after each conversation.

    Args:
        outcomes: (..., looks) true where correct, in event order; any number of streams at once.
        p0: the promised rate, or one a stream with a last axis of 1.
        prior: of the bets.

    Returns:
        The same shape as the outcomes.

    >>> np.round(np.exp(log_e_path([True, False, False], 0.9)), 2).tolist()
    [0.8, 1.97, 6.24]
    """
    correct = np.cumsum(np.asarray(outcomes, dtype=np.bool_), axis=-1)
    return log_e_value(np.arange(1, correct.shape[-1] + 1), correct, p0, prior)


def first_alarm(log_e: npt.ArrayLike, alpha: float) -> IntArray:
    """Return how many conversations the first alarm took in each stream, 0 where there was none.

    Args:
        log_e: (..., looks) log e-values.
        alpha: the alarm is at e >= 1 / alpha.

    >>> first_alarm(log_e_path([[False] * 3, [True] * 3], 0.9), 0.05).tolist()
    [3, 0]
    """
    reached = np.asarray(log_e, dtype=np.float64) >= -math.log(alpha)
    if not reached.shape[-1]:
        return np.zeros(reached.shape[:-1], dtype=np.int64)
    return np.asarray(np.where(reached.any(axis=-1), reached.argmax(axis=-1) + 1, 0), dtype=np.int64)


def e_value(log_e: float) -> float:
    """Return the e-value as a number that every reader can take: within 1e-300 and 1e300.

    >>> e_value(0.0), e_value(5_000.0)
    (1.0, 1e+300)
    """
    return min(max(math.exp(min(log_e, 700.0)), LEAST), LARGEST)


def _log_tail(a: FloatArray, b: FloatArray, x: FloatArray) -> FloatArray:
    """Return log of (integral of t^(a-1) (1-t)^(b-1) over [0, x]) / (x^a (1-x)^b), for x well below a / (a + b).

    By Lentz's method. Ref: DLMF 8.17.22, https://dlmf.nist.gov/8.17.E22.
    """
    tiny = 1e-290
    fraction = np.ones_like(x)
    front, back = np.ones_like(x), np.zeros_like(x)
    for term in range(1, _MAX_TERMS):
        m, odd = divmod(term, 2)
        top = -(a + m) * (a + b + m) if odd else m * (b - m)
        coefficient = top * x / ((a + term - 1) * (a + term))
        back = 1.0 / _away_from_zero(1.0 + coefficient * back, tiny)
        front = _away_from_zero(1.0 + coefficient / front, tiny)
        fraction *= front * back
        if np.all(np.abs(front * back - 1.0) < _CONVERGED):
            break
    return np.asarray(-np.log(a * fraction), dtype=np.float64)


def _away_from_zero(values: FloatArray, tiny: float) -> FloatArray:
    return np.where(np.abs(values) < tiny, tiny, values)


def _require_counts(n: FloatArray, c: FloatArray, p0: FloatArray, prior: tuple[float, float]) -> None:
    if not np.all((c >= 0) & (c <= n)):
        raise UsageError("correct conversations must be between 0 and the number of conversations")
    if not np.all((p0 > 0) & (p0 < 1)):
        raise UsageError("the promised rate p0 must be above 0 and below 1")
    if min(prior) <= 0:
        raise UsageError(f"prior Beta{prior}: both parameters must be above 0")
