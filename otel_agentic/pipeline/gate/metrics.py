"""Conditions on metrics: the mean against a limit, and no failure of a severity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from otel_agentic.config import Threshold
from otel_agentic.errors import UsageError
from otel_agentic.evaluators.core import CORE_METRICS
from otel_agentic.evaluators.registry import metric_named
from otel_agentic.pipeline.gate.model import Row
from otel_agentic.pipeline.gate.rates import SLACK
from otel_agentic.pipeline.gate.words import counted, number

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from otel_agentic.config import EvaluatorSettings, GateSettings
    from otel_agentic.evaluators.base import AnyEvaluator, Metric
    from otel_agentic.pipeline.failures import Failures
    from otel_agentic.pipeline.gate.model import Group, Operator
    from otel_agentic.pipeline.metric_summary import MetricSummary

#: Causes of failures named in a sentence.
_NAMED = 3
_CORE = frozenset(metric.name for metric in CORE_METRICS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """A least or a most mean of a metric."""

    metric: Metric
    operator: Operator
    wanted: float

    def met_by(self, value: float) -> bool:
        """Return whether a mean is good enough."""
        return value >= self.wanted - SLACK if self.operator == ">=" else value <= self.wanted + SLACK


def limits_of(wanted: GateSettings, settings: EvaluatorSettings, evaluators: Sequence[AnyEvaluator]) -> list[Limit]:
    """Return the limits of means, by metric: those of the gate in the place of those of the evaluators.

    Raises:
        UsageError: there is no metric of a name, or several; or a limit has no direction: of its metric neither more nor
            less is better.
    """
    found: dict[str, tuple[Metric, Threshold]] = {}
    for name, threshold in settings.thresholds.items():
        if _CORE.isdisjoint({name, f"agentic.{name}"}):
            metric = _named("evaluators.thresholds", name, evaluators)
            found[metric.name] = (metric, threshold)
    for name, given in wanted.thresholds.items():
        metric = _named("--threshold", name, evaluators)
        found[metric.name] = (metric, given if isinstance(given, Threshold) else _by_direction(metric, name, given))
    return [limit for metric, threshold in found.values() for limit in _limits(metric, threshold)]


def named_metrics(names: Sequence[str], flag: str, evaluators: Sequence[AnyEvaluator]) -> dict[str, Metric]:
    """Return the metrics that names mean, by those names.

    Raises:
        UsageError: there is none of a name, or several.
    """
    return {name: _named(flag, name, evaluators) for name in names}


def limit_row(limit: Limit, group: Group, summary: MetricSummary | None) -> Row:
    """Return whether the mean of a metric is good enough, in one group."""
    n = summary.n if summary else 0
    value = summary.mean if summary else None
    holds = value is not None and limit.met_by(value)
    return Row(
        condition=limit.metric.name,
        kind="metric",
        agent=group.agent,
        operator=limit.operator,
        wanted=limit.wanted,
        value=value,
        n=n,
        verdict="no_data" if value is None else "pass" if holds else "fail",
        reason=_why_none(limit.metric, group, summary)
        if summary is None or value is None
        else _spread(summary, group, holds=holds),
    )


def severity_row(wanted: GateSettings, group: Group, failures: Failures, looked_at: int) -> Row:
    """Return whether a group has no failure of the severity; `looked_at` conversations could have one."""
    own = [failure for failure in failures.failures if failure.place.agent == group.agent]
    keys = {(failure.place.environment, failure.place.conversation_id) for failure in own}
    verdict, reason = ("no_data", _nothing_scored(group)) if not looked_at else ("pass", _clean(group, looked_at))
    if own:
        verdict, reason = "fail", "; ".join(_causes(failures, group))
    least = wanted.fail_on_severity
    return Row(
        condition="severity",
        kind="severity",
        agent=group.agent,
        operator="=",
        wanted=0,
        value=float(len(own)) if own or looked_at else None,
        told=least if least == "critical" else f"{least} or worse",
        n=max(looked_at, len(keys)),
        verdict="fail" if verdict == "fail" else "no_data" if verdict == "no_data" else "pass",
        reason=reason,
    )


def _causes(failures: Failures, group: Group) -> Iterator[str]:
    """Yield the worst causes, each with a conversation to look at."""
    from dataclasses import replace  # noqa: PLC0415 — for this alone

    own = tuple(failure for failure in failures.failures if failure.place.agent == group.agent)
    groups = replace(failures, failures=own).groups
    for one in groups[:_NAMED]:
        example = one.example.place.conversation_id
        yield f"{len(one.failures):,} x {one.title} ({one.severity}), for example conversation {example}"
    if len(groups) > _NAMED:
        yield f"and {counted(len(groups) - _NAMED, 'more cause')}: `otel-agentic failures` lists them"


def _named(flag: str, name: str, evaluators: Sequence[AnyEvaluator]) -> Metric:
    try:
        return metric_named(name, evaluators)
    except UsageError as error:
        raise UsageError(f"{flag} {name}: {error}") from None


def _by_direction(metric: Metric, name: str, limit: float) -> Threshold:
    if metric.higher_is_better is None:
        raise UsageError(
            f"--threshold {name}={number(limit)}: of {metric.name} neither more nor less is better; "
            f"say which is wanted, '{name}>={number(limit)}' or '{name}<={number(limit)}'"
        )
    return Threshold(min=limit) if metric.higher_is_better else Threshold(max=limit)


def _limits(metric: Metric, threshold: Threshold) -> Iterator[Limit]:
    if threshold.min is not None:
        yield Limit(metric=metric, operator=">=", wanted=threshold.min)
    if threshold.max is not None:
        yield Limit(metric=metric, operator="<=", wanted=threshold.max)


def _spread(summary: MetricSummary, group: Group, *, holds: bool) -> str:
    held = "the mean holds it" if holds else "the mean does not hold it"
    told = f"{held}; of {counted(summary.n, 'score')} the lowest is {_text(summary.low)}, the highest {_text(summary.high)}"
    missing = _missing(summary)
    told += f"; not scored: {missing}" if missing else ""
    rest = len(group.members) - (len(group.members) if summary.looked_at is None else summary.looked_at)
    return f"{told}; not computed for {counted(rest, 'conversation')}" if rest > 0 else told


def _why_none(metric: Metric, group: Group, summary: MetricSummary | None) -> str:
    if summary is None or (not summary.n and not summary.not_evaluated):
        many = counted(len(group.members), "conversation")
        return f"{_short(metric)} was not computed for {many}; `otel-agentic evaluate --metrics {_short(metric)}` does"
    if summary.n:
        return f"{_short(metric)} gives labels, not values; --fail-on-severity looks at them"
    why = f": {summary.explanation}" if summary.explanation else ""
    return f"{_short(metric)} has no score: {_missing(summary)}{why}"


def _short(metric: Metric) -> str:
    return metric.name.removeprefix("agentic.")


def _missing(summary: MetricSummary) -> str:
    return ", ".join(f"{count:,} x {reason}" for reason, count in summary.not_evaluated.items())


def _nothing_scored(group: Group) -> str:
    return f"none of {counted(len(group.members), 'conversation')} was evaluated, so that no failure could be found"


def _clean(group: Group, looked_at: int) -> str:
    rest = len(group.members) - looked_at
    told = f"none in {counted(looked_at, 'conversation')}"
    return f"{told}; {rest:,} more not evaluated" if rest > 0 else told


def _text(value: float | None) -> str:
    return "unknown" if value is None else number(value)
