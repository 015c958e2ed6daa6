"""A verdict cache and a budget in memory, for evaluations without a store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_agentic.judges.allowance import Cost, Limits
from otel_agentic.judges.base import Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_agentic.config import JudgeSettings
    from otel_agentic.judges.base import JudgeFailure, Question


class MemoryCache:
    """Verdicts of earlier evaluations in this process; pass the same cache to every `evaluate` to pay for each only once."""

    def __init__(self) -> None:
        self._verdicts: dict[str, Verdict] = {}

    def __len__(self) -> int:
        return len(self._verdicts)

    def get(self, keys: Sequence[str]) -> dict[str, Verdict]:
        """Return the known verdicts by key."""
        return {key: self._verdicts[key] for key in keys if key in self._verdicts}

    def put(self, key: str, verdict: Verdict | JudgeFailure, question: Question) -> None:  # noqa: ARG002 — the cache's protocol
        """Store a verdict; a failure is not stored, so that the question is asked again."""
        if isinstance(verdict, Verdict):
            self._verdicts[key] = verdict

    def flush(self) -> None:
        """Do nothing: the cache is in memory only."""


class RunBudget:
    """The budget of one evaluation: `max_calls`, `max_tokens` and `max_cost_usd` of the judge settings.

    Without a store earlier evaluations are unknown, so `budget_window` has no effect.
    """

    def __init__(self, settings: JudgeSettings) -> None:
        self._limits = Limits(settings)
        self._spent = Cost()
        self._reached: str | None = None

    def allows(self, *, calls: int, tokens: int) -> bool:
        """Return whether the given number of further model calls and tokens may be spent."""
        reached = self._limits.reached(self._spent, calls=calls, tokens=tokens)
        self._reached = reached or self._reached
        return reached is None

    def spend(self, verdict: Verdict | JudgeFailure) -> None:
        """Add the cost of a verdict or a failure."""
        self._spent += Cost.of(verdict)

    @property
    def used_up(self) -> str | None:
        """A message with the limit that was reached, or None."""
        return None if self._reached is None else f"the budget of this evaluation is used up ({self._reached})"
