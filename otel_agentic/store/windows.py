"""Window points and monitors in the store, and the event times whose windows must be computed again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import orjson

from otel_agentic.scoring.model import DIMENSIONS
from otel_agentic.stats.sequential import e_value
from otel_agentic.store.selection import BOUNDS, IN_EVALUATION, bounds
from otel_agentic.store.table import Table, columns_of, object_array, registered
from otel_agentic.windows.model import GroupKey, ScoredConversation
from otel_agentic.windows.objectives import NO_CASE, Finals
from otel_agentic.windows.tally import unique_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy.typing as npt
    from duckdb import DuckDBPyConnection

    from otel_agentic.stats import GroupedEstimates
    from otel_agentic.store.selection import Selection
    from otel_agentic.windows.columns import Tallies, WindowTable
    from otel_agentic.windows.objectives import Monitor

    FloatArray = npt.NDArray[np.float64]
    Columns = dict[str, np.ndarray[Any, Any]]

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
    """Return the changes at one moment; the connection must be in a transaction."""
    ((upto,),) = con.execute(_UPTO).fetchall()
    times = con.execute(_READ).fetchall() if upto else []
    return Changes(
        upto=upto,
        live_ns=tuple(time_ns for time_ns, live in times if live),
        other_ns=tuple(time_ns for time_ns, live in times if not live),
    )


def forget_changes(con: DuckDBPyConnection, changes: Changes) -> None:
    """Delete the changes whose windows were computed; later changes stay."""
    if changes.upto:
        con.execute(_FORGET, {"upto": changes.upto})


_GROUP: Final = ("agent", "agent_version", "environment", "service", "tag")
_ENDS_OF: Final = ("", "_lower", "_upper")


def rows_of(table: WindowTable) -> Columns:
    """Return the rows as columns, by point, then estimator, then k; texts are objects, NaN represents null."""
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
    everything = tallies.n + missing  # never 0: an empty window has no point
    return {
        **{name: object_array([getattr(key, name) for key in tallies.groups])[tallies.group] for name in _GROUP},
        "window": object_array(tallies.windows)[tallies.window],
        "end": tallies.end_ns,
        "n": tallies.n,
        "c": tallies.c,
        "effective_n": table.effective_n,
        "not_evaluated": _reasons(tallies),
        "coverage": tallies.n / everything,
        "lower_bound": tallies.c / everything,
        "upper_bound": (tallies.c + missing) / everything,
        "tier": object_array(table.tier),
        "leaning": object_array(table.leaning),
    }


def _reasons(tallies: Tallies) -> np.ndarray[Any, Any]:
    """Return the not evaluated counts of each point as JSON, serialised once per combination."""
    if not tallies.reasons:
        return object_array(["{}"] * tallies.size)
    first, which = unique_rows(list(tallies.not_evaluated.T))
    texts = [
        orjson.dumps({name: count for name, count in zip(tallies.reasons, counts, strict=True) if count}).decode()
        for counts in tallies.not_evaluated[first].tolist()
    ]
    return object_array(texts)[which]


def _numbers(estimates: Sequence[GroupedEstimates], name: str) -> Columns:
    """Return value, lower and upper bound of one rate, in the order of the rows."""
    stacked = np.stack([getattr(estimate, name) for estimate in estimates], axis=1)
    return {f"{name}{end}": stacked[..., index].reshape(-1) for index, end in enumerate(_ENDS_OF)}


def _interleaved(columns: Sequence[np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
    return np.stack(columns, axis=1).reshape(-1)


#: Every closed conversation with its newest score; one without a score is not evaluated, with reason `not_scored`.
_SCORED: Final = f"""
WITH tools AS (
    SELECT
        evaluation_id, environment, conversation_id, revision,
        avg(selection) AS selection, avg(parameters) AS parameters, avg(sequence) AS sequence,
        avg(utilization) AS utilization
    FROM tool_scores
    GROUP BY ALL
), expected AS (
    SELECT m.evaluation_id, m.environment, m.conversation_id, m.revision, e.tool_name
    FROM matches m
    JOIN expected_calls e ON e.dataset = m.dataset AND e.case_id = m.case_id AND e.version = m.case_version
    UNION
    SELECT evaluation_id, environment, conversation_id, revision, tool_name FROM tool_faults
), named AS (
    SELECT evaluation_id, environment, conversation_id, revision, list(tool_name ORDER BY tool_name) AS tools
    FROM expected
    GROUP BY ALL
)
SELECT
    c.environment, c.conversation_id, c.revision, c.agent, c.agent_version, c.service, epoch_ns(c.window_time),
    s.dataset, s.case_id, k.tags, coalesce(s.outcome, 'not_evaluated'), coalesce(s.reason, CASE WHEN s.outcome IS NULL THEN 'not_scored' END),
    t.selection, t.parameters, t.sequence, t.utilization, n.tools, coalesce(s.sample_ratio, 1.0),
    c.window_time < c.ended_at, s.known_failure, s.pass_probability
FROM conversations c
LEFT JOIN conversation_scores s
    ON s.environment = c.environment AND s.conversation_id = c.conversation_id AND s.revision = c.revision
    AND s.{IN_EVALUATION} AND NOT s.superseded
LEFT JOIN cases k ON k.dataset = s.dataset AND k.case_id = s.case_id AND k.current
LEFT JOIN tools t ON t.evaluation_id = s.evaluation_id AND t.environment = s.environment
    AND t.conversation_id = s.conversation_id AND t.revision = s.revision
LEFT JOIN named n ON n.evaluation_id = s.evaluation_id AND n.environment = s.environment
    AND n.conversation_id = s.conversation_id AND n.revision = s.revision
WHERE NOT c.superseded AND c.closed_by IS NOT NULL
    AND {BOUNDS}
ORDER BY c.window_time, c.environment, c.conversation_id
"""  # noqa: S608 — a constant of our own
_ENDS: Final = """
SELECT DISTINCT epoch_ns("end") AS ends FROM windows
WHERE "end" BETWEEN make_timestamp_ns($first) AND make_timestamp_ns($last) AND "window" IN (SELECT unnest($widths))
ORDER BY ends DESC LIMIT $limit
"""
_NEWEST_END: Final = """
SELECT epoch_ns(max("end")) FROM windows WHERE "end" <= make_timestamp_ns($last) AND epoch_ns("end") % $step = 0
"""
#: The identity of a row: its subject, its window, and the estimate.
_IDENTITY: Final = ("agent", "agent_version", "environment", "service", "tag", "window", "end", "k", "estimator")
_SAME_ROW: Final = """
    s."end" = make_timestamp_ns(f."end") AND s."window" = f."window" AND s.k = f.k AND s.estimator = f.estimator
    AND s.environment IS NOT DISTINCT FROM f.environment AND s.agent IS NOT DISTINCT FROM f.agent
    AND s.agent_version IS NOT DISTINCT FROM f.agent_version AND s.service IS NOT DISTINCT FROM f.service
    AND s.tag IS NOT DISTINCT FROM f.tag
"""
_COMPARED: Final = ("interval_method", "n", "c", "not_evaluated", "tier", "leaning")
_RATES: Final = (
    "level", "effective_n", "coverage", "lower_bound", "upper_bound",
    "pass_at_k", "pass_at_k_lower", "pass_at_k_upper", "pass_pow_k", "pass_pow_k_lower", "pass_pow_k_upper",
)  # fmt: skip
#: Sums of weights depend on the order of addition in the last digits: rows that differ only by that are equal.
_DIFFERS: Final = " OR ".join(
    (
        *(f"s.{name} IS DISTINCT FROM f.{name}" for name in _COMPARED),
        *(
            f"coalesce(abs(s.{name} - nullif(f.{name}, 'nan'::DOUBLE)) > 1e-9, s.{name} IS DISTINCT FROM nullif(f.{name}, 'nan'::DOUBLE))"
            for name in _RATES
        ),
    )
)
#: The stored rows that a computation may affect.
_AT_ENDS: Final = """
    "end" BETWEEN make_timestamp_ns($first) AND make_timestamp_ns($last)
    AND "end" IN (SELECT make_timestamp_ns(unnest($ends)))
"""
_CHANGED: Final = f"""
WITH stored AS (SELECT * FROM windows WHERE {_AT_ENDS})
SELECT f.place, coalesce(s.revision, 0) AS revision
FROM fresh f LEFT JOIN stored s ON {_SAME_ROW}
WHERE s.revision IS NULL OR {_DIFFERS}
ORDER BY f.place
"""  # noqa: S608 — our own fragments
_DELETE: Final = f"DELETE FROM windows s USING fresh f WHERE {_SAME_ROW}"  # noqa: S608 — the same
#: Rows at the computed ends that no longer have a point.
_CLEAR: Final = f"""
DELETE FROM windows s WHERE {_AT_ENDS}
    AND "window" IN (SELECT unnest($widths)) AND k IN (SELECT unnest($k)) AND estimator IN (SELECT unnest($estimators))
"""  # noqa: S608 — the same
_CLEAR_GONE: Final = f"{_CLEAR} AND NOT EXISTS (SELECT 1 FROM fresh f WHERE {_SAME_ROW})"  # noqa: S608 — the same
_TIMES: Final = ("end", "computed_at")
_COLUMNS: Final = {
    **{name: f'"{name}"' for name in (*_IDENTITY, *_COMPARED, "revision")},
    **{name: f"nullif({name}, 'nan'::DOUBLE)" for name in _RATES},
    **{name: f'make_timestamp_ns("{name}")' for name in _TIMES},
}
_NAMES: Final = ", ".join(f'"{name}"' for name in _COLUMNS)
_INSERT: Final = f"INSERT INTO windows ({_NAMES}) SELECT {', '.join(_COLUMNS.values())} FROM fresh"  # noqa: S608 — the same


def scored_conversations(con: DuckDBPyConnection, selection: Selection) -> list[ScoredConversation]:
    """Return the closed conversations of a selection with their newest scores, by end time."""
    return [_scored(row) for row in con.execute(_SCORED, bounds(selection)).fetchall()]


def stored_ends(
    con: DuckDBPyConnection, widths: Sequence[str], first_ns: int, last_ns: int, *, limit: int
) -> list[int]:
    """Return the newest distinct ends, in a range of times, at which a window of these widths is stored, ascending."""
    bounds = {"widths": list(widths), "first": first_ns, "last": last_ns, "limit": limit}
    return sorted(int(row[0]) for row in con.execute(_ENDS, bounds).fetchall())


def newest_end(con: DuckDBPyConnection, step_ns: int, last_ns: int) -> int | None:
    """Return the newest stored end up to a time, ns, among the whole multiples of a step; None without any."""
    ((newest,),) = con.execute(_NEWEST_END, {"last": last_ns, "step": step_ns}).fetchall()
    return None if newest is None else int(newest)


def _scored(row: tuple[Any, ...]) -> ScoredConversation:
    values = dict(zip(DIMENSIONS, row[12:16], strict=True))
    return ScoredConversation(
        environment=row[0],
        conversation_id=row[1],
        revision=row[2],
        agent=row[3],
        agent_version=row[4],
        service=row[5],
        ended_ns=row[6],
        dataset=row[7],
        case_id=row[8],
        tags=tuple(row[9] or ()),
        outcome=row[10],
        reason=row[11],
        dimensions={name: value for name, value in values.items() if value is not None},
        tools=tuple(row[16] or ()),
        weight=1.0 / row[17],
        clock_ahead=row[18],
        known_failure=row[19],
        pass_probability=row[20],
    )


def save_windows(con: DuckDBPyConnection, table: WindowTable, ends_ns: Iterable[int], now_ns: int) -> int:
    """Write window points, one row for each k and estimator; return how many rows are new or restated.

    A row equal to the stored one is not touched; a different one replaces it. That counts as a new revision once the end of its
    window has passed; until then the window is filling.

    Args:
        con: a connection in a transaction.
        table: all points at the ends.
        ends_ns: the ends that were computed. Stored rows at these ends that no longer have a point are deleted if they belong to the windows, k
            and estimators of the table.
        now_ns: when they were computed.
    """
    ends = sorted(set(ends_ns))
    if not ends:
        return 0
    rows = rows_of(table)
    at_ends = {"ends": ends, "first": ends[0], "last": ends[-1]}
    computed = {"widths": list(table.widths), "k": list(table.k), "estimators": list(table.estimates)}
    if not table.tallies.size:
        con.execute(_CLEAR, {**at_ends, **computed})
        return 0
    with registered(con, "fresh", {"place": np.arange(len(rows["k"])), **rows}):
        con.execute(_CLEAR_GONE, {**at_ends, **computed})
        changed = con.execute(_CHANGED, at_ends).fetchnumpy()
    indices = np.asarray(changed["place"])
    if len(indices):
        _replace(con, {name: values[indices] for name, values in rows.items()}, np.asarray(changed["revision"]), now_ns)
    return len(indices)


def _replace(con: DuckDBPyConnection, rows: Columns, revision: np.ndarray[Any, Any], now_ns: int) -> None:
    """Write rows in place of those with the same identity, whose revision (0: none) is passed."""
    passed = rows["end"] <= now_ns
    fresh = {
        **rows,
        "revision": np.where(revision == 0, 1, revision + passed),
        "computed_at": np.full(len(passed), now_ns),
    }
    with registered(con, "fresh", fresh):
        con.execute(_DELETE)
        con.execute(_INSERT)


_GROUPS: Final = "SELECT subject, agent, agent_version, environment, service FROM subjects ORDER BY subject"
#: With a mark per row: any change of a result that matters to a monitor changes its mark.
_RESULT_MARKS: Final = """
WITH seen AS (
    SELECT *, hash(window_time, environment, conversation_id, outcome, case_no, user_hash, session_hash) AS mark FROM results
    WHERE outcome IN ('pass', 'fail') AND window_time <= make_timestamp_ns($until)
        AND ($since IS NULL OR window_time >= make_timestamp_ns($since))
        AND subject IN (SELECT unnest($subjects))
)
"""
_FINALS: Final = (
    _RESULT_MARKS
    + """
SELECT subject, epoch_ns(window_time) AS ended_ns, outcome = 'pass' AS correct, coalesce(case_no, $no_case) AS case_no, mark,
    coalesce(user_hash, 0) AS user_hash, coalesce(session_hash, 0) AS session_hash
FROM seen
ORDER BY subject, window_time, environment, conversation_id
"""
)
_DIGESTS: Final = (
    _RESULT_MARKS
    + """
SELECT subject, bit_xor(mark) FROM seen GROUP BY subject
"""
)
_PENDING: Final = """
SELECT subject, count(*) FROM results
WHERE outcome IN ('pass', 'fail') AND window_time > make_timestamp_ns($until)
    AND ($since IS NULL OR window_time >= make_timestamp_ns($since))
GROUP BY subject
"""
_ALARMS: Final = """
SELECT
    agent, agent_version, environment, service, objective, p0, alpha, block,
    CASE WHEN $since IS NULL OR alarmed_at >= make_timestamp_ns($since) THEN epoch_ns(alarmed_at) END, epoch_ns(changed_at)
FROM monitors
"""
#: Group and objective: its label, promised rate, alpha and blocks. An objective with the same label and another promise differs.
MonitorKey = tuple[GroupKey, str, float, float, str]
#: When each alarm of a monitor was raised, ns: of the e-process and of the change detector.
Alarms = tuple[int | None, int | None]


def result_groups(con: DuckDBPyConnection) -> dict[int, GroupKey]:
    """Return every group that ever had a result, by its number in results."""
    rows = con.execute(_GROUPS).fetchall()
    return {
        subject: GroupKey(agent=agent, agent_version=version, environment=environment, service=service)
        for subject, agent, version, environment, service in rows
    }


def final_results(
    con: DuckDBPyConnection, subjects: Sequence[int], *, since_ns: int | None, until_ns: int
) -> dict[int, Finals]:
    """Return the evaluated results of some groups, by the group's number; groups without results are omitted.

    Args:
        con: a connection.
        subjects: numbers of the groups.
        since_ns: only conversations that ended at or after this time; None: from the first.
        until_ns: and at or before this time, the watermark.
    """
    if not subjects:
        return {}
    bounds = {"no_case": NO_CASE, "subjects": list(subjects), "since": since_ns, "until": until_ns}
    columns = con.execute(_FINALS, bounds).fetchnumpy()
    subject = np.asarray(columns["subject"])
    ends: list[int] = np.append(np.flatnonzero(np.diff(subject)) + 1, subject.size).tolist() if subject.size else []
    finals, start = {}, 0
    for end in ends:
        finals[int(subject[start])] = Finals(
            ended_ns=np.asarray(columns["ended_ns"][start:end], dtype=np.int64),
            correct=np.asarray(columns["correct"][start:end], dtype=np.bool_),
            case=np.asarray(columns["case_no"][start:end], dtype=np.int64),
            user=np.asarray(columns["user_hash"][start:end], dtype=np.uint64),
            session=np.asarray(columns["session_hash"][start:end], dtype=np.uint64),
            digest=int(np.bitwise_xor.reduce(np.asarray(columns["mark"][start:end], dtype=np.uint64))),
        )
        start = end
    return finals


def result_digests(
    con: DuckDBPyConnection, subjects: Sequence[int], *, since_ns: int | None, until_ns: int
) -> dict[int, int]:
    """Return the digests of `final_results` without reading the results; the digest of portions is their exclusive or."""
    if not subjects:
        return {}
    bounds = {"subjects": list(subjects), "since": since_ns, "until": until_ns}
    return {int(subject): int(digest) for subject, digest in con.execute(_DIGESTS, bounds).fetchall()}


def pending_results(con: DuckDBPyConnection, watermark_ns: int, since_ns: int | None) -> dict[int, int]:
    """Return the number of evaluated results of each group, by its number, that are not final and count from `since`."""
    rows = con.execute(_PENDING, {"until": watermark_ns, "since": since_ns}).fetchall()
    return {int(subject): int(count) for subject, count in rows}


def stored_alarms(con: DuckDBPyConnection, since_ns: int | None) -> dict[MonitorKey, Alarms]:
    """Return when each stored monitor raised its alarms; for the e-process only one that counts from `since`."""
    alarms = {}
    for *group, label, p0, alpha, block, alarmed_ns, changed_ns in con.execute(_ALARMS, {"since": since_ns}).fetchall():
        agent, version, environment, service = group
        key = GroupKey(agent=agent, agent_version=version, environment=environment, service=service)
        alarms[key, label, p0, alpha, block] = (alarmed_ns, changed_ns)
    return alarms


def monitor_key(monitor: Monitor) -> MonitorKey:
    """Return the identity of a monitor, different also from those of earlier settings."""
    return (monitor.key, monitor.objective.label, monitor.p0, monitor.objective.alpha, monitor.block)


def save_monitors(con: DuckDBPyConnection, monitors: Sequence[Monitor], watermark_ns: int, now_ns: int) -> None:
    """Write the state of all monitors, replacing the stored one.

    Args:
        con: a connection in a transaction.
        monitors: all of them.
        watermark_ns: results up to this time were processed.
        now_ns: the present.
    """
    con.execute("DELETE FROM monitors")
    rows = [_row(monitor) | {"watermark": watermark_ns, "computed_at": now_ns} for monitor in monitors]
    if rows:
        Table(con, "monitors").insert(con, columns_of(rows))


def _row(monitor: Monitor) -> dict[str, Any]:
    key, objective, evidence = monitor.key, monitor.objective, monitor.evidence
    return {
        "agent": key.agent,
        "agent_version": key.agent_version,
        "environment": key.environment or "",
        "service": key.service,
        "objective": objective.label,
        "k": objective.k,
        "target": objective.target,
        "p0": monitor.p0,
        "alpha": objective.alpha,
        "method": objective.method,
        "block": monitor.block,
        "blocks": monitor.blocks,
        "n": monitor.n,
        "c": monitor.c,
        "e_value": monitor.e_value,
        "log_e": evidence.log_e,
        "largest": e_value(evidence.log_largest),
        "alarmed_at": monitor.alarmed_ns,
        "detector": monitor.change_value,
        "target_run_length": objective.target_run_length,
        "changes": monitor.changes,
        "changed_at": monitor.changed_ns,
    }
