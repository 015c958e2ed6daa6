"""The tool definitions that agents were given: large, and equal in thousands of conversations, so each list is stored once."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final

import orjson

from otel_agentic.store.table import Table, json_text, rows_with

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from duckdb import DuckDBPyConnection

_KNOWN_DEFINITIONS: Final = (
    "SELECT DISTINCT definitions_hash FROM tool_definitions SEMI JOIN requested USING (definitions_hash)"
)
_DEFINITIONS: Final = """
SELECT definitions_hash, name, parameters FROM tool_definitions SEMI JOIN requested USING (definitions_hash)
ORDER BY definitions_hash, name
"""
_UNUSED: Final = """
DELETE FROM tool_definitions WHERE definitions_hash NOT IN (
    SELECT definitions_hash FROM conversations WHERE definitions_hash IS NOT NULL
)
"""


def definitions_hash(definitions: Mapping[str, Any] | None) -> str | None:
    """Return the hash of a list of tools, independent of their order, or None if none was captured."""
    if definitions is None:
        return None
    named = sorted(definitions.items())
    return hashlib.blake2b(json_text(named).encode(), digest_size=16).hexdigest()


#: The hash of the list without tools, which has no rows.
_NO_TOOLS: Final = definitions_hash({})


def save_definitions(con: DuckDBPyConnection, definitions: Mapping[str | None, Mapping[str, Any] | None]) -> None:
    """Write the lists of tools that are not stored yet, by their hash."""
    requested = {name: tools for name, tools in definitions.items() if name is not None and tools}
    known = {name for (name,) in rows_with(con, {"definitions_hash": sorted(requested)}, _KNOWN_DEFINITIONS)}
    rows = [
        (name, tool, parameters)
        for name, tools in sorted(requested.items())
        if name not in known
        for tool, parameters in sorted(tools.items())
    ]
    Table(con, "tool_definitions").insert(
        con,
        {
            "definitions_hash": [name for name, _, _ in rows],
            "name": [tool for _, tool, _ in rows],
            "parameters": [parameters for _, _, parameters in rows],
        },
    )


def load_definitions(con: DuckDBPyConnection, hashes: Iterable[str | None]) -> dict[str | None, Mapping[str, Any]]:
    """Return lists of tools by their hash, except lists without rows (imported without them)."""
    requested: Sequence[str] = sorted({name for name in hashes if name is not None})
    definitions: dict[str | None, dict[str, Any]] = {_NO_TOOLS: {}}
    for name, tool, parameters in rows_with(con, {"definitions_hash": requested}, _DEFINITIONS):
        definitions.setdefault(name, {})[tool] = None if parameters is None else orjson.loads(parameters)
    return dict(definitions)


def drop_unused(con: DuckDBPyConnection) -> None:
    """Delete the lists of tools that no conversation refers to."""
    con.execute(_UNUSED)
