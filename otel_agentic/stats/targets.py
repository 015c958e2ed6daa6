"""Two questions about a group of cases: how this traffic goes on, and how a new case does.

- **This traffic**: these cases in these shares. Its success rate is `sum n_i p_i / n`, p_i being the rate of case i. Nothing
  between cases is uncertain, since no case is drawn anew; what remains is whether the attempts of a case came out luckily.
- **A new case like these**: one more draw from the population that the cases came from. For k attempts of the same new case
  that is the mean of p^k over the population, which `per_case` estimates where every case has k attempts, and `hierarchical`
  otherwise.

The interval of this traffic is that of Clopper and Pearson on `max(n, p (1 - p) / v)` attempts, v being the variance within
cases: `sum n_i s_i / n^2`, with s_i = (c_i (n_i - c_i) / n_i + p (1 - p)) / n_i, a case's own variance with one attempt more
that varies like any. On n attempts the interval would never cover less than its level, since attempts of unequal rates vary
less in sum than attempts of one rate; v takes back what that wastes where cases differ much.

Ref: Hoeffding 1956, "On the distribution of the number of successes in independent trials"; Clopper and Pearson 1934, "The
use of confidence or fiducial limits illustrated in the case of the binomial".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from otel_agentic.stats.cluster import pooled_samples
from otel_agentic.stats.frequentist import PerCaseEstimator
from otel_agentic.stats.grouped import GroupedAttempts, GroupedEstimates
from otel_agentic.stats.hierarchical import HierarchicalEstimator
from otel_agentic.stats.interval import bounded, clopper_pearson_bounds
from otel_agentic.stats.pass_k import all_of, any_of
from otel_agentic.stats.weights import row_weights, unequal_weights

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from otel_agentic.stats.model import Attempts, Estimate, Estimates

    FloatArray = npt.NDArray[np.float64]

INTERVAL_METHOD: Final = "clopper_pearson_within_cases"


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetEstimate:
    """pass@k and pass^k of one target for one k, with the name of their estimator."""

    estimator: str
    pass_at_k: Estimate
    pass_pow_k: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class Targets:
    """Estimates by k of the two targets; `new_case` lacks a k for which nothing was estimated.

    Attributes:
        cases: how many cases there are.
        fewest: attempts of the case that has the fewest.
        most: attempts of the case that has the most.
        this_traffic: k conversations, each drawn from these cases in these shares.
        new_case: k attempts of the same new case like these.
    """

    cases: int
    fewest: int
    most: int
    this_traffic: Mapping[int, TargetEstimate]
    new_case: Mapping[int, TargetEstimate]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficEstimator:
    """The observed rate, with an interval about these cases in these shares.

    >>> from otel_agentic.stats.model import Attempts
    >>> halves = Attempts.of((f"case {i}", i < 10) for i in range(20) for _ in range(5))
    >>> found = TrafficEstimator().estimate(halves, [1]).pass_pow_k[1]
    >>> [round(number, 3) for number in (found.lower, found.value, found.upper)]
    [0.455, 0.5, 0.545]
    """

    name: ClassVar[str] = "this_traffic"
    level: float = 0.95

    def estimate(self, attempts: Attempts, k: Sequence[int]) -> Estimates:
        """Return the estimates for each k; undefined without attempts."""
        return self.estimate_groups(GroupedAttempts.of([attempts]), k).of(0)

    def estimate_groups(self, grouped: GroupedAttempts, k: Sequence[int]) -> GroupedEstimates:
        """Return the estimates of every group for each k; NaN without attempts."""
        rate, ks = pooled_samples(grouped).observed, np.asarray(k)
        ends = clopper_pearson_bounds(rate, _attempts_within(grouped, rate), self.level)[:, None, :]
        return GroupedEstimates(
            estimator=self.name,
            level=self.level,
            k=tuple(k),
            interval_methods=[INTERVAL_METHOD] * grouped.size,
            pass_at_k=bounded(any_of(rate[:, None], ks), any_of(ends, ks[:, None])),
            pass_pow_k=bounded(all_of(rate[:, None], ks), all_of(ends, ks[:, None])),
        )


def targets_of(attempts: Attempts, this_traffic: Estimates, estimates: Mapping[str, Estimates]) -> Targets:
    """Return both targets of a group that has attempts.

    Args:
        attempts: of the group.
        this_traffic: by `TrafficEstimator`, for each k.
        estimates: by estimator; `per_case` and `hierarchical` are used where they are there.
    """
    sizes = [case.n for case in attempts.cases]
    traffic = {k: _one(this_traffic, k) for k in this_traffic.pass_pow_k}
    new_case = {}
    for k in traffic:
        name = PerCaseEstimator.name if k <= min(sizes) else HierarchicalEstimator.name
        if name in estimates:
            new_case[k] = _one(estimates[name], k)
    return Targets(cases=len(sizes), fewest=min(sizes), most=max(sizes), this_traffic=traffic, new_case=new_case)


def _attempts_within(grouped: GroupedAttempts, rate: FloatArray) -> FloatArray:
    """Return how many independent attempts would tell as much of the rate of these very cases: (size,)."""
    n, c = grouped.n.astype(np.float64), grouped.c.astype(np.float64)
    own, cases, attempts = grouped.total(np.stack((c * (n - c) / n, np.ones_like(n), n), axis=1)).T
    total, _, squares = grouped.total(row_weights(grouped)).T
    with np.errstate(divide="ignore", invalid="ignore"):  # a group without attempts, or where all pass or fail
        alone = rate * (1.0 - rate)
        worth = np.fmax(attempts, attempts**2 * alone / (own + cases * alone))
        return np.asarray(np.where(unequal_weights(grouped), total * total / squares, worth))


def _one(estimates: Estimates, k: int) -> TargetEstimate:
    return TargetEstimate(
        estimator=estimates.estimator, pass_at_k=estimates.pass_at_k[k], pass_pow_k=estimates.pass_pow_k[k]
    )
