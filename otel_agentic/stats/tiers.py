"""Deployment tiers: claimed when the interval supports the claim, or read off the published tables.

The default rule, `interval`, looks at pass@1 and pass@3 of the statistical mode's pooled estimator and at the 95 %
interval [L, U] of its pass^3; the first line that holds is the tier.

| tier | when |
|---|---|
| ready | L > .70 and pass@1 > .90 |
| not_ready | upper(pass@1) < .70 |
| inconsistent | U < .70 and pass@3 > .95: it can, but not reliably |
| needs_improvement | U < .70, or upper(pass@1) <= .90 |
| insufficient_evidence | otherwise, with the tier it leans to and the conversations that would settle it |

`paper` and `docs` are the published tables, which look at points only (see `paper_tier` and `docs_tier`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from otel_agentic.stats.choose import mode_estimator
from otel_agentic.stats.cluster import pooled_sample

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_agentic.config import StatsSettings
    from otel_agentic.stats.bayesian import BayesianEstimator
    from otel_agentic.stats.cluster import EffectiveSample
    from otel_agentic.stats.frequentist import PluginEstimator
    from otel_agentic.stats.interval import Bounded
    from otel_agentic.stats.model import Attempts, Tier

#: Level of the intervals behind a claim, whatever level the report shows: a tier means the same in every report.
CLAIM_LEVEL: Final = 0.95
#: Beyond this many more conversations, "how many more" is no advice.
MOST_NEEDED: Final = 100_000

#: The thresholds of the rule and of the tables.
HIGH_PASS_AT_1: Final = 0.90
LOW_PASS_AT_1: Final = 0.70
HIGH_PASS_AT_3: Final = 0.95
LOW_PASS_AT_3: Final = 0.70
HIGH_PASS_POW_3: Final = 0.70
LOW_PASS_POW_3: Final = 0.50


@dataclass(frozen=True, slots=True, kw_only=True)
class TierClaim:
    """A tier and, where the evidence does not suffice, what it leans to and how many more conversations settle it.

    `leaning` is given with `insufficient_evidence` only. `needed` is 0 where the interval rule claims a tier, and None
    where it is above 100,000, or unknown: without attempts, or by a table that asks for no evidence.
    """

    tier: Tier
    leaning: Tier | None
    needed: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Evidence:
    """What a tier is judged by."""

    pass_at_1: Bounded
    pass_at_3: Bounded
    pass_pow_3: Bounded


def claim_tier(attempts: Attempts, settings: StatsSettings) -> TierClaim:
    """Return the tier of a group by the rule and the statistical mode of the settings.

    >>> from otel_agentic.config import StatsSettings
    >>> from otel_agentic.stats.model import Attempts
    >>> claim_tier(Attempts.of((f"case {i}", True) for i in range(20)), StatsSettings())
    TierClaim(tier='insufficient_evidence', leaning='ready', needed=11)
    """
    sample = pooled_sample(attempts)
    if sample is None:
        return TierClaim(tier="insufficient_evidence", leaning=None, needed=None)
    estimator = mode_estimator(settings, level=CLAIM_LEVEL)
    evidence = _evidence(sample, estimator)
    if settings.tier_rule != "interval":
        return TierClaim(tier=_published(evidence, docs=settings.tier_rule == "docs"), leaning=None, needed=None)
    tier = _interval_tier(evidence)
    if tier != "insufficient_evidence":
        return TierClaim(tier=tier, leaning=None, needed=0)

    def settles(more: int) -> bool:
        grown = sample.scaled((attempts.n + more) / attempts.n)
        return _interval_tier(_evidence(grown, estimator)) != "insufficient_evidence"

    return TierClaim(tier=tier, leaning=_published(evidence, docs=False), needed=smallest_that(settles, MOST_NEEDED))


def paper_tier(pass_at_1: float, pass_pow_3: float) -> Tier:
    """Return the tier of two points by the paper's table, as printed.

    | pass@1 | pass^3 | tier |
    |---|---|---|
    | > .90 | > .70 | ready ("production-ready") |
    | > .90 | .30 to .70 | inconsistent ("functional but inconsistent") |
    | .70 to .90 | any | needs_improvement |
    | < .70 | any | not_ready |

    The second row cannot be reached by one agent's rates, since pass^3 >= 1 - 3 (1 - pass@1) > .70; below .30, where
    the table has no row at all, the nearest one is taken.

    Ref: Fritz and Fiorenza 2026, "Agentic Evaluation Metric", table 1.

    >>> paper_tier(0.95, 0.86), paper_tier(0.90, 0.73), paper_tier(0.667, 0.296)
    ('ready', 'needs_improvement', 'not_ready')
    """
    if pass_at_1 > HIGH_PASS_AT_1:
        return "ready" if pass_pow_3 > HIGH_PASS_POW_3 else "inconsistent"
    return "needs_improvement" if pass_at_1 >= LOW_PASS_AT_1 else "not_ready"


def docs_tier(pass_at_3: float, pass_pow_3: float) -> Tier:
    """Return the tier of two points by the table of the library's documentation, as printed, at its k of 3.

    | pass@K | pass^K | tier |
    |---|---|---|
    | > .95 | > .70 | ready ("reliable") |
    | > .95 | < .50 | inconsistent |
    | < .70 | any | needs_improvement |

    The table leaves gaps (pass@3 of .97 with pass^3 of .60, or pass@3 of .80): there it is `insufficient_evidence`,
    for want of a row and not of data.

    Ref: Fair Forge documentation, "Agentic Metric", quality assessment.

    >>> docs_tier(0.99, 0.80), docs_tier(0.97, 0.33), docs_tier(0.97, 0.60), docs_tier(0.66, 0.03)
    ('ready', 'inconsistent', 'insufficient_evidence', 'needs_improvement')
    """
    if pass_at_3 < LOW_PASS_AT_3:
        return "needs_improvement"
    if pass_at_3 > HIGH_PASS_AT_3 and pass_pow_3 > HIGH_PASS_POW_3:
        return "ready"
    if pass_at_3 > HIGH_PASS_AT_3 and pass_pow_3 < LOW_PASS_POW_3:
        return "inconsistent"
    return "insufficient_evidence"


def smallest_that(holds: Callable[[int], bool], most: int) -> int | None:
    """Return the smallest number from 1 to `most` where a condition holds, None where it holds nowhere.

    It doubles until the condition holds, then bisects: some 2 log2(most) calls. The condition must keep holding once
    it holds, as a tier does at a fixed rate, where intervals only shrink; were it to lapse in between, the answer
    would still be a number where it holds while it does not just below.

    >>> smallest_that(lambda number: number >= 37, 100), smallest_that(lambda number: number > 100, 100)
    (37, None)
    """
    below, above = 0, 1
    while not holds(above):
        if above == most:
            return None
        below, above = above, min(2 * above, most)
    while above - below > 1:
        middle = (below + above) // 2
        below, above = (below, middle) if holds(middle) else (middle, above)
    return above


def _evidence(sample: EffectiveSample, estimator: BayesianEstimator | PluginEstimator) -> _Evidence:
    return _Evidence(
        pass_at_1=estimator.pass_at(sample, 1),
        pass_at_3=estimator.pass_at(sample, 3),
        pass_pow_3=estimator.pass_pow(sample, 3),
    )


def _interval_tier(evidence: _Evidence) -> Tier:
    one, pow_3 = evidence.pass_at_1, evidence.pass_pow_3
    if pow_3.lower > HIGH_PASS_POW_3 and one.value > HIGH_PASS_AT_1:
        return "ready"
    if one.upper < LOW_PASS_AT_1:
        return "not_ready"
    if pow_3.upper < HIGH_PASS_POW_3 and evidence.pass_at_3.value > HIGH_PASS_AT_3:
        return "inconsistent"
    if pow_3.upper < HIGH_PASS_POW_3 or one.upper <= HIGH_PASS_AT_1:
        return "needs_improvement"
    return "insufficient_evidence"


def _published(evidence: _Evidence, *, docs: bool) -> Tier:
    if docs:
        return docs_tier(evidence.pass_at_3.value, evidence.pass_pow_3.value)
    return paper_tier(evidence.pass_at_1.value, evidence.pass_pow_3.value)
