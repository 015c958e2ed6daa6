"""What judges may spend in a window of time, counted from what is stored: a restart begins no new window."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from otel_agentic.windows.rolling import parse_width

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from otel_agentic.config import JudgeSettings
    from otel_agentic.judges.base import JudgeFailure, Verdict
    from otel_agentic.store.store import Store

#: Parts of the window that spending is summed by: a window of a million calls is held as so many sums.
_PARTS: Final = 1000
_SPENT: Final = """
SELECT
    max(epoch_ns(judged_at)) AS at_ns, sum(tries)::BIGINT,
    sum(coalesce(input_tokens, 0) + coalesce(output_tokens, 0))::BIGINT, sum(coalesce(cost_usd, 0))::DOUBLE
FROM judge_calls
WHERE judged_at > make_timestamp_ns($since)
GROUP BY epoch_ns(judged_at) // $part
ORDER BY at_ns
"""
_TOKENS_PER_PRICE: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What was spent: model calls, tokens sent and received, US dollars as far as prices are known."""

    calls: int = 0
    tokens: int = 0
    cost_usd: float = 0.0

    def __add__(self, other: Spent) -> Spent:
        return Spent(
            calls=self.calls + other.calls, tokens=self.tokens + other.tokens, cost_usd=self.cost_usd + other.cost_usd
        )

    def __sub__(self, other: Spent) -> Spent:
        return Spent(
            calls=self.calls - other.calls, tokens=self.tokens - other.tokens, cost_usd=self.cost_usd - other.cost_usd
        )


class DuckDbBudget:
    """The budget of all judges on one store; a `Budget`. Thread-safe.

    The window ends now: what is older than its width is free again. What is under way is not in it: whoever asks
    `allows` adds that.
    """

    def __init__(self, store: Store, settings: JudgeSettings, clock: Callable[[], int] | None = None) -> None:
        """Begin with what the store says was spent.

        Args:
            store: the opened store; no other process can spend while it is open.
            settings: the limits and the window.
            clock: the present, ns since the epoch; None takes the store's.

        Raises:
            ConfigError: the window is no width.
        """
        self._store = store
        self._settings = settings
        self._clock = clock or store.clock
        self.width_ns: Final = parse_width(settings.budget_window)
        self._part_ns: Final = max(1, self.width_ns // _PARTS)
        self._price_usd: Final = max(settings.input_price_usd or 0.0, settings.output_price_usd or 0.0)
        self._lock = threading.Lock()
        self._spent: deque[tuple[int, Spent]] | None = None
        self._sum = Spent()
        self._reached: str | None = None

    def allows(self, *, calls: int, tokens: int) -> bool:
        """Return whether that many more model calls and tokens may be spent."""
        more = Spent(calls=calls, tokens=tokens, cost_usd=tokens * self._price_usd / _TOKENS_PER_PRICE)
        with self._lock:
            total = self._in_window() + more
        spent = {"max_calls": total.calls, "max_tokens": total.tokens, "max_cost_usd": total.cost_usd}
        over = [name for name, limit in self.limits.items() if limit is not None and spent[name] > limit]
        if over:
            self._reached = over[0]
        return not over

    def spend(self, verdict: Verdict | JudgeFailure) -> None:
        """Count what a verdict, or a failure, has cost."""
        tokens = verdict.input_tokens + verdict.output_tokens
        with self._lock:
            self._in_window()
            if verdict.tries or tokens:
                cost = Spent(calls=verdict.tries, tokens=tokens, cost_usd=verdict.cost_usd or 0.0)
                self._remember(self._clock(), cost)

    @property
    def limits(self) -> Mapping[str, float | None]:
        """The limits by the name of their setting, None for those that are not set."""
        return {name: getattr(self._settings, name) for name in ("max_calls", "max_tokens", "max_cost_usd")}

    @property
    def used_up(self) -> str | None:
        """Which limit was reached, in words; None while none was."""
        if self._reached is None:
            return None
        limit = f"judge.{self._reached} {self.limits[self._reached]:,}"
        return f"the budget of {self._settings.budget_window} is used up ({limit})"

    def spent(self) -> Spent:
        """Return what was spent in the window that ends now."""
        with self._lock:
            return self._in_window()

    def _in_window(self) -> Spent:
        """Return the sum of the window, without what has left it."""
        since_ns = self._clock() - self.width_ns
        if self._spent is None:
            self._read(since_ns)
        assert self._spent is not None  # noqa: S101 — just read
        while self._spent and self._spent[0][0] <= since_ns:
            self._sum -= self._spent.popleft()[1]
        return self._sum if self._spent else Spent()

    def _read(self, since_ns: int) -> None:
        self._spent = deque()
        with self._store.read() as con:
            found = con.execute(_SPENT, {"since": since_ns, "part": self._part_ns}).fetchall()
        for at_ns, calls, tokens, cost_usd in found:
            self._remember(at_ns, Spent(calls=calls, tokens=tokens, cost_usd=cost_usd))

    def _remember(self, at_ns: int, cost: Spent) -> None:
        """Add to the sums: what is paid for at nearly the same time is one entry, which leaves with its last part."""
        assert self._spent is not None  # noqa: S101 — read before anything is remembered
        self._sum = self._sum + cost if self._spent else cost
        if self._spent and self._spent[-1][0] // self._part_ns == at_ns // self._part_ns:
            cost += self._spent.pop()[1]
        self._spent.append((at_ns, cost))
