"""Results from the store, as the columns from which windows are counted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from otel_agentic.scoring.model import DIMENSIONS
from otel_agentic.windows.columns import Results
from otel_agentic.windows.model import GroupKey
from otel_agentic.windows.rolling import most_newest, widest_ns

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from duckdb import DuckDBPyConnection

    from otel_agentic.windows.rolling import Window

#: Each result once under its subject.
MEMBERS: Final = "SELECT *, CAST(NULL AS VARCHAR) AS tag FROM results"
#: And once more for each of its tags that forms a group.
TAGGED: Final = """
    SELECT *, CAST(NULL AS VARCHAR) AS tag FROM results
    UNION ALL
    SELECT *, unnest(list_filter(
        list_distinct(tags), lambda tag: len(list_filter($tags, lambda pattern: tag GLOB pattern)) > 0
    )) AS tag
    FROM results WHERE len(tags) > 0
"""
_SELECTED: Final = """
SELECT
    subject, tag, case_no, epoch_ns(window_time) AS ended_ns,
    CASE outcome WHEN 'pass' THEN 1 WHEN 'fail' THEN 0 ELSE -1 END AS outcome,
    CASE WHEN outcome = 'not_evaluated' THEN list_position($reasons, coalesce(reason, 'no_data')) - 1 ELSE -1 END
        AS reason,
    selection, parameters, sequence, utilization, 1.0 / sample_ratio AS weight
"""
_PERIOD: Final = """
WHERE window_time <= make_timestamp_ns($last) AND ($first IS NULL OR window_time >= make_timestamp_ns($first))
"""
_NEWEST: Final = """
WHERE window_time < make_timestamp_ns($first)
QUALIFY row_number() OVER (
    PARTITION BY subject, tag ORDER BY window_time DESC, environment DESC, conversation_id DESC
) <= $newest
"""
_ORDER: Final = "ORDER BY window_time, environment, conversation_id"


def _query(members: str, which: str) -> str:
    return f"WITH members AS ({members}) {_SELECTED} FROM members {which} {_ORDER}"


_IN_PERIOD: Final = {tagged: _query(TAGGED if tagged else MEMBERS, _PERIOD) for tagged in (False, True)}
_BEFORE: Final = {tagged: _query(TAGGED if tagged else MEMBERS, _NEWEST) for tagged in (False, True)}
_REASONS: Final = (
    "SELECT DISTINCT coalesce(reason, 'no_data') AS r FROM results WHERE outcome = 'not_evaluated' ORDER BY r"
)
_SUBJECTS: Final = "SELECT subject, agent, agent_version, environment, service FROM subjects"

Columns = dict[str, np.ndarray[Any, Any]]


def load_results(
    con: DuckDBPyConnection, *, first_ns: int | None, last_ns: int, tags: Sequence[str] = (), newest: int = 0
) -> Results:
    """Return the results of conversations that ended in a period, in event order, groups sorted by key.

    Args:
        con: a connection.
        first_ns: earliest end, inclusive; None: from the beginning.
        last_ns: latest end, inclusive.
        tags: case tags, names or globs, that form separate groups in addition to the total.
        newest: how many of the newest results of each group from before the period to add, for count windows.
    """
    reasons = [str(reason) for (reason,) in con.execute(_REASONS).fetchall()]
    bound = {"last": last_ns, "first": first_ns, "reasons": reasons, **({"tags": list(tags)} if tags else {})}
    parts = [fetched(con, _IN_PERIOD[bool(tags)], bound)]
    if newest and first_ns is not None:
        before = {name: value for name, value in bound.items() if name != "last"}
        parts.insert(0, fetched(con, _BEFORE[bool(tags)], {**before, "newest": newest}))
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    groups, group = groups_of(con, columns["subject"], columns["tag"])
    return Results(
        groups=groups,
        group=group,
        case=columns["case_no"].astype(np.int64),
        ended_ns=columns["ended_ns"],
        outcome=columns["outcome"].astype(np.int64),
        reasons=reasons,
        reason=columns["reason"].astype(np.int64),
        dimensions=np.stack([columns[name] for name in DIMENSIONS], axis=1),
        weight=columns["weight"],
    )


def results_for(
    con: DuckDBPyConnection, windows: Sequence[Window], ends: Sequence[int], tags: Sequence[str] = ()
) -> Results:
    """Return the results in some windows at some ends, at least one of each: the input of `roll`.

    Args:
        con: a connection.
        windows: the windows.
        ends: their ends, ns.
        tags: case tags, names or globs, that form separate groups in addition to the total.
    """
    first_ns = min(ends) - widest_ns(windows) + 1
    return load_results(con, first_ns=first_ns, last_ns=max(ends), tags=tags, newest=most_newest(windows))


def groups_of(
    con: DuckDBPyConnection, subject: np.ndarray[Any, Any], tag: np.ndarray[Any, Any] | None
) -> tuple[list[GroupKey], np.ndarray[Any, np.dtype[np.int64]]]:
    """Return the groups of rows, sorted by key, and the index of the group of each row.

    Args:
        con: a connection.
        subject: (rows,) number of the subject.
        tag: (rows,) tag, None for the total; None if all rows belong to the total.
    """
    row_tags = [] if tag is None else tag.tolist()
    tags = sorted({name for name in row_tags if name is not None})
    number_of = {name: number for number, name in enumerate([None, *tags])}
    code = np.array([number_of[name] for name in row_tags], dtype=np.int64) if tags else 0
    pairs, which = np.unique(subject.astype(np.int64) * (len(tags) + 1) + code, return_inverse=True)
    names = {row[0]: row[1:] for row in con.execute(_SUBJECTS).fetchall()}
    keys = [_key(names[pair // (len(tags) + 1)], [None, *tags][pair % (len(tags) + 1)]) for pair in pairs.tolist()]
    order = sorted(range(len(keys)), key=lambda number: keys[number].sort_key())
    rank = np.empty(len(keys), dtype=np.int64)
    rank[order] = np.arange(len(keys))
    return [keys[number] for number in order], rank[which]


def _key(subject: tuple[str | None, ...], tag: str | None) -> GroupKey:
    agent, agent_version, environment, service = subject
    return GroupKey(agent=agent, agent_version=agent_version, environment=environment, service=service, tag=tag)


def fetched(con: DuckDBPyConnection, sql: str, parameters: Mapping[str, Any]) -> Columns:
    """Return the rows of a query as one array per column; null becomes None in texts, NaN or -1 in numbers."""
    columns = con.execute(sql, dict(parameters)).fetchnumpy()
    return {name: _plain(values) for name, values in columns.items()}


def _plain(values: Any) -> np.ndarray[Any, Any]:
    """Return an array without a mask."""
    if not isinstance(values, np.ma.MaskedArray):
        return np.asarray(values)
    if values.dtype.kind in "iuf":
        return np.asarray(values.filled(np.nan if values.dtype.kind == "f" else -1))
    objects = values.data.astype(object)
    objects[np.ma.getmaskarray(values)] = None
    return np.asarray(objects)
