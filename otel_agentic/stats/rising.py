"""Ratios of rising factorials: what counting subsets and averaging over a Beta both come down to.

`(x)_k = x (x + 1) ... (x + k - 1)`. The share of k-subsets that are all correct is `(c - k + 1)_k / (n - k + 1)_k`, the mean
of p^k under Beta(a, b) is `(a)_k / (a + b)_k`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.special import gammaln

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


def rising_ratio(part: npt.ArrayLike, whole: npt.ArrayLike, k: npt.ArrayLike) -> FloatArray:
    """Return (part)_k / (whole)_k, elementwise, for 0 < part <= whole: in [0, 1].

    Up to k = 16 the factors are multiplied: of small whole numbers the ratio is then the nearest double, so that a tier whose
    threshold it meets exactly does not hang on the rounding of logarithms. Beyond that, log Gamma.

    >>> round(float(rising_ratio(8.0, 12.0, 3)), 4)  # (8 * 9 * 10) / (12 * 13 * 14)
    0.3297
    """
    steps = np.asarray(k)
    few = _rising(part, steps) / _rising(whole, steps)
    if np.all(steps <= _FEW):
        return np.asarray(few)
    many = np.exp(np.minimum(log_rising(part, steps) - log_rising(whole, steps), 0.0))
    return np.where(steps <= _FEW, few, many)


def _rising(x: npt.ArrayLike, k: npt.NDArray[np.integer]) -> FloatArray:
    """Return (x)_k, by its first factors only where k is above the few."""
    steps = np.arange(min(int(k.max(initial=0)), _FEW))
    factors = np.asarray(x, dtype=np.float64)[..., None] + steps
    return np.asarray(np.where(steps < k[..., None], factors, 1.0).prod(axis=-1))


def _stirling_tail(x: FloatArray) -> FloatArray:
    square = x * x
    return np.asarray((1.0 / 12.0 - (1.0 / 360.0 - (1.0 / 1260.0 - 1.0 / (1680.0 * square)) / square) / square) / x)
