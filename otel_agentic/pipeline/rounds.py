"""Logging of failed iterations of a background loop: a store problem takes one line, and is repeated only if it changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_agentic.errors import StoreError

if TYPE_CHECKING:
    import logging


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
