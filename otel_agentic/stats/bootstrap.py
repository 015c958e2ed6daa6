"""The cluster bootstrap: cases drawn with replacement, attempts left as they are, bounds read off the drawn points.

It takes cases for independent and asks nothing of their rates, and it works for any estimator. Two things it cannot do:

- Where resampling changes nothing (one case, all cases alike, everything passed) it collapses to a point, see
  `collapsed`; a report must then warn, for no width is not certainty.
- With few cases it is too narrow: what was not drawn into the sample is in no resample either. docs/statistics.md has
  the measured coverage beside that of the effective sample size of `cluster`, which is the default for that reason.

The draws are seeded by the counts themselves: the same counts give the same bounds, on one numpy version.

Ref: Efron 1979, "Bootstrap methods: another look at the jackknife" (percentile interval: Efron and Tibshirani 1993, "An
Introduction to the Bootstrap", section 13.3); cases as the units: Davison and Hinkley 1997, "Bootstrap Methods and their
Application", section 3.8.
"""

from __future__ import annotations

from dataclasses import replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

import numpy as np

from otel_agentic.errors import UsageError
from otel_agentic.stats.grouped import GroupedAttempts, estimate_groups

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from otel_agentic.stats.model import Attempts, Estimate, Estimates, Estimator

    FloatArray = npt.NDArray[np.float64]

#: How bounds from here are named in `Estimates.interval_method`.
INTERVAL_METHOD: Final = "cluster_bootstrap"
#: Resamples where none are asked for: the 2.5 % quantile then rests on 50 of them.
RESAMPLES: Final = 2_000
#: A narrower interval than this has collapsed: what is left is rounding.
_NO_WIDTH: Final = 1e-9


def with_bootstrap(
    estimator: Estimator, attempts: Attempts, k: Sequence[int], *, resamples: int = RESAMPLES
) -> Estimates:
    """Return the estimates of an estimator, points unchanged, with cluster bootstrap bounds at the level it has.

    Bounds are the percentiles of the points of the resamples in which the estimator is defined, stretched to hold the
    point. What is undefined stays so.

    Args:
        estimator: any.
        attempts: of one group.
        k: the k, ascending.
        resamples: how many; 1 or more.

    Raises:
        UsageError: there are no resamples.

    >>> from otel_agentic.stats import Attempts, PluginEstimator
    >>> half = Attempts.of((f"case {i}", i < 10) for i in range(20) for _ in range(3))
    >>> found = with_bootstrap(PluginEstimator(), half, [1])
    >>> found.interval_method, found.pass_at_k[1].value
    ('cluster_bootstrap', 0.5)
    >>> [round(end, 2) for end in (found.pass_at_k[1].lower, found.pass_at_k[1].upper)]
    [0.3, 0.7]
    """
    if resamples < 1:
        raise UsageError(f"resamples={resamples!r}: a bootstrap needs 1 resample or more, e.g. {RESAMPLES}")
    found = estimator.estimate(attempts, k)
    if attempts.cases:
        drawn = estimate_groups(estimator, _resampled(GroupedAttempts.of([attempts]), resamples), k)
        places = range(len(k))
        at = {k[place]: _rebounded(found.pass_at_k[k[place]], drawn.pass_at_k[:, place, 0], found) for place in places}
        power = {
            k[place]: _rebounded(found.pass_pow_k[k[place]], drawn.pass_pow_k[:, place, 0], found) for place in places
        }
        found = replace(found, pass_at_k=at, pass_pow_k=power)
    return replace(found, interval_method=INTERVAL_METHOD)


def collapsed(estimates: Estimates) -> bool:
    """Return True where an interval has no width: resampling changed nothing, and its bounds say nothing.

    >>> from otel_agentic.stats import Attempts, PluginEstimator
    >>> collapsed(with_bootstrap(PluginEstimator(), Attempts.of([("a", True), ("b", True)]), [1, 3]))
    True
    """
    every = (*estimates.pass_at_k.values(), *estimates.pass_pow_k.values())
    return any(
        each.upper - each.lower < _NO_WIDTH for each in every if each.lower is not None and each.upper is not None
    )


def _resampled(group: GroupedAttempts, resamples: int) -> GroupedAttempts:
    """Return as many groups as there are resamples, each of as many cases as the one group has."""
    rng = np.random.default_rng(_seed(group))
    cases = int(group.cases.sum())
    drawn = rng.multinomial(cases, group.cases / cases, size=resamples)
    resample, kind = np.nonzero(drawn)
    return GroupedAttempts(
        size=resamples,
        group=resample,
        n=group.n[kind],
        c=group.c[kind],
        cases=drawn[resample, kind],
        weights=None if group.weights is None else group.weights[kind],
    )


def _seed(group: GroupedAttempts) -> int:
    counts = np.stack([group.n, group.c, group.cases]).astype("<i8").tobytes()
    weights = b"" if group.weights is None else group.weights.astype("<f8").tobytes()
    return int.from_bytes(blake2b(counts + weights, digest_size=16).digest(), "little")


def _rebounded(point: Estimate, drawn: FloatArray, found: Estimates) -> Estimate:
    if point.value is None:
        return point
    defined = drawn[~np.isnan(drawn)]
    tail = (1.0 - found.level) / 2.0
    ends = np.quantile(defined, [tail, 1.0 - tail]) if len(defined) else np.full(2, point.value)
    return replace(point, lower=min(float(ends[0]), point.value), upper=max(float(ends[1]), point.value))
