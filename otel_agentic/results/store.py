"""Results of `store` and `ingest`. Times are ISO 8601 text in UTC."""

from __future__ import annotations

from dataclasses import dataclass

from otel_agentic.results.codec import optional


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
class FileSize:
    """The size of the store file before and after a vacuum."""

    bytes_before: int
    bytes_after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Vacuum:
    """A retention pass; `removed` is None if everything is kept, `file` if the file was not rewritten."""

    keep: str | None
    dry_run: bool
    removed: Removed | None
    file: FileSize | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasedConversation:
    """The identity of an erased conversation."""

    environment: str
    conversation_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceCase:
    """A case that was made from an erased conversation, and is erased with it."""

    dataset: str
    case_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Erasures:
    """The erased rows, or in a dry run those to erase.

    Attributes:
        dry_run: whether nothing was erased yet.
        conversations: the conversations.
        rows: rows by table.
        files: exported Parquet files with rows about them, which are rewritten.
        file_rows: these rows.
        cases: cases made from the conversations.
        judge_verdicts: verdicts taken out of the cache; 0 in a dry run.
        left: rows that a search found afterwards; None in a dry run.
        file: the size of the file before and after it was rewritten without free blocks; None if it was not.
    """

    dry_run: bool
    conversations: list[ErasedConversation]
    rows: dict[str, int]
    files: int
    file_rows: int
    cases: list[SourceCase]
    judge_verdicts: int = 0
    left: int | None = None
    file: FileSize | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePiece:
    """A piece of an exported Parquet file, base64; `last` completes the file. The path is None if there is no file."""

    file: str | None
    rows: int
    data: str
    last: bool
    done: int
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupPiece:
    """A piece of the store file, base64; the last item of the stream has the SHA-256 of the file instead."""

    data: str | None = optional()
    sha256: str | None = optional()
    done: int
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedStore:
    """An export: its files, and the rows by table."""

    folder: str
    files: int
    bytes: int
    tables: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedRows:
    """The number of rows in the files of a table, and of those that were new to the store."""

    rows: int
    new: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedStore:
    """An import; `tables_left_out` are tables of the files that a store does not have."""

    tables: dict[str, ImportedRows]
    files: int
    rebuilt_traces: int
    tables_left_out: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreCopy:
    """A backup with its SHA-256, or a restored store with the migrations that it still needs."""

    file: str
    bytes: int
    tables: dict[str, int]
    sha256: str | None = optional()
    pending: list[str] | None = optional()


@dataclass(frozen=True, slots=True, kw_only=True)
class Upgrade:
    """The migrations that were applied to a store, and the copy of its previous file."""

    db: str
    applied: list[str]
    copy: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """Content that is not always recorded, and the setting that records it."""

    what: str
    have: int
    of: int
    advice: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """Shares of turns and calls with their content, by service and framework."""

    service: str | None
    dialect: str | None
    framework: str
    scopes: list[str] | None = optional()
    turns: int
    calls: int
    query: float | None
    answer: float | None
    arguments: float | None
    results: float | None
    conversation_id: float | None
    missing: list[Missing]


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanCounts:
    """Counts of received spans and log records, by result."""

    stored: int
    duplicate: int
    rejected: int
    ignored: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ingested:
    """Files that were read into a store; `reasons` and `altered` count rejected and changed parts."""

    spans: SpanCounts
    reasons: dict[str, int]
    altered: dict[str, int]
    #: New or changed conversations, those of them that existed before, and their turns and calls.
    conversations: int
    revised: int
    turns: int
    tool_calls: int
    coverage: list[Coverage]
    problems: list[str]
