"""From when on the store is complete, and the conversations and traces that were removed: late spans of these are not rebuilt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from otel_agentic.store.table import key_columns, rows_with

if TYPE_CHECKING:
    from collections.abc import Iterable

    from duckdb import DuckDBPyConnection

    from otel_agentic.store.table import Key

#: A conversation, or a trace, as 64 bits, the same in every release.
CONVERSATION_ID: Final = "md5_number_lower(concat(environment, chr(10), conversation_id))"
TRACE_ID: Final = "md5_number_lower(trace_id)"
_RETENTION_STATE: Final = (
    "SELECT epoch_ns(conversations_from), epoch_ns(results_from), conversations, spans, log_records FROM retention"
)
_REMOVED_KEYS: Final = f"""
SELECT environment, conversation_id FROM requested w
WHERE EXISTS (SELECT 1 FROM removed r WHERE r.kind = 'conversation' AND r.identity = {CONVERSATION_ID})
"""  # noqa: S608 — a constant of our own
_REMOVED_TRACES: Final = f"""
SELECT trace_id FROM requested w
WHERE EXISTS (SELECT 1 FROM removed r WHERE r.kind = 'trace' AND r.identity = {TRACE_ID})
"""  # noqa: S608 — the same


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionState:
    """From when on the store is complete, ns since the epoch, 0 if nothing was removed; and how much was removed so far.

    Attributes:
        conversations_from_ns: conversations that ended before this were removed, once they were closed.
        results_from_ns: results before this were removed; never later than `conversations_from_ns`.
        conversations: conversations removed,
        spans: spans removed,
        log_records: log records removed, so far.
    """

    conversations_from_ns: int = 0
    results_from_ns: int = 0
    conversations: int = 0
    spans: int = 0
    log_records: int = 0


def retention_state(con: DuckDBPyConnection) -> RetentionState:
    """Return from when on the store is complete."""
    for row in con.execute(_RETENTION_STATE).fetchall():
        return RetentionState(
            conversations_from_ns=row[0],
            results_from_ns=row[1],
            conversations=row[2],
            spans=row[3],
            log_records=row[4],
        )
    return RetentionState()


def removed_keys(con: DuckDBPyConnection, keys: Iterable[Key]) -> set[Key]:
    """Return those conversations that were removed."""
    return {(environment, name) for environment, name in rows_with(con, key_columns(keys), _REMOVED_KEYS)}


def removed_traces(con: DuckDBPyConnection, trace_ids: Iterable[str]) -> set[str]:
    """Return those traces that were removed."""
    return {trace_id for (trace_id,) in rows_with(con, {"trace_id": sorted(set(trace_ids))}, _REMOVED_TRACES)}
