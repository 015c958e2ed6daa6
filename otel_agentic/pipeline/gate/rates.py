"""Conditions on rates: success, pass@k, pass^k, coverage, the number of evaluated conversations, and the tier."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final

from otel_agentic.pipeline.export import iso
from otel_agentic.pipeline.gate.model import Row
from otel_agentic.pipeline.gate.words import counted, evidence, number
from otel_agentic.stats import claim_tier, headline_estimator, pooled_sample, rate_name
from otel_agentic.stats.exact import exact_bounds, exact_rate, more_needed
from otel_agentic.windows import attempts_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from otel_agentic.config import GateSettings, StatsSettings
    from otel_agentic.pipeline.engine import Engine
    from otel_agentic.pipeline.gate.model import Group
    from otel_agentic.pipeline.gate.select import GateSelection
    from otel_agentic.stats import Attempts, Estimator, TierEvidence
    from otel_agentic.stats.exact import Kind
    from otel_agentic.windows import ClaimBasis

#: The tolerance for rounding errors in sums of ratios.
SLACK: Final = 1e-9
#: The interval method of rates, independent of the estimator.
INTERVAL: Final = "clopper_pearson_effective_n"
_SIGNS: Final[dict[Kind, str]] = {"pass_at_k": "pass@", "pass_pow_k": "pass^"}


@dataclass(frozen=True, kw_only=True)
class Rates:
    """Checks the conditions on the rates of one group."""

    engine: Engine
    conditions: GateSettings
    group: Group
    selection: GateSelection
    estimator: str | None = None

    @cached_property
    def attempts(self) -> Attempts:
        """The evaluated conversations of the group, by case."""
        return attempts_of(self.group.members)

    @property
    def _stats(self) -> StatsSettings:
        return self.engine.settings.stats

    def rows(self) -> Iterator[Row]:
        """Yield a row for each condition."""
        yield self._least_n(self.conditions.min_n)
        if self.conditions.min_coverage is not None:
            yield self._coverage(self.conditions.min_coverage)
        if self.conditions.min_success is not None:
            yield self._success(self.conditions.min_success)
        for k, limit in sorted(self.conditions.min_pass_at_k.items()):
            yield self._pass_k("pass_at_k", k, limit)
        for k, limit in sorted(self.conditions.min_pass_pow_k.items()):
            yield self._pass_k("pass_pow_k", k, limit)
        if self.conditions.tiers:
            yield self._tier()

    def _least_n(self, limit: int) -> Row:
        n = self.attempts.n
        holds = n >= limit
        reason = "enough were evaluated" if holds else f"{counted(limit - n, 'more evaluated conversation')} required"
        return Row(
            condition="n",
            kind="rate",
            agent=self.group.agent,
            operator=">=",
            limit=limit,
            value=n,
            n=n,
            verdict="pass" if holds else "fail" if n else "no_data",
            reason=reason if n else f"{reason}; {self._none_evaluated()}",
        )

    def _coverage(self, limit: float) -> Row:
        n, total = self.attempts.n, len(self.group.members)
        value = n / total
        holds = value >= limit - SLACK
        missing = f"{total - n:,} of {counted(total, 'conversation')} not evaluated: {self._reasons()}"
        return Row(
            condition="coverage",
            kind="rate",
            agent=self.group.agent,
            operator=">=",
            limit=limit,
            value=value,
            n=total,
            verdict="pass" if holds else "fail",
            reason=missing if n < total else "every conversation was evaluated",
        )

    def _success(self, limit: float) -> Row:
        sample = pooled_sample(self.attempts)
        if sample is None:
            return self._without("success", limit, self._none_evaluated())
        more = more_needed(self.attempts, "pass_pow_k", 1, limit, self._stats.level)
        row = self._compared("success", limit, sample.observed, exact_rate(sample, self._stats.level), more)
        return replace(row, interval=INTERVAL)

    def _pass_k(self, kind: Kind, k: int, limit: float) -> Row:
        name = f"{_SIGNS[kind]}{k}"
        if not self.attempts.n:
            return self._without(name, limit, self._none_evaluated())
        estimator = self._estimator
        estimates = estimator.estimate(self.attempts, [k])
        estimate = getattr(estimates, kind)[k]
        if estimate.value is None:
            return self._without(name, limit, self._undefined(estimator.name, k))
        exact = exact_bounds(estimator.name, self.attempts, kind, k, self._stats.level)
        pooled = estimator.name != "per_case" and exact is not None
        more = more_needed(self.attempts, kind, k, limit, self._stats.level) if pooled else None
        # An estimate that is not a count may be outside the exact bounds, which are computed from counts.
        bounds = [end for end in (exact or (estimate.lower, estimate.upper)) if end is not None]
        ends = (min(estimate.value, *bounds), max(estimate.value, *bounds)) if bounds else (estimate.value,) * 2
        return replace(
            self._compared(name, limit, estimate.value, ends, more),
            estimator=estimator.name,
            interval=estimates.interval_method if exact is None else INTERVAL,
        )

    @cached_property
    def _estimator(self) -> Estimator:
        """The requested estimator, else that of the settings."""
        return self.engine.estimators(self.estimator or headline_estimator(self._stats))[0]

    def _compared(self, name: str, limit: float, value: float, ends: tuple[float, float], more: int | None) -> Row:
        lower, upper = ends
        compared = lower if self.conditions.bound == "lower" else value
        holds = compared >= limit - SLACK
        reason = evidence(
            value=value,
            lower=lower,
            upper=upper,
            limit=limit,
            bound=self.conditions.bound,
            level=self._stats.level,
            data=self._data(),
            more=more,
        )
        return Row(
            condition=name,
            kind="rate",
            agent=self.group.agent,
            operator=">=",
            limit=limit,
            value=value,
            lower=lower,
            upper=upper,
            n=self.attempts.n,
            compared=self.conditions.bound,
            verdict="pass" if holds else "fail",
            reason=reason,
        )

    def _tier(self) -> Row:
        allowed = " or ".join(self.conditions.tiers)
        if not self.attempts.n:
            return self._without("tier", allowed, self._none_evaluated())
        basis = self.selection.tier_basis(self.engine, self.group.agent)
        attempts = basis.attempts if self._stats.tier_rule == "interval" else self.attempts
        claim = claim_tier(attempts, self._stats, self._estimator, basis.withheld)
        reason = f"the evidence supports {claim.tier}"
        if claim.tier == "no_row":
            reason = f"the table of tier_rule = {self._stats.tier_rule!r} has no row for these rates"
        if claim.tier == "insufficient_evidence":
            more = f"; {claim.needed:,} more conversations at this rate would settle it" if claim.needed else ""
            reason = f"too little evidence for any tier, leaning {claim.leaning}{more}"
        if claim.withheld is not None:
            reason = f"no tier is claimed, leaning {claim.leaning}: {claim.withheld}"
        if claim.evidence is not None:
            reason += f" ({_evidence_numbers(claim.evidence, basis)})"
        return Row(
            condition="tier",
            kind="tier",
            agent=self.group.agent,
            operator="in",
            limit=allowed,
            label=claim.tier,
            n=attempts.n,
            verdict="pass" if claim.tier in self.conditions.tiers else "fail",
            reason=reason,
        )

    def _without(self, name: str, limit: float | str, reason: str) -> Row:
        return Row(
            condition=name,
            kind="tier" if name == "tier" else "rate",
            agent=self.group.agent,
            operator="in" if name == "tier" else ">=",
            limit=limit,
            n=self.attempts.n,
            verdict="no_data",
            reason=reason,
        )

    def _data(self) -> str:
        """Return the data of a rate; with the number of cases if they repeat, as attempts of one case resemble each other."""
        conversations, cases = counted(self.attempts.n, "conversation"), len(self.attempts.cases)
        return conversations if cases == self.attempts.n else f"{conversations} of {counted(cases, 'case')}"

    def _none_evaluated(self) -> str:
        return f"none of {counted(len(self.group.members), 'conversation')} was evaluated: {self._reasons()}"

    def _reasons(self) -> str:
        missing = (member for member in self.group.members if member.outcome == "not_evaluated")
        reasons = Counter(member.reason or "no_data" for member in missing)
        return ", ".join(f"{count:,} x {reason}" for reason, count in reasons.most_common())

    def _undefined(self, estimator: str, k: int) -> str:
        if estimator == "per_case":
            return f"no case has {number(k)} evaluated attempts, which {estimator} needs"
        return f"{estimator} has no estimate for {counted(self.attempts.n, 'conversation')} and k={k}"


def _evidence_numbers(evidence: TierEvidence, basis: ClaimBasis) -> str:
    """Return the numbers that a tier is based on."""
    numbers = [f"{rate_name(name)} {number(value)}" for name, value in evidence.rates.items() if value is not None]
    if evidence.e_value is not None:
        numbers.append(f"{evidence.statement}: e-value {evidence.e_value:.3g} of {evidence.e_value_needed:.3g}")
        since = "no data" if basis.since_ns is None else iso(basis.since_ns)
        numbers.append(f"{counted(evidence.n, 'conversation')} of {counted(evidence.cases, 'case')} since {since}")
    return f"{evidence.estimator}: {', '.join(numbers)}"
