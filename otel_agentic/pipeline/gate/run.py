"""The gate: every condition for every selected agent."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.errors import UsageError
from otel_agentic.evaluators.registry import all_evaluators, metric_named
from otel_agentic.pipeline.coverage import wrong_clocks_json
from otel_agentic.pipeline.export import iso
from otel_agentic.pipeline.failures import found_failures
from otel_agentic.pipeline.gate.baseline import Baseline, measured
from otel_agentic.pipeline.gate.metrics import limit_row, limits_of, named_metrics, severity_row
from otel_agentic.pipeline.gate.model import ALL, Row
from otel_agentic.pipeline.gate.rates import Rates
from otel_agentic.pipeline.gate.regression import Regressions
from otel_agentic.pipeline.gate.targets import is_rate, targets
from otel_agentic.pipeline.metric_summary import metric_summaries
from otel_agentic.stats.means import Values
from otel_agentic.store.baselines import evaluations_of, metric_means

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from otel_agentic.config import GateSettings
    from otel_agentic.evaluators.base import AnyEvaluator
    from otel_agentic.pipeline.engine import Engine
    from otel_agentic.pipeline.failures import Failures
    from otel_agentic.pipeline.gate.metrics import Limit
    from otel_agentic.pipeline.gate.model import Group
    from otel_agentic.pipeline.gate.select import GateSelection
    from otel_agentic.pipeline.metric_summary import MetricSummary

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
    ) -> Gate:
        """Return the gate after a check of the names in its conditions.

        Raises:
            UsageError: a metric, a window or a condition is unknown.
            PluginError: the estimator is unknown, or an evaluator does not load.
            BadInputError: no case has the tag of the suite.
        """
        if estimator is not None:
            engine.estimators(estimator)
        gate = cls(
            engine=engine,
            conditions=conditions,
            selection=selection,
            groups=selection.groups(engine),
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

    def rows(self) -> list[Row]:
        """Return a row for each condition of each agent; a single row without data if there are no conversations."""
        return [row.allowing(self.allowed) for row in self._rows()]

    def _rows(self) -> Iterator[Row]:
        if not self.groups:
            yield Row(
                condition="conversations",
                kind="data",
                agent=None,
                operator=">=",
                limit=1,
                n=0,
                value=0.0,
                verdict="no_data",
                reason="no closed conversation in this selection; see `otel-agentic conversations list`",
            )
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
            yield from self.regressions.missing_agents(self.groups, self.selection.selection.agent)

    def _metric_rows(self, group: Group) -> Iterator[Row]:
        for limit in self.limits:
            yield limit_row(limit, group, self._summaries.get((group.agent, limit.metric.name)))
        if self.conditions.fail_on_severity != "none":
            yield severity_row(self.conditions, group, self._failures, self._checked(group))

    @cached_property
    def _failures(self) -> Failures:
        assert self.conditions.fail_on_severity != "none"  # noqa: S101 — used for this condition only
        failures = found_failures(self.engine, self.selection.selection, keys=self._keys)
        return failures.of(self.conditions.fail_on_severity)

    @cached_property
    def _summaries(self) -> Mapping[tuple[str | None, str], MetricSummary]:
        summaries = metric_summaries(
            self.engine,
            self.selection.selection,
            names=sorted({limit.metric.name for limit in self.limits}),
            keys=self._keys,
        )
        owners = {metric.name: evaluator.name for evaluator in self.evaluators for metric in evaluator.metrics}
        # The store may contain scores of the same name from an evaluator that is no longer installed.
        return {
            (summary.agent, summary.name): summary for summary in summaries if owners[summary.name] == summary.evaluator
        }

    def _checked(self, group: Group) -> int:
        """Return how many conversations could have a failure: evaluated ones, or with a score that may be a failure."""
        if group.evaluated:
            return group.evaluated
        rules = self._failures.rules
        may_fail = [name for name, metric in rules.metrics.items() if metric.failing or name in rules.thresholds]
        return max(
            (
                summary.conversations
                for summary in self._all_summaries
                if summary.agent == group.agent and summary.name in may_fail and summary.n
            ),
            default=0,
        )

    @cached_property
    def _all_summaries(self) -> Sequence[MetricSummary]:
        return metric_summaries(self.engine, self.selection.selection, keys=self._keys)

    @property
    def _keys(self) -> frozenset[tuple[str, str]] | None:
        """The checked conversations, or None if these are all of the selection."""
        return frozenset().union(*(group.keys for group in self.groups)) if self.selection.narrows else None

    @cached_property
    def values(self) -> Mapping[str | None, Mapping[str, Values]]:
        """The values of metrics, by agent and metric name."""
        with self.engine.store.read() as con:
            rows_of_means = metric_means(con, self.selection.selection)
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

    def measured(self, name: str) -> Baseline:
        """Return the current rates and metrics as a baseline."""
        return measured(self.engine, self.groups, self.values, name=name, evaluations=self.evaluations)

    @cached_property
    def evaluations(self) -> tuple[str, ...]:
        """The evaluations of the scores."""
        with self.engine.store.read() as con:
            return evaluations_of(con, self.selection.selection)

    @property
    def reasons(self) -> dict[str, int]:
        """The reasons why conversations were not evaluated, with counts."""
        missing = (member for group in self.groups for member in group.members if member.outcome == "not_evaluated")
        return dict(sorted(Counter(member.reason or "no_data" for member in missing).items()))

    def notes(self) -> Iterator[str]:
        """Yield notes on the conversations and on the comparison with the baseline."""
        yield from (row["note"] for row in wrong_clocks_json(self.engine.store))
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
