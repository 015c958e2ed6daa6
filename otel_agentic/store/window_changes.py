"""The table `window_changes`: event times whose windows are to be computed anew."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_READ: Final = "SELECT DISTINCT epoch_ns(window_time), live FROM window_changes ORDER BY ALL"
_UPTO: Final = "SELECT coalesce(max(serial), 0) FROM window_changes"
_FORGET: Final = "DELETE FROM window_changes WHERE serial <= $upto"


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """Event times at which results changed since windows were computed, ns, ascending.

    Attributes:
        upto: serial of the last change.
        live_ns: of conversations that were closed live.
        other_ns: of conversations from files.
    """

    upto: int
    live_ns: tuple[int, ...]
    other_ns: tuple[int, ...]

    def __bool__(self) -> bool:
        """Whether there is any."""
        return bool(self.live_ns or self.other_ns)


def read_changes(con: DuckDBPyConnection) -> Changes:
    """Return what changed, as of one moment: give a connection in a transaction."""
    ((upto,),) = con.execute(_UPTO).fetchall()
    times = con.execute(_READ).fetchall() if upto else []
    return Changes(
        upto=upto,
        live_ns=tuple(time_ns for time_ns, live in times if live),
        other_ns=tuple(time_ns for time_ns, live in times if not live),
    )


def forget_changes(con: DuckDBPyConnection, changes: Changes) -> None:
    """Take out what was computed; later changes stay."""
    if changes.upto:
        con.execute(_FORGET, {"upto": changes.upto})
