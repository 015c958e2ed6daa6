"""The table `backfills`: what each was asked, and how far it has come. And what a backfill asks of the other tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from otel_agentic.store.table import Raw, Table, rows_with

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy.typing as npt
    from duckdb import DuckDBPyConnection

_FIND: Final = """
SELECT
    state, passes, epoch_ns(first_end), epoch_ns(last_end), epoch_ns(position), epoch_ns(sent_until), rows_changed,
    points_sent, epoch_ns(started_at), epoch_ns(updated_at)
FROM backfills WHERE run_id = $run_id
"""
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
#: Closed conversations that count.
_RANGE: Final = """
SELECT epoch_ns(min(window_time)), epoch_ns(max(window_time))
FROM conversations
WHERE NOT superseded AND closed_by IS NOT NULL
"""
#: Conversations in windows up to a position, in whatever revision, that were rebuilt or scored since. One that dissolved
#: into others comes along with these.
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
    """One way through all window ends of a backfill. Times in ns.

    `position_ns` is the newest end that is done, None before the first. The rows that a pass writes say that they were
    computed when it began, so that what was computed at or before `sent_ns`, the beginning of the newest finished pass,
    was sent; None: nothing was.
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


def find_pass(con: DuckDBPyConnection, run_id: str) -> Pass | None:
    """Return the newest pass of a backfill, None when it was never begun."""
    for row in con.execute(_FIND, {"run_id": run_id}).fetchall():
        return Pass(
            run_id=run_id,
            finished=row[0] == "finished",
            number=row[1],
            first_ns=row[2],
            last_ns=row[3],
            position_ns=row[4],
            sent_ns=row[5],
            rows_changed=row[6],
            points_sent=row[7],
            started_ns=row[8],
            updated_ns=row[9],
        )
    return None


def begin_pass(con: DuckDBPyConnection, begun: Pass, asked_json: str) -> None:
    """Write down that a pass begins, in place of the one before it."""
    con.execute(_FORGET, {"run_id": begun.run_id})
    Table(con, "backfills").insert(
        con,
        {
            "run_id": [begun.run_id],
            "request": [Raw(asked_json)],
            "state": ["running"],
            "passes": [begun.number],
            "first_end": [begun.first_ns],
            "last_end": [begun.last_ns],
            "position": [begun.position_ns],
            "sent_until": [begun.sent_ns],
            "rows_changed": [begun.rows_changed],
            "points_sent": [begun.points_sent],
            "started_at": [begun.started_ns],
            "updated_at": [begun.updated_ns],
            "finished_at": [None],
        },
    )


def advance_pass(con: DuckDBPyConnection, run_id: str, position_ns: int, *, points: int, now_ns: int) -> None:
    """Write down that all ends up to `position_ns` are done, and how many more points were sent."""
    given = {"run_id": run_id, "position": position_ns, "points": points, "now": now_ns}
    con.execute(_ADVANCE, given)


def count_rows(con: DuckDBPyConnection, run_id: str, rows: int, now_ns: int) -> None:
    """Write down that rows were stored whose points are not sent yet."""
    con.execute(_COUNT_ROWS, {"run_id": run_id, "rows": rows, "now": now_ns})


def finish_pass(con: DuckDBPyConnection, run_id: str, now_ns: int) -> None:
    """Write down that the pass came to its end."""
    con.execute(_FINISH, {"run_id": run_id, "now": now_ns})


def conversation_range(con: DuckDBPyConnection) -> tuple[int, int] | None:
    """Return when the first and the last closed conversation ended, ns; None when there is none."""
    first_ns, last_ns = con.execute(_RANGE).fetchall()[0]
    return None if first_ns is None else (int(first_ns), int(last_ns))


def changed_since(con: DuckDBPyConnection, position_ns: int, since_ns: int) -> bool:
    """Return whether a conversation that ended at or before a position was rebuilt, or scored, after a time."""
    given = {"position": position_ns, "since": since_ns}
    return bool(con.execute(_CHANGED, given).fetchall()[0][0])


def rewritten_since(con: DuckDBPyConnection, begun: Pass, windows: Sequence[str]) -> bool:
    """Return whether another than this pass wrote rows of some windows at ends that it had done."""
    given = {
        "first": begun.first_ns,
        "position": begun.position_ns,
        "since": begun.started_ns,
        "windows": list(windows),
    }
    return bool(con.execute(_REWRITTEN, given).fetchall()[0][0])


def count_groups(con: DuckDBPyConnection) -> int:
    """Return how many agents, by version, environment and service, there are."""
    return int(con.execute(_GROUPS).fetchall()[0][0])


def computed_since(con: DuckDBPyConnection, ends_ns: Iterable[int], since_ns: int) -> list[int]:
    """Return those of some window ends that have a row computed after a time, ascending."""
    requested: dict[str, Sequence[Any]] = {"ends": sorted(set(ends_ns))}
    return [int(end_ns) for (end_ns,) in rows_with(con, requested, _RESTATED, {"since": since_ns})]


def ended_by_group(
    con: DuckDBPyConnection, since_ns: int | None, until_ns: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return group numbers and ends, ns, of the closed conversations that ended from a time on and before another."""
    found = con.execute(_ENDED, {"since": since_ns, "until": until_ns}).fetchnumpy()
    return np.asarray(found["subject"], dtype=np.int64), np.asarray(found["ended_ns"], dtype=np.int64)
