"""Scores of tools in words: how many are perfect, good, moderate and poor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, get_args

if TYPE_CHECKING:
    from collections.abc import Iterable

Band = Literal["perfect", "good", "moderate", "poor"]
#: From the best one.
BANDS: Final[tuple[Band, ...]] = get_args(Band)

#: The least score of each band but the last. Scores are sums of shares: the last bits of a sum are forgiven.
_LEAST: Final[tuple[tuple[Band, float], ...]] = (("perfect", 1.0), ("good", 0.75), ("moderate", 0.5))
_ROUNDING: Final = 1e-9


def band_of(score: float) -> Band:
    """Return the band of a score of 0 to 1.

    >>> [band_of(score) for score in (1.0, 0.999, 0.75, 0.74, 0.5, 0.49, 0.0)]
    ['perfect', 'good', 'good', 'moderate', 'moderate', 'poor', 'poor']
    """
    return next((band for band, least in _LEAST if score >= least - _ROUNDING), "poor")


def banded(scores: Iterable[float]) -> dict[Band, int]:
    """Return how many scores each band holds, also where that is none.

    >>> banded([1.0, 0.2, 1.0])
    {'perfect': 2, 'good': 0, 'moderate': 0, 'poor': 1}
    """
    found = dict.fromkeys(BANDS, 0)
    for score in scores:
        found[band_of(score)] += 1
    return found
