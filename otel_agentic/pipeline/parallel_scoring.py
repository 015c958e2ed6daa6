"""Scoring in worker processes: the parent matches and stores, the workers score.

Conversations are assigned to workers by bucket, the stable hash that the store keeps with them. The scores are identical to
those of a single process.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from otel_agentic.judges import ExactJudge
from otel_agentic.pipeline.evaluate import EvaluationRunner
from otel_agentic.pipeline.judging import JudgeRun, scorer_of
from otel_agentic.pipeline.parallel import WorkerPool, WorkerResources
from otel_agentic.pipeline.portable_scores import packed, unpacked
from otel_agentic.store.selection import Scored
from otel_agentic.store.span_columns import bucket_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from concurrent.futures import Future

    from otel_agentic.config import JudgeSettings, ScoringSettings, Settings
    from otel_agentic.judges import Budget, Judge
    from otel_agentic.pipeline.engine import Engine
    from otel_agentic.scoring import ConversationScore, MatchedConversation
    from otel_agentic.store import Store
    from otel_agentic.store.table import Key

    Part = Sequence[MatchedConversation]

#: Conversations matched, scored and stored in one batch; the next batch is scored meanwhile.
_PORTION: Final = 500
#: Parts of a batch per worker, so that a slow part does not keep the other workers waiting.
_PARTS: Final = 2


def scoring_over(engine: Engine, pool: WorkerPool | None) -> EvaluationRunner:
    """Return the evaluation runner of an engine, with worker processes if there are any.

    An LLM judge is always called from this process: waiting for it needs no processor.
    """
    if pool is None or not isinstance(engine.evaluating.judge, ExactJudge):
        return engine.evaluating
    return PooledEvaluationRunner(engine, pool)


class PooledEvaluationRunner(EvaluationRunner):
    """Matches and stores in this process, and scores in workers."""

    def __init__(self, engine: Engine, pool: WorkerPool) -> None:
        settings = engine.settings
        super().__init__(engine.store, settings.scoring, settings.judge, settings.sampling, matching=settings.matching)
        self.judge = engine.evaluating.judge
        self._all_settings = settings
        self._pool = pool

    def judge_run(self, stop: Callable[[], bool] = lambda: False, *, waits: bool = False) -> JudgeRun:  # noqa: ARG002 — the exact judge is always available
        """Return a run that scores in workers, to be used as a context manager."""
        return PooledJudgeRun(
            self.store,
            self.judge,
            self.budget,
            scoring=self._settings,
            settings=self._judge_settings,
            stop=stop,
            over=(self._pool, self._all_settings),
        )


class PooledJudgeRun(JudgeRun):
    """Scores in workers, in the order of the conversations."""

    def __init__(
        self,
        store: Store,
        judge: Judge,
        budget: Budget,
        *,
        scoring: ScoringSettings,
        settings: JudgeSettings,
        stop: Callable[[], bool],
        over: tuple[WorkerPool, Settings],
    ) -> None:
        """Start a run; see `JudgeRun`."""
        super().__init__(store, judge, budget, scoring=scoring, settings=settings, stop=stop)
        self._pool, self._all_settings = over

    def scored(
        self, keys: Sequence[Key], match: Callable[[Sequence[Key]], list[MatchedConversation]]
    ) -> Iterator[list[Scored]]:
        """Yield scores in batches; see `JudgeRun.scored`."""
        pending: deque[Iterator[Scored]] = deque()
        for start in range(0, len(keys), _PORTION):
            if self._stop():
                break
            pending.append(self._submit(match(keys[start : start + _PORTION])))
            if len(pending) > 1:
                yield list(pending.popleft())
        while pending:
            yield list(pending.popleft())

    def _submit(self, matched: Part) -> Iterator[Scored]:
        """Submit conversations to the workers; return an iterator that waits for their scores, in the same order."""
        parts = by_bucket(matched, self._pool.count * _PARTS)
        parts_at_workers = [
            (indices, self._pool.submit(score_packed, [matched[index] for index in indices])) for indices in parts
        ]
        return self._collect(matched, parts_at_workers)

    def _collect(
        self, matched: Part, parts_at_workers: Sequence[tuple[list[int], Future[bytes] | None]]
    ) -> Iterator[Scored]:
        scores: dict[int, ConversationScore] = {}
        for indices, future in parts_at_workers:
            content = self._pool.result(future)
            if content is None:
                scores |= {index: score for index in indices for score in self._score_locally(matched[index])}
            else:
                scores |= dict(zip(indices, unpacked(content, [matched[index] for index in indices]), strict=True))
        for index in sorted(scores):
            item = matched[index]
            yield Scored(conversation=item.conversation, match=item.match, score=scores[index])

    def _score_locally(self, item: MatchedConversation) -> list[ConversationScore]:
        """Score one conversation in this process; if that fails, return nothing and record a problem."""
        try:
            return score_part(WorkerResources(self._all_settings), [item])
        except Exception as error:  # noqa: BLE001 — recorded; one conversation must not hold up the others
            name = item.conversation.conversation_id
            self._pool.problems.append(
                f"conversation {name!r} cannot be scored ({type(error).__name__}: {error}); please report it"
            )
            return []


def score_packed(resources: WorkerResources, part: Part) -> bytes:
    """Return the scores of a part, in its order, packed for the parent process."""
    return packed(score_part(resources, part), part)


def score_part(resources: WorkerResources, part: Part) -> list[ConversationScore]:
    """Return the scores of a part, in its order."""
    settings = resources.settings.scoring
    return list(scorer_of(settings)(part, judge=resources.judge, settings=settings))


def by_bucket(matched: Part, parts: int) -> list[list[int]]:
    """Return the indices of conversations in at most `parts` lists, by bucket."""
    buckets: dict[int, list[int]] = {}
    for index, item in enumerate(matched):
        buckets.setdefault(bucket_of("\0".join(item.conversation.key)) % parts, []).append(index)
    return [buckets[number] for number in sorted(buckets)]
