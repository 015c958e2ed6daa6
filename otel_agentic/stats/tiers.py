"""Deployment tiers: claimed from sequential evidence that is valid at every look, or read from the published tables.

The default rule, `interval`, claims a tier about the mean rate over cases, by an e-value of 20 (see below): a claim
that is not true is made with probability 5 % at most, for any number of looks. That holds for counts from a beginning
that does not depend on the outcomes, such as an agent version's first conversation, but not for a rolling window. The
first row whose condition holds is the tier; pass@1 and pass@3 are those of the configured estimator.

| tier | when |
|---|---|
| ready | the mean rate is above .70^(1/3) = .888, at which pass^3 is .70, and pass@1 > .90 |
| not_ready | the mean rate is below .70 |
| inconsistent | the mean rate is below .888, and pass@3 > .95: the agent succeeds, but not reliably |
| needs_improvement | the mean rate is below .888, or below .90 |
| insufficient_evidence | otherwise, with the tier it leans to and the number of conversations that would settle it |

`paper` and `docs` are the published tables, which use point estimates only (see `paper_tier` and `docs_tier`). If such
a table has no row for the estimates, the tier is `no_row`.

The evidence that the mean rate over cases is above, or below, a value is valid at every look and for any distribution
of cases.

Case j has a rate p_j, drawn from some distribution G of rates, and c_j of its n_j attempts are correct. Against "the mean
of G is at most p0" the e-value is

    sum over alternatives of prior * prod_j B(a + c_j, b + n_j - c_j) / B(a, b)      alternatives: Beta(a, b), mean > p0
    -------------------------------------------------------------------------
    max over all G with mean <= p0 of prod_j integral of p^c_j (1-p)^(n_j - c_j) dG(p)

At the true G the ratio would be a mixture of likelihood ratios, which reaches 1/alpha with probability at most alpha
under any stopping rule (Ville); the maximum in the denominator can only make it smaller. No shape of G is assumed: with
a Beta in the denominator too, populations in which some cases never pass would be misjudged, and false claims would
become certain. The choice of the next case may depend on everything observed so far. The e-value is a function of the
counts and needs no state.

Ref: Wasserman, Ramdas and Balakrishnan (2020), Universal inference, PNAS 117(29), arXiv:1912.11436 (the ratio); Laird (1978),
J. Amer. Statist. Assoc. 73 (likelihood of G without a shape); Wang (2007), J. R. Statist. Soc. B 69(2) (its maximisation).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Final, Literal

import numpy as np
import scipy

from otel_agentic.stats.estimators import mode_estimator
from otel_agentic.stats.model import TIERS, GroupedAttempts, estimate_groups
from otel_agentic.stats.rates import smallest_for_each
from otel_agentic.stats.sequential import e_value, promised_rate

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from otel_agentic.config import StatsSettings
    from otel_agentic.stats.model import Attempts, Estimator, Tier

if TYPE_CHECKING:
    FloatArray = npt.NDArray[np.float64]
    IntArray = npt.NDArray[np.int64]

Side = Literal["above", "below"]
#: The cases of a group by kind: (attempts, correct attempts, number of cases), each (attempts, correct) once, sorted.
CaseKinds = tuple[tuple[int, int, int], ...]

#: Alternatives: the number of means, which are nodes of a Gauss-Jacobi quadrature between p0 and 1, and the
#: concentrations. A higher concentration means more similar cases.
_MEANS: Final = 24
_CONCENTRATIONS: Final = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 1000.0)
#: Number of rates on which G may have mass, in addition to the observed rates of cases; evenly spaced in arcsine scale.
_GRID_RATES: Final = 200
#: The search begins with every n-th of these rates.
_INITIAL_STRIDE: Final = 8
#: Width of the bracket of the maximum's logarithm; its upper end is used, so that the error cannot cause a claim.
_TOLERANCE: Final = 1e-3
_ROUNDS: Final = 100
#: Lower limit of a case's log-likelihood relative to its largest one, so that no rate makes an outcome impossible.
_MIN_LOG_LIKELIHOOD: Final = -500.0
#: Maximum number of attempts of a case for which rising factorials are read from a table.
_LOOKED_UP: Final = 4096


@lru_cache(maxsize=4096)
def mean_evidence(kinds: CaseKinds, p0: float, side: Side) -> MeanEvidence:
    """Return the evidence that the mean rate over cases is above (or below) p0.

    Args:
        kinds: the cases.
        p0: the value.
        side: above or below it.

    >>> [round(mean_evidence(((1, 1, cases),), 0.9, "above").log_e, 2) for cases in (20, 100)]
    [1.33, 8.84]
    """
    n, c, cases = np.array(kinds, dtype=np.int64).reshape(-1, 3).T
    if side == "below":
        c, p0 = n - c, 1.0 - p0
    return MeanEvidence(n=n, c=c, cases=cases.astype(np.float64), p0=p0)


@dataclass(frozen=True, kw_only=True, eq=False)
class MeanEvidence:
    """The evidence that the mean rate over cases is above p0.

    Attributes:
        n: (kinds,) attempts per case.
        c: (kinds,) correct attempts per case.
        cases: (kinds,) number of cases of this kind.
        p0: the value.
    """

    n: IntArray
    c: IntArray
    cases: FloatArray
    p0: float

    @property
    def log_e(self) -> float:
        """The natural logarithm of the e-value."""
        return self.grown(1.0)

    def grown(self, factor: float) -> float:
        """Return the log e-value for `factor` times as many cases of each kind."""
        # The best G does not change, so the logarithm of the denominator is proportional to the number of cases.
        return self._numerator(factor) - factor * self._largest

    def most(self, factor: float = 1.0) -> float:
        """Return an upper bound of `grown` that is cheap to compute: Beta distributions of mean p0 are possible G."""
        return self._numerator(factor) - factor * float(
            self._likelihoods[alternatives(self.p0).count :].max(initial=-math.inf)
        )

    def reaches(self, log_e: float, factor: float = 1.0) -> bool:
        """Return whether the log e-value for `factor` times as many cases of each kind is at least `log_e`."""
        return self.most(factor) >= log_e and self.grown(factor) >= log_e

    def _numerator(self, factor: float) -> float:
        bets = alternatives(self.p0)
        value = self._likelihoods[: bets.count] * factor + bets.log_prior
        return float(np.logaddexp.reduce(value))

    @cached_property
    def _likelihoods(self) -> FloatArray:
        """Log-likelihood of all cases under each alternative, then under each Beta of mean p0."""
        if not self.n.size:
            return np.zeros(alternatives(self.p0).a.size)
        return np.asarray(alternatives(self.p0).log_likelihood(self.n, self.c) @ self.cases)

    @cached_property
    def _largest(self) -> float:
        return _largest_likelihood(self.n, self.c, self.cases, self.p0) if self.n.size else 0.0


class Alternatives:
    """Beta distributions of rates: those that are bet on, with their prior, then those of mean p0."""

    def __init__(self, p0: float) -> None:
        nodes, weights = scipy.special.roots_jacobi(_MEANS, -0.5, -0.5)
        means = p0 + (1.0 - p0) * (nodes + 1.0) / 2.0
        concentrations = np.array(_CONCENTRATIONS)
        self.count = means.size * concentrations.size
        self.log_prior = np.log(np.repeat(weights / weights.sum(), concentrations.size) / concentrations.size)
        all_means = np.concatenate((np.repeat(means, concentrations.size), np.full(concentrations.size, p0)))
        kappa = np.concatenate((np.tile(concentrations, means.size), concentrations))
        self.a, self.b = all_means * kappa, (1.0 - all_means) * kappa
        self._tables = [np.zeros((parameters.size, 1)) for parameters in (self.a, self.b, kappa)]
        self._parameters = (self.a, self.b, kappa)

    def log_likelihood(self, n: IntArray, c: IntArray) -> FloatArray:
        """Return log B(a + c, b + n - c) / B(a, b): (distributions, kinds)."""
        a, b, both = (self._rising(index, counts) for index, counts in enumerate((c, n - c, n)))
        return np.asarray(a + b - both)

    def _rising(self, index: int, counts: IntArray) -> FloatArray:
        """Return the log of x (x+1) ... (x+count-1) for each parameter x of one kind."""
        x = self._parameters[index][:, np.newaxis]
        largest = int(counts.max())
        if largest > _LOOKED_UP:
            return np.asarray(scipy.special.gammaln(x + counts) - scipy.special.gammaln(x))
        table = self._tables[index]
        if table.shape[1] <= largest:
            logs = np.log(x + np.arange(2 * largest))
            table = np.concatenate((np.zeros_like(x), np.cumsum(logs, axis=1)), axis=1)
            self._tables[index] = table
        return np.asarray(table[:, counts])


@lru_cache(maxsize=64)
def alternatives(p0: float) -> Alternatives:
    """Return the alternatives to a mean of p0 or less."""
    return Alternatives(p0)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Parts:
    """The components of every G of mean p0 or less: single rates up to p0, and pairs around p0 with the mean p0.

    Attributes:
        low: (low,) rates up to p0.
        high: (high,) rates above it.
        share: (low, high) weight of the lower rate of a pair.
        of_low: (kinds, low) likelihood of a case of each kind at each rate, up to a factor per kind.
        of_high: (kinds, high) the same.
    """

    low: FloatArray
    high: FloatArray
    share: FloatArray
    of_low: FloatArray
    of_high: FloatArray

    @classmethod
    def of(cls, rates: FloatArray, likelihood: FloatArray, p0: float) -> _Parts:
        below = rates <= p0
        low, high = rates[below], rates[~below]
        return cls(
            low=low,
            high=high,
            share=(high - p0) / (high - low[:, np.newaxis]),
            of_low=likelihood[:, below],
            of_high=likelihood[:, ~below],
        )

    def column(self, part: tuple[int, int]) -> FloatArray:
        """Return the likelihood of a case of each kind under a part.

        Args:
            part: indices into `low` and `high`; the latter is -1 for a single rate.
        """
        low, high = part
        if high < 0:
            return self.of_low[:, low]
        share = self.share[low, high]
        return np.asarray(share * self.of_low[:, low] + (1.0 - share) * self.of_high[:, high])

    def first(self) -> list[tuple[int, int]]:
        """Return the initial parts: evenly spaced ones, and those of the most likely rates of some kinds of cases."""
        low, high = len(self.low), len(self.high)
        best_low = set(self.of_low.argmax(axis=1)[:: 1 + len(self.of_low) // _INITIAL_STRIDE**2].tolist())
        best_high = set(self.of_high.argmax(axis=1)[:: 1 + len(self.of_high) // _INITIAL_STRIDE**2].tolist())
        parts = [(index, high - 1) for index in sorted(best_low.union(range(0, low, _INITIAL_STRIDE)))]
        parts += [(0, index) for index in sorted(best_high.union(range(0, high, _INITIAL_STRIDE)))]
        return list(dict.fromkeys([*parts, (low - 1, 0)]))

    def gains(self, per_case: FloatArray) -> tuple[float, set[tuple[int, int]]]:
        """Return the largest gradient of the likelihood towards a part, and the parts at which the gradient has a peak.

        Args:
            per_case: (kinds,) number of cases divided by their current likelihood.
        """
        low, high = self.of_low.T @ per_case, self.of_high.T @ per_case
        pairs = self.share * low[:, np.newaxis] + (1.0 - self.share) * high
        best_low, best_high = pairs.argmax(axis=0), pairs.argmax(axis=1)
        value = {(int(best_low[index]), index) for index in _peaks(pairs.max(axis=0))}
        value |= {(index, int(best_high[index])) for index in _peaks(pairs.max(axis=1))}
        value |= {(index, -1) for index in _peaks(low)}
        return float(max(pairs.max(), low.max())), value


def _largest_likelihood(n: IntArray, c: IntArray, cases: FloatArray, p0: float) -> float:
    """Return an upper bound, within `_TOLERANCE`, of the log-likelihood of all cases under any G of mean p0 or less.

    This is the constrained Newton method over the parts of G: parts at the peaks of the gradient are added, the weights
    solve a non-negative least squares problem, and parts of weight 0 are removed. The log-likelihood is concave in G,
    so the largest gradient bounds the maximum: log-likelihood + N log(gradient / N).
    """
    rates = np.unique(np.concatenate((np.sin(np.linspace(0.0, np.pi / 2.0, _GRID_RATES)) ** 2, c / n)))
    with np.errstate(divide="ignore"):
        log_likelihood = _counts_times_logs(c, np.log(rates)) + _counts_times_logs(n - c, np.log1p(-rates))
    highest = log_likelihood.max(axis=1)
    parts = _Parts.of(rates, np.exp(np.maximum(log_likelihood - highest[:, np.newaxis], _MIN_LOG_LIKELIHOOD)), p0)
    total, root = float(cases.sum()), np.sqrt(cases)
    chosen = parts.first()
    columns = np.stack([parts.column(part) for part in chosen], axis=1)
    weights = np.full(len(chosen), 1.0 / len(chosen))
    likelihood = columns @ weights
    for _ in range(_ROUNDS):
        gradient, peaks = parts.gains(cases / likelihood)
        gap = total * math.log(max(gradient, total) / total)
        if gap < _TOLERANCE:
            break
        added = sorted(peaks.difference(chosen))
        chosen += added
        columns = np.concatenate((columns, *(parts.column(part)[:, np.newaxis] for part in added)), axis=1)
        scaled = columns * (root / likelihood)[:, np.newaxis]
        # The second-order expansion of log-likelihood - N (sum of weights - 1) - N (sum of weights - 1)^2 / 2.
        optimum, _ = scipy.optimize.nnls(
            np.vstack((scaled, np.full(len(chosen), math.sqrt(total)))), np.concatenate((2.0 * root, [0.0]))
        )
        optimum /= optimum.sum()
        step = _step(likelihood, columns @ optimum - likelihood, cases)
        weights = np.concatenate((weights, np.zeros(len(added)))) * (1.0 - step) + step * optimum
        positive = weights > 1e-12  # noqa: PLR2004 — numerically 0
        chosen = [part for part, is_positive in zip(chosen, positive, strict=True) if is_positive]
        columns, weights = columns[:, positive], weights[positive] / weights[positive].sum()
        likelihood = columns @ weights
    else:
        gap = math.inf if gap > 1.0 else gap  # a search that did not converge supports no claim
    return float(cases @ (np.log(likelihood) + highest)) + gap


def _step(likelihood: FloatArray, direction: FloatArray, cases: FloatArray) -> float:
    """Return the step size in a direction of ascent: the largest of 1, 1/2, 1/4, ... with a sufficient gain."""
    slope, step = float(cases @ (direction / likelihood)), 1.0
    while step > 1e-9:  # noqa: PLR2004 — the smallest step
        gain = float(cases @ np.log(np.maximum(1.0 + step * direction / likelihood, 1e-300)))
        if gain >= 1e-4 * step * slope:
            break
        step /= 2.0
    return step


def _counts_times_logs(counts: IntArray, logs: FloatArray) -> FloatArray:
    """Return counts x logs, where 0 times minus infinity is 0: (kinds, rates)."""
    column = counts[:, np.newaxis]
    return np.where(column > 0, np.where(column > 0, column, 1) * logs, 0.0)


def _peaks(values: FloatArray) -> IntArray:
    around = np.concatenate(([-np.inf], values, [-np.inf]))
    return np.flatnonzero((values >= around[:-2]) & (values >= around[2:]))


if TYPE_CHECKING:
    _Rule = Sequence[tuple[npt.NDArray[np.bool_], Tier]]


#: Maximum probability that a false claim is ever made; independent of the level of intervals.
CLAIM_ALPHA: Final = 0.05
#: Minimum e-value of a claim.
E_VALUE_NEEDED: Final = 1.0 / CLAIM_ALPHA
#: Larger numbers of further conversations are not reported, because they have no practical use.
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

#: The statements about the mean rate over cases, any one of which supports a tier; in the order in which tiers are
#: tried.
_STATEMENTS: Final[dict[Tier, tuple[tuple[Side, float], ...]]] = {
    "ready": (("above", READY_RATE),),
    "not_ready": (("below", LOW_PASS_AT_1),),
    "inconsistent": (("below", READY_RATE),),
    "needs_improvement": (("below", READY_RATE), ("below", HIGH_PASS_AT_1)),
}
#: The rates that each rule uses.
_RATES_OF_RULE: Final[dict[str, tuple[str, ...]]] = {
    "interval": ("pass_at_1", "pass_at_3", "pass_pow_3"),
    "paper": ("pass_at_1", "pass_pow_3"),
    "docs": ("pass_at_3", "pass_pow_3"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TierEvidence:
    """The basis of a tier.

    Attributes:
        rule: the rule of the settings.
        estimator: the estimator whose rates the rule uses.
        rates: the estimates pass_at_1, pass_at_3 and pass_pow_3 that it uses, None if undefined.
        n: number of conversations.
        c: number of correct ones.
        cases: number of cases; a conversation without a case is a case of its own.
        statement: the claim of the tier, or of the tier that it leans to, about the mean rate over cases; None by the
            tables.
        e_value: the evidence for the statement, within 1e-300 and 1e300; None by the tables, or if it was not
            requested.
        e_value_needed: the minimum e-value of a claim.
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
    """A tier; without sufficient evidence also the tier it leans to and the number of conversations that settle it.

    `leaning` is set only with `insufficient_evidence`. `needed` is 0 if the interval rule claims a tier, and None if it
    is above 100,000 or unknown: without attempts, by a table that requires no evidence, or if a claim is `withheld`
    (which states the reason).
    """

    tier: Tier
    leaning: Tier | None
    needed: int | None
    withheld: str | None = None
    evidence: TierEvidence | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Points:
    """The rates that tiers use: (groups,) each, NaN where undefined."""

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
        """Return whether every rate that a rule uses is defined: (groups,)."""
        return np.asarray(~np.isnan(np.stack([getattr(self, name) for name in _RATES_OF_RULE[rule]])).any(axis=0))


def rate_name(name: str) -> str:
    """Return the name of a rate of `TierEvidence` in the usual notation.

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
    e_values: bool = True,
    estimator: Estimator | None = None,
    withheld: Sequence[str | None] | None = None,
) -> list[TierClaim]:
    """Return the tier of every group by the rule of the settings.

    Attempts are counted without sampling weights: whether a conversation is sampled depends neither on its outcome nor
    on the rate of its case.

    Args:
        grouped: the counts, all from a beginning that does not depend on the outcomes.
        settings: rule, mode and prior.
        needed: whether to compute the number of conversations that would settle the tier, and the e-value; if not,
            `needed` is None without sufficient evidence.
        e_values: whether to compute the e-value with `needed`. Many groups are far from any claim, which a bound shows;
            their exact e-value alone needs `scipy.optimize`, whose import takes a fifth of a second and 20 MB.
        estimator: the estimator whose rates are used; None for the pooled one of the statistical mode.
        withheld: for each group the reason why no tier may be claimed, or None.

    >>> from otel_agentic.config import StatsSettings
    >>> from otel_agentic.stats.model import Attempts
    >>> grouped = GroupedAttempts.of([Attempts.of((f"case {i}", True) for i in range(n)) for n in (0, 20, 100)])
    >>> [(claim.tier, claim.needed) for claim in claim_tiers(grouped, StatsSettings(), needed=True)]
    [('insufficient_evidence', None), ('insufficient_evidence', 16), ('ready', 0)]
    """
    chosen = mode_estimator(settings) if estimator is None else estimator
    points, rule = _Points.of(chosen, grouped), settings.tier_rule
    known, table = points.known(rule), _table(points, rule)
    totals = grouped.total(np.stack((grouped.n, grouped.c, np.ones_like(grouped.n)), axis=1)).astype(np.int64).tolist()
    claims = []
    for group, (kinds, (n, c, cases)) in enumerate(zip(_kinds(grouped), totals, strict=True)):
        table_tier: Tier = TIERS[table[group]]
        reason = withheld[group] if withheld else None
        rates = {name: float(getattr(points, name)[group]) for name in _RATES_OF_RULE[rule]}
        claim = TierClaim(tier="insufficient_evidence", leaning=None, needed=None, withheld=reason)
        statement = e = None
        if known[group] and rule != "interval":
            claim = TierClaim(tier=table_tier, leaning=None, needed=None)
        elif known[group]:
            tier = None if reason else _claimed_tier(kinds, rates)
            claim_evidence = _claim_and_evidence(kinds, tier or table_tier) if needed and e_values else None
            if claim_evidence:
                statement, e = claim_evidence
            more = _needed(kinds, n, c / n) if needed and tier is None and not reason else None
            claim = (
                TierClaim(tier="insufficient_evidence", leaning=table_tier, needed=more, withheld=reason)
                if tier is None
                else TierClaim(tier=tier, leaning=None, needed=0)
            )
        evidence = TierEvidence(
            rule=rule,
            estimator=chosen.name,
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

    This is not a claim: in a rolling window, no claim is valid at every look.

    >>> from otel_agentic.config import StatsSettings
    >>> from otel_agentic.stats.model import Attempts
    >>> leaning_tiers(GroupedAttempts.of([Attempts(), Attempts.of([("a", True)] * 20)]), StatsSettings())
    [None, 'ready']
    """
    points = _Points.of(mode_estimator(settings) if estimator is None else estimator, grouped)
    known, table = points.known(settings.tier_rule), _table(points, settings.tier_rule)
    return [TIERS[item] if defined else None for item, defined in zip(table.tolist(), known.tolist(), strict=True)]


def paper_tier(pass_at_1: float, pass_pow_3: float) -> Tier:
    """Return the tier of two points by the paper's table, as printed.

    | pass@1 | pass^3 | tier |
    |---|---|---|
    | > .90 | > .70 | ready ("production-ready") |
    | > .90 | .30 to .70 | inconsistent ("functional but inconsistent") |
    | .70 to .90 | any | needs_improvement |
    | < .70 | any | not_ready |

    The second row cannot be reached by one agent's rates, since pass^3 >= 1 - 3 (1 - pass@1) > .70. Below .30 the table has
    no row, and the tier is `no_row`.

    Ref: Fritz and Fiorenza 2026, "Agentic Evaluation Metric", table 1.

    >>> paper_tier(0.95, 0.86), paper_tier(0.90, 0.73), paper_tier(0.667, 0.296), paper_tier(0.95, 0.20)
    ('ready', 'needs_improvement', 'not_ready', 'no_row')
    """
    return TIERS[int(_paper_indices(np.asarray(pass_at_1), np.asarray(pass_pow_3)))]


def docs_tier(pass_at_3: float, pass_pow_3: float) -> Tier:
    """Return the tier of two points by the table of the library's documentation, as printed, at its k of 3.

    | pass@K | pass^K | tier |
    |---|---|---|
    | > .95 | > .70 | ready ("reliable") |
    | > .95 | < .50 | inconsistent |
    | < .70 | any | needs_improvement |

    The table has gaps (pass@3 of .97 with pass^3 of .60, or pass@3 of .80), in which the tier is `no_row`.

    Ref: Fair Forge documentation, "Agentic Metric", quality assessment.

    >>> docs_tier(0.99, 0.80), docs_tier(0.97, 0.33), docs_tier(0.97, 0.60), docs_tier(0.66, 0.03)
    ('ready', 'inconsistent', 'no_row', 'needs_improvement')
    """
    return TIERS[int(_docs_indices(np.asarray(pass_at_3), np.asarray(pass_pow_3)))]


def _kinds(grouped: GroupedAttempts) -> list[CaseKinds]:
    """Return the kinds of cases of each group; cases that differ only in weights are of the same kind."""
    result: list[dict[tuple[int, int], int]] = [{} for _ in range(grouped.size)]
    columns = (grouped.group, grouped.n, grouped.c, grouped.cases)
    for group, n, c, cases in zip(*(item.tolist() for item in columns), strict=True):
        result[group][n, c] = result[group].get((n, c), 0) + cases
    return [tuple((n, c, cases) for (n, c), cases in sorted(item.items())) for item in result]


def _claimed_tier(kinds: CaseKinds, rates: Mapping[str, float]) -> Tier | None:
    """Return the tier that the evidence supports, or None."""
    allowed = {"ready": rates["pass_at_1"] > HIGH_PASS_AT_1, "inconsistent": rates["pass_at_3"] > HIGH_PASS_AT_3}
    for tier, statements in _STATEMENTS.items():
        if allowed.get(tier, True) and any(result.reaches(_LOG_NEEDED) for result in _evidence(kinds, statements)):
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
    """Return how many more conversations of such cases at the observed rate settle a tier; None above `MOST_NEEDED`."""
    allowed = {"ready": rate > HIGH_PASS_AT_1, "inconsistent": 1.0 - (1.0 - rate) ** 3 > HIGH_PASS_AT_3}
    statements = {item for tier, result in _STATEMENTS.items() if allowed.get(tier, True) for item in result}
    evidence = _evidence(kinds, sorted(statements))

    def settles(_: IntArray, more: IntArray) -> npt.NDArray[np.bool_]:
        factor = (n + int(more[0])) / n
        return np.array([any(item.reaches(_LOG_NEEDED, factor) for item in evidence)])

    return int(smallest_for_each(settles, 1, MOST_NEEDED)[0]) or None


def _table(points: _Points, rule: str) -> IntArray:
    """Return the row of the rule's table for the points, as an index into `TIERS`."""
    return _docs(points) if rule == "docs" else _paper(points)


def _paper(points: _Points) -> IntArray:
    return _paper_indices(points.pass_at_1, points.pass_pow_3)


def _paper_indices(pass_at_1: FloatArray, pass_pow_3: FloatArray) -> IntArray:
    rule: _Rule = (
        ((pass_at_1 > HIGH_PASS_AT_1) & (pass_pow_3 > HIGH_PASS_POW_3), "ready"),
        ((pass_at_1 > HIGH_PASS_AT_1) & (pass_pow_3 >= LEAST_PASS_POW_3), "inconsistent"),
        (pass_at_1 > HIGH_PASS_AT_1, "no_row"),
        (pass_at_1 >= LOW_PASS_AT_1, "needs_improvement"),
    )
    return _first_of(rule, "not_ready")


def _docs(points: _Points) -> IntArray:
    return _docs_indices(points.pass_at_3, points.pass_pow_3)


def _docs_indices(pass_at_3: FloatArray, pass_pow_3: FloatArray) -> IntArray:
    rule: _Rule = (
        (pass_at_3 < LOW_PASS_AT_3, "needs_improvement"),
        ((pass_at_3 > HIGH_PASS_AT_3) & (pass_pow_3 > HIGH_PASS_POW_3), "ready"),
        ((pass_at_3 > HIGH_PASS_AT_3) & (pass_pow_3 < LOW_PASS_POW_3), "inconsistent"),
    )
    return _first_of(rule, "no_row")


def _first_of(rule: _Rule, otherwise: Tier) -> IntArray:
    """Return the tier of the first rule whose condition holds, elementwise, as an index into `TIERS`."""
    conditions, tiers = zip(*rule, strict=True)
    return np.select(conditions, [TIERS.index(tier) for tier in tiers], TIERS.index(otherwise))
