"""Ctrl-C during a long command: the first ends it well, the second at once."""

from __future__ import annotations

import logging
import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

_log = logging.getLogger(__name__)


@contextmanager
def ends_well(stop: threading.Event) -> Iterator[None]:
    """Have the first SIGINT set `stop` while the block runs; a second one interrupts as usual.

    Only the main thread is told of signals: elsewhere (a command on a running collector) nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def first(number: int, frame: FrameType | None) -> None:
        del number, frame
        signal.signal(signal.SIGINT, before)
        _log.warning(
            "stopping: answers that the judge is at work on are waited for and kept; Ctrl-C again ends at once"
        )
        stop.set()

    before = signal.signal(signal.SIGINT, first)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
