"""What a judged pass rate would be if people had judged: corrections by a random sample of people's verdicts.

A judge that errs makes a rate wrong by as much as it errs, however many answers it judges. People's verdicts on a random
sample of the same conversations tell how it errs. There are two corrections, `rogan_gladen` and `prediction_powered`; the
pages of both tell what they assume. Below some 50 labels neither interval is to be relied on.

Conversations of one case resemble each other. Variances are multiplied by the design effect of the very estimate (see
`design_effect`); quantiles are then Student's t on the number of cases.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from otel_agentic.stats.agreement import confusion_of, pooled_rate
from otel_agentic.stats.model import Attempts
from otel_agentic.stats.prediction_powered import Judged, ppi, ppi_repeats, tuned_power
from otel_agentic.stats.rogan_gladen import repeats_of_rogan_gladen, rogan_gladen, sensitivity_of, specificity_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_agentic.stats.agreement import VerdictPair
    from otel_agentic.stats.model import CaseKey, Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class Corrected:
    """A pass rate as the judge has it, as the labels alone have it, and corrected.

    `n_human` labelled conversations, `n_judge` that only the judge looked at. What is undefined is None, never 0.
    `sensitivity` and `specificity` are those of the labels. `power` is the lambda of PPI++.
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


def corrected(pairs: Sequence[VerdictPair], judged: Sequence[tuple[CaseKey, bool]], level: float) -> Corrected:
    """Return the pass rate of some conversations, corrected for the judge's errors in both ways.

    Args:
        pairs: the labelled ones, a random sample of all; at least one.
        judged: the other ones: the case, and whether the judge passed it.
        level: of the intervals.

    >>> from otel_agentic.stats.agreement import VerdictPair
    >>> said = [(True, True)] * 70 + [(True, False)] * 10 + [(False, True)] * 2 + [(False, False)] * 18
    >>> pairs = [VerdictPair(judge=j, human=h, case=str(i)) for i, (j, h) in enumerate(said)]
    >>> found = corrected(pairs, [(("", f"other {i}"), i < 800) for i in range(1000)], 0.95)
    >>> [round(one.value, 3) for one in (found.raw, found.human, found.rogan_gladen, found.ppi)]
    [0.8, 0.72, 0.72, 0.72]
    """
    confusion = confusion_of(pairs)
    rest = Judged(n=len(judged), passed=sum(passed for _, passed in judged))
    power = tuned_power(confusion, rest)
    every = [*((pair.case, pair.judge) for pair in pairs), *judged]
    return Corrected(
        level=level,
        n_human=len(pairs),
        n_judge=len(judged),
        raw=pooled_rate(Attempts.of(every), level),
        human=pooled_rate(Attempts.of((pair.case, pair.human) for pair in pairs), level),
        sensitivity=sensitivity_of(confusion),
        specificity=specificity_of(confusion),
        rogan_gladen=rogan_gladen(confusion, rest, level, repeats_of_rogan_gladen(pairs, judged, confusion, rest)),
        ppi=ppi(confusion, rest, power, level, ppi_repeats(pairs, judged, confusion, rest, power)),
        power=power,
    )
