"""The state of backfills, and what changed in the windows that they have finished."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from otel_agentic.store.table import Raw, RowMap, Table, rows_with

if TYPE_CHECKING:
    import numpy.typing as npt
    from duckdb import DuckDBPyConnection


_FIND: Final = "SELECT state = 'finished', {columns} FROM backfills b WHERE run_id = $run_id"
_FORGET: Final = "DELETE FROM backfills WHERE run_id = $run_id"
_ADVANCE: Final = """
UPDATE backfills
SET position = make_timestamp_ns($position), updated_at = make_timestamp_ns($now),
    points_sent = points_sent + $points
WHERE run_id = $run_id
"""
_COUNT_ROWS: Final = """
UPDATE backfills SET rows_changed = rows_changed + $rows, updated_at = make_timestamp_ns($now) WHERE run_id = $run_id
"""
_FINISH: Final = """
UPDATE backfills
SET state = 'finished', sent_until = started_at, updated_at = make_timestamp_ns($now),
    finished_at = make_timestamp_ns($now)
WHERE run_id = $run_id
"""
#: The first and the last window time of closed conversations, the only ones that count.
_RANGE: Final = """
SELECT epoch_ns(min(window_time)), epoch_ns(max(window_time))
FROM conversations
WHERE NOT superseded AND closed_by IS NOT NULL
"""
#: Whether a conversation in a window up to a position, in any revision, was rebuilt or scored since. A conversation
#: that dissolved into others is covered by those.
_CHANGED: Final = """
WITH changed AS (
    SELECT environment, conversation_id FROM conversations WHERE built_at > make_timestamp_ns($since)
    UNION
    SELECT environment, conversation_id FROM conversation_scores
    WHERE scored_at > make_timestamp_ns($since) AND evaluation = 'default'
)
SELECT EXISTS (
    SELECT 1 FROM conversations SEMI JOIN changed USING (environment, conversation_id)
    WHERE window_time <= make_timestamp_ns($position)
)
"""
_REWRITTEN: Final = """
SELECT EXISTS (
    SELECT 1 FROM windows
    WHERE "end" BETWEEN make_timestamp_ns($first) AND make_timestamp_ns($position) AND "window" IN (SELECT unnest($windows))
        AND computed_at > make_timestamp_ns($since)
)
"""
_GROUPS: Final = """
SELECT count(*) FROM (
    SELECT DISTINCT agent, agent_version, environment, service FROM conversations
    WHERE NOT superseded AND closed_by IS NOT NULL
)
"""
_ENDED: Final = """
SELECT
    dense_rank() OVER (ORDER BY agent, agent_version, environment, service) AS subject, epoch_ns(window_time) AS ended_ns
FROM conversations
WHERE NOT superseded AND closed_by IS NOT NULL
    AND ($since IS NULL OR window_time >= make_timestamp_ns($since)) AND window_time < make_timestamp_ns($until)
"""
_RESTATED: Final = """
SELECT DISTINCT epoch_ns("end") AS ends
FROM windows
SEMI JOIN requested ON "end" = make_timestamp_ns(ends)
WHERE computed_at > make_timestamp_ns($since)
ORDER BY ends
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """One pass over all window ends of a backfill. Times in ns.

    `position_ns` is the newest finished end, None before the first. The rows that a pass writes have its start as their
    computation time. So everything computed at or before `sent_ns`, the start of the newest finished pass, was sent; it
    is None if nothing was sent.
    """

    run_id: str
    number: int
    first_ns: int
    last_ns: int
    position_ns: int | None
    sent_ns: int | None
    rows_changed: int
    points_sent: int
    started_ns: int
    updated_ns: int
    finished: bool = False


_PASS_ROW: Final = RowMap(
    "backfills",
    Pass,
    fields_of={"passes": "number", "first_end": "first_ns", "last_end": "last_ns", "sent_until": "sent_ns"},
)


def find_pass(con: DuckDBPyConnection, run_id: str) -> Pass | None:
    """Return the newest pass of a backfill, or None if it never started."""
    sql = _FIND.format(columns=_PASS_ROW.select(con, "b"))
    for finished, *values in con.execute(sql, {"run_id": run_id}).fetchall():
        return _PASS_ROW.build(values, finished=finished)
    return None


def begin_pass(con: DuckDBPyConnection, begun: Pass, request_json: str) -> None:
    """Record the start of a pass, replacing the previous one."""
    con.execute(_FORGET, {"run_id": begun.run_id})
    Table(con, "backfills").insert(
        con,
        {
            **_PASS_ROW.columns(con, [begun]),
            "request": [Raw(request_json)],
            "state": ["running"],
        },
    )


def advance_pass(con: DuckDBPyConnection, run_id: str, position_ns: int, *, points: int, now_ns: int) -> None:
    """Record that all ends up to `position_ns` are finished, and how many more points were sent."""
    parameters = {"run_id": run_id, "position": position_ns, "points": points, "now": now_ns}
    con.execute(_ADVANCE, parameters)


def count_rows(con: DuckDBPyConnection, run_id: str, rows: int, now_ns: int) -> None:
    """Record the number of rows that were stored, before their points are sent."""
    con.execute(_COUNT_ROWS, {"run_id": run_id, "rows": rows, "now": now_ns})


def finish_pass(con: DuckDBPyConnection, run_id: str, now_ns: int) -> None:
    """Record the end of the pass."""
    con.execute(_FINISH, {"run_id": run_id, "now": now_ns})


def conversation_range(con: DuckDBPyConnection) -> tuple[int, int] | None:
    """Return when the first and the last closed conversation ended, ns; None without closed conversations."""
    first_ns, last_ns = con.execute(_RANGE).fetchall()[0]
    return None if first_ns is None else (int(first_ns), int(last_ns))


def changed_since(con: DuckDBPyConnection, position_ns: int, since_ns: int) -> bool:
    """Return whether a conversation that ended at or before a position was rebuilt, or scored, after a time."""
    parameters = {"position": position_ns, "since": since_ns}
    return bool(con.execute(_CHANGED, parameters).fetchall()[0][0])


def rewritten_since(con: DuckDBPyConnection, begun: Pass, windows: Sequence[str]) -> bool:
    """Return whether something other than this pass wrote rows of some windows at ends that it had finished."""
    parameters = {
        "first": begun.first_ns,
        "position": begun.position_ns,
        "since": begun.started_ns,
        "windows": list(windows),
    }
    return bool(con.execute(_REWRITTEN, parameters).fetchall()[0][0])


def count_groups(con: DuckDBPyConnection) -> int:
    """Return the number of agents, by version, environment and service."""
    return int(con.execute(_GROUPS).fetchall()[0][0])


def computed_since(con: DuckDBPyConnection, ends_ns: Iterable[int], since_ns: int) -> list[int]:
    """Return the window ends among `ends_ns` that have a row computed after a time, ascending."""
    requested: dict[str, Sequence[Any]] = {"ends": sorted(set(ends_ns))}
    return [int(end_ns) for (end_ns,) in rows_with(con, requested, _RESTATED, {"since": since_ns})]


def ended_by_group(
    con: DuckDBPyConnection, since_ns: int | None, until_ns: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the group number and the end, ns, of each closed conversation that ended in [since, until)."""
    columns = con.execute(_ENDED, {"since": since_ns, "until": until_ns}).fetchnumpy()
    return np.asarray(columns["subject"], dtype=np.int64), np.asarray(columns["ended_ns"], dtype=np.int64)
