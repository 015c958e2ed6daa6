"""The layout of an export: its tables, their folders, and the time by which each is divided into hours."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

    from otel_agentic.config import Settings

HOUR_NS: Final = 3_600_000_000_000
DAY_NS: Final = 24 * HOUR_NS
#: The folder of incomplete files: on the same file system as the rest, and matched by no glob of a table.
WORK: Final = ".work"
#: The one file of a table that is not divided by time.
SINGLE_FILE: Final = "all.parquet"
#: The one file of a day whose hours were merged.
DAY: Final = "day.parquet"

#: Tables that belong to a conversation: their rows are exported, and removed, together with it.
_OF_REVISION: Final = (
    "turns",
    "tool_calls",
    "matches",
    "conversation_scores",
    "turn_scores",
    "tool_scores",
    "tool_faults",
    "tool_counts",
    "scores",
)
FAMILY: Final = ("conversations", *_OF_REVISION, "trace_links")
#: Tables that are exported hour by hour; a change in one table of a unit makes the hour of the whole unit be written again.
UNITS: Final = {
    "spans": ("spans",),
    "log_records": ("log_records",),
    "conversations": (*FAMILY, "results"),
}
#: Tables that are exported only in a snapshot of the whole store, one file each.
WHOLES: Final = (
    "cases",
    "case_turns",
    "expected_calls",
    "labels",
    "dataset_versions",
    "dataset_members",
    "human_verdicts",
    "evaluations",
    "judge_calibrations",
    "calibration_verdicts",
    "judge_calls",
    "windows",
    "tool_definitions",
    "retention",
)

_KEY: Final = "environment, conversation_id"
#: The rows of a period, `$first` and `$last` included, by the end of their conversation revision.
_REVISION_ROWS: Final = f"""
SELECT t.* FROM "{{table}}" t
JOIN conversations c USING ({_KEY}, revision)
WHERE c.ended_at >= make_timestamp_ns($first) AND c.ended_at <= make_timestamp_ns($last)
"""  # noqa: S608 — names of our own schema
_LINK_ROWS: Final = f"""
SELECT t.* FROM trace_links t
SEMI JOIN (
    SELECT {_KEY} FROM conversations
    GROUP BY {_KEY}
    HAVING max(ended_at) >= make_timestamp_ns($first) AND max(ended_at) <= make_timestamp_ns($last)
) USING ({_KEY})
"""  # noqa: S608 — the same
_TIMED_ROWS: Final = """
SELECT * FROM "{table}" WHERE "{time}" >= make_timestamp_ns($first) AND "{time}" <= make_timestamp_ns($last)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """A table as it is exported.

    Attributes:
        name: the table.
        rows: SQL of its rows in a period, `$first` to `$last`.
        order: the sort order of a file, with which readers can skip most of it.
        identity: columns that identify whether the store still has the subject of a row in an older file,
        held: and the table in which they are looked up.
    """

    name: str
    rows: str
    order: str
    identity: str
    held: str


def _exported(name: str) -> Exported:
    if name in {"spans", "log_records"}:
        time = "start_time" if name == "spans" else "time"
        identity = "trace_id, span_id" if name == "spans" else "content_hash"
        rows = _TIMED_ROWS.format(table=name, time=time)
        return Exported(name=name, rows=rows, order=f'"{time}", {identity}', identity=identity, held=f"({rows})")
    if name in {"conversations", "results"}:
        rows = _TIMED_ROWS.format(table=name, time="ended_at")
        return Exported(name=name, rows=rows, order=f"ended_at, {_KEY}, revision", identity=_KEY, held=name)
    if name == "trace_links":
        return Exported(name=name, rows=_LINK_ROWS, order="started_at, trace_id", identity=_KEY, held="conversations")
    rows = _REVISION_ROWS.format(table=name)
    order = f"{_KEY}, revision{', turn_index' if name in _BY_TURN else ''}"
    return Exported(name=name, rows=rows, order=order, identity=_KEY, held="conversations")


_BY_TURN: Final = {"turns", "tool_calls", "turn_scores", "tool_scores", "tool_faults", "tool_counts", "scores"}
EXPORTED: Final = {name: _exported(name) for unit in UNITS.values() for name in unit}


def export_folder_of(settings: Settings) -> Path:
    """Return the folder of Parquet files: the only folder that the store's DuckDB may access besides its own file."""
    folder, db = settings.retention.export_folder, settings.store.db
    return (folder or db.with_name(f"{db.name}.export")).absolute()


def day_folder(table: str, time_ns: int) -> str:
    """Return the folder of a day of a table, from the export folder on.

    >>> day_folder("spans", 1_772_442_000_000_000_000)
    'spans/day=2026-03-02'
    """
    return f"{table}/day={datetime.fromtimestamp(time_ns // 1_000_000_000, UTC):%Y-%m-%d}"


def hour_file(table: str, hour_ns: int) -> str:
    """Return the file of an hour of a table, from the export folder on.

    >>> hour_file("spans", 1_772_442_000_000_000_000)
    'spans/day=2026-03-02/hour-09.parquet'
    """
    return f"{day_folder(table, hour_ns)}/hour-{hour_ns % DAY_NS // HOUR_NS:02d}.parquet"
