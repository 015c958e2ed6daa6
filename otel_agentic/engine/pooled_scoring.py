"""Scoring in worker processes, with the same results as in one process.

The parent process reads rows of conversations and sends them to a worker, which restores, matches and scores the conversations,
and returns the rows that the parent stores. The parent restores scores and conversations only when they are read.
"""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from math import ceil
from typing import TYPE_CHECKING, Final

from otel_agentic.engine.observing import ScoreObserver
from otel_agentic.engine.rebuild import chunks
from otel_agentic.evaluation.batch import BatchMaker, Observed, ScoredBatch
from otel_agentic.evaluation.conversation import ActiveEvaluators, ConversationEvaluation
from otel_agentic.evaluation.listener import EvaluationListener
from otel_agentic.evaluation.run import EvaluationRunner
from otel_agentic.evaluators.registry import Chosen
from otel_agentic.evaluators.run import Ran
from otel_agentic.judges import ExactJudge
from otel_agentic.judges.dialogue import ask_of, run_dialogues
from otel_agentic.store.connection import DEFAULT
from otel_agentic.store.conversations import load_conversation_rows
from otel_agentic.store.table import Measured, Scored

if TYPE_CHECKING:
    from concurrent.futures import Future

    from otel_agentic.config import ScoringSettings, Settings
    from otel_agentic.engine.workers import WorkerPool, WorkerResources
    from otel_agentic.evaluation.batch import EvaluationSummary
    from otel_agentic.evaluation.judge_runs import JudgeRun
    from otel_agentic.evaluation.run import EvaluationRequest
    from otel_agentic.evaluation.scope import Annotations, Sample, Truth
    from otel_agentic.scoring import ConversationScore, MatchedConversation
    from otel_agentic.store import Store
    from otel_agentic.store.conversations import ConversationRows
    from otel_agentic.store.score_rows import Types
    from otel_agentic.store.scores import NewScores
    from otel_agentic.store.table import Key
    from otel_agentic.telemetry import Observer


#: Conversations that are stored together, and scored in as many parts as there are workers; the next batch is scored
#: meanwhile.
_BATCH: Final = 200
#: Numbers of annotations, unique in this process: several runners may share the workers.
_numbers: Final = count()


def scoring_over(runner: EvaluationRunner, settings: Settings, pool: WorkerPool | None) -> EvaluationRunner:
    """Return an evaluation runner with worker processes if there are any, else the same one."""
    if pool is None or not isinstance(runner.judge, ExactJudge):
        return runner
    return PooledEvaluationRunner(runner.store, settings, pool)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoringTask:
    """What a worker needs to score conversations in addition to their rows and the settings of its process.

    `number` identifies the annotations; they are None if the worker has them. `observer` is None if nothing is observed.
    The other fields are those of `BatchMaker` and `ConversationEvaluation`.
    """

    number: int
    annotations: Annotations | None
    settings: ScoringSettings
    ids: Mapping[str, str]
    evaluation: str
    sample: Sample
    types: Types
    evaluation_id: str
    criteria: str
    now_ns: int
    observer: Observer | None

    def maker(self, resources: WorkerResources) -> BatchMaker:
        """Return the maker of batches in a worker."""
        chosen = Chosen(evaluators=tuple(resources.evaluators[name] for name in self.ids))
        return BatchMaker(
            evaluation=ConversationEvaluation(
                judge=resources.judge,
                settings=self.settings,
                active=ActiveEvaluators(chosen=chosen, ids=self.ids, evaluation=self.evaluation),
                criteria=resources.criteria,
            ),
            sample=self.sample,
            types=self.types,
            evaluation_id=self.evaluation_id,
            criteria=self.criteria,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerResult:
    """A scored part, see `ScoredBatch`; `scores` are pickled, without their calls."""

    rows: NewScores
    summary: EvaluationSummary
    ended_ns: Sequence[int]
    observed: Observed | None
    scores: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """Conversations that a worker scores, part of a batch."""

    keys: Sequence[Key]
    rows: ConversationRows
    worker: int
    future: Future[WorkerResult | None] | None


class PooledEvaluationRunner(EvaluationRunner):
    """Reads and stores in this process; workers match, score and run the evaluators.

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
        self._annotations: Annotations | None = None
        self._number = next(_numbers)
        #: The number of the annotations that each worker has.
        self._known: dict[int, int] = {}

    def _batches(
        self,
        truth: Truth,
        request: EvaluationRequest,
        maker: BatchMaker,
        judge_run: JudgeRun,
        stop: Callable[[], bool],
    ) -> Iterator[ScoredBatch]:
        """Score in workers unless the judge is an LLM; see `EvaluationRunner`."""
        keys, pool = request.keys, self._pool
        installed = {evaluator.name for evaluator in self.criteria.evaluators}
        from_files = maker.evaluation.active.ids.keys() - installed  # workers have the installed ones only
        is_little = len(keys) < pool.least_items
        if is_little or request.again or from_files or not isinstance(self.judge, ExactJudge):
            yield from super()._batches(truth, request, maker, judge_run, stop)
            return
        pending: deque[list[_Part]] = deque()
        for batch in chunks(keys, _BATCH):
            if stop():
                break
            parts = chunks(batch, ceil(len(batch) / pool.count))
            pending.append([self._submit(truth, part, maker) for part in parts])
            if len(pending) > 1:
                yield self._batch(truth, pending.popleft(), maker)
        while pending:
            yield self._batch(truth, pending.popleft(), maker)

    def _submit(self, truth: Truth, keys: Sequence[Key], maker: BatchMaker) -> _Part:
        annotations = truth.annotations
        if self._annotations is None or not annotations.are(self._annotations):
            self._annotations, self._number = annotations, next(_numbers)
        with self.store.read() as con:
            rows = load_conversation_rows(con, keys, self.built_since(keys))
        worker, active = self._pool.least_busy(), maker.evaluation.active
        is_observed = active.evaluation == DEFAULT and maker.restated.isdisjoint(keys)
        task = ScoringTask(
            number=self._number,
            annotations=None if self._known.get(worker) == self._number else annotations,
            settings=maker.evaluation.settings,
            ids=active.ids,
            evaluation=active.evaluation,
            sample=maker.sample.of(keys),
            types=maker.types,
            evaluation_id=maker.evaluation_id,
            criteria=maker.criteria,
            now_ns=self.store.clock(),
            observer=self._listener.observer if is_observed else None,
        )
        self._known[worker] = self._number
        return _Part(keys=keys, rows=rows, worker=worker, future=self._pool.submit_to(worker, score_rows, rows, task))

    def _batch(self, truth: Truth, parts: Sequence[_Part], maker: BatchMaker) -> ScoredBatch:
        """Return the scores of the parts of a batch."""
        return ScoredBatch.joined([self._scored_part(truth, part, maker) for part in parts])

    def _scored_part(self, truth: Truth, part: _Part, maker: BatchMaker) -> ScoredBatch:
        """Return the scores of a part; those of a worker, or of this process if the worker failed."""
        result = self._pool.result(part.future)
        if result is None:
            self._known.pop(part.worker, None)  # it may be a new process
            scored = [scored for item in self.match(truth, part.keys) for scored in self._scored_here(item, maker)]
            return maker.batch(scored, self.store.clock())
        return ScoredBatch(
            result.rows,
            result.summary,
            result.ended_ns,
            lambda: _restored(truth, part.rows, result, maker),
            result.observed,
        )

    def _scored_here(self, item: MatchedConversation, maker: BatchMaker) -> list[Scored]:
        """Score one conversation in this process; if that fails, return nothing and record a problem."""
        try:
            return scored_of(maker.evaluation, [item])
        except Exception as error:  # noqa: BLE001 — recorded; one conversation must not hold up the others
            name = item.conversation.conversation_id
            self._pool.report(
                f"conversation {name!r} cannot be scored ({type(error).__name__}: {error}); please report it"
            )
            return []


def _restored(truth: Truth, rows: ConversationRows, result: WorkerResult, maker: BatchMaker) -> list[Scored]:
    """Return the scores of a worker with the conversations, matched as in the worker."""
    scores: list[ConversationScore] = pickle.loads(result.scores)  # noqa: S301 — from a worker that this process started
    matched: dict[Key, MatchedConversation] = {item.conversation.key: item for item in truth.matched(rows.read())}
    active = maker.evaluation.active
    evaluators = {evaluator.name: evaluator for evaluator in active.chosen.evaluators}
    measured: dict[Key, list[Measured]] = {}
    for key, name, metric_scores, score_ids in result.rows.metric_scores():
        ran = Ran(evaluators[name], tuple(metric_scores))
        measured.setdefault(key, []).append(active.measured(ran, matched[key], score_ids=score_ids))
    keys = [(score.environment, score.conversation_id) for score in scores]
    return maker.sample.marked(
        [
            Scored(
                conversation=matched[key].conversation,
                match=matched[key].match,
                score=score,
                metrics=tuple(measured.get(key, ())),
            )
            for key, score in zip(keys, scores, strict=True)
        ]
    )


def score_rows(resources: WorkerResources, rows: ConversationRows, task: ScoringTask) -> WorkerResult | None:
    """Return the scores of conversations in a worker; None if it does not have the annotations."""
    if task.annotations is not None:
        resources.annotations = task.number, task.annotations
    if resources.annotations is None or resources.annotations[0] != task.number:
        return None
    maker = task.maker(resources)
    batch = maker.batch(scored_of(maker.evaluation, resources.annotations[1].matched(rows.read())), task.now_ns)
    scores = [_light(item.score) for item in batch]
    return WorkerResult(
        rows=batch.rows,
        summary=batch.summary,
        ended_ns=batch.ended_ns,
        observed=None if task.observer is None else _observed(resources, batch, task.observer),
        scores=pickle.dumps(scores, protocol=pickle.HIGHEST_PROTOCOL),
    )


def _observed(resources: WorkerResources, batch: ScoredBatch, observer: Observer) -> Observed:
    scores = ScoreObserver(
        observer=observer, rules=resources.rules, judge=resources.judge, settings=resources.settings.scoring
    )
    return Observed(
        scores.scores(batch, batch.summary.evaluation_id, restated=()), scores.metrics(batch.measured(restated=()))
    )


def _light(score: ConversationScore) -> ConversationScore:
    """Return a score without the calls that its tool scores refer to; their evidence is in the rows."""
    return replace(score, tools=tuple(tools._replace(uses=(), judge_results=(), raw=None) for tools in score.tools))


def scored_of(evaluation: ConversationEvaluation, matched: Sequence[MatchedConversation]) -> list[Scored]:
    """Return the scores of conversations, in their order."""
    scored = dict(run_dialogues(map(evaluation.dialogue, matched), ask_of(evaluation.judge)))
    return [scored[index] for index in range(len(matched))]
