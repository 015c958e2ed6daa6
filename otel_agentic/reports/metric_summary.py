"""Stored metric scores by group and metric: how many, their values, failures, and what could not be evaluated."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, get_args

from otel_agentic.evaluators.base import MetricScore
from otel_agentic.evaluators.failures import FailureRules, Place
from otel_agentic.evaluators.registry import chosen_of, metrics_by_name
from otel_agentic.evaluators.run import RAISED, checked_scores
from otel_agentic.store.queries.scores import conversations_of, members_of, metric_totals, values_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from otel_agentic.config import Threshold
    from otel_agentic.conversations.model import Conversation
    from otel_agentic.engine.engine import Engine
    from otel_agentic.evaluators.base import GroupEvaluator, Member, Metric
    from otel_agentic.store.queries.scores import Total
    from otel_agentic.store.selection import Selection
    from otel_agentic.store.table import Key

_FIELDS: Final = ("name", "value", "label", "explanation", "reason", "turn_index", "position", "tool_name", "parameter")


def with_severity(
    rows: Sequence[Mapping[str, Any]], conversation: Conversation, rules: FailureRules
) -> list[dict[str, Any]]:
    """Return rows of scores with the fields of their metric, and the severity of those that are failures.

    Args:
        rows: scores from the store.
        conversation: the conversation of the scores.
        rules: thresholds and severities.
    """
    location = Place.of(conversation)
    graded = []
    for row in rows:
        failure = rules.failure(location, MetricScore(**{name: row[name] for name in _FIELDS}))
        severity = None if failure is None else failure.severity
        graded.append({**row, **_metric_fields(rules.metrics.get(row["name"])), "severity": severity})
    return graded


def _metric_fields(metric: Metric | None) -> dict[str, Any]:
    if metric is None:
        return {"title": None, "unit": None, "range": None}
    return {"title": metric.title, "unit": metric.unit, "range": [metric.low, metric.high]}


#: The grouping of summaries; without any, everything is one group.
SummaryBy = Literal["agent", "version", "environment"]
_BY: Final = get_args(SummaryBy)


class _GroupLabels(NamedTuple):
    """The labels of a group."""

    agent: str | None
    version: str | None
    environment: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricValue:
    """The value of a metric in one conversation."""

    environment: str
    conversation_id: str
    agent: str | None
    agent_version: str | None
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricSummary:
    """A summary of the newest scores of one metric in one group of conversations.

    Attributes:
        agent: the agent of the group; None if unknown or not grouped by. The same holds for the next two.
        agent_version: its version.
        environment: its environment.
        metric: the metric; None if its evaluator is no longer installed.
        name: name of the metric.
        evaluator: name of the evaluator.
        evaluator_version: its version; the newest one if the group has scores of several.
        n: number of scores, of conversations, turns or calls according to the metric's target.
        conversations: number of conversations with at least one score.
        not_evaluated: number of missing scores by reason.
        mean: mean of the values, None without values. The same holds for the next three.
        low: smallest value.
        median: median.
        high: largest value.
        labels: number of scores by label, the most frequent first.
        failures: number of scores with a failing label, or with a value outside `threshold`.
        threshold: the good values, by the settings or else by the metric; None if there is no threshold.
        explanation: explanation of the score of a group metric.
        details: details of the score of a group metric.
        looked_at: number of conversations for which it was computed, with or without a score; None for a group metric.
    """

    metric: Metric | None
    name: str
    evaluator: str
    evaluator_version: str
    n: int
    conversations: int
    not_evaluated: Mapping[str, int]
    mean: float | None
    low: float | None
    median: float | None
    high: float | None
    labels: Mapping[str, int]
    failures: int
    threshold: Threshold | None
    agent: str | None = None
    agent_version: str | None = None
    environment: str | None = None
    explanation: str = ""
    details: Mapping[str, object] = field(default_factory=dict)
    looked_at: int | None = None

    @property
    def coverage(self) -> float | None:
        """Scores / (scores + not evaluated); None if both are 0."""
        total = self.n + sum(self.not_evaluated.values())
        return self.n / total if total else None


def metric_summaries(
    engine: Engine,
    selection: Selection,
    *,
    by: Sequence[SummaryBy] = ("agent",),
    names: Collection[str] | None = None,
    keys: AbstractSet[Key] | None = None,
) -> list[MetricSummary]:
    """Return summaries of the newest metric scores, by group and then by metric name.

    Args:
        engine: an opened store.
        selection: the conversations.
        by: the grouping; () puts everything into one group.
        names: full names of metrics; None selects all that have a score or an abstention, and the group metrics in the
            settings.
        keys: restricts the selection to these conversations (environment, conversation id).

    Raises:
        ConfigError: a threshold in the settings names an unknown metric.
    """
    with engine.store.read() as con:
        conversations = conversations_of(con, selection)
    groups: dict[_GroupLabels, set[Key]] = {}
    for key, agent, version in conversations:
        if keys is None or key in keys:
            values = {"agent": agent, "version": version, "environment": key[0]}
            groups.setdefault(_GroupLabels(*(values[name] if name in by else None for name in _BY)), set()).add(key)
    ordered = sorted(groups, key=lambda labels: tuple((value is not None, value or "") for value in labels))
    summaries = summaries_of(engine, [groups[labels] for labels in ordered], names=names)
    return [
        replace(summary, agent=labels.agent, agent_version=labels.version, environment=labels.environment)
        for labels, members in zip(ordered, summaries, strict=True)
        for summary in members
    ]


def summaries_of(
    engine: Engine, groups: Sequence[AbstractSet[Key]], *, names: Collection[str] | None = None
) -> list[list[MetricSummary]]:
    """Return, for each set of conversations, summaries of the newest metric scores, by metric name.

    A conversation may be in several sets. `names` is as in `metric_summaries`; agent, version and environment are None.

    Raises:
        ConfigError: a threshold in the settings names an unknown metric.
    """
    installed = engine.evaluating.installed
    rules = FailureRules(metrics_by_name(installed).values(), engine.settings.evaluators)
    group_evaluators = _group_evaluators(engine, names)
    with engine.store.read() as con:
        totals = metric_totals(con, groups, names, rules.thresholds)
        reads = {metric for evaluator in group_evaluators for metric in evaluator.reads}
        members = members_of(con, groups, reads) if group_evaluators else []
    summaries: list[list[MetricSummary]] = [[] for _ in groups]
    for total in totals:
        summaries[total.group].append(_summary(total, rules))
    for number, group in enumerate(members):
        summaries[number] += _summaries_of_group(group_evaluators, group, rules, names)
    return [sorted(group_summaries, key=lambda summary: summary.name) for group_summaries in summaries]


def metric_values(
    engine: Engine, name: str, selection: Selection, *, keys: AbstractSet[Key] | None = None
) -> list[MetricValue]:
    """Return the value of a metric in each conversation that has one: the mean over its turns or calls."""
    with engine.store.read() as con:
        conversations = conversations_of(con, selection)
        values = values_of(con, {key for key, *_ in conversations if keys is None or key in keys}, name)
    return [
        MetricValue(environment=key[0], conversation_id=key[1], agent=agent, agent_version=version, value=values[key])
        for key, agent, version in conversations
        if key in values
    ]


def _group_evaluators(engine: Engine, names: Collection[str] | None) -> tuple[GroupEvaluator, ...]:
    """Return the evaluators of group metrics among the requested metrics."""
    installed = engine.evaluating.installed
    names_requested = engine.evaluating.configured if names is None else names
    return chosen_of(installed, names_requested).groups


def _summary(total: Total, rules: FailureRules) -> MetricSummary:
    metric = rules.metrics.get(total.name)
    failing = frozenset() if metric is None else metric.failing
    failures = sum(count for label, count in total.labels.items() if label in failing)
    failures += sum(count for label, count in total.outside.items() if label not in failing)
    return MetricSummary(
        metric=metric,
        name=total.name,
        evaluator=total.evaluator,
        evaluator_version=total.evaluator_version,
        n=total.n,
        conversations=total.conversations,
        looked_at=total.looked_at,
        not_evaluated=total.not_evaluated,
        mean=total.mean,
        low=total.low,
        median=total.median,
        high=total.high,
        labels=total.labels,
        failures=failures,
        threshold=rules.thresholds.get(total.name),
    )


def _summaries_of_group(
    evaluators: Sequence[GroupEvaluator], members: Sequence[Member], rules: FailureRules, names: Collection[str] | None
) -> Iterator[MetricSummary]:
    for evaluator in evaluators:
        for score in _group_scores(evaluator, members):
            if names is None or score.name in names:
                yield _group_summary(evaluator, score, rules, len(members))


def _group_scores(evaluator: GroupEvaluator, members: Sequence[Member]) -> Sequence[MetricScore]:
    """Return the scores of a group; an evaluator that raises or breaks its contract abstains."""
    try:
        scores = list(evaluator.evaluate_group(members))
    except RAISED as error:
        explanation = f"evaluator {evaluator.name} failed: {type(error).__name__}: {error}"
        return [
            MetricScore(name=metric.name, reason="no_data", explanation=explanation) for metric in evaluator.metrics
        ]
    scores, _ = checked_scores(evaluator, None, scores)
    return scores


def _group_summary(evaluator: GroupEvaluator, score: MetricScore, rules: FailureRules, size: int) -> MetricSummary:
    has_score = not score.abstained
    reason = score.reason or "no_data"
    label = score.label if has_score else None
    threshold = rules.thresholds.get(score.name)
    metric = rules.metrics.get(score.name)
    failed = metric is not None and label in metric.failing
    failed |= threshold is not None and score.value is not None and not threshold.met_by(score.value)
    return MetricSummary(
        metric=metric,
        name=score.name,
        evaluator=evaluator.name,
        evaluator_version=evaluator.version,
        n=int(has_score),
        conversations=size if has_score else 0,
        not_evaluated={} if has_score else {reason: 1},
        mean=score.value,
        low=score.value,
        median=score.value,
        high=score.value,
        labels={} if label is None else {label: 1},
        failures=int(failed),
        threshold=threshold,
        explanation=score.explanation,
        details=score.details,
    )
