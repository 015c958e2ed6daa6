"""A baseline, in the store or a JSON file: the measured rates and metrics of each agent, and the comparison with later ones."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from otel_agentic.errors import BadInputError, UsageError
from otel_agentic.reports.conversations import iso
from otel_agentic.reports.gate_conditions import SLACK, SUCCESS, Group, Target, counted, number, parts
from otel_agentic.reports.suites import flips
from otel_agentic.results.gate import Compared, GateRow
from otel_agentic.scoring.criteria import CORRECT, fingerprint
from otel_agentic.stats.compare import Values, compare, mean_difference
from otel_agentic.stats.model import Attempts, CaseWeights, case_count
from otel_agentic.store.truth import list_baselines, load_baseline
from otel_agentic.windows import attempts_of

if TYPE_CHECKING:
    from otel_agentic.config import GateSettings, StatsSettings
    from otel_agentic.engine.engine import Engine

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_Count = Annotated[int, Field(ge=0)]
_Number = Annotated[float, Field(allow_inf_nan=False)]
_Weight = Annotated[float, Field(gt=0.0, allow_inf_nan=False)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class CaseAttempts(_Part):
    """Evaluated attempts of one case; `weights` as in `CaseWeights`, or None if all are 1."""

    dataset: str
    case_id: str
    n: Annotated[int, Field(ge=1)]
    c: _Count
    weights: tuple[_Weight, _Number, _Weight] | None = None


class WithoutCase(_Part):
    """Evaluated conversations without a case: `n` of them, all correct or none, with the same weight."""

    correct: bool
    n: Annotated[int, Field(ge=1)]
    weight: _Weight = 1.0


class CaseMean(_Part):
    """The mean of a metric over the `n` conversations of one case with a value."""

    dataset: str
    case_id: str
    mean: _Number
    n: Annotated[int, Field(ge=1)] = 1


class MetricMean(_Part):
    """The values of one metric; see `stats.compare.Values`."""

    n: Annotated[int, Field(ge=1)]
    units: Annotated[int, Field(ge=1)]
    mean: _Number
    variance: Annotated[float, Field(ge=0.0, allow_inf_nan=False)]
    cases: tuple[CaseMean, ...] = ()

    @classmethod
    def of(cls, values: Values) -> MetricMean:
        """Return values in the form in which they are stored."""
        cases = (CaseMean(dataset=key[0], case_id=key[1], mean=mean, n=n) for key, (mean, n) in values.cases.items())
        return cls(n=values.n, units=values.units, mean=values.mean, variance=values.variance, cases=tuple(cases))

    @property
    def values(self) -> Values:
        """The values in the form in which they are compared."""
        cases = {(case.dataset, case.case_id): (case.mean, case.n) for case in self.cases}
        return Values(n=self.n, units=self.units, mean=self.mean, variance=self.variance, cases=cases)


class AgentBaseline(_Part):
    """The rates and metrics of one agent; the agent is None if it is unknown."""

    agent: str | None
    versions: tuple[str, ...] = ()
    conversations: _Count
    n: _Count
    c: _Count
    cases: tuple[CaseAttempts, ...] = ()
    alone: tuple[WithoutCase, ...] = ()
    metrics: dict[str, MetricMean] = {}

    @classmethod
    def of(cls, group: Group, metrics: Mapping[str, Values]) -> AgentBaseline:
        """Return the current rates and metrics of a group."""
        with_case = {member.case_key for member in group.members if member.case_id is not None}
        attempts = attempts_of(group.members)
        cases = [case for case in attempts.cases if (case.dataset, case.case_id) in with_case]
        alone = Counter(
            (case.c == 1, case.weights.total if case.weights else 1.0)
            for case in attempts.cases
            if (case.dataset, case.case_id) not in with_case
        )
        return cls(
            agent=group.agent,
            versions=tuple(sorted({member.agent_version for member in group.members if member.agent_version})),
            conversations=len(group.members),
            n=attempts.n,
            c=attempts.c,
            cases=tuple(
                CaseAttempts(dataset=case.dataset, case_id=case.case_id, n=case.n, c=case.c, weights=case.weights)
                for case in cases
            ),
            alone=tuple(
                WithoutCase(correct=correct, n=n, weight=weight) for (correct, weight), n in sorted(alone.items())
            ),
            metrics={name: MetricMean.of(values) for name, values in sorted(metrics.items())},
        )

    @property
    def attempts(self) -> Attempts:
        """The evaluated conversations by case; each conversation without a case has a unique name."""
        cases = [
            case_count(
                (case.dataset, case.case_id), case.n, case.c, CaseWeights(*(case.weights or (case.n, case.c, case.n)))
            )
            for case in self.cases
        ]
        for index, part in enumerate(self.alone):
            weights = CaseWeights(part.weight, part.weight * part.correct, part.weight**2)
            # A name that no conversation can have.
            names = (("", f"baseline {index}/{number}") for number in range(part.n))
            cases += [case_count(name, 1, int(part.correct), weights) for name in names]
        return Attempts(cases=tuple(sorted(cases, key=lambda case: (case.dataset, case.case_id))))


class Baseline(_Part):
    """A baseline; `evaluations` are those of its scores, `last_end` is the end of its last conversation.

    Its rates are by `criterion`; `criteria` is what that meant, as in `scoring.criteria.fingerprint`.
    """

    format: Literal["otel-agentic gate baseline"] = "otel-agentic gate baseline"
    version: Literal[1] = 1
    name: str
    saved_at: str
    conversations: _Count
    last_end: str | None = None
    evaluations: tuple[str, ...] = ()
    criterion: str = CORRECT
    criteria: str = ""
    agents: tuple[AgentBaseline, ...]

    def of(self, agent: str | None) -> AgentBaseline | None:
        """Return the baseline of an agent, or None."""
        return next((candidate for candidate in self.agents if candidate.agent == agent), None)


def require_name(name: str) -> str:
    """Return the name of a stored baseline.

    Raises:
        UsageError: the name is invalid.
    """
    if _NAME.fullmatch(name) is None:
        raise UsageError(
            f"baseline {name!r}: a name is up to 100 letters, digits and ._- (or give a file that ends in .json)"
        )
    return name


def require_same_criteria(engine: Engine, baseline: Baseline, criterion: str) -> None:
    """Check that rates by a criterion may be compared with those of a baseline.

    Raises:
        UsageError: the baseline was measured by another criterion, or the criterion meant something else.
    """
    criteria = fingerprint(criterion, engine.settings.scoring)
    if (baseline.criterion, baseline.criteria) == (criterion, criteria):
        return
    raise UsageError(
        f"baseline {baseline.name!r} was measured by {_described(baseline.criterion, baseline.criteria)}, this gate by "
        f"{_described(criterion, criteria)}: their rates cannot be compared. Measure a new baseline with --save-baseline, or use "
        "--criterion and scoring.criteria of the old one"
    )


def _described(criterion: str, criteria: str) -> str:
    return f"{criterion} ({criteria})" if criteria else criterion


def measured(
    engine: Engine,
    groups: Sequence[Group],
    metrics: Mapping[str | None, Mapping[str, Values]],
    *,
    name: str,
    evaluations: Sequence[str],
    criterion: str,
) -> Baseline:
    """Return the current rates by a criterion and metrics as a baseline; `metrics` are values by agent and metric name."""
    ended = [member.ended_ns for group in groups for member in group.members]
    return Baseline(
        name=name,
        saved_at=iso(engine.store.clock()),
        conversations=len(ended),
        last_end=iso(max(ended)) if ended else None,
        evaluations=tuple(evaluations),
        criterion=criterion,
        criteria=fingerprint(criterion, engine.settings.scoring),
        agents=tuple(AgentBaseline.of(group, metrics.get(group.agent, {})) for group in groups),
    )


def stored(engine: Engine, name: str) -> Baseline:
    """Return a baseline of the store.

    Raises:
        UsageError: the name is invalid.
        BadInputError: the baseline is unknown; the message lists those of the store.
    """
    with engine.store.read() as con:
        definition = load_baseline(con, require_name(name))
        known = [row["name"] for row in list_baselines(con)]
    if definition is None:
        raise BadInputError(
            f"no baseline {name!r} in this store (saved: {', '.join(known) or 'none'}); "
            f"`otel-agentic gate --save-baseline {name}` saves one"
        )
    return read(definition, f"baseline {name!r}")


def read(definition: Any, source: str) -> Baseline:
    """Return the baseline that a JSON value defines; `source` names it in messages.

    Raises:
        BadInputError: the value is not a baseline; the message has field and reason.
    """
    try:
        return Baseline.model_validate(definition)
    except ValidationError as error:
        first = error.errors()[0]
        path = ".".join(str(part) for part in first["loc"]) or "document"
        raise BadInputError(
            f"{source} was not written by `otel-agentic gate --save-baseline`: {path}: {first['msg']}"
        ) from None


#: Cases listed in a sentence.
_MAX_CASES: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class _Change:
    """A difference, current minus baseline; `how` describes its data. The bounds are None with too little data."""

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

    def rows(self, group: Group, metrics: Mapping[str, Values]) -> Iterator[GateRow]:
        """Yield a row for each target of one agent; `metrics` are its current values, by name."""
        for target in self.targets:
            change = self._metric(target, group, metrics) if target.metric else self._rate(target, group)
            yield self._row(target, group.agent, change)

    def missing_agents(self, groups: Sequence[Group], agent: str | None) -> Iterator[GateRow]:
        """Yield a row for each agent of the baseline without conversations now; `agent` is the selected name or glob."""
        present = {group.agent for group in groups}
        for former in self.baseline.agents:
            selected = agent is None or (former.agent is not None and fnmatchcase(former.agent, agent))
            if selected and former.agent not in present and former.conversations:
                conversations = counted(former.conversations, "conversation")
                yield without_conversations(
                    former.agent, f"the baseline has {conversations} of it, this selection has none"
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

    def _row(self, target: Target, agent: str | None, change: _Change | str) -> GateRow:
        """Return the row of a change; `change` is the reason, as text, if the change is unknown."""
        best: Compared = "upper" if target.falls else "lower"
        worst: Compared = "lower" if target.falls else "upper"
        chance = target.tolerance == "chance"
        row: dict[str, Any] = {
            "condition": target.name,
            "kind": "regression",
            "agent": agent,
            "operator": ">=" if target.falls else "<=",
            "limit": "chance" if chance else -float(target.tolerance) if target.falls else float(target.tolerance),
        }
        if not isinstance(change, str) and chance and change.lower is None:
            change = (
                f"too few values to distinguish change from chance: {change.how}; at least two cases each are needed"
            )
        if isinstance(change, str):
            return GateRow(**row, n=0, verdict="no_data", reason=change)
        holds, explanation = self._compared(target, change)
        return GateRow(
            **row,
            value=change.value,
            lower=change.lower,
            upper=change.upper,
            n=change.n,
            # With the tolerance "chance", the end of the interval that is most favourable to the agent.
            compared=best if chance else "estimate" if self.conditions.bound == "estimate" else worst,
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

    def _agents(self) -> str:
        names = [str(former.agent) for former in self.baseline.agents if former.n]
        return f"; it has {', '.join(names[:5])}" if names else ""


def _broken(before: Attempts, now: Attempts) -> str:
    """Return a note on the cases whose attempts were all correct in the baseline and are not now, or an empty text."""
    before_counts, now_counts = (
        {(case.dataset, case.case_id): (case.c, case.n) for case in attempts.cases if case.dataset}
        for attempts in (before, now)
    )
    broke = [
        flip
        for flip in flips({key: (None, count) for key, count in before_counts.items()}, now_counts)
        if flip.change == "broke"
    ]
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


def without_conversations(agent: str | None, reason: str) -> GateRow:
    """Return the row of an agent without conversations."""
    return GateRow(
        condition="conversations", kind="data", agent=agent, limit=1, n=0, value=0.0, verdict="no_data", reason=reason
    )
