"""Which window ends are to be computed anew."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from otel_agentic.store.kept import kept
from otel_agentic.store.windows import newest_end, stored_ends
from otel_agentic.windows import current_end
from otel_agentic.windows.rolling import most_newest, widest_ns

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from otel_agentic.store.database import Connection
    from otel_agentic.store.window_changes import Changes
    from otel_agentic.windows import Window

#: Ends computed at once at most, the newest of them; `backfill` computes the others.
MOST_ENDS: Final = 5_000


class DueEnds:
    """Keeps count of the window ends that passed, and knows those that a change touches.

    Ends are whole multiples of the step since the epoch. Every one that passed since a collector last looked is due, and so is
    the one that fills now; a conversation that changed touches those whose window holds it, or held it. Of conversations from
    files only ends at which such a window is stored are due: a past that nobody watched is for `backfill`. Ends whose windows
    reach back to what retention removed are not due any more: what is stored there stays as it is.
    """

    def __init__(self, windows: Sequence[Window], step_ns: int) -> None:
        self._widths = [window.name for window in windows]
        self._reach_ns = widest_ns(windows)
        self._counts = most_newest(windows) > 0
        self._step_ns = step_ns
        self._computed_ns: int | None = None

    def ends(self, con: Connection, changes: Changes, now_ns: int) -> list[int]:
        """Return the ends that are due, ascending.

        Args:
            con: a connection for reading.
            changes: what changed.
            now_ns: the present.
        """
        filling_ns = current_end(now_ns, self._step_ns)
        since_ns = self._computed_ns if self._computed_ns is not None else newest_end(con, self._step_ns, filling_ns)
        ends: set[int] = set()
        if since_ns != filling_ns or changes:
            ends |= self._grid(filling_ns if since_ns is None else since_ns, filling_ns)
        for first_ns, last_ns in self._touched(changes.live_ns, filling_ns):
            ends |= self._grid(first_ns, last_ns)
        for first_ns, last_ns in self._touched((*changes.live_ns, *changes.other_ns), filling_ns):
            ends |= set(stored_ends(con, self._widths, first_ns, last_ns, limit=MOST_ENDS))
        results_from_ns = kept(con).results_from_ns
        whole_from_ns = results_from_ns + self._reach_ns if results_from_ns else 0
        return sorted(end for end in ends if end >= whole_from_ns)[-MOST_ENDS:]

    def computed(self, now_ns: int) -> None:
        """Note that everything due was computed and stored."""
        self._computed_ns = current_end(now_ns, self._step_ns)

    def _grid(self, first_ns: int, last_ns: int) -> set[int]:
        """Return the ends from one time to another, both inclusive; of too many the newest."""
        return set(range(current_end(first_ns, self._step_ns), last_ns + 1, self._step_ns)[-MOST_ENDS:])

    def _touched(self, ended_ns: Iterable[int], filling_ns: int) -> Iterator[tuple[int, int]]:
        """Yield the stretches of time in which an end has a window that holds one of these times, ascending."""
        stretch: tuple[int, int] | None = None
        for time_ns in sorted(time_ns for time_ns in ended_ns if time_ns <= filling_ns):
            last_ns = filling_ns if self._counts else min(filling_ns, time_ns + self._reach_ns - 1)
            if stretch is not None and time_ns > stretch[1]:
                yield stretch
                stretch = None
            stretch = (time_ns, last_ns) if stretch is None else (stretch[0], max(stretch[1], last_ns))
        if stretch is not None:
            yield stretch
