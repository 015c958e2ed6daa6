"""Messages that gRPC is receiving: it keeps all of one before we see a byte, so long receptions are bounded in number.

Short ones need no bound: what all of them bring in such a short time is bounded by the network. Large messages are long
ones, and so are those that hardly come at all.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final, TypeVar

from otel_agentic.errors import OverloadedError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

T = TypeVar("T")

#: A reception that lasts is a long one; as often, surplus ones are ended.
_LONG_S: Final = 0.05
#: Long receptions at once: as many messages of the largest allowed size can be in memory.
_MOST_LONG: Final = 16
#: A sender that finished a message before is left alone for so long.
_UNDISTURBED_S: Final = 5.0
_REMEMBERED_PEERS: Final = 10_000


class _Reception:
    """One message on its way; of the task that waits for it."""

    __slots__ = ("fate", "peer", "since_s", "task")

    def __init__(self, peer: str, since_s: float, task: asyncio.Task[Any]) -> None:
        self.peer = peer
        self.since_s = since_s
        self.task = task
        self.fate: Exception | None = None

    def end(self, fate: Exception) -> None:
        """Have the task stop waiting, with an error."""
        self.fate = fate
        self.task.cancel()


class Receptions:
    """What is being received. For one event loop."""

    def __init__(self, timeout_s: float, most_long: int = _MOST_LONG) -> None:
        """Begin with none; each has `timeout_s` seconds."""
        self._timeout_s = timeout_s
        self._most_long = most_long
        self._open: dict[_Reception, None] = {}  # oldest first
        self._proven: OrderedDict[str, None] = OrderedDict()
        self._looking = False

    async def receive(self, peer: str, read: Callable[[], Awaitable[T]]) -> T:
        """Return what is read from a peer.

        Raises:
            OverloadedError: it took long, and too many others did: the peer that never finished a message goes first.
            TimeoutError: the message took too long.
        """
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None  # noqa: S101 — a coroutine runs in a task
        mine = _Reception(peer, loop.time(), task)
        self._open[mine] = None
        if not self._looking:
            self._looking = True
            loop.call_later(_LONG_S, self._look, loop)
        try:
            found = await read()
        except asyncio.CancelledError:
            if mine.fate is None or task.uncancel() > 0:  # the caller went away, or we are stopping
                raise
            raise mine.fate from None
        finally:
            self._open.pop(mine, None)
        self._remember(peer)
        return found

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        now_s = loop.time()
        long = [one for one in self._open if now_s - one.since_s >= _LONG_S]
        for one in self._least_missed(long, now_s)[: max(0, len(long) - self._most_long)]:
            self._open.pop(one)
            one.end(OverloadedError("this request came slowly while many others did: try again"))
        for one in [one for one in self._open if now_s - one.since_s >= self._timeout_s]:
            self._open.pop(one)
            one.end(TimeoutError())
        self._looking = bool(self._open)
        if self._looking:
            loop.call_later(_LONG_S, self._look, loop)

    def _least_missed(self, long: list[_Reception], now_s: float) -> list[_Reception]:
        """Return them in the order in which they go: unknown peers, oldest first; who had its time; who came last."""
        unknown = [one for one in long if one.peer not in self._proven]
        known = [one for one in long if one.peer in self._proven]
        had_time = [one for one in known if now_s - one.since_s >= _UNDISTURBED_S]
        return [*unknown, *had_time, *reversed(known[len(had_time) :])]

    def _remember(self, peer: str) -> None:
        self._proven[peer] = None
        self._proven.move_to_end(peer)
        if len(self._proven) > _REMEMBERED_PEERS:
            self._proven.popitem(last=False)
