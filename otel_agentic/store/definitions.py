"""The tools that agents were given: large, and the same in thousands of conversations, so each list of them is kept once."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final

import orjson

from otel_agentic.store.table import Table, json_text, rows_with

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from duckdb import DuckDBPyConnection

_KNOWN: Final = "SELECT DISTINCT definitions_hash FROM tool_definitions SEMI JOIN requested USING (definitions_hash)"
_SELECTED: Final = """
SELECT definitions_hash, name, parameters FROM tool_definitions SEMI JOIN requested USING (definitions_hash)
ORDER BY definitions_hash, name
"""
_UNUSED: Final = """
DELETE FROM tool_definitions WHERE definitions_hash NOT IN (
    SELECT definitions_hash FROM conversations WHERE definitions_hash IS NOT NULL
)
"""


def definitions_hash(definitions: Mapping[str, Any] | None) -> str | None:
    """Return what a list of tools is known by, whatever their order; None where none was captured."""
    if definitions is None:
        return None
    named = sorted(definitions.items())
    return hashlib.blake2b(json_text(named).encode(), digest_size=16).hexdigest()


#: The list without tools: it has no rows.
_NO_TOOLS: Final = definitions_hash({})


def save_definitions(con: DuckDBPyConnection, given: Mapping[str | None, Mapping[str, Any] | None]) -> None:
    """Write lists of tools, by their hash, that are not there yet."""
    requested = {name: tools for name, tools in given.items() if name is not None and tools}
    known = {name for (name,) in rows_with(con, {"definitions_hash": sorted(requested)}, _KNOWN)}
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
    """Return lists of tools by their hash; one whose rows are not there (an import without them) is not."""
    requested: Sequence[str] = sorted({name for name in hashes if name is not None})
    found: dict[str | None, dict[str, Any]] = {_NO_TOOLS: {}}
    for name, tool, parameters in rows_with(con, {"definitions_hash": requested}, _SELECTED):
        found.setdefault(name, {})[tool] = None if parameters is None else orjson.loads(parameters)
    return dict(found)


def drop_unused(con: DuckDBPyConnection) -> None:
    """Take out the lists of tools that no conversation has any more."""
    con.execute(_UNUSED)
