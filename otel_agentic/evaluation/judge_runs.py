"""Runs of a judge over conversations: ask in parallel, within budgets, with a cache in the store."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from queue import SimpleQueue
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self, TypeVar

from otel_agentic.evaluation.batch import Tally
from otel_agentic.evaluation.scope import position_of
from otel_agentic.judges import ExactJudge
from otel_agentic.judges.asking_judge import AskingJudge, Cost, Limits
from otel_agentic.judges.base import Breaker, JudgeFailure, NotAsked, Patience, Question, Verdict
from otel_agentic.judges.dialogue import Answer, Ask, Dialogue, ask_of, run_dialogues
from otel_agentic.store.judges import DuckDbJudgeCache

if TYPE_CHECKING:
    from otel_agentic.config import JudgeSettings
    from otel_agentic.evaluation.conversation import ConversationEvaluation
    from otel_agentic.judges import Budget, Judge
    from otel_agentic.scoring import MatchedConversation
    from otel_agentic.store import Store
    from otel_agentic.store.table import Key, Scored

T = TypeVar("T")
#: Maximum time that scores wait for further ones before they are stored, seconds: with a judge, and without one. Storing a
#: batch, however small, costs as much as computing many scores.
_PATIENCE_S, _COMPUTING_S = 1.0, 5.0


def batches(items: Iterable[T], max_size: int, *, patience_s: float = _PATIENCE_S) -> Iterator[list[T]]:
    """Yield items in batches: a batch ends when it has `max_size` items, or `patience_s` after its start."""
    batch: list[T] = []
    since_s = time.monotonic()
    for item in items:
        batch.append(item)
        if len(batch) >= max_size or time.monotonic() - since_s >= patience_s:
            yield batch
            batch, since_s = [], time.monotonic()
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

    def evaluated(
        self,
        keys: Sequence[Key],
        match: Callable[[Sequence[Key]], list[MatchedConversation]],
        evaluation: ConversationEvaluation,
    ) -> Iterator[list[Scored]]:
        """Yield scores in batches as they become available; after a stop, conversations may be missing.

        Args:
            keys: the conversations.
            match: returns conversations with their cases; called for the next part while the judge answers.
            evaluation: scores a conversation.
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
                scores = (scored for _, scored in self.run(matched, evaluation.dialogue))
                yield from batches(scores, _PORTION, patience_s=_COMPUTING_S if self._asker is None else _PATIENCE_S)
                if self._stop():
                    return

    def run(
        self, matched: Sequence[MatchedConversation], dialogue_of: Callable[[MatchedConversation], Dialogue[T]]
    ) -> Iterator[tuple[int, T]]:
        """Yield (index, result) of a dialogue about each conversation, in any order; after a stop, some may be missing.

        The judge is asked in the order in which its budget is spent, see `scope.position_of`.
        """
        order = range(len(matched))
        if self._asker is not None:
            order = sorted(order, key=lambda index: position_of(matched[index].conversation.key))  # type: ignore[assignment]
        for number, result in run_dialogues((dialogue_of(matched[index]) for index in order), self.ask):
            yield order[number], result

    def ask(self, questions: Sequence[Question]) -> Iterable[tuple[int, Answer]]:
        """Yield (index, answer) for questions, in order of completion; only one thread at a time may ask."""
        if self._asker is None:
            return ask_of(self._judge)(questions)
        return answers_to(
            questions, self._asker, tally=self.tally, stop=self._stop, on_answer=self._on_answer, waits=self._waits
        )

    @contextmanager
    def cached_answers(self) -> Iterator[Ask]:
        """Return a function that answers from the cache only, or by the judge if that is the exact one."""
        if self._asker is None:
            yield self.ask
            return
        key, cache = self._asker.key, DuckDbJudgeCache(self._store, self._judge.name, self._judge.version)

        def cached(questions: Sequence[Question]) -> Iterable[tuple[int, Answer]]:
            keys = [key(question) for question in questions]
            known = cache.get(keys)
            return enumerate(known.get(name, _UNKNOWN) for name in keys)

        try:
            yield cached
        finally:
            cache.close()

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
