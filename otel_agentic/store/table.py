"""Helpers for queries: the selection of conversations, rows as dictionaries, and numpy arrays as tables.

Rows are inserted as arrays instead of one INSERT per row; a `RowMap` maps the columns of a table to the fields of a
dataclass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import duckdb
import numpy as np
import orjson

from otel_agentic.evaluators.score_ids import score_ids_of
from otel_agentic.store.connection import DEFAULT

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from otel_agentic.conversations.model import Conversation
    from otel_agentic.evaluators.base import AskingEvaluator, Evaluator, MetricScore
    from otel_agentic.scoring.model import ConversationScore
    from otel_agentic.truth.match import Match


Row = dict[str, Any]

#: SQL conditions of a `Selection` on `c`, a row of the table `conversations` (the times of views are TIMESTAMPTZ). A
#: time range is compared with the window time of a conversation, not with the times that its sender's clock reported.
BOUNDS: Final = """
    ($since IS NULL OR c.window_time >= make_timestamp_ns($since))
    AND ($until IS NULL OR c.window_time < make_timestamp_ns($until))
    AND ($agent IS NULL OR c.agent GLOB $agent)
    AND ($agent_version IS NULL OR c.agent_version = $agent_version)
    AND ($environment IS NULL OR c.environment = $environment)
"""
#: Selects the conversations `c` in which a user's query contains a text.
ASKS: Final = """
    ($text IS NULL OR (c.environment, c.conversation_id, c.revision) IN (
        SELECT (environment, conversation_id, revision) FROM turns WHERE contains(lower(query), lower($text))
    ))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The closed conversations that a command considers; None means no bound. Times in ns.

    `agent` is a glob. The version and the environment are exact.
    """

    since_ns: int | None = None
    until_ns: int | None = None
    agent: str | None = None
    agent_version: str | None = None
    environment: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The scores of one evaluator for a conversation revision, with their ids, which are computed unless they are known.

    `restated`: the evaluator has scored the conversation before. `case_id` is the id of the reviewed case. `faults` are
    the contract violations of the evaluator, one sentence each.
    `evaluation` is the name of the evaluation; `evaluation_id` identifies the evaluator's version under it.
    """

    conversation: Conversation
    case_id: str | None
    evaluator: Evaluator | AskingEvaluator
    evaluation_id: str
    scores: tuple[MetricScore, ...]
    score_ids: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()
    restated: bool = False
    evaluation: str = DEFAULT

    def __post_init__(self) -> None:
        """Compute the ids."""
        if self.score_ids:
            return
        conversation = self.conversation
        ids = score_ids_of(
            self.evaluation_id,
            conversation.environment,
            str(conversation.conversation_id),
            conversation.revision,
            self.scores,
        )
        object.__setattr__(self, "score_ids", tuple(ids))


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """A conversation, its match, its score and the scores of evaluators.

    `sample_ratio` is the share of conversations evaluated at that time.
    """

    conversation: Conversation
    match: Match
    score: ConversationScore
    metrics: tuple[Measured, ...] = ()
    sample_ratio: float = 1.0


def bounds(selection: Selection) -> dict[str, Any]:
    """Return the parameters of `BOUNDS`."""
    return {
        "since": selection.since_ns,
        "until": selection.until_ns,
        "agent": selection.agent,
        "agent_version": selection.agent_version,
        "environment": selection.environment,
    }


def rows(con: DuckDBPyConnection, sql: str, parameters: Mapping[str, Any]) -> list[Row]:
    """Return the rows of a query as dictionaries."""
    result = con.execute(sql, dict(parameters)) if parameters else con.execute(sql)
    names = [str(column[0]) for column in result.description or ()]
    return [dict(zip(names, row, strict=True)) for row in result.fetchall()]


def split_by_kind(con: DuckDBPyConnection, sql: str) -> dict[int, np.ndarray[Any, np.dtype[np.int64]]]:
    """Return the column `ended_ns` of a query by its column `kind`, by which its rows are sorted."""
    columns = con.execute(sql).fetchnumpy()
    kinds, starts = np.unique(np.asarray(columns["kind"]), return_index=True)
    return dict(zip(kinds.tolist(), np.split(np.asarray(columns["ended_ns"]), starts)[1:], strict=True))


def parse_json(text: str | None) -> Any:
    """Return the value of a JSON text from the database, None for null."""
    return None if text is None else orjson.loads(text)


T = TypeVar("T")

#: The latest time that DuckDB can store: the next value is its infinity.
LAST_NS: Final = 2**63 - 2
#: SQL that converts the array of a column to the type of the column; other types are cast implicitly.
_READ: Final = {"TIMESTAMP_NS": "make_timestamp_ns({0})", "VARCHAR[]": "from_json({0}, '[\"VARCHAR\"]')"}

#: Up to this many rows are passed to a query as parameters instead of arrays.
_MAX_PARAMETER_ROWS: Final = 16
#: Up to this many rows are inserted as parameters instead of arrays.
_MAX_VALUES_ROWS: Final = 3


Array = np.ndarray[Any, Any]
#: Values of one column.
Column = Sequence[Any] | Array
#: Identity of a conversation in SQL: environment and conversation id.
Key = tuple[str, str]


@contextmanager
def registered(con: DuckDBPyConnection, name: str, columns: Mapping[str, np.ndarray[Any, Any]]) -> Iterator[None]:
    """Make numpy arrays readable in SQL as a table `name` while the block runs."""
    con.register(name, dict(columns))
    try:
        yield
    finally:
        with suppress(duckdb.TransactionException):  # an error that aborted the transaction is raised instead
            con.unregister(name)


def rows_with(
    con: DuckDBPyConnection,
    requested: Mapping[str, Column],
    sql: str,
    parameters: Mapping[str, Any] | None = None,
    *,
    fetch: bool = True,
) -> list[tuple[Any, ...]]:
    """Return all rows of a query that reads the table `requested`; `[]` without running it if that table is empty.

    Args:
        con: a connection.
        requested: columns of text or integers, all of one length.
        sql: the query.
        parameters: named parameters of the query.
        fetch: False for a statement without rows.
    """
    size = len(next(iter(requested.values())))
    if not size:
        return []
    if size <= _MAX_PARAMETER_ROWS:
        lists = {f"requested_{index}": _plain_values(values) for index, values in enumerate(requested.values())}
        result = con.execute(_with_parameter_table(sql, tuple(requested)), {**lists, **(parameters or {})})
        return result.fetchall() if fetch else []
    arrays = {
        name: object_array(values) if _is_text(values) else np.array(values) for name, values in requested.items()
    }
    with registered(con, "requested", arrays):
        result = con.execute(sql, dict(parameters)) if parameters else con.execute(sql)
        return result.fetchall() if fetch else []


@cache
def _with_parameter_table(sql: str, names: tuple[str, ...]) -> str:
    """Return a query whose table `requested` consists of parameters, which for few rows is faster than arrays."""
    columns = ", ".join(f'unnest($requested_{index}) AS "{name}"' for index, name in enumerate(names))
    query = sql.lstrip()
    table = f"WITH requested AS (SELECT {columns})"
    return f"{table}, {query[len('WITH ') :]}" if query.startswith("WITH ") else f"{table} {query}"


def key_columns(keys: Iterable[Key]) -> dict[str, list[str]]:
    """Return distinct conversation identities as sorted columns."""
    distinct_keys = sorted(set(keys))
    return {"environment": [key[0] for key in distinct_keys], "conversation_id": [key[1] for key in distinct_keys]}


def _plain_values(values: Column) -> list[Any]:
    """Return plain Python values: DuckDB accepts no numpy scalars as parameters."""
    return values.tolist() if isinstance(values, np.ndarray) else list(values)


def _is_text(values: Column) -> bool:
    return any(isinstance(value, str) or value is None for value in values)


#: Cached column types by table: every open file has the same schema.
_TYPES: Final[dict[str, Mapping[str, str]]] = {}


class Table:
    """The columns of one table and their types, as the database reports them."""

    def __init__(self, con: DuckDBPyConnection, name: str) -> None:
        self.name = name
        if name not in _TYPES:
            _TYPES[name] = _types(con, name)
        self.types: Mapping[str, str] = _TYPES[name]

    def insert(self, con: DuckDBPyConnection, columns: Mapping[str, Sequence[Any]]) -> None:
        """Append rows; see `NewRows`. The connection is in a transaction."""
        if not self.types.keys() >= columns.keys():  # cached from a file that had not been upgraded yet
            self.types = _TYPES[self.name] = _types(con, self.name)
        NewRows.of(self.name, self.types, columns).insert(con)


@dataclass(frozen=True, slots=True)
class NewRows:
    """Rows of a table as arrays, created before the transaction that inserts them, so that it is short, or in a worker process.

    `kinds` are the types of the columns. There are no columns if there are no rows.
    """

    table: str
    kinds: Mapping[str, str]
    arrays: Mapping[str, Array]

    @classmethod
    def of(cls, table: str, types: Mapping[str, str], columns: Mapping[str, Sequence[Any]]) -> NewRows:
        """Convert rows.

        Args:
            table: name of the table.
            types: the types of its columns; see `Table`.
            columns: every column that must not be null, all of one length. Times are integers, nanoseconds since the
                epoch; lists and objects for JSON columns are plain Python and are serialised here.
        """
        if not columns or not len(next(iter(columns.values()))):
            return cls(table, {}, {})
        kinds = {name: types[name] for name in columns}
        return cls(table, kinds, {name: _array(kinds[name], values) for name, values in columns.items()})

    @classmethod
    def joined(cls, parts: Sequence[NewRows]) -> NewRows:
        """Return the rows of several parts; those of them that have rows have the same columns."""
        filled = [part for part in parts if part.arrays]
        if len(filled) < 2:  # noqa: PLR2004 — nothing to join
            return (filled or parts)[0]
        columns = {name: [part.arrays[name] for part in filled] for name in filled[0].arrays}
        arrays = {
            name: np.ma.concatenate(column)  # type: ignore[no-untyped-call]
            if any(map(np.ma.isMaskedArray, column))
            else np.concatenate(column)
            for name, column in columns.items()
        }
        return cls(filled[0].table, filled[0].kinds, arrays)

    def columns(self, *names: str) -> list[list[Any]]:
        """Return columns as plain values, JSON as text; empty without rows."""
        return [self.arrays[name].tolist() if self.arrays else [] for name in names]

    def insert(self, con: DuckDBPyConnection) -> None:
        """Append the rows; the connection is in a transaction."""
        if not self.arrays:
            return
        names, kinds = tuple(self.kinds), tuple(self.kinds.values())
        size = len(next(iter(self.arrays.values())))
        if size <= _MAX_VALUES_ROWS:
            lists = [array.tolist() for array in self.arrays.values()]
            values = [column[row] for row in range(size) for column in lists]
            con.execute(_values_sql(self.table, names, kinds, size), values)
            return
        with registered(con, "batch", self.arrays):
            con.execute(_insert_sql(self.table, names, kinds))


class RowMap(Generic[T]):
    """Maps the columns of a table to the fields of a dataclass.

    The mapping follows from the schema and the class: a column contains the field of the same name, and a time column
    `x_at` the field `x_ns`. Columns without a field, and fields without a column, are left to the caller. The lists of
    INSERT and SELECT follow from the mapping.
    """

    def __init__(
        self,
        table: str,
        cls: type[T],
        *,
        fields_of: Mapping[str, str] | None = None,
        read: Mapping[str, Callable[[Any], Any]] | None = None,
    ) -> None:
        """Declare a mapping; the columns of the table are read on first use.

        Args:
            table: name of the table.
            cls: the dataclass.
            fields_of: fields by column, where the names differ.
            read: functions that convert the value of a column to the value of its field.
        """
        self.table = table
        self._cls = cls
        self._field_names = fields_of or {}
        self._read = read or {}
        self._fields = {field.name for field in fields(cls)}  # type: ignore[arg-type]  # a dataclass
        self._columns: dict[str, str] = {}
        self._converted: list[tuple[int, Callable[[Any], Any]]] = []

    def columns(self, con: DuckDBPyConnection, rows: Sequence[T]) -> dict[str, list[Any]]:
        """Return the columns of some objects, for `Table.insert`."""
        mapped = self.describe(Table(con, self.table).types)
        return {column: list(map(attrgetter(field), rows)) for column, field in mapped.items()}

    def select(self, con: DuckDBPyConnection, alias: str) -> str:
        """Return the SELECT list of the columns, for `build`; `alias` is the table's alias in the query."""
        types = Table(con, self.table).types
        return ", ".join(
            f'epoch_ns({alias}."{column}")' if types[column] == "TIMESTAMP_NS" else f'{alias}."{column}"'
            for column in self.describe(types)
        )

    def build(self, values: Sequence[Any], **others: Any) -> T:
        """Return an object with the values of `select`; `others` contains the fields without a column.

        The columns are known: `describe` or `select` was called before.
        """
        row = list(values)
        for index, convert in self._converted:
            row[index] = convert(row[index])
        return self._cls(**dict(zip(self._columns.values(), row, strict=True)), **others)

    def describe(self, types: Mapping[str, str]) -> Mapping[str, str]:
        """Return the field of each column that has one, in the order of the table, given the types of its columns."""
        if not self._columns:
            field_names = {
                column: self._field_names.get(column) or self._field_of(column, kind) for column, kind in types.items()
            }
            columns = {column: field for column, field in field_names.items() if field in self._fields}
            readers = {
                column: self._read.get(column) or (parse_json if types[column] == "JSON" else None)
                for column in columns
            }
            self._converted = [(index, read) for index, read in enumerate(readers.values()) if read is not None]
            self._columns = columns
        return self._columns

    @staticmethod
    def _field_of(column: str, kind: str) -> str:
        return f"{column.removesuffix('_at')}_ns" if kind == "TIMESTAMP_NS" else column


def from_row(cls: type[T], row: Sequence[Any]) -> T:
    """Return an object of a dataclass from a row; the columns of the query are the fields, in their order."""
    names = (field.name for field in fields(cls))  # type: ignore[arg-type]  # a dataclass
    return cls(**dict(zip(names, row, strict=True)))


def fields_of(items: Sequence[Any], *names: str) -> dict[str, list[Any]]:
    """Return columns filled from the fields of the same name."""
    return {name: list(map(attrgetter(name), items)) for name in names}


def columns_of(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Return rows with equal keys as columns, for `Table.insert`."""
    return {name: [row[name] for row in rows] for name in rows[0]} if rows else {}


class Feed:
    """Inserts arrays into one table over one connection.

    Registering arrays takes DuckDB as long as inserting several hundred rows. So empty arrays are registered once, and
    each INSERT replaces them under the same names.
    """

    def __init__(self, con: DuckDBPyConnection, table: str) -> None:
        """Register empty arrays for all columns of the table; the connection must be outside a transaction."""
        kinds = Table(con, table).types
        self._con = con
        self._empty = {name: np.empty(0, dtype=_FEED_DTYPES.get(kind, object)) for name, kind in kinds.items()}
        self._arrays = dict(self._empty)
        columns = ", ".join(f'"{name}"' for name in kinds)
        self._sql = f'INSERT INTO "{table}" ({columns}) SELECT {columns} FROM "{table}_feed"'  # noqa: S608 — names of our own schema
        con.register(f"{table}_feed", self._arrays)

    def insert(self, arrays: Mapping[str, Array]) -> None:
        """Append rows; `arrays` contains every column of the table, all of one length, with times from `time_array`."""
        self._arrays.update(arrays)
        try:
            self._con.execute(self._sql)
        finally:
            self._arrays.update(self._empty)  # releases the memory of the texts


def _types(con: DuckDBPyConnection, name: str) -> Mapping[str, str]:
    """Return the types of a table's columns. Faster than querying the catalog, which also describes every view."""
    described = con.execute(f'SELECT * FROM "{name}" LIMIT 0').description or []  # noqa: S608 — a name of our own schema
    return {column: str(kind) for column, kind, *_ in described}


@cache
def _insert_sql(table: str, names: tuple[str, ...], types: tuple[str, ...]) -> str:
    """Return the INSERT of fixed columns; every name in it comes from our own schema."""
    quoted = [f'"{name}"' for name in names]
    read = [_READ.get(kind, "{0}").format(name) for name, kind in zip(quoted, types, strict=True)]
    return f'INSERT INTO "{table}" ({", ".join(quoted)}) SELECT {", ".join(read)} FROM batch'  # noqa: S608 — names of our own schema


@cache
def _values_sql(table: str, names: tuple[str, ...], kinds: tuple[str, ...], size: int) -> str:
    """Return the INSERT of a few rows whose values are parameters; every name in it comes from our own schema."""
    quoted = ", ".join(f'"{name}"' for name in names)
    row = ", ".join(_READ.get(kind, "{0}").format("?") for kind in kinds)
    return f'INSERT INTO "{table}" ({quoted}) VALUES {", ".join([f"({row})"] * size)}'  # noqa: S608 — names of our own schema


def _array(kind: str, values: Sequence[Any]) -> np.ndarray[Any, Any]:
    if kind in {"JSON", "VARCHAR[]"}:
        return object_array([None if value is None else json_text(value) for value in values])
    if kind == "VARCHAR":
        return object_array(values)
    mask = [value is None for value in values]
    filled = np.array([0 if value is None else value for value in values], dtype=_DTYPES[kind])
    if kind == "TIMESTAMP_NS":
        filled = np.minimum(filled, LAST_NS)
    return np.ma.masked_array(filled, mask=mask) if any(mask) else filled


_DTYPES: Final = {
    "BOOLEAN": "bool",
    "DOUBLE": "float64",
    "INTEGER": "int32",
    "BIGINT": "int64",
    "UBIGINT": "uint64",
    "UTINYINT": "uint8",
    "USMALLINT": "uint16",
    "TIMESTAMP_NS": "int64",
}
#: The types of the arrays of a `Feed`, whose times have a time type already.
_FEED_DTYPES: Final = {**_DTYPES, "TIMESTAMP_NS": "datetime64[ns]"}


def object_array(values: Column) -> Array:
    """Return values as an array of Python objects: text, and None for null."""
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def time_array(times_ns: Sequence[int]) -> Array:
    """Return times as an array that SQL reads as TIMESTAMP_NS, capped at the latest time that DuckDB can store."""
    return np.minimum(np.array(times_ns, dtype=np.int64), LAST_NS).view("datetime64[ns]")


def json_text(value: Any) -> str:
    """Return a value as JSON text; bytes become base64 text under `$bytes`, values of unknown types their `str`.

    Text that is JSON already must be passed as `Raw`.
    """
    if isinstance(value, Raw):
        return value
    return orjson.dumps(value, default=_json_default, option=orjson.OPT_NON_STR_KEYS).decode()


class Raw(str):
    """JSON text, which is not serialised again."""

    __slots__ = ()


def _json_default(value: Any) -> Any:
    import base64  # noqa: PLC0415 — bytes are rare in telemetry

    if isinstance(value, bytes):
        return {"$bytes": base64.b64encode(value).decode()}
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, (set, frozenset, tuple)):
        return list(value)
    return str(value)
