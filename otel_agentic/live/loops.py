"""What the background threads share: start and stop, logging of failed iterations, and a shutdown within a time limit."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Final

from otel_agentic.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_log = logging.getLogger(__name__)
#: A stopped collector exits within ten seconds; the remaining two are left to close the file.
DRAIN_S: Final = 8.0


class BackgroundLoop:
    """Work on its own thread: an iteration when it is woken or some time has passed, until it is stopped.

    A subclass implements `_run`, which returns once `_stopping` is set.
    """

    def __init__(self, name: str) -> None:
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"otel-agentic-{name}", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def wake(self) -> None:
        """Begin the next iteration soon."""
        self._wake.set()

    def stop(self) -> None:
        """Finish the work that must not be interrupted, then end the thread."""
        self._stopping.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        raise NotImplementedError


class LoopErrorLogger:
    """Logs the failures of one loop; used by the loop's thread only."""

    def __init__(self, log: logging.Logger, work: str) -> None:
        """Create a logger without a current problem.

        Args:
            log: the logger to write to.
            work: the work of one iteration, such as "computing windows".
        """
        self._log = log
        self._work = work
        self._problem: str | None = None

    def attempt(self, work: Callable[[], object]) -> None:
        """Do the work of one iteration; an exception is logged, because the next iteration tries again."""
        try:
            work()
        except Exception as error:  # noqa: BLE001 — logged and retried
            self.failed(error)
        else:
            self.ended()

    def failed(self, error: Exception) -> None:
        """Log why an iteration failed; the loop tries again.

        Store problems are temporary and last for many iterations, so they are logged once, in one line. Any other error is
        unexpected and logged with its traceback.
        """
        problem = str(error) if isinstance(error, StoreError) else None
        if problem is None:
            self._log.error("%s failed", self._work, exc_info=error)
        elif problem != self._problem:
            self._log.warning("%s waits for the store: %s", self._work, problem)
        self._problem = problem

    def ended(self) -> None:
        """Record that an iteration succeeded: a problem that returns is logged again."""
        self._problem = None


class Drain:
    """The time limit that all parts of a shutdown share."""

    def __init__(self, limit_s: float = DRAIN_S) -> None:
        self._until_s = time.monotonic() + limit_s
        #: Names of the parts that did not stop in time.
        self.left_behind: list[str] = []

    def stop_all(self, stops: Mapping[str, Callable[[], object]], most_s: float) -> None:
        """Stop parts concurrently; wait at most `most_s` seconds, and no longer than the drain lasts.

        Exceptions are logged, so that the other parts stop nevertheless.
        """
        limit_s = min(most_s, max(self._until_s - time.monotonic(), 0.0))
        threads = {
            name: threading.Thread(target=_stop_part, args=(name, stop), name=f"otel-agentic-stop-{name}", daemon=True)
            for name, stop in stops.items()
        }
        for thread in threads.values():
            thread.start()
        deadline_s = time.monotonic() + limit_s
        for name, thread in threads.items():
            thread.join(max(deadline_s - time.monotonic(), 0.0))
            if thread.is_alive():
                self.left_behind.append(name)
                _log.warning("%s did not stop within %.1f s and is left behind", name, limit_s)


def _stop_part(name: str, stop: Callable[[], object]) -> None:
    try:
        stop()
    except Exception:  # noqa: BLE001 — logged: the other parts have to stop, too
        _log.exception("%s failed to stop", name)
