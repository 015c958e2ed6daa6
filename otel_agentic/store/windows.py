"""Windows in the store: counts and tier claims from the database, window points, and windows to be recomputed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import orjson

from otel_agentic.scoring.criteria import CORRECT
from otel_agentic.scoring.scope import DIMENSIONS
from otel_agentic.stats.estimators import headline_among
from otel_agentic.stats.model import GroupedAttempts
from otel_agentic.stats.tiers import claim_tiers
from otel_agentic.store.results import (
    MEMBERS,
    REMOVED_TAGGED,
    SUBJECT_COLUMNS,
    TAGGED,
    Columns,
    fetch_columns,
    groups_of,
    result_groups,
)
from otel_agentic.store.table import object_array, registered
from otel_agentic.windows.columns import Bands, Counted, Slot, unique_rows
from otel_agentic.windows.model import GroupKey, JudgedByProbability, RemovedAttempts, Window, widest_ns

if TYPE_CHECKING:
    import numpy.typing as npt
    from duckdb import DuckDBPyConnection

    from otel_agentic.config import StatsSettings
    from otel_agentic.stats import Estimator, GroupedEstimates, Tier
    from otel_agentic.windows.columns import Tallies, WindowTable

    IntArray = npt.NDArray[np.int64]
    _Kind = tuple[int, int]

_READ: Final = "SELECT epoch_ns(window_time), live, serial FROM window_changes"
_FORGET: Final = "DELETE FROM window_changes WHERE serial <= $upto"


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """Event times at which results changed since windows were computed, ns, ascending.

    Attributes:
        upto: serial of the last change.
        live_ns: times of conversations that were closed live.
        other_ns: times of conversations from files.
    """

    upto: int
    live_ns: tuple[int, ...]
    other_ns: tuple[int, ...]

    def __bool__(self) -> bool:
        """Return whether there are changes."""
        return bool(self.live_ns or self.other_ns)


def read_changes(con: DuckDBPyConnection) -> Changes:
    """Return the recorded changes; the connection must be in a transaction."""
    changes = con.execute(_READ).fetchall()
    return Changes(
        upto=max((serial for _, _, serial in changes), default=0),
        live_ns=tuple(sorted({time_ns for time_ns, live, _ in changes if live})),
        other_ns=tuple(sorted({time_ns for time_ns, live, _ in changes if not live})),
    )


def forget_changes(con: DuckDBPyConnection, changes: Changes) -> None:
    """Delete the changes whose windows were computed; later changes are kept."""
    if changes.upto:
        con.execute(_FORGET, {"upto": changes.upto})


_GROUP: Final = (*SUBJECT_COLUMNS, "tag")
_RATE_SUFFIXES: Final = ("", "_lower", "_upper")


def rows_of(table: WindowTable) -> Columns:
    """Return the rows as columns, ordered by point, estimator and k; texts are Python objects, NaN represents null."""
    points, estimates = table.tallies.size, list(table.estimates.values())
    per_point = len(estimates) * len(table.k)
    by_point = {name: np.repeat(values, per_point) for name, values in _by_point(table).items()}
    return {
        **by_point,
        "k": np.tile(np.array(table.k, dtype=np.int64), points * len(estimates)),
        "estimator": np.tile(np.repeat(object_array(list(table.estimates)), len(table.k)), points),
        "level": np.tile(np.repeat(np.array([estimate.level for estimate in estimates]), len(table.k)), points),
        "interval_method": np.repeat(
            _interleaved([object_array(estimate.interval_methods) for estimate in estimates]), len(table.k)
        ),
        **_numbers(estimates, "pass_at_k"),
        **_numbers(estimates, "pass_pow_k"),
    }


def _by_point(table: WindowTable) -> Columns:
    tallies = table.tallies
    missing = tallies.not_evaluated.sum(axis=1)
    total = tallies.n + missing  # never 0: an empty window has no point
    return {
        **{name: object_array([getattr(key, name) for key in tallies.groups])[tallies.group] for name in _GROUP},
        "window": object_array(tallies.windows)[tallies.window],
        "end": tallies.end_ns,
        "n": tallies.n,
        "c": tallies.c,
        "effective_n": table.effective_n,
        "not_evaluated": _reasons(tallies),
        "coverage": tallies.n / total,
        "lower_bound": tallies.c / total,
        "upper_bound": (tallies.c + missing) / total,
        "tier": object_array(table.tier),
        "leaning": object_array(table.leaning),
    }


def _reasons(tallies: Tallies) -> np.ndarray[Any, Any]:
    """Return the not evaluated counts of each point as JSON, serialised once per combination."""
    if not tallies.reasons:
        return object_array(["{}"] * tallies.size)
    first, inverse = unique_rows(list(tallies.not_evaluated.T))
    texts = [
        orjson.dumps({name: count for name, count in zip(tallies.reasons, counts, strict=True) if count}).decode()
        for counts in tallies.not_evaluated[first].tolist()
    ]
    return object_array(texts)[inverse]


def _numbers(estimates: Sequence[GroupedEstimates], name: str) -> Columns:
    """Return the columns of one rate, its value and bounds, in the order of the rows."""
    stacked = np.stack([getattr(estimate, name) for estimate in estimates], axis=1)
    return {f"{name}{suffix}": stacked[..., index].reshape(-1) for index, suffix in enumerate(_RATE_SUFFIXES)}


def _interleaved(columns: Sequence[np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
    return np.stack(columns, axis=1).reshape(-1)


_ENDS: Final = """
SELECT DISTINCT epoch_ns("end") AS ends FROM windows
WHERE "end" BETWEEN make_timestamp_ns($first) AND make_timestamp_ns($last) AND "window" IN (SELECT unnest($widths))
ORDER BY ends DESC LIMIT $limit
"""
_NEWEST_END: Final = """
SELECT epoch_ns(max("end")) FROM windows WHERE "end" <= make_timestamp_ns($last) AND epoch_ns("end") % $step = 0
"""
#: The identity of a row: its subject, its window, and the estimate.
_IDENTITY: Final = (*_GROUP, "window", "end", "k", "estimator")
_SAME_ROW: Final = """
    s."end" = make_timestamp_ns(f."end") AND s."window" = f."window" AND s.k = f.k AND s.estimator = f.estimator
    AND s.criterion = f.criterion AND s.criteria = f.criteria
    AND s.environment IS NOT DISTINCT FROM f.environment AND s.agent IS NOT DISTINCT FROM f.agent
    AND s.agent_version IS NOT DISTINCT FROM f.agent_version AND s.service IS NOT DISTINCT FROM f.service
    AND s.tag IS NOT DISTINCT FROM f.tag
"""
_COMPARED: Final = ("interval_method", "n", "c", "not_evaluated", "tier", "leaning")
_RATES: Final = (
    "level", "effective_n", "coverage", "lower_bound", "upper_bound",
    "pass_at_k", "pass_at_k_lower", "pass_at_k_upper", "pass_pow_k", "pass_pow_k_lower", "pass_pow_k_upper",
)  # fmt: skip
#: The last digits of a sum of weights depend on the order of addition: rows that differ only in these are equal.
_DIFFERS: Final = " OR ".join(
    (
        *(f"s.{name} IS DISTINCT FROM f.{name}" for name in _COMPARED),
        *(
            f"coalesce(abs(s.{name} - nullif(f.{name}, 'nan'::DOUBLE)) > 1e-9, s.{name} IS DISTINCT FROM nullif(f.{name}, 'nan'::DOUBLE))"
            for name in _RATES
        ),
    )
)
#: The rows that are new or changed, with the row they replace, and the stored rows at the computed ends that no longer have a point.
_COMPARE: Final = f"""
WITH stored AS (
    SELECT *, rowid AS stored_row FROM windows
    WHERE "end" BETWEEN make_timestamp_ns($first) AND make_timestamp_ns($last)
        AND "end" IN (SELECT make_timestamp_ns(unnest($ends)))
)
SELECT f.place, coalesce(s.revision, 0) AS revision, s.stored_row
FROM fresh f FULL JOIN stored s ON {_SAME_ROW}
WHERE (f.place IS NULL AND s."window" IN (SELECT unnest($widths)) AND s.k IN (SELECT unnest($k))
        AND s.estimator IN (SELECT unnest($estimators)))
    OR (f.place IS NOT NULL AND (s.revision IS NULL OR {_DIFFERS}))
ORDER BY f.place
"""  # noqa: S608 — our own fragments
_DELETE: Final = "DELETE FROM windows WHERE rowid IN (SELECT unnest($rows))"
_COLUMNS: Final = {
    **{name: f'f."{name}"' for name in (*_IDENTITY, *_COMPARED)},
    **{name: f"nullif(f.{name}, 'nan'::DOUBLE)" for name in _RATES},
    "end": 'make_timestamp_ns(f."end")',
    "revision": """CASE c.revision WHEN 0 THEN 1 ELSE c.revision + (f."end" <= $now)::INTEGER END""",
    "computed_at": "make_timestamp_ns($now)",
}
_INSERT: Final = f"""
INSERT INTO windows ({", ".join(f'"{name}"' for name in _COLUMNS)})
SELECT {", ".join(_COLUMNS.values())}
FROM fresh f JOIN (SELECT unnest($positions) AS place, unnest($revisions) AS revision) c USING (place)
ORDER BY f.place
"""  # noqa: S608 — the same


def stored_ends(
    con: DuckDBPyConnection, widths: Sequence[str], first_ns: int, last_ns: int, *, limit: int
) -> list[int]:
    """Return the newest distinct ends, in a range of times, at which a window of these widths is stored, ascending."""
    bounds = {"widths": list(widths), "first": first_ns, "last": last_ns, "limit": limit}
    return sorted(int(row[0]) for row in con.execute(_ENDS, bounds).fetchall())


def newest_end(con: DuckDBPyConnection, step_ns: int, last_ns: int) -> int | None:
    """Return the newest stored window end up to a time, ns, that is a multiple of a step; None without any."""
    ((newest,),) = con.execute(_NEWEST_END, {"last": last_ns, "step": step_ns}).fetchall()
    return None if newest is None else int(newest)


def save_windows(con: DuckDBPyConnection, table: WindowTable, ends_ns: Iterable[int], now_ns: int) -> int:
    """Write window points, one row for each k and estimator; return how many rows are new or changed.

    A row that equals the stored one is not written; a different one replaces it. That counts as a new revision only if
    the end of its window has passed; before that, the window is still filling.

    Args:
        con: a connection in a transaction.
        table: all points at the ends.
        ends_ns: the ends that were computed. Stored rows at these ends that no longer have a point are deleted if they
            belong to the windows, k and estimators of the table.
        now_ns: when they were computed.
    """
    ends = sorted(set(ends_ns))
    if not ends:
        return 0
    rows = rows_of(table)
    parameters = {
        "ends": ends, "first": ends[0], "last": ends[-1],
        "widths": list(table.widths), "k": list(table.k), "estimators": list(table.estimates),
    }  # fmt: skip
    with registered(con, "fresh", {"place": np.arange(len(rows["k"])), **rows}):
        compared = fetch_columns(con, _COMPARE, parameters)
        replaced = compared["stored_row"][compared["stored_row"] >= 0]
        if len(replaced):
            con.execute(_DELETE, {"rows": replaced.tolist()})
        is_fresh = compared["place"] >= 0
        positions, revisions = compared["place"][is_fresh].tolist(), compared["revision"][is_fresh].tolist()
        if positions:
            con.execute(_INSERT, {"positions": positions, "revisions": revisions, "now": now_ns})
    return len(positions)


_DIMENSIONS: Final = ", ".join(
    f"coalesce(sum({name}), 0.0) AS {name}, count({name}) AS {name}_n" for name in DIMENSIONS
)
_REASON: Final = "CASE WHEN outcome = 'not_evaluated' THEN coalesce(reason, 'no_data') END AS missing"
#: The counts of members by case, including the reasons for conversations without an outcome; `{group}` is the list of columns
#: that form a group.
_BY_CASE: Final = f"""
SELECT
    {{group}}, band, sample_ratio, {_REASON}, count(*) AS count, case_no,
    count(*) FILTER (outcome = 'pass') AS passed, count(*) FILTER (outcome = 'fail') AS failed, {_DIMENSIONS}
FROM banded
GROUP BY {{group}}, band, sample_ratio, missing, case_no
"""  # noqa: S608 — names of our own schema
_EACH_DIMENSION: Final = ", ".join(
    f"coalesce({name}, 0.0) AS {name}, ({name} IS NOT NULL)::INTEGER AS {name}_n" for name in DIMENSIONS
)
#: The `$newest` last conversations of each group up to an end, one row each. The join keeps those that ended no earlier
#: than the oldest of them; the surplus, if several ended at that moment, is cut by the rank.
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


def count_windows(
    con: DuckDBPyConnection, windows: Sequence[Window], ends: Sequence[int], tags: Sequence[str] = ()
) -> Tallies:
    """Return the content of each group's windows at some ends, counted by the database.

    The result equals `tally` of all results. It is faster for few ends, because no conversation is loaded.

    Args:
        con: a connection, in one transaction.
        windows: the windows, at least one.
        ends: their ends, ns, at least one.
        tags: case tags, names or globs, that form separate groups in addition to the total.
    """
    query = _Query(con, tags)
    distinct_ends = sorted(set(ends))
    timed = [(window, index) for index, window in enumerate(windows) if window.width_ns is not None]
    parts = [_bands(query, timed, distinct_ends, len(windows))] if timed else []
    for index, window in enumerate(windows):
        if window.newest is not None:
            for end_index, end_ns in enumerate(distinct_ends):
                parameters = {"end": end_ns, "stale": end_ns - widest_ns(windows), "newest": window.newest}
                parts.append(query.newest(parameters, [Slot(end_index * len(windows) + index, 0, 1)]))
    return _counted(con, parts, windows, distinct_ends).tallies()


@dataclass(frozen=True, slots=True, kw_only=True)
class _BandRows:
    """The rows of a query, and the windows whose counts are sums of their bands."""

    slots: Sequence[Slot]
    rows: Columns


class _Query:
    """Queries the counts of members in bands of time."""

    def __init__(self, con: DuckDBPyConnection, tags: Sequence[str]) -> None:
        self._con = con
        self._tags = {"tags": list(tags)} if tags else {}
        self._members = TAGGED if tags else MEMBERS
        group = "subject, tag" if tags else "subject"
        self._by_case, self._newest = _BY_CASE.format(group=group), _NEWEST.format(group=group)

    def newest(self, parameters: Mapping[str, Any], slots: Sequence[Slot]) -> _BandRows:
        """Return the newest conversations, one row each, because they are few."""
        return self._fetch(f"WITH members AS ({self._members}) {self._newest}", parameters, slots)

    def count(self, banded: str, parameters: Mapping[str, Any], slots: Sequence[Slot]) -> _BandRows:
        """Return the counts of the conversations that `banded`, a query of `members`, selects."""
        sql = f"WITH members AS ({self._members}), banded AS ({banded}) {self._by_case}"
        return self._fetch(sql, parameters, slots)

    def _fetch(self, sql: str, parameters: Mapping[str, Any], slots: Sequence[Slot]) -> _BandRows:
        return _BandRows(slots=slots, rows=fetch_columns(self._con, sql, {**parameters, **self._tags}))


def _bands(query: _Query, timed: Sequence[tuple[Window, int]], ends: Sequence[int], window_count: int) -> _BandRows:
    """Return the counts of time windows, by the bands of time between all their edges.

    Args:
        query: runs the query.
        timed: the time windows, with their indices among all windows.
        ends: their ends, ns.
        window_count: the number of all windows.
    """
    edges = sorted({edge for end in ends for window, _ in timed for edge in (end, end - (window.width_ns or 0))})
    edges.reverse()
    cases = " ".join(
        f"WHEN window_time > make_timestamp_ns($edge{index}) THEN {index - 1}" for index in range(1, len(edges))
    )
    banded = (
        f"SELECT *, CAST(CASE {cases} END AS USMALLINT) AS band FROM members "  # noqa: S608 — numbers of our own; times are parameters
        f"WHERE window_time <= make_timestamp_ns($edge0) AND window_time > make_timestamp_ns($edge{len(edges) - 1})"
    )
    slots = [
        Slot(end_index * window_count + index, edges.index(end), edges.index(end - (window.width_ns or 0)))
        for end_index, end in enumerate(ends)
        for window, index in timed
    ]
    return query.count(banded, {f"edge{index}": edge for index, edge in enumerate(edges)}, slots)


def _counted(
    con: DuckDBPyConnection, parts: Sequence[_BandRows], windows: Sequence[Window], ends: Sequence[int]
) -> Counted:
    """Return the counts with groups and reasons as numbers that are the same in all parts."""
    tables = [part.rows for part in parts]
    subject = np.concatenate([table["subject"] for table in tables])
    tag = np.concatenate([table["tag"] for table in tables]) if "tag" in tables[0] else None
    groups, group = groups_of(result_groups(con), subject, tag)
    table_groups = np.split(group, np.cumsum([len(table["subject"]) for table in tables])[:-1])
    reasons = sorted({reason for table in tables for reason in table["missing"].tolist() if reason is not None})
    codes = {None: -1, **{reason: code for code, reason in enumerate(reasons)}}
    bands = [_part(part, table_group, codes) for part, table_group in zip(parts, table_groups, strict=True)]
    return Counted(groups=groups, windows=windows, ends=ends, reasons=reasons, parts=bands)


def _part(part: _BandRows, group: IntArray, reasons: Mapping[str | None, int]) -> Bands:
    rows = part.rows
    evaluated = np.flatnonzero(rows["passed"] + rows["failed"])
    cases = {name: rows[name][evaluated] for name in ("band", "sample_ratio", "case_no", "passed", "failed")}
    return Bands(
        slots=part.slots,
        group=group,
        band=rows["band"].astype(np.int64),
        weight=1.0 / rows["sample_ratio"],
        reason=np.array([reasons[reason] for reason in rows["missing"].tolist()], dtype=np.int64),
        count=rows["count"],
        dimension_sum=np.stack([rows[name] for name in DIMENSIONS], axis=1),
        dimension_n=np.stack([rows[f"{name}_n"] for name in DIMENSIONS], axis=1),
        case_group=group[evaluated],
        case_band=cases["band"].astype(np.int64),
        case_weight=1.0 / cases["sample_ratio"],
        case=cases["case_no"].astype(np.int64),
        passed=cases["passed"],
        failed=cases["failed"],
    )


#: The tier claimed for a group at an end, ns.
Claims = dict[tuple[GroupKey, int], "Tier"]
_EVALUATED: Final = """
    outcome IN ('pass', 'fail') AND ($since IS NULL OR window_time >= make_timestamp_ns($since))
"""
#: Conversations up to the first end, counted by case, and later ones, one row each. Removed results are older than any end whose windows
#: are computed.
_BY_END: Final = f"""
SELECT subject, tag, case_no, 0 AS ended_ns, count(*) FILTER (outcome = 'pass') AS passed,
    count(*) FILTER (outcome = 'fail') AS failed
FROM members WHERE {_EVALUATED} AND window_time <= make_timestamp_ns($first)
GROUP BY subject, tag, case_no
UNION ALL
SELECT subject, tag, case_no, 0, sum(c)::BIGINT, sum(n - c)::BIGINT
FROM removed WHERE $since IS NULL OR first_time >= make_timestamp_ns($since)
GROUP BY subject, tag, case_no
UNION ALL
SELECT subject, tag, case_no, epoch_ns(window_time), (outcome = 'pass')::BIGINT, (outcome = 'fail')::BIGINT
FROM members WHERE {_EVALUATED} AND window_time > make_timestamp_ns($first) AND window_time <= make_timestamp_ns($last)
"""  # noqa: S608 — constants of our own
_ANY_PROBABILITY: Final = "SELECT 1 FROM results WHERE pass_probability IS NOT NULL LIMIT 1"
#: Conversations whose answers were decided by a calibrated judge.
_BY_PROBABILITY: Final = """
SELECT
    subject, tag, epoch_ns(window_time) AS ended_ns, pass_probability,
    (outcome <> 'not_evaluated')::BIGINT AS evaluated, (outcome = 'pass')::BIGINT AS passed
FROM members
WHERE pass_probability IS NOT NULL AND ($since IS NULL OR window_time >= make_timestamp_ns($since))
    AND window_time <= make_timestamp_ns($last)
"""
_REMOVED_MEMBERS: Final = MEMBERS.replace("FROM results", "FROM removed_attempts")
#: Counts kept by retention, and results of conversations that are no longer in the store.
_REMOVED: Final = """
WITH found AS (
    SELECT subject, case_no, tags, n, c, first_time, last_time FROM removed_attempts
    UNION ALL
    SELECT
        subject, case_no, tags, count(*), count(*) FILTER (outcome = 'pass'), min(window_time), max(window_time)
    FROM results ANTI JOIN conversations USING (environment, conversation_id)
    WHERE outcome IN ('pass', 'fail')
    GROUP BY subject, case_no, tags
)
SELECT
    s.agent, s.agent_version, s.environment, s.service, k.dataset, k.case_id, f.tags, f.n, f.c, epoch_ns(f.first_time),
    epoch_ns(f.last_time)
FROM found f JOIN subjects s USING (subject) LEFT JOIN result_cases k USING (case_no)
WHERE s.criterion = 'correct' AND s.criteria = $criteria
ORDER BY ALL
"""


def removed_attempts(con: DuckDBPyConnection, criteria: str) -> list[RemovedAttempts]:
    """Return the counts of evaluated conversations that retention removed, of the default evaluation.

    Args:
        con: a connection.
        criteria: the deciding criteria, as in `scoring.criteria.fingerprint`; outcomes by others are not counted.
    """
    return [
        RemovedAttempts(
            key=GroupKey(
                agent=row[0],
                agent_version=row[1],
                environment=row[2],
                service=row[3],
                dataset=None if row[5] is None else row[4],
                case=row[5],
            ),
            tags=tuple(row[6]),
            n=row[7],
            c=row[8],
            first_ns=row[9],
            last_ns=row[10],
        )
        for row in con.execute(_REMOVED, {"criteria": criteria}).fetchall()
    ]


def claims_at(
    con: DuckDBPyConnection,
    ends: Sequence[int],
    *,
    tags: Sequence[str],
    since_ns: int | None,
    settings: StatsSettings,
    estimators: Sequence[Estimator],
) -> Claims:
    """Return the tier that the conversations of each group up to each end support, counted from its first one.

    Args:
        con: a connection, in one transaction.
        ends: window ends, ns.
        tags: case tags, names or globs, that form separate groups in addition to the total.
        since_ns: count from this time on; None counts from each group's first conversation.
        settings: rule, mode and prior.
        estimators: the estimators of the windows; the rule uses pass@1 and pass@3 of the headline one among them.
    """
    distinct_ends = sorted(set(ends))
    if not distinct_ends:
        return {}
    members, removed = (TAGGED, REMOVED_TAGGED) if tags else (MEMBERS, _REMOVED_MEMBERS)
    tagged = {"tags": list(tags)} if tags else {}
    until = {"since": since_ns, "last": distinct_ends[-1], **tagged}
    sql = f"WITH members AS ({members}), removed AS ({removed}) {_BY_END}"
    columns = _by_time(fetch_columns(con, sql, {**until, "first": distinct_ends[0]}))
    if not len(columns["subject"]):
        return {}
    subjects = result_groups(con)
    groups, group = groups_of(subjects, columns["subject"], columns["tag"])
    group_contents = _Contents(
        group=group,
        end=np.searchsorted(distinct_ends, columns["ended_ns"].astype(np.int64)),
        case=columns["case_no"].astype(np.int64),
        passed=columns["passed"].astype(np.int64),
        failed=columns["failed"].astype(np.int64),
    )
    contents, content_of = group_contents.by_end(len(groups), len(distinct_ends))
    _, estimator = headline_among(estimators, settings)
    claims = claim_tiers(_grouped(contents), settings, needed=False, estimator=estimator)
    withheld = set()
    if settings.tier_rule == "interval" and con.execute(_ANY_PROBABILITY).fetchall():
        by_probability = _by_time(fetch_columns(con, f"WITH members AS ({members}) {_BY_PROBABILITY}", until))
        withheld = _withheld(subjects, by_probability, distinct_ends)
    return {
        (key, end): "insufficient_evidence"
        if key.criterion != CORRECT or (key, end) in withheld
        else claims[content_of[number][end_index]].tier
        for number, key in enumerate(groups)
        for end_index, end in enumerate(distinct_ends)
        if content_of[number][end_index] >= 0
    }


def _by_time(rows: Columns) -> Columns:
    """Return rows sorted by time; for few rows, sorting here is cheaper than in SQL."""
    order = np.argsort(rows["ended_ns"], kind="stable")
    return {name: values[order] for name, values in rows.items()}


def _withheld(subjects: Mapping[int, GroupKey], rows: Columns, ends: Sequence[int]) -> set[tuple[GroupKey, int]]:
    """Return the groups and ends for which the judge is too uncertain for a claim; rows are ordered by their end."""
    if not len(rows["subject"]):
        return set()
    groups, group = groups_of(subjects, rows["subject"], rows["tag"])
    withheld = set()
    for number, key in enumerate(groups):
        in_group = group == number
        counted = np.searchsorted(rows["ended_ns"][in_group], ends, side="right")
        totals = [
            np.concatenate(([0], np.cumsum(rows[name][in_group])))
            for name in ("pass_probability", "evaluated", "passed")
        ]
        for end, n in zip(ends, counted.tolist(), strict=True):
            probability, evaluated, passed = (float(total[n]) for total in totals)
            judge_results = JudgedByProbability(
                n=n, probability=probability, evaluated=int(evaluated), passed=int(passed)
            )
            if judge_results.withheld is not None:
                withheld.add((key, end))
    return withheld


class _Contents:
    """Evaluated conversations of groups, each at the first window end not before its own, in order of these ends."""

    def __init__(self, *, group: IntArray, end: IntArray, case: IntArray, passed: IntArray, failed: IntArray) -> None:
        columns: Any = (values.tolist() for values in (group, end, case, passed, failed))
        self._rows: dict[int, list[tuple[int, int, int, int]]] = defaultdict(list)
        for number, *row in zip(*columns, strict=True):
            self._rows[number].append(tuple(row))

    def by_end(self, groups: int, ends: int) -> tuple[list[dict[_Kind, int]], list[list[int]]]:
        """Return distinct contents, and the index of the content of each group and end, -1 for an empty one.

        A content is the number of cases by kind; a kind is (attempts, correct attempts).
        """
        contents: list[dict[_Kind, int]] = []
        content_of = []
        for number in range(groups):
            cases: dict[int, _Kind] = {}
            kinds: dict[_Kind, int] = defaultdict(int)
            rows, position, content_at_ends = self._rows[number], 0, []
            for end in range(ends):
                first_position = position
                while position < len(rows) and rows[position][0] <= end:
                    _, case, passed, failed = rows[position]
                    _count(cases, kinds, case, passed, failed)
                    position += 1
                if position > first_position or (end == 0 and position):
                    contents.append({kind: count for kind, count in kinds.items() if count})
                content_at_ends.append(len(contents) - 1 if position else -1)
            content_of.append(content_at_ends)
        return contents, content_of


def _count(cases: dict[int, _Kind], kinds: dict[_Kind, int], case: int, passed: int, failed: int) -> None:
    """Add conversations to the cases of a group; each conversation without a case (-1) counts as a separate case."""
    if case < 0:
        kinds[1, 1] += passed
        kinds[1, 0] += failed
        return
    n, c = cases.get(case, (0, 0))
    if n:
        kinds[n, c] -= 1
    cases[case] = (n + passed + failed, c + passed)
    kinds[cases[case]] += 1


def _grouped(contents: Sequence[dict[_Kind, int]]) -> GroupedAttempts:
    rows = np.array(
        [(number, n, c, cases) for number, kinds in enumerate(contents) for (n, c), cases in sorted(kinds.items())],
        dtype=np.int64,
    ).reshape(-1, 4)
    return GroupedAttempts(size=len(contents), group=rows[:, 0], n=rows[:, 1], c=rows[:, 2], cases=rows[:, 3])
