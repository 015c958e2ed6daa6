"""Whether something became more frequent: its rate in an earlier and a later half of the observations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

Direction = Literal["rising", "falling", "steady"]

#: The level of the two-sided test.
_ALPHA: Final = 0.05
#: Fewer events are not called steady: of 9, a distribution of 2 and 7 is not significant, although it is a factor of 3.5.
_FEWEST: Final = 10
#: Relative rounding error within which two probabilities are equal.
_TIE: Final = 1e-10


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """Counts of the earlier and the later observations, and of those with an event in each.

    `p_value` is that of Fisher's exact test, two-sided. If the test is not significant, `direction` is `steady`, or None if
    there are too few events to call it so.
    """

    before: int
    before_total: int
    after: int
    after_total: int
    p_value: float
    direction: Direction | None


def trend(before: int, before_total: int, after: int, after_total: int) -> Trend:
    """Return whether the rate of an event rose or fell, by Fisher's exact test at level .05.

    >>> trend(2, 100, 14, 100).direction, trend(8, 100, 9, 100).direction, trend(0, 100, 3, 100).direction
    ('rising', 'steady', None)

    Raises:
        ValueError: a count is negative or exceeds its total.

    Ref: R. A. Fisher, Statistical Methods for Research Workers, 1934, section 21.02.
    """
    if not (0 <= before <= before_total and 0 <= after <= after_total):
        raise ValueError(f"counts must be in [0, total]: {before} of {before_total}, {after} of {after_total}")
    p_value = _fisher(before, before_total, after, after_total)
    direction: Direction | None = None
    if p_value < _ALPHA:
        direction = "rising" if after * before_total > before * after_total else "falling"
    elif before + after >= _FEWEST:
        direction = "steady"
    return Trend(
        before=before,
        before_total=before_total,
        after=after,
        after_total=after_total,
        p_value=p_value,
        direction=direction,
    )


def _fisher(before: int, before_total: int, after: int, after_total: int) -> float:
    """Return the p-value of Fisher's exact test: the total probability of the divisions that are no more probable than this one.

    `scipy.stats` has this test, but importing it takes half a second and 20 MB.
    """
    events = before + after
    division = np.arange(max(0, events - after_total), min(events, before_total) + 1)
    # Sums of ratios of neighbours keep more digits than differences of the logarithms of large factorials.
    fewer = division[:-1]
    log_ratios = np.log((events - fewer) * (before_total - fewer)) - np.log(
        (fewer + 1) * (after_total - events + fewer + 1)
    )
    log_weights = np.concatenate(([0.0], np.cumsum(log_ratios)))
    weights = np.exp(log_weights - log_weights.max())
    observed = weights[before - division[0]]
    return float(min(1.0, weights[weights <= observed * (1.0 + _TIE)].sum() / weights.sum()))
