"""Conditions on rates: success, pass@k, pass^k, coverage, how many were evaluated, and the tier."""

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
    from otel_agentic.pipeline.gate.select import Chosen
    from otel_agentic.stats import Attempts, Estimator, TierEvidence
    from otel_agentic.stats.exact import Kind
    from otel_agentic.windows import ClaimBasis

#: What a sum of ratios may be short of a limit by rounding.
SLACK: Final = 1e-9
#: How the bounds of rates are made, whatever estimates them.
INTERVAL: Final = "clopper_pearson_effective_n"
_SIGNS: Final[dict[Kind, str]] = {"pass_at_k": "pass@", "pass_pow_k": "pass^"}


@dataclass(frozen=True, kw_only=True)
class Rates:
    """The conditions on the rates of one group."""

    engine: Engine
    wanted: GateSettings
    group: Group
    chosen: Chosen
    estimator: str | None = None

    @cached_property
    def attempts(self) -> Attempts:
        """Its evaluated conversations, by case."""
        return attempts_of(self.group.members)

    @property
    def _stats(self) -> StatsSettings:
        return self.engine.settings.stats

    def rows(self) -> Iterator[Row]:
        """Yield a row for each condition."""
        yield self._least_n(self.wanted.min_n)
        if self.wanted.min_coverage is not None:
            yield self._coverage(self.wanted.min_coverage)
        if self.wanted.min_success is not None:
            yield self._success(self.wanted.min_success)
        for k, limit in sorted(self.wanted.min_pass_at_k.items()):
            yield self._pass_k("pass_at_k", k, limit)
        for k, limit in sorted(self.wanted.min_pass_pow_k.items()):
            yield self._pass_k("pass_pow_k", k, limit)
        if self.wanted.tiers:
            yield self._tier()

    def _least_n(self, limit: int) -> Row:
        n = self.attempts.n
        holds = n >= limit
        told = "enough were evaluated" if holds else f"{counted(limit - n, 'more evaluated conversation')} wanted"
        return Row(
            condition="n",
            kind="rate",
            agent=self.group.agent,
            operator=">=",
            wanted=limit,
            value=n,
            n=n,
            verdict="pass" if holds else "fail" if n else "no_data",
            reason=told if n else f"{told}; {self._none_evaluated()}",
        )

    def _coverage(self, limit: float) -> Row:
        n, every = self.attempts.n, len(self.group.members)
        value = n / every
        holds = value >= limit - SLACK
        left_out = f"{every - n:,} of {counted(every, 'conversation')} not evaluated: {self._reasons()}"
        return Row(
            condition="coverage",
            kind="rate",
            agent=self.group.agent,
            operator=">=",
            wanted=limit,
            value=value,
            n=every,
            verdict="pass" if holds else "fail",
            reason=left_out if n < every else "every conversation was evaluated",
        )

    def _success(self, limit: float) -> Row:
        sample = pooled_sample(self.attempts)
        if sample is None:
            return self._without("success", limit, self._none_evaluated())
        more = more_needed(self.attempts, "pass_pow_k", 1, limit, self._stats.level)
        row = self._judged("success", limit, sample.observed, exact_rate(sample, self._stats.level), more)
        return replace(row, interval=INTERVAL)

    def _pass_k(self, kind: Kind, k: int, limit: float) -> Row:
        name = f"{_SIGNS[kind]}{k}"
        if not self.attempts.n:
            return self._without(name, limit, self._none_evaluated())
        estimator = self._estimator
        estimates = estimator.estimate(self.attempts, [k])
        found = getattr(estimates, kind)[k]
        if found.value is None:
            return self._without(name, limit, self._undefined(estimator.name, k))
        exact = exact_bounds(estimator.name, self.attempts, kind, k, self._stats.level)
        pooled = estimator.name != "per_case" and exact is not None
        more = more_needed(self.attempts, kind, k, limit, self._stats.level) if pooled else None
        # What is estimated otherwise than by counting may lie beyond the bounds of what was counted.
        given = [end for end in (exact or (found.lower, found.upper)) if end is not None]
        ends = (min(found.value, *given), max(found.value, *given)) if given else (found.value, found.value)
        return replace(
            self._judged(name, limit, found.value, ends, more),
            estimator=estimator.name,
            interval=estimates.interval_method if exact is None else INTERVAL,
        )

    @cached_property
    def _estimator(self) -> Estimator:
        """The estimator that was asked for, else the configured one."""
        return self.engine.estimators(self.estimator or headline_estimator(self._stats))[0]

    def _judged(self, name: str, limit: float, value: float, ends: tuple[float, float], more: int | None) -> Row:
        lower, upper = ends
        held = lower if self.wanted.bound == "lower" else value
        holds = held >= limit - SLACK
        told = evidence(
            value=value,
            lower=lower,
            upper=upper,
            limit=limit,
            bound=self.wanted.bound,
            level=self._stats.level,
            what=self._what(),
            more=more,
        )
        return Row(
            condition=name,
            kind="rate",
            agent=self.group.agent,
            operator=">=",
            wanted=limit,
            value=value,
            lower=lower,
            upper=upper,
            n=self.attempts.n,
            held=self.wanted.bound,
            verdict="pass" if holds else "fail",
            reason=told,
        )

    def _tier(self) -> Row:
        wanted = " or ".join(self.wanted.tiers)
        if not self.attempts.n:
            return self._without("tier", wanted, self._none_evaluated())
        basis = self.chosen.tier_basis(self.engine, self.group.agent)
        attempts = basis.attempts if self._stats.tier_rule == "interval" else self.attempts
        claim = claim_tier(attempts, self._stats, self._estimator, basis.withheld)
        told = f"the evidence supports {claim.tier}"
        if claim.tier == "no_row":
            told = f"the table of tier_rule = {self._stats.tier_rule!r} has no row for these rates"
        if claim.tier == "insufficient_evidence":
            more = f"; {claim.needed:,} more conversations at this rate would settle it" if claim.needed else ""
            told = f"too little evidence for any tier, leaning {claim.leaning}{more}"
        if claim.withheld is not None:
            told = f"no tier is claimed, leaning {claim.leaning}: {claim.withheld}"
        if claim.evidence is not None:
            told += f" ({_rests_on(claim.evidence, basis)})"
        return Row(
            condition="tier",
            kind="tier",
            agent=self.group.agent,
            operator="in",
            wanted=wanted,
            told=claim.tier,
            n=attempts.n,
            verdict="pass" if claim.tier in self.wanted.tiers else "fail",
            reason=told,
        )

    def _without(self, name: str, limit: float | str, reason: str) -> Row:
        return Row(
            condition=name,
            kind="tier" if name == "tier" else "rate",
            agent=self.group.agent,
            operator="in" if name == "tier" else ">=",
            wanted=limit,
            n=self.attempts.n,
            verdict="no_data",
            reason=reason,
        )

    def _what(self) -> str:
        """Return what a rate rests on: attempts of one case resemble each other, so cases are told where they repeat."""
        many, cases = counted(self.attempts.n, "conversation"), len(self.attempts.cases)
        return many if cases == self.attempts.n else f"{many} of {counted(cases, 'case')}"

    def _none_evaluated(self) -> str:
        return f"none of {counted(len(self.group.members), 'conversation')} was evaluated: {self._reasons()}"

    def _reasons(self) -> str:
        found = Counter(one.reason or "no_data" for one in self.group.members if one.outcome == "not_evaluated")
        return ", ".join(f"{count:,} x {reason}" for reason, count in found.most_common())

    def _undefined(self, estimator: str, k: int) -> str:
        if estimator == "per_case":
            return f"no case has {number(k)} evaluated attempts, which {estimator} needs"
        return f"{estimator} has no estimate of {counted(self.attempts.n, 'conversation')} for k={k}"


def _rests_on(evidence: TierEvidence, basis: ClaimBasis) -> str:
    """Return the numbers that a tier rests on."""
    told = [f"{rate_name(name)} {number(value)}" for name, value in evidence.rates.items() if value is not None]
    if evidence.e_value is not None:
        told.append(f"{evidence.statement}: e-value {evidence.e_value:.3g} of {evidence.e_value_needed:.3g}")
        told.append(
            f"{counted(evidence.n, 'conversation')} of {counted(evidence.cases, 'case')} since {'none came' if basis.since_ns is None else iso(basis.since_ns)}"
        )
    return f"{evidence.estimator}: {', '.join(told)}"
