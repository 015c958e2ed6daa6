"""Failures of the conversations of a selection, grouped by root cause, the most severe first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from otel_agentic.errors import UsageError
from otel_agentic.evaluators.base import asks
from otel_agentic.evaluators.failures import ErrorGroup, distinct, group_failures, merge_question, merged
from otel_agentic.evaluators.registry import all_evaluators, metrics_by_name
from otel_agentic.evaluators.run import SEVERITIES, Failure, FailureRules, at_least
from otel_agentic.judges import JudgeFailure, kinds_of
from otel_agentic.judges.asking_judge import AskingJudge
from otel_agentic.reports.conversations import iso
from otel_agentic.results.failures import (
    AgentCount,
    Cause,
    FailureDay,
    FailureGroup,
    FailureRecord,
    FailureReport,
    FailureTrend,
    Symptom,
    VersionCount,
)
from otel_agentic.results.reports import Threshold
from otel_agentic.stats import trend
from otel_agentic.store.judges import DuckDbJudgeCache
from otel_agentic.store.queries.failures import FaultKey, bad_scores, blamed_agents, core_failures

if TYPE_CHECKING:
    from otel_agentic.config import Severity
    from otel_agentic.engine.engine import Engine
    from otel_agentic.evaluators.base import AnyEvaluator
    from otel_agentic.store.table import Row, Selection


@dataclass(frozen=True, slots=True, kw_only=True)
class Failures:
    """Failures, the rules that define them, the agents to which faults are attributed, and the least reported severity.

    Failures of a lower severity are not reported, but they may be the root cause of those that are.
    """

    rules: FailureRules
    every: tuple[Failure, ...]
    blamed: Mapping[FaultKey, str] = field(default_factory=dict)
    judge_metrics: frozenset[str] = frozenset()
    least: Severity = "low"

    @property
    def failures(self) -> tuple[Failure, ...]:
        """The reported failures."""
        return tuple(failure for failure in self.every if at_least(failure.severity, self.least))

    def of(self, least: Severity) -> Failures:
        """Return the failures of a severity or worse."""
        return replace(self, least=least)

    def of_agent(self, agent: str | None) -> Failures:
        """Return the failures of one agent."""
        return replace(self, every=tuple(failure for failure in self.every if failure.location.agent == agent))

    @property
    def groups(self) -> list[ErrorGroup]:
        """The failures by root cause, the most severe first."""
        return group_failures(self.every, self.rules.metrics, judge_metrics=self.judge_metrics, least=self.least)


def found_failures(
    engine: Engine,
    selection: Selection,
    *,
    keys: AbstractSet[tuple[str, str]] | None = None,
    evaluators: Sequence[AnyEvaluator] = (),
) -> Failures:
    """Return the failures of the newest scores, under the thresholds and severities of the settings.

    Args:
        engine: the store.
        selection: the closed conversations.
        keys: restricts the selection to these (environment, conversation id); None for all.
        evaluators: evaluators in addition to those that are installed or named in the settings.

    Raises:
        PluginError: an evaluator does not load.
        ConfigError: a threshold or severity names an unknown metric.
    """
    settings = engine.settings.evaluators
    available = all_evaluators(settings, evaluators)
    rules = FailureRules(metrics_by_name(available).values(), settings)
    with engine.store.read() as con:
        scores = [*core_failures(con, selection), *bad_scores(con, selection, rules)]
        blamed = blamed_agents(con, selection)
    failures = (
        rules.failure(location, score)
        for location, score in scores
        if keys is None or (location.environment, location.conversation_id) in keys
    )
    return Failures(
        rules=rules,
        every=tuple(distinct(failure for failure in failures if failure is not None)),
        blamed=blamed,
        judge_metrics=frozenset(
            metric.name for evaluator in available if asks(evaluator) for metric in evaluator.metrics
        ),
    )


def merged_groups(engine: Engine, groups: Sequence[ErrorGroup]) -> tuple[list[ErrorGroup], str | None]:
    """Return groups merged by the judge of the settings, and the reason if it failed.

    At most one question is sent to the judge, within the budget; earlier replies are cached.

    Raises:
        UsageError: the judge does not support such questions; the message suggests another.
    """
    runner = engine.runner
    judge = runner.judge
    if "rubric" not in kinds_of(judge):
        raise UsageError(
            f"--merge: judge {judge.name} cannot group failures; "
            "pass one that calls a model, such as --judge langchain:openai:gpt-5-mini"
        )
    question = merge_question(groups)
    if question is None:
        return list(groups), None
    cache = DuckDbJudgeCache(engine.store, judge.name, judge.version, reads=engine.settings.judge.cache)
    with closing(cache):
        cautious_judge = AskingJudge(judge, cache=cache, budget=runner.budget, breaker=runner.breaker)
        (answer,) = cautious_judge.judge([question])
    if isinstance(answer, JudgeFailure):
        return list(groups), f"groups were not merged, because the judge failed: {answer.message}"
    return merged(groups, answer.texts), None


def failure_report(
    groups: Sequence[ErrorGroup],
    blamed: Mapping[FaultKey, str],
    days: Sequence[Row],
    *,
    limit: int | None = None,
    note: str | None = None,
    **counts: Any,
) -> FailureReport:
    """Return groups of failures with their counts.

    Args:
        groups: the groups in the order of the report.
        blamed: the agents to which faults are attributed.
        days: the scored conversations by day, see `scored_days`.
        limit: maximum number of listed groups; counts include all.
        note: a note on the groups, for example that a judge failed to merge them.
        **counts: the evaluation, and the counts of its conversations.
    """
    failures = [failure for group in groups for failure in group.failures]
    by_severity = Counter(failure.severity for failure in failures)
    return FailureReport(
        **counts,
        failures=len(failures),
        failing_conversations=len(
            {(failure.location.environment, failure.location.conversation_id) for failure in failures}
        ),
        by_severity={severity: by_severity[severity] for severity in reversed(SEVERITIES)},
        group_count=len(groups),
        note=note,
        groups=[_group(group, blamed, days) for group in groups[:limit]],
    )


def _group(group: ErrorGroup, blamed: Mapping[FaultKey, str], days: Sequence[Row]) -> FailureGroup:
    """Return a group with its failures and their locations, newest first."""
    versions = Counter(failure.location.agent_version for failure in group.failures)
    symptoms = {id(failure) for item in group.diagnoses for failure in item.symptoms}
    roots = (failure for failure in group.failures if id(failure) not in symptoms)
    agents = Counter(agent for failure in roots if (agent := _blamed(failure, blamed)) is not None)
    return FailureGroup(
        severity=group.severity,
        title=group.title,
        causes=[Cause(**cause._asdict()) for cause in group.causes],
        terms=list(group.terms),
        count=len(group.failures),
        conversations=group.conversations,
        share=group.share,
        symptoms=[
            Symptom(title=item.title, **item.cause._asdict(), count=item.failures, conversations=item.conversations)
            for item in group.symptoms
        ],
        elsewhere=len(group.elsewhere),
        agents=sorted({failure.location.agent or "" for failure in group.failures} - {""}),
        agent_versions=[
            VersionCount(agent_version=version, count=versions[version]) for version in sorted(versions, key=str)
        ],
        first_seen=iso(group.first_seen_ns),
        first_version=group.diagnoses[-1].root.location.agent_version,
        last_seen=iso(group.last_seen_ns),
        trend=_trend(group, days),
        daily=_daily(group, days),
        example_conversation=group.example.location.conversation_id,
        example=_record(group.example, blamed, is_root=id(group.example) not in symptoms),
        failures=[_record(failure, blamed, is_root=id(failure) not in symptoms) for failure in group.failures],
        blamed_agents=[AgentCount(agent=agent, count=count) for agent, count in agents.most_common()] or None,
    )


def _blamed(failure: Failure, blamed: Mapping[FaultKey, str]) -> str | None:
    """Return the agent to which a failure is attributed, None if it is attributed to none."""
    what = (failure.metric, failure.label, failure.turn_index, failure.position, failure.tool_name, failure.parameter)
    return blamed.get((failure.location, *what))


def _ends(group: ErrorGroup) -> list[int]:
    return [item.root.location.ended_ns for item in group.diagnoses]


def _trend(group: ErrorGroup, days: Sequence[Row]) -> FailureTrend | None:
    """Return the trend of a group, or None if the scored conversations have no halves that contain its conversations.

    That is so if all of them ended at once, or if scores of metrics exist for conversations without an outcome.
    """
    before_scored = sum(day["before"] for day in days)
    after_scored = sum(day["scored"] for day in days) - before_scored
    split_ns = days[0]["split_ns"] if days else 0
    before = sum(end < split_ns for end in _ends(group))
    if not before_scored or before > before_scored or group.conversations - before > after_scored:
        return None
    result = trend(before, before_scored, group.conversations - before, after_scored)
    return FailureTrend(
        direction=result.direction,
        split_at=iso(split_ns),
        before=result.before,
        before_scored=before_scored,
        after=result.after,
        after_scored=after_scored,
        p_value=result.p_value,
    )


def _daily(group: ErrorGroup, days: Sequence[Row]) -> list[FailureDay]:
    counts = Counter(iso(end)[:10] for end in _ends(group))
    return [FailureDay(day=day["day"], conversations=counts[day["day"]], scored=day["scored"]) for day in days]


def _record(failure: Failure, blamed: Mapping[FaultKey, str], *, is_root: bool) -> FailureRecord:
    """Return one failure: its location, metric, severity and explanation."""
    location, threshold = failure.location, failure.threshold
    return FailureRecord(
        environment=location.environment,
        conversation_id=location.conversation_id,
        revision=location.revision,
        agent=location.agent,
        agent_version=location.agent_version,
        ended_at=iso(location.ended_ns),
        turn_index=failure.turn_index,
        position=failure.position,
        metric=failure.metric,
        label=failure.label,
        value=failure.value,
        threshold=None if threshold is None else Threshold(min=threshold.min, max=threshold.max),
        severity=failure.severity,
        tool_name=failure.tool_name,
        parameter=failure.parameter,
        explanation=failure.explanation,
        is_root=is_root,
        blamed_agent=_blamed(failure, blamed),
    )
