"""What a judge may say inside tool scoring, where the data alone do not tell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_agentic.scoring.made import MadeCall
    from otel_agentic.scoring.model import NotEvaluatedReason
    from otel_agentic.scoring.utilization import Texts, Use
    from otel_agentic.truth.model import ExpectedCall


class Opinions(Protocol):
    """The opinions of a judge on tool calls. None is no opinion: then the data alone decide, or the score stays open."""

    @property
    def silence(self) -> NotEvaluatedReason:
        """Why there is no opinion: the reason of an outcome that stays open because `parameter` gave none."""
        ...

    def parameter(self, expected: ExpectedCall, key: str, made: MadeCall) -> bool | None:
        """Return whether a made parameter means the expected one.

        Asked for match mode `judge` where the values are not equal, of every pair of calls that may be paired.
        """
        ...

    def used(self, made: MadeCall, later: Sequence[MadeCall], texts: Texts) -> Use | None:
        """Return whether the result of a call was used.

        Asked where the data do not tell, of the paired calls that worked, under the expectation that counts.
        """
        ...


class _NoOpinions:
    """No judge is asked."""

    silence: NotEvaluatedReason = "no_data"

    def parameter(self, expected: ExpectedCall, key: str, made: MadeCall) -> bool | None:
        """Return that there is no opinion."""
        del expected, key, made
        return None

    def used(self, made: MadeCall, later: Sequence[MadeCall], texts: Texts) -> Use | None:
        """Return that there is no opinion."""
        del made, later, texts
        return None


NO_OPINIONS: Final[Opinions] = _NoOpinions()
