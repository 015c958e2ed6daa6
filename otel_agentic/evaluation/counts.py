"""Counts of an evaluation run: judge calls and their cost, outcomes, and metric scores."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from otel_agentic.judges import JudgeFailure, Verdict

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from otel_agentic.store.scores import Measured
    from otel_agentic.store.selection import Scored
    from otel_agentic.store.table import Key


@dataclass(slots=True)
class _MetricCounts:
    """Counts of one metric."""

    evaluator: str
    n: int = 0
    values: int = 0
    total: float = 0.0
    labels: Counter[str] = field(default_factory=Counter)
    not_evaluated: Counter[str] = field(default_factory=Counter)

    @property
    def mean(self) -> float | None:
        return self.total / self.values if self.values else None


@dataclass(slots=True)
class MetricTally:
    """Accumulates metric scores, batch by batch.

    Attributes:
        conversations: number of conversations that evaluators were run on.
        rows: number of scores.
        caught_up: number of already scored conversations that evaluators were run on.
        faults: messages of failed evaluators, with how often each occurred.
    """

    conversations: int = 0
    rows: int = 0
    caught_up: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    _counted: set[tuple[str, str]] = field(default_factory=set)
    _metrics: dict[str, _MetricCounts] = field(default_factory=dict)

    def add(self, measured: Sequence[Measured]) -> None:
        """Count a batch."""
        for item in measured:
            key = (item.conversation.environment, str(item.conversation.conversation_id))
            if key not in self._counted:
                self._counted.add(key)
                self.conversations += 1
            self.rows += len(item.scores)
            for score in item.scores:
                counted = self._metrics.setdefault(score.name, _MetricCounts(item.evaluator.name))
                if score.reason is not None and score.abstained:
                    counted.not_evaluated[score.reason] += 1
                    continue
                counted.n += 1
                if score.value is not None:
                    counted.values += 1
                    counted.total += score.value
                if score.label is not None:
                    counted.labels[score.label] += 1

    def to_json(self, metrics: Collection[str]) -> dict[str, Any]:
        """Return the counts as JSON, restricted to the requested metrics and sorted by name."""
        return {
            "conversations": self.conversations,
            "rows": self.rows,
            "caught_up": self.caught_up,
            "faults": dict(self.faults.most_common()),
            "metrics": [
                {
                    "name": name,
                    "evaluator": counts.evaluator,
                    "n": counts.n,
                    "mean": counts.mean,
                    "labels": dict(counts.labels.most_common()),
                    "not_evaluated": dict(counts.not_evaluated.most_common()),
                }
                for name, counts in sorted(self._metrics.items())
                if name in metrics
            ],
        }


@dataclass(slots=True, kw_only=True)
class Tally:
    """Counts of a run's judge calls; each question counts once.

    Attributes:
        calls: model calls, retries included.
        cached: answers from the cache.
        verdicts: new verdicts.
        failed: questions that the judge did not answer.
        refused: questions not asked because the budget is exhausted.
        postponed: questions left for a later run because the judge is unavailable.
        input_tokens: tokens sent to the model.
        output_tokens: tokens received from it.
        cost_usd: US dollars; None if no price is known.
        models: models that answered, now or when the answer was cached.
        failure: message of the last failure.
        canaries: deliberately wrong answers that were judged.
        fooled: canaries that passed.
    """

    calls: int = 0
    cached: int = 0
    verdicts: int = 0
    failed: int = 0
    refused: int = 0
    postponed: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None
    models: set[str] = field(default_factory=set)
    failure: str | None = None
    canaries: int = 0
    fooled: int = 0

    def count(self, answer: Verdict | JudgeFailure) -> None:
        """Count a verdict or a failure."""
        if answer.model is not None:
            self.models.add(answer.model)
        if isinstance(answer, Verdict) and answer.cached:
            self.cached += 1
            return
        self.verdicts += isinstance(answer, Verdict)
        if isinstance(answer, JudgeFailure) and answer.reason == "judge_error":
            self.failed += 1
            self.failure = answer.message
        self.refused += isinstance(answer, JudgeFailure) and answer.reason == "budget_exhausted"
        self.calls += answer.tries
        self.input_tokens += answer.input_tokens
        self.output_tokens += answer.output_tokens
        if answer.cost_usd is not None:
            self.cost_usd = (self.cost_usd or 0.0) + answer.cost_usd


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationSummary:
    """The result of an evaluation run.

    Attributes:
        evaluation_id: the evaluation.
        scored: number of conversations scored.
        restated: how many of them had a score before.
        unchanged: conversations asked about again with the same result.
        outcomes: conversations by outcome.
        reasons: conversations by reason of not being evaluated.
        warnings: warnings of the matched cases.
        partial_fails: failures while other required parts were not evaluated.
        known_failures: not evaluated because the judge is unsure, although another part failed.
        compared: conversations with both a recorded verdict and a computed outcome.
        disagreements: how many of those differ.
        tally: judge calls.
        metrics: counts of metric scores.
    """

    evaluation_id: str
    scored: int
    restated: int
    unchanged: int
    outcomes: Mapping[str, int]
    reasons: Mapping[str, int]
    warnings: tuple[str, ...]
    partial_fails: int
    known_failures: int
    compared: int
    disagreements: int
    tally: Tally
    metrics: MetricTally = field(default_factory=MetricTally)

    @property
    def n(self) -> int:
        """Conversations evaluated: those that passed or failed."""
        return self.outcomes.get("pass", 0) + self.outcomes.get("fail", 0)


@dataclass(slots=True, kw_only=True)
class OutcomeCounts:
    """Accumulates the result of an evaluation, batch by batch."""

    outcomes: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    warnings: set[str] = field(default_factory=set)
    restated: int = 0
    unchanged: int = 0
    partial_fails: int = 0
    known_failures: int = 0
    compared: int = 0
    disagreements: int = 0

    def add(self, part: Sequence[Scored], before: AbstractSet[Key], *, unchanged: int) -> None:
        """Count a stored batch.

        Args:
            part: the stored scores.
            before: conversations that had a score before.
            unchanged: number of further conversations that were scored with the same result as before.
        """
        self.unchanged += unchanged
        for item in part:
            score = item.score
            self.outcomes[score.outcome] += 1
            if score.reason is not None:
                self.reasons[score.reason] += 1
            if item.match.warning is not None:
                self.warnings.add(item.match.warning)
            self.restated += (score.environment, score.conversation_id) in before
            self.partial_fails += score.partial and score.outcome == "fail"
            self.known_failures += score.outcome == "not_evaluated" and score.known_failure is not None
            if score.outcome_source != "computed" and score.computed_outcome != "not_evaluated":
                self.compared += 1
                self.disagreements += score.computed_outcome != score.outcome

    def summary(self, evaluation_id: str, tally: Tally, metrics: MetricTally) -> EvaluationSummary:
        """Return the totals."""
        return EvaluationSummary(
            evaluation_id=evaluation_id,
            scored=self.outcomes.total(),
            restated=self.restated,
            unchanged=self.unchanged,
            outcomes=self.outcomes,
            reasons=self.reasons,
            warnings=tuple(sorted(self.warnings)),
            partial_fails=self.partial_fails,
            known_failures=self.known_failures,
            compared=self.compared,
            disagreements=self.disagreements,
            tally=tally,
            metrics=metrics,
        )
