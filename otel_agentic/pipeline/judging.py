"""Conversations -> scores, with whatever judge: one that computes, or one that is asked and paid."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Final, Self

from otel_agentic.compat import scorer
from otel_agentic.judges import ExactJudge
from otel_agentic.judges.asking import AskingJudge
from otel_agentic.judges.breaker import Patience
from otel_agentic.pipeline.asking import UntilStopped, answers_to, score_asking
from otel_agentic.pipeline.metrics_recalled import Recalling
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
    from otel_agentic.pipeline.rebuild import Key
    from otel_agentic.scoring import ConversationScore
    from otel_agentic.store import Store

#: Conversations scored and written at once.
_PORTION: Final = 500
#: Conversations whose questions go to a judge together: thousands of calls, so that its last ones cost little waiting.
ASKED: Final = 2000
#: Scores that are ready are handed on at least this often, seconds.
_PATIENCE_S: Final = 1.0


class Judging:
    """Scores conversations with one judge. A context manager: on leaving, all verdicts are stored."""

    def __init__(
        self,
        store: Store,
        judge: Judge,
        budget: Budget,
        *,
        scoring: ScoringSettings,
        settings: JudgeSettings,
        stop: Callable[[], bool],
        heard: Callable[[Verdict | JudgeFailure], None] = lambda _: None,
        breaker: Breaker | None = None,
        waits: bool = False,
    ) -> None:
        """Begin.

        Args:
            store: where verdicts are remembered.
            judge: says whether answers are right. The exact judge is asked directly: it costs less than remembering.
            budget: what may be spent.
            scoring: how to score.
            settings: of judges that are asked.
            stop: once it says so, nothing new is begun.
            heard: told of each answer of a judge that is asked, also of those from the cache.
            breaker: stops asking a judge that fails; None asks it whatever happens.
            waits: whether a conversation stays unscored for a later round while the judge does not answer; else the run waits
                for the judge, `settings.outage_wait_s` at most.
        """
        self._store = store
        self._waits = waits
        self._heard = heard
        self.tally = Tally()
        self._judge = judge
        self._canaries = canaries_of(judge)
        self._stop = stop
        self._score = partial(scorer_of(scoring), settings=scoring)
        self._cache: DuckDbJudgeCache | None = None
        self._asking: AskingJudge | None = None
        if not isinstance(judge, ExactJudge):
            self._cache = DuckDbJudgeCache(store, judge.name, judge.version, reads=settings.cache)
            self._asking = AskingJudge(
                judge,
                cache=self._cache,
                budget=UntilStopped(budget, stop),
                breaker=breaker,
                patience=None if waits else Patience(settings.outage_wait_s, stop),
            )

    def scored(
        self, keys: Sequence[Key], match: Callable[[Sequence[Key]], list[MatchedConversation]]
    ) -> Iterator[list[Scored]]:
        """Yield the scores of conversations, some at a time, as they become known.

        Args:
            keys: the conversations.
            match: gives some of them with their cases; the next ones are got while the judge is at work.
        """
        if not keys:
            return
        size = _PORTION if self._asking is None else ASKED
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
        """Yield (place, score) of conversations, in whatever order; after a stop, of some of them."""
        if self._asking is None:
            yield from enumerate(self._score(matched, judge=self._judge))
        else:
            yield from score_asking(
                matched,
                self._asking,
                self._given,
                tally=self.tally,
                stop=self._stop,
                heard=self._heard,
                waits=self._waits,
            )

    def recalled(self, matched: Sequence[MatchedConversation]) -> list[ConversationScore]:
        """Return scores of conversations, made again without asking: what the judge said is taken as far as it is kept."""
        if self._asking is None:
            return list(self._score(matched, judge=self._judge))
        cache = DuckDbJudgeCache(self._store, self._judge.name, self._judge.version)
        try:
            return self._given(matched, Recalling(self._asking, cache))
        finally:
            cache.close()

    def ask(self, questions: Sequence[Question]) -> Iterator[tuple[int, Verdict | JudgeFailure]]:
        """Yield (number, answer) for questions, in order of completion; none of a judge that is not asked.

        It must not be called while `scored` is under way: the judge is asked by one thread at a time.
        """
        if self._asking is not None:
            yield from answers_to(
                questions, self._asking, tally=self.tally, stop=self._stop, heard=self._heard, waits=self._waits
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

    def _given(self, matched: Sequence[MatchedConversation], judge: Judge) -> list[ConversationScore]:
        return self._score(matched, judge=judge)


def _portions(
    scores: Iterator[tuple[int, ConversationScore]], matched: Sequence[MatchedConversation]
) -> Iterator[list[Scored]]:
    ready: list[Scored] = []
    since_s = time.monotonic()
    for place, score in scores:
        one = matched[place]
        ready.append(Scored(conversation=one.conversation, match=one.match, score=score))
        if len(ready) >= _PORTION or time.monotonic() - since_s >= _PATIENCE_S:
            yield ready
            ready, since_s = [], time.monotonic()
    if ready:
        yield ready


def canaries_of(judge: Judge) -> tuple[int, int] | None:
    """Return how many canaries a judge was asked and let pass so far, None for a judge without any."""
    seen = getattr(judge, "canaries", None)
    return None if seen is None else (seen.asked, seen.fooled)


def scorer_of(settings: ScoringSettings) -> Scorer:
    """Return what scores under some settings: our own arithmetic, or that of another system."""
    return score_conversations if settings.compat is None else scorer(settings.compat)
