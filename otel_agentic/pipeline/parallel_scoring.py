"""Scoring over processes of this machine: the parent matches and stores, workers score.

Conversations go to workers by bucket, the stable hash that the store keeps beside them. The scores are those that one
process would make.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from otel_agentic.judges import ExactJudge
from otel_agentic.pipeline.evaluate import Evaluating
from otel_agentic.pipeline.judging import Judging, scorer_of
from otel_agentic.pipeline.parallel import Tools, Workers
from otel_agentic.pipeline.portable_scores import packed, unpacked
from otel_agentic.store.selection import Scored
from otel_agentic.store.span_columns import bucket_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from concurrent.futures import Future

    from otel_agentic.config import JudgeSettings, ScoringSettings, Settings
    from otel_agentic.judges import Budget, Judge
    from otel_agentic.pipeline.engine import Engine
    from otel_agentic.pipeline.rebuild import Key
    from otel_agentic.scoring import ConversationScore, MatchedConversation
    from otel_agentic.store import Store

    Part = Sequence[MatchedConversation]

#: Conversations matched, scored and written together; the next ones are under way meanwhile.
_PORTION: Final = 500
#: Parts of a portion for each worker, so that a slow one does not keep the others waiting.
_PARTS: Final = 2


def scoring_over(engine: Engine, pool: Workers | None) -> Evaluating:
    """Return what scores the conversations of an engine, over workers where there are some.

    A judge that asks models is asked from this process in either case: it waits, and waiting needs no processor.
    """
    if pool is None or not isinstance(engine.evaluating.judge, ExactJudge):
        return engine.evaluating
    return PooledEvaluating(engine, pool)


class PooledEvaluating(Evaluating):
    """Matches and stores in this process, and scores over workers."""

    def __init__(self, engine: Engine, pool: Workers) -> None:
        settings = engine.settings
        super().__init__(engine.store, settings.scoring, settings.judge, settings.sampling, matching=settings.matching)
        self.judge = engine.evaluating.judge
        self._all = settings
        self._pool = pool

    def judging(self, stop: Callable[[], bool] = lambda: False, *, waits: bool = False) -> Judging:  # noqa: ARG002 — this judge is no service
        """Return a way to score; close it."""
        return PooledJudging(
            self._store,
            self.judge,
            self.budget,
            scoring=self._settings,
            settings=self._judging,
            stop=stop,
            over=(self._pool, self._all),
        )


class PooledJudging(Judging):
    """Scores over workers, in the order of the conversations."""

    def __init__(
        self,
        store: Store,
        judge: Judge,
        budget: Budget,
        *,
        scoring: ScoringSettings,
        settings: JudgeSettings,
        stop: Callable[[], bool],
        over: tuple[Workers, Settings],
    ) -> None:
        """Begin; see `Judging`."""
        super().__init__(store, judge, budget, scoring=scoring, settings=settings, stop=stop)
        self._pool, self._all = over

    def scored(
        self, keys: Sequence[Key], match: Callable[[Sequence[Key]], list[MatchedConversation]]
    ) -> Iterator[list[Scored]]:
        """Yield the scores of conversations, some at a time; see `Judging.scored`."""
        under_way: deque[Iterator[Scored]] = deque()
        for start in range(0, len(keys), _PORTION):
            if self._stop():
                break
            under_way.append(self._begun(match(keys[start : start + _PORTION])))
            if len(under_way) > 1:
                yield list(under_way.popleft())
        while under_way:
            yield list(under_way.popleft())

    def _begun(self, matched: Part) -> Iterator[Scored]:
        """Give conversations to the workers; return an iterator that waits for their scores, in the same order."""
        parts = by_bucket(matched, self._pool.count * _PARTS)
        given = [(places, self._pool.submit(score_packed, [matched[place] for place in places])) for places in parts]
        return self._collected(matched, given)

    def _collected(self, matched: Part, given: Sequence[tuple[list[int], Future[bytes] | None]]) -> Iterator[Scored]:
        scores: dict[int, ConversationScore] = {}
        for places, future in given:
            made = self._pool.result(future)
            if made is None:
                scores |= {place: score for place in places for score in self._alone(matched[place])}
            else:
                scores |= dict(zip(places, unpacked(made, [matched[place] for place in places]), strict=True))
        for place in sorted(scores):
            one = matched[place]
            yield Scored(conversation=one.conversation, match=one.match, score=scores[place])

    def _alone(self, one: MatchedConversation) -> list[ConversationScore]:
        """Return the score of one conversation, made in this process; nothing, and a problem, where that fails."""
        try:
            return score_part(Tools(self._all), [one])
        except Exception as error:  # noqa: BLE001 — told; one conversation must not hold up the others
            name = one.conversation.conversation_id
            self._pool.problems.append(
                f"conversation {name!r} cannot be scored ({type(error).__name__}: {error}); please report it"
            )
            return []


def score_packed(tools: Tools, part: Part) -> bytes:
    """Return the scores of some conversations, in their order, to be unpacked where these are."""
    return packed(score_part(tools, part), part)


def score_part(tools: Tools, part: Part) -> list[ConversationScore]:
    """Return the scores of some conversations, in their order."""
    settings = tools.settings.scoring
    return list(scorer_of(settings)(part, judge=tools.judge, settings=settings))


def by_bucket(matched: Part, parts: int) -> list[list[int]]:
    """Return the places of conversations in at most so many parts, by the bucket of each."""
    found: dict[int, list[int]] = {}
    for place, one in enumerate(matched):
        found.setdefault(bucket_of("\0".join(one.conversation.key)) % parts, []).append(place)
    return [found[number] for number in sorted(found)]
