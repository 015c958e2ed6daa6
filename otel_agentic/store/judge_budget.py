"""What judges may spend in a window of time, counted from what is stored: a restart begins no new window."""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, Final

from otel_agentic.judges.allowance import Cost, Limits
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
        self._limits: Final = Limits(settings)
        self._lock = threading.Lock()
        self._spent: deque[tuple[int, Cost]] | None = None
        self._sum = Cost()
        self._reached: str | None = None

    def allows(self, *, calls: int, tokens: int) -> bool:
        """Return whether that many more model calls and tokens may be spent."""
        with self._lock:
            spent = self._in_window()
        reached = self._limits.reached(spent, calls=calls, tokens=tokens)
        self._reached = reached or self._reached
        return reached is None

    def spend(self, verdict: Verdict | JudgeFailure) -> None:
        """Count what a verdict, or a failure, has cost."""
        cost = Cost.of(verdict)
        with self._lock:
            self._in_window()
            if cost.calls or cost.tokens:
                self._remember(self._clock(), cost)

    @property
    def limits(self) -> Mapping[str, float | None]:
        """The limits by the name of their setting, None for those that are not set."""
        return self._limits.values

    @property
    def used_up(self) -> str | None:
        """Which limit was reached, in words; None while none was."""
        window = self._settings.budget_window
        return None if self._reached is None else f"the budget of {window} is used up ({self._reached})"

    def spent(self) -> Cost:
        """Return what was spent in the window that ends now."""
        with self._lock:
            return self._in_window()

    def _in_window(self) -> Cost:
        """Return the sum of the window, without what has left it."""
        since_ns = self._clock() - self.width_ns
        if self._spent is None:
            self._read(since_ns)
        assert self._spent is not None  # noqa: S101 — just read
        while self._spent and self._spent[0][0] <= since_ns:
            self._sum -= self._spent.popleft()[1]
        return self._sum if self._spent else Cost()

    def _read(self, since_ns: int) -> None:
        self._spent = deque()
        with self._store.read() as con:
            found = con.execute(_SPENT, {"since": since_ns, "part": self._part_ns}).fetchall()
        for at_ns, calls, tokens, cost_usd in found:
            self._remember(at_ns, Cost(calls=calls, tokens=tokens, cost_usd=cost_usd))

    def _remember(self, at_ns: int, cost: Cost) -> None:
        """Add to the sums: what is paid for at nearly the same time is one entry, which leaves with its last part."""
        assert self._spent is not None  # noqa: S101 — read before anything is remembered
        self._sum = self._sum + cost if self._spent else cost
        if self._spent and self._spent[-1][0] // self._part_ns == at_ns // self._part_ns:
            cost += self._spent.pop()[1]
        self._spent.append((at_ns, cost))
