"""Checks of a Parquet file before any row of it is stored: one invalid row would block exports and retention for ever."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import duckdb

from otel_agentic.errors import BadInputError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path

    from duckdb import DuckDBPyConnection

_FILE: Final = "read_parquet($file, hive_partitioning = false)"
#: The store represents ids as numbers in memory.
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
        BadInputError: it is not a Parquet file, not of this table, or contains an invalid id or time; names the problem.
    """
    parameters = {"file": str(file)}
    try:
        ((count,),) = con.execute(f"SELECT count(*) FROM {_FILE}", parameters).fetchall()  # noqa: S608 — our own fragment
        described = con.execute(f"SELECT * FROM {_FILE} LIMIT 0", parameters).description or []  # noqa: S608 — the same
        known = con.execute(f'SELECT * FROM "{table}" LIMIT 0').description or []  # noqa: S608 — a name of our own schema
        types = {str(column[0]): str(column[1]) for column in known}
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
    foreign = sorted(set(names) - set(columns))
    if foreign:
        raise BadInputError(
            f"{table}: the file has columns that the table lacks ({', '.join(foreign[:5])}): it was written by a newer release, or "
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
