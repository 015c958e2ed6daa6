"""Batches of scored conversations: the rows that are stored, and the scores for those who ask for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, overload

from otel_agentic.evaluation.scope import EvaluationSummary, Sample
from otel_agentic.store.scores import NewScores
from otel_agentic.store.table import Scored

if TYPE_CHECKING:
    from collections.abc import Container

    from otel_agentic.evaluation.conversation import ConversationEvaluation
    from otel_agentic.store.score_rows import Types
    from otel_agentic.store.table import Measured


class ScoredBatch(Sequence[Scored]):
    """Conversations that were scored together, as a sequence of their scores.

    `rows` are all that is stored of them, `summary` counts them. The scores themselves are made when the sequence is first
    read: if a worker scored the conversations, restoring them takes much of the time that the worker saves.
    """

    def __init__(self, rows: NewScores, summary: EvaluationSummary, scores: Callable[[], Sequence[Scored]]) -> None:
        self.rows = rows
        self.summary = summary
        self._scores = scores

    @classmethod
    def joined(cls, parts: Sequence[ScoredBatch]) -> ScoredBatch:
        """Return the conversations of several parts, of which there is at least one, as a batch."""
        summary = EvaluationSummary(evaluation_id=parts[0].summary.evaluation_id)
        for part in parts:
            summary.merge(part.summary)
        rows = NewScores.joined([part.rows for part in parts])
        return cls(rows, summary, lambda: [scored for part in parts for scored in part])

    def __len__(self) -> int:
        return len(self.rows.keys)

    @overload
    def __getitem__(self, index: int) -> Scored: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Scored]: ...
    def __getitem__(self, index: int | slice) -> Scored | Sequence[Scored]:
        return self._scored[index]

    def __iter__(self) -> Iterator[Scored]:
        return iter(self._scored)

    @cached_property
    def _scored(self) -> Sequence[Scored]:
        return self._scores()

    def measured(self, restated: Container[tuple[str, str, str]]) -> Iterator[Measured]:
        """Yield the scores of evaluators; `restated` as in `NewScores.save`."""
        for item in self._scored:
            for measured in item.metrics:
                known = (*item.conversation.key, measured.evaluator.name) in restated
                yield replace(measured, restated=True) if known else measured


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchMaker:
    """Turns scores into batches.

    `evaluation_id` and `name` are those of the evaluation, `criteria` the deciding criteria, see
    `scoring.criteria.fingerprint`. `types` are the types of the columns, see `store.score_rows.score_types`.
    """

    evaluation: ConversationEvaluation
    sample: Sample
    types: Types
    evaluation_id: str
    criteria: str

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
        return ScoredBatch(rows, summary, lambda: marked)
