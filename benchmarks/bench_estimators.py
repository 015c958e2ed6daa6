"""Compare exact intervals of many groups with Monte Carlo for the same groups, in one run; measure the cost of a tick and of one group.

Monte Carlo draws 5,000 rates from the Beta posterior of each group. The plain method computes pass@k and pass^k of the draws for
each k and takes quantiles of the results. The frugal method takes quantiles of the rates once and transforms the quantiles, which
is valid because both formulas increase with the rate; it uses the draws for the means only. Neither side merges groups with equal
counts. All times are CPU time.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.cpu_time import median_s, timed
from otel_agentic.config import StatsSettings
from otel_agentic.stats import (
    Attempts,
    BayesianEstimator,
    CaseCount,
    GroupedAttempts,
    PerCaseEstimator,
    PluginEstimator,
    UnbiasedEstimator,
    claim_tiers,
)

if TYPE_CHECKING:
    import numpy.typing as npt

    FloatArray = npt.NDArray[np.float64]
    IntArray = npt.NDArray[np.int64]

GROUPS = 10_000
TICK = 300
CASES = 50
DRAWS = 5_000
K = (1, 3, 5, 10)
TAILS = (0.025, 0.975)
RUNS = 7


def main() -> None:
    """Print rates, ratios and differences."""
    rng = np.random.default_rng(5)
    n = rng.integers(5, 501, GROUPS)
    c = rng.binomial(n, rng.beta(4.0, 1.0, GROUPS))
    grouped = independent(n, c)
    exact = BayesianEstimator().estimate_groups(grouped, K)
    exact_s = _median_s(partial(BayesianEstimator().estimate_groups, grouped, K))
    print(f"{GROUPS:,} groups x {len(K)} k, exact: {exact_s * 1e3:.1f} ms, {GROUPS / exact_s:,.0f} groups/s")
    for name, sample in (("plain", plain), ("frugal", frugal)):
        with timed() as timer:
            sampled = np.stack([sample(rng.beta(1 + c[i], 1 + n[i] - c[i], DRAWS)) for i in range(GROUPS)])
        sampled_s = timer.cpu_s
        rate = f"{sampled_s:.2f} s, {GROUPS / sampled_s:,.0f} groups/s"
        print(f"{name} Monte Carlo of {DRAWS:,} draws: {rate}; exact is {sampled_s / exact_s:.0f}x as fast")
        difference = np.abs(sampled - np.stack((exact.pass_at_k, exact.pass_pow_k), axis=1))
        mean_differences, ends = difference[..., 0], difference[..., 1:]
        print(f"  |difference| of means: {tell(mean_differences)}; of ends: {tell(ends)}")
    for groups in (TICK, 1):
        show_parts(independent(n[:groups], c[:groups]), groups)
    for name, sizes in (("4", np.full((TICK, CASES), 4)), ("1 to 60", np.minimum(rng.zipf(1.7, (TICK, CASES)), 60))):
        print(f"{CASES} cases a group, {name} attempts a case:")
        show_parts(repeated(sizes, rng.binomial(sizes, rng.beta(4.0, 1.0, sizes.shape))), TICK)


def independent(n: IntArray, c: IntArray) -> GroupedAttempts:
    """Return groups of n conversations without repeated cases, c of them correct."""
    kinds = np.stack((n - c, c), axis=1)
    group, correct = np.nonzero(kinds)
    return GroupedAttempts(
        size=len(n), group=group, n=np.ones_like(group), c=correct, cases=np.asarray(kinds[group, correct])
    )


def repeated(n: IntArray, c: IntArray) -> GroupedAttempts:
    """Return groups from arrays (groups, cases) of attempts and correct attempts."""
    groups = [
        Attempts(cases=tuple(CaseCount(case_id=str(case), n=size, c=right) for case, (size, right) in enumerate(rows)))
        for rows in np.stack((n, c), axis=2).tolist()
    ]
    return GroupedAttempts.of(groups)


def plain(rates: FloatArray) -> FloatArray:
    """Return (2, k, 3) for pass@k and pass^k: mean and quantiles of the transformed draws."""
    draws = [[1.0 - (1.0 - rates) ** k for k in K], [rates**k for k in K]]
    return np.array([[(rates_k.mean(), *np.quantile(rates_k, TAILS)) for rates_k in kind] for kind in draws])


def frugal(rates: FloatArray) -> FloatArray:
    """Return the same values, computed from two quantiles of the rates."""
    ends = np.quantile(rates, TAILS)
    at = [((1.0 - (1.0 - rates) ** k).mean(), *(1.0 - (1.0 - ends) ** k)) for k in K]
    return np.array([at, [((rates**k).mean(), *ends**k) for k in K]])


def tell(differences: FloatArray) -> str:
    """Return the mean and the maximum of the differences."""
    return f"{differences.mean():.5f} on average, {differences.max():.5f} at most"


def show_parts(grouped: GroupedAttempts, groups: int) -> None:
    """Print the time of each estimator and of the tiers for a number of groups."""
    settings = StatsSettings()
    print(f"{groups:,} group{'s' * (groups > 1)} x {len(K)} k")
    for estimator in (BayesianEstimator(), PluginEstimator(), UnbiasedEstimator(), PerCaseEstimator()):
        print(f"  {estimator.name:32} {1e3 * _median_s(partial(estimator.estimate_groups, grouped, K)):7.3f} ms")
    for name, work in (
        ("tiers", partial(claim_tiers, grouped, settings, needed=False)),
        ("tiers, how many more are needed", partial(claim_tiers, grouped, settings, needed=True)),
    ):
        print(f"  {name:32} {1e3 * _median_s(work):7.3f} ms")


def _median_s(work: Callable[[], object]) -> float:
    return median_s({"": work}, RUNS)[""]


if __name__ == "__main__":
    main()
