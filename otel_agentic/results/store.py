"""Results of `store`, `doctor --live` and `backfill`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationCounts:
    """Closed and open conversations, and the ends of the oldest and the newest one."""

    closed: int
    open: int
    oldest: str | None
    newest: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportState:
    """The hourly export."""

    on: bool
    folder: str
    written: int
    waiting: int
    oldest_hour: str | None
    newest_hour: str | None
    exported_at: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSize:
    """The size of a table."""

    table: str
    rows: int
    bytes: int
    oldest: str | None
    newest: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionState:
    """The retention setting, and the rows removed so far."""

    keep: str | None
    conversations_from_ns: int | None
    results_from_ns: int | None
    conversations_removed: int
    spans_removed: int
    log_records_removed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreStats:
    """The size and content of a store."""

    db: str
    file_bytes: int
    wal_bytes: int
    schema: str
    used_bytes: int
    free_bytes: int
    conversations: ConversationCounts
    export: ExportState
    tables: list[TableSize]
    retention: RetentionState


@dataclass(frozen=True, slots=True, kw_only=True)
class Removed:
    """The rows removed by retention."""

    before_ns: int
    conversations: int
    spans: int
    log_records: int
    results: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Vacuum:
    """A retention pass; `removed` is None if everything is kept."""

    keep: str | None
    dry_run: bool
    removed: Removed | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """Content that is not recorded everywhere, and the setting that records it."""

    what: str
    have: int
    of: int
    advice: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """Shares of turns and calls with their content, by service and framework."""

    service: str | None
    framework: str
    dialect: str | None
    turns: int
    calls: int
    query: float | None
    answer: float | None
    arguments: float | None
    results: float | None
    conversation_id: float | None
    missing: list[Missing]
