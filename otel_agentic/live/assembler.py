"""The assembler of a running collector: it tracks arriving spans and decides when turns and conversations end."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeVar

from otel_agentic.conversations import idle_limit_ns, turn_limit_ns
from otel_agentic.engine.rebuild import AffectedItems, RebuildResult
from otel_agentic.live.loops import BackgroundLoop, LoopErrorLogger
from otel_agentic.store import links

if TYPE_CHECKING:
    from otel_agentic.config import ConversationSettings
    from otel_agentic.conversations.model import ClosedBy
    from otel_agentic.engine.engine import Engine
    from otel_agentic.store.table import Key
    from otel_agentic.telemetry.facade import Stage

T = TypeVar("T")
_log = logging.getLogger(__name__)
#: Maximum number of traces read, and of conversations rebuilt, per tick. After each tick, results are reported and a
#: request to stop is handled.
_PORTION: Final = 1000
#: Minimum portion: a smaller one would not outweigh the fixed cost of a tick.
_MIN_PORTION: Final = 200
#: Target duration of a tick if no sender waits, seconds. Under pressure a tick is shortened to its share, because it
#: competes with the receivers.
_TICK_S: Final = 1.0
#: Maximum number of arrived traces kept in memory; beyond it, they are read from the store.
_MAX_ARRIVED: Final = 50_000
#: Maximum interval between two ticks, seconds.
_MAX_TICK_S: Final = 0.5
#: With timers shorter than this, seconds, arrivals are processed as soon as they are stored.
_SHORT_S: Final = 0.02


@dataclass(slots=True, kw_only=True)
class _Open:
    """An open conversation: the last arrival (ns), whether it has an id, and whether arrivals are not rebuilt yet."""

    last_ns: int
    has_id: bool
    fresh: bool


class Assembler(BackgroundLoop):
    """Rebuilds conversations in the background: when a turn becomes idle, and again when the conversation closes.

    Conversations that are open at a stop stay open until the next start. Idle time is measured by arrival, not by span
    times, so that a sender's clock that is wrong by a day closes no conversation early.
    """

    def __init__(self, engine: Engine, on_rebuilt: Callable[[RebuildResult], None]) -> None:
        super().__init__("assembler")
        self._engine = engine
        self._settings: ConversationSettings = engine.settings.conversations
        self._on_rebuilt = on_rebuilt
        self._arrival_lock = threading.Lock()
        self._arrived: dict[str, int] = {}
        self._open: dict[Key, _Open] = {}
        self._loose: dict[str, int] = {}
        self._shared: dict[Key, AbstractSet[Key]] = {}
        self._behind = False
        self._overflowed = False
        self._portion = _PORTION
        self._item_s = 0.0
        self._immediate = min(self._settings.turn_idle_s, self._settings.idle_s) < _SHORT_S
        self._errors = LoopErrorLogger(_log, "rebuilding conversations")
        #: Held while conversations are rebuilt.
        self.lock = threading.Lock()

    def start(self) -> None:
        """Resume what an earlier process left unread or open, then start the thread."""
        # First, so that a batch stored meanwhile is processed twice rather than never.
        self._engine.store.listen(self.arrived)
        self.arrived(self._engine.rebuilder.pending())
        with self._engine.store.read() as con:
            for conversation in links.open_conversations(con, self._engine.clock()):
                self._open[conversation.key] = _Open(
                    last_ns=conversation.last_ns, has_id=conversation.has_id, fresh=True
                )
        super().start()

    def arrived(self, trace_ids: Iterable[str]) -> None:
        """Record that spans of these traces were stored."""
        now_ns = self._engine.clock()
        with self._arrival_lock:
            for trace_id in trace_ids:
                if len(self._arrived) >= _MAX_ARRIVED and trace_id not in self._arrived:
                    self._overflowed = True
                else:
                    self._arrived[trace_id] = now_ns
        if self._immediate:
            self._wake.set()

    @property
    def open_count(self) -> int:
        """The number of open conversations."""
        return len(self._open) + len(self._loose)

    def backlog(self) -> dict[Stage, int]:
        """Return the number of arrived traces that were not read yet, and of conversations that are due to be rebuilt.

        At most 50,000 traces are counted. The numbers are approximate, because other threads change the state
        meanwhile.
        """
        now_ns, turn_ns = self._engine.clock(), turn_limit_ns(self._settings)
        due_conversations = sum(
            state.fresh and now_ns - state.last_ns >= turn_ns for state in list(self._open.values())
        )
        loose = sum(now_ns - at_ns >= turn_ns for at_ns in list(self._loose.values()))
        return {"read": len(self._arrived), "rebuild": due_conversations + loose}

    def tick(self) -> RebuildResult:
        """Process everything that is due; return the changes."""
        with self.lock:
            return self._tick()

    def _tick(self) -> RebuildResult:
        self._portion = self._next_portion()
        began = time.monotonic()
        self._catch_up()
        with self._arrival_lock:
            arrived = dict(islice(self._arrived.items(), self._portion))
            for trace_id in arrived:
                del self._arrived[trace_id]
        if arrived:
            try:
                self._record(self._engine.rebuilder.read(arrived), max(arrived.values()))
            except BaseException:
                with self._arrival_lock:
                    self._arrived = arrived | self._arrived
                raise
        rebuilt = self._rebuild_due(self._engine.clock())
        if self._behind:  # only a full portion measures the cost of an item
            self._item_s = (time.monotonic() - began) / self._portion
        return rebuilt

    def _next_portion(self) -> int:
        """Return the number of traces to read and conversations to rebuild, based on the cost of the last tick."""
        if not self._item_s:
            return _MIN_PORTION  # the cost is not known yet
        return min(_PORTION, max(_MIN_PORTION, int(self._engine.pressure.share * _TICK_S / self._item_s)))

    def _catch_up(self) -> None:
        """Read from the store the arrived traces that exceeded the memory limit."""
        with self._arrival_lock:
            must_read = self._overflowed and not self._arrived
            self._overflowed = self._overflowed and not must_read
        if must_read:
            self.arrived(self._engine.rebuilder.pending())

    def _record(self, touched: AffectedItems, at_ns: int) -> None:
        for key in touched.keys:
            known = self._open.get(key)
            self._open[key] = _Open(last_ns=at_ns, has_id=known.has_id if known else True, fresh=True)
            for other in self._shared.get(key, frozenset()) & self._open.keys():
                self._open[other].last_ns = at_ns  # until the rebuild, which knows to which one the trace belongs
        for trace_id in touched.loose_traces:
            self._loose[trace_id] = at_ns

    def _rebuild_due(self, now_ns: int) -> RebuildResult:
        turn_ns = turn_limit_ns(self._settings)
        closing = self._portion_of(
            key for key, state in self._open.items() if now_ns - state.last_ns >= self._limit_ns(state)
        )
        quiet = self._portion_of(
            key for key, state in self._open.items() if state.fresh and now_ns - state.last_ns >= turn_ns
        )
        loose = {
            trace_id: self._loose[trace_id]
            for trace_id in self._portion_of(
                trace_id for trace_id, at_ns in self._loose.items() if now_ns - at_ns >= turn_ns
            )
        }
        self._behind = (
            bool(self._arrived) or self._overflowed or self._portion in {len(closing), len(quiet), len(loose)}
        )
        if not (closing or quiet or loose):
            return RebuildResult()
        closed = self._close_rebuilt({key for key in closing if not self._open[key].fresh})
        keys = closing.union(quiet).difference(saved.key for saved in closed.saved)
        touched = AffectedItems(keys=frozenset(keys), loose_traces=frozenset(loose))
        rebuilt = closed + self._engine.rebuilder.rebuild(touched, lambda key: _idle(key, closing))
        for key in closing:
            self._open.pop(key, None)
        for key in quiet - closing:
            self._open[key].fresh = False
        for trace_id in loose:
            self._loose.pop(trace_id, None)
        self._update_open(rebuilt, loose, now_ns)
        return rebuilt

    def _close_rebuilt(self, keys: AbstractSet[Key]) -> RebuildResult:
        """Close conversations of which nothing arrived since they were rebuilt."""
        if not keys or self._overflowed:
            return RebuildResult()
        return self._engine.rebuilder.close(keys, self._arrived)

    def _update_open(self, rebuilt: RebuildResult, loose: dict[str, int], now_ns: int) -> None:
        """Update the open conversations, including those that traces without an id now belong to."""
        for key in rebuilt.vanished:
            self._open.pop(key, None)
        for saved in rebuilt.saved:
            if saved.closed_by is not None:
                self._open.pop(saved.key, None)
                continue
            known = self._open.get(saved.key)
            last_ns = max((at_ns for trace_id, at_ns in loose.items() if trace_id in saved.traces), default=0)
            if known is not None:
                # A trace that was linked to the conversation by its history keeps it open.
                known.last_ns = max(known.last_ns, last_ns)
            else:
                self._open[saved.key] = _Open(last_ns=last_ns or now_ns, has_id=saved.has_id, fresh=False)
        if rebuilt.split:
            self._separate(rebuilt.split)

    def _separate(self, split: Mapping[Key, AbstractSet[Key]]) -> None:
        """Set the last arrivals of conversations that share an id: `_record` sees an id, not to which of them a trace belongs."""
        names = frozenset().union(*split.values())
        with self._engine.store.read() as con:
            arrivals = links.open_arrivals(con, names)
        for key in names - arrivals.keys():
            self._open.pop(key, None)
        for key, last_ns in arrivals.items():
            fresh = key in self._open and self._open[key].fresh
            self._open[key] = _Open(last_ns=last_ns, has_id=True, fresh=fresh)
        for key, own in split.items():
            self._shared.pop(key, None)
            if still_open := own & arrivals.keys():
                self._shared[key] = still_open

    def _portion_of(self, due_items: Iterable[T]) -> set[T]:
        return set(islice(due_items, self._portion))

    def _limit_ns(self, state: _Open) -> int:
        return idle_limit_ns(self._settings, has_id=state.has_id)

    def _run(self) -> None:
        tick_s = min(_MAX_TICK_S, max(_SHORT_S, self._settings.turn_idle_s) / 2)
        behind = True  # an earlier process may have closed conversations without scoring them
        while True:
            self._wake.wait(0 if self._behind else tick_s)
            self._wake.clear()
            if self._stopping.is_set():
                return
            began = time.monotonic()
            try:
                rebuilt = self.tick()
                behind = behind or bool(rebuilt.saved or rebuilt.vanished)
                if behind:
                    self._on_rebuilt(rebuilt)
                    behind = False
            except Exception as error:  # noqa: BLE001 — logged and retried at the next tick: the spans are stored
                self._behind = False  # a permanent failure must not become a tight loop
                self._errors.failed(error)
            else:
                self._errors.ended()
            self._engine.pressure.rest(time.monotonic() - began, self._stopping)


def _idle(key: Key, closing: set[Key]) -> ClosedBy | None:
    return "idle" if key in closing else None
