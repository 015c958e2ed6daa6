"""Attempts of one case are correlated: design effects, effective sample sizes, and the cluster bootstrap.

A design effect states how much more an estimate varies because conversations of one case resemble each other. An
estimate that is a smooth function of means varies like the sum of its influences, one per conversation. Summed by case
before squaring, they give the cluster-robust variance; squared one by one, the plain variance. Their ratio is the
design effect.

Ref: Kish 1965, "Survey Sampling", section 8.2 (design effect); Binder 1983, "On the variances of asymptotically normal
estimators from complex surveys" (linearisation).

The effective sample size accounts for attempts of one case that resemble each other: n of them carry less information
than n cases.

The interval of a rate is about new cases like those observed: cases are drawn from a population, and the interval
covers the mean success rate of that population. The rule for K cases, of which some have more than one attempt:

- A case with n_i attempts and the rate x_i weighs `n_i / (1 + rho (n_i - 1))`, the inverse of the variance of x_i where rho
  is the correlation of two attempts of a case (estimated by analysis of variance, see `_correlation`). w_i are these weights
  with the sum 1, and `p = sum w_i x_i`: the rate c / n if all cases have equally many attempts. A case with most of the
  traffic does not have most of the weight, since many attempts of one case give little information about other cases.
- `v = sum w_i^2 (x_i - p)^2 / (1 - w_i)` is the cluster-robust variance of p, bias-reduced (CR2), with
  `1 / (sum w_i^2 + (sum a_i)^2 - sum a_i^2)` Satterthwaite degrees of freedom, `a_i = w_i^2 / (1 - w_i)`. If all cases
  have equally many attempts, that is the usual variance of a mean over cases, with K - 1 degrees.
- If few cases contain the failures (or the successes), v is unreliable: populations with cases that fail occasionally
  and with cases that always fail look the same until one of the latter is drawn. v is therefore mixed with the largest
  possible variance, `p (1 - p) sum w^2`, that of cases which always pass or always fail: see `_evidence`. The same
  share moves rho towards 1. Without this, 95 % intervals of 50 cases of 20 attempts had a measured coverage of .85.
- `n_eff = min(n, p (1 - p) / v)`, and `1 / sum w_i^2`, the effective number of cases, where v is 0 or p is 0 or 1.
- Quantiles are Student's t with the degrees of v divided by the part that v has in the mixture: an assumed value instead of
  an estimated one takes no degrees of freedom.

With one attempt per case the interval is the plain one: n attempts, normal quantile. So it is with a single case: there
is no variance between cases to measure, its attempts are independent repetitions, and the interval is about that case
alone (the name of the method contains `one_case`).

With attempts of unequal weight (see `model`), n_i and c_i become sums of weights, n becomes Kish's
`(sum w)^2 / sum w^2`, and rho is 0, so the weight of a case is that of its attempts. With one attempt per case, n_eff
is the smaller of Kish's and `p (1 - p) / v`, v being `sum w^2 (correct - p)^2 / (sum w)^2`: heavy attempts may be the
ones that fail.

Ref: Bell and McCaffrey 2002, "Bias reduction in standard errors for linear regression with multi-stage samples" (CR2 and its
degrees of freedom); Donner 1986, "A review of inference procedures for the intraclass correlation coefficient in the one-way
random effects model"; Kleinman 1973, "Proportions with extraneous variance: single and independent samples" (weights);
Korn and Graubard 1998, "Confidence intervals for proportions with small expected number of positive counts estimated from
survey data"; Dean and Pagano 2015, "Evaluating Confidence Interval Methods for Binomial Proportions in Clustered Surveys";
Kish 1965, "Survey Sampling".

The cluster bootstrap draws cases with replacement, keeps their attempts, and takes the bounds from the quantiles of the
points of the resamples. It assumes that cases are independent, but nothing about their rates, and works for any
estimator. It has two limitations:

- If resampling changes nothing (one case, all cases equal, everything passed), it collapses to a point, see
  `collapsed`; a report must then warn, because zero width is not certainty.
- With few cases it is too narrow: cases that are not in the sample are in no resample either. docs/statistics.md has
  the measured coverage next to that of the effective sample size, which is the default for that reason.

The draws are seeded by the counts themselves: the same counts give the same bounds, on one numpy version.

Ref: Efron 1979, "Bootstrap methods: another look at the jackknife" (percentile interval: Efron and Tibshirani 1993, "An
Introduction to the Bootstrap", section 13.3); cases as the units: Davison and Hinkley 1997, "Bootstrap Methods and their
Application", section 3.8.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, Literal, get_args

import numpy as np

from otel_agentic.errors import UsageError
from otel_agentic.stats.model import GroupedAttempts, estimate_groups, row_weights, unequal_weights

if TYPE_CHECKING:
    import numpy.typing as npt

    from otel_agentic.stats.model import Attempts, CaseKey, Estimate, Estimates, Estimator

    FloatArray = npt.NDArray[np.float64]
    IntArray = npt.NDArray[np.int64]
    BoolArray = npt.NDArray[np.bool_]

#: The case of a conversation, and its contribution to the estimate's deviation from its expectation.
Influence = tuple["str | CaseKey", float]
#: Sums of squares below this are rounding.
_NOTHING = 1e-18


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeats:
    """The effect of repeated cases on an estimate; by default, no case is repeated.

    `effect`, 1 or more, multiplies variances. `degrees` are the degrees of freedom of the t quantile, None for the
    normal one. `clusters_only` is the number of labelled conversations per case if the data have no variance: each case
    then counts once.
    """

    effect: float = 1.0
    degrees: float | None = None
    clusters_only: float = 1.0


def repeats_of(influences: Sequence[Influence], labelled: Sequence[str | CaseKey]) -> Repeats:
    """Return the design effect of an estimate; no effect if each case occurs once, or only one case occurs.

    Args:
        influences: the influences of all conversations.
        labelled: the cases of the conversations that people labelled.

    >>> repeats_of([("a", 1.0), ("a", 1.0), ("b", -1.0), ("b", -1.0)], ["a", "b"])
    Repeats(effect=4.0, degrees=1.0, clusters_only=1.0)
    >>> repeats_of([("a", 1.0), ("b", -1.0)], ["a", "b"])
    Repeats(effect=1.0, degrees=None, clusters_only=1.0)
    """
    cases: dict[str | CaseKey, float] = defaultdict(float)
    for case, value in influences:
        cases[case] += value
    count = len(cases)
    if count in {1, len(influences)}:
        return Repeats()
    plain = sum(value * value for _, value in influences)
    if plain <= _NOTHING:
        return Repeats(degrees=count - 1.0, clusters_only=len(labelled) / len(Counter(labelled)))
    robust = count / (count - 1) * sum(value * value for value in cases.values())
    return Repeats(effect=max(1.0, robust / plain), degrees=count - 1.0)


Design = Literal["independent", "one_case", "clustered"]
DESIGNS: Final[tuple[Design, ...]] = get_args(Design)
_INDEPENDENT, _ONE_CASE, _CLUSTERED = range(3)
#: A variance up to this value counts as 0: rates of cases that differ by less than 1e-12 differ by rounding only.
_NO_VARIANCE: Final = 1e-24
#: A mean square or a sum of squares up to this value is rounding.
_ROUNDING: Final = 1e-13
#: Variances whose ratio is closer to 1 are equal: otherwise the unit of the weights would decide which one is larger.
_EQUAL_VARIANCES: Final = 1e-9
#: Number of cases assumed if a single case fails, chosen by simulation: `python -m benchmarks.coverage_study unequal`.
_CASES_ASSUMED: Final = 1.25


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectiveSample:
    """A rate and its effective number of independent attempts.

    Attributes:
        p: the rate that the interval is about: the mean over cases, weighted as described above.
        n: the effective number of independent attempts.
        observed: the pooled rate, correct attempts / attempts; equal to p where all cases have equally many attempts.
        degrees: degrees of freedom of the t quantile, None for the normal one.
    """

    p: float
    n: float
    observed: float
    degrees: float | None = None

    @property
    def c(self) -> float:
        """The number of correct effective attempts."""
        return self.p * self.n


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EffectiveSamples:
    """An `EffectiveSample` for each of many groups, as arrays of one shape.

    Attributes:
        p: the rate that the interval is about; NaN in a group without attempts.
        n: the effective number of independent attempts; NaN likewise.
        observed: the pooled rate; NaN likewise.
        attempts: the attempts observed, which `n` never exceeds; NaN likewise.
        degrees: degrees of freedom of the t quantile, NaN for the normal one.
    """

    p: FloatArray
    n: FloatArray
    observed: FloatArray
    attempts: FloatArray
    degrees: FloatArray

    def of(self, group: int) -> EffectiveSample | None:
        """Return the sample of one group, or None if it has no attempts."""
        p, n, observed, degrees = (float(item[group]) for item in (self.p, self.n, self.observed, self.degrees))
        if np.isnan(n):
            return None
        return EffectiveSample(p=p, n=n, observed=observed, degrees=None if np.isnan(degrees) else degrees)

    def scaled(self, factor: FloatArray | float) -> EffectiveSamples:
        """Return the samples that `factor` times as many conversations, equal in rate and composition, would give.

        >>> one = EffectiveSamples(
        ...     p=np.array([0.5]),
        ...     n=np.array([10.0]),
        ...     observed=np.array([0.5]),
        ...     attempts=np.array([15.0]),
        ...     degrees=np.array([4.0]),
        ... )
        >>> one.scaled(2.0).of(0)
        EffectiveSample(p=0.5, n=20.0, observed=0.5, degrees=9.0)
        """
        degrees = (self.degrees + 1.0) * factor - 1.0
        return replace(self, n=self.n * factor, attempts=self.attempts * factor, degrees=degrees)

    def where(self, groups: IntArray) -> EffectiveSamples:
        """Return the samples of the selected groups."""
        return EffectiveSamples(
            p=self.p[groups],
            n=self.n[groups],
            observed=self.observed[groups],
            attempts=self.attempts[groups],
            degrees=self.degrees[groups],
        )


def design(attempts: Attempts) -> Design:
    """Return the rule of the module docstring that applies.

    >>> from otel_agentic.stats.model import Attempts
    >>> design(Attempts.of([("a", True), ("a", False), ("b", True)]))
    'clustered'
    """
    return DESIGNS[int(designs(GroupedAttempts.of([attempts]))[0])]


def designs(grouped: GroupedAttempts) -> IntArray:
    """Return the rule of the module docstring that applies to each group: (size,) indices into `DESIGNS`.

    >>> from otel_agentic.stats.model import Attempts
    >>> once, often = Attempts.of([("a", True), ("b", True)]), Attempts.of([("a", True), ("a", True)])
    >>> [DESIGNS[each] for each in designs(GroupedAttempts.of([Attempts(), once, often]))]
    ['independent', 'independent', 'one_case']
    """
    repeated = grouped.total(grouped.n > 1) > 0
    several = np.where(grouped.total(np.ones_like(grouped.n)) == 1, _ONE_CASE, _CLUSTERED)
    return np.where(repeated, several, _INDEPENDENT)


def methods(grouped: GroupedAttempts, names: Mapping[Design, str]) -> list[str]:
    """Return the name of the interval method of each group, from the names by design.

    >>> from otel_agentic.stats.model import Attempts
    >>> names = {"independent": "wilson", "one_case": "wilson_one_case", "clustered": "wilson_effective_n"}
    >>> methods(GroupedAttempts.of([Attempts.of([("a", True), ("a", True)])]), names)
    ['wilson_one_case']
    """
    by_index = [names[design_name] for design_name in DESIGNS]
    return [by_index[index] for index in designs(grouped).tolist()]


def pooled_sample(attempts: Attempts) -> EffectiveSample | None:
    """Return the pooled rate with its effective sample size; None without attempts.

    >>> from otel_agentic.stats.model import Attempts
    >>> both_ways = [(case, case == "a" or case == "b") for case in "abcd" for _ in range(5)]
    >>> pooled_sample(Attempts.of(both_ways))
    EffectiveSample(p=0.5, n=3.0, observed=0.5, degrees=3.0)
    """
    return pooled_samples(GroupedAttempts.of([attempts])).of(0)


def pooled_samples(grouped: GroupedAttempts) -> EffectiveSamples:
    """Return the pooled rate of each group with its effective sample size; NaN without attempts.

    >>> from otel_agentic.stats.model import Attempts
    >>> light = [(f"case {i}", True) for i in range(10)]
    >>> sample = pooled_samples(GroupedAttempts.of([Attempts.of([*light, ("heavy", False, 5.0)])])).of(0)
    >>> round(sample.p, 3), round(sample.n, 2)  # Kish's would be 225 / 35 = 6.43
    (0.667, 4.09)
    """
    weights, unequal = row_weights(grouped), unequal_weights(grouped)
    total, correct, squares = grouped.total(weights).T
    with np.errstate(divide="ignore", invalid="ignore"):  # a group without attempts: 0 / 0, which is NaN
        observed, kish_n = correct / total, total * total / squares
    n = kish_n
    if unequal.any():
        residuals = weights[:, 1] * total[grouped.group] - weights[:, 0] * correct[grouped.group]
        with np.errstate(divide="ignore", invalid="ignore"):
            variance = grouped.total(residuals**2) / total**4
        n = np.where(unequal, effective_n(observed, variance, attempts=kish_n, fallback=kish_n), kish_n)
    attempts = np.where(np.isnan(observed), np.nan, grouped.total(grouped.n))
    samples = EffectiveSamples(
        p=observed, n=n, observed=observed, attempts=attempts, degrees=np.full(grouped.size, np.nan)
    )
    clustered = designs(grouped) == _CLUSTERED
    if not clustered.any():
        return samples
    means = _means(grouped.where(clustered[grouped.group]), weights[clustered[grouped.group]], unequal)
    return replace(
        samples,
        p=np.where(clustered, means.p, observed),
        n=np.where(clustered, np.minimum(means.n, kish_n), n),
        degrees=np.where(clustered, means.degrees, np.nan),
    )


def mean_samples(grouped: GroupedAttempts, values: FloatArray, *, traffic_weighted: bool = False) -> EffectiveSamples:
    """Return the mean over cases of estimates in [0, 1], by column, with its effective sample size.

    Args:
        grouped: the counts; results are valid only for groups of two or more cases, some of them with more than one
            attempt.
        values: (rows, columns) estimates per case.
        traffic_weighted: whether a case is weighted by its attempts instead of counting once.

    Returns:
        Arrays of (size, columns).

    >>> from otel_agentic.stats.model import Attempts
    >>> grouped = GroupedAttempts.of([Attempts.of([(case, case in "ab") for case in "abcd" for _ in range(4)])])
    >>> mean_samples(grouped, np.array([[0.0], [1.0]])).n.tolist()
    [[3.0]]
    """
    total, _, squares = row_weights(grouped).T
    share = _shares(grouped, total if traffic_weighted else np.ones_like(total))
    means = _Means.of(grouped, share, values)
    with np.errstate(divide="ignore", invalid="ignore"):  # a group without attempts
        kish_n = grouped.total(total) ** 2 / grouped.total(squares)
    attempts = np.broadcast_to(grouped.total(grouped.n)[:, None], means.p.shape)
    return EffectiveSamples(
        p=means.p, n=np.minimum(means.n, kish_n[:, None]), observed=means.p, attempts=attempts, degrees=means.degrees
    )


def effective_n(
    p: npt.ArrayLike, variance: npt.ArrayLike, *, attempts: npt.ArrayLike, fallback: npt.ArrayLike
) -> FloatArray:
    """Return the number of independent attempts that would give the same variance, elementwise.

    Args:
        p: the rate.
        variance: its variance.
        attempts: the upper limit of the result.
        fallback: the result if there is no variance, or the rate is 0 or 1.

    >>> effective_n([0.5, 1.0], [0.25 / 30, 0.0], attempts=40, fallback=10).tolist()
    [30.0, 10.0]
    """
    rate, spread = np.asarray(p, dtype=np.float64), np.asarray(variance, dtype=np.float64)
    undefined = (spread <= _NO_VARIANCE) | (rate <= 0.0) | (rate >= 1.0)
    equivalent_n = rate * (1.0 - rate) / np.where(undefined, 1.0, spread)
    return np.asarray(np.minimum(attempts, np.where(undefined, fallback, equivalent_n)), dtype=np.float64)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Means:
    """Means over cases with their effective sample sizes: (size, columns) each; NaN for a group that is not clustered.

    Attributes:
        p: the means.
        n: the effective numbers of independent attempts.
        degrees: degrees of freedom of the t quantile, NaN for the normal one.
    """

    p: FloatArray
    n: FloatArray
    degrees: FloatArray

    @classmethod
    def of(cls, grouped: GroupedAttempts, share: FloatArray, values: FloatArray) -> _Means:
        """Return the means of values in [0, 1], (rows, columns), over cases weighted by their shares, (rows,)."""
        with np.errstate(divide="ignore", invalid="ignore"):  # a group without cases, or with a single one
            ratio = share**2 / (1.0 - share)
            squares, added, added_squares = grouped.total(np.stack((share**2, ratio, ratio**2), axis=1)).T[:, :, None]
            moments = _moments(grouped, share, values)
            mean = np.where(squares > 0.0, np.clip(moments[0], 0.0, 1.0), np.nan)
            robust = grouped.total(ratio[:, None] * (values - mean[grouped.group]) ** 2)
            largest = mean * (1.0 - mean) * squares
            evidence = np.where(robust < largest * (1.0 - _EQUAL_VARIANCES), _evidence(*moments, squares), 1.0)
            estimated = evidence * robust
            variance = estimated + (1.0 - evidence) * largest
            degrees = variance / estimated / (squares + added**2 - added_squares)
            n = effective_n(mean, variance, attempts=np.inf, fallback=1.0 / squares)
        return cls(p=mean, n=n, degrees=np.where(estimated > _NO_VARIANCE, degrees, np.nan))


def _means(grouped: GroupedAttempts, weights: FloatArray, unequal: BoolArray) -> _Means:
    """Return the mean success rate over cases, weighted as described above: (size,) each.

    Args:
        grouped: the rows of clustered groups.
        weights: (rows, 3) see `row_weights`.
        unequal: (size,) whether the attempts of a group weigh unequally.
    """
    total, correct, _ = weights.T
    rates = (correct / total)[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):  # a group that is not clustered has no rows here
        rho = np.where(unequal, 0.0, _correlation(grouped))
        first = _shares(grouped, total / (1.0 + rho[grouped.group] * (total - 1.0)))
        known = _evidence(*_moments(grouped, first, rates), grouped.total(first**2)[:, None])
        evidence = np.where(unequal, 1.0, known[:, 0])
        rho = evidence * rho + 1.0 - evidence
        share = _shares(grouped, total / (1.0 + rho[grouped.group] * (total - 1.0)))
    means = _Means.of(grouped, share, rates)
    return _Means(p=means.p[:, 0], n=means.n[:, 0], degrees=means.degrees[:, 0])


def _shares(grouped: GroupedAttempts, weights: FloatArray) -> FloatArray:
    """Return the share of each case in its group: (rows,)."""
    return np.asarray(weights / grouped.total(weights)[grouped.group])


def _correlation(grouped: GroupedAttempts) -> FloatArray:
    """Return the correlation of two attempts of one case in each group, within [0, 1]: (size,).

    The estimate by analysis of variance; 1 where there is no variance at all.
    """
    n, c = grouped.n.astype(np.float64), grouped.c.astype(np.float64)
    columns = np.stack((n, c, n * n, c * c / n, np.ones_like(n)), axis=1)
    attempts, correct, squares, explained, cases = grouped.total(columns).T
    between = (explained - correct * correct / attempts) / (cases - 1.0)
    within = (correct - explained) / (attempts - cases)
    size = (attempts - squares / attempts) / (cases - 1.0)
    spread = between + (size - 1.0) * within
    return np.asarray(np.where(spread > _ROUNDING, np.clip((between - within) / spread, 0.0, 1.0), 1.0))


def _moments(grouped: GroupedAttempts, share: FloatArray, values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the mean and the mean square of values over cases: (size, columns) each."""
    weighted = share[:, None] * values
    means = grouped.total(np.concatenate((weighted, weighted * values), axis=1))
    return means[:, : values.shape[1]], means[:, values.shape[1] :]


def _evidence(mean: FloatArray, square: FloatArray, squares: FloatArray) -> FloatArray:
    """Return the share of the variance between cases that is estimated from the data, elementwise; the rest is assumed.

    Failures are spread over the share `u = (sum w y)^2 / sum w y^2` of the cases, y being the failure rate of a case,
    which are `f = u / sum w^2` cases. The same holds for successes, and the smaller u counts. If they are spread over
    half of the cases, all variance is estimated from the data; with fewer, as if 1.25 (1 - 2 u) further cases that
    always pass or always fail had been observed: the result is `f / (f + 1.25 max(0, 1 - 2 u))`. It is 0 if everything
    passes.

    Args:
        mean: mean of the success rates.
        square: mean of their squares.
        squares: `sum w^2`.
    """
    failing, both_failing = 1.0 - mean, 1.0 - 2.0 * mean + square
    ratios = [
        np.where(low > _ROUNDING, moment * moment / np.where(low > _ROUNDING, low, 1.0), 0.0)
        for moment, low in ((mean, square), (failing, both_failing))
    ]
    spread = np.minimum(*ratios)
    with np.errstate(divide="ignore", invalid="ignore"):
        cases = spread / squares
        return np.asarray(cases / (cases + _CASES_ASSUMED * np.maximum(0.0, 1.0 - 2.0 * spread)))


#: The name of bootstrap bounds in `Estimates.interval_method`.
INTERVAL_METHOD: Final = "cluster_bootstrap"
#: Default number of resamples: the 2.5 % quantile is then based on 50 of them.
RESAMPLES: Final = 2_000
#: An interval narrower than this has collapsed: the remaining width is rounding.
_NO_WIDTH: Final = 1e-9


def with_bootstrap(
    estimator: Estimator, attempts: Attempts, k: Sequence[int], *, resamples: int = RESAMPLES
) -> Estimates:
    """Return the estimates of an estimator with cluster bootstrap bounds at its level; the points do not change.

    Bounds are the percentiles of the points of the resamples in which the estimator is defined, stretched to contain
    the point. Undefined values remain undefined.

    Args:
        estimator: any estimator.
        attempts: the attempts of one group.
        k: the k, ascending.
        resamples: number of resamples, 1 or more.

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
    estimates = estimator.estimate(attempts, k)
    if attempts.cases:
        drawn = estimate_groups(estimator, _resampled(GroupedAttempts.of([attempts]), resamples), k)
        indices = range(len(k))
        pass_at = {
            k[index]: _with_bounds(estimates.pass_at_k[k[index]], drawn.pass_at_k[:, index, 0], estimates)
            for index in indices
        }
        pass_pow = {
            k[index]: _with_bounds(estimates.pass_pow_k[k[index]], drawn.pass_pow_k[:, index, 0], estimates)
            for index in indices
        }
        estimates = replace(estimates, pass_at_k=pass_at, pass_pow_k=pass_pow)
    return replace(estimates, interval_method=INTERVAL_METHOD)


def collapsed(estimates: Estimates) -> bool:
    """Return whether an interval has no width: resampling changed nothing, so its bounds are meaningless.

    >>> from otel_agentic.stats import Attempts, PluginEstimator
    >>> collapsed(with_bootstrap(PluginEstimator(), Attempts.of([("a", True), ("b", True)]), [1, 3]))
    True
    """
    every = (*estimates.pass_at_k.values(), *estimates.pass_pow_k.values())
    return any(
        bound.upper - bound.lower < _NO_WIDTH for bound in every if bound.lower is not None and bound.upper is not None
    )


def _resampled(group: GroupedAttempts, resamples: int) -> GroupedAttempts:
    """Return a group for each resample, with as many cases as the original group."""
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


def _with_bounds(point: Estimate, drawn: FloatArray, estimates: Estimates) -> Estimate:
    if point.value is None:
        return point
    defined = drawn[~np.isnan(drawn)]
    tail = (1.0 - estimates.level) / 2.0
    ends = np.quantile(defined, [tail, 1.0 - tail]) if len(defined) else np.full(2, point.value)
    return replace(point, lower=min(float(ends[0]), point.value), upper=max(float(ends[1]), point.value))
