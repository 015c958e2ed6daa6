"""Alarms of objectives in the store: when each was raised, and who acknowledged it with which note."""

from __future__ import annotations

from collections.abc import Sequence
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
SELECT * FROM alarms
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


def save_alarms(con: DuckDBPyConnection, alarms: Sequence[Alarm], now_ns: int) -> None:
    """Append new alarms."""
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


def list_alarms(con: DuckDBPyConnection, selection: Selection, limit: int) -> list[Row]:
    """Return the newest alarms that were raised in the period of a selection."""
    return rows(con, _ALARMS, {**bounds(selection), "limit": limit})


def acknowledge(con: DuckDBPyConnection, alarm_id: str, *, annotator: str, note: str | None, now_ns: int) -> bool:
    """Record who has taken note of an alarm; a later acknowledgement replaces an earlier one. Return whether it exists."""
    parameters = {"id": alarm_id, "annotator": annotator, "note": note, "now": now_ns}
    return bool(con.execute(_ACKNOWLEDGE, parameters).fetchall())
