"""Conditions on change: rates and means that are worse than in the baseline, by more than chance explains or allowed."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

from otel_agentic.pipeline.gate.model import Row
from otel_agentic.pipeline.gate.rates import SLACK
from otel_agentic.pipeline.gate.targets import SUCCESS, parts
from otel_agentic.pipeline.gate.words import counted, number
from otel_agentic.pipeline.suite_trend import flips
from otel_agentic.stats.compare import compare
from otel_agentic.stats.means import mean_difference
from otel_agentic.windows import attempts_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from otel_agentic.config import GateSettings, StatsSettings
    from otel_agentic.pipeline.gate.baseline import Baseline
    from otel_agentic.pipeline.gate.model import Compared, Group
    from otel_agentic.pipeline.gate.targets import Target
    from otel_agentic.stats import Attempts
    from otel_agentic.stats.means import Values

#: Cases listed in a sentence.
_MAX_CASES: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class _Change:
    """A difference, now minus then; `how` describes its data. The ends of the interval are None with too little data."""

    value: float
    lower: float | None
    upper: float | None
    n: int
    how: str


@dataclass(frozen=True, kw_only=True)
class Regressions:
    """Checks the conditions on change from one baseline."""

    conditions: GateSettings
    stats: StatsSettings
    baseline: Baseline
    targets: Sequence[Target]

    def rows(self, group: Group, metrics: Mapping[str, Values]) -> Iterator[Row]:
        """Yield a row for each target of one agent; `metrics` are its current values, by name."""
        for target in self.targets:
            change = self._metric(target, group, metrics) if target.metric else self._rate(target, group)
            yield (
                self._without(target, group.agent, change)
                if isinstance(change, str)
                else self._row(target, group.agent, change)
            )

    def missing_agents(self, groups: Sequence[Group], agent: str | None) -> Iterator[Row]:
        """Yield a row for each agent of the baseline without conversations now; `agent` is the selected name or glob."""
        present = {group.agent for group in groups}
        for former in self.baseline.agents:
            selected = agent is None or (former.agent is not None and fnmatchcase(former.agent, agent))
            if selected and former.agent not in present and former.conversations:
                yield Row(
                    condition="conversations",
                    kind="data",
                    agent=former.agent,
                    operator=">=",
                    limit=1,
                    n=0,
                    value=0.0,
                    verdict="no_data",
                    reason=f"the baseline has {counted(former.conversations, 'conversation')} of it, this selection has none",
                )

    def _rate(self, target: Target, group: Group) -> _Change | str:
        before, now = self.baseline.of(group.agent), attempts_of(group.members)
        if not now.n:
            return f"none of {counted(len(group.members), 'conversation')} was evaluated"
        if before is None or not before.n:
            return f"the baseline has no evaluated conversation of this agent{self._agents()}"
        kind, k = parts(target.name)
        compared = compare(before.attempts, now, [k], level=self.stats.level, prior=self.stats.prior)
        # Paired by case the difference has the least variance; without common cases, the rates of all are compared.
        comparison = compared.per_case.get(k, compared.pooled[k])
        estimate = comparison.pass_at_k if kind == "@" else comparison.pass_pow_k
        if estimate.value is None:
            return f"{target.name} has no estimate on both sides"
        how = f"{before.n:,} and {counted(now.n, 'conversation')}"
        if comparison.method == "paired":
            how = f"paired over {counted(comparison.cases, 'case')}"
        how += _broken(before.attempts, now) if target.name == SUCCESS else ""
        return _Change(value=estimate.value, lower=estimate.lower, upper=estimate.upper, n=now.n, how=how)

    def _metric(self, target: Target, group: Group, metrics: Mapping[str, Values]) -> _Change | str:
        now, former = metrics.get(target.name), self.baseline.of(group.agent)
        before = former.metrics.get(target.name) if former else None
        if now is None:
            return f"{target.name} has no value for {counted(len(group.members), 'conversation')}"
        if before is None:
            return f"the baseline has no value of {target.name} of this agent"
        difference = mean_difference(before.values, now, self.stats.level, width=target.width)
        how = f"{before.n:,} and {counted(now.n, 'value')}"
        if difference.method == "paired":
            how = f"paired over {counted(difference.units, 'case')}"
        return _Change(value=difference.value, lower=difference.lower, upper=difference.upper, n=now.n, how=how)

    def _row(self, target: Target, agent: str | None, change: _Change) -> Row:
        if target.tolerance == "chance" and change.lower is None:
            return self._without(
                target,
                agent,
                f"too few values to distinguish change from chance: {change.how}; at least two cases each are needed",
            )
        holds, explanation = self._compared(target, change)
        return Row(
            condition=target.name,
            kind="regression",
            agent=agent,
            operator=">=" if target.falls else "<=",
            limit=self._limit(target),
            value=change.value,
            lower=change.lower,
            upper=change.upper,
            n=change.n,
            compared=self._compared_end(target),
            verdict="pass" if holds else "fail",
            reason=f"{explanation} ({change.how})",
        )

    def _compared(self, target: Target, change: _Change) -> tuple[bool, str]:
        """Return whether a change is acceptable, and an explanation. Signs are inverted if higher values are worse."""
        sign = 1.0 if target.falls else -1.0
        value = sign * change.value
        ends = sorted(sign * end for end in (change.lower, change.upper) if end is not None)
        explanation = _explanation(value, ends, self.stats.level)
        if target.tolerance == "chance":
            return not ends[1] < 0.0, explanation
        compared = ends[0] if self.conditions.bound == "lower" and ends else value
        holds = compared >= -target.tolerance - SLACK
        if holds or value < -target.tolerance - SLACK:
            return holds, explanation
        return holds, f"{explanation}; it may be worse by {number(-ends[0])}"

    def _compared_end(self, target: Target) -> Compared:
        """Return the end of the interval that is compared: for the tolerance "chance" the one most favourable to the agent."""
        best, worst = ("upper", "lower") if target.falls else ("lower", "upper")
        if target.tolerance == "chance":
            return "upper" if best == "upper" else "lower"
        if self.conditions.bound == "estimate":
            return "estimate"
        return "lower" if worst == "lower" else "upper"

    def _limit(self, target: Target) -> float | str:
        if target.tolerance == "chance":
            return "chance"
        return -target.tolerance if target.falls else target.tolerance

    def _without(self, target: Target, agent: str | None, reason: str) -> Row:
        return Row(
            condition=target.name,
            kind="regression",
            agent=agent,
            operator=">=" if target.falls else "<=",
            limit=self._limit(target),
            n=0,
            verdict="no_data",
            reason=reason,
        )

    def _agents(self) -> str:
        names = [str(former.agent) for former in self.baseline.agents if former.n]
        return f"; it has {', '.join(names[:5])}" if names else ""


def _broken(before: Attempts, now: Attempts) -> str:
    """Return the cases whose attempts were all correct in the baseline and are not now."""
    known, counts = (
        {(case.dataset, case.case_id): (case.c, case.n) for case in attempts.cases if case.dataset}
        for attempts in (before, now)
    )
    broke = [flip for flip in flips({key: (None, count) for key, count in known.items()}, counts) if flip.broke]
    if not broke:
        return ""
    cases = [f"{flip.case_id} ({flip.now[0]:,} of {flip.now[1]:,} correct)" for flip in broke[:_MAX_CASES]]
    more = f" and {len(broke) - _MAX_CASES:,} more" if len(broke) > _MAX_CASES else ""
    return f"; always correct before, not now: {', '.join(cases)}{more}"


def _explanation(value: float, ends: Sequence[float], level: float) -> str:
    """Return the explanation of a change that is worse if it is below 0."""
    if not ends:
        return "worse" if value < 0 else "no worse"
    if ends[1] < 0.0:
        return f"worse by more than chance explains at {level * 100:g} %"
    if ends[0] > 0.0:
        return "better by more than chance explains"
    if value < -SLACK:
        return "worse, by no more than chance explains"
    return "no worse"
