"""Runs evaluators during a scoring run: on newly scored conversations, and on scored ones that lack metric scores."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Final

from otel_agentic.evaluators.registry import asks
from otel_agentic.pipeline.judging import JUDGED_BATCH
from otel_agentic.pipeline.sampling import in_order_of_position
from otel_agentic.store.selection import Scored

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from otel_agentic.evaluators.registry import Chosen
    from otel_agentic.pipeline.judging import JudgeRun
    from otel_agentic.pipeline.metrics import MetricRunner
    from otel_agentic.pipeline.metrics_tally import MetricTally
    from otel_agentic.scoring import MatchedConversation
    from otel_agentic.store.metric_stored import StoredOutcomes
    from otel_agentic.store.table import Key

#: Conversations that are loaded, matched and scored again in one batch.
_PORTION: Final = 500


class MetricPass:
    """The evaluators of one scoring run. Evaluators that compute run after each batch of scores.

    Evaluators that ask the judge run at the end of a part, because only one thread at a time may ask the judge.
    """

    def __init__(self, runner: MetricRunner, chosen: Chosen, restated: AbstractSet[Key]) -> None:
        """Start a pass.

        Args:
            runner: runs evaluators and stores their scores.
            chosen: the evaluators.
            restated: conversations that had a score before this run and may already have metric scores.
        """
        self._runner = runner
        self._computing = [evaluator for evaluator in chosen.evaluators if not asks(evaluator)]
        self._judged_evaluators = chosen.judged
        self._chosen = chosen
        self._restated = restated
        self._pending: list[Scored] = []
        self._done: set[Key] = set()

    @property
    def tally(self) -> MetricTally:
        """The counts of metric scores."""
        return self._runner.tally

    def parts(self, keys: Sequence[Key]) -> Iterator[Sequence[Key]]:
        """Yield the conversations in parts, after each of which the judge may be asked; one part if no evaluator asks it."""
        size = JUDGED_BATCH if self._judged_evaluators else max(1, len(keys))
        for start in range(0, len(keys), size):
            yield keys[start : start + size]

    def scored(self, part: Sequence[Scored]) -> None:
        """Run the computing evaluators on a batch that was just scored and stored."""
        self._done.update(item.conversation.key for item in part)
        self._runner.measure(part, self._computing, fresh=self._fresh(part))
        if self._judged_evaluators:
            self._pending += part

    def part_ended(self) -> None:
        """Run the judged evaluators on the part that was scored."""
        pending, self._pending = self._pending, []
        self._runner.measure(pending, self._judged_evaluators, fresh=self._fresh(pending))

    def catch_up(
        self,
        lacking: Mapping[Key, AbstractSet[str]],
        match: Callable[[Sequence[Key]], list[MatchedConversation]],
        judge_run: JudgeRun,
        *,
        stored: Callable[[Sequence[Key]], Mapping[Key, StoredOutcomes]],
    ) -> None:
        """Run evaluators on conversations that keep their scores; the judge is not asked for those scores again."""
        open_now = {key: ids for key, ids in lacking.items() if key not in self._done}
        for ids, keys in groupby(sorted(open_now, key=lambda key: sorted(open_now[key])), key=open_now.__getitem__):
            missing = [evaluator for evaluator in self._chosen.evaluators if self._runner.id_of(evaluator) in ids]
            batch, size = list(keys), _PORTION
            if any(map(asks, missing)):
                batch, size = in_order_of_position(batch), JUDGED_BATCH
            for start in range(0, len(batch), size):
                if self._runner.stopped:
                    return
                part = _with_stored_scores(batch[start : start + size], match, judge_run, stored)
                self._runner.measure(part, missing)
                self.tally.caught_up += len(part)

    def _fresh(self, part: Sequence[Scored]) -> bool:
        return not any(item.conversation.key in self._restated for item in part)


def _with_stored_scores(
    keys: Sequence[Key],
    match: Callable[[Sequence[Key]], list[MatchedConversation]],
    judge_run: JudgeRun,
    stored: Callable[[Sequence[Key]], Mapping[Key, StoredOutcomes]],
) -> list[Scored]:
    """Return conversations with their stored scores."""
    matched, existing = match(keys), stored(keys)
    return [
        Scored(
            conversation=item.conversation,
            match=item.match,
            score=existing[item.conversation.key].applied_to(score),
        )
        for item, score in zip(matched, judge_run.scored_from_cache(matched), strict=True)
        if item.conversation.key in existing
    ]
