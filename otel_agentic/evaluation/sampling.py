"""Which conversations are evaluated if evaluating all of them costs too much: decided by the hash of the conversation key.

A conversation has a fixed position in [0, 1) and is included if its position is below the ratio. So a conversation is
included or excluded as a whole, the decision needs no memory, and a higher ratio only adds conversations.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

from otel_agentic.scoring import ConversationScore
from otel_agentic.store.results import recorded_ratios
from otel_agentic.store.selection import Scored

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from otel_agentic.config import SamplingSettings
    from otel_agentic.scoring import MatchedConversation
    from otel_agentic.store.connection import Connection
    from otel_agentic.store.results import Recorded
    from otel_agentic.store.table import Key

#: Personalizes this hash, so that no other choice by a hash of the same text correlates with it.
_PURPOSE: Final = b"sampling"
#: Excluded conversations matched and stored in one batch.
_PORTION: Final = 500
_WHY: Final = "not evaluated: excluded by sampling"


def position_of(key: Key) -> float:
    """Return the position of a conversation in [0, 1), the same in every process and version.

    >>> round(position_of(("production", "conv-1")), 6)
    0.940517
    """
    digest = hashlib.blake2b("\0".join(key).encode("utf-8", "surrogatepass"), digest_size=8, person=_PURPOSE).digest()
    return (int.from_bytes(digest, "big") >> 11) / 2**53  # 53 bits fit a float exactly, so 1.0 is never reached


def in_order_of_position(keys: Iterable[Key]) -> list[Key]:
    """Return conversations in the order in which the judge's budget is spent on them.

    The order is independent of time and subject, so the conversations judged before the budget was exhausted are a random
    sample of all.
    """
    return sorted(keys, key=position_of)


def ratio_of(settings: SamplingSettings, agent: str | None) -> float:
    """Return the share of an agent's conversations that is evaluated.

    >>> from otel_agentic.config import SamplingSettings
    >>> settings = SamplingSettings(ratio=0.5, agents={"support-*": 0.1, "*": 0.2})
    >>> ratio_of(settings, "support-eu"), ratio_of(settings, "sales"), ratio_of(settings, None)
    (0.1, 0.2, 0.5)
    """
    if agent is not None:
        for pattern, ratio in settings.agents.items():
            if fnmatchcase(agent, pattern):
                return ratio
    return settings.ratio


def takes_all(settings: SamplingSettings) -> bool:
    """Return whether every conversation is evaluated, for every agent.

    >>> from otel_agentic.config import SamplingSettings
    >>> takes_all(SamplingSettings()), takes_all(SamplingSettings(agents={"sales": 0.5}))
    (True, False)
    """
    return settings.ratio == 1.0 and all(ratio == 1.0 for ratio in settings.agents.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Which conversations are included, and with which ratio.

    The ratio is the higher of the current one and the one recorded under the same evaluation: lowering the setting excludes
    nothing that was included, nor does a new revision of an included conversation.

    Attributes:
        settings: the current ratios.
        recorded: the recorded ratio by conversation; empty if all conversations are included.
    """

    settings: SamplingSettings
    recorded: Mapping[Key, Recorded]

    def ratio(self, key: Key) -> float:
        """Return the share of conversations of the same agent that is evaluated."""
        known = self.recorded.get(key)
        if known is None:
            return 1.0 if takes_all(self.settings) else ratio_of(self.settings, None)
        return max(ratio_of(self.settings, known.agent), known.ratio or 0.0)

    def takes(self, key: Key) -> bool:
        """Return whether a conversation is evaluated."""
        ratio = self.ratio(key)
        return ratio >= 1.0 or position_of(key) < ratio

    def parted(self, keys: Sequence[Key]) -> tuple[list[Key], list[Key]]:
        """Return the included conversations, and the excluded ones that have no score to record this yet."""
        included = {key: self.takes(key) for key in keys}
        new = [key for key in keys if not included[key] and not (key in self.recorded and self.recorded[key].scored)]
        return [key for key in keys if included[key]], new

    def marked(self, scored: Sequence[Scored]) -> list[Scored]:
        """Return scores with their sampling ratios."""
        return [
            item if (ratio := self.ratio(item.conversation.key)) == 1.0 else replace(item, sample_ratio=ratio)
            for item in scored
        ]


def sample_of(con: Connection, settings: SamplingSettings, evaluation_id: str, keys: Sequence[Key]) -> Sample:
    """Return the sample of conversations under an evaluation."""
    recorded = {} if takes_all(settings) else recorded_ratios(con, evaluation_id, keys)
    return Sample(settings=settings, recorded=recorded)


def left_out(
    keys: Sequence[Key], match: Callable[[Sequence[Key]], list[MatchedConversation]], stop: Callable[[], bool]
) -> Iterator[list[Scored]]:
    """Yield the scores of excluded conversations in batches, until `stop` returns True.

    They are matched, because the case and tags of the population of a sample must be known.
    """
    for start in range(0, len(keys), _PORTION):
        if stop():
            return
        matched = match(keys[start : start + _PORTION])
        yield [Scored(conversation=item.conversation, match=item.match, score=_not_asked(item)) for item in matched]


def _not_asked(matched: MatchedConversation) -> ConversationScore:
    """Return the score of an excluded conversation: not evaluated."""
    conversation, match = matched.conversation, matched.match
    case = match.case
    return ConversationScore(
        environment=conversation.environment,
        conversation_id=str(conversation.conversation_id),
        revision=conversation.revision,
        case_id=case.case_id if case else None,
        dataset=case.dataset if case else None,
        case_version=case.version if case else None,
        match_method=match.method,
        match_confidence=match.confidence,
        warning=match.warning,
        outcome="not_evaluated",
        reason="sampled_out",
        outcome_source="computed",
        computed_outcome="not_evaluated",
        computed_reason="sampled_out",
        answer_outcome="not_evaluated",
        tool_outcome="not_evaluated",
        both_outcome="not_evaluated",
        turns=(),
        tools=(),
        missing_outputs=(),
        explanation=_WHY,
    )
