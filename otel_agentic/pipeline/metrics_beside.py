"""Evaluators beside core scoring: on what was just scored, and on what keeps its score and lacks theirs."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Final

from otel_agentic.evaluators.registry import asks
from otel_agentic.pipeline.judging import ASKED
from otel_agentic.pipeline.sampling import in_order_of_place
from otel_agentic.store.selection import Scored

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from otel_agentic.evaluators.registry import Chosen
    from otel_agentic.pipeline.judging import Judging
    from otel_agentic.pipeline.metrics import Measuring
    from otel_agentic.pipeline.metrics_tally import MetricTally
    from otel_agentic.pipeline.rebuild import Key
    from otel_agentic.scoring import MatchedConversation
    from otel_agentic.store.metric_stored import StoredScore

#: Conversations that are loaded, matched and scored once more together.
_PORTION: Final = 500


class Beside:
    """What evaluators do in one run of core scoring. Those that compute follow each portion.

    Those that ask wait for the end of a part, for a judge is asked by one thread at a time.
    """

    def __init__(self, measuring: Measuring, chosen: Chosen, restated: AbstractSet[Key]) -> None:
        """Begin.

        Args:
            measuring: runs evaluators.
            chosen: which evaluators.
            restated: conversations that had a score before this run: evaluators may have said something of them.
        """
        self._measuring = measuring
        self._computing = [one for one in chosen.evaluators if not asks(one)]
        self._asking = chosen.judged
        self._chosen = chosen
        self._restated = restated
        self._held: list[Scored] = []
        self._done: set[Key] = set()

    @property
    def tally(self) -> MetricTally:
        """What was counted."""
        return self._measuring.tally

    def parts(self, keys: Sequence[Key]) -> Iterator[Sequence[Key]]:
        """Yield the conversations in the parts after which evaluators may ask; all at once where none asks."""
        size = ASKED if self._asking else max(1, len(keys))
        for start in range(0, len(keys), size):
            yield keys[start : start + size]

    def scored(self, part: Sequence[Scored]) -> None:
        """Look at what was just scored and stored."""
        self._done.update(item.conversation.key for item in part)
        self._measuring.measure(part, self._computing, fresh=self._fresh(part))
        if self._asking:
            self._held += part

    def part_ended(self) -> None:
        """Ask about the part that was scored."""
        held, self._held = self._held, []
        self._measuring.measure(held, self._asking, fresh=self._fresh(held))

    def catch_up(
        self,
        lacking: Mapping[Key, AbstractSet[str]],
        match: Callable[[Sequence[Key]], list[MatchedConversation]],
        judging: Judging,
        *,
        stored: Callable[[Sequence[Key]], Mapping[Key, StoredScore]],
    ) -> None:
        """Run evaluators on conversations that keep their scores: nobody is asked about these again."""
        open_now = {key: ids for key, ids in lacking.items() if key not in self._done}
        for ids, keys in groupby(sorted(open_now, key=lambda key: sorted(open_now[key])), key=open_now.__getitem__):
            missing = [one for one in self._chosen.evaluators if self._measuring.id_of(one) in ids]
            every, size = list(keys), _PORTION
            if any(map(asks, missing)):
                every, size = in_order_of_place(every), ASKED
            for start in range(0, len(every), size):
                if self._measuring.stopped:
                    return
                part = _recalled(every[start : start + size], match, judging, stored)
                self._measuring.measure(part, missing)
                self.tally.caught_up += len(part)

    def _fresh(self, part: Sequence[Scored]) -> bool:
        return not any(item.conversation.key in self._restated for item in part)


def _recalled(
    keys: Sequence[Key],
    match: Callable[[Sequence[Key]], list[MatchedConversation]],
    judging: Judging,
    stored: Callable[[Sequence[Key]], Mapping[Key, StoredScore]],
) -> list[Scored]:
    """Return conversations with the scores that they have."""
    matched, told = match(keys), stored(keys)
    return [
        Scored(conversation=one.conversation, match=one.match, score=told[one.conversation.key].laid_over(score))
        for one, score in zip(matched, judging.recalled(matched), strict=True)
        if one.conversation.key in told
    ]
