"""Batches of scored conversations: rows to store, counts of outcomes and judge calls, and the scores themselves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, overload

from otel_agentic.judges import JudgeFailure, Verdict
from otel_agentic.store.scores import NewScores
from otel_agentic.store.table import Scored

if TYPE_CHECKING:
    from collections.abc import Container

    from otel_agentic.evaluation.conversation import ConversationEvaluation
    from otel_agentic.evaluation.scope import Sample
    from otel_agentic.scoring import ConversationScore
    from otel_agentic.store.score_rows import Types
    from otel_agentic.store.table import Key, Measured
    from otel_agentic.telemetry.observations import Observations

T = TypeVar("T")


class LazySequence(Sequence[T]):
    """A sequence whose items are created when it is first read."""

    def __init__(self, size: int, create: Callable[[], Sequence[T]]) -> None:
        self._size = size
        self._create = create

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[T]: ...
    def __getitem__(self, index: int | slice) -> T | Sequence[T]:
        return self._items[index]

    def __iter__(self) -> Iterator[T]:
        return iter(self._items)

    @cached_property
    def _items(self) -> Sequence[T]:
        return self._create()


class Observed(NamedTuple):
    """The observations of scores, and of the scores of evaluators."""

    scores: Observations
    metrics: Observations

    @classmethod
    def joined(cls, parts: Sequence[Observed]) -> Observed:
        """Return the observations of at least one part together."""
        first, *others = parts
        for part in others:
            first.scores.merge(part.scores)
            first.metrics.merge(part.metrics)
        return first


class ScoredBatch(LazySequence[Scored]):
    """Conversations that were scored together, as a sequence of their scores.

    If a worker scored the conversations, their scores are restored when the sequence is first read, which takes a large part
    of the time that the worker saves.

    Attributes:
        rows: all that is stored of them.
        summary: their counts.
        ended_ns: the ends of the conversations, ns.
        observed: the observations of their scores and of those of evaluators, if a worker collected them; no score
            replaces an earlier one then.
    """

    def __init__(
        self,
        rows: NewScores,
        summary: EvaluationSummary,
        ended_ns: Sequence[int],
        scores: Callable[[], Sequence[Scored]],
        observed: Observed | None = None,
    ) -> None:
        super().__init__(len(rows.keys), scores)
        self.rows = rows
        self.summary = summary
        self.ended_ns = ended_ns
        self.observed = observed

    @classmethod
    def joined(cls, parts: Sequence[ScoredBatch]) -> ScoredBatch:
        """Return the conversations of several parts, of which there is at least one, as a batch."""
        summary = EvaluationSummary(evaluation_id=parts[0].summary.evaluation_id)
        for part in parts:
            summary.merge(part.summary)
        observed = [part.observed for part in parts if part.observed is not None]
        return cls(
            NewScores.joined([part.rows for part in parts]),
            summary,
            [end_ns for part in parts for end_ns in part.ended_ns],
            lambda: [scored for part in parts for scored in part],
            Observed.joined(observed) if len(observed) == len(parts) else None,
        )

    def measured(self, restated: Container[tuple[str, str, str]]) -> Sequence[Measured]:
        """Return the scores of evaluators; `restated` as in `NewScores.save`."""
        return LazySequence(
            len(self.rows.sizes),
            lambda: [
                replace(measured, restated=True)
                if (*item.conversation.key, measured.evaluator.name) in restated
                else measured
                for item in self
                for measured in item.metrics
            ],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchMaker:
    """Turns scores into batches.

    `types` are the types of the columns, see `store.score_rows.score_types`; `criteria` are the deciding criteria, see
    `scoring.criteria.fingerprint`; `restated` are the conversations that have a score already.
    """

    evaluation: ConversationEvaluation
    sample: Sample
    types: Types
    evaluation_id: str
    criteria: str
    restated: AbstractSet[Key] = frozenset()

    def batch(self, scored: Sequence[Scored], now_ns: int, *, core: bool = True, unchanged: int = 0) -> ScoredBatch:
        """Return scores as a batch.

        Args:
            scored: the scores.
            now_ns: the time that is stored with them.
            core: False if the conversations keep their scores, and only those of evaluators are new.
            unchanged: number of further conversations that were scored with the same result as before.
        """
        marked = self.sample.marked(scored) if core else scored
        rows = NewScores.of(
            self.types,
            self.evaluation_id,
            marked,
            now_ns,
            evaluation=self.evaluation.active.evaluation,
            criteria=self.criteria,
            core=core,
        )
        summary = EvaluationSummary(evaluation_id=self.evaluation_id, unchanged=unchanged)
        if core:
            summary.add(marked)
        else:
            summary.metrics.caught_up = len(marked)
        summary.metrics.add([measured for item in marked for measured in item.metrics])
        return ScoredBatch(rows, summary, [item.conversation.ended_ns for item in marked], lambda: marked)


@dataclass(slots=True)
class _MetricCounts:
    """Counts of one metric."""

    evaluator: str
    n: int = 0
    values: int = 0
    total: float = 0.0
    labels: Counter[str] = field(default_factory=Counter)
    not_evaluated: Counter[str] = field(default_factory=Counter)

    def merge(self, other: _MetricCounts) -> None:
        self.n += other.n
        self.values += other.values
        self.total += other.total
        self.labels.update(other.labels)
        self.not_evaluated.update(other.not_evaluated)

    @property
    def mean(self) -> float | None:
        return self.total / self.values if self.values else None


@dataclass(slots=True)
class MetricTally:
    """Accumulates metric scores, batch by batch.

    Attributes:
        rows: number of scores.
        caught_up: number of already scored conversations that evaluators were run on.
        faults: messages of failed evaluators, with how often each occurred.
    """

    rows: int = 0
    caught_up: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    _counted: set[tuple[str, str]] = field(default_factory=set)
    _metrics: dict[str, _MetricCounts] = field(default_factory=dict)

    def add(self, measured: Sequence[Measured]) -> None:
        """Count a batch."""
        for item in measured:
            self._counted.add(item.conversation.key)
            self.rows += len(item.scores)
            if item.faults:
                self.faults.update(item.faults)
            for score in item.scores:
                counts = self._metrics.get(score.name)
                if counts is None:
                    counts = self._metrics[score.name] = _MetricCounts(item.evaluator.name)
                if score.reason is not None and score.abstained:
                    counts.not_evaluated[score.reason] += 1
                    continue
                counts.n += 1
                if score.value is not None:
                    counts.values += 1
                    counts.total += score.value
                if score.label is not None:
                    counts.labels[score.label] += 1

    def merge(self, other: MetricTally) -> None:
        """Add the counts of other batches."""
        self.rows += other.rows
        self.caught_up += other.caught_up
        self.faults.update(other.faults)
        self._counted |= other._counted
        for name, counts in other._metrics.items():
            self._metrics.setdefault(name, _MetricCounts(counts.evaluator)).merge(counts)

    def to_json(self, metrics: Collection[str]) -> dict[str, Any]:
        """Return the counts as JSON, restricted to the requested metrics and sorted by name.

        `conversations` is the number of conversations that evaluators were run on.
        """
        return {
            "conversations": len(self._counted),
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

    def add(self, other: Tally) -> None:
        """Add the counts of another run; the message is that of the last failure."""
        for part in fields(Tally):
            own_value, other_value = getattr(self, part.name), getattr(other, part.name)
            if isinstance(own_value, int):
                setattr(self, part.name, own_value + other_value)
        if other.cost_usd is not None:
            self.cost_usd = (self.cost_usd or 0.0) + other.cost_usd
        self.models |= other.models
        self.failure = other.failure or self.failure

    def to_json(self) -> dict[str, Any]:
        """Return the questions, tokens and cost as JSON."""
        return {
            "calls": self.calls,
            "judged": self.verdicts,
            "cached": self.cached,
            "failed": self.failed,
            "failure": self.failure,
            "refused": self.refused,
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "cost_usd": self.cost_usd,
        }


@dataclass(slots=True, kw_only=True)
class CriterionTally:
    """Counts of one deciding criterion.

    Attributes:
        outcomes: conversations by its outcome.
        alone: conversations that fail by it and by no other criterion.
        uncovered: conversations that are not evaluated because of it alone: every other criterion passed.
    """

    outcomes: Counter[str] = field(default_factory=Counter)
    alone: int = 0
    uncovered: int = 0

    def merge(self, other: CriterionTally) -> None:
        """Add the counts of other conversations."""
        self.outcomes.update(other.outcomes)
        self.alone += other.alone
        self.uncovered += other.uncovered


@dataclass(slots=True, kw_only=True)
class EvaluationSummary:
    """The result of an evaluation run, accumulated batch by batch.

    Attributes:
        evaluation_id: the evaluation.
        outcomes: conversations by outcome.
        reasons: conversations that were not evaluated, by reason.
        warnings: warnings of the matched cases.
        restated: number of scored conversations that had a score before.
        unchanged: number of conversations that were scored again with the same result.
        partial_fails: number of failures although other required parts were not evaluated.
        known_failures: number not evaluated because the judge is unsure, although another part failed.
        criteria: counts of each deciding criterion, by its name.
        answers: conversations with annotated answers, by the outcome of their answers alone.
        compared: number of conversations with both a recorded verdict and a computed outcome.
        disagreements: number of those in which the two differ.
        tally: judge calls.
        metrics: counts of metric scores.
    """

    evaluation_id: str
    outcomes: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    warnings: set[str] = field(default_factory=set)
    restated: int = 0
    unchanged: int = 0
    partial_fails: int = 0
    known_failures: int = 0
    criteria: dict[str, CriterionTally] = field(default_factory=dict)
    answers: Counter[str] = field(default_factory=Counter)
    compared: int = 0
    disagreements: int = 0
    tally: Tally = field(default_factory=Tally)
    metrics: MetricTally = field(default_factory=MetricTally)

    @property
    def scored(self) -> int:
        """Conversations scored."""
        return self.outcomes.total()

    @property
    def n(self) -> int:
        """Conversations evaluated: those that passed or failed."""
        return self.outcomes["pass"] + self.outcomes["fail"]

    def add(self, scored: Iterable[Scored]) -> None:
        """Count the scores of conversations, apart from those of evaluators."""
        for item in scored:
            score = item.score
            self.outcomes[score.outcome] += 1
            if score.reason is not None:
                self.reasons[score.reason] += 1
            if item.match.warning is not None:
                self.warnings.add(item.match.warning)
            self.partial_fails += score.partial and score.outcome == "fail"
            self.known_failures += score.outcome == "not_evaluated" and score.known_failure is not None
            self._count_criteria(score)
            if score.outcome_source != "computed" and score.computed_outcome != "not_evaluated":
                self.compared += 1
                self.disagreements += score.computed_outcome != score.outcome

    def _count_criteria(self, score: ConversationScore) -> None:
        open_criteria = [criterion for criterion in score.criteria if criterion.outcome != "pass"]
        failed = [criterion for criterion in open_criteria if criterion.outcome == "fail"]
        for criterion in score.criteria:
            tally = self.criteria.setdefault(criterion.name, CriterionTally())
            tally.outcomes[criterion.outcome] += 1
            tally.alone += failed == [criterion]
            tally.uncovered += open_criteria == [criterion] and not failed
        self.answers.update(criterion.outcome for criterion in score.annotated if criterion.name == "answer")

    def merge(self, other: EvaluationSummary) -> None:
        """Add the conversations and judge calls of another batch, or run, of the same evaluation."""
        for name in ("restated", "unchanged", "partial_fails", "known_failures", "compared", "disagreements"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for counts, more in (
            (self.outcomes, other.outcomes),
            (self.reasons, other.reasons),
            (self.answers, other.answers),
        ):
            counts.update(more)
        self.warnings |= other.warnings
        for criterion, tally in other.criteria.items():
            self.criteria.setdefault(criterion, CriterionTally()).merge(tally)
        self.tally.add(other.tally)
        self.metrics.merge(other.metrics)
