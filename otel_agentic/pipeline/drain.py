"""Stopping within a time limit: what hangs is left behind, for everything acknowledged is in the file already."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_log = logging.getLogger(__name__)
#: A stopped collector is gone within ten seconds; so much of them is left to close the file.
DRAIN_S: Final = 8.0


class Drain:
    """The time that all the parts of a stop share."""

    def __init__(self, limit_s: float = DRAIN_S) -> None:
        self._until_s = time.monotonic() + limit_s
        #: Parts that did not stop in time.
        self.left_behind: list[str] = []

    def together(self, stops: Mapping[str, Callable[[], object]], most_s: float) -> None:
        """Stop some parts at the same time; wait for them at most `most_s` seconds, and no longer than the drain lasts.

        What a part raises is logged: the others have to stop all the same.
        """
        limit_s = min(most_s, max(self._until_s - time.monotonic(), 0.0))
        threads = {
            name: threading.Thread(target=_stopped, args=(name, stop), name=f"otel-agentic-stop-{name}", daemon=True)
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


def _stopped(name: str, stop: Callable[[], object]) -> None:
    try:
        stop()
    except Exception:  # noqa: BLE001 — logged: the rest has to stop, too
        _log.exception("%s failed to stop", name)
