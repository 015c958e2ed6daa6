"""Erasure: finds and deletes everything stored about conversations, in the tables and in the exported Parquet files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from otel_agentic.store.conversations import drop_unused
from otel_agentic.store.judges import clear_verdicts
from otel_agentic.store.maintenance.export import EXPORTED, READ, copy_rows, move_durably, work_folder
from otel_agentic.store.maintenance.retention import (
    add_to_retention_state,
    marks_of,
    record_removal,
    remove_results,
)
from otel_agentic.store.results import fetch_columns
from otel_agentic.store.table import LAST_NS, Key, key_columns, rows_with
from otel_agentic.store.truth import record_datasets

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


class Link(NamedTuple):
    """The conversation that a trace, or the part of it with an explicit conversation id, is linked to."""

    trace_id: str
    environment: str
    explicit_id: str | None
    conversation_id: str

    @property
    def key(self) -> Key:
        """The identity of the conversation."""
        return (self.environment, self.conversation_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Erasure:
    """The subject of an erasure.

    Attributes:
        keys: conversations.
        traces: traces that belong to no other conversation.
        spans: (trace id, span id) of the parts of other traces.
        feedback_of: the end user whose feedback is erased, too.
    """

    keys: frozenset[Key] = frozenset()
    traces: frozenset[str] = frozenset()
    spans: frozenset[tuple[str, str]] = frozenset()
    feedback_of: str | None = None


_LINKS: Final = "SELECT DISTINCT trace_id, environment, explicit_id, conversation_id FROM {links}"
_LINKS_OF_TRACES: Final = f"{_LINKS} SEMI JOIN requested USING (trace_id) WHERE conversation_id IS NOT NULL"
_LINKS_OF_KEYS: Final = f"{_LINKS} SEMI JOIN requested USING (environment, conversation_id)"
_KEYS_NAMED: Final = """
SELECT environment, conversation_id FROM {conversations} WHERE conversation_id = $name
UNION
SELECT environment, conversation_id FROM {links} WHERE conversation_id = $name
"""
#: Spans that name a conversation, or one of its users; of the first only those in no conversation yet matter.
_SPANS_NAMING: Final = """
SELECT DISTINCT trace_id, span_id FROM {spans} WHERE ($environment IS NULL OR environment = $environment) AND
"""
_CONVERSATION: Final = "conversation_id = $value"
_USER: Final = "list_contains(json_extract_string(attributes, [{paths}]), $value)"
_CASES: Final = """
SELECT DISTINCT dataset, case_id FROM cases
WHERE list_has_any(from_json(coalesce(definition -> 'promoted_from', '[]'), '["VARCHAR"]'), (SELECT list(conversation_id) FROM erased_keys))
ORDER BY dataset, case_id
"""
_CASE_TABLES: Final = ("cases", "case_turns", "expected_calls", "dataset_members")

#: Tables with rows about conversations: every one that has a conversation id, and the log records.
_TABLES: Final = """
SELECT DISTINCT table_name FROM duckdb_columns()
WHERE column_name = 'conversation_id' AND table_name IN (SELECT table_name FROM duckdb_tables() WHERE NOT temporary)
UNION SELECT 'log_records'
ORDER BY table_name
"""
_BY_KEY: Final = """
EXISTS (
    SELECT 1 FROM erased_keys e
    WHERE e.conversation_id = t.conversation_id AND (t.environment IS NULL OR t.environment = e.environment)
)
"""
_BY_TRACE: Final = "t.trace_id IN (SELECT trace_id FROM erased_traces)"
_BY_SPAN: Final = f"({_BY_TRACE} OR (t.trace_id, t.span_id) IN (SELECT (trace_id, span_id) FROM erased_spans))"  # noqa: S608 — same
_CONDITIONS: Final = {
    "spans": _BY_SPAN,
    "log_records": _BY_SPAN,
    "trace_links": f"({_BY_KEY} OR {_BY_TRACE})",
    "not_rebuilt": f"({_BY_KEY} OR coalesce({_BY_TRACE}, false))",
    "annotations": f"({_BY_KEY} OR (t.source = 'event' AND t.annotator IN (SELECT annotator FROM erased_annotators)))",  # noqa: S608 — same
}
_TEMPORARY: Final = {
    "erased_keys": ("environment", "conversation_id"),
    "erased_traces": ("trace_id",),
    "erased_spans": ("trace_id", "span_id"),
    "erased_annotators": ("annotator",),
}
_RESULTS: Final = f"SELECT rowid AS place, environment, conversation_id FROM results t WHERE {_BY_KEY}"  # noqa: S608 — our own fragment
#: Verdicts do not name the conversation that they are about; none is older than its first revision.
_BUILT: Final = f"SELECT epoch_ns(min(built_at)) FROM conversations t WHERE {_BY_KEY}"  # noqa: S608 — same
_FILE_EMPTY: Final = "UPDATE exports SET file = NULL WHERE file = $file"


def _everywhere(folder: Path, table: str) -> tuple[str, dict[str, Any]]:
    """Return SQL of all rows of a table, in the store and in exported files, and its parameters."""
    files = [str(path) for path in exported_files(folder, table)]
    if not files:
        return table, {}
    read = f"read_parquet(${table}_files, hive_partitioning = false, union_by_name = true)"
    return f"(SELECT * FROM {table} UNION ALL BY NAME SELECT * FROM {read})", {f"{table}_files": files}  # noqa: S608 — a name of our own schema


def exported_files(folder: Path, table: str) -> list[Path]:
    """Return the exported files of a table."""
    return sorted((folder / table).glob("day=*/*.parquet"))


def spans_of_user(
    con: DuckDBPyConnection, folder: Path, user: str, attributes: Iterable[str], environment: str | None
) -> set[tuple[str, str]]:
    """Return the (trace id, span id) of the spans of which one of the attributes names a user."""
    paths = ", ".join(f"""'$."{name}"'""" for name in attributes)
    return _spans_naming(con, folder, _USER.format(paths=paths), user, environment)


def spans_of_conversation(
    con: DuckDBPyConnection, folder: Path, conversation_id: str, environment: str | None
) -> set[tuple[str, str]]:
    """Return the (trace id, span id) of the spans that name a conversation themselves."""
    return _spans_naming(con, folder, _CONVERSATION, conversation_id, environment)


def _spans_naming(
    con: DuckDBPyConnection, folder: Path, condition: str, value: str, environment: str | None
) -> set[tuple[str, str]]:
    spans, parameters = _everywhere(folder, "spans")
    sql = f"{_SPANS_NAMING.format(spans=spans)} {condition}"
    rows = con.execute(sql, {**parameters, "value": value, "environment": environment}).fetchall()
    return {(trace_id, span_id) for trace_id, span_id in rows}


def keys_named(con: DuckDBPyConnection, folder: Path, name: str) -> set[Key]:
    """Return the conversations with an id, in all environments."""
    conversations, parameters = _everywhere(folder, "conversations")
    links, more = _everywhere(folder, "trace_links")
    sql = _KEYS_NAMED.format(conversations=conversations, links=links)
    rows = con.execute(sql, {**parameters, **more, "name": name}).fetchall()
    return {(environment, conversation_id) for environment, conversation_id in rows}


def links_of_traces(con: DuckDBPyConnection, folder: Path, traces: Iterable[str]) -> set[Link]:
    """Return the conversations that traces, or parts of them, are linked to."""
    links, parameters = _everywhere(folder, "trace_links")
    sql = _LINKS_OF_TRACES.format(links=links)
    return {Link(*row) for row in rows_with(con, {"trace_id": sorted(set(traces))}, sql, parameters)}


def links_of_keys(con: DuckDBPyConnection, folder: Path, keys: Iterable[Key]) -> set[Link]:
    """Return the traces, or parts of them, that are linked to conversations."""
    links, parameters = _everywhere(folder, "trace_links")
    return {Link(*row) for row in rows_with(con, key_columns(keys), _LINKS_OF_KEYS.format(links=links), parameters)}


def count_rows(con: DuckDBPyConnection, erasure: Erasure) -> dict[str, int]:
    """Return how many rows of each table are about the erased conversations; tables without one are omitted."""
    with _registered(con, erasure):
        counts = {table: _count(con, f'"{table}"', table) for (table,) in con.execute(_TABLES).fetchall()}
    return {table: count for table, count in counts.items() if count}


def count_exported(con: DuckDBPyConnection, folder: Path, erasure: Erasure) -> dict[Path, int]:
    """Return how many rows of each exported file are about the erased conversations; files without one are omitted."""
    with _registered(con, erasure):
        return dict(_affected(con, folder))


def cases_of(con: DuckDBPyConnection, erasure: Erasure) -> list[tuple[str, str]]:
    """Return the (dataset, case id) of the cases that were made from the erased conversations."""
    with _registered(con, erasure):
        return [(dataset, case_id) for dataset, case_id in con.execute(_CASES).fetchall()]


def rewrite_exported(con: DuckDBPyConnection, folder: Path, erasure: Erasure) -> list[str]:
    """Rewrite the exported files without the erased rows, each one atomically.

    Returns:
        The files that had no other row and were removed, relative to the folder.

    Raises:
        duckdb.Error: a file cannot be read or written.
        OSError: a file cannot be replaced.
    """
    removed = []
    with _registered(con, erasure):
        for path, _ in list(_affected(con, folder)):
            table = EXPORTED[path.relative_to(folder).parts[0]]
            others = f"SELECT * FROM {READ} t WHERE NOT coalesce({_condition(table.name)}, false)"  # noqa: S608 — our own fragments
            old = {"old": [str(path)]}
            (row_count,) = con.execute(f"SELECT count(*) FROM ({others})", old).fetchall()[0]  # noqa: S608 — same
            if not row_count:
                path.unlink()
                removed.append(path.relative_to(folder).as_posix())
                continue
            with work_folder(folder) as work:
                draft = work / path.name
                copy_rows(con, others, old, draft, order=table.order, row_count=row_count)
                move_durably(draft, path)
    return removed


def delete(
    con: DuckDBPyConnection, erasure: Erasure, removed_files: Sequence[str], *, now_ns: int, counted_from_ns: int
) -> tuple[dict[str, int], int]:
    """Delete the erased rows in a transaction of the writer.

    The counts of results stay, so that claims about an agent version do not change. Verdicts of judges do not name their
    conversation, so all verdicts since the first of the conversations was built are taken out of the cache.

    Args:
        con: a connection in a transaction of the writer.
        erasure: the conversations, traces and spans.
        removed_files: from `rewrite_exported`.
        now_ns: the current time, ns since the epoch.
        counted_from_ns: start of the budget window of judges, ns since the epoch.

    Returns:
        The deleted rows by table, and the number of cleared verdicts.
    """
    keys, traces = key_columns(erasure.keys), {"trace_id": sorted(erasure.traces)}
    marks = marks_of(con, keys)
    with _registered(con, erasure):
        ((built_ns,),) = con.execute(_BUILT).fetchall()
        deleted = {"results": remove_results(con, fetch_columns(con, _RESULTS, {}), LAST_NS)}
        for (table,) in con.execute(_TABLES).fetchall():
            if table != "results":
                sql = f'DELETE FROM "{table}" t WHERE {_condition(table)}'  # noqa: S608 — our own fragments
                deleted[table] = int(con.execute(sql).fetchall()[0][0])
        cases = con.execute(_CASES).fetchall()
    owners = {"dataset": [dataset for dataset, _ in cases], "case_id": [case_id for _, case_id in cases]}
    for table in _CASE_TABLES:
        sql = f"DELETE FROM {table} WHERE (dataset, case_id) IN (SELECT (dataset, case_id) FROM requested)"  # noqa: S608 — same
        rows_with(con, owners, sql, fetch=False)
    if cases:
        record_datasets(con, "store erase", now_ns)
    verdicts = 0
    if built_ns is not None:
        verdicts = clear_verdicts(con, since_ns=int(built_ns), counted_from_ns=counted_from_ns)
    for file in removed_files:
        con.execute(_FILE_EMPTY, {"file": file})
    record_removal(con, keys, traces, marks, now_ns)
    counts = {"spans": deleted["spans"], "log_records": deleted["log_records"]}
    add_to_retention_state(con, now_ns, conversations=len(erasure.keys), **counts)
    drop_unused(con)
    return {table: count for table, count in deleted.items() if count}, verdicts


@contextmanager
def _registered(con: DuckDBPyConnection, erasure: Erasure) -> Iterator[None]:
    """Make an erasure readable in SQL, as temporary tables, while the block runs."""
    contents: dict[str, Iterable[tuple[str, ...]]] = {
        "erased_keys": erasure.keys,
        "erased_traces": ((trace_id,) for trace_id in erasure.traces),
        "erased_spans": erasure.spans,
        "erased_annotators": () if erasure.feedback_of is None else ((erasure.feedback_of,),),
    }
    for table, columns in _TEMPORARY.items():
        con.execute(f"CREATE OR REPLACE TEMP TABLE {table} ({', '.join(f'{name} VARCHAR' for name in columns)})")
        values = list(zip(*contents[table], strict=True)) or [()] * len(columns)
        requested = {name: list(column) for name, column in zip(columns, values, strict=True)}
        rows_with(con, requested, f"INSERT INTO {table} SELECT * FROM requested", fetch=False)  # noqa: S608 — a name from above
    yield
    for table in _TEMPORARY:
        con.execute(f"DROP TABLE {table}")


def _affected(con: DuckDBPyConnection, folder: Path) -> Iterator[tuple[Path, int]]:
    for table in EXPORTED:
        for path in exported_files(folder, table):
            if count := _count(con, READ, table, {"old": [str(path)]}):
                yield path, count


def _count(con: DuckDBPyConnection, source: str, table: str, parameters: dict[str, Any] | None = None) -> int:
    sql = f"SELECT count(*) FROM {source} t WHERE {_condition(table)}"  # noqa: S608 — our own fragments
    return int(con.execute(sql, parameters or {}).fetchall()[0][0])


def _condition(table: str) -> str:
    return _CONDITIONS.get(table, _BY_KEY)
