"""Reads and writes Parquet files with a separate DuckDB in memory: the store's DuckDB has no file-system access."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import duckdb

from otel_agentic.errors import CaseError, QueryError, TooLargeError
from otel_agentic.store.table import Array, object_array, registered

#: Limits of a file of cases, in rows and decompressed bytes: a small file may decompress to very much data.
MAX_ROWS: Final = 1_000_000
MAX_BYTES: Final = 256 * 1024 * 1024
_SIZE: Final = """
SELECT
    (SELECT sum(num_rows) FROM parquet_file_metadata($path)),
    (SELECT sum(total_uncompressed_size) FROM parquet_metadata($path))
"""
# A folder named `year=2026` is not a column of the file.
_ROWS: Final = "SELECT * FROM read_parquet($path, hive_partitioning = false)"
_LIMITS: Final = {
    "memory_limit": "1GB",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}
_INT64: Final = 2**63


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """The columns of a file, and its rows by column, in its order; values are plain Python objects."""

    columns: tuple[str, ...]
    rows: tuple[Mapping[str, Any], ...]


def read_parquet(path: Path) -> Table:
    """Return the rows of a Parquet file; column names in lower case.

    Raises:
        CaseError: the file cannot be read as Parquet.
        TooLargeError: it contains more than a file of cases may.
    """
    with _connection() as con:
        try:
            count, size = con.execute(_SIZE, {"path": str(path)}).fetchall()[0]
            if (count or 0) > MAX_ROWS or (size or 0) > MAX_BYTES:
                raise TooLargeError(
                    f"{path}: {count:,} rows, {size:,} bytes when decompressed; "
                    f"allowed: {MAX_ROWS:,} rows and {MAX_BYTES // 2**20} MiB; split it into several files"
                )
            result = con.execute(_ROWS, {"path": str(path)})
            columns = tuple(str(column[0]).strip().lower() for column in result.description or ())
            rows = result.fetchall()
        except duckdb.Error as error:
            message = str(error).strip().split("\n", 1)[0]
            raise CaseError(f"{path}: not readable as Parquet: {message}") from error
    return Table(columns=columns, rows=tuple(dict(zip(columns, row, strict=True)) for row in rows))


def write_parquet(path: Path, columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows as a Parquet file: a column is text unless all its values are booleans, or all are numbers.

    Raises:
        CaseError: the file cannot be written.
    """
    values = {column: [row.get(column) for row in rows] for column in columns}
    kinds = {column: _kind(column_values) for column, column_values in values.items()}
    casts = ", ".join(f'CAST("{column}" AS {kind}) AS "{column}"' for column, kind in kinds.items())
    with (
        _connection() as con,
        registered(con, "batch", {column: _text_array(column_values) for column, column_values in values.items()}),
    ):
        try:
            con.sql(f"SELECT {casts} FROM batch").write_parquet(str(path))  # noqa: S608 — columns of our own layout
        except duckdb.Error as error:
            message = str(error).strip().split("\n", 1)[0]
            raise CaseError(f"{path}: cannot be written: {message}") from error


@contextmanager
def _connection() -> Iterator[duckdb.DuckDBPyConnection]:
    con = duckdb.connect(":memory:", config=dict(_LIMITS))
    try:
        yield con
    finally:
        con.close()


def _kind(values: Sequence[Any]) -> str:
    """Return the type of a column."""
    kinds = {type(value) for value in values if value is not None}
    if kinds == {bool}:
        return "BOOLEAN"
    if kinds == {int} and all(value is None or -_INT64 <= value < _INT64 for value in values):
        return "BIGINT"
    return "DOUBLE" if kinds and kinds <= {int, float} and float in kinds else "VARCHAR"


def _text_array(values: Sequence[Any]) -> Array:
    """Return values as texts, which DuckDB casts: numbers keep all their digits."""
    return object_array([value if value is None or isinstance(value, str) else repr(value) for value in values])


#: Types to which their text is cast back; values of other types stay text.
_CAST_BACK: Final = re.compile(
    r"BOOLEAN|U?(?:TINYINT|SMALLINT|INTEGER|BIGINT)|FLOAT|DOUBLE|DECIMAL\(\d+,\s?\d+\)|DATE|TIME|TIMESTAMP(?:_S|_MS|_NS)?|"
    r"TIMESTAMP WITH TIME ZONE|UUID"
)


def parquet_of(columns: Sequence[str], types: Sequence[str], rows: Sequence[Sequence[Any]]) -> bytes:
    """Return a Parquet file of rows.

    Args:
        columns: names of the columns; a repeated name gets a number.
        types: DuckDB's names of their types. A value of a nested type becomes its JSON text.
        rows: values that JSON can represent.

    Raises:
        QueryError: a value cannot be converted to the type of its column.
    """
    if not columns:
        raise QueryError("the answer has no columns; a Parquet file needs one")
    texts = {f"c{index}": _texts([row[index] for row in rows]) for index in range(len(columns))}
    names = _distinct(columns)
    casts = ", ".join(
        f'{_cast(f"c{index}", kind)} AS "{name}"' for index, (name, kind) in enumerate(zip(names, types, strict=True))
    )
    with tempfile.TemporaryDirectory(prefix="otel-agentic-") as folder:
        path = Path(folder, "answer.parquet")
        with duckdb.connect(":memory:", config=dict(_LIMITS)) as con, registered(con, "answer", texts):
            try:
                con.execute("SET TimeZone = 'UTC'")
                con.sql(f"SELECT {casts} FROM answer").write_parquet(str(path))  # noqa: S608 — types are matched, names quoted
            except duckdb.Error as error:
                raise QueryError(f"the answer cannot be written as Parquet: {str(error).splitlines()[0]}") from error
        return path.read_bytes()


def _cast(column: str, kind: str) -> str:
    if kind == "BLOB":
        return f"unhex({column})"
    return f"CAST({column} AS {kind})" if _CAST_BACK.fullmatch(kind) else f"CAST({column} AS VARCHAR)"


def _distinct(columns: Sequence[str]) -> list[str]:
    """Return names that are distinct regardless of case, quoted for SQL."""
    used: set[str] = set()
    names = []
    for column in columns:
        name, number = column.replace("\0", "\ufffd") or "_", 1
        while name.lower() in used:
            number += 1
            name = f"{column}_{number}"
        used.add(name.lower())
        names.append(name.replace('"', '""'))
    return names


def _texts(values: Sequence[Any]) -> Array:
    return object_array([_text(value) for value in values])


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return repr(value) if isinstance(value, int | float) else json.dumps(value, ensure_ascii=False)
