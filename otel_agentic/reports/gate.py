"""The quality gate: every condition for every selected agent, on rates, metrics, failures and regressions from a baseline."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.config import EvaluatorSettings, GateSettings, StatsSettings, Threshold
from otel_agentic.errors import UsageError
from otel_agentic.evaluators.registry import all_evaluators, metric_named
from otel_agentic.evaluators.run import CORE_METRICS
from otel_agentic.reports.baselines import (
    Baseline,
    Regressions,
    measured,
    require_same_criteria,
    without_conversations,
)
from otel_agentic.reports.conversations import iso, wrong_clocks_of
from otel_agentic.reports.criteria import rule
from otel_agentic.reports.failures import Failures, found_failures
from otel_agentic.reports.gate_conditions import (
    ALL,
    SLACK,
    GateSelection,
    Group,
    counted,
    evidence,
    is_rate,
    number,
    targets,
)
from otel_agentic.reports.metric_summary import MetricSummary, metric_summaries
from otel_agentic.results.gate import BaselineUsed, GateResult, GateRow, Operator, Verdict
from otel_agentic.scoring.criteria import CORRECT
from otel_agentic.stats import (
    Attempts,
    Estimator,
    TierEvidence,
    claim_tier,
    headline_estimator,
    pooled_sample,
    rate_name,
)
from otel_agentic.stats.compare import Values
from otel_agentic.stats.estimators import Kind, exact_bounds, exact_rate, more_needed
from otel_agentic.store.connection import DEFAULT
from otel_agentic.store.truth import evaluations_of, metric_means
from otel_agentic.windows import ClaimBasis, attempts_of

if TYPE_CHECKING:
    from otel_agentic.engine.engine import Engine
    from otel_agentic.evaluators.base import AnyEvaluator, Metric
    from otel_agentic.evaluators.failures import ErrorGroup
    from otel_agentic.results import reports as results

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

    def rows(self) -> Iterator[GateRow]:
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

    def _row(self, condition: str, limit: float | str, **measured: Any) -> GateRow:
        """Return the row of a condition; without measured values, its verdict is `no_data`."""
        defaults: dict[str, Any] = {"kind": "rate", "n": self.attempts.n, "verdict": "no_data"}
        return GateRow(condition=condition, agent=self.group.agent, limit=limit, **defaults | measured)

    def _least_n(self, limit: int) -> GateRow:
        n = self.attempts.n
        reason = (
            "enough were evaluated" if n >= limit else f"{counted(limit - n, 'more evaluated conversation')} required"
        )
        return self._row(
            "n",
            limit,
            value=n,
            verdict=_verdict(n >= limit) if n else "no_data",
            reason=reason if n else f"{reason}; {self._none_evaluated()}",
        )

    def _coverage(self, limit: float) -> GateRow:
        n, total = self.attempts.n, self.group.size
        missing = f"{total - n:,} of {counted(total, 'conversation')} not evaluated: {self._reasons()}"
        return self._row(
            "coverage",
            limit,
            value=n / total,
            n=total,
            verdict=_verdict(n / total >= limit - SLACK),
            reason=missing if n < total else "every conversation was evaluated",
        )

    def _success(self, limit: float) -> GateRow:
        sample = pooled_sample(self.attempts)
        if sample is None:
            return self._row("success", limit, reason=self._none_evaluated())
        more = more_needed(self.attempts, "pass_pow_k", 1, limit, self._stats.level)
        ends = exact_rate(sample, self._stats.level)
        return self._compared("success", limit, sample.observed, ends, more, interval=INTERVAL)

    def _pass_k(self, kind: Kind, k: int, limit: float) -> GateRow:
        name = f"{_SIGNS[kind]}{k}"
        if not self.attempts.n:
            return self._row(name, limit, reason=self._none_evaluated())
        estimator = self._estimator
        estimates = estimator.estimate(self.attempts, [k])
        estimate = getattr(estimates, kind)[k]
        if estimate.value is None:
            return self._row(name, limit, reason=self._undefined(estimator.name, k))
        exact = exact_bounds(estimator.name, self.attempts, kind, k, self._stats.level)
        pooled = estimator.name != "per_case" and exact is not None
        more = more_needed(self.attempts, kind, k, limit, self._stats.level) if pooled else None
        # An estimate that is not a count may be outside the exact bounds, which are computed from counts.
        bounds = [end for end in (exact or (estimate.lower, estimate.upper)) if end is not None]
        ends = (min(estimate.value, *bounds), max(estimate.value, *bounds)) if bounds else (estimate.value,) * 2
        interval = estimates.interval_method if exact is None else INTERVAL
        return self._compared(name, limit, estimate.value, ends, more, estimator=estimator.name, interval=interval)

    @cached_property
    def _estimator(self) -> Estimator:
        """The requested estimator, else that of the settings."""
        return self.engine.estimators(self.estimator or headline_estimator(self._stats))[0]

    def _compared(
        self, name: str, limit: float, value: float, ends: tuple[float, float], more: int | None, **methods: str
    ) -> GateRow:
        lower, upper = ends
        compared = lower if self.conditions.bound == "lower" else value
        return self._row(
            name,
            limit,
            value=value,
            lower=lower,
            upper=upper,
            compared=self.conditions.bound,
            verdict=_verdict(compared >= limit - SLACK),
            reason=evidence(
                value=value,
                lower=lower,
                upper=upper,
                limit=limit,
                bound=self.conditions.bound,
                level=self._stats.level,
                data=self._data(),
                more=more,
            ),
            **methods,
        )

    def _tier(self) -> GateRow:
        allowed = " or ".join(self.conditions.tiers)
        if not self.attempts.n:
            return self._row("tier", allowed, kind="tier", operator="in", reason=self._none_evaluated())
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
        return self._row(
            "tier",
            allowed,
            kind="tier",
            operator="in",
            label=claim.tier,
            n=attempts.n,
            verdict=_verdict(claim.tier in self.conditions.tiers),
            reason=reason,
        )

    def _data(self) -> str:
        """Return a description of the data of a rate; it counts the cases if they repeat."""
        conversations, cases = counted(self.attempts.n, "conversation"), len(self.attempts.cases)
        return conversations if cases == self.attempts.n else f"{conversations} of {counted(cases, 'case')}"

    def _none_evaluated(self) -> str:
        return f"none of {counted(self.group.size, 'conversation')} was evaluated: {self._reasons()}"

    def _reasons(self) -> str:
        return ", ".join(f"{count:,} x {reason}" for reason, count in self.group.not_evaluated.most_common())

    def _undefined(self, estimator: str, k: int) -> str:
        if estimator == "per_case":
            return f"no case has {number(k)} evaluated attempts, which {estimator} needs"
        return f"{estimator} has no estimate for {counted(self.attempts.n, 'conversation')} and k={k}"


def _verdict(holds: bool) -> Verdict:  # noqa: FBT001 — the only argument
    return "pass" if holds else "fail"


def _evidence_numbers(evidence: TierEvidence, basis: ClaimBasis) -> str:
    """Return the numbers that a tier is based on."""
    numbers = [f"{rate_name(name)} {number(value)}" for name, value in evidence.rates.items() if value is not None]
    if evidence.e_value is not None:
        numbers.append(f"{evidence.statement}: e-value {evidence.e_value:.3g} of {evidence.e_value_needed:.3g}")
        since = "no data" if basis.since_ns is None else iso(basis.since_ns)
        numbers.append(f"{counted(evidence.n, 'conversation')} of {counted(evidence.cases, 'case')} since {since}")
    return f"{evidence.estimator}: {', '.join(numbers)}"


#: Causes of failures listed in a sentence.
_MAX_CAUSES = 3
_CORE = frozenset(metric.name for metric in CORE_METRICS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """A lower or upper limit for the mean of a metric."""

    metric: Metric
    operator: Operator
    value: float

    def met_by(self, mean: float) -> bool:
        """Return whether a mean meets the limit."""
        return mean >= self.value - SLACK if self.operator == ">=" else mean <= self.value + SLACK


def limits_of(conditions: GateSettings, settings: EvaluatorSettings, evaluators: Sequence[AnyEvaluator]) -> list[Limit]:
    """Return the limits of metric means; those of the gate replace those of the evaluators.

    Raises:
        UsageError: a metric is unknown or ambiguous, or a limit needs a direction because the metric does not have one.
    """
    thresholds: dict[str, tuple[Metric, Threshold]] = {}
    for name, threshold in settings.thresholds.items():
        if _CORE.isdisjoint({name, f"agentic.{name}"}):
            metric = _named("evaluators.thresholds", name, evaluators)
            thresholds[metric.name] = (metric, threshold)
    for name, value in conditions.thresholds.items():
        metric = _named("--threshold", name, evaluators)
        threshold = value if isinstance(value, Threshold) else _by_direction(metric, name, value)
        thresholds[metric.name] = (metric, threshold)
    return [limit for metric, threshold in thresholds.values() for limit in _limits(metric, threshold)]


def named_metrics(names: Sequence[str], flag: str, evaluators: Sequence[AnyEvaluator]) -> dict[str, Metric]:
    """Return metrics by the names, or parts of names, that users wrote.

    Raises:
        UsageError: a metric is unknown or ambiguous.
    """
    return {name: _named(flag, name, evaluators) for name in names}


def limit_row(limit: Limit, group: Group, summary: MetricSummary | None) -> GateRow:
    """Return the row of a limit on the mean of a metric in a group."""
    value = summary.summary.mean if summary else None
    holds = value is not None and limit.met_by(value)
    return GateRow(
        condition=limit.metric.name,
        kind="metric",
        agent=group.agent,
        operator=limit.operator,
        limit=limit.value,
        value=value,
        n=summary.summary.n if summary else 0,
        verdict="no_data" if value is None else _verdict(holds),
        reason=_why_missing(limit.metric, group, summary)
        if summary is None or value is None
        else _score_range(summary, group, holds=holds),
    )


def severity_row(conditions: GateSettings, group: Group, failures: Failures, checked: int) -> GateRow:
    """Return the row of the condition on severe failures; `checked` conversations of the group could have one."""
    causes = failures.of_agent(group.agent).groups
    count = sum(cause.count for cause in causes)
    reason = _no_failures(group, checked) if checked else _not_scored(group)
    if causes:
        reason = "; ".join(_causes(causes))
    severity = conditions.fail_on_severity
    return GateRow(
        condition="severity",
        kind="severity",
        agent=group.agent,
        operator="=",
        limit=0,
        value=float(count) if causes or checked else None,
        label=severity if severity == "critical" else f"{severity} or worse",
        n=max(checked, sum(cause.conversations for cause in causes)),
        verdict="fail" if causes else "pass" if checked else "no_data",
        reason=reason,
    )


def _causes(groups: Sequence[ErrorGroup]) -> Iterator[str]:
    """Yield the most severe causes, each with an example."""
    for cause in groups[:_MAX_CAUSES]:
        example = cause.example.location.conversation_id
        yield f"{cause.conversations:,} x {cause.title} ({cause.severity}), for example conversation {example}"
    if len(groups) > _MAX_CAUSES:
        yield f"and {counted(len(groups) - _MAX_CAUSES, 'more cause')}: `otel-agentic failures` lists them"


def _named(flag: str, name: str, evaluators: Sequence[AnyEvaluator]) -> Metric:
    try:
        return metric_named(name, evaluators)
    except UsageError as error:
        raise UsageError(f"{flag} {name}: {error}") from None


def _by_direction(metric: Metric, name: str, limit: float) -> Threshold:
    if metric.higher_is_better is None:
        raise UsageError(
            f"--threshold {name}={number(limit)}: {metric.name} has no better direction; "
            f"give one, '{name}>={number(limit)}' or '{name}<={number(limit)}'"
        )
    return Threshold(min=limit) if metric.higher_is_better else Threshold(max=limit)


def _limits(metric: Metric, threshold: Threshold) -> Iterator[Limit]:
    if threshold.min is not None:
        yield Limit(metric=metric, operator=">=", value=threshold.min)
    if threshold.max is not None:
        yield Limit(metric=metric, operator="<=", value=threshold.max)


def _score_range(metric: MetricSummary, group: Group, *, holds: bool) -> str:
    met, summary = "the mean meets it" if holds else "the mean does not meet it", metric.summary
    text = (
        f"{met}; of {counted(summary.n, 'score')} the lowest is {_text(summary.low)}, the highest {_text(summary.high)}"
    )
    missing = _missing(summary)
    text += f"; not scored: {missing}" if missing else ""
    not_computed = 0 if metric.looked_at is None else group.size - metric.looked_at
    return f"{text}; not computed for {counted(not_computed, 'conversation')}" if not_computed > 0 else text


def _why_missing(metric: Metric, group: Group, known: MetricSummary | None) -> str:
    summary = None if known is None else known.summary
    if summary is None or (not summary.n and not summary.not_evaluated):
        conversations = counted(group.size, "conversation")
        return f"{_short(metric)} was not computed for {conversations}; run `otel-agentic evaluate --metrics {_short(metric)}`"
    if summary.n:
        return f"{_short(metric)} has labels, not values; --fail-on-severity checks these"
    explanation = f": {summary.explanation}" if summary.explanation else ""
    return f"{_short(metric)} has no score: {_missing(summary)}{explanation}"


def _short(metric: Metric) -> str:
    return metric.name.removeprefix("agentic.")


def _missing(summary: results.MetricSummary) -> str:
    return ", ".join(f"{count:,} x {reason}" for reason, count in summary.not_evaluated.items())


def _not_scored(group: Group) -> str:
    return f"none of {counted(group.size, 'conversation')} was evaluated, so no failure could be detected"


def _no_failures(group: Group, checked: int) -> str:
    not_evaluated = group.size - checked
    text = f"none in {counted(checked, 'conversation')}"
    return f"{text}; {not_evaluated:,} more not evaluated" if not_evaluated > 0 else text


def _text(value: float | None) -> str:
    return "unknown" if value is None else number(value)


#: Conditions that may be allowed to have no data, in addition to metrics and rates.
_CONDITIONS: Final = (
    ALL, "conversations", "coverage", "n", "success", "tier", "severity", "metric", "rate", "regression",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Gate:
    """One run of the gate: the conditions, and the conversations of each agent."""

    engine: Engine
    conditions: GateSettings
    selection: GateSelection
    groups: Sequence[Group]
    estimator: str | None = None
    baseline: Baseline | None = None
    evaluators: Sequence[AnyEvaluator] = field(default=())

    @classmethod
    def of(
        cls,
        engine: Engine,
        conditions: GateSettings,
        selection: GateSelection,
        estimator: str | None,
        baseline: Baseline | None,
        *,
        measures: bool = False,
    ) -> Gate:
        """Return the gate after a check of the names in its conditions.

        With `measures`, its result may contain the current rates and metrics. Measuring, a baseline or a narrower selection
        requires each conversation to be read; otherwise, equal ones are counted.

        Raises:
            UsageError: a metric, a window, a criterion or a condition is unknown, or the baseline is by other criteria.
            PluginError: the estimator is unknown, or an evaluator does not load.
            BadInputError: no case has the tag of the suite.
        """
        if estimator is not None:
            engine.estimators(estimator)
        if conditions.tiers and selection.criterion != CORRECT:
            raise UsageError(
                f"--tier is about the criterion {CORRECT}; leave it out with --criterion {selection.criterion!r}"
            )
        if baseline is not None:
            require_same_criteria(engine, baseline, selection.criterion)
        gate = cls(
            engine=engine,
            conditions=conditions,
            selection=selection,
            groups=selection.groups(engine, by_kind=not (measures or baseline is not None or selection.narrows)),
            estimator=estimator,
            baseline=baseline,
            evaluators=all_evaluators(engine.settings.evaluators),
        )
        _ = gate.limits, gate.regressions, gate.allowed  # reports unknown names even if there is no data
        return gate

    @cached_property
    def limits(self) -> list[Limit]:
        """The limits of metric means."""
        return limits_of(self.conditions, self.engine.settings.evaluators, self.evaluators)

    @cached_property
    def regressions(self) -> Regressions | None:
        """The comparison with the baseline, or None without one."""
        names = [name for name in self.conditions.max_regression if not is_rate(name)]
        named = named_metrics(names, "--max-regression", self.evaluators)
        metrics = dict.fromkeys(limit.metric.name for limit in self.limits)
        limited = [metric_named(name, self.evaluators) for name in metrics]
        compared = targets(self.conditions, named, limited)
        if self.baseline is None:
            if self.conditions.max_regression or self.conditions.max_drop is not None:
                raise UsageError("--max-regression and --max-drop need a --baseline to compare with")
            return None
        stats = self.engine.settings.stats
        return Regressions(conditions=self.conditions, stats=stats, baseline=self.baseline, targets=compared)

    @cached_property
    def allowed(self) -> frozenset[str]:
        """The conditions that may have no data; metrics by their full names.

        Raises:
            UsageError: a name is neither a condition nor a metric.
        """
        return frozenset(self._full_name(name) for name in self.conditions.allow_no_data)

    def _full_name(self, name: str) -> str:
        if name in _CONDITIONS or is_rate(name):
            return name
        try:
            return metric_named(name, self.evaluators).name
        except UsageError as error:
            raise UsageError(
                f"--allow-no-data {name}: neither a condition ({', '.join(_CONDITIONS)}, pass^K, pass@K) nor a metric: {error}"
            ) from None

    def rows(self) -> list[GateRow]:
        """Return a row for each condition of each agent; a single row without data if there are no conversations."""
        return [
            replace(
                row, allowed=row.verdict == "no_data" and not self.allowed.isdisjoint({row.condition, row.kind, ALL})
            )
            for row in self._rows()
        ]

    def _rows(self) -> Iterator[GateRow]:
        if not self.groups:
            reason = "no closed conversation in this selection; see `otel-agentic conversations list`"
            yield without_conversations(None, reason)
        for group in self.groups:
            yield from Rates(
                engine=self.engine,
                conditions=self.conditions,
                group=group,
                selection=self.selection,
                estimator=self.estimator,
            ).rows()
            yield from self._metric_rows(group)
            if self.regressions is not None:
                yield from self.regressions.rows(group, self.values.get(group.agent, {}))
        if self.regressions is not None:
            yield from self.regressions.missing_agents(self.groups, self.selection.agent)

    def _metric_rows(self, group: Group) -> Iterator[GateRow]:
        for limit in self.limits:
            yield limit_row(limit, group, self._summaries.get((group.agent, limit.metric.name)))
        if self.conditions.fail_on_severity != "none":
            yield severity_row(self.conditions, group, self._failures, self._checked(group))

    @cached_property
    def _failures(self) -> Failures:
        assert self.conditions.fail_on_severity != "none"  # noqa: S101 — used for this condition only
        failures = found_failures(self.engine, self.selection, keys=self._keys, listed=0)
        return failures.of(self.conditions.fail_on_severity)

    @cached_property
    def _summaries(self) -> Mapping[tuple[str | None, str], MetricSummary]:
        summaries = metric_summaries(
            self.engine,
            self.selection,
            names=sorted({limit.metric.name for limit in self.limits}),
            keys=self._keys,
        )
        owners = {metric.name: evaluator.name for evaluator in self.evaluators for metric in evaluator.metrics}
        # The store may contain scores of the same name from an evaluator that is no longer installed.
        return {
            (metric.agent, metric.summary.name): metric
            for metric in summaries
            if owners[metric.summary.name] == metric.summary.evaluator
        }

    def _checked(self, group: Group) -> int:
        """Return how many conversations could have a failure: evaluated ones, or with a score that may be a failure."""
        if group.evaluated:
            return group.evaluated
        rules = self._failures.rules
        may_fail = [name for name, metric in rules.metrics.items() if metric.failing or name in rules.thresholds]
        return max(
            (
                metric.summary.conversations
                for metric in metric_summaries(self.engine, self.selection, keys=self._keys)
                if metric.agent == group.agent and metric.summary.name in may_fail and metric.summary.n
            ),
            default=0,
        )

    @property
    def _keys(self) -> frozenset[tuple[str, str]] | None:
        """The checked conversations, or None if these are all of the selection."""
        return frozenset().union(*(group.keys for group in self.groups)) if self.selection.narrows else None

    @cached_property
    def values(self) -> Mapping[str | None, Mapping[str, Values]]:
        """The values of metrics, by agent and metric name."""
        with self.engine.store.read() as con:
            rows_of_means = metric_means(con, self.selection)
        owners = {
            (member.environment, member.conversation_id): (
                group.agent,
                member.case_key if member.case_id is not None else None,
            )
            for group in self.groups
            for member in group.members
        }
        rows: dict[str | None, dict[str, list[Any]]] = {}
        for environment, conversation_id, name, mean in rows_of_means:
            owner = owners.get((environment, conversation_id))
            if owner is not None:
                rows.setdefault(owner[0], {}).setdefault(name, []).append((owner[1], mean))
        return {
            agent: {name: values for name, pairs in by_name.items() if (values := Values.of(pairs))}
            for agent, by_name in rows.items()
        }

    def result(self, measure: str | None = None) -> GateResult:
        """Return the verdict; with `measure`, also the current rates and metrics as a baseline."""
        evaluation, baseline, rows = self.engine.store.evaluation, self.baseline, self.rows()
        other = [] if evaluation == DEFAULT else [f"evaluation {evaluation}, not the default one"]
        if (criterion := self.selection.criterion) != CORRECT:
            other.append(f"success means: {rule(self.engine, criterion)}")
        return GateResult(
            evaluation=evaluation,
            criterion=self.selection.criterion,
            passed=not any(row.stops for row in rows),
            agents=[group.agent for group in self.groups],
            conversations=sum(group.size for group in self.groups),
            evaluated=sum(group.evaluated for group in self.groups),
            level=self.engine.settings.stats.level,
            bound=self.conditions.bound,
            baseline=None
            if baseline is None
            else BaselineUsed(name=baseline.name, saved_at=baseline.saved_at, conversations=baseline.conversations),
            rows=rows,
            not_evaluated=self.reasons,
            notes=[*other, *self.notes()],
            measured=None if measure is None else self._measured(measure).model_dump(mode="json"),
        )

    def _measured(self, name: str) -> Baseline:
        return measured(
            self.engine,
            self.groups,
            self.values,
            name=name,
            evaluations=self.evaluations,
            criterion=self.selection.criterion,
        )

    @cached_property
    def evaluations(self) -> tuple[str, ...]:
        """The evaluations of the scores."""
        with self.engine.store.read() as con:
            return evaluations_of(con, self.selection)

    @property
    def reasons(self) -> dict[str, int]:
        """The reasons why conversations were not evaluated, with counts."""
        return dict(sorted(sum((group.not_evaluated for group in self.groups), Counter[str]()).items()))

    def notes(self) -> Iterator[str]:
        """Yield notes on the conversations and on the comparison with the baseline."""
        yield from (clock.note for clock in wrong_clocks_of(self.engine.store))
        if self.baseline is None:
            return
        if self.groups and set(self.evaluations) != set(self.baseline.evaluations):
            yield (
                "the baseline was scored under another evaluator version (cases, judge or settings differ), which may explain a "
                "difference"
            )
        last = self.baseline.last_end
        ends = (
            bisect_right(group.members, last, key=lambda member: iso(member.ended_ns)) for group in self.groups if last
        )
        early = sum(ends)
        if early:
            yield (
                f"{early:,} of the conversations ended no later than the baseline's last one, and may be part of it; use --since to "
                "select later ones only"
            )
