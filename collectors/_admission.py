"""Whether one request more is taken on: asked before its body is read, so that refusing costs next to nothing."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from collectors._memory import LARGEST_AT_ONCE, Holding, MemoryBudget
from otel_agentic.errors import OverloadedError, StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from otel_agentic.config import ReceiveSettings

#: For each request being handled one more may wait, its body already read.
_WAITING_RATIO: Final = 2
#: A sink that was full a moment ago is taken to be full still: decoding a request to hear so again would cost what the
#: sink needs to get on. Far shorter than a full queue lasts.
_FULL_FOR_S: Final = 0.05


#: Requests decoded at once, in the whole process. Decoding takes many times a request's size in memory, and as it holds
#: the interpreter, more at once would not be faster.
DECODING: Final = threading.BoundedSemaphore(2)


class Admission:
    """What one way in has under way, and its bounds. For one event loop; only memory is counted on other threads."""

    def __init__(self, settings: ReceiveSettings, clock: Callable[[], float] = time.monotonic) -> None:
        self._memory = MemoryBudget(LARGEST_AT_ONCE * settings.max_request_bytes)
        self._most = _WAITING_RATIO * settings.max_concurrent_requests
        self._under_way = 0
        self._clock = clock
        self._full_until_s = 0.0

    def check(self, expected_bytes: int = 0) -> None:
        """Return nothing where a request of that size, compressed, would be taken on.

        Raises:
            OverloadedError: it would not; says of what there is too much.
        """
        if self._under_way >= self._most:
            raise OverloadedError(f"{self._under_way} requests are under way: try again")
        self._memory.require(expected_bytes)
        if self._clock() < self._full_until_s:
            raise OverloadedError("the store was full a moment ago: try again")

    def holding(self) -> Holding:
        """Return a context manager for the bytes of one request."""
        return Holding(self._memory)

    @contextmanager
    def work(self) -> Iterator[None]:
        """Count a request that is decoded and stored.

        Raises:
            OverloadedError: as many as allowed are under way.
        """
        if self._under_way >= self._most:
            raise OverloadedError(f"{self._under_way} requests are under way: try again")
        self._under_way += 1
        try:
            yield
        except (OverloadedError, StoreError):
            self._full_until_s = self._clock() + _FULL_FOR_S
            raise
        finally:
            self._under_way -= 1
