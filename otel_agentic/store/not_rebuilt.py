"""The table `not_rebuilt`: traces and conversations whose spans are stored, but which could not be rebuilt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from otel_agentic.store.table import Key, Table, key_columns, rows_with

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from duckdb import DuckDBPyConnection

#: The id of a trace, or the (environment, conversation id) of a conversation.
Item: TypeAlias = str | Key

_LOAD: Final = """
SELECT trace_id, environment, conversation_id, reason, epoch_ns(first_at), epoch_ns(last_at)
FROM not_rebuilt
ORDER BY last_at, trace_id, environment, conversation_id
"""
_DELETE_TRACES: Final = "DELETE FROM not_rebuilt WHERE trace_id IN (SELECT trace_id FROM requested)"
_DELETE_CONVERSATIONS: Final = """
DELETE FROM not_rebuilt n USING requested w
WHERE n.environment = w.environment AND n.conversation_id = w.conversation_id
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotRebuilt:
    """A trace or a conversation that could not be rebuilt, the reason, and when it was first and last tried (ns)."""

    item: Item
    reason: str
    first_ns: int
    last_ns: int

    @property
    def message(self) -> str:
        """The problem as a sentence."""
        named = f"trace {self.item!r}" if isinstance(self.item, str) else f"conversation {self.item!r}"
        return f"{named} is stored but cannot be rebuilt ({self.reason}); please report it"


def load_not_rebuilt(con: DuckDBPyConnection) -> list[NotRebuilt]:
    """Return the traces and conversations that could not be rebuilt, the last one tried at the end."""
    return [
        NotRebuilt(
            item=(environment, conversation_id) if trace_id is None else trace_id,
            reason=reason,
            first_ns=first_ns,
            last_ns=last_ns,
        )
        for trace_id, environment, conversation_id, reason, first_ns, last_ns in con.execute(_LOAD).fetchall()
    ]


def save_not_rebuilt(con: DuckDBPyConnection, failures: Sequence[NotRebuilt]) -> None:
    """Write rows, replacing those of the same traces and conversations."""
    delete_not_rebuilt(con, [failure.item for failure in failures])
    Table(con, "not_rebuilt").insert(
        con,
        {
            "trace_id": [failure.item if isinstance(failure.item, str) else None for failure in failures],
            "environment": ["" if isinstance(failure.item, str) else failure.item[0] for failure in failures],
            "conversation_id": [None if isinstance(failure.item, str) else failure.item[1] for failure in failures],
            "reason": [failure.reason for failure in failures],
            "first_at": [failure.first_ns for failure in failures],
            "last_at": [failure.last_ns for failure in failures],
        },
    )


def delete_not_rebuilt(con: DuckDBPyConnection, items: Iterable[Item]) -> None:
    """Delete the rows of traces and conversations."""
    requested = list(items)
    traces = [item for item in requested if isinstance(item, str)]
    rows_with(con, {"trace_id": traces}, _DELETE_TRACES, fetch=False)
    keys = [item for item in requested if not isinstance(item, str)]
    rows_with(con, key_columns(keys), _DELETE_CONVERSATIONS, fetch=False)
