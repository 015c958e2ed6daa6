"""Stored conversations scored with another system's arithmetic, in the form of our own scores."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from otel_agentic.compat.scorers.common import System, score_as
from otel_agentic.compat.scorers.systems import AGENT_SURFACE, AGENTEST, FAIR_FORGE, RAGAS
from otel_agentic.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from otel_agentic.config import ScoringSettings
    from otel_agentic.judges import Judge
    from otel_agentic.scoring import ConversationScore, MatchedConversation

_SYSTEMS: Final[Mapping[str, System]] = {
    "agent-surface": AGENT_SURFACE,
    "agentest": AGENTEST,
    "fair-forge": FAIR_FORGE,
    "ragas": RAGAS,
}
NAMES: Final = tuple(_SYSTEMS)

__all__ = ["NAMES", "Scorer", "scorer"]


class Scorer(Protocol):
    """What `otel_agentic.scoring.score_conversations` is too."""

    def __call__(
        self, matched: Sequence[MatchedConversation], *, judge: Judge, settings: ScoringSettings
    ) -> list[ConversationScore]:
        """Return the scores of conversations, in their order."""
        ...


def scorer(name: str) -> Scorer:
    """Return the scorer of a system, which takes the place of `score_conversations`.

    Raises:
        UsageError: there is no such system.
    """
    system = _SYSTEMS.get(name)
    if system is None:
        raise UsageError(f"compat {name!r}; allowed: {', '.join(NAMES)}")
    return partial(score_as, system)
