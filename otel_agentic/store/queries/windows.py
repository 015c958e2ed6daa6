"""Window contents and tier claims counted by the database, and the state of backfills."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from otel_agentic.scoring.model import DIMENSIONS
from otel_agentic.stats.estimators import headline_among
from otel_agentic.stats.grouped import GroupedAttempts
from otel_agentic.stats.tiers import claim_tiers
from otel_agentic.store.results import MEMBERS, TAGGED, fetch_columns, groups_of
from otel_agentic.store.table import Raw, Table, rows_with
from otel_agentic.windows.model import GroupKey, JudgedByProbability, RemovedAttempts
from otel_agentic.windows.roll import Bands, Counted, Slot
from otel_agentic.windows.rolling import widest_ns

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import numpy.typing as npt
    from duckdb import DuckDBPyConnection

    from otel_agentic.config import StatsSettings
    from otel_agentic.stats import Estimator, Tier
    from otel_agentic.store.results import Columns
    from otel_agentic.windows.columns import Tallies
    from otel_agentic.windows.rolling import Window

    IntArray = npt.NDArray[np.int64]
    _Kind = tuple[int, int]


_DIMENSIONS: Final = ", ".join(
    f"coalesce(sum({name}), 0.0) AS {name}, count({name}) AS {name}_n" for name in DIMENSIONS
)
_REASON: Final = "CASE WHEN outcome = 'not_evaluated' THEN coalesce(reason, 'no_data') END AS missing"
#: Both queries read members in bands of time, with the columns that form a group.
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
#: The newest conversations of each group up to an end, one row each: those that ended no earlier than the last of so many, less
#: the surplus if several ended at that moment.
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

    The same as `tally` of all results; faster for few ends, because no conversation leaves the database.

    Args:
        con: a connection, in one transaction.
        windows: the windows, at least one.
        ends: their ends, ns, at least one.
        tags: case tags, names or globs, that form separate groups in addition to the total.
    """
    query = _Query(con, tags)
    distinct_ends = sorted(set(ends))
    timed = [(window, at) for at, window in enumerate(windows) if window.width_ns is not None]
    counted = [_bands(query, timed, distinct_ends, len(windows))] if timed else []
    for at, window in enumerate(windows):
        if window.newest is not None:
            for number, end_ns in enumerate(distinct_ends):
                own = {"end": end_ns, "stale": end_ns - widest_ns(windows), "newest": window.newest}
                counted.append(query.newest(own, [Slot(number * len(windows) + at, 0, 1)]))
    return _counted(con, counted, windows, distinct_ends).tallies()


@dataclass(frozen=True, slots=True, kw_only=True)
class _BandRows:
    """The rows of both queries, and the windows that are sums of their bands."""

    slots: Sequence[Slot]
    held: Columns
    cases: Columns


class _Query:
    """Queries the counts of members in bands of time."""

    def __init__(self, con: DuckDBPyConnection, tags: Sequence[str]) -> None:
        self._con = con
        self._tags = {"tags": list(tags)} if tags else {}
        self._members = TAGGED if tags else MEMBERS
        self._queries = _QUERIES[bool(tags)]
        self._newest = _NEWEST.format(group="subject, tag" if tags else "subject")

    def newest(self, bound: Mapping[str, Any], slots: Sequence[Slot]) -> _BandRows:
        """Return the newest conversations one by one, because they are few."""
        rows = fetch_columns(self._con, f"WITH members AS ({self._members}) {self._newest}", {**bound, **self._tags})
        evaluated = np.flatnonzero(rows["passed"] + rows["failed"])
        return _BandRows(slots=slots, held=rows, cases={name: values[evaluated] for name, values in rows.items()})

    def ask(self, banded: str, bound: Mapping[str, Any], slots: Sequence[Slot]) -> _BandRows:
        """Return the counts of the conversations that `banded`, a query of `members`, selects."""
        held, cases = (
            fetch_columns(
                self._con, f"WITH members AS ({self._members}), banded AS ({banded}) {query}", {**bound, **self._tags}
            )
            for query in self._queries
        )
        return _BandRows(slots=slots, held=held, cases=cases)


def _bands(query: _Query, timed: Sequence[tuple[Window, int]], ends: Sequence[int], windows: int) -> _BandRows:
    """Return the counts of time windows, by the bands of time between all their edges."""
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
        Slot(number * windows + at, edges.index(end), edges.index(end - (window.width_ns or 0)))
        for number, end in enumerate(ends)
        for window, at in timed
    ]
    return query.ask(banded, {f"edge{index}": edge for index, edge in enumerate(edges)}, slots)


def _counted(
    con: DuckDBPyConnection, parts: Sequence[_BandRows], windows: Sequence[Window], ends: Sequence[int]
) -> Counted:
    """Return the counts with groups and reasons as numbers, the same in all parts."""
    tables = [table for part in parts for table in (part.held, part.cases)]
    subject = np.concatenate([table["subject"] for table in tables])
    tag = np.concatenate([table["tag"] for table in tables]) if "tag" in tables[0] else None
    groups, group = groups_of(con, subject, tag)
    of_tables = np.split(group, np.cumsum([len(table["subject"]) for table in tables])[:-1])
    reasons = sorted({reason for part in parts for reason in part.held["missing"].tolist() if reason is not None})
    codes = {None: -1, **{reason: code for code, reason in enumerate(reasons)}}
    bands = [
        _part(part, held_group, case_group, codes)
        for part, held_group, case_group in zip(parts, of_tables[::2], of_tables[1::2], strict=True)
    ]
    return Counted(groups=groups, windows=windows, ends=ends, reasons=reasons, parts=bands)


def _part(rows: _BandRows, group: IntArray, case_group: IntArray, reasons: Mapping[str | None, int]) -> Bands:
    held, cases = rows.held, rows.cases
    return Bands(
        slots=rows.slots,
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


#: The tier claimed for a group at an end, ns.
Claims = dict[tuple[GroupKey, int], "Tier"]

_EVALUATED: Final = """
    outcome IN ('pass', 'fail') AND ($since IS NULL OR window_time >= make_timestamp_ns($since))
"""
#: By case, up to the first end; removed results are older than any end whose windows are computed.
_BEFORE: Final = f"""
SELECT subject, tag, case_no, 0 AS ended_ns, count(*) FILTER (outcome = 'pass') AS passed,
    count(*) FILTER (outcome = 'fail') AS failed
FROM members WHERE {_EVALUATED} AND window_time <= make_timestamp_ns($first)
GROUP BY subject, tag, case_no
UNION ALL
SELECT subject, tag, case_no, 0, sum(c)::BIGINT, sum(n - c)::BIGINT
FROM removed WHERE $since IS NULL OR first_time >= make_timestamp_ns($since)
GROUP BY subject, tag, case_no
"""  # noqa: S608 — constants of our own
#: One by one after it.
_AFTER: Final = f"""
SELECT subject, tag, case_no, epoch_ns(window_time) AS ended_ns, (outcome = 'pass')::BIGINT AS passed,
    (outcome = 'fail')::BIGINT AS failed
FROM members WHERE {_EVALUATED} AND window_time > make_timestamp_ns($first) AND window_time <= make_timestamp_ns($last)
ORDER BY window_time
"""  # noqa: S608 — the same
#: Conversations whose answers were decided by a calibrated judge.
_BY_PROBABILITY: Final = """
SELECT
    subject, tag, epoch_ns(window_time) AS ended_ns, pass_probability,
    (outcome <> 'not_evaluated')::BIGINT AS evaluated, (outcome = 'pass')::BIGINT AS passed
FROM members
WHERE pass_probability IS NOT NULL AND ($since IS NULL OR window_time >= make_timestamp_ns($since))
    AND window_time <= make_timestamp_ns($last)
ORDER BY window_time
"""
_REMOVED_MEMBERS: Final = MEMBERS.replace("FROM results", "FROM removed_attempts")
_REMOVED_TAGGED: Final = TAGGED.replace("FROM results", "FROM removed_attempts")
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
ORDER BY ALL
"""


def removed_attempts(con: DuckDBPyConnection) -> list[RemovedAttempts]:
    """Return the counts of evaluated conversations that retention removed, of the default evaluation."""
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
        for row in con.execute(_REMOVED).fetchall()
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
    """Return the tier that each group's conversations up to each end support, counted from its first one.

    Args:
        con: a connection, in one transaction.
        ends: window ends, ns.
        tags: case tags, names or globs, that form separate groups in addition to the total.
        since_ns: count from this time on; None: from each group's first conversation.
        settings: rule, mode and prior.
        estimators: those of the windows; the rule looks at pass@1 and pass@3 of the headline one among them.
    """
    distinct_ends = sorted(set(ends))
    if not distinct_ends:
        return {}
    members, removed = (TAGGED, _REMOVED_TAGGED) if tags else (MEMBERS, _REMOVED_MEMBERS)
    tagged = {"tags": list(tags)} if tags else {}
    bound = {"since": since_ns, "first": distinct_ends[0], **tagged}
    before = fetch_columns(con, f"WITH members AS ({members}), removed AS ({removed}) {_BEFORE}", bound)
    after = fetch_columns(con, f"WITH members AS ({members}) {_AFTER}", {**bound, "last": distinct_ends[-1]})
    columns = {name: np.concatenate((before[name], after[name])) for name in before}
    if not len(columns["subject"]):
        return {}
    groups, group = groups_of(con, columns["subject"], columns["tag"])
    group_contents = _Contents(
        group=group,
        end=np.searchsorted(distinct_ends, columns["ended_ns"].astype(np.int64)),
        case=columns["case_no"].astype(np.int64),
        passed=columns["passed"].astype(np.int64),
        failed=columns["failed"].astype(np.int64),
    )
    contents, which = group_contents.by_end(len(groups), len(distinct_ends))
    _, estimator = headline_among(estimators, settings)
    claims = claim_tiers(_grouped(contents), settings, needed=False, estimator=estimator)
    by_probability = fetch_columns(
        con, f"WITH members AS ({members}) {_BY_PROBABILITY}", {**tagged, "since": since_ns, "last": distinct_ends[-1]}
    )
    withheld = _withheld(con, by_probability, distinct_ends) if settings.tier_rule == "interval" else set()
    return {
        (group, end): "insufficient_evidence" if (group, end) in withheld else claims[which[number][at]].tier
        for number, group in enumerate(groups)
        for at, end in enumerate(distinct_ends)
        if which[number][at] >= 0
    }


def _withheld(con: DuckDBPyConnection, rows: Columns, ends: Sequence[int]) -> set[tuple[GroupKey, int]]:
    """Return the groups and ends for which uncertainty of the judge forbids a claim; rows are ordered by their end."""
    if not len(rows["subject"]):
        return set()
    groups, group = groups_of(con, rows["subject"], rows["tag"])
    withheld = set()
    for number, key in enumerate(groups):
        own = group == number
        counted = np.searchsorted(rows["ended_ns"][own], ends, side="right")
        totals = [
            np.concatenate(([0], np.cumsum(rows[name][own]))) for name in ("pass_probability", "evaluated", "passed")
        ]
        for end, n in zip(ends, counted.tolist(), strict=True):
            probability, evaluated, passed = (float(total[n]) for total in totals)
            rated = JudgedByProbability(n=n, probability=probability, evaluated=int(evaluated), passed=int(passed))
            if rated.withheld is not None:
                withheld.add((key, end))
    return withheld


class _Contents:
    """Evaluated conversations of groups, by the first end at or after theirs; rows are in that order."""

    def __init__(self, *, group: IntArray, end: IntArray, case: IntArray, passed: IntArray, failed: IntArray) -> None:
        columns: Any = (values.tolist() for values in (group, end, case, passed, failed))
        self._rows: dict[int, list[tuple[int, int, int, int]]] = defaultdict(list)
        for number, *row in zip(*columns, strict=True):
            self._rows[number].append(tuple(row))

    def by_end(self, groups: int, ends: int) -> tuple[list[dict[_Kind, int]], list[list[int]]]:
        """Return distinct contents as cases by kind, and the content of each group and end, -1 for an empty one."""
        contents: list[dict[_Kind, int]] = []
        which = []
        for number in range(groups):
            cases: dict[int, _Kind] = {}
            kinds: dict[_Kind, int] = defaultdict(int)
            rows, position, own = self._rows[number], 0, []
            for at in range(ends):
                began = position
                while position < len(rows) and rows[position][0] <= at:
                    _, case, passed, failed = rows[position]
                    _count(cases, kinds, case, passed, failed)
                    position += 1
                if position > began or (at == 0 and position):
                    contents.append({kind: many for kind, many in kinds.items() if many})
                own.append(len(contents) - 1 if position else -1)
            which.append(own)
        return contents, which


def _count(cases: dict[int, _Kind], kinds: dict[_Kind, int], case: int, passed: int, failed: int) -> None:
    """Add conversations to the cases of a group; each without a case (-1) is a case of its own."""
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
        [(number, n, c, many) for number, kinds in enumerate(contents) for (n, c), many in sorted(kinds.items())],
        dtype=np.int64,
    ).reshape(-1, 4)
    return GroupedAttempts(size=len(contents), group=rows[:, 0], n=rows[:, 1], c=rows[:, 2], cases=rows[:, 3])


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
#: Closed conversations, which count.
_RANGE: Final = """
SELECT epoch_ns(min(window_time)), epoch_ns(max(window_time))
FROM conversations
WHERE NOT superseded AND closed_by IS NOT NULL
"""
#: Conversations in windows up to a position, in any revision, that were rebuilt or scored since. One that dissolved into others
#: is covered by these.
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

    `position_ns` is the newest finished end, None before the first. Rows that a pass writes have its start as computation time, so
    everything computed at or before `sent_ns`, the start of the newest finished pass, was sent; None if nothing was sent.
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
    """Return the newest pass of a backfill, or None if it never started."""
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


def begin_pass(con: DuckDBPyConnection, begun: Pass, request_json: str) -> None:
    """Record the start of a pass, replacing the previous one."""
    con.execute(_FORGET, {"run_id": begun.run_id})
    Table(con, "backfills").insert(
        con,
        {
            "run_id": [begun.run_id],
            "request": [Raw(request_json)],
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
    """Record that all ends up to `position_ns` are finished, and how many more points were sent."""
    parameters = {"run_id": run_id, "position": position_ns, "points": points, "now": now_ns}
    con.execute(_ADVANCE, parameters)


def count_rows(con: DuckDBPyConnection, run_id: str, rows: int, now_ns: int) -> None:
    """Record that rows were stored whose points are not sent yet."""
    con.execute(_COUNT_ROWS, {"run_id": run_id, "rows": rows, "now": now_ns})


def finish_pass(con: DuckDBPyConnection, run_id: str, now_ns: int) -> None:
    """Record the end of the pass."""
    con.execute(_FINISH, {"run_id": run_id, "now": now_ns})


def conversation_range(con: DuckDBPyConnection) -> tuple[int, int] | None:
    """Return when the first and the last closed conversation ended, ns; None without any."""
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
    """Return those window ends that have a row computed after a time, ascending."""
    requested: dict[str, Sequence[Any]] = {"ends": sorted(set(ends_ns))}
    return [int(end_ns) for (end_ns,) in rows_with(con, requested, _RESTATED, {"since": since_ns})]


def ended_by_group(
    con: DuckDBPyConnection, since_ns: int | None, until_ns: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return group numbers and ends, ns, of the closed conversations that ended in [since, until)."""
    columns = con.execute(_ENDED, {"since": since_ns, "until": until_ns}).fetchnumpy()
    return np.asarray(columns["subject"], dtype=np.int64), np.asarray(columns["ended_ns"], dtype=np.int64)
