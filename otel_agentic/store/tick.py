"""What windows hold at one end, or few, counted by the database in one pass over `results`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from otel_agentic.scoring.model import DIMENSIONS
from otel_agentic.store.result_columns import MEMBERS, TAGGED, fetched, groups_of
from otel_agentic.windows.counted import Bands, Counted, Slot
from otel_agentic.windows.rolling import widest_ns

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt
    from duckdb import DuckDBPyConnection

    from otel_agentic.store.result_columns import Columns
    from otel_agentic.windows.columns import Tallies
    from otel_agentic.windows.rolling import Window

    IntArray = npt.NDArray[np.int64]

_DIMENSIONS: Final = ", ".join(
    f"coalesce(sum({name}), 0.0) AS {name}, count({name}) AS {name}_n" for name in DIMENSIONS
)
_REASON: Final = "CASE WHEN outcome = 'not_evaluated' THEN coalesce(reason, 'no_data') END AS missing"
#: Each of these is asked of members in bands of time, with the columns that make a group.
_HELD: Final = f"""
SELECT {{group}}, band, sample_ratio, {_REASON}, count(*) AS count, {_DIMENSIONS} FROM banded GROUP BY ALL
"""  # noqa: S608 — names of our own schema
_CASES: Final = """
SELECT
    {group}, band, sample_ratio, case_no,
    count(*) FILTER (outcome = 'pass') AS passed, count(*) FILTER (outcome = 'fail') AS failed
FROM banded WHERE outcome <> 'not_evaluated'
GROUP BY {group}, band, sample_ratio, case_no
"""
_QUERIES: Final = {
    tagged: tuple(query.format(group="subject, tag" if tagged else "subject") for query in (_HELD, _CASES))
    for tagged in (False, True)
}
_EACH_DIMENSION: Final = ", ".join(
    f"coalesce({name}, 0.0) AS {name}, ({name} IS NOT NULL)::INTEGER AS {name}_n" for name in DIMENSIONS
)
#: The newest conversations of each group up to an end, a row each: those that ended no earlier than the last of so many,
#: less what is too much where several ended at that moment.
_NEWEST: Final = f"""
SELECT
    {{group}}, 0 AS band, sample_ratio, {_REASON}, 1 AS count, case_no, (outcome = 'pass')::INTEGER AS passed,
    (outcome = 'fail')::INTEGER AS failed, {_EACH_DIMENSION}
FROM (
    SELECT m.*, row_number() OVER (
        PARTITION BY m.subject, m.tag ORDER BY m.window_time DESC, m.environment DESC, m.conversation_id DESC
    ) AS place
    FROM members m
    JOIN (
        SELECT subject, tag, list_min(max(window_time, $newest)) AS since
        FROM members WHERE window_time <= make_timestamp_ns($end)
        GROUP BY subject, tag
        HAVING max(window_time) > make_timestamp_ns($stale)
    ) t ON t.subject = m.subject AND t.tag IS NOT DISTINCT FROM m.tag AND m.window_time >= t.since
    WHERE m.window_time <= make_timestamp_ns($end)
)
WHERE place <= $newest
"""  # noqa: S608 — the same


def tick(con: DuckDBPyConnection, windows: Sequence[Window], ends: Sequence[int], tags: Sequence[str] = ()) -> Tallies:
    """Return what each group's windows hold at some ends, counted by the database.

    The same as `tally` of all results; quicker for few ends, since no conversation leaves the database.

    Args:
        con: a connection, in one transaction.
        windows: the windows, at least one.
        ends: their ends, ns, at least one.
        tags: case tags, names or globs, that make groups of their own beside the whole.
    """
    query = _Query(con, tags)
    places = sorted(set(ends))
    timed = [(window, at) for at, window in enumerate(windows) if window.width_ns is not None]
    counted = [_bands(query, timed, places, len(windows))] if timed else []
    for at, window in enumerate(windows):
        if window.newest is not None:
            for number, end_ns in enumerate(places):
                own = {"end": end_ns, "stale": end_ns - widest_ns(windows), "newest": window.newest}
                counted.append(query.newest(own, [Slot(number * len(windows) + at, 0, 1)]))
    return _counted(con, counted, windows, places).tallies()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """The rows of both queries, and the windows that are sums of their bands."""

    slots: Sequence[Slot]
    held: Columns
    cases: Columns


class _Query:
    """Asks for the counts of members in bands of time."""

    def __init__(self, con: DuckDBPyConnection, tags: Sequence[str]) -> None:
        self._con = con
        self._tags = {"tags": list(tags)} if tags else {}
        self._members = TAGGED if tags else MEMBERS
        self._queries = _QUERIES[bool(tags)]
        self._newest = _NEWEST.format(group="subject, tag" if tags else "subject")

    def newest(self, bound: Mapping[str, Any], slots: Sequence[Slot]) -> _Found:
        """Return the newest conversations, one by one: they are few."""
        rows = fetched(self._con, f"WITH members AS ({self._members}) {self._newest}", {**bound, **self._tags})
        evaluated = np.flatnonzero(rows["passed"] + rows["failed"])
        return _Found(slots=slots, held=rows, cases={name: values[evaluated] for name, values in rows.items()})

    def ask(self, banded: str, bound: Mapping[str, Any], slots: Sequence[Slot]) -> _Found:
        """Return what is counted of the conversations that `banded`, a query of `members`, selects."""
        held, cases = (
            fetched(
                self._con, f"WITH members AS ({self._members}), banded AS ({banded}) {query}", {**bound, **self._tags}
            )
            for query in self._queries
        )
        return _Found(slots=slots, held=held, cases=cases)


def _bands(query: _Query, timed: Sequence[tuple[Window, int]], ends: Sequence[int], windows: int) -> _Found:
    """Return the counts of time windows, by the bands of time between all their edges."""
    edges = sorted({edge for end in ends for window, _ in timed for edge in (end, end - (window.width_ns or 0))})
    edges.reverse()
    cases = " ".join(
        f"WHEN window_time > make_timestamp_ns($edge{place}) THEN {place - 1}" for place in range(1, len(edges))
    )
    banded = (
        f"SELECT *, CAST(CASE {cases} END AS USMALLINT) AS band FROM members "  # noqa: S608 — numbers of our own; times are parameters
        f"WHERE window_time <= make_timestamp_ns($edge0) AND window_time > make_timestamp_ns($edge{len(edges) - 1})"
    )
    slots = [
        Slot(number * windows + at, edges.index(end), edges.index(end - (window.width_ns or 0)))
        for number, end in enumerate(ends)
        for window, at in timed
    ]
    return query.ask(banded, {f"edge{place}": edge for place, edge in enumerate(edges)}, slots)


def _counted(
    con: DuckDBPyConnection, found: Sequence[_Found], windows: Sequence[Window], ends: Sequence[int]
) -> Counted:
    """Return the counts with groups and reasons as numbers, the same in all parts."""
    tables = [table for part in found for table in (part.held, part.cases)]
    subject = np.concatenate([table["subject"] for table in tables])
    tag = np.concatenate([table["tag"] for table in tables]) if "tag" in tables[0] else None
    groups, group = groups_of(con, subject, tag)
    of_tables = np.split(group, np.cumsum([len(table["subject"]) for table in tables])[:-1])
    reasons = sorted({reason for part in found for reason in part.held["missing"].tolist() if reason is not None})
    codes = {None: -1, **{reason: code for code, reason in enumerate(reasons)}}
    parts = [
        _part(each, held_group, case_group, codes)
        for each, held_group, case_group in zip(found, of_tables[::2], of_tables[1::2], strict=True)
    ]
    return Counted(groups=groups, windows=windows, ends=ends, reasons=reasons, parts=parts)


def _part(found: _Found, group: IntArray, case_group: IntArray, reasons: Mapping[str | None, int]) -> Bands:
    held, cases = found.held, found.cases
    return Bands(
        slots=found.slots,
        group=group,
        band=held["band"].astype(np.int64),
        weight=1.0 / held["sample_ratio"],
        reason=np.array([reasons[reason] for reason in held["missing"].tolist()], dtype=np.int64),
        count=held["count"],
        dimension_sum=np.stack([held[name] for name in DIMENSIONS], axis=1),
        dimension_n=np.stack([held[f"{name}_n"] for name in DIMENSIONS], axis=1),
        case_group=case_group,
        case_band=cases["band"].astype(np.int64),
        case_weight=1.0 / cases["sample_ratio"],
        case=cases["case_no"].astype(np.int64),
        passed=cases["passed"],
        failed=cases["failed"],
    )
