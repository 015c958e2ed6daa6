"""Runs of a judge and of evaluators over conversations: ask in parallel within budgets, and store the scores.

`JudgeRun` scores conversations with a judge, `MetricRunner` runs evaluators over scored conversations.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from queue import SimpleQueue
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self, TypeVar

from otel_agentic.compat import scorer
from otel_agentic.errors import UsageError
from otel_agentic.evaluation.scope import MetricTally, Tally, position_of
from otel_agentic.evaluators.base import AskingEvaluator, Evaluator, Subject, asks
from otel_agentic.evaluators.registry import Chosen, evaluation_id_of
from otel_agentic.evaluators.run import Ask, Ran, evaluate
from otel_agentic.judges import ExactJudge, is_calibrated
from otel_agentic.judges.asking_judge import AskingJudge, Cost, Limits
from otel_agentic.judges.base import Breaker, JudgeFailure, NotAsked, Patience, Question, Verdict, kinds_of
from otel_agentic.scoring import MatchedConversation, score_conversations
from otel_agentic.scoring.outcome import aligned_turns
from otel_agentic.store.judges import DuckDbJudgeCache
from otel_agentic.store.scores import Evaluation, Measured, evaluated_before, save_evaluations, save_metrics
from otel_agentic.store.table import Scored

if TYPE_CHECKING:
    from otel_agentic.compat.scorers import Scorer
    from otel_agentic.config import EvaluatorSettings, JudgeSettings, ScoringSettings
    from otel_agentic.conversations.model import Conversation
    from otel_agentic.evaluation.scope import Truth
    from otel_agentic.judges import Budget, Judge, JudgeCache
    from otel_agentic.scoring.model import ConversationScore
    from otel_agentic.store import Store
    from otel_agentic.store.connection import Connection
    from otel_agentic.store.table import Key
    from otel_agentic.telemetry import Evaluator as EventEvaluator
    from otel_agentic.truth.match import Match

    AnyEvaluator = Evaluator | AskingEvaluator
    Answer = Verdict | JudgeFailure

T = TypeVar("T")
#: Maximum number of scores in one transaction, and the maximum time that scores wait for further ones, seconds.
_ROWS: Final = 20_000
_PATIENCE_S: Final = 1.0
#: Maximum number of metric names in one message.
_NAMED: Final = 5


def require_judge(chosen: Chosen, judge: Judge) -> Chosen:
    """Return the evaluators that can run with a judge.

    Without an LLM judge, the metrics of a family that need one are omitted.

    Raises:
        UsageError: a metric that needs an LLM judge was requested by name, or no metric remains.
    """
    if not chosen.judge_evaluators or "rubric" in kinds_of(judge):
        return chosen
    names = [name for name in chosen.asked_for if name not in chosen.broad]
    without_judge = chosen.without_judge()
    if not names and (without_judge.evaluators or without_judge.groups):
        return without_judge
    raise UsageError(
        f"an LLM judge is needed for {_name_list(names or without_judge.unasked)}, and judge {judge.name!r} calls no model; pass "
        "--judge langchain:openai:gpt-5-mini, or choose other metrics"
    )


def unasked_note(names: Sequence[str]) -> str:
    """Return a message that names the metrics skipped because they need an LLM judge.

    >>> unasked_note(["agentic.agentest.coherence"])
    'skipped (needs an LLM judge): agentest.coherence; pass --judge langchain:openai:gpt-5-mini'
    """
    skipped = ", ".join(name.removeprefix("agentic.") for name in names)
    return f"skipped (needs an LLM judge): {skipped}; pass --judge langchain:openai:gpt-5-mini"


def _name_list(names: Sequence[str]) -> str:
    return ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")


def subject_of(
    conversation: Conversation, match: Match, score: ConversationScore, settings: ScoringSettings
) -> Subject:
    """Return the input of evaluators; it has the case only if that is reviewed, with turns aligned as in scoring."""
    case = match.case if match.case is not None and match.case.reviewed else None
    aligned: Mapping[int, int] = {}
    if case is not None and score.turns:
        aligned = {turn.turn_index: turn.case_turn_index for turn in score.turns if turn.case_turn_index is not None}
    elif case is not None:
        aligned = aligned_turns(case, conversation.turns)
    return Subject(conversation=conversation, case=case, score=score, aligned=aligned, settings=settings)


def evaluator_of(item: Scored, truth: Truth, settings: ScoringSettings) -> EventEvaluator:
    """Return the evaluator of a conversation with its thresholds; the case takes precedence over the settings."""
    from otel_agentic.telemetry import Evaluator as EventEvaluator  # noqa: PLC0415 — only where events are emitted

    case = item.match.case
    answer = case.answer_threshold if case is not None else None
    tool = case.tool_threshold if case is not None else None
    return EventEvaluator(
        version=truth.evaluation.evaluation_id,
        answers="rule" if isinstance(truth.judge, ExactJudge) else "judge",
        answer_threshold=settings.answer_threshold if answer is None else answer,
        tool_threshold=settings.tool_threshold if tool is None else tool,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveEvaluators:
    """The chosen evaluators with their evaluation ids.

    Attributes:
        chosen: the evaluators.
        ids: the evaluation ids, by name of the evaluator.
        evaluation: the name of the evaluation, the same as that of the conversation scores.
    """

    chosen: Chosen
    ids: Mapping[str, str]
    evaluation: str

    @classmethod
    def of(cls, chosen: Chosen, core: Evaluation, judge: Judge, settings: EvaluatorSettings) -> ActiveEvaluators:
        """Return the evaluators with their evaluation ids, derived from the evaluation of the conversation scores."""
        ids = {
            evaluator.name: evaluation_id_of(evaluator, core.evaluation_id, judge, settings)
            for evaluator in chosen.evaluators
        }
        return cls(chosen=chosen, ids=ids, evaluation=core.name)

    @property
    def asks_judge(self) -> Mapping[str, bool]:
        """Whether the evaluator asks the judge, by evaluation id."""
        return {self.ids[evaluator.name]: asks(evaluator) for evaluator in self.chosen.evaluators}

    def save(self, con: Connection, core: Evaluation, now_ns: int) -> None:
        """Store an evaluation for each evaluator."""
        evaluations = [
            replace(
                core,
                evaluation_id=self.ids[evaluator.name],
                evaluator=evaluator.name,
                evaluator_version=evaluator.version,
            )
            for evaluator in self.chosen.evaluators
        ]
        save_evaluations(con, evaluations, now_ns)


class MetricRunner:
    """Runs evaluators over scored conversations and stores the scores in batches."""

    def __init__(
        self,
        store: Store,
        active: ActiveEvaluators,
        settings: ScoringSettings,
        *,
        ask: Ask,
        on_scores: Callable[[Sequence[Measured]], None],
        stop: Callable[[], bool],
    ) -> None:
        """Create a runner.

        Args:
            store: receives the scores.
            active: the evaluators.
            settings: the scoring settings.
            ask: asks the judge.
            on_scores: called with each batch of scores, after it was stored.
            stop: once it returns True, no new work begins.
        """
        self._store = store
        self._active = active
        self._settings = settings
        self._ask = ask
        self._on_scores = on_scores
        self._stop = stop
        self.tally = MetricTally()

    @property
    def stopped(self) -> bool:
        """Whether no new work may begin."""
        return self._stop()

    def id_of(self, evaluator: AnyEvaluator) -> str:
        """Return the evaluation id of an evaluator."""
        return self._active.ids[evaluator.name]

    def measure(self, scored: Sequence[Scored], evaluators: Iterable[AnyEvaluator], *, fresh: bool = False) -> None:
        """Run evaluators over scored conversations; `fresh`: none of them has metric scores yet."""
        chosen = list(evaluators)
        if not scored or not chosen or self._stop():
            return
        evaluated: AbstractSet[tuple[str, str, str]] = frozenset()
        if not fresh:
            with self._store.read() as con:
                evaluated = evaluated_before(con, [item.conversation.key for item in scored], self._active.evaluation)
        if any(map(asks, chosen)):  # the order in which the judge's budget is spent
            scored = sorted(scored, key=lambda item: position_of(item.conversation.key))
        subjects = [subject_of(item.conversation, item.match, item.score, self._settings) for item in scored]
        for batch in _batches(evaluate(chosen, subjects, self._ask), _ROWS, lambda ran: len(ran.scores)):
            self._save([self._measured(result, scored[result.subject_index], evaluated) for result in batch])
            self.tally.faults.update(fault for result in batch for fault in result.faults)

    def _measured(self, ran: Ran, item: Scored, evaluated: AbstractSet[tuple[str, str, str]]) -> Measured:
        environment, name = item.conversation.key
        case = item.match.case
        return Measured(
            conversation=item.conversation,
            case_id=case.case_id if case is not None and case.reviewed else None,
            evaluator=ran.evaluator,
            evaluation_id=self._active.ids[ran.evaluator.name],
            scores=ran.scores,
            restated=(environment, str(name), ran.evaluator.name) in evaluated,
            evaluation=self._active.evaluation,
        )

    def _save(self, measured: Sequence[Measured]) -> None:
        fresh = not any(item.restated for item in measured)
        self._store.write(partial(save_metrics, measured=measured, now_ns=self._store.clock(), fresh=fresh))
        self.tally.add(measured)
        self._on_scores(measured)


def _batches(items: Iterable[T], max_size: int, size: Callable[[T], int] = lambda _: 1) -> Iterator[list[T]]:
    """Yield items in batches: a batch ends when it reaches `max_size`, or `_PATIENCE_S` after its start."""
    batch: list[T] = []
    batch_size, since_s = 0, time.monotonic()
    for item in items:
        batch.append(item)
        batch_size += size(item)
        if batch_size >= max_size or time.monotonic() - since_s >= _PATIENCE_S:
            yield batch
            batch, batch_size, since_s = [], 0, time.monotonic()
    if batch:
        yield batch


class MemoryCache:
    """A cache of verdicts in memory; pass the same cache to every `evaluate` to pay for each verdict only once."""

    def __init__(self) -> None:
        self._verdicts: dict[str, Verdict] = {}

    def __len__(self) -> int:
        return len(self._verdicts)

    def get(self, keys: Sequence[str]) -> dict[str, Verdict]:
        """Return the known verdicts by key."""
        return {key: self._verdicts[key] for key in keys if key in self._verdicts}

    def put(self, key: str, verdict: Verdict | JudgeFailure, question: Question) -> None:  # noqa: ARG002 — the cache's protocol
        """Store a verdict; a failure is not stored, so that the question is asked again."""
        if isinstance(verdict, Verdict):
            self._verdicts[key] = verdict

    def flush(self) -> None:
        """Do nothing: the cache is in memory only."""


class RunBudget:
    """The budget of one evaluation: `max_calls`, `max_tokens` and `max_cost_usd` of the judge settings.

    Without a store, the cost of earlier evaluations is unknown, so `budget_window` has no effect.
    """

    def __init__(self, settings: JudgeSettings) -> None:
        self._limits = Limits(settings)
        self._spent = Cost()
        self._reached: str | None = None

    def allows(self, *, calls: int, tokens: int) -> bool:
        """Return whether the given number of further model calls and tokens may be spent."""
        reached = self._limits.reached(self._spent, calls=calls, tokens=tokens)
        self._reached = reached or self._reached
        return reached is None

    def spend(self, verdict: Verdict | JudgeFailure) -> None:
        """Add the cost of a verdict or a failure."""
        self._spent += Cost.of(verdict)

    @property
    def used_up(self) -> str | None:
        """A message with the limit that was reached, or None."""
        return None if self._reached is None else f"the budget of this evaluation is used up ({self._reached})"


class StoppableBudget:
    """A budget that is exhausted once a run stops: pending answers are awaited and stored, no new question is asked."""

    def __init__(self, budget: Budget, stop: Callable[[], bool]) -> None:
        self._budget = budget
        self._stop = stop

    def allows(self, *, calls: int, tokens: int) -> bool:
        """Return whether the given number of further model calls and tokens (an estimate) may be spent."""
        return not self._stop() and self._budget.allows(calls=calls, tokens=tokens)

    def spend(self, verdict: Verdict | JudgeFailure) -> None:
        """Add the cost of a verdict or a failure."""
        self._budget.spend(verdict)

    @property
    def used_up(self) -> str | None:
        """The limit that was reached, or None."""
        limit: str | None = getattr(self._budget, "used_up", None)
        return limit


def score_asking(
    matched: Sequence[MatchedConversation],
    judge: AskingJudge,
    score: Callable[..., list[ConversationScore]],
    *,
    tally: Tally,
    stop: Callable[[], bool] = lambda: False,
    on_answer: Callable[[Answer], None] = lambda _: None,
    waits: bool = False,
) -> Iterator[tuple[int, ConversationScore]]:
    """Yield (index, score) of each conversation as soon as the judge has answered all questions that its score needs.

    All questions are sent to the judge together, to keep it busy, in the order of `scope.position_of`, in which the
    budget is spent. If an answer raises new questions, they are asked in another round.
    A conversation is not yielded if `stop` returned True before all its questions were answered or, with `waits`, if
    the judge was unavailable.
    """
    order = {index: position_of(item.conversation.key) for index, item in enumerate(matched)}
    stand_in = StandInJudge(judge)
    waiting: dict[int, dict[Question, None]] = {}

    def scored(index: int) -> Iterator[tuple[int, ConversationScore]]:
        stand_in.missing.clear()
        (result,) = score([matched[index]], judge=stand_in)
        if stand_in.missing:
            waiting[index] = dict(stand_in.missing)
        else:
            yield index, result

    for index in range(len(matched)):
        yield from scored(index)
    while waiting and not stop():
        pending, waiting = (
            _PendingQuestions({index: waiting[index] for index in sorted(waiting, key=order.__getitem__)}),
            {},
        )
        questions = pending.questions
        for number, answer in answers_to(questions, judge, tally=tally, stop=stop, on_answer=on_answer, waits=waits):
            stand_in.answers[questions[number]] = answer
            for index in pending.without(questions[number]):
                yield from scored(index)


def answers_to(
    questions: Sequence[Question],
    judge: AskingJudge,
    *,
    tally: Tally,
    stop: Callable[[], bool] = lambda: False,
    on_answer: Callable[[Answer], None] = lambda _: None,
    waits: bool = False,
) -> Iterator[tuple[int, Answer]]:
    """Yield (index, answer) for questions, in order of completion, and count the answers.

    Questions left for the next run are omitted: those not asked, or not often enough, because of a stop or, with
    `waits`, because the judge is unavailable.
    """
    for number, answer in _prefetched(judge.verdicts(questions)):
        if stop() and isinstance(answer, JudgeFailure):
            continue
        if waits and isinstance(answer, NotAsked) and answer.waits:
            tally.postponed += 1
            continue
        tally.count(answer)
        on_answer(answer)
        yield number, answer


class StandInJudge:
    """Replaces a judge that is not asked now: returns known answers, and records the questions without an answer."""

    def __init__(self, judge: Judge) -> None:
        self.name: str = judge.name
        self.version: str = judge.version
        self.kinds = kinds_of(judge)
        self.calibrated = is_calibrated(judge)
        self.answers: dict[Question, Answer] = {}
        self.missing: dict[Question, None] = {}  # a dict keeps the order of the questions

    @classmethod
    def from_settings(cls, settings: JudgeSettings, argument: str | None = None) -> Self:
        """Raise NotImplementedError, because this class is not a plug-in."""
        raise NotImplementedError

    def judge(self, questions: Sequence[Question]) -> list[Answer]:
        """Return the known answer of each question, or a failure."""
        self.missing |= dict.fromkeys(question for question in questions if question not in self.answers)
        not_asked = JudgeFailure(reason="judge_error", message="not asked yet")
        return [self.answers.get(question, not_asked) for question in questions]


class _PendingQuestions:
    """The open questions of each conversation, by index of the conversation."""

    def __init__(self, waiting: dict[int, dict[Question, None]]) -> None:
        self._waiting = waiting
        self._indices: dict[Question, list[int]] = {}
        for index, questions in waiting.items():
            for question in questions:
                self._indices.setdefault(question, []).append(index)

    @property
    def questions(self) -> list[Question]:
        """Every question once, in the order of the conversations."""
        return list(self._indices)

    def without(self, question: Question) -> list[int]:
        """Remove an answered question; return the conversations that have no further open question."""
        indices = self._indices[question]
        for index in indices:
            del self._waiting[index][question]
        return [index for index in indices if not self._waiting[index]]


def _prefetched(answers: Generator[tuple[int, Answer], None, None]) -> Iterator[tuple[int, Answer]]:
    """Yield the items of a generator that a thread consumes ahead of the caller.

    The judge is asked the next question when an answer is consumed. Without the thread it would be idle while the
    caller scores and stores.
    """
    answers_queue: SimpleQueue[tuple[int, Answer] | BaseException | None] = SimpleQueue()
    closed = threading.Event()

    def pump() -> None:
        try:
            with closing(answers):
                for answer in answers:
                    answers_queue.put(answer)
                    if closed.is_set():
                        return
            answers_queue.put(None)
        except BaseException as error:  # noqa: BLE001 — raised in the consuming thread
            answers_queue.put(error)

    threading.Thread(target=pump, name="otel-agentic-asking", daemon=True).start()
    try:
        while (answer := answers_queue.get()) is not None:
            if isinstance(answer, BaseException):
                raise answer
            yield answer
    finally:
        closed.set()


_UNKNOWN: Final = JudgeFailure(reason="judge_error", message="the verdict is no longer cached")


class CachedJudge(StandInJudge):
    """A judge that answers from the cache only."""

    def __init__(self, judge: AskingJudge, cache: JudgeCache) -> None:
        super().__init__(judge)
        self._key: Callable[[Question], str] = judge.key
        self._cache = cache

    def judge(self, questions: Sequence[Question]) -> list[Answer]:
        """Return the cached verdict of each question, or a failure without one."""
        keys = [self._key(question) for question in questions]
        cached = self._cache.get(keys)
        return [cached.get(key, _UNKNOWN) for key in keys]


#: Number of conversations that are scored and stored in one batch.
_PORTION: Final = 500
#: Number of conversations whose questions are sent to the judge together: so many that waiting for the last answers
#: costs little.
JUDGED_BATCH: Final = 2000


class JudgeRun:
    """Scores conversations with one judge. A context manager: on exit, all verdicts are stored."""

    def __init__(
        self,
        store: Store,
        judge: Judge,
        budget: Budget,
        *,
        scoring: ScoringSettings,
        settings: JudgeSettings,
        stop: Callable[[], bool],
        on_answer: Callable[[Verdict | JudgeFailure], None] = lambda _: None,
        breaker: Breaker | None = None,
        waits: bool = False,
    ) -> None:
        """Start a run.

        Args:
            store: holds the cache of verdicts.
            judge: decides whether answers are correct. The exact judge is called directly, which is cheaper than
                caching.
            budget: limits the cost.
            scoring: the scoring settings.
            settings: the settings of LLM judges.
            stop: once it returns True, no new work begins.
            on_answer: called with each answer of an LLM judge, including those from the cache.
            breaker: suspends a failing judge; None: the judge is never suspended.
            waits: leave a conversation unscored for a later run while the judge is unavailable; without it the run
                waits for the judge, at most `settings.outage_wait_s`.
        """
        self._store = store
        self._waits = waits
        self._on_answer = on_answer
        self.tally = Tally()
        self._judge = judge
        self._canaries = canaries_of(judge)
        self._stop = stop
        self._score = partial(scorer_of(scoring), settings=scoring)
        self._cache: DuckDbJudgeCache | None = None
        self._asker: AskingJudge | None = None
        if not isinstance(judge, ExactJudge):
            self._cache = DuckDbJudgeCache(store, judge.name, judge.version, reads=settings.cache)
            self._asker = AskingJudge(
                judge,
                cache=self._cache,
                budget=StoppableBudget(budget, stop),
                breaker=breaker,
                patience=None if waits else Patience(settings.outage_wait_s, stop),
            )

    def scored(
        self, keys: Sequence[Key], match: Callable[[Sequence[Key]], list[MatchedConversation]]
    ) -> Iterator[list[Scored]]:
        """Yield scores in batches as they become available.

        Args:
            keys: the conversations.
            match: returns conversations with their cases; called for the next part while the judge answers.
        """
        if not keys:
            return
        size = _PORTION if self._asker is None else JUDGED_BATCH
        parts = [keys[start : start + size] for start in range(0, len(keys), size)]
        with ThreadPoolExecutor(max_workers=1, thread_name_prefix="otel-agentic-matching") as thread:
            pending_matches = [thread.submit(match, part) for part in parts[:1]]
            for next_part in [*parts[1:], None]:
                matched = pending_matches.pop().result()
                if next_part is not None:
                    pending_matches.append(thread.submit(match, next_part))
                scores = ((matched[index], score) for index, score in self.scores(matched))
                yield from _batches(
                    (Scored(conversation=item.conversation, match=item.match, score=score) for item, score in scores),
                    _PORTION,
                )
                if self._stop():
                    return

    def scores(self, matched: Sequence[MatchedConversation]) -> Iterator[tuple[int, ConversationScore]]:
        """Yield (index, score) of conversations, in any order; after a stop, conversations may be missing."""
        if self._asker is None:
            yield from enumerate(self._score(matched, judge=self._judge))
        else:
            yield from score_asking(
                matched,
                self._asker,
                self._score,
                tally=self.tally,
                stop=self._stop,
                on_answer=self._on_answer,
                waits=self._waits,
            )

    def scored_from_cache(self, matched: Sequence[MatchedConversation]) -> list[ConversationScore]:
        """Recompute scores without asking the judge; only cached verdicts are used."""
        if self._asker is None:
            return list(self._score(matched, judge=self._judge))
        cache = DuckDbJudgeCache(self._store, self._judge.name, self._judge.version)
        try:
            return self._score(matched, judge=CachedJudge(self._asker, cache))
        finally:
            cache.close()

    def ask(self, questions: Sequence[Question]) -> Iterator[tuple[int, Verdict | JudgeFailure]]:
        """Yield (index, answer) for questions, in order of completion; nothing if the judge is the exact one.

        Do not call it while `scored` is running: only one thread at a time may ask the judge.
        """
        if self._asker is not None:
            yield from answers_to(
                questions, self._asker, tally=self.tally, stop=self._stop, on_answer=self._on_answer, waits=self._waits
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._cache is not None:
            self._cache.close()
        before, now = self._canaries, canaries_of(self._judge)
        if before is not None and now is not None:
            self.tally.canaries, self.tally.fooled = now[0] - before[0], now[1] - before[1]


def canaries_of(judge: Judge) -> tuple[int, int] | None:
    """Return the number of canaries that a judge was asked so far, and how many passed; None without canaries."""
    canaries = getattr(judge, "canaries", None)
    return None if canaries is None else (canaries.total, canaries.fooled)


def scorer_of(settings: ScoringSettings) -> Scorer:
    """Return the scoring function of the settings: the built-in one, or one with the arithmetic of another system."""
    return score_conversations if settings.compat is None else scorer(settings.compat)
