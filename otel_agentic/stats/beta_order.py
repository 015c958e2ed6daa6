"""The probability that one Beta variable lies below another, by quadrature; no sampling.

The integral is taken over the logit of Y. There the density of a Beta variable is log-concave with at most exponential
tails, whatever its parameters, so that it can be cut off at a known height and no quantile has to be inverted. The weights
are normalised by their own sum, so the rounding errors of large log-gamma values cancel out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.special import betainc, betaincc, betaln, expit, log_expit

if TYPE_CHECKING:
    import numpy.typing as npt

    from otel_agentic.stats.beta import BetaPosterior

    FloatArray = npt.NDArray[np.float64]

#: A density is cut off where its logarithm is this far below the top: what is left out is below 1e-17.
_DROP: Final = 45.0
#: Halvings of the bracket that holds an end.
_HALVINGS: Final = 60
#: Parts on either side of each density's top, and Gauss-Legendre nodes in each part.
_PARTS: Final = 24
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
#: Below this logit only the leading term of the distribution counts, and the rate itself leaves the range of a float.
_TINY: Final = -600.0


def probability_below(x: BetaPosterior, y: BetaPosterior) -> float:
    """Return P(X < Y) of two independent Beta variables, with an absolute error below 1e-9 for parameters up to 1e6.

    >>> from otel_agentic.stats.beta import BetaPosterior
    >>> round(probability_below(BetaPosterior(a=1.0, b=1.0), BetaPosterior(a=1.0, b=1.0)), 12)
    0.5
    >>> round(probability_below(BetaPosterior(a=85.0, b=117.0), BetaPosterior(a=100.0, b=102.0)), 4)
    0.9335
    """
    own, other = _edges(y), _edges(x)
    edges = np.unique(np.concatenate([own, other[(other > own[0]) & (other < own[-1])]]))
    half = np.diff(edges)[:, None] / 2.0
    logit = edges[:-1, None] + half * (1.0 + _NODES)
    weight = half * _WEIGHTS * np.exp(_log_density(y, logit))
    return float(min(1.0, np.sum(weight * _below(x, logit)) / np.sum(weight)))


def _log_density(curve: BetaPosterior, logit: FloatArray) -> FloatArray:
    """Return the log density of the logit, 0 at its top."""
    top = np.log(curve.a / curve.b)
    density: FloatArray = curve.a * (log_expit(logit) - log_expit(top)) + curve.b * (
        log_expit(-logit) - log_expit(-top)
    )
    return density


def _below(curve: BetaPosterior, logit: FloatArray) -> FloatArray:
    """Return the distribution function at logits, from the side on which the rate keeps its digits."""
    a, b = curve.a, curve.b
    far = [(a, np.minimum(logit, _TINY)), (b, np.minimum(-logit, _TINY))]
    leading = [np.exp(slope * end - np.log(slope) - betaln(a, b)) for slope, end in far]
    below: FloatArray = np.select(
        [logit < _TINY, logit < 0.0, logit <= -_TINY],
        [leading[0], betainc(a, b, expit(logit)), betaincc(b, a, expit(-logit))],
        1.0 - leading[1],
    )
    return below


def _edges(curve: BetaPosterior) -> FloatArray:
    """Return the parts that a density of a logit is cut into, from where it starts to count to where it ceases to."""
    top = np.log(curve.a / curve.b)
    spread = (1.0 / curve.a + 1.0 / curve.b) ** 0.5
    sides = np.array([-1.0, 1.0])
    near, far = np.zeros(2), np.full(2, spread)
    while np.any(within := _log_density(curve, top + sides * far) > -_DROP):
        far = np.where(within, 2.0 * far, far)
    for _ in range(_HALVINGS):
        middle = (near + far) / 2.0
        within = _log_density(curve, top + sides * middle) > -_DROP
        near, far = np.where(within, middle, near), np.where(within, far, middle)
    steps = np.linspace(0.0, 1.0, _PARTS + 1) ** 3  # finest at the top, where a flat density bends
    return np.concatenate([top - far[0] * steps[::-1], top + far[1] * steps[1:]])
