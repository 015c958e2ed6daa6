"""Failures of the conversations of a selection, grouped by root cause, the most severe first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final

import numpy as np

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
from otel_agentic.store.queries.failures import FaultKey, ProblemScores, problem_scores

if TYPE_CHECKING:
    from otel_agentic.config import Severity
    from otel_agentic.engine.engine import Engine
    from otel_agentic.evaluators.base import AnyEvaluator
    from otel_agentic.evaluators.run import Location
    from otel_agentic.store.table import Row, Selection

    IntArray = np.ndarray[Any, np.dtype[np.int64]]

_DAY_NS: Final = 86_400 * 10**9


@dataclass(frozen=True, slots=True, kw_only=True)
class Failures:
    """Failures, the rules that define them, the problems they were found in, and the least reported severity.

    Each of `every` represents the same failure of `failure.location.count` conversations. Failures of a lower severity are
    not reported, but they may be the root cause of those that are.
    """

    rules: FailureRules
    every: tuple[Failure, ...]
    problems: ProblemScores
    judge_metrics: frozenset[str] = frozenset()
    least: Severity = "low"

    @property
    def failures(self) -> tuple[Failure, ...]:
        """The reported failures of the listed conversations."""
        return tuple(
            replace(failure, location=location)
            for failure in self.every
            if at_least(failure.severity, self.least)
            for location in self.problems.members[failure.location]
        )

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
    listed: int | None = None,
    evaluators: Sequence[AnyEvaluator] = (),
) -> Failures:
    """Return the failures of the newest scores, under the thresholds and severities of the settings.

    Args:
        engine: the store.
        selection: the closed conversations.
        keys: restricts the selection to these (environment, conversation id); None for all.
        listed: the largest number of conversations to list of those with the same failures; None for all.
        evaluators: evaluators in addition to those that are installed or named in the settings.

    Raises:
        PluginError: an evaluator does not load.
        ConfigError: a threshold or severity names an unknown metric.
    """
    settings = engine.settings.evaluators
    available = all_evaluators(settings, evaluators)
    rules = FailureRules(metrics_by_name(available).values(), settings)
    with engine.store.read() as con:
        problems = problem_scores(con, selection, rules, keys=keys, listed=listed)
    failures = (rules.failure(location, score) for location, score in problems.scores)
    return Failures(
        rules=rules,
        every=tuple(distinct(failure for failure in failures if failure is not None)),
        problems=problems,
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
    problems: ProblemScores,
    days: Sequence[Row],
    *,
    limit: int | None = None,
    records: int | None = None,
    note: str | None = None,
    **counts: Any,
) -> FailureReport:
    """Return groups of failures with their counts.

    Args:
        groups: the groups in the order of the report.
        problems: the problems in which the failures were found.
        days: the scored conversations by day, see `failure_counts`.
        limit: maximum number of listed groups; counts include all.
        records: maximum number of listed failures of each group, the newest; counts include all.
        note: a note on the groups, for example that a judge failed to merge them.
        **counts: the evaluation, and the counts of its conversations.
    """
    by_severity: Counter[str] = Counter()
    for failure in chain.from_iterable(group.failures for group in groups):
        by_severity[failure.severity] += failure.location.count
    return FailureReport(
        **counts,
        failures=by_severity.total(),
        failing_conversations=sum(group.conversations for group in groups),
        by_severity={severity: by_severity[severity] for severity in reversed(SEVERITIES)},
        group_count=len(groups),
        note=note,
        groups=[_group(group, problems, days, records) for group in groups[:limit]],
    )


def _group(group: ErrorGroup, problems: ProblemScores, days: Sequence[Row], records: int | None) -> FailureGroup:
    """Return a group with its failures and their locations, newest first."""
    blamed = problems.blamed
    versions: Counter[str | None] = Counter()
    agents: Counter[str] = Counter()
    symptoms = {id(failure) for item in group.diagnoses for failure in item.symptoms}
    for failure in group.failures:
        versions[failure.location.agent_version] += failure.location.count
        if id(failure) not in symptoms and (agent := _blamed(failure, blamed)) is not None:
            agents[agent] += failure.location.count
    ends = np.concatenate([problems.ends_ns[item.root.location] for item in group.diagnoses])
    return FailureGroup(
        severity=group.severity,
        title=group.title,
        causes=[Cause(**cause._asdict()) for cause in group.causes],
        terms=list(group.terms),
        count=group.count,
        conversations=group.conversations,
        share=group.share,
        symptoms=[
            Symptom(title=item.title, **item.cause._asdict(), count=item.failures, conversations=item.conversations)
            for item in group.symptoms
        ],
        elsewhere=sum(location.count for location in group.elsewhere),
        agents=sorted({failure.location.agent or "" for failure in group.failures} - {""}),
        agent_versions=[
            VersionCount(agent_version=version, count=versions[version]) for version in sorted(versions, key=str)
        ],
        first_seen=iso(group.first_seen_ns),
        first_version=group.first_version,
        last_seen=iso(group.last_seen_ns),
        trend=_trend(ends, days),
        daily=_daily(ends, days),
        example_conversation=group.example.location.conversation_id,
        example=_record(group.example, blamed, is_root=id(group.example) not in symptoms),
        failures=[
            _record(failure, blamed, is_root=id(failure) not in symptoms, location=location)
            for failure, location in islice(_newest_first(group, problems), records)
        ],
        blamed_agents=[AgentCount(agent=agent, count=count) for agent, count in agents.most_common()] or None,
    )


def _newest_first(group: ErrorGroup, problems: ProblemScores) -> Iterator[tuple[Failure, Location]]:
    """Yield each failure of the listed conversations of a group with its conversation, the newest conversation first."""
    listed = [(location, item) for item in group.diagnoses for location in problems.members[item.root.location]]
    listed.sort(key=lambda pair: pair[0].first, reverse=True)
    for location, item in listed:
        for failure in item.failures:
            yield failure, location


def _blamed(failure: Failure, blamed: Mapping[FaultKey, str]) -> str | None:
    """Return the agent to which a failure is attributed, None if it is attributed to none."""
    what = (failure.metric, failure.label, failure.turn_index, failure.position, failure.tool_name, failure.parameter)
    return blamed.get((failure.location, *what))


def _trend(ends_ns: IntArray, days: Sequence[Row]) -> FailureTrend | None:
    """Return the trend of conversations, or None if the scored conversations have no halves that contain them.

    That is so if all of them ended at once, or if scores of metrics exist for conversations without an outcome.
    """
    before_scored = sum(day["before"] for day in days)
    after_scored = sum(day["scored"] for day in days) - before_scored
    split_ns = days[0]["split_ns"] if days else 0
    before = int((ends_ns < split_ns).sum())
    if not before_scored or before > before_scored or len(ends_ns) - before > after_scored:
        return None
    result = trend(before, before_scored, len(ends_ns) - before, after_scored)
    return FailureTrend(
        direction=result.direction,
        split_at=iso(split_ns),
        before=result.before,
        before_scored=before_scored,
        after=result.after,
        after_scored=after_scored,
        p_value=result.p_value,
    )


def _daily(ends_ns: IntArray, days: Sequence[Row]) -> list[FailureDay]:
    numbers, sizes = np.unique(ends_ns // _DAY_NS, return_counts=True)
    counts = Counter(
        {iso(day * _DAY_NS)[:10]: size for day, size in zip(numbers.tolist(), sizes.tolist(), strict=True)}
    )
    return [FailureDay(day=day["day"], conversations=counts[day["day"]], scored=day["scored"]) for day in days]


def _record(
    failure: Failure, blamed: Mapping[FaultKey, str], *, is_root: bool, location: Location | None = None
) -> FailureRecord:
    """Return one failure: its location, None for its own, its metric, severity and explanation."""
    location, threshold = location or failure.location, failure.threshold
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
