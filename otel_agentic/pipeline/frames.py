"""Tables of plain values as pandas data frames and Arrow tables, if these are installed."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import orjson

from otel_agentic.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd
    import pyarrow as pa  # type: ignore[import-untyped]  # it has no stubs

    from otel_agentic.pipeline.tables import ColumnKind, Row

EXTRA: Final = "pip install 'otel-agentic[notebook]'"
#: The pandas type of a column: types that distinguish a missing value from 0, false and "".
_PANDAS: Final[Mapping[ColumnKind, str]] = {
    "text": "string",
    "int": "Int64",
    "float": "Float64",
    "bool": "boolean",
    "json": "object",
}


def to_pandas(columns: Mapping[str, ColumnKind], rows: Sequence[Row]) -> pd.DataFrame:
    """Return rows as a data frame with these columns, even if there are no rows.

    Times are in UTC with nanoseconds; a JSON value stays a Python object.

    Raises:
        UsageError: pandas is not installed; the message names the extra.
    """
    pandas = _module("pandas", "to_pandas")
    columns_of_frame = {
        name: pandas.to_datetime([row[name] for row in rows], unit="ns", utc=True)
        if kind == "time"
        else pandas.Series([row[name] for row in rows], dtype=_PANDAS[kind])
        for name, kind in columns.items()
    }
    frame: pd.DataFrame = pandas.DataFrame(columns_of_frame, columns=list(columns))
    return frame


def to_arrow(columns: Mapping[str, ColumnKind], rows: Sequence[Row]) -> pa.Table:
    """Return rows as an Arrow table with these columns, even if there are no rows.

    Times are in UTC with nanoseconds; JSON values are JSON text.

    Raises:
        UsageError: pyarrow is not installed; the message names the extra.
    """
    arrow = _module("pyarrow", "to_arrow")
    types = {
        "text": arrow.string(),
        "int": arrow.int64(),
        "float": arrow.float64(),
        "bool": arrow.bool_(),
        "time": arrow.timestamp("ns", tz="UTC"),
        "json": arrow.string(),
    }
    arrays = [
        arrow.array([_json(row[name]) if kind == "json" else row[name] for row in rows], type=types[kind])
        for name, kind in columns.items()
    ]
    table: pa.Table = arrow.table(arrays, names=list(columns))
    return table


def _json(value: Any) -> str | None:
    return None if value is None else orjson.dumps(value, default=str, option=orjson.OPT_NON_STR_KEYS).decode()


def _module(name: str, method: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise UsageError(f"{method} needs {name}: {EXTRA}") from error
