"""What SQL of people may say, read from DuckDB's own parse of it: quotes, comments and spelling hide nothing."""

from __future__ import annotations

import difflib
import posixpath
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import duckdb
import orjson

from otel_agentic.errors import QueryError
from otel_agentic.store.query_functions import PARQUET_READERS, SYSTEM_VIEWS, TABLES, VALUES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet
    from pathlib import Path

    from duckdb import DuckDBPyConnection

_KINDS: Final = frozenset({duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN})
#: Parts of a statement that read. Others, as `WITH gone AS (DELETE …)` has them, are refused, also those yet to be invented.
_NODES: Final = frozenset({"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"})
_NODE: Final = re.compile(r"\w+_NODE")
#: What stands before the statement that EXPLAIN explains.
_EXPLAIN: Final = re.compile(
    r"\s*EXPLAIN\b(\s+ANALYZE\b)?(\s*\(\s*\w+(\s+\w+)?(\s*,\s*\w+(\s+\w+)?)*\s*\))?", re.IGNORECASE
)
_PARSED: Final = "SELECT json_serialize_sql($sql::VARCHAR)"
_RELATIONS: Final = """
SELECT lower(view_name), internal FROM duckdb_views()
UNION ALL
SELECT lower(table_name), internal FROM duckdb_tables()
"""
#: A statement longer or deeper than any that a person writes only keeps the parser busy.
MAX_CHARACTERS: Final = 50_000


class Used(NamedTuple):
    """A name that a statement uses: of a "value" or "table" function, or of a "relation", which may be a file."""

    kind: str
    name: str
    schema: str = ""
    paths: tuple[str, ...] | None = ()


def checked(
    con: DuckDBPyConnection, sql: str, *, hidden: AbstractSet[str] = frozenset(), folder: Path | None = None
) -> duckdb.Statement:
    """Return the one statement in a text, if it is a SELECT, or an EXPLAIN of one, that uses nothing it should not.

    Args:
        con: a connection to the store.
        sql: the text.
        hidden: tables that nobody may read, in lower case.
        folder: the folder whose Parquet files may be read, None for no file.

    Raises:
        QueryError: it is not; says what is wrong.
    """
    if len(sql) > MAX_CHARACTERS:
        raise QueryError(f"the statement has {len(sql):,} characters; allowed: {MAX_CHARACTERS:,}")
    try:
        statements = con.extract_statements(sql)
        kinds = [each.type for each in statements]
    except duckdb.Error as error:
        raise QueryError(f"not SQL: {str(error).rstrip()}") from error
    except (ValueError, TypeError) as error:  # a kind of statement that Python knows no name of; half a character
        raise QueryError("not a statement that can be run here; give exactly one SELECT") from error
    if len(statements) != 1:
        raise QueryError(f"{len(statements)} statements; give exactly one SELECT")
    (statement,) = statements
    if statement.type not in _KINDS:
        kind = kinds[0].name
        raise QueryError(f"{kind} is not allowed: the store is read with SELECT or EXPLAIN, and changed by commands")
    parsed = _parsed(con, statement)
    _require_reading(parsed)
    found = con.execute(_RELATIONS).fetchall()
    allowed = {name for name, internal in found if not internal} - hidden
    taken = {name for name, internal in found if internal} | hidden
    for name in _cte_names(parsed):
        _require_own_name(name, taken)
        allowed.add(name.lower())
    for used in _used(parsed):
        _require_allowed(used, allowed, hidden, folder)
    return statement


def _parsed(con: DuckDBPyConnection, statement: duckdb.Statement) -> Any:
    """Return a SELECT, also one that is explained, as DuckDB's own parser reads it."""
    prefix = _EXPLAIN.match(statement.query) if statement.type == duckdb.StatementType.EXPLAIN else None
    text = statement.query[prefix.end() :] if prefix is not None else statement.query
    try:
        found = orjson.loads(con.execute(_PARSED, {"sql": text}).fetchall()[0][0])
    except (duckdb.Error, orjson.JSONDecodeError) as error:  # the tree is deeper than one of the two can go
        raise QueryError("the statement is nested too deeply, or holds what no text can") from error
    if found.get("error") or not found.get("statements"):
        raise QueryError("only SELECT, and EXPLAIN [ANALYZE] of one SELECT, can be run here")
    return found["statements"]


def _require_reading(parsed: Any) -> None:
    for node in _nodes(parsed):
        kind = _kind_of(node)
        if _NODE.fullmatch(kind) and kind not in _NODES:
            told = kind.removesuffix("_NODE").removesuffix("_QUERY")
            raise QueryError(f"{told} is not allowed inside a SELECT: the store is read with SELECT or EXPLAIN")


def _require_own_name(name: str, taken: AbstractSet[str]) -> None:
    """Refuse a WITH clause that is called like something refused: elsewhere in the statement the name may mean that."""
    if name.lower() in taken or not name.isidentifier():
        raise QueryError(f"WITH {name}: give it another name; allowed: letters, digits and _, no name of the system")


def _require_allowed(used: Used, relations: AbstractSet[str], hidden: AbstractSet[str], folder: Path | None) -> None:
    name = used.name.lower()
    if used.kind == "relation":
        _require_relation(used, relations, hidden, folder)
    elif name not in (VALUES if used.kind == "value" else TABLES):
        raise QueryError(f"function {used.name} is not allowed: queries may call what computes, and nothing else")
    elif name in PARQUET_READERS and not _in_folder(used.paths, folder):
        raise _no_file(folder)


def _require_relation(used: Used, relations: AbstractSet[str], hidden: AbstractSet[str], folder: Path | None) -> None:
    name, schema = used.name.lower(), used.schema.lower()
    if name in hidden:
        raise QueryError(f"table {used.name} is not allowed: it holds what the store keeps to itself")
    if (name in relations and schema in {"", "main"}) or name in SYSTEM_VIEWS.get(schema or "main", ()):
        return
    if not schema and name in SYSTEM_VIEWS["pg_catalog"]:
        return
    if not schema and name.endswith(".parquet"):
        if _in_folder((used.name,), folder):
            return
        raise _no_file(folder)
    near = difflib.get_close_matches(name, relations, n=1)
    more = f"did you mean {near[0]}? " if near else ""
    raise QueryError(
        f"the query failed: table {used.name} is not allowed, or there is none: {more}SHOW TABLES lists them"
    )


def _no_file(folder: Path | None) -> QueryError:
    if folder is None:
        return QueryError("queries read no files; the store exports none (retention.export)")
    return QueryError(f"queries read Parquet files of the export only: name them, as text, below {folder}")


def _in_folder(paths: Sequence[str] | None, folder: Path | None) -> bool:
    """Return whether all paths, written out in the statement, lie in a folder. Nothing is looked up on the disk."""
    if folder is None or not paths:
        return False
    base = str(folder)
    return all(path == posixpath.normpath(path) and path.startswith(f"{base}/") for path in paths)


def _cte_names(parsed: Any) -> Iterator[str]:
    """Yield the names of the WITH clauses in a parsed statement."""
    for node in _nodes(parsed):
        for entry in (node.get("cte_map") or {}).get("map") or ():
            yield str(entry.get("key"))


def _nodes(parsed: Any) -> Iterator[dict[str, Any]]:
    """Yield every object of a parsed statement; a loop, since a statement may be nested deeper than calls can be."""
    waiting = [parsed]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            yield value
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)


def _kind_of(node: Mapping[str, Any]) -> str:
    """Return what a part of a statement is, as the parser calls it; "" for a constant."""
    kind = node.get("type")
    return kind if isinstance(kind, str) else ""


def _used(parsed: Any) -> Iterator[Used]:
    """Yield what a parsed statement uses."""
    called = {id(node["function"]) for node in _nodes(parsed) if _kind_of(node) == "TABLE_FUNCTION"}
    for node in _nodes(parsed):
        if isinstance(name := node.get("function_name"), str):
            kind = "table" if id(node) in called else "value"
            yield Used(kind, name, _schema(node), _paths(node) if kind == "table" else ())
        elif (name := _relation(node)) is not None:
            yield Used("relation", name, _schema(node))


def _relation(node: dict[str, Any]) -> str | None:
    """Return the name of the table, view or file that a part of a statement reads, None where it reads none."""
    kind, name = _kind_of(node), node.get("table_name")
    if kind == "SHOW_REF" and _is_special(node):
        return None
    return name if kind in {"BASE_TABLE", "SHOW_REF"} and isinstance(name, str) and name else None


def _is_special(node: dict[str, Any]) -> bool:
    """Return whether a SHOW lists tables, and does not show one."""
    return node.get("show_type") == "SHOW_SPECIAL" and node.get("table_name") in {'"tables"', "__show_tables_expanded"}


def _schema(node: dict[str, Any]) -> str:
    """Return what stands before a name; of more than a schema, what is nowhere allowed."""
    catalog, schema = (str(node.get(f"{part}_name") or node.get(part) or "") for part in ("catalog", "schema"))
    path: Sequence[Any] = (node.get("qualified_name") or {}).get("path") or ()
    if catalog or len(path) > 2:  # noqa: PLR2004 — a schema and a name
        return "system"
    return schema or (str(path[0]) if len(path) > 1 else "")


def _paths(call: dict[str, Any]) -> tuple[str, ...] | None:
    """Return the paths that a reader of files is given, None where they are not all written out."""
    arguments = [each.get("expression", each) for each in call.get("arguments") or call.get("children") or ()]
    if not arguments:
        return None
    first = arguments[0]
    if first.get("function_name") in {"list_value", "list_pack"}:
        parts = [each.get("expression", each) for each in first.get("arguments") or first.get("children") or ()]
    else:
        parts = [first]
    texts = [_text(each) for each in parts]
    return None if None in texts else tuple(text for text in texts if text is not None)


def _text(expression: dict[str, Any]) -> str | None:
    """Return the text that a constant is, None for anything else."""
    literal, value = expression.get("literal"), expression.get("value")
    if isinstance(literal, dict) and literal.get("kind") == "STRING":
        return str(literal.get("text"))
    if isinstance(value, dict) and (value.get("type") or {}).get("id") == "VARCHAR":
        return str(value.get("value"))
    return None
