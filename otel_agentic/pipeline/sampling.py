"""Which conversations are evaluated, where evaluating all of them costs too much: decided by the hash of the identity.

A conversation stands at a fixed place in [0, 1); it is in where its place is below the ratio. So whole conversations are in
or out, the decision needs no memory, and a higher ratio only adds conversations.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

from otel_agentic.scoring import ConversationScore
from otel_agentic.store.sampling import recorded_ratios
from otel_agentic.store.selection import Scored

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from otel_agentic.config import SamplingSettings
    from otel_agentic.scoring import MatchedConversation
    from otel_agentic.store.database import Connection
    from otel_agentic.store.sampling import Recorded
    from otel_agentic.store.table import Key

#: Sets this hash apart from others of the same text, so that no other choice by hash goes along with this one.
_PURPOSE: Final = b"sampling"
#: Conversations that are left out, matched and written at once.
_PORTION: Final = 500
_WHY: Final = "not evaluated: sampling left it out"


def place_of(key: Key) -> float:
    """Return where a conversation stands in [0, 1), the same in every process and version.

    >>> round(place_of(("production", "conv-1")), 6)
    0.940517
    """
    digest = hashlib.blake2b("\0".join(key).encode("utf-8", "surrogatepass"), digest_size=8, person=_PURPOSE).digest()
    return (int.from_bytes(digest, "big") >> 11) / 2**53  # 53 bits: all of them fit a float, so 1.0 is never reached


def in_order_of_place(keys: Iterable[Key]) -> list[Key]:
    """Return conversations in the order in which a judge's budget is spent on them.

    The order knows nothing of when or about what they were held, so that what was judged before the budget was exhausted is a
    random sample of all.
    """
    return sorted(keys, key=place_of)


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
    """Return whether every conversation is evaluated, whatever its agent.

    >>> from otel_agentic.config import SamplingSettings
    >>> takes_all(SamplingSettings()), takes_all(SamplingSettings(agents={"sales": 0.5}))
    (True, False)
    """
    return settings.ratio == 1.0 and all(ratio == 1.0 for ratio in settings.agents.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Which of some conversations are in, and with what ratio.

    The ratio is the higher one of that in force and that recorded under the same evaluation: lowering the setting takes
    nothing out again, nor does a new revision of a conversation that was in.

    Attributes:
        settings: the ratios in force.
        recorded: by conversation, what is recorded under the evaluation; not read where all are taken.
    """

    settings: SamplingSettings
    recorded: Mapping[Key, Recorded]

    def ratio(self, key: Key) -> float:
        """Return the share of conversations like this one that is evaluated."""
        known = self.recorded.get(key)
        if known is None:
            return 1.0 if takes_all(self.settings) else ratio_of(self.settings, None)
        return max(ratio_of(self.settings, known.agent), known.ratio or 0.0)

    def takes(self, key: Key) -> bool:
        """Return whether a conversation is evaluated."""
        ratio = self.ratio(key)
        return ratio >= 1.0 or place_of(key) < ratio

    def parted(self, keys: Sequence[Key]) -> tuple[list[Key], list[Key]]:
        """Return the conversations that are evaluated, and the left out ones that have no score to say so yet."""
        taken = {key: self.takes(key) for key in keys}
        new = [key for key in keys if not taken[key] and not (key in self.recorded and self.recorded[key].scored)]
        return [key for key in keys if taken[key]], new

    def marked(self, scored: Sequence[Scored]) -> list[Scored]:
        """Return scores with their ratios."""
        return [
            item if (ratio := self.ratio(item.conversation.key)) == 1.0 else replace(item, sample_ratio=ratio)
            for item in scored
        ]


def sample_of(con: Connection, settings: SamplingSettings, evaluation_id: str, keys: Sequence[Key]) -> Sample:
    """Return which of some conversations are in, under an evaluation."""
    recorded = {} if takes_all(settings) else recorded_ratios(con, evaluation_id, keys)
    return Sample(settings=settings, recorded=recorded)


def left_out(
    keys: Sequence[Key], match: Callable[[Sequence[Key]], list[MatchedConversation]], stop: Callable[[], bool]
) -> Iterator[list[Scored]]:
    """Yield the scores of conversations that are not in the sample, some at a time, until `stop` says so.

    They are matched, so that it is known of which case and tags the evaluated ones are a sample.
    """
    for start in range(0, len(keys), _PORTION):
        if stop():
            return
        matched = match(keys[start : start + _PORTION])
        yield [Scored(conversation=one.conversation, match=one.match, score=_not_asked(one)) for one in matched]


def _not_asked(matched: MatchedConversation) -> ConversationScore:
    """Return the score of a conversation that is not in the sample: not evaluated, and nobody was asked."""
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
