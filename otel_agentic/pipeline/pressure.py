"""How hard the ways in are pressed, and how much of the time background work may take meanwhile.

Rebuilding and scoring share the interpreter with what receives. A sender that waits too long gives up and drops its spans;
a conversation that is rebuilt a little later loses nothing. So background work takes what is left over: its share of the
time is cut in half where acknowledgements come late, and grows again step by step where they come in time (additive
increase, multiplicative decrease, as in TCP congestion avoidance: Chiu and Jain 1989).
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

#: An acknowledgement later than this is late, seconds.
_LATE_S: Final = 0.05
#: The share is looked at again after this long, seconds: a change must show before the next.
_LOOK_S: Final = 0.25
#: Background work always goes on, if slowly: what waits for it must not wait for ever.
_LEAST_SHARE: Final = 0.02
_STEP: Final = 0.05
#: Resting, it looks so often whether the pressure is gone.
_RESTING_LOOK_S: Final = 0.25


class Stopping(Protocol):
    """What a `threading.Event` offers to who waits."""

    def wait(self, timeout: float) -> bool:
        """Return True at once when it is set, else False after the time."""
        ...


class Pressure:
    """Watches how long senders wait; thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._share = 1.0
        self._looked_at = clock()
        self._longest_s = 0.0
        self._waiting = 0
        self._progress_at = clock()

    def arrived(self) -> None:
        """Note that a sender begins to wait for its acknowledgement."""
        with self._lock:
            if not self._waiting:
                self._progress_at = self._clock()
            self._waiting += 1

    def answered(self, delay_s: float) -> None:
        """Note how long a sender waited that had arrived, seconds."""
        with self._lock:
            self._waiting -= 1
            self._progress_at = self._clock()
            self._longest_s = max(self._longest_s, delay_s)
            self._look()

    @property
    def share(self) -> float:
        """The part of the time that background work may take now: 1 where no sender has to wait."""
        with self._lock:
            self._look()
            return self._share

    def rest(self, worked_s: float, stopping: Stopping) -> None:
        """Wait after so much work, seconds, to keep to the share; shorter where the pressure goes, or at a stop."""
        began = self._clock()
        while (left_s := worked_s / self.share - worked_s - (self._clock() - began)) > 0:
            if stopping.wait(min(left_s, _RESTING_LOOK_S)):
                return

    def _look(self) -> None:
        now = self._clock()
        if now - self._looked_at < _LOOK_S:
            return
        # Where all senders wait nobody is answered, and that is no silence.
        longest_s = max(self._longest_s, now - self._progress_at if self._waiting else 0.0)
        if longest_s > _LATE_S:
            self._share = max(_LEAST_SHARE, self._share / 2)
        elif longest_s:
            self._share = min(1.0, self._share + _STEP)
        else:
            self._share = 1.0
        self._looked_at, self._longest_s = now, 0.0
