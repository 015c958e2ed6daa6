"""A judge's memory and purse without a store: verdicts kept in this process, limits of one evaluation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_agentic.judges.allowance import Cost, Limits
from otel_agentic.judges.base import Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_agentic.config import JudgeSettings
    from otel_agentic.judges.base import JudgeFailure, Question


class MemoryCache:
    """Verdicts of earlier evaluations of this process: give the same one to each `evaluate`, and nothing is paid twice."""

    def __init__(self) -> None:
        self._verdicts: dict[str, Verdict] = {}

    def __len__(self) -> int:
        return len(self._verdicts)

    def get(self, keys: Sequence[str]) -> dict[str, Verdict]:
        """Return the known verdicts of those keys that have one."""
        return {key: self._verdicts[key] for key in keys if key in self._verdicts}

    def put(self, key: str, verdict: Verdict | JudgeFailure, question: Question) -> None:  # noqa: ARG002 — the cache's protocol
        """Remember a verdict; a failure is asked again."""
        if isinstance(verdict, Verdict):
            self._verdicts[key] = verdict

    def flush(self) -> None:
        """Return at once: what is in memory is all there is."""


class RunBudget:
    """What one evaluation may spend: `max_calls`, `max_tokens` and `max_cost_usd` of the judge's settings.

    Without a store nobody remembers earlier evaluations, so the window of the settings counts for nothing here.
    """

    def __init__(self, settings: JudgeSettings) -> None:
        self._limits = Limits(settings)
        self._spent = Cost()
        self._reached: str | None = None

    def allows(self, *, calls: int, tokens: int) -> bool:
        """Return whether that many more model calls and tokens may be spent."""
        reached = self._limits.reached(self._spent, calls=calls, tokens=tokens)
        self._reached = reached or self._reached
        return reached is None

    def spend(self, verdict: Verdict | JudgeFailure) -> None:
        """Count what a verdict, or a failure, has cost."""
        self._spent += Cost.of(verdict)

    @property
    def used_up(self) -> str | None:
        """Which limit was reached, in words; None while none was."""
        return None if self._reached is None else f"the budget of this evaluation is used up ({self._reached})"
