"""A judge's memory and purse without a store: verdicts kept in this process, limits of one evaluation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from otel_agentic.judges.base import Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_agentic.config import JudgeSettings
    from otel_agentic.judges.base import JudgeFailure

_TOKENS_PER_PRICE: Final = 1_000_000


class MemoryCache:
    """Verdicts of earlier evaluations of this process: give the same one to each `evaluate`, and nothing is paid twice."""

    def __init__(self) -> None:
        self._verdicts: dict[str, Verdict] = {}

    def __len__(self) -> int:
        return len(self._verdicts)

    def get(self, keys: Sequence[str]) -> dict[str, Verdict]:
        """Return the known verdicts of those keys that have one."""
        return {key: self._verdicts[key] for key in keys if key in self._verdicts}

    def put(self, key: str, verdict: Verdict | JudgeFailure) -> None:
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
        self._settings = settings
        self._price_usd: Final = max(settings.input_price_usd or 0.0, settings.output_price_usd or 0.0)
        self._calls = 0
        self._tokens = 0
        self._cost_usd = 0.0
        self._reached: str | None = None

    def allows(self, *, calls: int, tokens: int) -> bool:
        """Return whether that many more model calls and tokens may be spent."""
        wanted = {
            "max_calls": self._calls + calls,
            "max_tokens": self._tokens + tokens,
            "max_cost_usd": self._cost_usd + tokens * self._price_usd / _TOKENS_PER_PRICE,
        }
        for name, total in wanted.items():
            limit = getattr(self._settings, name)
            if limit is not None and total > limit:
                self._reached = f"judge.{name} {limit:,}"
                return False
        return True

    def spend(self, verdict: Verdict | JudgeFailure) -> None:
        """Count what a verdict, or a failure, has cost."""
        self._calls += verdict.tries
        self._tokens += verdict.input_tokens + verdict.output_tokens
        self._cost_usd += verdict.cost_usd or 0.0

    @property
    def used_up(self) -> str | None:
        """Which limit was reached, in words; None while none was."""
        return None if self._reached is None else f"the budget of this evaluation is used up ({self._reached})"
