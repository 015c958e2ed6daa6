"""The rate that people would find, from the rate that a judge finds, its sensitivity and its specificity.

p = (q + sp - 1) / (se + sp - 1), with q the share that the judge passes among what nobody labelled. Undefined where
se + sp <= 1: such a judge knows nothing.

Ref: Rogan and Gladen 1978, "Estimating prevalence from the results of a screening test"; Lang and Reiczigel 2014,
"Confidence limits for prevalence of disease adjusted for estimated sensitivity and specificity".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from otel_agentic.stats.design_effect import Repeats, repeats_of
from otel_agentic.stats.interval import quantile
from otel_agentic.stats.model import Estimate
from otel_agentic.stats.prediction_powered import influences_of_judged

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_agentic.stats.agreement import Confusion, VerdictPair
    from otel_agentic.stats.model import CaseKey
    from otel_agentic.stats.prediction_powered import Judged

#: Verdicts added to each class of labels, half of them right (Lang and Reiczigel 2014).
_PLUS: Final = 2.0


def rogan_gladen_rate(q: float, sensitivity: float, specificity: float) -> float | None:
    """Return the rate that people would find where the judge passes a share q; None for a judge that knows nothing.

    It is clipped to [0, 1]: a judge that passes less often than it errs would give a negative rate.

    Ref: Rogan and Gladen 1978, eq. 2.

    >>> round(rogan_gladen_rate(0.8, 0.95, 0.7), 3), rogan_gladen_rate(0.2, 0.95, 0.7), rogan_gladen_rate(0.5, 0.5, 0.5)
    (0.769, 0.0, None)
    """
    youden = sensitivity + specificity - 1.0
    return None if youden <= 0.0 else min(1.0, max(0.0, (q + specificity - 1.0) / youden))


def rogan_gladen(confusion: Confusion, judged: Judged, level: float, repeats: Repeats = Repeats()) -> Estimate:  # noqa: B008 — frozen
    """Return the Rogan-Gladen estimate with its interval, both within [0, 1]; stretched to hold the estimate.

    None where the judge knows nothing, where the labels hold one class only, and where everything is labelled.

    Ref: Lang and Reiczigel 2014, section 2.

    Args:
        confusion: the labels.
        judged: what was not labelled; independent of the labels.
        level: of the interval.
        repeats: how much more the attempts of one case vary.

    >>> from otel_agentic.stats.agreement import Confusion
    >>> from otel_agentic.stats.prediction_powered import Judged
    >>> labels = Confusion(both_pass=70, false_pass=10, false_fail=2, both_fail=18)
    >>> found = rogan_gladen(labels, Judged(n=1000, passed=800), 0.95)
    >>> round(found.value, 3), round(found.lower, 3), round(found.upper, 3)
    (0.72, 0.611, 0.821)
    """
    sensitivity = sensitivity_of(confusion)
    specificity = specificity_of(confusion)
    if sensitivity is None or specificity is None or not judged.n:
        return Estimate.of(None)
    value = rogan_gladen_rate(judged.rate, sensitivity, specificity)
    if value is None:
        return Estimate.of(None)
    lower, upper = _lang_reiczigel(confusion, judged, level, repeats)
    return Estimate(value=value, lower=max(0.0, min(value, lower)), upper=min(1.0, max(value, upper)))


def sensitivity_of(confusion: Confusion) -> float | None:
    """Return the share of what people pass that the judge passes too; None where people pass nothing.

    >>> from otel_agentic.stats.agreement import Confusion
    >>> sensitivity_of(Confusion(both_pass=3, false_pass=0, false_fail=1, both_fail=0))
    0.75
    """
    return _share(confusion.both_pass, confusion.false_fail)


def specificity_of(confusion: Confusion) -> float | None:
    """Return the share of what people fail that the judge fails too; None where people fail nothing.

    >>> from otel_agentic.stats.agreement import Confusion
    >>> specificity_of(Confusion(both_pass=3, false_pass=0, false_fail=1, both_fail=0)) is None
    True
    """
    return _share(confusion.both_fail, confusion.false_pass)


def repeats_of_rogan_gladen(
    pairs: Sequence[VerdictPair], judged: Sequence[tuple[CaseKey, bool]], confusion: Confusion, rest: Judged
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
    return repeats_of([*influences, *influences_of_judged(judged, rest, 1.0)], labelled=[pair.case for pair in pairs])


def _lang_reiczigel(confusion: Confusion, judged: Judged, level: float, repeats: Repeats) -> tuple[float, float]:
    """Return the adjusted limits, not clipped; [0, 1] where so few labels leave even the adjusted judge without knowledge."""
    z = quantile(level)
    few = confusion.scaled(1.0 / repeats.clusters_only)
    passes, fails = few.both_pass + few.false_fail + _PLUS, few.both_fail + few.false_pass + _PLUS
    sensitivity, specificity = (few.both_pass + _PLUS / 2) / passes, (few.both_fail + _PLUS / 2) / fails
    n = judged.n + z * z
    q = (judged.passed + z * z / 2) / n
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


def _share(right: float, wrong: float) -> float | None:
    return right / (right + wrong) if right + wrong else None
