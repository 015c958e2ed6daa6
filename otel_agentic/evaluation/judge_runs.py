"""Matched conversations -> scores, with any judge: the exact one, which computes, or one that calls a model.

All questions of a batch are sent to the judge together; each conversation is scored as soon as its answers are complete.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Final, Self

from otel_agentic.compat import scorer
from otel_agentic.evaluation.counts import Tally
from otel_agentic.evaluation.sampling import position_of
from otel_agentic.judges import ExactJudge, is_calibrated, kinds_of
from otel_agentic.judges.asking_judge import AskingJudge, Cost, Limits
from otel_agentic.judges.base import JudgeFailure, Verdict
from otel_agentic.judges.breaker import NotAsked, Patience
from otel_agentic.scoring import MatchedConversation, score_conversations
from otel_agentic.store.judges import DuckDbJudgeCache
from otel_agentic.store.selection import Scored

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence
    from types import TracebackType

    from otel_agentic.compat.scorers import Scorer
    from otel_agentic.config import JudgeSettings, ScoringSettings
    from otel_agentic.judges import Budget, Judge, JudgeCache
    from otel_agentic.judges.base import Question
    from otel_agentic.judges.breaker import Breaker
    from otel_agentic.scoring import ConversationScore
    from otel_agentic.store import Store
    from otel_agentic.store.table import Key

    Answer = Verdict | JudgeFailure


class MemoryCache:
    """Verdicts of earlier evaluations in this process; pass the same cache to every `evaluate` to pay for each only once."""

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

    Without a store earlier evaluations are unknown, so `budget_window` has no effect.
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
    """A budget that is exhausted once a run stops: requested answers are awaited and kept, no new question is asked."""

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
    score: Callable[[Sequence[MatchedConversation], Judge], list[ConversationScore]],
    *,
    tally: Tally,
    stop: Callable[[], bool] = lambda: False,
    on_answer: Callable[[Answer], None] = lambda _: None,
    waits: bool = False,
) -> Iterator[tuple[int, ConversationScore]]:
    """Yield (index, score) of each conversation as soon as the judge has answered everything that its score needs.

    All questions are sent to the judge together, so that it is busy until the last one, in the order of
    `sampling.position_of`, in which the budget is spent. If an answer raises new questions, they are asked in another round.
    A conversation is not yielded if `stop` returned True before all its questions were answered or, with `waits`, if the
    judge was unavailable.
    """
    order = {index: position_of(item.conversation.key) for index, item in enumerate(matched)}
    known = _RecordingJudge(judge)
    waiting: dict[int, dict[Question, None]] = {}

    def scored(index: int) -> Iterator[tuple[int, ConversationScore]]:
        known.missing.clear()
        (result,) = score([matched[index]], known)
        if known.missing:
            waiting[index] = dict(known.missing)
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
            known.answers[questions[number]] = answer
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

    Questions left for the next run are omitted: those not asked, or not often enough, because of a stop or, with `waits`,
    because the judge is unavailable.
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


class _RecordingJudge:
    """A judge that returns known answers and records the questions without one."""

    def __init__(self, judge: Judge) -> None:
        self.name: str = judge.name
        self.version: str = judge.version
        self.kinds = kinds_of(judge)
        self.calibrated = is_calibrated(judge)
        self.answers: dict[Question, Answer] = {}
        self.missing: dict[Question, None] = {}  # a dict keeps the order of the questions

    @classmethod
    def from_settings(cls, settings: JudgeSettings, argument: str | None = None) -> Self:
        raise NotImplementedError  # not a plug-in: it replaces a judge while questions are collected

    def judge(self, questions: Sequence[Question]) -> list[Answer]:
        self.missing |= dict.fromkeys(question for question in questions if question not in self.answers)
        unknown = JudgeFailure(reason="judge_error", message="not asked yet")
        return [self.answers.get(question, unknown) for question in questions]


class _PendingQuestions:
    """Conversations, by index, with the questions that each still waits for."""

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
        """Remove an answered question; return the conversations that wait for no other one."""
        indices = self._indices[question]
        for index in indices:
            del self._waiting[index][question]
        return [index for index in indices if not self._waiting[index]]


def _prefetched(answers: Generator[tuple[int, Answer], None, None]) -> Iterator[tuple[int, Answer]]:
    """Yield the items of a generator that a thread consumes.

    The judge is asked the next question when an answer is consumed; without the thread it would be idle while the caller
    scores and stores.
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


class CachedJudge:
    """A judge that answers from the cache only."""

    def __init__(self, judge: AskingJudge, cache: JudgeCache) -> None:
        self.name: str = judge.name
        self.version: str = judge.version
        self.kinds = kinds_of(judge)
        self.calibrated = is_calibrated(judge)
        self._key: Callable[[Question], str] = judge.key
        self._cache = cache

    @classmethod
    def from_settings(cls, settings: JudgeSettings, argument: str | None = None) -> Self:
        """Raise: this is not a plug-in."""
        raise NotImplementedError

    def judge(self, questions: Sequence[Question]) -> list[Verdict | JudgeFailure]:
        """Return the cached verdict of each question, or a failure without one."""
        keys = [self._key(question) for question in questions]
        known = self._cache.get(keys)
        return [known.get(key, _UNKNOWN) for key in keys]


#: Conversations scored and stored in one batch.
_PORTION: Final = 500
#: Conversations whose questions are sent to the judge together: enough that waiting for the last answers costs little.
JUDGED_BATCH: Final = 2000
#: Finished scores are yielded at least this often, seconds.
_PATIENCE_S: Final = 1.0


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
            judge: decides whether answers are correct. The exact judge is called directly, which is cheaper than caching.
            budget: limits the cost.
            scoring: the scoring settings.
            settings: the settings of LLM judges.
            stop: once it returns True, no new work begins.
            on_answer: called with each answer of an LLM judge, including those from the cache.
            breaker: suspends a failing judge; None never does.
            waits: leave a conversation unscored for a later run while the judge is unavailable; without it the run waits for
                the judge, at most `settings.outage_wait_s`.
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
            coming = [thread.submit(match, part) for part in parts[:1]]
            for following in [*parts[1:], None]:
                matched = coming.pop().result()
                if following is not None:
                    coming.append(thread.submit(match, following))
                yield from _portions(self.scores(matched), matched)
                if self._stop():
                    return

    def scores(self, matched: Sequence[MatchedConversation]) -> Iterator[tuple[int, ConversationScore]]:
        """Yield (index, score) of conversations, in any order; of only some of them after a stop."""
        if self._asker is None:
            yield from enumerate(self._score(matched, judge=self._judge))
        else:
            yield from score_asking(
                matched,
                self._asker,
                self._score_with,
                tally=self.tally,
                stop=self._stop,
                on_answer=self._on_answer,
                waits=self._waits,
            )

    def scored_from_cache(self, matched: Sequence[MatchedConversation]) -> list[ConversationScore]:
        """Recompute scores without asking the judge: its verdicts come from the cache, as far as they are still there."""
        if self._asker is None:
            return list(self._score(matched, judge=self._judge))
        cache = DuckDbJudgeCache(self._store, self._judge.name, self._judge.version)
        try:
            return self._score_with(matched, CachedJudge(self._asker, cache))
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

    def _score_with(self, matched: Sequence[MatchedConversation], judge: Judge) -> list[ConversationScore]:
        return self._score(matched, judge=judge)


def _portions(
    scores: Iterator[tuple[int, ConversationScore]], matched: Sequence[MatchedConversation]
) -> Iterator[list[Scored]]:
    ready: list[Scored] = []
    since_s = time.monotonic()
    for index, score in scores:
        item = matched[index]
        ready.append(Scored(conversation=item.conversation, match=item.match, score=score))
        if len(ready) >= _PORTION or time.monotonic() - since_s >= _PATIENCE_S:
            yield ready
            ready, since_s = [], time.monotonic()
    if ready:
        yield ready


def canaries_of(judge: Judge) -> tuple[int, int] | None:
    """Return how many canaries a judge was asked so far and how many passed; None if the judge has no canaries."""
    canaries = getattr(judge, "canaries", None)
    return None if canaries is None else (canaries.total, canaries.fooled)


def scorer_of(settings: ScoringSettings) -> Scorer:
    """Return the scoring function of the settings: our own, or another system's arithmetic."""
    return score_conversations if settings.compat is None else scorer(settings.compat)
