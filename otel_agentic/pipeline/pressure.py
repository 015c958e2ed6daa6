"""How long senders wait for acknowledgements, and the share of the time that background work may take as a result.

Rebuilding and scoring share the interpreter with the receivers. A sender that waits too long gives up and drops its spans; a
conversation that is rebuilt a little later loses nothing. So background work takes the remaining time: its share is halved
when acknowledgements are late, and grows again in steps when they are in time (additive increase, multiplicative decrease,
as in TCP congestion avoidance: Chiu and Jain 1989).
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

#: An acknowledgement after this time is late, seconds.
_LATE_S: Final = 0.05
#: The share is updated at this interval, seconds: a change must take effect before the next one.
_UPDATE_S: Final = 0.25
#: Background work never stops completely, so that nothing waits for it forever.
_LEAST_SHARE: Final = 0.02
_STEP: Final = 0.05
#: While resting, the share is checked at this interval, seconds.
_REST_STEP_S: Final = 0.25


class StopEvent(Protocol):
    """The part of `threading.Event` that resting needs."""

    def wait(self, timeout: float) -> bool:
        """Return True as soon as the event is set, or False after the timeout."""
        ...


class Pressure:
    """Measures how long senders wait. Thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._share = 1.0
        self._updated_at = clock()
        self._longest_s = 0.0
        self._waiting = 0
        self._progress_at = clock()

    def arrived(self) -> None:
        """Record that a sender starts to wait for its acknowledgement."""
        with self._lock:
            if not self._waiting:
                self._progress_at = self._clock()
            self._waiting += 1

    def answered(self, delay_s: float) -> None:
        """Record how long a sender waited, seconds."""
        with self._lock:
            self._waiting -= 1
            self._progress_at = self._clock()
            self._longest_s = max(self._longest_s, delay_s)
            self._update()

    @property
    def share(self) -> float:
        """The share of the time that background work may take: 1 if no sender waits."""
        with self._lock:
            self._update()
            return self._share

    def rest(self, worked_s: float, stopping: StopEvent) -> None:
        """Wait after `worked_s` seconds of work to keep to the share; less if the pressure ends or the stop event is set."""
        began = self._clock()
        while (left_s := worked_s / self.share - worked_s - (self._clock() - began)) > 0:
            if stopping.wait(min(left_s, _REST_STEP_S)):
                return

    def _update(self) -> None:
        now = self._clock()
        if now - self._updated_at < _UPDATE_S:
            return
        # If all senders wait, none is answered; that is pressure, not idleness.
        longest_s = max(self._longest_s, now - self._progress_at if self._waiting else 0.0)
        if longest_s > _LATE_S:
            self._share = max(_LEAST_SHARE, self._share / 2)
        elif longest_s:
            self._share = min(1.0, self._share + _STEP)
        else:
            self._share = 1.0
        self._updated_at, self._longest_s = now, 0.0
