"""Final results out of the store for monitors, and the state of monitors into it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from otel_agentic.stats.sequential import e_value
from otel_agentic.store.table import Table
from otel_agentic.windows.model import GroupKey
from otel_agentic.windows.objectives import NO_CASE, Finals

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duckdb import DuckDBPyConnection

    from otel_agentic.windows.objectives import Monitor

_GROUPS: Final = "SELECT subject, agent, agent_version, environment, service FROM subjects ORDER BY subject"
#: With a mark a row: whatever of a result counts for a monitor, a change of it is a change of its mark.
_SEEN: Final = """
WITH seen AS (
    SELECT *, hash(window_time, environment, conversation_id, outcome, case_no, user_hash, session_hash) AS mark FROM results
    WHERE outcome IN ('pass', 'fail') AND window_time <= make_timestamp_ns($until)
        AND ($since IS NULL OR window_time >= make_timestamp_ns($since))
        AND subject IN (SELECT unnest($subjects))
)
"""
_FINALS: Final = (
    _SEEN
    + """
SELECT subject, epoch_ns(window_time) AS ended_ns, outcome = 'pass' AS correct, coalesce(case_no, $no_case) AS case_no, mark,
    coalesce(user_hash, 0) AS user_hash, coalesce(session_hash, 0) AS session_hash
FROM seen
ORDER BY subject, window_time, environment, conversation_id
"""
)
_DIGESTS: Final = (
    _SEEN
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
#: Group and objective: its label, the rate it promises, its alpha and its blocks. Another promise of the same name is another
#: one.
MonitorKey = tuple[GroupKey, str, float, float, str]
#: When each alarm of a monitor was raised, ns: of the e-process, of the change detector.
Alarms = tuple[int | None, int | None]


def result_groups(con: DuckDBPyConnection) -> dict[int, GroupKey]:
    """Return every group that ever had a result, by the number that results have of it."""
    rows = con.execute(_GROUPS).fetchall()
    return {
        subject: GroupKey(agent=agent, agent_version=version, environment=environment, service=service)
        for subject, agent, version, environment, service in rows
    }


def final_results(
    con: DuckDBPyConnection, subjects: Sequence[int], *, since_ns: int | None, until_ns: int
) -> dict[int, Finals]:
    """Return the evaluated results of some groups, by the group's number; a group without any is left out.

    Args:
        con: a connection.
        subjects: numbers of the groups.
        since_ns: of conversations that ended at or after this time; None: from the first.
        until_ns: and at or before this one, the watermark.
    """
    if not subjects:
        return {}
    bounds = {"no_case": NO_CASE, "subjects": list(subjects), "since": since_ns, "until": until_ns}
    columns = con.execute(_FINALS, bounds).fetchnumpy()
    subject = np.asarray(columns["subject"])
    ends: list[int] = np.append(np.flatnonzero(np.diff(subject)) + 1, subject.size).tolist() if subject.size else []
    found, start = {}, 0
    for end in ends:
        found[int(subject[start])] = Finals(
            ended_ns=np.asarray(columns["ended_ns"][start:end], dtype=np.int64),
            correct=np.asarray(columns["correct"][start:end], dtype=np.bool_),
            case=np.asarray(columns["case_no"][start:end], dtype=np.int64),
            user=np.asarray(columns["user_hash"][start:end], dtype=np.uint64),
            session=np.asarray(columns["session_hash"][start:end], dtype=np.uint64),
            digest=int(np.bitwise_xor.reduce(np.asarray(columns["mark"][start:end], dtype=np.uint64))),
        )
        start = end
    return found


def result_digests(
    con: DuckDBPyConnection, subjects: Sequence[int], *, since_ns: int | None, until_ns: int
) -> dict[int, int]:
    """Return the digests that `final_results` would give, without the results; of portions it is their exclusive or."""
    if not subjects:
        return {}
    bounds = {"subjects": list(subjects), "since": since_ns, "until": until_ns}
    return {int(subject): int(digest) for subject, digest in con.execute(_DIGESTS, bounds).fetchall()}


def pending_results(con: DuckDBPyConnection, watermark_ns: int, since_ns: int | None) -> dict[int, int]:
    """Return how many evaluated results of each group, by its number, are not final yet and will count from `since`."""
    rows = con.execute(_PENDING, {"until": watermark_ns, "since": since_ns}).fetchall()
    return {int(subject): int(count) for subject, count in rows}


def stored_alarms(con: DuckDBPyConnection, since_ns: int | None) -> dict[MonitorKey, Alarms]:
    """Return when each stored monitor raised its alarms; of the e-process only one that counts from `since`."""
    found = {}
    for *group, label, p0, alpha, block, alarmed_ns, changed_ns in con.execute(_ALARMS, {"since": since_ns}).fetchall():
        agent, version, environment, service = group
        key = GroupKey(agent=agent, agent_version=version, environment=environment, service=service)
        found[key, label, p0, alpha, block] = (alarmed_ns, changed_ns)
    return found


def monitor_key(monitor: Monitor) -> MonitorKey:
    """Return what tells a monitor from every other, also from those of earlier settings."""
    return (monitor.key, monitor.objective.label, monitor.p0, monitor.objective.alpha, monitor.block)


def save_monitors(con: DuckDBPyConnection, monitors: Sequence[Monitor], watermark_ns: int, now_ns: int) -> None:
    """Write the state of all monitors in the place of what was stored.

    Args:
        con: a connection in a transaction.
        monitors: all of them.
        watermark_ns: results up to this time were seen.
        now_ns: the present.
    """
    con.execute("DELETE FROM monitors")
    rows = [_row(monitor) | {"watermark": watermark_ns, "computed_at": now_ns} for monitor in monitors]
    if rows:
        Table(con, "monitors").insert(con, {name: [row[name] for row in rows] for name in rows[0]})


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
