"""Stored metric scores by group and metric: counts, values, failures and abstentions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.evaluators.base import GroupEvaluator, Member, MetricScore
from otel_agentic.evaluators.operations import (
    COST,
    COST_PER_SUCCESS,
    INPUT_TOKENS,
    LATENCY,
    LATENCY_P50,
    LATENCY_P95,
    OUTPUT_TOKENS,
    TOKENS_PER_SUCCESS,
    Totals,
)
from otel_agentic.evaluators.registry import chosen_of, metrics_by_name
from otel_agentic.evaluators.run import RAISED, FailureRules, Location, checked_scores
from otel_agentic.results import reports as results
from otel_agentic.store.queries.scores import (
    KindGroups,
    Total,
    amounts_of,
    conversations_of,
    members_of,
    metric_totals,
    select_members,
)

if TYPE_CHECKING:
    from otel_agentic.conversations.model import Conversation
    from otel_agentic.engine.engine import Engine
    from otel_agentic.store.connection import Connection
    from otel_agentic.store.queries.scores import GroupAmounts, KnownAmounts, MemberGroups
    from otel_agentic.store.table import Key, Selection

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
    location = Location.of(conversation)
    graded = []
    for row in rows:
        failure = rules.failure(location, MetricScore(**{name: row[name] for name in _FIELDS}))
        severity = None if failure is None else failure.severity
        fields = _metric_fields(row["name"], rules)
        graded.append({**row, **{name: fields[name] for name in ("title", "unit", "range")}, "severity": severity})
    return graded


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricSummary:
    """The newest scores of one metric in one group of conversations.

    Attributes:
        summary: the scores.
        looked_at: number of conversations for which it was computed, with or without a score; None for a group metric.
        agent: the agent of the group; None if it is unknown, or if the group is not that of an agent.
    """

    summary: results.MetricSummary
    looked_at: int | None
    agent: str | None = None


def metric_summaries(
    engine: Engine,
    selection: Selection,
    *,
    names: Collection[str] | None = None,
    keys: AbstractSet[Key] | None = None,
) -> list[MetricSummary]:
    """Return summaries of the newest metric scores, by agent and then by metric name.

    Args:
        engine: an opened store.
        selection: the conversations.
        names: full names of metrics; None selects all that have a score or an abstention, and the group metrics in the
            settings.
        keys: restricts the selection to these conversations (environment, conversation id).

    Raises:
        ConfigError: a threshold in the settings names an unknown metric.
    """
    with engine.store.read() as con:
        conversations = conversations_of(con, selection)
    groups: dict[str | None, set[Key]] = defaultdict(set)
    for key, agent, _ in conversations:
        if keys is None or key in keys:
            groups[agent].add(key)
    agents = sorted(groups, key=lambda agent: (agent is not None, agent or ""))
    summaries = summaries_of(engine, [groups[agent] for agent in agents], names=names)
    return [
        replace(metric, agent=agent) for agent, metrics in zip(agents, summaries, strict=True) for metric in metrics
    ]


def summaries_of(
    engine: Engine, groups: MemberGroups, *, names: Collection[str] | None = None
) -> list[list[MetricSummary]]:
    """Return, for each set of conversations, summaries of the newest metric scores, by metric name.

    A conversation may be in several sets. `names` is as in `metric_summaries`; the agent is None.

    Raises:
        ConfigError: a threshold in the settings names an unknown metric.
    """
    installed = engine.runner.installed
    rules = FailureRules(metrics_by_name(installed).values(), engine.settings.evaluators)
    group_evaluators = _group_evaluators(engine, names)
    count = len(groups.groups) if isinstance(groups, KindGroups) else len(groups)
    with nullcontext(groups.table.con) if isinstance(groups, KindGroups) else engine.store.read() as con:
        select_members(con, groups)
        totals = metric_totals(con, names, rules.thresholds)
        counted = [evaluator for evaluator in group_evaluators if type(evaluator) is Totals]
        amounts = _amounts(con, count) if counted else []
        others = [evaluator for evaluator in group_evaluators if evaluator not in counted]
        reads = {metric for evaluator in others for metric in evaluator.reads}
        members = members_of(con, reads, count) if others else []
    summaries: list[list[MetricSummary]] = [[] for _ in range(count)]
    for total in totals:
        summaries[total.group].append(_summary(total, rules))
    for number, group_amounts in enumerate(amounts):
        scores = _totals(group_amounts)
        summaries[number] += _group_summaries(counted[0], scores, rules, names, group_amounts.conversations)
    for number, group in enumerate(members):
        for evaluator in others:
            summaries[number] += _group_summaries(evaluator, _group_scores(evaluator, group), rules, names, len(group))
    return [sorted(group_summaries, key=lambda metric: metric.summary.name) for group_summaries in summaries]


def _group_evaluators(engine: Engine, names: Collection[str] | None) -> tuple[GroupEvaluator, ...]:
    """Return the evaluators of group metrics among the requested metrics."""
    installed = engine.runner.installed
    names_requested = engine.runner.configured if names is None else names
    return chosen_of(installed, names_requested).groups


def _summary(total: Total, rules: FailureRules) -> MetricSummary:
    metric = rules.metrics.get(total.name)
    failing = frozenset() if metric is None else metric.failing
    failures = sum(count for label, count in total.labels.items() if label in failing)
    failures += sum(count for label, count in total.outside.items() if label not in failing)
    summary = results.MetricSummary(
        **_metric_fields(total.name, rules),
        evaluator=total.evaluator,
        evaluator_version=total.evaluator_version,
        n=total.n,
        conversations=total.conversations,
        not_evaluated=total.not_evaluated,
        coverage=_coverage(total.n, sum(total.not_evaluated.values())),
        mean=total.mean,
        low=total.low,
        median=total.median,
        high=total.high,
        labels=total.labels,
        failures=failures,
        explanation="",
        details={},
    )
    return MetricSummary(summary=summary, looked_at=total.looked_at)


def _metric_fields(name: str, rules: FailureRules) -> dict[str, Any]:
    """Return the fields of a summary that its metric and the settings define."""
    metric, threshold = rules.metrics.get(name), rules.thresholds.get(name)
    fields = ("title", "target", "unit", "higher_is_better")
    return {
        "name": name,
        **{field: getattr(metric, field, None) for field in fields},
        "range": None if metric is None else [metric.low, metric.high],
        "failing_labels": [] if metric is None else sorted(metric.failing),
        "threshold": None if threshold is None else results.Threshold(min=threshold.min, max=threshold.max),
    }


def _coverage(n: int, missing: int) -> float | None:
    """Return scores / (scores + not evaluated); None if both are 0."""
    return n / (n + missing) if n + missing else None


def _group_summaries(
    evaluator: GroupEvaluator,
    scores: Iterable[MetricScore],
    rules: FailureRules,
    names: Collection[str] | None,
    size: int,
) -> Iterator[MetricSummary]:
    for score in scores:
        if names is None or score.name in names:
            yield _group_summary(evaluator, score, rules, size)


def _amounts(con: Connection, groups: int) -> list[GroupAmounts]:
    return amounts_of(con, groups, cost=COST, tokens=(INPUT_TOKENS, OUTPUT_TOKENS), latency=LATENCY)


def _totals(amounts: GroupAmounts) -> list[MetricScore]:
    """Return the scores of `Totals` from sums in SQL: its conversations are too many to read each."""
    return [
        _per_success(COST_PER_SUCCESS, amounts, amounts.cost, "cost"),
        _per_success(TOKENS_PER_SUCCESS, amounts, amounts.tokens, "tokens"),
        _latency(LATENCY_P50, amounts.latency_p50, amounts.turns),
        _latency(LATENCY_P95, amounts.latency_p95, amounts.turns),
    ]


def _per_success(name: str, amounts: GroupAmounts, known: KnownAmounts, noun: str) -> MetricScore:
    left_out = {
        "not evaluated": amounts.conversations - amounts.decided,
        f"without {noun}": amounts.decided - known.known,
    }
    message = "".join(f"; {count} {why} left out" for why, count in left_out.items() if count)
    details = {"conversations": known.known, "passed": known.passed, "left_out": left_out}
    if not known.passed:
        why = (
            f"none of {known.known} conversations passed"
            if known.known
            else f"{noun} known of no evaluated conversation"
        )
        return MetricScore(name=name, reason="no_data", explanation=why + message, details=details)
    explanation = f"{known.total:,.6g} over {known.known} conversations, {known.passed} of which passed{message}"
    return MetricScore(name=name, value=known.total / known.passed, explanation=explanation, details=details)


def _latency(name: str, value_s: float, turns: int) -> MetricScore:
    if not turns:
        return MetricScore(name=name, reason="no_data", explanation="no turn has a latency")
    return MetricScore(name=name, value=value_s, explanation=f"of {turns} turns", details={"turns": turns})


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
    label = score.label if has_score else None
    threshold = rules.thresholds.get(score.name)
    metric = rules.metrics.get(score.name)
    failed = metric is not None and label in metric.failing
    failed |= threshold is not None and score.value is not None and not threshold.met_by(score.value)
    summary = results.MetricSummary(
        **_metric_fields(score.name, rules),
        evaluator=evaluator.name,
        evaluator_version=evaluator.version,
        n=int(has_score),
        conversations=size if has_score else 0,
        not_evaluated={} if has_score else {score.reason or "no_data": 1},
        coverage=float(has_score),
        mean=score.value,
        low=score.value,
        median=score.value,
        high=score.value,
        labels={} if label is None else {label: 1},
        failures=int(failed),
        explanation=score.explanation,
        details=dict(score.details),
    )
    return MetricSummary(summary=summary, looked_at=None)
