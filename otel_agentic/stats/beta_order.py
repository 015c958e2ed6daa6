"""The probability that one Beta variable lies below another: exact sums or quadrature, no sampling.

Ref: Cook 2005, "Exact calculation of Beta inequalities", UT MD Anderson Cancer Center technical report UTMDABTR-005-05; the
sum is the Beta-negative-hypergeometric one that Thompson 1933 ("On the likelihood that one unknown probability exceeds
another in view of the evidence of two samples") gave first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.special import betainc, betaincinv, betaln

if TYPE_CHECKING:
    import numpy.typing as npt

    from otel_agentic.stats.beta import BetaPosterior

    FloatArray = npt.NDArray[np.float64]

#: The sum has as many terms as its whole parameter; quadrature is cheaper beyond.
_MOST_TERMS: Final = 100_000
#: Where the quadrature is split: at these quantiles of the narrower curve, and at their mirror images.
_TAILS: Final = np.array(
    [1e-15, 1e-12, 1e-9, 1e-6, 1e-4, 1e-3, 1e-2, 0.03, 0.06, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45]
)
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(24)


def probability_below(x: BetaPosterior, y: BetaPosterior) -> float:
    """Return P(X < Y) of two independent Beta variables.

    >>> from otel_agentic.stats.beta import BetaPosterior
    >>> probability_below(BetaPosterior(a=1.0, b=1.0), BetaPosterior(a=1.0, b=1.0))
    0.5
    >>> round(probability_below(BetaPosterior(a=85.0, b=117.0), BetaPosterior(a=100.0, b=102.0)), 4)
    0.9335
    """
    if _is_short(y.a):
        return min(1.0, _summed(x.a, x.b, y.a, y.b))
    if _is_short(x.b):  # 1 - Y < 1 - X
        return min(1.0, _summed(y.b, y.a, x.b, x.a))
    return integrated(x, y)


def integrated(x: BetaPosterior, y: BetaPosterior) -> float:
    """Return P(X < Y) by quadrature, for parameters of any kind: the mean of P(X < y) over Y.

    It is integrated over the probability u of Y, split where P(X < y) or u changes: each part is smooth.

    >>> from otel_agentic.stats.beta import BetaPosterior
    >>> round(integrated(BetaPosterior(a=8.5, b=3.25), BetaPosterior(a=9.75, b=2.5)), 6)
    0.670346
    """
    quantiles = np.concatenate([_TAILS, [0.5], 1.0 - _TAILS[::-1]])
    splits = np.concatenate([quantiles, betainc(y.a, y.b, betaincinv(x.a, x.b, quantiles)), [0.0, 1.0]])
    edges = np.unique(np.clip(splits, 0.0, 1.0))
    half = np.diff(edges)[:, None] / 2.0
    u = edges[:-1, None] + half * (1.0 + _NODES)
    below = betainc(x.a, x.b, betaincinv(y.a, y.b, u))
    return float(np.clip(np.sum(half * _WEIGHTS * below), 0.0, 1.0))


def _is_short(whole: float) -> bool:
    return float(whole).is_integer() and whole <= _MOST_TERMS


def _summed(a_x: float, b_x: float, a_y: float, b_y: float) -> float:
    """Return P(X < Y) where a_y is a whole number: a sum of positive terms."""
    term = np.arange(int(a_y), dtype=np.float64)
    logs = betaln(a_x + term, b_x + b_y) - np.log(b_y + term) - betaln(1.0 + term, b_y) - betaln(a_x, b_x)
    return float(np.sum(np.exp(logs)))
