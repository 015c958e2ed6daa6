"""Which window ends have to be recomputed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from otel_agentic.store.kept import retention_state
from otel_agentic.store.windows import newest_end, stored_ends
from otel_agentic.windows import current_end
from otel_agentic.windows.rolling import most_newest, widest_ns

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from otel_agentic.store.database import Connection
    from otel_agentic.store.window_changes import Changes
    from otel_agentic.windows import Window

#: Maximum number of ends computed at once, the newest of them; `backfill` computes the others.
MOST_ENDS: Final = 5_000


class DueEnds:
    """Tracks the window ends that passed, and determines those that a change affects.

    Ends are whole multiples of the step since the epoch. Due are all ends that passed since the last computation, the end of
    the window that is filling, and the ends whose window contains or contained a changed conversation. For conversations from
    files only stored ends are due: windows of a past without a running collector are computed by `backfill`. Ends whose
    windows reach back to removed conversations are never due: their stored rows stay unchanged.
    """

    def __init__(self, windows: Sequence[Window], step_ns: int) -> None:
        self._widths = [window.name for window in windows]
        self._reach_ns = widest_ns(windows)
        self._counts = most_newest(windows) > 0
        self._step_ns = step_ns
        self._computed_ns: int | None = None

    def ends(self, con: Connection, changes: Changes, now_ns: int) -> list[int]:
        """Return the due ends, ascending.

        Args:
            con: a connection for reading.
            changes: the changed conversations.
            now_ns: the current time.
        """
        filling_ns = current_end(now_ns, self._step_ns)
        since_ns = self._computed_ns if self._computed_ns is not None else newest_end(con, self._step_ns, filling_ns)
        ends: set[int] = set()
        if since_ns != filling_ns or changes:
            ends |= self._grid(filling_ns if since_ns is None else since_ns, filling_ns)
        for first_ns, last_ns in self._affected(changes.live_ns, filling_ns):
            ends |= self._grid(first_ns, last_ns)
        for first_ns, last_ns in self._affected((*changes.live_ns, *changes.other_ns), filling_ns):
            ends |= set(stored_ends(con, self._widths, first_ns, last_ns, limit=MOST_ENDS))
        results_from_ns = retention_state(con).results_from_ns
        whole_from_ns = results_from_ns + self._reach_ns if results_from_ns else 0
        return sorted(end for end in ends if end >= whole_from_ns)[-MOST_ENDS:]

    def computed(self, now_ns: int) -> None:
        """Record that all due ends were computed and stored."""
        self._computed_ns = current_end(now_ns, self._step_ns)

    def _grid(self, first_ns: int, last_ns: int) -> set[int]:
        """Return the ends from one time to another, both inclusive; the newest if there are too many."""
        return set(range(current_end(first_ns, self._step_ns), last_ns + 1, self._step_ns)[-MOST_ENDS:])

    def _affected(self, ended_ns: Iterable[int], filling_ns: int) -> Iterator[tuple[int, int]]:
        """Yield the intervals of ends whose windows contain one of these times, ascending."""
        interval: tuple[int, int] | None = None
        for time_ns in sorted(time_ns for time_ns in ended_ns if time_ns <= filling_ns):
            last_ns = filling_ns if self._counts else min(filling_ns, time_ns + self._reach_ns - 1)
            if interval is not None and time_ns > interval[1]:
                yield interval
                interval = None
            interval = (time_ns, last_ns) if interval is None else (interval[0], max(interval[1], last_ns))
        if interval is not None:
            yield interval
