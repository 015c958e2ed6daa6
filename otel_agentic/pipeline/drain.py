"""Shutdown within a time limit: hanging parts are left behind, because everything acknowledged is already in the file."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_log = logging.getLogger(__name__)
#: A stopped collector exits within ten seconds; the remaining two are left to close the file.
DRAIN_S: Final = 8.0


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
