"""How many bytes of requests are held at once, over all connections."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final, Self

from otel_agentic.errors import OverloadedError

if TYPE_CHECKING:
    from concurrent.futures import Future
    from types import TracebackType
    from typing import Any

#: Requests of the largest allowed size that fit in memory at once.
LARGEST_AT_ONCE: Final = 4


class HeldTooMuchError(OverloadedError):
    """All requests under way hold too much; the store may have room."""


class MemoryBudget:
    """A bound on the bytes that all requests under way hold together; thread-safe."""

    def __init__(self, max_bytes: int) -> None:
        self._lock = threading.Lock()
        self._max_bytes = max_bytes
        self._held = 0

    @property
    def held_bytes(self) -> int:
        """Bytes held now."""
        return self._held

    def take(self, count: int) -> None:
        """Hold `count` bytes more.

        Raises:
            HeldTooMuchError: the bound is reached; nothing more is held.
        """
        with self._lock:
            self.require(count)
            self._held += count

    def require(self, count: int) -> None:
        """Return nothing where `count` bytes more could be held now.

        Raises:
            HeldTooMuchError: they could not.
        """
        if self._held + count > self._max_bytes:
            raise HeldTooMuchError(f"requests under way already hold {self._held} bytes: try again")

    def give(self, count: int) -> None:
        """Let go of `count` bytes."""
        with self._lock:
            self._held -= count


class Holding:
    """What one request holds of the budget; the `with` block's end lets go of all, or that of work which outlasts it."""

    def __init__(self, budget: MemoryBudget) -> None:
        self._budget = budget
        self._count = 0
        self._job: Future[Any] | None = None

    def add(self, count: int) -> None:
        """Hold `count` bytes more.

        Raises:
            HeldTooMuchError: the bound over all requests is reached.
        """
        self._budget.take(count)
        self._count += count

    def hold_until(self, job: Future[Any]) -> None:
        """Let go when the job is done, not before: a sender who goes away ends the block, and not the thread."""
        self._job = job

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._job is None:
            self._let_go()
        else:
            self._job.add_done_callback(lambda _: self._let_go())

    def _let_go(self) -> None:
        self._budget.give(self._count)
