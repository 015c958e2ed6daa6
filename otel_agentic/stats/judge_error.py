"""Agreement of judges with people, and the pass rate that people would report.

The agreement of a judge with people has several measures: agreement, kappa, sensitivity and specificity, at the current
and at other thresholds. A pass by a person is the positive class: sensitivity is the share of conversations passed by
people that the judge passes too, specificity the share of those failed by people that the judge fails too. Verdicts on
the attempts of one case resemble each other; rates therefore have Wilson's interval on the effective sample size of
`cluster`, as elsewhere in this package.

The interval of kappa is the large-sample one with 1 added to each cell, stretched to contain the estimate. As published
it collapses to a point if both always agree, and its coverage is far too low in samples of the size that people label:
30 to 92 % with 20 labels, at a nominal level of 95 %. With the four additions it is 95 to 98 % (all tables enumerated,
tests/stats/test_stats_agreement.py).

Ref: Cohen 1960, "A coefficient of agreement for nominal scales"; Fleiss, Cohen and Everitt 1969, "Large sample standard
errors of kappa and weighted kappa", eq. 13; Agresti and Coull 1998, "Approximate is better than 'exact' for interval
estimation of binomial proportions" (the additions); Youden 1950, "Index for rating diagnostic tests".

The pass rate that people would report is estimated from a judge's many verdicts and a random sample of human verdicts.
There are two estimators: prediction-powered inference with power tuning (PPI++), and Rogan-Gladen.

PPI++: p = lambda q + mean(human - lambda judge): q is the share that the judge passes among the unlabelled
conversations, the mean is over the labelled ones. The estimate is unbiased for any fixed lambda; with 0 it is the mean
of people's verdicts alone, with 1 it trusts the judge fully. Lambda is tuned to the smallest variance: the more a judge
agrees with people, the more its many verdicts help; a useless judge is ignored.

The interval is asymptotic: normal, with estimated variances. As published it is too narrow if few labels disagree with
the judge, because an error that no label shows has no variance: with 100 labels of 27 simulated judges, 85 to 95 % of
nominal 95 % intervals contained p. With 1/2 added to each cell of the table of labels, and stretched to contain the
estimate, 93 to 97 % do (docs/calibration.md, tests/stats/test_stats_judge_error.py).

Ref: Angelopoulos, Duchi and Zrnic 2023, "PPI++: Efficient prediction-powered inference" (power tuning of a mean);
Angelopoulos, Bates, Fannjiang, Jordan and Zrnic 2023, "Prediction-powered inference" (lambda = 1).

Rogan-Gladen corrects the rate of the judge by its sensitivity and specificity: p = (q + sp - 1) / (se + sp - 1), with q
the share that the judge passes among the unlabelled conversations. It is undefined if se + sp <= 1: such a judge has no
information.

Ref: Rogan and Gladen 1978, "Estimating prevalence from the results of a screening test"; Lang and Reiczigel 2014,
"Confidence limits for prevalence of disease adjusted for estimated sensitivity and specificity".

The errors of a judge bias a rate, no matter how many answers it judges. People's verdicts on a random sample of the
same conversations measure these errors; `rogan_gladen` and `ppi` correct the rate under the assumptions stated above.
With fewer than about 50 labels neither interval is reliable.

Conversations of one case resemble each other. Variances are multiplied by the design effect of the estimate (see
`cluster`); quantiles are then Student's t, by the number of cases.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from otel_agentic.stats.cluster import EffectiveSample, Influence, Repeats, design, pooled_sample, repeats_of
from otel_agentic.stats.estimators import INTERVAL_METHODS
from otel_agentic.stats.model import Attempts, CaseKey, Estimate
from otel_agentic.stats.rates import quantile, wilson

#: Added to each of the four cells before the interval of kappa is computed.
_ADDED_FOR_KAPPA: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictPair:
    """The verdicts of a judge and a person on the same conversation or turn, True for a pass.

    `case` identifies repetitions, see `Attempts`.
    """

    judge: bool
    human: bool
    case: str | CaseKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Confusion:
    """Counts of verdict pairs: `false_pass` if the judge passes and people fail, `false_fail` for the reverse."""

    both_pass: float
    false_pass: float
    false_fail: float
    both_fail: float

    @property
    def n(self) -> float:
        """The number of pairs."""
        return self.both_pass + self.false_pass + self.false_fail + self.both_fail

    def scaled(self, factor: float, added: float = 0.0) -> Confusion:
        """Return the counts times a factor, with `added` added to each.

        >>> Confusion(both_pass=4, false_pass=0, false_fail=2, both_fail=2).scaled(0.5, 1.0).n
        8.0
        """
        return Confusion(
            both_pass=self.both_pass * factor + added,
            false_pass=self.false_pass * factor + added,
            false_fail=self.false_fail * factor + added,
            both_fail=self.both_fail * factor + added,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """Agreement of judge and people.

    A rate without data is undefined (None), never 0; so is kappa without both classes.
    """

    confusion: Confusion
    interval_method: str
    level: float
    agreement: Estimate
    kappa: Estimate
    sensitivity: Estimate
    specificity: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePoint:
    """The effect of a threshold: a score at or above it passes. None if people gave no verdict of that class."""

    threshold: float
    agreement: float
    sensitivity: float | None
    specificity: float | None

    @property
    def youden(self) -> float | None:
        """Sensitivity + specificity - 1: 1 for a perfect judge, 0 for one that tosses a coin."""
        if self.sensitivity is None or self.specificity is None:
            return None
        return self.sensitivity + self.specificity - 1.0


def confusion_of(pairs: Iterable[VerdictPair]) -> Confusion:
    """Return the counts of verdict pairs.

    >>> confusion_of([VerdictPair(judge=True, human=False, case="a")]).false_pass
    1
    """
    verdicts = [(pair.judge, pair.human) for pair in pairs]
    return Confusion(
        both_pass=verdicts.count((True, True)),
        false_pass=verdicts.count((True, False)),
        false_fail=verdicts.count((False, True)),
        both_fail=verdicts.count((False, False)),
    )


def agreement_of(pairs: Sequence[VerdictPair], level: float) -> Agreement:
    """Return the agreement of judge and people, with intervals at a level.

    >>> pairs = [VerdictPair(judge=i < 8, human=i != 0, case=str(i)) for i in range(10)]
    >>> found = agreement_of(pairs, 0.95)
    >>> round(found.agreement.value, 3), round(found.sensitivity.value, 3), found.specificity.value
    (0.7, 0.778, 0.0)
    """
    agreeing = Attempts.of((pair.case, pair.judge == pair.human) for pair in pairs)
    sample = pooled_sample(agreeing)
    confusion = confusion_of(pairs)
    return Agreement(
        confusion=confusion,
        interval_method=INTERVAL_METHODS[design(agreeing)],
        level=level,
        agreement=pooled_rate(agreeing, level),
        kappa=Estimate.of(None) if sample is None else _kappa_estimate(confusion, sample, level),
        sensitivity=pooled_rate(Attempts.of((pair.case, pair.judge) for pair in pairs if pair.human), level),
        specificity=pooled_rate(Attempts.of((pair.case, not pair.judge) for pair in pairs if not pair.human), level),
    )


def kappa(confusion: Confusion) -> float | None:
    """Return Cohen's kappa, agreement beyond chance: 1 is perfect, 0 is chance. None if both always give the same verdict.

    >>> round(kappa(Confusion(both_pass=20, false_pass=5, false_fail=10, both_fail=15)), 3)
    0.4
    >>> kappa(Confusion(both_pass=20, false_pass=0, false_fail=0, both_fail=0)) is None
    True
    """
    if not confusion.n:
        return None
    by_chance = _by_chance(confusion)
    agreed = (confusion.both_pass + confusion.both_fail) / confusion.n
    return (agreed - by_chance) / (1.0 - by_chance) if by_chance < 1.0 else None


def kappa_standard_error(confusion: Confusion) -> float:
    """Return the large-sample standard error of kappa; both classes must occur in the table.

    Ref: Fleiss, Cohen and Everitt 1969, eq. 13.

    >>> round(kappa_standard_error(Confusion(both_pass=20, false_pass=5, false_fail=10, both_fail=15)), 3)
    0.127
    """
    n, missed = confusion.n, 1.0 - (kappa(confusion) or 0.0)
    judge, human = _margins(confusion)
    by_chance = _by_chance(confusion)
    agreeing = (confusion.both_pass / n) * (1.0 - (judge + human) * missed) ** 2
    agreeing += (confusion.both_fail / n) * (1.0 - (2.0 - judge - human) * missed) ** 2
    differing = (confusion.false_pass / n) * (human + 1.0 - judge) ** 2
    differing += (confusion.false_fail / n) * (judge + 1.0 - human) ** 2
    spread = agreeing + missed**2 * differing - (1.0 - missed - by_chance * missed) ** 2
    return float((max(spread, 0.0) / n) ** 0.5 / (1.0 - by_chance))


def threshold_curve(scored: Iterable[tuple[float, bool]], also: Iterable[float] = ()) -> list[CurvePoint]:
    """Return the effect of each distinct score as the threshold, ascending; the lowest passes everything.

    Args:
        scored: a judge's score in [0, 1] and the person's verdict, True for a pass.
        also: further thresholds to include.

    >>> [(point.threshold, point.agreement) for point in threshold_curve([(0.2, False), (0.6, False), (0.9, True)])]
    [(0.2, 0.3333333333333333), (0.6, 0.6666666666666666), (0.9, 1.0)]
    """
    scores = list(scored)
    passes = sum(human for _, human in scores)
    if not scores:
        return []
    return [_point(threshold, scores, passes) for threshold in sorted({*also, *(score for score, _ in scores)})]


def best_threshold(curve: Iterable[CurvePoint], current: float) -> CurvePoint | None:
    """Return the point with the highest Youden index; among equal ones, the nearest to the current threshold.

    None if no point has one, because people gave verdicts of one class only. The threshold is chosen and measured on
    the same labels, so it will perform worse on others.

    >>> best_threshold(threshold_curve([(0.2, False), (0.6, False), (0.9, True)]), 0.7).threshold
    0.9
    """
    rated = [(point.youden, point) for point in curve if point.youden is not None]
    if not rated:
        return None
    return max(rated, key=lambda item: (item[0], -abs(item[1].threshold - current), -item[1].threshold))[1]


def _point(threshold: float, scores: Sequence[tuple[float, bool]], passes: int) -> CurvePoint:
    fails = len(scores) - passes
    true_passes = sum(human and score >= threshold for score, human in scores)
    true_fails = sum(not human and score < threshold for score, human in scores)
    return CurvePoint(
        threshold=threshold,
        agreement=(true_passes + true_fails) / len(scores),
        sensitivity=true_passes / passes if passes else None,
        specificity=true_fails / fails if fails else None,
    )


def pooled_rate(attempts: Attempts, level: float) -> Estimate:
    """Return the pooled pass rate with its Wilson interval on the effective attempts; None without attempts.

    >>> round(pooled_rate(Attempts.of((str(number), number < 8) for number in range(10)), 0.95).lower, 3)
    0.49
    """
    sample = pooled_sample(attempts)
    if sample is None:
        return Estimate.of(None)
    lower, upper = wilson(sample.p, sample.n, quantile(level, sample.degrees))
    value = sample.observed
    return Estimate(value=value, lower=min(lower, value), upper=max(upper, value))


def _kappa_estimate(confusion: Confusion, sample: EffectiveSample, level: float) -> Estimate:
    """Return kappa with its interval, based on the effective number of independent pairs."""
    value = kappa(confusion)
    if value is None:
        return Estimate.of(None)
    softened = confusion.scaled(sample.n / confusion.n, _ADDED_FOR_KAPPA)
    centre, half = kappa(softened) or 0.0, quantile(level, sample.degrees) * kappa_standard_error(softened)
    return Estimate(value=value, lower=max(-1.0, min(value, centre - half)), upper=min(1.0, max(value, centre + half)))


def _margins(confusion: Confusion) -> tuple[float, float]:
    """Return the pass rates of judge and people."""
    judge = (confusion.both_pass + confusion.false_pass) / confusion.n
    return judge, (confusion.both_pass + confusion.false_fail) / confusion.n


def _by_chance(confusion: Confusion) -> float:
    judge, human = _margins(confusion)
    return judge * human + (1.0 - judge) * (1.0 - human)


#: Added to each cell of the table of labels before the interval is computed.
_ADDED_FOR_PPI: Final = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Unlabelled:
    """The judge's verdicts on the unlabelled conversations: it passed `passed` of `n`."""

    n: float
    passed: float

    @property
    def rate(self) -> float:
        """The share that it passed; 0 without conversations, in which case it has no effect."""
        return self.passed / self.n if self.n else 0.0


def tuned_power(confusion: Confusion, unlabelled: Unlabelled) -> float:
    """Return the lambda of PPI++ with the smallest variance, within [0, 1].

    lambda = cov(human, judge) / ((1 + n / N) var(judge)), n labelled and N unlabelled; 0 if the judge always gives the
    same verdict.

    Ref: Angelopoulos, Duchi and Zrnic 2023, power tuning of a mean.

    >>> from otel_agentic.stats.judge_error import Confusion
    >>> round(tuned_power(Confusion(both_pass=70, false_pass=10, false_fail=2, both_fail=18), Unlabelled(n=1000, passed=800)), 3)
    0.705
    >>> tuned_power(Confusion(both_pass=5, false_pass=5, false_fail=0, both_fail=0), Unlabelled(n=9, passed=9))
    0.0
    """
    if not unlabelled.n or not confusion.n:
        return 0.0
    rate = (confusion.both_pass + confusion.false_pass + unlabelled.passed) / (confusion.n + unlabelled.n)
    spread = (1.0 + confusion.n / unlabelled.n) * rate * (1.0 - rate)
    return min(1.0, max(0.0, _covariance(confusion) / spread)) if spread > 0.0 else 0.0


def ppi_rate(confusion: Confusion, unlabelled: Unlabelled, power: float) -> float:
    """Return the PPI++ estimate at a lambda, which may be slightly outside of [0, 1].

    Ref: Angelopoulos, Duchi and Zrnic 2023, mean estimation.

    >>> from otel_agentic.stats.judge_error import Confusion
    >>> labels = Confusion(both_pass=70, false_pass=10, false_fail=2, both_fail=18)
    >>> [round(ppi_rate(labels, Unlabelled(n=1000, passed=700), power), 3) for power in (0.0, 0.5, 1.0)]
    [0.72, 0.67, 0.62]
    """
    judge, human = _margins(confusion)
    return power * unlabelled.rate + human - power * judge


def ppi_variance(confusion: Confusion, unlabelled: Unlabelled, power: float) -> float:
    """Return the estimated variance of the PPI++ estimate at a lambda, for independent conversations.

    Ref: Angelopoulos, Duchi and Zrnic 2023, mean estimation: lambda^2 var(judge) / N + var(human - lambda judge) / n.

    >>> from otel_agentic.stats.judge_error import Confusion
    >>> labels = Confusion(both_pass=70, false_pass=10, false_fail=2, both_fail=18)
    >>> [round(ppi_variance(labels, Unlabelled(n=1000, passed=800), power), 6) for power in (0.0, 0.705, 1.0)]
    [0.002016, 0.001142, 0.001296]
    """
    judge, human = _margins(confusion)
    label_variance = human * (1.0 - human) + power**2 * judge * (1.0 - judge) - 2.0 * power * _covariance(confusion)
    judge_variance = power**2 * unlabelled.rate * (1.0 - unlabelled.rate) / unlabelled.n if unlabelled.n else 0.0
    return judge_variance + max(0.0, label_variance) / confusion.n


def ppi(
    confusion: Confusion,
    unlabelled: Unlabelled,
    power: float,
    level: float,
    repeats: Repeats = Repeats(),  # noqa: B008 — frozen
) -> Estimate:
    """Return the PPI++ estimate with its interval, clipped to [0, 1]; None without labels.

    The interval is computed with 1/2 added to each cell of the labels, and stretched to contain the estimate.

    Ref: Angelopoulos, Duchi and Zrnic 2023, mean estimation.

    >>> from otel_agentic.stats.judge_error import Confusion
    >>> labels = Confusion(both_pass=70, false_pass=10, false_fail=2, both_fail=18)
    >>> found = ppi(labels, Unlabelled(n=1000, passed=800), 0.705, 0.95)
    >>> round(found.value, 3), round(found.lower, 3), round(found.upper, 3)
    (0.72, 0.653, 0.787)
    """
    if not confusion.n:
        return Estimate.of(None)
    softened = confusion.scaled(1.0 / repeats.clusters_only, _ADDED_FOR_PPI)
    value, centre = ppi_rate(confusion, unlabelled, power), ppi_rate(softened, unlabelled, power)
    half = quantile(level, repeats.degrees) * (ppi_variance(softened, unlabelled, power) * repeats.effect) ** 0.5
    return Estimate(value=_clip(value), lower=_clip(min(value, centre - half)), upper=_clip(max(value, centre + half)))


def ppi_repeats(
    pairs: Sequence[VerdictPair],
    unlabelled: Sequence[tuple[CaseKey, bool]],
    confusion: Confusion,
    rest: Unlabelled,
    power: float,
) -> Repeats:
    """Return the design effect of the PPI++ estimate."""
    judge, human = _margins(confusion)
    mean = human - power * judge
    influences = [(pair.case, (pair.human - power * pair.judge - mean) / confusion.n) for pair in pairs]
    return repeats_of(
        [*influences, *influences_of_judged(unlabelled, rest, power)], labelled=[pair.case for pair in pairs]
    )


def influences_of_judged(unlabelled: Sequence[tuple[CaseKey, bool]], rest: Unlabelled, power: float) -> list[Influence]:
    """Return the influence of each conversation that only the judge evaluated on `power` times their mean.

    >>> influences_of_judged([(("", "a"), True), (("", "b"), False)], Unlabelled(n=2, passed=1), 1.0)
    [(('', 'a'), 0.25), (('', 'b'), -0.25)]
    """
    return [(case, power * (passed - rest.rate) / rest.n) for case, passed in unlabelled]


def _covariance(confusion: Confusion) -> float:
    judge, human = _margins(confusion)
    return confusion.both_pass / confusion.n - judge * human


def _clip(value: float) -> float:
    return min(1.0, max(0.0, value))


#: Verdicts added to each class of labels, half of them correct (Lang and Reiczigel 2014).
_PLUS: Final = 2.0


def rogan_gladen_rate(q: float, sensitivity: float, specificity: float) -> float | None:
    """Return the rate that people would report if the judge passes a share q; None if the judge has no information.

    It is clipped to [0, 1]: a judge that passes less often than it errs would give a negative rate.

    Ref: Rogan and Gladen 1978, eq. 2.

    >>> round(rogan_gladen_rate(0.8, 0.95, 0.7), 3), rogan_gladen_rate(0.2, 0.95, 0.7), rogan_gladen_rate(0.5, 0.5, 0.5)
    (0.769, 0.0, None)
    """
    youden = sensitivity + specificity - 1.0
    return None if youden <= 0.0 else min(1.0, max(0.0, (q + specificity - 1.0) / youden))


def rogan_gladen(confusion: Confusion, unlabelled: Unlabelled, level: float, repeats: Repeats = Repeats()) -> Estimate:  # noqa: B008 — frozen
    """Return the Rogan-Gladen estimate with its interval, both within [0, 1]; stretched to contain the estimate.

    None if the judge has no information, if the labels are of one class only, or if everything is labelled.

    Ref: Lang and Reiczigel 2014, section 2.

    Args:
        confusion: the labels.
        unlabelled: the unlabelled conversations; independent of the labels.
        level: level of the interval.
        repeats: the effect of repeated cases on the variance.

    >>> from otel_agentic.stats.judge_error import Confusion
    >>> from otel_agentic.stats.judge_error import Unlabelled
    >>> labels = Confusion(both_pass=70, false_pass=10, false_fail=2, both_fail=18)
    >>> found = rogan_gladen(labels, Unlabelled(n=1000, passed=800), 0.95)
    >>> round(found.value, 3), round(found.lower, 3), round(found.upper, 3)
    (0.72, 0.611, 0.821)
    """
    sensitivity = sensitivity_of(confusion)
    specificity = specificity_of(confusion)
    if sensitivity is None or specificity is None or not unlabelled.n:
        return Estimate.of(None)
    value = rogan_gladen_rate(unlabelled.rate, sensitivity, specificity)
    if value is None:
        return Estimate.of(None)
    lower, upper = _lang_reiczigel(confusion, unlabelled, level, repeats)
    return Estimate(value=value, lower=max(0.0, min(value, lower)), upper=min(1.0, max(value, upper)))


def sensitivity_of(confusion: Confusion) -> float | None:
    """Return the share of passes by people that the judge passes too; None if people pass nothing.

    >>> from otel_agentic.stats.judge_error import Confusion
    >>> sensitivity_of(Confusion(both_pass=3, false_pass=0, false_fail=1, both_fail=0))
    0.75
    """
    return _share(confusion.both_pass, confusion.false_fail)


def specificity_of(confusion: Confusion) -> float | None:
    """Return the share of fails by people that the judge fails too; None if people fail nothing.

    >>> from otel_agentic.stats.judge_error import Confusion
    >>> specificity_of(Confusion(both_pass=3, false_pass=0, false_fail=1, both_fail=0)) is None
    True
    """
    return _share(confusion.both_fail, confusion.false_pass)


def repeats_of_rogan_gladen(
    pairs: Sequence[VerdictPair], unlabelled: Sequence[tuple[CaseKey, bool]], confusion: Confusion, rest: Unlabelled
) -> Repeats:
    """Return the design effect of (q + sp - 1) / (se + sp - 1), linearised."""
    passes, fails = confusion.both_pass + confusion.false_fail, confusion.both_fail + confusion.false_pass
    if not passes or not fails or not rest.n:
        return Repeats()
    sensitivity, specificity = confusion.both_pass / passes, confusion.both_fail / fails
    p = rogan_gladen_rate(rest.rate, sensitivity, specificity)
    if p is None:
        return Repeats()
    influences = [(pair.case, -p * (pair.judge - sensitivity) / passes) for pair in pairs if pair.human]
    influences += [
        (pair.case, (1.0 - p) * (1.0 - pair.judge - specificity) / fails) for pair in pairs if not pair.human
    ]
    return repeats_of(
        [*influences, *influences_of_judged(unlabelled, rest, 1.0)], labelled=[pair.case for pair in pairs]
    )


def _lang_reiczigel(
    confusion: Confusion, unlabelled: Unlabelled, level: float, repeats: Repeats
) -> tuple[float, float]:
    """Return the adjusted limits, not clipped; [0, 1] if even the adjusted rates of the judge are uninformative."""
    z = quantile(level)
    independent = confusion.scaled(1.0 / repeats.clusters_only)
    passes, fails = (
        independent.both_pass + independent.false_fail + _PLUS,
        independent.both_fail + independent.false_pass + _PLUS,
    )
    sensitivity, specificity = (independent.both_pass + _PLUS / 2) / passes, (independent.both_fail + _PLUS / 2) / fails
    n = unlabelled.n + z * z
    q = (unlabelled.passed + z * z / 2) / n
    youden = sensitivity + specificity - 1.0
    if youden <= 0.0:
        return 0.0, 1.0
    p = (q + specificity - 1.0) / youden
    of_passes = p * sensitivity * (1.0 - sensitivity) / passes
    of_fails = (1.0 - p) * specificity * (1.0 - specificity) / fails
    spread = (q * (1.0 - q) / n + p * of_passes + (1.0 - p) * of_fails) ** 0.5 / youden
    centre = p + 2.0 * z * z * (of_passes - of_fails)
    half = quantile(level, repeats.degrees) * spread * repeats.effect**0.5
    return centre - half, centre + half


def _share(right: float, other: float) -> float | None:
    return right / (right + other) if right + other else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Corrected:
    """A pass rate according to the judge, according to the labels alone, and corrected.

    `n_human` conversations are labelled, `n_judge` were evaluated by the judge only. Undefined values are None, never
    0. `sensitivity` and `specificity` are those of the labels. `power` is the lambda of PPI++.
    """

    level: float
    n_human: int
    n_judge: int
    raw: Estimate
    human: Estimate
    sensitivity: float | None
    specificity: float | None
    rogan_gladen: Estimate
    ppi: Estimate
    power: float


def corrected(pairs: Sequence[VerdictPair], unlabelled: Sequence[tuple[CaseKey, bool]], level: float) -> Corrected:
    """Return the pass rate of conversations, corrected for the judge's errors in both ways.

    Args:
        pairs: the labelled conversations, a random sample of all; at least one.
        unlabelled: the case of each other conversation, and whether the judge passed it.
        level: level of the intervals.

    >>> from otel_agentic.stats.judge_error import VerdictPair
    >>> verdicts = [(True, True)] * 70 + [(True, False)] * 10 + [(False, True)] * 2 + [(False, False)] * 18
    >>> pairs = [VerdictPair(judge=j, human=h, case=str(i)) for i, (j, h) in enumerate(verdicts)]
    >>> found = corrected(pairs, [(("", f"other {i}"), i < 800) for i in range(1000)], 0.95)
    >>> [round(one.value, 3) for one in (found.raw, found.human, found.rogan_gladen, found.ppi)]
    [0.8, 0.72, 0.72, 0.72]
    """
    confusion = confusion_of(pairs)
    rest = Unlabelled(n=len(unlabelled), passed=sum(passed for _, passed in unlabelled))
    power = tuned_power(confusion, rest)
    judge_verdicts = [*((pair.case, pair.judge) for pair in pairs), *unlabelled]
    return Corrected(
        level=level,
        n_human=len(pairs),
        n_judge=len(unlabelled),
        raw=pooled_rate(Attempts.of(judge_verdicts), level),
        human=pooled_rate(Attempts.of((pair.case, pair.human) for pair in pairs), level),
        sensitivity=sensitivity_of(confusion),
        specificity=specificity_of(confusion),
        rogan_gladen=rogan_gladen(confusion, rest, level, repeats_of_rogan_gladen(pairs, unlabelled, confusion, rest)),
        ppi=ppi(confusion, rest, power, level, ppi_repeats(pairs, unlabelled, confusion, rest, power)),
        power=power,
    )
