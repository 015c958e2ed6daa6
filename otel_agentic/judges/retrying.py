"""Waiting time before the next try."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from random import Random

    from otel_agentic.config import JudgeSettings

#: Larger exponents have no effect: 2**30 seconds are 34 years.
_MAX_DOUBLINGS = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """Waiting times that double with each try, with jitter, up to a maximum. All in seconds."""

    first_s: float
    longest_s: float

    @classmethod
    def from_settings(cls, settings: JudgeSettings) -> Backoff:
        """Return the waiting times of the settings."""
        return cls(first_s=settings.backoff_s, longest_s=settings.backoff_max_s)

    def wait_s(self, tries: int, asked_s: float | None, rng: Random) -> float:
        """Return the waiting time after a number of tries, in seconds.

        Half of it is fixed and half is random, so that calls that failed together are not repeated together. The waiting time
        requested by the provider is waited in full, with up to a tenth added; nothing exceeds the maximum.

        Args:
            tries: number of calls so far, at least 1.
            asked_s: waiting time requested by the provider, or None.
            rng: source of jitter.

        >>> from random import Random
        >>> backoff = Backoff(first_s=1.0, longest_s=30.0)
        >>> [2 ** (tries - 2) <= backoff.wait_s(tries, None, Random(7)) <= 2 ** (tries - 1) for tries in (1, 2, 3)]
        [True, True, True]
        >>> backoff.wait_s(1, 3600.0, Random(7))
        30.0
        """
        if asked_s is not None:
            return min(asked_s * (1 + rng.random() / 10), self.longest_s)
        wait_s = min(self.first_s * 2.0 ** min(tries - 1, _MAX_DOUBLINGS), self.longest_s)
        return wait_s * (0.5 + rng.random() / 2)
