"""Ctrl-C during a long command: the first stops it at a safe point, the second at once."""

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
def stop_on_interrupt(stop: threading.Event) -> Iterator[None]:
    """Have the first SIGINT set `stop` while the block runs; a second one interrupts as usual.

    Only the main thread receives signals: elsewhere (a command on a running collector) nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def first(number: int, frame: FrameType | None) -> None:
        del number, frame
        signal.signal(signal.SIGINT, before)
        _log.warning(
            "stopping: pending answers of the judge are awaited and stored; press Ctrl-C again to stop at once"
        )
        stop.set()

    before = signal.signal(signal.SIGINT, first)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
