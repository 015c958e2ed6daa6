"""The content of the file, and how much space it takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from otel_agentic.store.selection import rows

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from otel_agentic.store.selection import Row

#: The time of a row, for tables with a time that shows how old a row is.
_TIMES: Final = {
    "spans": "start_time",
    "log_records": '"time"',
    "conversations": "ended_at",
    "turns": "ended_at",
    "conversation_scores": "scored_at",
    "results": "ended_at",
    "judge_calls": "judged_at",
    "windows": '"end"',
}
_TABLES: Final = """
SELECT table_name FROM duckdb_tables() WHERE database_name = current_database() ORDER BY table_name
"""
#: Blocks that contain something of a table. Small tables share blocks: a shared block counts for each of them.
_BLOCKS: Final = """
SELECT count(DISTINCT block) FROM (
    SELECT block_id AS block FROM pragma_storage_info($table)
    UNION ALL
    SELECT unnest(additional_block_ids) FROM pragma_storage_info($table)
)
WHERE block >= 0
"""
_FILE: Final = """
SELECT block_size, total_blocks, free_blocks FROM pragma_database_size() WHERE database_name = current_database()
"""
_CONVERSATIONS: Final = """
SELECT
    count(*) FILTER (closed_by IS NOT NULL) AS closed, count(*) FILTER (closed_by IS NULL) AS open,
    min(ended_at) AS oldest, max(ended_at) AS newest
FROM conversations WHERE NOT superseded
"""
_EXPORT: Final = """
SELECT
    count(*) FILTER (file IS NOT NULL AND NOT dirty) AS written, count(*) FILTER (dirty) AS waiting,
    min(hour) FILTER (NOT dirty) AS oldest_hour, max(hour) FILTER (NOT dirty) AS newest_hour,
    max(exported_at) AS exported_at
FROM exports WHERE table_name IN ('spans', 'log_records', 'conversations')
"""
#: `schema.sql` and all migrations of a new store are applied at the same time.
_SCHEMA: Final = "SELECT name FROM schema_migrations ORDER BY applied_at DESC, name = 'schema.sql', name DESC LIMIT 1"


def table_stats(con: DuckDBPyConnection) -> list[Row]:
    """Return each table: name, rows, bytes of the blocks that contain something of it, oldest and newest time of a row."""
    ((block_size, _, _),) = con.execute(_FILE).fetchall()
    return [_table(con, name, block_size) for (name,) in con.execute(_TABLES).fetchall()]


def _table(con: DuckDBPyConnection, name: str, block_size: int) -> Row:
    time = _TIMES.get(name, "NULL::TIMESTAMP_NS")
    rows = con.execute(f'SELECT count(*), min({time}), max({time}) FROM "{name}"').fetchall()  # noqa: S608 — names of our own schema
    count, oldest, newest = rows[0]
    ((blocks,),) = con.execute(_BLOCKS, {"table": name}).fetchall()
    return {"table": name, "rows": count, "bytes": blocks * block_size, "oldest": oldest, "newest": newest}


def store_stats(con: DuckDBPyConnection) -> dict[str, Any]:
    """Return figures of the whole store: schema, blocks, conversations, hours that are exported or wait."""
    ((block_size, blocks, free),) = con.execute(_FILE).fetchall()
    ((schema,),) = con.execute(_SCHEMA).fetchall()
    return {
        "schema": schema,
        "used_bytes": (blocks - free) * block_size,
        "free_bytes": free * block_size,
        "conversations": rows(con, _CONVERSATIONS, {})[0],
        "export": rows(con, _EXPORT, {})[0],
        "tables": table_stats(con),
    }
