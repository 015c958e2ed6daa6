"""Import of Parquet files: each file is checked first, and each row is stored once.

Files are checked before any row is stored, because one invalid row would block exports and retention forever. Existing
rows do not change.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import duckdb

from otel_agentic.errors import BadInputError
from otel_agentic.store.conversations import CONVERSATION_ID, TRACE_ID
from otel_agentic.store.maintenance.export import FAMILY, WHOLES
from otel_agentic.store.results import OF_SUBJECT, SAME_SUBJECT, drop_superseded_results
from otel_agentic.store.spans import last_commit_ns

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_FILE: Final = "read_parquet($file, hive_partitioning = false)"
#: Ids must be hexadecimal, because the store keeps them as bytes in memory.
_WRONG_IDS: Final = f"""
SELECT concat(trace_id, ' ', span_id) FROM {_FILE}
WHERE NOT coalesce(regexp_full_match(trace_id, '[0-9a-f]{{32}}') AND regexp_full_match(span_id, '[0-9a-f]{{16}}'), false)
LIMIT 1
"""  # noqa: S608 — names of our own schema
_WITH_IDS: Final = frozenset({"spans", "log_records"})
#: Times are nanoseconds since 1970 everywhere else; DuckDB's infinity has no such value.
_WRONG_TIME: Final = f"""
SELECT CAST({{name}} AS VARCHAR) FROM {_FILE}
WHERE NOT coalesce(isfinite(TRY_CAST({{name}} AS TIMESTAMP_NS)) AND epoch_ns(TRY_CAST({{name}} AS TIMESTAMP_NS)) >= 0, true)
LIMIT 1
"""  # noqa: S608 — the same


def rows_in(con: DuckDBPyConnection, table: str, file: Path) -> int:
    """Return how many rows a Parquet file of a table has.

    Raises:
        BadInputError: it is not a Parquet file, not of this table, or contains an invalid id or time.
    """
    parameters = {"file": str(file)}
    try:
        ((count,),) = con.execute(f"SELECT count(*) FROM {_FILE}", parameters).fetchall()  # noqa: S608 — our own fragment
        described = con.execute(f"SELECT * FROM {_FILE} LIMIT 0", parameters).description or []  # noqa: S608 — the same
        table_columns = con.execute(f'SELECT * FROM "{table}" LIMIT 0').description or []  # noqa: S608 — a name of our own schema
        types = {str(column[0]): str(column[1]) for column in table_columns}
        names = [str(column[0]) for column in described]
        _require_known(table, names, types.keys())
        _require_ids(con, table, parameters)
        for name in names:
            if types[name] == "TIMESTAMP_NS":
                _require_times(con, table, name, parameters)
    except duckdb.Error as error:
        raise BadInputError(f"{table}: not readable as Parquet: {str(error).splitlines()[0]}") from error
    return int(count)


def _require_known(table: str, names: Sequence[str], columns: Collection[str]) -> None:
    unknown = sorted(set(names) - set(columns))
    if unknown:
        raise BadInputError(
            f"{table}: the file has columns that the table lacks ({', '.join(unknown[:5])}): it was written by a newer release, or "
            "is not an export of otel-agentic"
        )


def _require_ids(con: DuckDBPyConnection, table: str, parameters: Mapping[str, str]) -> None:
    if table in _WITH_IDS and (invalid := con.execute(_WRONG_IDS, parameters).fetchall()):
        raise BadInputError(
            f"{table}: {invalid[0][0]!r} are not the ids of a trace and a span: 32 and 16 lower-case hexadecimal digits"
        )


def _require_times(con: DuckDBPyConnection, table: str, name: str, parameters: Mapping[str, str]) -> None:
    if invalid := con.execute(_WRONG_TIME.format(name=f'"{name}"'), parameters).fetchall():
        raise BadInputError(f"{table}: {name} is {invalid[0][0]}: times must not be before 1970 or infinite")


#: Rows of spans or log records imported in one transaction.
PORTION: Final = 20_000
#: Errors of the store itself; any other error is a problem of the file.
_STORE_ERRORS: Final = (duckdb.OperationalError, duckdb.InternalError, duckdb.FatalException)
#: The tables of an import, in order: a conversation is added after all its rows in other tables, so that a killed
#: import can be continued.
ORDER: Final = (
    "spans",
    "log_records",
    "trace_links",
    *(table for table in FAMILY if table not in {"conversations", "trace_links"}),
    "results",
    "conversations",
    *WHOLES,
)

_FILES: Final = "read_parquet($files, hive_partitioning = false, union_by_name = true)"
_NUMBERED: Final = "read_parquet($files, hive_partitioning = false, file_row_number = true)"
_RECEIVED: Final = {
    table: f"""
INSERT INTO {table} BY NAME
SELECT * EXCLUDE (file_row_number) REPLACE (make_timestamp_ns($now) AS received_at)
FROM (
    SELECT * FROM {_NUMBERED} WHERE file_row_number >= $first AND file_row_number < $last
    QUALIFY row_number() OVER (PARTITION BY {identity}) = 1
)
ANTI JOIN {table} USING ({identity})
"""  # noqa: S608 — names of our own schema
    for table, identity in (("spans", "trace_id, span_id"), ("log_records", "content_hash"))
}
#: A trace counts as read if the store had no part of it or of its conversation before; otherwise both are rebuilt.
_LINKS: Final = f"""
INSERT INTO trace_links BY NAME
SELECT f.* REPLACE (make_timestamp_ns($now) AS received_until)
FROM {_FILES} f
ANTI JOIN conversations USING (environment, conversation_id)
WHERE f.trace_id NOT IN (SELECT trace_id FROM trace_links)
    AND f.trace_id NOT IN (SELECT trace_id FROM spans WHERE received_at < make_timestamp_ns($began))
    AND f.trace_id NOT IN (SELECT trace_id FROM log_records WHERE received_at < make_timestamp_ns($began))
"""  # noqa: S608 — the same
_OF_NEW: Final = f"""
INSERT INTO {{table}} BY NAME
SELECT * FROM {_FILES} ANTI JOIN conversations USING (environment, conversation_id)
"""  # noqa: S608 — the same
#: The build time is the current time, so that no trace seems to have been read after its conversation was built.
_CONVERSATIONS: Final = f"""
INSERT INTO conversations BY NAME
SELECT * REPLACE (make_timestamp_ns($now) AS built_at)
FROM {_FILES} ANTI JOIN conversations USING (environment, conversation_id)
"""  # noqa: S608 — the same
#: Files of earlier versions have no times of scores in these tables, by which queries look for their rows.
_SCORED: Final = tuple(
    f"""
UPDATE {table} t SET scored_at = s.scored_at FROM scores s
WHERE t.scored_at IS NULL AND s.name = 'agentic.conversation' AND s.evaluation_id = t.evaluation_id
    AND s.environment = t.environment AND s.conversation_id = t.conversation_id AND s.revision = t.revision
"""  # noqa: S608 — the same
    for table in ("matches", "tool_faults", "call_pairs")
)
_SUBJECTS: Final = f"""
INSERT INTO subjects
SELECT (SELECT coalesce(max(subject), 0) FROM subjects) + row_number() OVER (), n.*
FROM (SELECT DISTINCT {OF_SUBJECT} FROM {_FILES}) n
ANTI JOIN subjects s ON {SAME_SUBJECT.format("n")}
"""  # noqa: S608 — the same
_CASES: Final = f"""
INSERT INTO result_cases
SELECT (SELECT coalesce(max(case_no), 0) FROM result_cases) + row_number() OVER (), n.*
FROM (SELECT DISTINCT coalesce(dataset, '') AS dataset, case_id FROM {_FILES} WHERE case_id IS NOT NULL) n
ANTI JOIN result_cases USING (dataset, case_id)
"""  # noqa: S608 — the same
_CHANGES: Final = f"""
INSERT INTO window_changes
SELECT DISTINCT (SELECT coalesce(max(serial), 0) FROM window_changes) + 1, window_time, false
FROM {_FILES} ANTI JOIN results USING (environment, conversation_id) ANTI JOIN conversations USING (environment, conversation_id)
"""  # noqa: S608 — the same
_RESULTS: Final = f"""
INSERT INTO results BY NAME
SELECT f.* REPLACE (s.subject AS subject, k.case_no AS case_no)
FROM {_FILES} f
ANTI JOIN results r USING (environment, conversation_id)
ANTI JOIN conversations c USING (environment, conversation_id)
JOIN subjects s ON {SAME_SUBJECT.format("f")}
LEFT JOIN result_cases k ON k.dataset = coalesce(f.dataset, '') AND k.case_id = f.case_id
"""  # noqa: S608 — the same
#: Only one version of a case is current; the store's current version takes precedence.
_CURRENT: Final = """
REPLACE (
    f.current AND NOT EXISTS (
        SELECT 1 FROM cases c WHERE c.dataset = f.dataset AND c.case_id = f.case_id AND c.current
    ) AS current
)
"""
_MERGE_RETENTION: Final = f"""
UPDATE retention SET
    conversations_from = greatest(conversations_from, (SELECT max(conversations_from) FROM {_FILES})),
    results_from = greatest(results_from, (SELECT max(results_from) FROM {_FILES}))
"""  # noqa: S608 — the same
_FIRST_RETENTION: Final = (
    f"INSERT INTO retention SELECT * FROM {_FILES} WHERE NOT EXISTS (SELECT 1 FROM retention) LIMIT 1"  # noqa: S608 — the same
)
_DELETE_TOMBSTONES: Final = (
    f"""
DELETE FROM removed WHERE kind = 'conversation' AND identity IN (SELECT {CONVERSATION_ID} FROM conversations)
""",  # noqa: S608 — the same
    f"""
DELETE FROM removed WHERE kind = 'trace' AND identity IN (SELECT {TRACE_ID} FROM trace_links WHERE events > 0)
""",  # noqa: S608 — the same
)
_ORPHANS: Final = tuple(
    f"DELETE FROM {table} t WHERE NOT EXISTS (SELECT 1 FROM conversations c "  # noqa: S608 — the same
    "WHERE c.environment = t.environment AND c.conversation_id = t.conversation_id)"
    for table in FAMILY
    if table not in {"conversations", "trace_links"}
)


def row_ranges(rows: int) -> Iterator[tuple[int, int]]:
    """Yield the range of row numbers, `[first, last)`, of each transaction."""
    for first in range(0, rows, PORTION):
        yield first, min(rows, first + PORTION)


def import_rows(con: DuckDBPyConnection, table: str, file: Path, row_range: tuple[int, int], now_ns: int) -> int:
    """Import some rows of a file of spans or log records; return how many were new. New rows count as committed now.

    Raises:
        BadInputError: a row cannot be stored.
    """
    now_ns = max(now_ns, last_commit_ns(con) + 1)  # readers that look for arrivals since their last look see these rows
    parameters = {"files": [str(file)], "first": row_range[0], "last": row_range[1], "now": now_ns}
    return _insert(con, table, _RECEIVED[table], parameters)


def import_files(con: DuckDBPyConnection, table: str, files: Sequence[Path], *, began_ns: int, now_ns: int) -> int:
    """Import the rows of files of a table; return how many were new.

    Args:
        con: a connection in a transaction of the writer.
        table: a table of `ORDER`, except spans and log records.
        files: all files of the table.
        began_ns: when the import began; earlier rows belong to the store.
        now_ns: the current time, ns since the epoch.

    Raises:
        BadInputError: a row cannot be stored.
    """
    now_ns = max(now_ns, last_commit_ns(con))  # no earlier than the spans of the same_identity import
    parameters = {"files": [str(file) for file in files]}
    if table == "trace_links":
        return _insert(con, table, _LINKS, {**parameters, "began": began_ns, "now": now_ns})
    if table == "results":
        for sql in (_SUBJECTS, _CASES, _CHANGES):
            _insert(con, table, sql, parameters)
        return _insert(con, table, _RESULTS, parameters)
    if table == "conversations":
        added = _insert(con, table, _CONVERSATIONS, {**parameters, "now": now_ns})
        for sql in _SCORED:
            con.execute(sql)
        drop_superseded_results(con)
        return added
    if table in FAMILY:
        return _insert(con, table, _OF_NEW.format(table=table), parameters)
    if table == "retention":
        return _insert(con, table, _MERGE_RETENTION, parameters) * 0 + _insert(con, table, _FIRST_RETENTION, parameters)
    same_identity = " AND ".join(f't."{name}" IS NOT DISTINCT FROM f."{name}"' for name in WHOLES[table])
    columns = f"f.* {_CURRENT}" if table == "cases" else "f.*"
    sql = f'INSERT INTO "{table}" BY NAME SELECT {columns} FROM {_FILES} f WHERE NOT EXISTS (SELECT 1 FROM "{table}" t WHERE {same_identity})'  # noqa: S608 — names of our own schema
    return _insert(con, table, sql, parameters)


def _insert(con: DuckDBPyConnection, table: str, sql: str, parameters: dict[str, Any]) -> int:
    """Run a statement that inserts or updates rows; return their number."""
    try:
        return int(con.execute(sql, parameters).fetchall()[0][0])
    except _STORE_ERRORS:
        raise
    except duckdb.Error as error:
        raise BadInputError(f"{table}: a row cannot be stored: {str(error).splitlines()[0]}") from error


def drop_orphans(con: DuckDBPyConnection) -> int:
    """Delete the rows without a conversation that a killed import left behind; return how many there were."""
    return sum(int(con.execute(sql).fetchall()[0][0]) for sql in _ORPHANS)


def delete_tombstones(con: DuckDBPyConnection) -> None:
    """Remove the tombstones of conversations that were imported again."""
    for sql in _DELETE_TOMBSTONES:
        con.execute(sql)
