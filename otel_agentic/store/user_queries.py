"""The queries of people that run now, so that what is more important than they are can end them."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duckdb import DuckDBPyConnection


@dataclass(slots=True, eq=False)
class UserQuery:
    """One query that runs. `ended_for` is why it was ended from outside, None while it was not."""

    con: DuckDBPyConnection
    ended_for: str | None = None


class UserQueries:
    """Which queries of people run on one store. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[UserQuery] = set()

    def __len__(self) -> int:
        """Return how many run now."""
        with self._lock:
            return len(self._running)

    @contextmanager
    def running(self, con: DuckDBPyConnection) -> Iterator[UserQuery]:
        """Count a connection's query while the block runs; `end` interrupts it."""
        query = UserQuery(con)
        with self._lock:
            self._running.add(query)
        try:
            yield query
        finally:
            with self._lock:  # once this is held, nobody interrupts what the connection does next
                self._running.discard(query)

    def end_all(self, why: str) -> int:
        """Interrupt every query that runs now and return how many; returns at once, they end within moments.

        Args:
            why: told to those who asked, as in "the collector needs its memory for spans".
        """
        with self._lock:
            for query in self._running:
                _end(query, why)
            return len(self._running)

    def end(self, query: UserQuery, why: str) -> None:
        """Interrupt one query, if it still runs."""
        with self._lock:
            if query in self._running:
                _end(query, why)


def _end(query: UserQuery, why: str) -> None:
    query.ended_for = query.ended_for or why
    query.con.interrupt()
