"""Criteria on the metrics of evaluators: any of them can decide whether a conversation is correct."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import TYPE_CHECKING

from otel_agentic.errors import UsageError
from otel_agentic.evaluators.base import AskingEvaluator, Evaluator, Metric, asks, is_plain
from otel_agentic.evaluators.registry import metrics_by_name, of_files, owner_of, resolved
from otel_agentic.evaluators.run import FailureRules
from otel_agentic.scoring.criteria import ANNOTATED, CASE_CRITERIA, OF_CASE, parsed
from otel_agentic.scoring.parts import Part, combine, not_evaluated
from otel_agentic.scoring.scope import DIMENSIONS, OPEN_REASONS

if TYPE_CHECKING:
    from otel_agentic.config import EvaluatorSettings
    from otel_agentic.evaluators.base import AnyEvaluator, MetricScore
    from otel_agentic.scoring.criteria import Criterion
    from otel_agentic.scoring.scope import FailReason, NotEvaluatedReason, Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricCriterion:
    """A criterion with its evaluator and the full name of its metric; its bounds are complete."""

    criterion: Criterion
    evaluator: Evaluator | AskingEvaluator
    metric: str

    def part(self, scores: Iterable[MetricScore]) -> Part | None:
        """Return the outcome, given the scores of all metrics; None if it decides nothing."""
        return self.criterion.part(score for score in scores if score.name == self.metric)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredCriterion:
    """A criterion that is computed from stored scores, which have these full names."""

    criterion: Criterion
    names: tuple[str, ...]

    def part(
        self, scores: Sequence[MetricScore], outcome: Outcome, reason: FailReason | NotEvaluatedReason | None
    ) -> Part | None:
        """Return the outcome of a conversation; None if it decides nothing.

        Args:
            scores: scores of the conversation, at least those that the criterion reads.
            outcome: the outcome by the deciding criteria.
            reason: its reason.
        """
        own = [score for score in scores if score.name in self.names]
        if own or self.criterion.optional:
            return self.criterion.part(own)
        if self.criterion.of_case and outcome == "not_evaluated" and reason is not None:
            return Part(outcome="not_evaluated", reason=reason)
        missing: NotEvaluatedReason = "no_data" if self.criterion.of_case else "not_scored"
        return not_evaluated(missing, f"{self.criterion.text} has no score")

    def reason_missing(self, scores: Sequence[MetricScore], reason: FailReason | NotEvaluatedReason | None) -> str:
        """Return the reason for a missing value, `not_scored` if it was not computed; arguments as in `part`."""
        reasons = [score.reason for score in scores if score.name in self.names and score.reason is not None]
        if reasons:
            return reasons[0]
        return reason if reason == "sampled_out" else "not_scored"


def combined(
    criteria: Iterable[StoredCriterion],
    scores: Sequence[MetricScore],
    outcome: Outcome,
    reason: FailReason | NotEvaluatedReason | None,
) -> Part:
    """Return the outcome of a conversation by several criteria together; the other arguments are as in `StoredCriterion.part`."""
    of_all = [(criterion, criterion.part(scores, outcome, reason)) for criterion in criteria]
    parts = [part for _, part in of_all if part is not None]
    if parts:
        return combine(parts)
    if reason in OPEN_REASONS:  # sampling excluded it, or the budget was exhausted
        return Part(outcome="not_evaluated", reason=reason)
    names = {name for criterion, _ in of_all for name in criterion.names}
    if not any(score.name in names for score in scores):
        return not_evaluated("not_scored", "none of the conditions has a score")
    return combine(parts)


@dataclass(slots=True, kw_only=True)
class MetricCriteria:
    """Resolves criteria on metrics. `evaluators` are all installed ones, `settings` has their thresholds."""

    evaluators: Sequence[AnyEvaluator]
    settings: EvaluatorSettings
    _known: dict[str, MetricCriterion] = field(default_factory=dict)

    def of(self, criteria: Iterable[Criterion]) -> tuple[MetricCriterion, ...]:
        """Return the criteria on metrics among some criteria.

        Raises:
            UsageError: a metric is unknown or ambiguous, is one of groups, or neither the criterion nor the metric
                defines which values or labels pass.
            PluginError: the evaluator of a file violates the contract.
        """
        return tuple(self._resolved(criterion) for criterion in criteria if not criterion.of_case)

    def stored(self, texts: Iterable[str]) -> list[StoredCriterion]:
        """Return criteria that are computed from stored scores. Raises what `of` raises."""
        return [self._stored(criterion) for criterion in parsed(tuple(texts))]

    def _stored(self, criterion: Criterion) -> StoredCriterion:
        if not criterion.of_case:
            (metric,) = self.of([criterion])
            return StoredCriterion(criterion=metric.criterion, names=(metric.metric,))
        named = CASE_CRITERIA if criterion.name == ANNOTATED else (criterion.name,)
        names = tuple(f"agentic.tool.{name}" if name in DIMENSIONS else f"agentic.{name}" for name in named)
        return StoredCriterion(criterion=replace(criterion, labels=frozenset({"pass"})), names=names)

    def _resolved(self, criterion: Criterion) -> MetricCriterion:
        known = self._known.get(criterion.text)
        if known is None:
            known = self._known[criterion.text] = self._resolve(criterion)
        return known

    def _resolve(self, criterion: Criterion) -> MetricCriterion:
        evaluators = self.evaluators
        if ".py:" in criterion.name:
            (own,) = of_files([criterion.name], self.settings)
            evaluators, names = (own,), tuple(metric.name for metric in own.metrics)
        else:
            try:
                names = resolved([criterion.name], evaluators)
            except UsageError as error:
                raise UsageError(self._unknown(criterion)) from error
        if len(names) != 1:
            raise UsageError(f"criterion {criterion.text!r}: name one metric; {criterion.name} has {', '.join(names)}")
        owner = owner_of(names[0], evaluators)
        if owner is None or not (asks(owner) or is_plain(owner)):
            raise UsageError(f"criterion {criterion.text!r}: {names[0]} is a metric of groups, not of conversations")
        metric = metrics_by_name([owner])[names[0]]
        return MetricCriterion(criterion=self._bounded(criterion, metric), evaluator=owner, metric=names[0])

    def _unknown(self, criterion: Criterion) -> str:
        known = [*OF_CASE, *(name.removeprefix("agentic.") for name in metrics_by_name(self.evaluators))]
        similar = get_close_matches(criterion.name, known, n=3)
        hint = f"did you mean {' or '.join(similar)}?" if similar else "`otel-agentic plugins` lists the metrics"
        return f"criterion {criterion.text!r}: not one of {', '.join(OF_CASE)}, nor the name of one metric; {hint}"

    def _bounded(self, criterion: Criterion, metric: Metric) -> Criterion:
        """Return the criterion with the passing values or labels of its metric, if it names none."""
        unknown = criterion.labels - set(metric.labels)
        if unknown:
            allowed = ", ".join(metric.labels) or "none: it gives values, which need >= or <="
            raise UsageError(
                f"criterion {criterion.text!r}: {metric.name} has no label {', '.join(sorted(unknown))!r}; it has {allowed}"
            )
        if criterion.labels or criterion.minimum is not None or criterion.maximum is not None:
            return criterion
        if metric.failing:
            return replace(criterion, labels=frozenset(metric.labels) - metric.failing)
        threshold = FailureRules(
            metrics_by_name(self.evaluators).values() if owner_of(metric.name, self.evaluators) else [metric],
            self.settings,
        ).thresholds.get(metric.name)
        if threshold is None:
            raise UsageError(
                f"criterion {criterion.text!r}: {metric.name} has no threshold; write one, such as "
                f'"{criterion.name} >= {metric.high or 1:g}"'
            )
        return replace(criterion, minimum=threshold.min, maximum=threshold.max)


def parts_of(criteria: Sequence[MetricCriterion], scores: Sequence[MetricScore]) -> Mapping[str, Part | None]:
    """Return the outcome of each criterion by its text, given the scores of its metrics."""
    return {criterion.criterion.text: criterion.part(scores) for criterion in criteria}
