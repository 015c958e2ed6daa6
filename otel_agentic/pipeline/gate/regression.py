"""Conditions on change: what is worse than in the baseline, by more than chance explains, or than is allowed."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final, Literal

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
    from otel_agentic.pipeline.gate.model import Group
    from otel_agentic.pipeline.gate.targets import Target
    from otel_agentic.stats import Attempts
    from otel_agentic.stats.means import Values

#: Cases named in a sentence.
_NAMED: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class _Change:
    """What is now minus what was; `how` says what that rests on. The ends are None where there is too little of it."""

    value: float
    lower: float | None
    upper: float | None
    n: int
    how: str


@dataclass(frozen=True, kw_only=True)
class Regressions:
    """The conditions on change, against one baseline."""

    wanted: GateSettings
    stats: StatsSettings
    baseline: Baseline
    targets: Sequence[Target]

    def rows(self, group: Group, metrics: Mapping[str, Values]) -> Iterator[Row]:
        """Yield a row for each target, of one agent; `metrics` are its values now, by name."""
        for target in self.targets:
            change = self._metric(target, group, metrics) if target.metric else self._rate(target, group)
            yield (
                self._without(target, group.agent, change)
                if isinstance(change, str)
                else self._row(target, group.agent, change)
            )

    def gone(self, groups: Sequence[Group], agent: str | None) -> Iterator[Row]:
        """Yield a row for each agent of the baseline of which there is nothing now; `agent` is the name or glob asked for."""
        there = {group.agent for group in groups}
        for one in self.baseline.agents:
            wanted = agent is None or (one.agent is not None and fnmatchcase(one.agent, agent))
            if wanted and one.agent not in there and one.conversations:
                yield Row(
                    condition="conversations",
                    kind="data",
                    agent=one.agent,
                    operator=">=",
                    wanted=1,
                    n=0,
                    value=0.0,
                    verdict="no_data",
                    reason=f"the baseline has {counted(one.conversations, 'conversation')} of it, this selection none",
                )

    def _rate(self, target: Target, group: Group) -> _Change | str:
        before, now = self.baseline.of(group.agent), attempts_of(group.members)
        if not now.n:
            return f"none of {counted(len(group.members), 'conversation')} was evaluated"
        if before is None or not before.n:
            return f"the baseline has no evaluated conversation of this agent{self._agents()}"
        kind, k = parts(target.name)
        compared = compare(before.attempts, now, [k], level=self.stats.level, prior=self.stats.prior)
        # Over the same cases a mean over cases tells least chance from change; without them, rates of all are compared.
        found = compared.per_case.get(k, compared.pooled[k])
        estimate = found.pass_at_k if kind == "@" else found.pass_pow_k
        if estimate.value is None:
            return f"{target.name} has no estimate on both sides"
        how = f"{before.n:,} and {counted(now.n, 'conversation')}"
        if found.method == "paired":
            how = f"paired over {counted(found.cases, 'case')}"
        how += _broken(before.attempts, now) if target.name == SUCCESS else ""
        return _Change(value=estimate.value, lower=estimate.lower, upper=estimate.upper, n=now.n, how=how)

    def _metric(self, target: Target, group: Group, metrics: Mapping[str, Values]) -> _Change | str:
        now, one = metrics.get(target.name), self.baseline.of(group.agent)
        before = one.metrics.get(target.name) if one else None
        if now is None:
            return f"{target.name} has no value of {counted(len(group.members), 'conversation')}"
        if before is None:
            return f"the baseline has no value of {target.name} of this agent"
        found = mean_difference(before.values, now, self.stats.level, width=target.width)
        how = f"{before.n:,} and {counted(now.n, 'value')}"
        if found.method == "paired":
            how = f"paired over {counted(found.units, 'case')}"
        return _Change(value=found.value, lower=found.lower, upper=found.upper, n=now.n, how=how)

    def _row(self, target: Target, agent: str | None, change: _Change) -> Row:
        if target.tolerance == "chance" and change.lower is None:
            return self._without(
                target, agent, f"too few values to tell change from chance: {change.how}, at least two cases each"
            )
        holds, told = self._judged(target, change)
        return Row(
            condition=target.name,
            kind="regression",
            agent=agent,
            operator=">=" if target.falls else "<=",
            wanted=self._limit(target),
            value=change.value,
            lower=change.lower,
            upper=change.upper,
            n=change.n,
            held=self._held(target),
            verdict="pass" if holds else "fail",
            reason=f"{told} ({change.how})",
        )

    def _judged(self, target: Target, change: _Change) -> tuple[bool, str]:
        """Return whether a change is good enough, and what is said of it. Below, less is worse; else signs are turned."""
        sign = 1.0 if target.falls else -1.0
        value = sign * change.value
        ends = sorted(sign * end for end in (change.lower, change.upper) if end is not None)
        told = _told(value, ends, self.stats.level)
        if target.tolerance == "chance":
            return not ends[1] < 0.0, told
        held = ends[0] if self.wanted.bound == "lower" and ends else value
        holds = held >= -target.tolerance - SLACK
        if holds or value < -target.tolerance - SLACK:
            return holds, told
        return holds, f"{told}; it may be worse by {number(-ends[0])}"

    def _held(self, target: Target) -> Literal["estimate", "lower", "upper"]:
        """Return which end is held against the limit: by chance, the one that speaks best for the agent."""
        best, worst = ("upper", "lower") if target.falls else ("lower", "upper")
        if target.tolerance == "chance":
            return "upper" if best == "upper" else "lower"
        if self.wanted.bound == "estimate":
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
            wanted=self._limit(target),
            n=0,
            verdict="no_data",
            reason=reason,
        )

    def _agents(self) -> str:
        names = [str(one.agent) for one in self.baseline.agents if one.n]
        return f"; it has {', '.join(names[:5])}" if names else ""


def _broken(before: Attempts, now: Attempts) -> str:
    """Return the cases of which all attempts were right, and now one is not."""
    known, counts = (
        {(case.dataset, case.case_id): (case.c, case.n) for case in each.cases if case.dataset}
        for each in (before, now)
    )
    broke = [flip for flip in flips({key: (None, count) for key, count in known.items()}, counts) if flip.broke]
    if not broke:
        return ""
    told = [f"{one.case_id} ({one.now[0]:,} of {one.now[1]:,} correct)" for one in broke[:_NAMED]]
    more = f" and {len(broke) - _NAMED:,} more" if len(broke) > _NAMED else ""
    return f"; all right before, and not now: {', '.join(told)}{more}"


def _told(value: float, ends: Sequence[float], level: float) -> str:
    """Return what is said of a change whose worse side is below 0."""
    if not ends:
        return "worse" if value < 0 else "no worse"
    if ends[1] < 0.0:
        return f"worse by more than chance explains at {level * 100:g} %"
    if ends[0] > 0.0:
        return "better by more than chance explains"
    if value < -SLACK:
        return "worse, by no more than chance explains"
    return "no worse"
