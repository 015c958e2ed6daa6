"""The result of a query as a Parquet file, through a separate DuckDB in memory."""

from __future__ import annotations

import json
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import duckdb
import numpy as np

from otel_agentic.errors import QueryError
from otel_agentic.store.table import registered

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Types to which their text is cast back; values of other types stay text.
_CAST_BACK: Final = re.compile(
    r"BOOLEAN|U?(?:TINYINT|SMALLINT|INTEGER|BIGINT)|FLOAT|DOUBLE|DECIMAL\(\d+,\s?\d+\)|DATE|TIME|TIMESTAMP(?:_S|_MS|_NS)?|"
    r"TIMESTAMP WITH TIME ZONE|UUID"
)
_LIMITS: Final = {
    "memory_limit": "1GB",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}


def parquet_of(columns: Sequence[str], types: Sequence[str], rows: Sequence[Sequence[Any]]) -> bytes:
    """Return a Parquet file of rows.

    Args:
        columns: their names; a repeated name gets a number.
        types: DuckDB's names of their types. A value of a nested type is its JSON text.
        rows: values as JSON can represent them.

    Raises:
        QueryError: a value does not have its type.
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
    """Return names that are distinct also without regard to case, quoted for SQL."""
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


def _texts(values: Sequence[Any]) -> np.ndarray[Any, Any]:
    array = np.empty(len(values), dtype=object)
    array[:] = [_text(value) for value in values]
    return array


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return repr(value) if isinstance(value, int | float) else json.dumps(value, ensure_ascii=False)
