"""Alarms of objectives in the store: when each was raised, who acknowledged it, and where it was sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from otel_agentic.store.table import Row, Selection, Table, bounds, fields_of, rows

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from otel_agentic.windows import GroupKey

#: `broken`: the evidence that an objective is broken reached its limit. `fell`: the pass rate fell below the objective.
AlarmKind = Literal["broken", "fell"]

_KEY: Final = ("agent", "agent_version", "service", "criterion")
_ALARMS: Final = """
SELECT alarms.*, coalesce(n.notifications, []) AS notifications FROM alarms
LEFT JOIN (
    SELECT alarm_id, list(
        {'target': target, 'attempts': attempts, 'sent_at': sent_at, 'next_at': next_at, 'error': error} ORDER BY target
    ) AS notifications
    FROM notifications
    GROUP BY alarm_id
) n USING (alarm_id)
WHERE ($since IS NULL OR raised_at >= make_timestamp_ns($since)) AND ($until IS NULL OR raised_at < make_timestamp_ns($until))
    AND ($agent IS NULL OR agent GLOB $agent) AND ($agent_version IS NULL OR agent_version = $agent_version)
    AND ($environment IS NULL OR environment = $environment)
ORDER BY raised_at DESC, alarm_id
LIMIT $limit
"""
_ACKNOWLEDGE: Final = """
UPDATE alarms SET acknowledged_at = make_timestamp_ns($now), acknowledged_by = $annotator, note = $note
WHERE alarm_id = $id
RETURNING alarm_id
"""
_PENDING: Final = """
SELECT alarms.*, epoch_ns(raised_at) AS raised_ns, attempts FROM notifications
JOIN alarms USING (alarm_id)
WHERE target = $target AND next_at <= make_timestamp_ns($now)
ORDER BY raised_at, alarm_id
"""
_SENT: Final = """
UPDATE notifications SET attempts = attempts + 1, sent_at = make_timestamp_ns($now), next_at = NULL, error = NULL
WHERE alarm_id = $id AND target = $target
"""
_FAILED: Final = """
UPDATE notifications SET attempts = attempts + 1, next_at = make_timestamp_ns($next), error = $error
WHERE alarm_id = $id AND target = $target
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alarm:
    """An alarm about an objective of a group.

    `conversation_ended_ns` is the end of the conversation at which it was raised.
    """

    alarm_id: str
    key: GroupKey
    objective: str
    kind: AlarmKind
    conversation_ended_ns: int
    text: str


def save_alarms(
    con: DuckDBPyConnection, alarms: Sequence[Alarm], targets: Mapping[str, Sequence[str]], now_ns: int
) -> None:
    """Append new alarms, each with a pending notification for the names of targets that `targets` has for its id."""
    Table(con, "alarms").insert(
        con,
        {
            **fields_of([alarm.key for alarm in alarms], *_KEY),
            **fields_of(alarms, "alarm_id", "objective", "kind"),
            "environment": [alarm.key.environment or "" for alarm in alarms],
            "conversation_ended_at": [alarm.conversation_ended_ns for alarm in alarms],
            "description": [alarm.text for alarm in alarms],
            "raised_at": [now_ns] * len(alarms),
        },
    )
    pending = [(alarm.alarm_id, target) for alarm in alarms for target in targets[alarm.alarm_id]]
    Table(con, "notifications").insert(
        con,
        {
            "alarm_id": [alarm_id for alarm_id, _ in pending],
            "target": [target for _, target in pending],
            "attempts": [0] * len(pending),
            "next_at": [now_ns] * len(pending),
        },
    )


def list_alarms(con: DuckDBPyConnection, selection: Selection, limit: int) -> list[Row]:
    """Return the newest alarms that were raised in the period of a selection."""
    return rows(con, _ALARMS, {**bounds(selection), "limit": limit})


def acknowledge(con: DuckDBPyConnection, alarm_id: str, *, annotator: str, note: str | None, now_ns: int) -> bool:
    """Record who has taken note of an alarm; a later acknowledgement replaces an earlier one. Return whether it exists."""
    parameters = {"id": alarm_id, "annotator": annotator, "note": note, "now": now_ns}
    return bool(con.execute(_ACKNOWLEDGE, parameters).fetchall())


def due_notifications(con: DuckDBPyConnection, target: str, now_ns: int) -> list[Row]:
    """Return the alarms to send to a target now, oldest first, with `attempts` and `raised_ns`."""
    return rows(con, _PENDING, {"target": target, "now": now_ns})


def notification_sent(con: DuckDBPyConnection, *, alarm_id: str, target: str, now_ns: int) -> None:
    """Record that an alarm was sent to a target."""
    con.execute(_SENT, {"id": alarm_id, "target": target, "now": now_ns})


def notification_failed(
    con: DuckDBPyConnection, *, alarm_id: str, target: str, error: str, next_ns: int | None
) -> None:
    """Record a failed attempt, and the time of the next one, None after the last."""
    con.execute(_FAILED, {"id": alarm_id, "target": target, "error": error, "next": next_ns})
