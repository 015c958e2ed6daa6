"""Matched conversations -> scores, with any judge: the exact one, which computes, or one that calls a model."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Final, Self

from otel_agentic.compat import scorer
from otel_agentic.judges import ExactJudge
from otel_agentic.judges.asking import AskingJudge
from otel_agentic.judges.breaker import Patience
from otel_agentic.pipeline.asking import StoppableBudget, answers_to, score_asking
from otel_agentic.pipeline.metrics_recalled import CachedJudge
from otel_agentic.pipeline.tally import Tally
from otel_agentic.scoring import MatchedConversation, score_conversations
from otel_agentic.store.judge_calls import DuckDbJudgeCache
from otel_agentic.store.selection import Scored

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import TracebackType

    from otel_agentic.compat.scorers import Scorer
    from otel_agentic.config import JudgeSettings, ScoringSettings
    from otel_agentic.judges import Budget, Judge, JudgeFailure, Question, Verdict
    from otel_agentic.judges.breaker import Breaker
    from otel_agentic.scoring import ConversationScore
    from otel_agentic.store import Store
    from otel_agentic.store.table import Key

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
