"""What small files hold, kept true while they change: tokens and certificates are renewed without a restart."""

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


class Watched(Generic[T]):
    """A value made of files; made anew when one of them has changed. Thread-safe."""

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
            load: makes the value; raises ConfigError where the files cannot be used.
            every_s: the files are looked at this often, seconds, at most.
            clock: seconds that only grow.

        Raises:
            ConfigError: what `load` raises.
        """
        self._paths = tuple(paths)
        self._load = load
        self._every_s = every_s
        self._clock = clock
        self._lock = threading.Lock()
        self._marks = self._look()
        self._value = load()
        self._next_s = clock() + every_s

    def get(self) -> T:
        """Return the value of now. Files that cannot be used leave the value as it was; that is logged once."""
        if self._clock() >= self._next_s and self._lock.acquire(blocking=False):
            try:
                self._refresh()
            finally:
                self._lock.release()
        return self._value

    def _refresh(self) -> None:
        self._next_s = self._clock() + self._every_s
        marks = self._look()
        if marks == self._marks:
            return
        self._marks = marks
        try:
            self._value = self._load()
        except ConfigError as error:
            _log.error("%s; what was read before stays in force", error)
        else:
            _log.info("read again: %s", ", ".join(map(str, self._paths)))

    def _look(self) -> tuple[tuple[int, int, int] | None, ...]:
        return tuple(_mark(path) for path in self._paths)


def _mark(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
