"""The pass rate that people would report of all conversations, from the verdicts of people on a random sample of them.

Conversations without a case have no computed correctness, but they have metrics: calls, errors, repetitions, how they ended.
A cross-fitted regression of people's verdicts on these metrics predicts the verdict of every conversation, and
prediction-powered inference with power tuning (PPI++) combines the predictions with the verdicts:

    p = mean(verdict) + lambda (1 - n / N) (mean prediction of the unlabelled - mean prediction of the labelled)

for n labelled of N conversations. A wrong prediction costs width, never validity: its error is measured on the labels.

**Prediction.** Metrics are replaced by their standardised ranks over all N conversations (a missing value counts as average),
so that no unit and no outlier matters. Ridge regression has a fixed penalty of `9 d` for d metrics: that of a prior by
which all of them together explain a tenth of the variance of a verdict. Few labels are therefore shrunk strongly. A labelled
conversation is predicted by a model that was fitted without it and without the other attempts of its case (20 folds); an
unlabelled one by the mean of these models. Without cross-fitting the errors on the labels would be too small, and the
interval too narrow.

**Power.** lambda = cov(verdict, prediction) / var(prediction), within [0, 1]: 0 if the predictions have no information, which
leaves the rate of the labels alone.

**Interval.** Wilson's, on the effective number of labels. Let r be the share of the variance p (1 - p) that lambda times the
prediction leaves over, at most 1, so that the interval is never wider than that of labels alone at the same rate. The
effective number of labels is

- `n / (r (1 - n / N))` for the rate of exactly these N conversations (finite population: only the unlabelled ones are
  uncertain),
- `1 / (r (1 / n - 1 / N) + 1 / N)` for the rate of the traffic that they are a sample of, divided by the design effect if
  attempts of one case occur several times, with Student's quantile (see `cluster`).

r is measured on the cross-fitted residuals, with one degree of freedom for lambda, and with half a pass and half a fail added
at the lowest and at the highest prediction, as `judge_error` does in each cell of its table: an error that no label shows must
not have the variance 0.

pass^k of conversations that are drawn from this traffic is p^k, and pass@k is 1 - (1 - p)^k; both are monotone in p, so that
their bounds are those of p. Repetitions of one case have no such formula.

Ref: Angelopoulos, Duchi and Zrnic 2023, "PPI++: Efficient prediction-powered inference"; Zrnic and Candes 2024,
"Cross-prediction-powered inference" (cross-fitting); Cochran 1977, "Sampling Techniques", section 7.1 (regression estimator,
finite population) and 12.2 (two-phase sampling); Hoerl and Kennard 1970, "Ridge regression".
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from otel_agentic.stats.cluster import repeats_of
from otel_agentic.stats.judge_error import pooled_rate
from otel_agentic.stats.model import Attempts, CaseKey, Estimate
from otel_agentic.stats.rates import quantile, wilson

if TYPE_CHECKING:
    import numpy.typing as npt

    from otel_agentic.stats.cluster import Repeats

    FloatArray = npt.NDArray[np.float64]
    IntArray = npt.NDArray[np.int64]
    BoolArray = npt.NDArray[np.bool_]

#: Penalty of the ridge for each metric: (1 - R^2) / R^2 for a prior R^2 of a tenth.
_PENALTY: Final = 9.0
#: The largest number of models; each is fitted without one fold.
_FOLDS: Final = 20
#: The weight of a pass and of a fail that are added at the lowest and at the highest prediction.
_ADDED: Final = 0.5
#: A metric is used if at least this share of the labelled, and of the unlabelled conversations have it.
_KNOWN: Final = 0.5
#: Columns whose correlation is closer to 1 or -1 are the same.
_COPY: Final = 1e-9
#: A variance up to this value is rounding.
_NO_VARIANCE: Final = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LabelledTraffic:
    """Conversations, some of which people labelled.

    Attributes:
        cases: the case of each conversation; attempts of one case are correlated.
        metrics: (N, d) values, NaN where unknown.
        labelled: indices of the labelled conversations, a random sample of all.
        passed: verdict on each of them, in the same order.
    """

    cases: Sequence[CaseKey]
    metrics: FloatArray
    labelled: IntArray
    passed: BoolArray

    @property
    def unlabelled(self) -> IntArray:
        """The indices of the other conversations."""
        return np.setdiff1d(np.arange(len(self.cases)), self.labelled)


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelCorrected:
    """A pass rate by labels alone, and corrected.

    Attributes:
        labels: number of labelled conversations.
        conversations: number of all conversations.
        people_here, here: the rate of exactly these conversations, by the labels alone and corrected.
        people, traffic: the rate of the traffic that they are a sample of, likewise.
        power: lambda of PPI++.
        correlation: correlation of the cross-fitted prediction with the verdicts; None if one of them does not vary.
        used: the columns of the metrics that predict.
    """

    labels: int
    conversations: int
    people_here: Estimate
    here: Estimate
    people: Estimate
    traffic: Estimate
    power: float
    correlation: float | None
    used: tuple[int, ...]


def corrected_by_labels(data: LabelledTraffic, level: float) -> LabelCorrected:
    """Return the pass rate that people would report of all conversations, with intervals.

    Raises:
        ValueError: nothing is labelled.

    >>> calls = np.arange(100.0)[:, None]
    >>> labelled = np.arange(0, 100, 4)
    >>> data = LabelledTraffic(
    ...     cases=[("", str(i)) for i in range(100)], metrics=calls, labelled=labelled, passed=labelled < 60
    ... )
    >>> result = corrected_by_labels(data, 0.95)
    >>> [round(bound, 2) for bound in (result.people_here.lower, result.people_here.upper)]
    [0.43, 0.75]
    >>> [round(bound, 2) for bound in (result.here.lower, result.here.upper)]
    [0.47, 0.69]
    """
    n, size = len(data.labelled), len(data.cases)
    if not n:
        raise ValueError("a correction needs labels")
    used = _usable(data)
    columns = _standardised(data.metrics[:, used])
    distinct = _distinct(columns)
    verdicts = data.passed.astype(np.float64)
    predictions = _predictions(data, columns[:, distinct], verdicts)
    own, others = predictions[data.labelled], predictions[data.unlabelled]
    unseen = 1.0 - n / size
    power = _power(verdicts, own)
    shift = others.mean() - own.mean() if len(others) else 0.0
    value = float(np.clip(verdicts.mean() + power * unseen * shift, 0.0, 1.0))
    left = _left_over(verdicts, own, power, value)
    repeats = _repeats(data, verdicts - power * own, power * unseen * others)
    rate = float(verdicts.mean())
    traffic_n = 1.0 / (left * (1.0 / n - 1.0 / size) + 1.0 / size) / repeats.effect
    return LabelCorrected(
        labels=n,
        conversations=size,
        people_here=_interval(rate, n / unseen if unseen else None, quantile(level)),
        here=_interval(value, n / (left * unseen) if unseen else None, quantile(level)),
        people=pooled_rate(
            Attempts.of((data.cases[i], bool(passed)) for i, passed in zip(data.labelled, data.passed, strict=True)),
            level,
        ),
        traffic=_interval(
            value,
            traffic_n / repeats.clusters_only,
            quantile(level, repeats.degrees),
        ),
        power=power,
        correlation=correlation(verdicts, own),
        used=tuple(int(used[column]) for column in distinct),
    )


def powers(rate: Estimate, k: Sequence[int], *, at_least_one: bool = False) -> dict[int, Estimate]:
    """Return pass^k, or pass@k with `at_least_one`, of k conversations drawn from traffic with a pass rate.

    >>> half = Estimate(value=0.5, lower=0.4, upper=0.6)
    >>> powers(half, [2])[2].value, powers(half, [2], at_least_one=True)[2].value
    (0.25, 0.75)
    """

    def of(value: float | None, count: int) -> float | None:
        if value is None:
            return None
        return float(1.0 - (1.0 - value) ** count if at_least_one else value**count)

    return {
        count: Estimate(value=of(rate.value, count), lower=of(rate.lower, count), upper=of(rate.upper, count))
        for count in k
    }


def correlation(a: npt.ArrayLike, b: npt.ArrayLike) -> float | None:
    """Return Pearson's correlation; None with fewer than two pairs, or if one side does not vary.

    >>> correlation([1.0, 2.0], [2.0, 1.0]), correlation([1.0, 1.0], [2.0, 1.0])
    (-1.0, None)
    """
    x, y = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if x.size < 2 or min(x.var(), y.var()) <= _NO_VARIANCE:  # noqa: PLR2004 — a pair
        return None
    return float(np.clip(np.mean((x - x.mean()) * (y - y.mean())) / (x.std() * y.std()), -1.0, 1.0))


def _usable(data: LabelledTraffic) -> IntArray:
    """Return the columns that vary, and that enough conversations have.

    A metric that only labelled conversations have would separate them from the others, which are then no comparison.
    """
    known = ~np.isnan(data.metrics)
    parts = [part for part in (data.labelled, data.unlabelled) if len(part)]
    enough = np.all([known[part].mean(axis=0) >= _KNOWN for part in parts], axis=0)
    varies = [
        len(np.unique(column[known_here])) > 1 for column, known_here in zip(data.metrics.T, known.T, strict=True)
    ]
    return np.flatnonzero(enough & np.array(varies, dtype=bool))


def _standardised(metrics: FloatArray) -> FloatArray:
    """Return the ranks of each column with mean 0 and variance 1; 0 where the value is unknown."""
    scaled = np.zeros_like(metrics)
    for column, values in enumerate(metrics.T):
        known = ~np.isnan(values)
        _, index, counts = np.unique(values[known], return_inverse=True, return_counts=True)
        ranks = (np.cumsum(counts) - counts / 2.0)[index]
        scaled[known, column] = (ranks - ranks.mean()) / ranks.std()
    return scaled


def _distinct(columns: FloatArray) -> list[int]:
    """Return the columns that are no copy of an earlier one, such as the shares of two labels that add up to 1."""
    equal = np.abs(columns.T @ columns) >= (1.0 - _COPY) * np.sqrt(np.outer(*[(columns**2).sum(axis=0)] * 2))
    return [column for column in range(columns.shape[1]) if not equal[column, :column].any()]


def _predictions(data: LabelledTraffic, columns: FloatArray, verdicts: FloatArray) -> FloatArray:
    """Return the cross-fitted prediction of each conversation, without an intercept: (N,)."""
    folds = _folds([data.cases[index] for index in data.labelled])
    own = columns[data.labelled]
    models = np.zeros((folds.max() + 1, columns.shape[1]))
    if len(models) > 1:
        for fold in range(len(models)):
            models[fold] = _ridge(own[folds != fold], verdicts[folds != fold])
    predictions = columns @ models.mean(axis=0)
    predictions[data.labelled] = np.einsum("ij,ij->i", own, models[folds])
    return np.asarray(predictions, dtype=np.float64)


def _folds(cases: Sequence[Hashable]) -> IntArray:
    """Return the fold of each conversation: attempts of one case share it."""
    numbers = {case: number for number, case in enumerate(dict.fromkeys(cases))}
    return np.array([numbers[case] % _FOLDS for case in cases], dtype=np.int64)


def _ridge(columns: FloatArray, verdicts: FloatArray) -> FloatArray:
    """Return the coefficients of a ridge regression, whose intercept is not penalised."""
    centred = columns - columns.mean(axis=0)
    width = columns.shape[1]
    gram = centred.T @ centred + _PENALTY * width * np.eye(width)
    return np.asarray(np.linalg.solve(gram, centred.T @ (verdicts - verdicts.mean())), dtype=np.float64)


def _power(verdicts: FloatArray, predictions: FloatArray) -> float:
    spread = float(predictions.var())
    if spread <= _NO_VARIANCE:
        return 0.0
    return float(np.clip(np.mean((verdicts - verdicts.mean()) * (predictions - predictions.mean())) / spread, 0.0, 1.0))


def _left_over(verdicts: FloatArray, predictions: FloatArray, power: float, value: float) -> float:
    """Return the variance that predictions leave over as a share of that of a rate, 1 if they have no information."""
    n, spread = len(verdicts), value * (1.0 - value)
    if not power or spread <= _NO_VARIANCE or n < 3:  # noqa: PLR2004 — a mean, a slope and a rest
        return 1.0
    fitted = verdicts.mean() + power * (predictions - predictions.mean())
    ends = np.array([fitted.min(), fitted.max()])
    added = _ADDED * float((ends**2 + (1.0 - ends) ** 2).sum())
    squares = float(((verdicts - fitted) ** 2).sum()) * n / (n - 2.0)
    return min(1.0, (squares + added) / (n + 4.0 * _ADDED) / spread)


def _repeats(data: LabelledTraffic, residuals: FloatArray, others: FloatArray) -> Repeats:
    """Return the design effect of the estimate by the influences of all conversations."""
    labelled = [data.cases[index] for index in data.labelled]
    influences = [
        (case, float(value))
        for case, value in zip(labelled, (residuals - residuals.mean()) / len(residuals), strict=True)
    ]
    if len(others):
        rest = (data.cases[index] for index in data.unlabelled)
        influences += [
            (case, float(value)) for case, value in zip(rest, (others - others.mean()) / len(others), strict=True)
        ]
    return repeats_of(influences, labelled=labelled)


def _interval(value: float, effective_n: float | None, z: float) -> Estimate:
    """Return a rate with Wilson's interval; a point if everything is labelled."""
    if effective_n is None:
        return Estimate(value=value, lower=value, upper=value)
    lower, upper = wilson(value, effective_n, z)
    return Estimate(value=value, lower=min(lower, value), upper=max(upper, value))
