"""What the stored scores of evaluators say, by group and metric: how many, how good, and what could not be evaluated."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, get_args

from otel_agentic.evaluators.base import MetricScore
from otel_agentic.evaluators.checked import checked_scores
from otel_agentic.evaluators.failures import FailureRules
from otel_agentic.evaluators.registry import chosen_of, metrics_by_name
from otel_agentic.evaluators.run import RAISED
from otel_agentic.store.metric_totals import conversations_of, members_of, metric_totals, values_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from otel_agentic.config import Threshold
    from otel_agentic.evaluators.base import GroupEvaluator, Member, Metric
    from otel_agentic.pipeline.engine import Engine
    from otel_agentic.pipeline.rebuild import Key
    from otel_agentic.store.metric_totals import Total
    from otel_agentic.store.selection import Selection

#: What summaries are made by; without any, everything is one group.
SummaryBy = Literal["agent", "version", "environment"]
_BY: Final = get_args(SummaryBy)


class _Told(NamedTuple):
    """What a group is told by."""

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
    """What the newest scores of one metric say in one group of conversations.

    Attributes:
        agent: the agent of the group; None where it is unknown, or not grouped by. So are the next two.
        agent_version: its version.
        environment: its environment.
        metric: what is measured, None where no evaluator of that name is installed any more.
        name: name of the metric.
        evaluator: name of the evaluator.
        evaluator_version: its version; the newest one where the group has scores of several.
        n: scores; of conversations, turns or calls, as the metric's target says.
        conversations: conversations with at least one of them.
        not_evaluated: how often there was none, by reason.
        mean: mean of the values, None without any. So are the next three.
        low: least value.
        median: middle value.
        high: greatest value.
        labels: how often each label was given, the most frequent one first.
        failures: scores whose label is a failing one, or whose value does not meet `threshold`.
        threshold: which values are good, by the settings, else by the metric; None where each is.
        explanation: of a metric of groups, what it says of this one.
        details: of a metric of groups, its details.
        looked_at: conversations for which it was computed, with or without a score; None of a metric of groups.
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
        """Scores / (scores + not evaluated); None where there is neither."""
        every = self.n + sum(self.not_evaluated.values())
        return self.n / every if every else None


def metric_summaries(
    engine: Engine,
    selection: Selection,
    *,
    by: Sequence[SummaryBy] = ("agent",),
    names: Collection[str] | None = None,
    keys: AbstractSet[Key] | None = None,
) -> list[MetricSummary]:
    """Return what the newest scores of evaluators say, by group, and then by name of the metric.

    Args:
        engine: an opened store.
        selection: which conversations.
        by: what groups are made of; () puts all into one.
        names: whole names of metrics; None takes all that have a score or an abstention, and the metrics of groups that the
            settings choose.
        keys: only these conversations (environment, conversation id) of the selection.

    Raises:
        ConfigError: a threshold of the settings names no metric.
    """
    with engine.store.read() as con:
        found = conversations_of(con, selection)
    groups: dict[_Told, set[Key]] = {}
    for key, agent, version in found:
        if keys is None or key in keys:
            told = {"agent": agent, "version": version, "environment": key[0]}
            groups.setdefault(_Told(*(told[one] if one in by else None for one in _BY)), set()).add(key)
    ordered = sorted(groups, key=lambda told: tuple((value is not None, value or "") for value in told))
    summaries = summaries_of(engine, [groups[told] for told in ordered], names=names)
    return [
        replace(one, agent=told.agent, agent_version=told.version, environment=told.environment)
        for told, some in zip(ordered, summaries, strict=True)
        for one in some
    ]


def summaries_of(
    engine: Engine, groups: Sequence[AbstractSet[Key]], *, names: Collection[str] | None = None
) -> list[list[MetricSummary]]:
    """Return, for each set of conversations, what the newest scores of evaluators say, by name of the metric.

    A conversation may be in several sets. `names` is as for `metric_summaries`; agent and the like are None.

    Raises:
        ConfigError: a threshold of the settings names no metric.
    """
    installed = engine.evaluating.installed
    rules = FailureRules(metrics_by_name(installed).values(), engine.settings.evaluators)
    of_groups = _of_groups(engine, names)
    with engine.store.read() as con:
        totals = metric_totals(con, groups, names, rules.thresholds)
        reads = {metric for evaluator in of_groups for metric in evaluator.reads}
        members = members_of(con, groups, reads) if of_groups else []
    found: list[list[MetricSummary]] = [[] for _ in groups]
    for total in totals:
        found[total.group].append(_summary(total, rules))
    for number, some in enumerate(members):
        found[number] += _summaries_of_group(of_groups, some, rules, names)
    return [sorted(some, key=lambda one: one.name) for some in found]


def metric_values(
    engine: Engine, name: str, selection: Selection, *, keys: AbstractSet[Key] | None = None
) -> list[MetricValue]:
    """Return the value of a metric in each conversation of a selection that has one: the mean over its turns or calls."""
    with engine.store.read() as con:
        found = conversations_of(con, selection)
        values = values_of(con, {key for key, *_ in found if keys is None or key in keys}, name)
    return [
        MetricValue(environment=key[0], conversation_id=key[1], agent=agent, agent_version=version, value=values[key])
        for key, agent, version in found
        if key in values
    ]


def _of_groups(engine: Engine, names: Collection[str] | None) -> tuple[GroupEvaluator, ...]:
    """Return the evaluators of groups among some metrics."""
    installed = engine.evaluating.installed
    wanted = engine.evaluating.configured if names is None else names
    return chosen_of(installed, wanted).groups


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
    """Return what an evaluator says of a group: one that raises, or breaks its contract, has abstained."""
    try:
        found = list(evaluator.evaluate_group(members))
    except RAISED as error:
        told = f"evaluator {evaluator.name} failed: {type(error).__name__}: {error}"
        return [MetricScore(name=metric.name, reason="no_data", explanation=told) for metric in evaluator.metrics]
    scores, _ = checked_scores(evaluator, None, found)
    return scores


def _group_summary(evaluator: GroupEvaluator, score: MetricScore, rules: FailureRules, size: int) -> MetricSummary:
    there = not score.abstained
    reason = score.reason or "no_data"
    label = score.label if there else None
    threshold = rules.thresholds.get(score.name)
    metric = rules.metrics.get(score.name)
    failed = metric is not None and label in metric.failing
    failed |= threshold is not None and score.value is not None and not threshold.met_by(score.value)
    return MetricSummary(
        metric=metric,
        name=score.name,
        evaluator=evaluator.name,
        evaluator_version=evaluator.version,
        n=int(there),
        conversations=size if there else 0,
        not_evaluated={} if there else {reason: 1},
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
