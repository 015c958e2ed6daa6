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

import numpy as np

from otel_agentic.stats.choose import mode_estimator
from otel_agentic.stats.cluster import pooled_samples
from otel_agentic.stats.grouped import GroupedAttempts
from otel_agentic.stats.model import TIERS
from otel_agentic.stats.search import smallest_for_each

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from otel_agentic.config import StatsSettings
    from otel_agentic.stats.bayesian import BayesianEstimator
    from otel_agentic.stats.cluster import EffectiveSamples
    from otel_agentic.stats.frequentist import PluginEstimator
    from otel_agentic.stats.model import Attempts, Tier

    FloatArray = npt.NDArray[np.float64]
    IntArray = npt.NDArray[np.int64]
    _Rule = Sequence[tuple[npt.NDArray[np.bool_], Tier]]

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

_INSUFFICIENT: Final = TIERS.index("insufficient_evidence")
#: No tier, or no number.
_NONE: Final = -1


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
class TierClaims:
    """The tiers of many groups; each sequence has an entry a group, as `TierClaim` says."""

    tier: Sequence[Tier]
    leaning: Sequence[Tier | None]
    needed: Sequence[int | None]

    def of(self, group: int) -> TierClaim:
        """Return the claim of one group."""
        return TierClaim(tier=self.tier[group], leaning=self.leaning[group], needed=self.needed[group])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Evidence:
    """What tiers are judged by: of each group value, lower and upper, (groups, 3)."""

    pass_at_1: FloatArray
    pass_at_3: FloatArray
    pass_pow_3: FloatArray

    @classmethod
    def of(cls, samples: EffectiveSamples, estimator: BayesianEstimator | PluginEstimator) -> _Evidence:
        pass_at, pass_pow = estimator.of_samples(samples, (1, 3))
        return cls(pass_at_1=pass_at[:, 0], pass_at_3=pass_at[:, 1], pass_pow_3=pass_pow[:, 1])


def claim_tier(attempts: Attempts, settings: StatsSettings) -> TierClaim:
    """Return the tier of a group by the rule and the statistical mode of the settings.

    >>> from otel_agentic.config import StatsSettings
    >>> from otel_agentic.stats.model import Attempts
    >>> claim_tier(Attempts.of((f"case {i}", True) for i in range(20)), StatsSettings())
    TierClaim(tier='insufficient_evidence', leaning='ready', needed=11)
    """
    return claim_tiers(GroupedAttempts.of([attempts]), settings, needed=True).of(0)


def claim_tiers(grouped: GroupedAttempts, settings: StatsSettings, *, needed: bool) -> TierClaims:
    """Return the tier of every group by the rule and the statistical mode of the settings.

    Args:
        grouped: the counts.
        settings: rule, mode and prior.
        needed: whether to look for the conversations that would settle it; if not, it is None where evidence lacks.

    >>> from otel_agentic.config import StatsSettings
    >>> from otel_agentic.stats.model import Attempts
    >>> grouped = GroupedAttempts.of([Attempts.of((f"case {i}", True) for i in range(n)) for n in (0, 20, 100)])
    >>> claims = claim_tiers(grouped, StatsSettings(), needed=True)
    >>> claims.tier, claims.needed
    (['insufficient_evidence', 'insufficient_evidence', 'ready'], [None, 11, 0])
    """
    samples, estimator = pooled_samples(grouped), mode_estimator(settings, level=CLAIM_LEVEL)
    evidence, known = _Evidence.of(samples, estimator), ~np.isnan(samples.n)
    if settings.tier_rule != "interval":
        published = _docs(evidence) if settings.tier_rule == "docs" else _paper(evidence)
        tiers = np.where(known, published, _INSUFFICIENT)
        return TierClaims(tier=_names(tiers), leaning=[None] * grouped.size, needed=[None] * grouped.size)
    tiers = _interval(evidence)
    leaning = np.where(known & (tiers == _INSUFFICIENT), _paper(evidence), _NONE)
    more = np.where(tiers == _INSUFFICIENT, _NONE, 0)
    if needed:
        unsettled = np.flatnonzero(leaning != _NONE)
        more[unsettled] = _needed(samples.where(unsettled), grouped.total(grouped.n)[unsettled], estimator)
    return TierClaims(
        tier=_names(tiers),
        leaning=[None if each == _NONE else TIERS[each] for each in leaning.tolist()],
        needed=[None if each == _NONE else each for each in more.tolist()],
    )


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
    return TIERS[int(_paper_places(np.asarray(pass_at_1), np.asarray(pass_pow_3)))]


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
    return TIERS[int(_docs_places(np.asarray(pass_at_3), np.asarray(pass_pow_3)))]


def _needed(samples: EffectiveSamples, n: FloatArray, estimator: BayesianEstimator | PluginEstimator) -> IntArray:
    """Return how many more conversations at the observed rate settle each group, `_NONE` where too many."""

    def settles(groups: IntArray, more: IntArray) -> npt.NDArray[np.bool_]:
        grown = samples.where(groups).scaled((n[groups] + more) / n[groups])
        return np.not_equal(_interval(_Evidence.of(grown, estimator)), _INSUFFICIENT)

    found = smallest_for_each(settles, len(n), MOST_NEEDED)
    return np.where(found == 0, _NONE, found)


def _interval(evidence: _Evidence) -> IntArray:
    """Return the tier of each group by the rule of this page, as a place in `TIERS`."""
    one, one_upper = evidence.pass_at_1[:, 0], evidence.pass_at_1[:, 2]
    pow_3_lower, pow_3_upper = evidence.pass_pow_3[:, 1], evidence.pass_pow_3[:, 2]
    rule: _Rule = (
        ((pow_3_lower > HIGH_PASS_POW_3) & (one > HIGH_PASS_AT_1), "ready"),
        (one_upper < LOW_PASS_AT_1, "not_ready"),
        ((pow_3_upper < HIGH_PASS_POW_3) & (evidence.pass_at_3[:, 0] > HIGH_PASS_AT_3), "inconsistent"),
        ((pow_3_upper < HIGH_PASS_POW_3) | (one_upper <= HIGH_PASS_AT_1), "needs_improvement"),
    )
    return _first_of(rule, "insufficient_evidence")


def _paper(evidence: _Evidence) -> IntArray:
    return _paper_places(evidence.pass_at_1[:, 0], evidence.pass_pow_3[:, 0])


def _paper_places(pass_at_1: FloatArray, pass_pow_3: FloatArray) -> IntArray:
    rule: _Rule = (
        ((pass_at_1 > HIGH_PASS_AT_1) & (pass_pow_3 > HIGH_PASS_POW_3), "ready"),
        (pass_at_1 > HIGH_PASS_AT_1, "inconsistent"),
        (pass_at_1 >= LOW_PASS_AT_1, "needs_improvement"),
    )
    return _first_of(rule, "not_ready")


def _docs(evidence: _Evidence) -> IntArray:
    return _docs_places(evidence.pass_at_3[:, 0], evidence.pass_pow_3[:, 0])


def _docs_places(pass_at_3: FloatArray, pass_pow_3: FloatArray) -> IntArray:
    rule: _Rule = (
        (pass_at_3 < LOW_PASS_AT_3, "needs_improvement"),
        ((pass_at_3 > HIGH_PASS_AT_3) & (pass_pow_3 > HIGH_PASS_POW_3), "ready"),
        ((pass_at_3 > HIGH_PASS_AT_3) & (pass_pow_3 < LOW_PASS_POW_3), "inconsistent"),
    )
    return _first_of(rule, "insufficient_evidence")


def _first_of(rule: _Rule, otherwise: Tier) -> IntArray:
    """Return the tier of the first line that holds, elementwise, as a place in `TIERS`."""
    conditions, tiers = zip(*rule, strict=True)
    return np.select(conditions, [TIERS.index(tier) for tier in tiers], TIERS.index(otherwise))


def _names(places: IntArray) -> list[Tier]:
    return [TIERS[place] for place in places.tolist()]
