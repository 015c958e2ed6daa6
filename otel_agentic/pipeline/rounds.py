"""What a background thread logs of rounds that fail: trouble of the store in one line, and again only once it changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_agentic.errors import StoreError

if TYPE_CHECKING:
    import logging


class Rounds:
    """What becomes of the rounds of one work; for the one thread that does it."""

    def __init__(self, log: logging.Logger, work: str) -> None:
        """Begin without trouble.

        Args:
            log: where to write.
            work: what is done in a round, as in "computing windows".
        """
        self._log = log
        self._work = work
        self._trouble: str | None = None

    def failed(self, error: Exception) -> None:
        """Log why a round did not come to its end; it is tried again.

        The store's own trouble ends by itself, and lasts for many rounds: it is told in a line, once. Whatever else
        fails was not foreseen, and is told with its places.
        """
        trouble = str(error) if isinstance(error, StoreError) else None
        if trouble is None:
            self._log.error("%s failed", self._work, exc_info=error)
        elif trouble != self._trouble:
            self._log.warning("%s waits for the store: %s", self._work, trouble)
        self._trouble = trouble

    def ended(self) -> None:
        """Note that a round came to its end: trouble that comes back is told again."""
        self._trouble = None
