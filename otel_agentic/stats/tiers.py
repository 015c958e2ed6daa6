"""Deployment tiers: claimed when the evidence so far suffices, whenever one looks, or read off the published tables.

The default rule, `interval`, claims a tier about the mean rate over cases, by an e-value of 20 (see `mean_rate`): a claim
that is not true is made with probability 5 % at most, however often one looks. That holds for counts from a beginning that
does not depend on the outcomes, such as an agent version's first conversation; not for a window that rolls. The first line
that holds is the tier; pass@1 and pass@3 are those of the configured estimator.

| tier | when |
|---|---|
| ready | the mean rate is above .70^(1/3) = .888, at which pass^3 is .70, and pass@1 > .90 |
| not_ready | the mean rate is below .70 |
| inconsistent | the mean rate is below .888, and pass@3 > .95: it can, but not reliably |
| needs_improvement | the mean rate is below .888, or below .90 |
| insufficient_evidence | otherwise, with the tier it leans to and the conversations that would settle it |

`paper` and `docs` are the published tables, which look at points only (see `paper_tier` and `docs_tier`). Where such a
table has no row for the points, the tier is `no_row`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from otel_agentic.stats.estimators import mode_estimator
from otel_agentic.stats.grouped import GroupedAttempts, estimate_groups
from otel_agentic.stats.interval import smallest_for_each
from otel_agentic.stats.mean_rate import mean_evidence
from otel_agentic.stats.model import TIERS
from otel_agentic.stats.sequential import e_value, promised_rate

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from otel_agentic.config import StatsSettings
    from otel_agentic.stats.mean_rate import CaseKinds, MeanEvidence, Side
    from otel_agentic.stats.model import Attempts, Estimator, Tier

    FloatArray = npt.NDArray[np.float64]
    IntArray = npt.NDArray[np.int64]
    _Rule = Sequence[tuple[npt.NDArray[np.bool_], Tier]]

#: Maximum probability that a false claim is ever made, independent of the level that the report shows.
CLAIM_ALPHA: Final = 0.05
#: A claim is made from this e-value on.
E_VALUE_NEEDED: Final = 1.0 / CLAIM_ALPHA
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
#: The rate at which pass^3 is at its threshold.
READY_RATE: Final = promised_rate(3, HIGH_PASS_POW_3)

_LOG_NEEDED: Final = math.log(E_VALUE_NEEDED)

#: What each tier claims of the mean rate over cases, any one of these; in the order in which tiers are tried.
_STATEMENTS: Final[dict[Tier, tuple[tuple[Side, float], ...]]] = {
    "ready": (("above", READY_RATE),),
    "not_ready": (("below", LOW_PASS_AT_1),),
    "inconsistent": (("below", READY_RATE),),
    "needs_improvement": (("below", READY_RATE), ("below", HIGH_PASS_AT_1)),
}
#: The rates that each rule looks at.
_RATES: Final[dict[str, tuple[str, ...]]] = {
    "interval": ("pass_at_1", "pass_at_3", "pass_pow_3"),
    "paper": ("pass_at_1", "pass_pow_3"),
    "docs": ("pass_at_3", "pass_pow_3"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TierEvidence:
    """The basis of a tier.

    Attributes:
        rule: the rule of the settings.
        estimator: whose rates the rule looks at.
        rates: the estimates pass_at_1, pass_at_3 and pass_pow_3 that it looks at, None if undefined.
        n: conversations.
        c: correct ones.
        cases: cases; a conversation without a case is one of its own.
        statement: what the tier, or the tier that it leans to, claims of the mean rate over cases; None by the tables.
        e_value: the evidence for that, within 1e-300 and 1e300; None by the tables, and where it was not asked for.
        e_value_needed: the claim is made from this e-value on.
    """

    rule: str
    estimator: str
    rates: Mapping[str, float | None]
    n: int
    c: int
    cases: int
    statement: str | None
    e_value: float | None
    e_value_needed: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TierClaim:
    """A tier and, where the evidence does not suffice, what it leans to and how many more conversations settle it.

    `leaning` is given with `insufficient_evidence` only. `needed` is 0 if the interval rule claims a tier, and None
    if it is above 100,000, or unknown: without attempts, by a table that asks for no evidence, or if a claim is
    `withheld` (which states the reason).
    """

    tier: Tier
    leaning: Tier | None
    needed: int | None
    withheld: str | None = None
    evidence: TierEvidence | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Points:
    """The rates that tiers look at: (groups,) each, NaN where undefined."""

    pass_at_1: FloatArray
    pass_at_3: FloatArray
    pass_pow_3: FloatArray

    @classmethod
    def of(cls, estimator: Estimator, grouped: GroupedAttempts) -> _Points:
        if not grouped.size:
            return cls(pass_at_1=np.zeros(0), pass_at_3=np.zeros(0), pass_pow_3=np.zeros(0))
        result = estimate_groups(estimator, grouped, (1, 3))
        return cls(
            pass_at_1=result.pass_at_k[:, 0, 0],
            pass_at_3=result.pass_at_k[:, 1, 0],
            pass_pow_3=result.pass_pow_k[:, 1, 0],
        )

    def known(self, rule: str) -> npt.NDArray[np.bool_]:
        """Return where every rate that a rule looks at is defined."""
        return np.asarray(~np.isnan(np.stack([getattr(self, name) for name in _RATES[rule]])).any(axis=0))


def rate_name(name: str) -> str:
    """Return the name of a rate of `TierEvidence` as people write it.

    >>> rate_name("pass_at_1"), rate_name("pass_pow_3")
    ('pass@1', 'pass^3')
    """
    return name.replace("_at_", "@").replace("_pow_", "^")


def claim_tier(
    attempts: Attempts, settings: StatsSettings, estimator: Estimator | None = None, withheld: str | None = None
) -> TierClaim:
    """Return the tier of a group by the rule of the settings; see `claim_tiers`.

    >>> from otel_agentic.config import StatsSettings
    >>> from otel_agentic.stats.model import Attempts
    >>> claim = claim_tier(Attempts.of((f"case {i}", True) for i in range(20)), StatsSettings())
    >>> claim.tier, claim.leaning, claim.needed
    ('insufficient_evidence', 'ready', 16)
    """
    return claim_tiers(GroupedAttempts.of([attempts]), settings, needed=True, estimator=estimator, withheld=[withheld])[
        0
    ]


def claim_tiers(
    grouped: GroupedAttempts,
    settings: StatsSettings,
    *,
    needed: bool,
    estimator: Estimator | None = None,
    withheld: Sequence[str | None] | None = None,
) -> list[TierClaim]:
    """Return the tier of every group by the rule of the settings.

    Attempts are counted as they are, without the weights of sampling: whether a conversation is sampled depends neither on
    its outcome nor on its case's rate.

    Args:
        grouped: the counts, all from a beginning that does not depend on the outcomes.
        settings: rule, mode and prior.
        needed: whether to look for the conversations that would settle it, and to report the e-value; if not, `needed` is None
            without sufficient evidence.
        estimator: the one whose rates are looked at; None: the pooled one of the statistical mode.
        withheld: of each group the reason why nothing may be claimed of it, or None.

    >>> from otel_agentic.config import StatsSettings
    >>> from otel_agentic.stats.model import Attempts
    >>> grouped = GroupedAttempts.of([Attempts.of((f"case {i}", True) for i in range(n)) for n in (0, 20, 100)])
    >>> [(claim.tier, claim.needed) for claim in claim_tiers(grouped, StatsSettings(), needed=True)]
    [('insufficient_evidence', None), ('insufficient_evidence', 16), ('ready', 0)]
    """
    own = mode_estimator(settings) if estimator is None else estimator
    points, rule = _Points.of(own, grouped), settings.tier_rule
    known, table = points.known(rule), _table(points, rule)
    totals = grouped.total(np.stack((grouped.n, grouped.c, np.ones_like(grouped.n)), axis=1)).astype(np.int64).tolist()
    claims = []
    for group, (kinds, (n, c, cases)) in enumerate(zip(_kinds(grouped), totals, strict=True)):
        of_table: Tier = TIERS[table[group]]
        reason = withheld[group] if withheld else None
        rates = {name: float(getattr(points, name)[group]) for name in _RATES[rule]}
        claim = TierClaim(tier="insufficient_evidence", leaning=None, needed=None, withheld=reason)
        statement = e = None
        if known[group] and rule != "interval":
            claim = TierClaim(tier=of_table, leaning=None, needed=None)
        elif known[group]:
            tier = None if reason else _claimed(kinds, rates)
            claims_shown = _claim_and_evidence(kinds, tier or of_table) if needed else None
            if claims_shown:
                statement, e = claims_shown
            more = _needed(kinds, n, c / n) if needed and tier is None and not reason else None
            claim = (
                TierClaim(tier="insufficient_evidence", leaning=of_table, needed=more, withheld=reason)
                if tier is None
                else TierClaim(tier=tier, leaning=None, needed=0)
            )
        evidence = TierEvidence(
            rule=rule,
            estimator=own.name,
            rates={name: None if math.isnan(value) else value for name, value in rates.items()},
            n=n,
            c=c,
            cases=cases,
            statement=statement,
            e_value=e,
            e_value_needed=E_VALUE_NEEDED,
        )
        claims.append(replace(claim, evidence=evidence))
    return claims


def leaning_tiers(
    grouped: GroupedAttempts, settings: StatsSettings, estimator: Estimator | None = None
) -> list[Tier | None]:
    """Return the tier of each group by the published table, or None if its estimates are undefined.

    It claims nothing: in a window that rolls, no claim holds at every look.

    >>> from otel_agentic.config import StatsSettings
    >>> from otel_agentic.stats.model import Attempts
    >>> leaning_tiers(GroupedAttempts.of([Attempts(), Attempts.of([("a", True)] * 20)]), StatsSettings())
    [None, 'ready']
    """
    points = _Points.of(mode_estimator(settings) if estimator is None else estimator, grouped)
    known, table = points.known(settings.tier_rule), _table(points, settings.tier_rule)
    return [TIERS[item] if there else None for item, there in zip(table.tolist(), known.tolist(), strict=True)]


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


def _kinds(grouped: GroupedAttempts) -> list[CaseKinds]:
    """Return the kinds of cases of each group; cases that differ in weights alone are of one kind."""
    result: list[dict[tuple[int, int], int]] = [{} for _ in range(grouped.size)]
    columns = (grouped.group, grouped.n, grouped.c, grouped.cases)
    for group, n, c, cases in zip(*(item.tolist() for item in columns), strict=True):
        result[group][n, c] = result[group].get((n, c), 0) + cases
    return [tuple((n, c, cases) for (n, c), cases in sorted(item.items())) for item in result]


def _claimed(kinds: CaseKinds, rates: Mapping[str, float]) -> Tier | None:
    """Return the tier that the evidence supports, or None."""
    allowed = {"ready": rates["pass_at_1"] > HIGH_PASS_AT_1, "inconsistent": rates["pass_at_3"] > HIGH_PASS_AT_3}
    for tier, statements in _STATEMENTS.items():
        if allowed.get(tier, True) and any(
            result.most >= _LOG_NEEDED and result.log_e >= _LOG_NEEDED for result in _evidence(kinds, statements)
        ):
            return tier
    return None


def _claim_and_evidence(kinds: CaseKinds, tier: Tier) -> tuple[str, float] | None:
    """Return the claim of a tier about the mean rate over cases, and its e-value."""
    statements = _STATEMENTS.get(tier)
    if statements is None:
        return None
    result = {statement: item.log_e for statement, item in zip(statements, _evidence(kinds, statements), strict=True)}
    side, p0 = max(result, key=lambda statement: result[statement])
    return f"mean rate over cases {side} {p0:.3g}", e_value(result[side, p0])


def _evidence(kinds: CaseKinds, statements: Sequence[tuple[Side, float]]) -> list[MeanEvidence]:
    return [mean_evidence(kinds, p0, side) for side, p0 in statements]


def _needed(kinds: CaseKinds, n: int, rate: float) -> int | None:
    """Return how many more conversations of such cases at the observed rate settle a tier, or None if too many."""
    allowed = {"ready": rate > HIGH_PASS_AT_1, "inconsistent": 1.0 - (1.0 - rate) ** 3 > HIGH_PASS_AT_3}
    statements = {item for tier, result in _STATEMENTS.items() if allowed.get(tier, True) for item in result}
    evidence = _evidence(kinds, sorted(statements))

    def settles(_: IntArray, more: IntArray) -> npt.NDArray[np.bool_]:
        factor = (n + int(more[0])) / n
        return np.array([any(item.grown(factor) >= _LOG_NEEDED for item in evidence)])

    return int(smallest_for_each(settles, 1, MOST_NEEDED)[0]) or None


def _table(points: _Points, rule: str) -> IntArray:
    """Return the row of the rule's table for the points, as an index into `TIERS`."""
    return _docs(points) if rule == "docs" else _paper(points)


def _paper(points: _Points) -> IntArray:
    return _paper_places(points.pass_at_1, points.pass_pow_3)


def _paper_places(pass_at_1: FloatArray, pass_pow_3: FloatArray) -> IntArray:
    rule: _Rule = (
        ((pass_at_1 > HIGH_PASS_AT_1) & (pass_pow_3 > HIGH_PASS_POW_3), "ready"),
        ((pass_at_1 > HIGH_PASS_AT_1) & (pass_pow_3 >= LEAST_PASS_POW_3), "inconsistent"),
        (pass_at_1 > HIGH_PASS_AT_1, "no_row"),
        (pass_at_1 >= LOW_PASS_AT_1, "needs_improvement"),
    )
    return _first_of(rule, "not_ready")


def _docs(points: _Points) -> IntArray:
    return _docs_places(points.pass_at_3, points.pass_pow_3)


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
