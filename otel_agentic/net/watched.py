"""Values loaded from small files and reloaded when these change, so that tokens and certificates are renewed at run time."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Generic, TypeVar

from otel_agentic.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

T = TypeVar("T")
_log = logging.getLogger(__name__)


class ReloadedFiles(Generic[T]):
    """A value loaded from files; reloaded when one of them has changed. Thread-safe."""

    def __init__(
        self,
        paths: Sequence[Path],
        load: Callable[[], T],
        *,
        every_s: float = 1.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Load the value.

        Args:
            paths: the files.
            load: returns the value; raises ConfigError if the files cannot be used.
            every_s: minimum time between two checks, seconds.
            clock: a monotonic clock, seconds.

        Raises:
            ConfigError: `load` raised it.
        """
        self._paths = tuple(paths)
        self._load = load
        self._every_s = every_s
        self._clock = clock
        self._lock = threading.Lock()
        self._marks = self._current_marks()
        self._value = load()
        self._next_s = clock() + every_s

    def get(self) -> T:
        """Return the current value. If changed files cannot be used, the value stays as it was; that is logged once."""
        if self._clock() >= self._next_s and self._lock.acquire(blocking=False):
            try:
                self._refresh()
            finally:
                self._lock.release()
        return self._value

    def _refresh(self) -> None:
        self._next_s = self._clock() + self._every_s
        marks = self._current_marks()
        if marks == self._marks:
            return
        self._marks = marks
        try:
            self._value = self._load()
        except ConfigError as error:
            _log.error("%s; the previous content stays active", error)
        else:
            _log.info("reloaded: %s", ", ".join(map(str, self._paths)))

    def _current_marks(self) -> tuple[tuple[int, int, int] | None, ...]:
        return tuple(_mark(path) for path in self._paths)


def _mark(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
