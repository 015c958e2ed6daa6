"""Conditions on metrics: the mean against a limit, and no failure of a severity."""

from __future__ import annotations

from dataclasses import dataclass, replace
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
        UsageError: a metric is unknown or ambiguous, or a limit needs a direction because the metric has none.
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


def limit_row(limit: Limit, group: Group, summary: MetricSummary | None) -> Row:
    """Return the row of a limit on the mean of a metric in a group."""
    n = summary.n if summary else 0
    value = summary.mean if summary else None
    holds = value is not None and limit.met_by(value)
    return Row(
        condition=limit.metric.name,
        kind="metric",
        agent=group.agent,
        operator=limit.operator,
        limit=limit.value,
        value=value,
        n=n,
        verdict="no_data" if value is None else "pass" if holds else "fail",
        reason=_why_missing(limit.metric, group, summary)
        if summary is None or value is None
        else _spread(summary, group, holds=holds),
    )


def severity_row(conditions: GateSettings, group: Group, failures: Failures, checked: int) -> Row:
    """Return the row of the condition on severe failures; `checked` conversations of the group could have one."""
    own = [failure for failure in failures.failures if failure.place.agent == group.agent]
    keys = {(failure.place.environment, failure.place.conversation_id) for failure in own}
    verdict, reason = ("pass", _clean(group, checked)) if checked else ("no_data", _not_scored(group))
    if own:
        verdict, reason = "fail", "; ".join(_causes(failures, group))
    severity = conditions.fail_on_severity
    return Row(
        condition="severity",
        kind="severity",
        agent=group.agent,
        operator="=",
        limit=0,
        value=float(len(own)) if own or checked else None,
        label=severity if severity == "critical" else f"{severity} or worse",
        n=max(checked, len(keys)),
        verdict="fail" if verdict == "fail" else "no_data" if verdict == "no_data" else "pass",
        reason=reason,
    )


def _causes(failures: Failures, group: Group) -> Iterator[str]:
    """Yield the most severe causes, each with an example."""
    own = tuple(failure for failure in failures.failures if failure.place.agent == group.agent)
    groups = replace(failures, failures=own).groups
    for cause in groups[:_MAX_CAUSES]:
        example = cause.example.place.conversation_id
        yield f"{len(cause.failures):,} x {cause.title} ({cause.severity}), for example conversation {example}"
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


def _spread(summary: MetricSummary, group: Group, *, holds: bool) -> str:
    met = "the mean meets it" if holds else "the mean does not meet it"
    text = (
        f"{met}; of {counted(summary.n, 'score')} the lowest is {_text(summary.low)}, the highest {_text(summary.high)}"
    )
    missing = _missing(summary)
    text += f"; not scored: {missing}" if missing else ""
    rest = len(group.members) - (len(group.members) if summary.looked_at is None else summary.looked_at)
    return f"{text}; not computed for {counted(rest, 'conversation')}" if rest > 0 else text


def _why_missing(metric: Metric, group: Group, summary: MetricSummary | None) -> str:
    if summary is None or (not summary.n and not summary.not_evaluated):
        conversations = counted(len(group.members), "conversation")
        return f"{_short(metric)} was not computed for {conversations}; run `otel-agentic evaluate --metrics {_short(metric)}`"
    if summary.n:
        return f"{_short(metric)} has labels, not values; --fail-on-severity checks these"
    explanation = f": {summary.explanation}" if summary.explanation else ""
    return f"{_short(metric)} has no score: {_missing(summary)}{explanation}"


def _short(metric: Metric) -> str:
    return metric.name.removeprefix("agentic.")


def _missing(summary: MetricSummary) -> str:
    return ", ".join(f"{count:,} x {reason}" for reason, count in summary.not_evaluated.items())


def _not_scored(group: Group) -> str:
    return f"none of {counted(len(group.members), 'conversation')} was evaluated, so no failure could be detected"


def _clean(group: Group, checked: int) -> str:
    rest = len(group.members) - checked
    text = f"none in {counted(checked, 'conversation')}"
    return f"{text}; {rest:,} more not evaluated" if rest > 0 else text


def _text(value: float | None) -> str:
    return "unknown" if value is None else number(value)
