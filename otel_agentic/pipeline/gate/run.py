"""The gate itself: every condition, of every agent that is selected."""

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
    from otel_agentic.pipeline.gate.select import Chosen
    from otel_agentic.pipeline.metric_summary import MetricSummary

#: What may be allowed to have no data, beside metrics and rates.
_CONDITIONS: Final = (
    ALL, "conversations", "coverage", "n", "success", "tier", "severity", "metric", "rate", "regression",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Gate:
    """One run of the gate: the conditions, and the conversations of each agent."""

    engine: Engine
    wanted: GateSettings
    chosen: Chosen
    groups: Sequence[Group]
    estimator: str | None = None
    baseline: Baseline | None = None
    evaluators: Sequence[AnyEvaluator] = field(default=())

    @classmethod
    def of(
        cls, engine: Engine, wanted: GateSettings, chosen: Chosen, estimator: str | None, baseline: Baseline | None
    ) -> Gate:
        """Return the gate, its conditions checked against the metrics there are.

        Raises:
            UsageError: a metric, a window or a condition is unknown.
            PluginError: there is no estimator of that name, or an evaluator does not load.
            BadInputError: no case has the tag of the suite.
        """
        if estimator is not None:
            engine.estimators(estimator)
        made = cls(
            engine=engine,
            wanted=wanted,
            chosen=chosen,
            groups=chosen.groups(engine),
            estimator=estimator,
            baseline=baseline,
            evaluators=all_evaluators(engine.settings.evaluators),
        )
        _ = made.limits, made.regressions, made.allowed  # what is unknown is told also where there is no data
        return made

    @cached_property
    def limits(self) -> list[Limit]:
        """The limits of means of metrics."""
        return limits_of(self.wanted, self.engine.settings.evaluators, self.evaluators)

    @cached_property
    def regressions(self) -> Regressions | None:
        """What is compared with the baseline, None without one."""
        names = [name for name in self.wanted.max_regression if not is_rate(name)]
        named = named_metrics(names, "--max-regression", self.evaluators)
        metrics = dict.fromkeys(limit.metric.name for limit in self.limits)
        limited = [metric_named(name, self.evaluators) for name in metrics]
        found = targets(self.wanted, named, limited)
        if self.baseline is None:
            if self.wanted.max_regression or self.wanted.max_drop is not None:
                raise UsageError("--max-regression and --max-drop need a --baseline to compare with")
            return None
        stats = self.engine.settings.stats
        return Regressions(wanted=self.wanted, stats=stats, baseline=self.baseline, targets=found)

    @cached_property
    def allowed(self) -> frozenset[str]:
        """The conditions that may have no data, metrics by their whole names.

        Raises:
            UsageError: there is no such condition and no such metric.
        """
        return frozenset(self._allowed(name) for name in self.wanted.allow_no_data)

    def _allowed(self, name: str) -> str:
        if name in _CONDITIONS or is_rate(name):
            return name
        try:
            return metric_named(name, self.evaluators).name
        except UsageError as error:
            raise UsageError(
                f"--allow-no-data {name}: neither a condition ({', '.join(_CONDITIONS)}, pass^K, pass@K) nor a metric: {error}"
            ) from None

    def rows(self) -> list[Row]:
        """Return a row for each condition of each agent; one that says so where there is nothing at all."""
        return [row.allowing(self.allowed) for row in self._rows()]

    def _rows(self) -> Iterator[Row]:
        if not self.groups:
            yield Row(
                condition="conversations",
                kind="data",
                agent=None,
                operator=">=",
                wanted=1,
                n=0,
                value=0.0,
                verdict="no_data",
                reason="no closed conversation in this selection; `otel-agentic conversations list` shows what there is",
            )
        for group in self.groups:
            yield from Rates(
                engine=self.engine, wanted=self.wanted, group=group, chosen=self.chosen, estimator=self.estimator
            ).rows()
            yield from self._of_metrics(group)
            if self.regressions is not None:
                yield from self.regressions.rows(group, self.values.get(group.agent, {}))
        if self.regressions is not None:
            yield from self.regressions.gone(self.groups, self.chosen.selection.agent)

    def _of_metrics(self, group: Group) -> Iterator[Row]:
        for limit in self.limits:
            yield limit_row(limit, group, self._summaries.get((group.agent, limit.metric.name)))
        if self.wanted.fail_on_severity != "none":
            yield severity_row(self.wanted, group, self._failures, self._looked_at(group))

    @cached_property
    def _failures(self) -> Failures:
        assert self.wanted.fail_on_severity != "none"  # noqa: S101 — asked for in this case alone
        found = found_failures(self.engine, self.chosen.selection, keys=self._keys)
        return found.of(self.wanted.fail_on_severity)

    @cached_property
    def _summaries(self) -> Mapping[tuple[str | None, str], MetricSummary]:
        found = metric_summaries(
            self.engine,
            self.chosen.selection,
            names=sorted({limit.metric.name for limit in self.limits}),
            keys=self._keys,
        )
        owners = {metric.name: one.name for one in self.evaluators for metric in one.metrics}
        # An evaluator that is not there any more may have left scores of the same name.
        return {(one.agent, one.name): one for one in found if owners[one.name] == one.evaluator}

    def _looked_at(self, group: Group) -> int:
        """Return how many conversations could have shown a failure: evaluated ones, or with a score that may be one."""
        if group.evaluated:
            return group.evaluated
        rules = self._failures.rules
        may_fail = [name for name, metric in rules.metrics.items() if metric.failing or name in rules.thresholds]
        return max(
            (
                one.conversations
                for one in self._all_summaries
                if one.agent == group.agent and one.name in may_fail and one.n
            ),
            default=0,
        )

    @cached_property
    def _all_summaries(self) -> Sequence[MetricSummary]:
        return metric_summaries(self.engine, self.chosen.selection, keys=self._keys)

    @property
    def _keys(self) -> frozenset[tuple[str, str]] | None:
        """The conversations that are looked at, None where the selection says it all."""
        return frozenset().union(*(group.keys for group in self.groups)) if self.chosen.narrows else None

    @cached_property
    def values(self) -> Mapping[str | None, Mapping[str, Values]]:
        """The values of metrics, by agent and name."""
        with self.engine.store.read() as con:
            means = metric_means(con, self.chosen.selection)
        whose = {
            (one.environment, one.conversation_id): (group.agent, one.case_key if one.case_id is not None else None)
            for group in self.groups
            for one in group.members
        }
        found: dict[str | None, dict[str, list[Any]]] = {}
        for environment, conversation_id, name, mean in means:
            known = whose.get((environment, conversation_id))
            if known is not None:
                found.setdefault(known[0], {}).setdefault(name, []).append((known[1], mean))
        made = {agent: {name: Values.of(each) for name, each in by_name.items()} for agent, by_name in found.items()}
        return {agent: {name: one for name, one in by_name.items() if one} for agent, by_name in made.items()}

    def measured(self, name: str) -> Baseline:
        """Return what is measured now, as a baseline."""
        return measured(self.engine, self.groups, self.values, name=name, evaluations=self.evaluations)

    @cached_property
    def evaluations(self) -> tuple[str, ...]:
        """The evaluations that the scores belong to."""
        with self.engine.store.read() as con:
            return evaluations_of(con, self.chosen.selection)

    @property
    def reasons(self) -> dict[str, int]:
        """Why conversations were not evaluated, and how many."""
        found = (one for group in self.groups for one in group.members if one.outcome == "not_evaluated")
        return dict(sorted(Counter(one.reason or "no_data" for one in found).items()))

    def notes(self) -> Iterator[str]:
        """Yield what is to be known of the conversations and of the comparison."""
        yield from (row["note"] for row in wrong_clocks_json(self.engine.store))
        if self.baseline is None:
            return
        if self.groups and set(self.evaluations) != set(self.baseline.evaluations):
            yield (
                "the baseline was scored under another evaluator version (cases, judge or settings differ): a difference may "
                "come of that"
            )
        last = self.baseline.last_end
        ends = (bisect_right(group.members, last, key=lambda one: iso(one.ended_ns)) for group in self.groups if last)
        early = sum(ends)
        if early:
            yield (
                f"{early:,} of the conversations ended no later than the baseline's last one, and may be in it; --since looks at "
                "later ones only"
            )
