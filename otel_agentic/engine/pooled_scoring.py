"""Scoring in worker processes, with the same results as in one process.

Conversations are assigned to workers by a stable hash.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from otel_agentic.engine.packing import packed, unpacked
from otel_agentic.evaluation.conversation import ActiveEvaluators, ConversationEvaluation
from otel_agentic.evaluation.judge_runs import JudgeRun
from otel_agentic.evaluation.listener import EvaluationListener
from otel_agentic.evaluation.run import EvaluationRunner
from otel_agentic.evaluators.registry import Chosen
from otel_agentic.judges import ExactJudge
from otel_agentic.judges.dialogue import ask_of, run_dialogues
from otel_agentic.store.spans import bucket_of
from otel_agentic.store.table import Scored

if TYPE_CHECKING:
    from concurrent.futures import Future

    from otel_agentic.config import JudgeSettings, ScoringSettings, Settings
    from otel_agentic.engine.packing import Part, Result
    from otel_agentic.engine.workers import WorkerPool, WorkerResources
    from otel_agentic.judges import Budget, Judge
    from otel_agentic.scoring import MatchedConversation
    from otel_agentic.store import Store
    from otel_agentic.store.table import Key


#: Conversations matched, scored and stored in one batch; the next batch is scored meanwhile.
_SCORING_BATCH: Final = 100
#: Parts of a batch per worker, so that a slow part does not keep the other workers waiting.
_PARTS_PER_WORKER: Final = 2


def scoring_over(runner: EvaluationRunner, settings: Settings, pool: WorkerPool | None) -> EvaluationRunner:
    """Return an evaluation runner with worker processes if there are any, else the same one."""
    if pool is None or not isinstance(runner.judge, ExactJudge):
        return runner
    return PooledEvaluationRunner(runner.store, settings, pool)


class PooledEvaluationRunner(EvaluationRunner):
    """Matches and stores in this process; workers score and run the evaluators.

    An LLM judge is always called from this process: waiting for it needs no processor.
    """

    def __init__(
        self,
        store: Store,
        settings: Settings,
        pool: WorkerPool,
        listener: EvaluationListener = EvaluationListener(),  # noqa: B008 — it has no state
    ) -> None:
        super().__init__(
            store,
            settings.scoring,
            settings.judge,
            settings.sampling,
            settings.evaluators,
            matching=settings.matching,
            further=settings.windows.criteria,
            listener=listener,
        )
        self._pool = pool

    def judge_run(self, stop: Callable[[], bool] = lambda: False, *, waits: bool = False) -> JudgeRun:
        """Return a run that scores in workers unless the judge is an LLM, to be used as a context manager."""
        if not isinstance(self.judge, ExactJudge):
            return super().judge_run(stop, waits=waits)
        return PooledJudgeRun(
            self.store, self.judge, self.budget, settings=self._judge_settings, stop=stop, pool=self._pool
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationTask:
    """What a worker needs to evaluate a conversation in addition to the settings of its process; see `ConversationEvaluation`."""

    settings: ScoringSettings
    ids: Mapping[str, str]
    evaluation: str

    @classmethod
    def of(cls, evaluation: ConversationEvaluation) -> EvaluationTask:
        """Return the task of an evaluation."""
        active = evaluation.active
        return cls(settings=evaluation.settings, ids=active.ids, evaluation=active.evaluation)

    def restored(self, resources: WorkerResources) -> ConversationEvaluation:
        """Return the evaluation in a worker."""
        chosen = Chosen(evaluators=tuple(resources.evaluators[name] for name in self.ids))
        active = ActiveEvaluators(chosen=chosen, ids=self.ids, evaluation=self.evaluation)
        return ConversationEvaluation(
            judge=resources.judge, settings=self.settings, active=active, criteria=resources.criteria
        )


class PooledJudgeRun(JudgeRun):
    """Scores in workers, in the order of the conversations."""

    def __init__(
        self,
        store: Store,
        judge: Judge,
        budget: Budget,
        *,
        settings: JudgeSettings,
        stop: Callable[[], bool],
        pool: WorkerPool,
    ) -> None:
        """Start a run; see `JudgeRun`."""
        super().__init__(store, judge, budget, settings=settings, stop=stop)
        self._pool = pool

    def evaluated(
        self,
        keys: Sequence[Key],
        match: Callable[[Sequence[Key]], list[MatchedConversation]],
        evaluation: ConversationEvaluation,
    ) -> Iterator[list[Scored]]:
        """Yield scores in batches; see `JudgeRun.evaluated`."""
        installed = {evaluator.name for evaluator in evaluation.criteria.evaluators}
        from_files = evaluation.active.ids.keys() - installed  # workers have the installed ones only
        if len(keys) < self._pool.least_items or from_files:
            yield from super().evaluated(keys, match, evaluation)
            return
        pending: deque[Iterator[Scored]] = deque()
        for start in range(0, len(keys), _SCORING_BATCH):
            if self._stop():
                break
            pending.append(self._submit(match(keys[start : start + _SCORING_BATCH]), evaluation))
            if len(pending) > 1:
                yield list(pending.popleft())
        while pending:
            yield list(pending.popleft())

    def _submit(self, matched: Part, evaluation: ConversationEvaluation) -> Iterator[Scored]:
        """Submit conversations to the workers; return an iterator that waits for their scores, in the same order."""
        task, parts = EvaluationTask.of(evaluation), by_bucket(matched, self._pool.count * _PARTS_PER_WORKER)
        parts_at_workers = [
            (indices, self._pool.submit(score_packed, task, [matched[index] for index in indices])) for indices in parts
        ]
        return self._collect(matched, evaluation, parts_at_workers)

    def _collect(
        self,
        matched: Part,
        evaluation: ConversationEvaluation,
        parts_at_workers: Sequence[tuple[list[int], Future[bytes] | None]],
    ) -> Iterator[Scored]:
        evaluators = {evaluator.name: evaluator for evaluator in evaluation.active.chosen.evaluators}
        results: dict[int, Result] = {}
        for indices, future in parts_at_workers:
            content = self._pool.result(future)
            if content is None:
                results |= {
                    index: result for index in indices for result in self._score_here(matched[index], evaluation)
                }
            else:
                part = [matched[index] for index in indices]
                results |= dict(zip(indices, unpacked(content, part, evaluators), strict=True))
        for index in sorted(results):
            item, (score, metrics) = matched[index], results[index]
            yield Scored(conversation=item.conversation, match=item.match, score=score, metrics=metrics)

    def _score_here(self, item: MatchedConversation, evaluation: ConversationEvaluation) -> list[Result]:
        """Score one conversation in this process; if that fails, return nothing and record a problem."""
        try:
            return score_part(evaluation, [item])
        except Exception as error:  # noqa: BLE001 — recorded; one conversation must not hold up the others
            name = item.conversation.conversation_id
            self._pool.report(
                f"conversation {name!r} cannot be scored ({type(error).__name__}: {error}); please report it"
            )
            return []


def score_packed(resources: WorkerResources, task: EvaluationTask, part: Part) -> bytes:
    """Return the scores of a part, in its order, packed for the parent process."""
    return packed(score_part(task.restored(resources), part), part)


def score_part(evaluation: ConversationEvaluation, part: Part) -> list[Result]:
    """Return the scores of a part, in its order."""
    scored = dict(run_dialogues(map(evaluation.dialogue, part), ask_of(evaluation.judge)))
    return [(scored[index].score, scored[index].metrics) for index in range(len(part))]


def by_bucket(matched: Part, parts: int) -> list[list[int]]:
    """Return the indices of conversations in at most `parts` lists, by bucket."""
    buckets: dict[int, list[int]] = {}
    for index, item in enumerate(matched):
        buckets.setdefault(bucket_of("\0".join(item.conversation.key)) % parts, []).append(index)
    return [buckets[number] for number in sorted(buckets)]
