"""Deployment tiers: claimed when the interval supports the claim, or read off the published tables.

The default rule, `interval`, looks at pass@1 and pass@3 of the configured estimator (unless set otherwise the statistical
mode's pooled one) and at the 95 % interval [L, U] of its pass^3; the first line that holds is the tier.

| tier | when |
|---|---|
| ready | L > .70 and pass@1 > .90 |
| not_ready | upper(pass@1) < .70 |
| inconsistent | U < .70 and pass@3 > .95: it can, but not reliably |
| needs_improvement | U < .70, or upper(pass@1) <= .90 |
| insufficient_evidence | otherwise, with the tier it leans to and the conversations that would settle it |

`paper` and `docs` are the published tables, which look at points only (see `paper_tier` and `docs_tier`). Where such a
table has no row for the points, the tier is `no_row`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from otel_agentic.stats.bayesian import BayesianEstimator
from otel_agentic.stats.choose import mode_estimator
from otel_agentic.stats.cluster import pooled_samples
from otel_agentic.stats.frequentist import PluginEstimator
from otel_agentic.stats.grouped import GroupedAttempts, estimate_groups
from otel_agentic.stats.model import TIERS, Estimate
from otel_agentic.stats.search import smallest_for_each

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from otel_agentic.config import StatsSettings
    from otel_agentic.stats.cluster import EffectiveSamples
    from otel_agentic.stats.model import Attempts, Estimator, Tier

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
LEAST_PASS_POW_3: Final = 0.30

_INSUFFICIENT: Final = TIERS.index("insufficient_evidence")
#: No tier, or no number.
_NONE: Final = -1


#: The rates that each rule looks at.
_RATES: Final[dict[str, tuple[str, ...]]] = {
    "interval": ("pass_at_1", "pass_at_3", "pass_pow_3"),
    "paper": ("pass_at_1", "pass_pow_3"),
    "docs": ("pass_at_3", "pass_pow_3"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TierEvidence:
    """What a tier rests on: the rule, the estimator, the level of its intervals, and the rates that the rule looks at.

    The names of the rates are pass_at_1, pass_at_3 and pass_pow_3.
    """

    rule: str
    estimator: str
    level: float
    rates: Mapping[str, Estimate]


@dataclass(frozen=True, slots=True, kw_only=True)
class TierClaim:
    """A tier and, where the evidence does not suffice, what it leans to and how many more conversations settle it.

    `leaning` is given with `insufficient_evidence` only. `needed` is 0 where the interval rule claims a tier, and None
    where it is above 100,000, or unknown: without attempts, by a table that asks for no evidence, or by an estimator that
    cannot be scaled to more conversations (only the two modes' pooled ones can).
    """

    tier: Tier
    leaning: Tier | None
    needed: int | None
    evidence: TierEvidence | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class TierClaims:
    """The tiers of many groups; each sequence has an entry a group, as `TierClaim` says.

    `rates` are (groups, 3) value, lower and upper, by the names of `TierEvidence`; NaN where undefined.
    """

    tier: Sequence[Tier]
    leaning: Sequence[Tier | None]
    needed: Sequence[int | None]
    rule: str
    estimator: str
    rates: Mapping[str, FloatArray] = field(compare=False)

    def of(self, group: int) -> TierClaim:
        """Return the claim of one group."""
        evidence = TierEvidence(
            rule=self.rule,
            estimator=self.estimator,
            level=CLAIM_LEVEL,
            rates={name: _estimate(self.rates[name][group].tolist()) for name in _RATES[self.rule]},
        )
        return TierClaim(
            tier=self.tier[group], leaning=self.leaning[group], needed=self.needed[group], evidence=evidence
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Evidence:
    """What tiers are judged by: of each group value, lower and upper, (groups, 3)."""

    pass_at_1: FloatArray
    pass_at_3: FloatArray
    pass_pow_3: FloatArray

    @classmethod
    def of(cls, pass_at: FloatArray, pass_pow: FloatArray) -> _Evidence:
        """Return the evidence of estimates for k = 1 and 3: (groups, 2, 3) each."""
        return cls(pass_at_1=pass_at[:, 0], pass_at_3=pass_at[:, 1], pass_pow_3=pass_pow[:, 1])

    def known(self, rule: str) -> npt.NDArray[np.bool_]:
        """Return where every rate that a rule looks at is defined."""
        values = np.stack([getattr(self, name)[:, 0] for name in _RATES[rule]])
        return np.asarray(~np.isnan(values).any(axis=0))


def rate_name(name: str) -> str:
    """Return the name of a rate of `TierEvidence` as people write it.

    >>> rate_name("pass_at_1"), rate_name("pass_pow_3")
    ('pass@1', 'pass^3')
    """
    return name.replace("_at_", "@").replace("_pow_", "^")


def claim_tier(attempts: Attempts, settings: StatsSettings, estimator: Estimator | None = None) -> TierClaim:
    """Return the tier of a group by the rule of the settings; see `claim_tiers`.

    >>> from otel_agentic.config import StatsSettings
    >>> from otel_agentic.stats.model import Attempts
    >>> claim = claim_tier(Attempts.of((f"case {i}", True) for i in range(20)), StatsSettings())
    >>> claim.tier, claim.leaning, claim.needed
    ('insufficient_evidence', 'ready', 11)
    """
    return claim_tiers(GroupedAttempts.of([attempts]), settings, needed=True, estimator=estimator).of(0)


def claim_tiers(
    grouped: GroupedAttempts, settings: StatsSettings, *, needed: bool, estimator: Estimator | None = None
) -> TierClaims:
    """Return the tier of every group by the rule of the settings.

    Args:
        grouped: the counts.
        settings: rule, mode and prior.
        needed: whether to look for the conversations that would settle it; if not, it is None where evidence lacks.
        estimator: the one whose numbers are shown; None: the pooled one of the statistical mode.

    >>> from otel_agentic.config import StatsSettings
    >>> from otel_agentic.stats.model import Attempts
    >>> grouped = GroupedAttempts.of([Attempts.of((f"case {i}", True) for i in range(n)) for n in (0, 20, 100)])
    >>> claims = claim_tiers(grouped, StatsSettings(), needed=True)
    >>> claims.tier, claims.needed
    (['insufficient_evidence', 'insufficient_evidence', 'ready'], [None, 11, 0])
    """
    own = mode_estimator(settings, level=CLAIM_LEVEL) if estimator is None else _at_claim_level(estimator, settings)
    found = estimate_groups(own, grouped, (1, 3))
    evidence, rule = _Evidence.of(found.pass_at_k, found.pass_pow_k), settings.tier_rule
    known = evidence.known(rule)
    leaning = np.full(grouped.size, _NONE)
    if rule == "interval":
        tiers = _interval(evidence)
        leaning = np.where(known & (tiers == _INSUFFICIENT), _paper(evidence), leaning)
        more = np.where(tiers == _INSUFFICIENT, _NONE, 0)
        if needed and isinstance(own, BayesianEstimator | PluginEstimator):
            unsettled = np.flatnonzero(leaning != _NONE)
            samples = pooled_samples(grouped).where(unsettled)
            more[unsettled] = _needed(samples, grouped.total(grouped.n)[unsettled], own)
    else:
        tiers = np.where(known, _docs(evidence) if rule == "docs" else _paper(evidence), _INSUFFICIENT)
        more = leaning
    return TierClaims(
        tier=_names(tiers),
        leaning=[None if each == _NONE else TIERS[each] for each in leaning.tolist()],
        needed=[None if each == _NONE else each for each in more.tolist()],
        rule=rule,
        estimator=own.name,
        rates={name: getattr(evidence, name) for name in _RATES[rule]},
    )


def _at_claim_level(estimator: Estimator, settings: StatsSettings) -> Estimator:
    """Return an estimator of the settings at the level of claims, whatever level is shown."""
    if settings.level == CLAIM_LEVEL:
        return estimator
    return type(estimator).from_settings(settings.model_copy(update={"level": CLAIM_LEVEL}))


def _estimate(numbers: list[float]) -> Estimate:
    return Estimate(value=None) if np.isnan(numbers[0]) else Estimate.of((numbers[0], numbers[1], numbers[2]))


def paper_tier(pass_at_1: float, pass_pow_3: float) -> Tier:
    """Return the tier of two points by the paper's table, as printed.

    | pass@1 | pass^3 | tier |
    |---|---|---|
    | > .90 | > .70 | ready ("production-ready") |
    | > .90 | .30 to .70 | inconsistent ("functional but inconsistent") |
    | .70 to .90 | any | needs_improvement |
    | < .70 | any | not_ready |

    The second row cannot be reached by one agent's rates, since pass^3 >= 1 - 3 (1 - pass@1) > .70. Below .30 the table has
    no row: there the tier is `no_row`.

    Ref: Fritz and Fiorenza 2026, "Agentic Evaluation Metric", table 1.

    >>> paper_tier(0.95, 0.86), paper_tier(0.90, 0.73), paper_tier(0.667, 0.296), paper_tier(0.95, 0.20)
    ('ready', 'needs_improvement', 'not_ready', 'no_row')
    """
    return TIERS[int(_paper_places(np.asarray(pass_at_1), np.asarray(pass_pow_3)))]


def docs_tier(pass_at_3: float, pass_pow_3: float) -> Tier:
    """Return the tier of two points by the table of the library's documentation, as printed, at its k of 3.

    | pass@K | pass^K | tier |
    |---|---|---|
    | > .95 | > .70 | ready ("reliable") |
    | > .95 | < .50 | inconsistent |
    | < .70 | any | needs_improvement |

    The table leaves gaps (pass@3 of .97 with pass^3 of .60, or pass@3 of .80): there the tier is `no_row`.

    Ref: Fair Forge documentation, "Agentic Metric", quality assessment.

    >>> docs_tier(0.99, 0.80), docs_tier(0.97, 0.33), docs_tier(0.97, 0.60), docs_tier(0.66, 0.03)
    ('ready', 'inconsistent', 'no_row', 'needs_improvement')
    """
    return TIERS[int(_docs_places(np.asarray(pass_at_3), np.asarray(pass_pow_3)))]


def _needed(samples: EffectiveSamples, n: FloatArray, estimator: BayesianEstimator | PluginEstimator) -> IntArray:
    """Return how many more conversations at the observed rate settle each group, `_NONE` where too many."""

    def settles(groups: IntArray, more: IntArray) -> npt.NDArray[np.bool_]:
        grown = samples.where(groups).scaled((n[groups] + more) / n[groups])
        return np.not_equal(_interval(_Evidence.of(*estimator.of_samples(grown, (1, 3)))), _INSUFFICIENT)

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
        ((pass_at_1 > HIGH_PASS_AT_1) & (pass_pow_3 >= LEAST_PASS_POW_3), "inconsistent"),
        (pass_at_1 > HIGH_PASS_AT_1, "no_row"),
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
    return _first_of(rule, "no_row")


def _first_of(rule: _Rule, otherwise: Tier) -> IntArray:
    """Return the tier of the first line that holds, elementwise, as a place in `TIERS`."""
    conditions, tiers = zip(*rule, strict=True)
    return np.select(conditions, [TIERS.index(tier) for tier in tiers], TIERS.index(otherwise))


def _names(places: IntArray) -> list[Tier]:
    return [TIERS[place] for place in places.tolist()]
