"""A circuit breaker before a judge: one that fails and fails is left alone for a while, and its questions wait.

Closed, everything is asked. After so many failures in a row it opens: nothing is asked. Once the wait is over it is half open:
one question goes through, and its answer closes it, or opens it for twice as long.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from otel_agentic.judges.base import JudgeFailure, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_agentic.config import JudgeSettings

State = Literal["closed", "open", "half_open"]

_log = logging.getLogger(__name__)
#: The longest wait, in first waits.
_LONGEST: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class NotAsked(JudgeFailure):
    """A question that nobody was asked, for the judge is left alone: it cost nothing and can be asked later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerState:
    """What a breaker says of itself: `failures` in a row, seconds until the judge is tried again, times it has opened."""

    state: State
    failures: int
    retry_in_s: float
    opened: int


class Breaker:
    """Counts failures in a row. Thread-safe; one for all who ask a judge."""

    def __init__(self, settings: JudgeSettings, name: str, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin closed.

        Args:
            settings: how many failures open it, and for how long.
            name: the judge's, for messages.
            clock: seconds that only grow.
        """
        self._most: Final = settings.breaker_failures
        self._wait_s: Final = settings.breaker_wait_s
        self._name = name
        self._clock = clock
        self._lock = threading.Lock()
        self._failures = 0
        self._opened = 0
        self._opened_in_a_row = 0
        self._until_s: float | None = None
        self._trying = False

    @property
    def state(self) -> BreakerState:
        """How it stands now."""
        with self._lock:
            left_s = 0.0 if self._until_s is None else max(0.0, self._until_s - self._clock())
            state: State = "closed" if self._until_s is None else "open" if left_s > 0 else "half_open"
            return BreakerState(state=state, failures=self._failures, retry_in_s=left_s, opened=self._opened)

    def may_ask(self) -> bool:
        """Return whether a question may be asked now; half open, it is let through to whoever asks first."""
        with self._lock:
            if self._until_s is None:
                return True
            if self._trying or self._clock() < self._until_s:
                return False
            self._trying = True
            return True

    def heard(self, answer: Verdict | JudgeFailure) -> None:
        """Take notice of what a question came to."""
        if isinstance(answer, NotAsked) or (isinstance(answer, JudgeFailure) and answer.reason != "judge_error"):
            self.dropped()
            return
        with self._lock:
            was_open, tried = self._until_s is not None, self._trying
            self._trying = False
            if isinstance(answer, Verdict):
                self._failures, self._opened_in_a_row, self._until_s = 0, 0, None
            else:
                self._failures += 1
                if tried or (not was_open and self._failures >= self._most):
                    self._open()
            now_open, wait_s = self._until_s is not None, self._next_wait_s
            failures = self._failures
        self._tell(was_open, now_open, failures, wait_s, tried=tried)

    def dropped(self) -> None:
        """Take notice that a question came to nothing: somebody else may be let through."""
        with self._lock:
            self._trying = False

    def not_asked(self) -> NotAsked:
        """Return what is said of a question that is not asked."""
        state = self.state
        told = f"not asked: judge {self._name} failed {state.failures} times in a row; it is tried again"
        when = f"in {state.retry_in_s:.0f} s" if state.retry_in_s >= 1 else "soon"
        return NotAsked(reason="judge_error", message=f"{told} {when} (judge.breaker_failures, judge.breaker_wait_s)")

    @property
    def _next_wait_s(self) -> float:
        return self._wait_s * min(2.0 ** min(max(0, self._opened_in_a_row - 1), _LONGEST), _LONGEST)

    def _open(self) -> None:
        self._opened += 1
        self._opened_in_a_row += 1
        self._until_s = self._clock() + self._next_wait_s

    def _tell(self, was_open: bool, now_open: bool, failures: int, wait_s: float, *, tried: bool) -> None:  # noqa: FBT001 — before and after
        """Log a change, once; what the judge said may hold content, and is told by `live` and `evaluate` alone."""
        if now_open and (tried or not was_open):
            _log.warning(
                "judge %s failed %d times in a row: it is not asked for %g s, and its questions wait",
                self._name,
                failures,
                wait_s,
            )
        elif was_open and not now_open:
            _log.warning("judge %s answers again", self._name)
