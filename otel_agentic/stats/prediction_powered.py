"""Rates by a judge's many verdicts and people's few: prediction-powered inference, power-tuned (PPI++).

p = lambda q + mean(human - lambda judge): q is the share that the judge passes among what nobody labelled, the mean is over
the labelled. Unbiased at any fixed lambda; 0 is the mean of people's verdicts alone, 1 trusts the judge fully. Lambda is
tuned to the smallest variance: the more a judge agrees with people the more its many verdicts help, and a useless one is
left aside.

The interval is asymptotic: normal, with estimated variances. As published it is too narrow where few labels disagree with
the judge, for an error that no label shows has no variance: with 100 labels of 27 simulated judges 85 to 95 % of nominal
95 % intervals held p. With 1/2 added to each cell of the table of labels, and stretched to hold the estimate, 93 to 97 % do
(docs/calibration.md, tests/stats/test_stats_judge_error.py).

Ref: Angelopoulos, Duchi and Zrnic 2023, "PPI++: Efficient prediction-powered inference" (power tuning of a mean);
Angelopoulos, Bates, Fannjiang, Jordan and Zrnic 2023, "Prediction-powered inference" (lambda = 1).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from otel_agentic.stats.design_effect import Influence, Repeats, repeats_of
from otel_agentic.stats.interval import quantile
from otel_agentic.stats.model import Estimate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_agentic.stats.agreement import Confusion, VerdictPair
    from otel_agentic.stats.model import CaseKey

#: Added to each cell of the table of labels before the interval is made.
_ADDED: Final = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What the judge said of the conversations that nobody labelled: it passed `passed` of `n`."""

    n: float
    passed: float

    @property
    def rate(self) -> float:
        """The share that it passed; 0 without any, where nothing rests on it."""
        return self.passed / self.n if self.n else 0.0


def tuned_power(confusion: Confusion, judged: Judged) -> float:
    """Return the lambda of PPI++ that makes its variance smallest, within [0, 1].

    lambda = cov(human, judge) / ((1 + n / N) var(judge)), n labelled and N not; 0 where the judge always says the same.

    Ref: Angelopoulos, Duchi and Zrnic 2023, power tuning of a mean.

    >>> from otel_agentic.stats.agreement import Confusion
    >>> round(tuned_power(Confusion(both_pass=70, false_pass=10, false_fail=2, both_fail=18), Judged(n=1000, passed=800)), 3)
    0.705
    >>> tuned_power(Confusion(both_pass=5, false_pass=5, false_fail=0, both_fail=0), Judged(n=9, passed=9))
    0.0
    """
    if not judged.n or not confusion.n:
        return 0.0
    rate = (confusion.both_pass + confusion.false_pass + judged.passed) / (confusion.n + judged.n)
    spread = (1.0 + confusion.n / judged.n) * rate * (1.0 - rate)
    return min(1.0, max(0.0, _covariance(confusion) / spread)) if spread > 0.0 else 0.0


def ppi_rate(confusion: Confusion, judged: Judged, power: float) -> float:
    """Return the PPI++ estimate at a lambda, which may lie outside of [0, 1] by a little.

    Ref: Angelopoulos, Duchi and Zrnic 2023, mean estimation.

    >>> from otel_agentic.stats.agreement import Confusion
    >>> labels = Confusion(both_pass=70, false_pass=10, false_fail=2, both_fail=18)
    >>> [round(ppi_rate(labels, Judged(n=1000, passed=700), power), 3) for power in (0.0, 0.5, 1.0)]
    [0.72, 0.67, 0.62]
    """
    judge, human = _margins(confusion)
    return power * judged.rate + human - power * judge


def ppi_variance(confusion: Confusion, judged: Judged, power: float) -> float:
    """Return the estimated variance of the PPI++ estimate at a lambda, independent conversations.

    Ref: Angelopoulos, Duchi and Zrnic 2023, mean estimation: lambda^2 var(judge) / N + var(human - lambda judge) / n.

    >>> from otel_agentic.stats.agreement import Confusion
    >>> labels = Confusion(both_pass=70, false_pass=10, false_fail=2, both_fail=18)
    >>> [round(ppi_variance(labels, Judged(n=1000, passed=800), power), 6) for power in (0.0, 0.705, 1.0)]
    [0.002016, 0.001142, 0.001296]
    """
    judge, human = _margins(confusion)
    rest = human * (1.0 - human) + power**2 * judge * (1.0 - judge) - 2.0 * power * _covariance(confusion)
    many = power**2 * judged.rate * (1.0 - judged.rate) / judged.n if judged.n else 0.0
    return many + max(0.0, rest) / confusion.n


def ppi(confusion: Confusion, judged: Judged, power: float, level: float, repeats: Repeats = Repeats()) -> Estimate:  # noqa: B008 — frozen
    """Return the PPI++ estimate with its interval, clipped to [0, 1]; None without labels.

    The interval is made with 1/2 added to each cell of the labels and stretched to hold the estimate, see above.

    Ref: Angelopoulos, Duchi and Zrnic 2023, mean estimation.

    >>> from otel_agentic.stats.agreement import Confusion
    >>> labels = Confusion(both_pass=70, false_pass=10, false_fail=2, both_fail=18)
    >>> found = ppi(labels, Judged(n=1000, passed=800), 0.705, 0.95)
    >>> round(found.value, 3), round(found.lower, 3), round(found.upper, 3)
    (0.72, 0.653, 0.787)
    """
    if not confusion.n:
        return Estimate.of(None)
    softened = confusion.scaled(1.0 / repeats.clusters_only, _ADDED)
    value, centre = ppi_rate(confusion, judged, power), ppi_rate(softened, judged, power)
    half = quantile(level, repeats.degrees) * (ppi_variance(softened, judged, power) * repeats.effect) ** 0.5
    return Estimate(value=_clip(value), lower=_clip(min(value, centre - half)), upper=_clip(max(value, centre + half)))


def ppi_repeats(
    pairs: Sequence[VerdictPair],
    judged: Sequence[tuple[CaseKey, bool]],
    confusion: Confusion,
    rest: Judged,
    power: float,
) -> Repeats:
    """Return the design effect of the PPI++ estimate."""
    judge, human = _margins(confusion)
    mean = human - power * judge
    influences = [(pair.case, (pair.human - power * pair.judge - mean) / confusion.n) for pair in pairs]
    return repeats_of([*influences, *influences_of_judged(judged, rest, power)], labelled=[pair.case for pair in pairs])


def influences_of_judged(judged: Sequence[tuple[CaseKey, bool]], rest: Judged, power: float) -> list[Influence]:
    """Return what each conversation that only the judge looked at adds to `power` times their mean.

    >>> influences_of_judged([(("", "a"), True), (("", "b"), False)], Judged(n=2, passed=1), 1.0)
    [(('', 'a'), 0.25), (('', 'b'), -0.25)]
    """
    return [(case, power * (passed - rest.rate) / rest.n) for case, passed in judged]


def _margins(confusion: Confusion) -> tuple[float, float]:
    """Return the shares that judge and people pass."""
    judge = (confusion.both_pass + confusion.false_pass) / confusion.n
    return judge, (confusion.both_pass + confusion.false_fail) / confusion.n


def _covariance(confusion: Confusion) -> float:
    judge, human = _margins(confusion)
    return confusion.both_pass / confusion.n - judge * human


def _clip(value: float) -> float:
    return min(1.0, max(0.0, value))
