"""The id of a store in telemetry: the same after every restart, for live telemetry and for history."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from otel_agentic.store.store import Store

_READ: Final = "SELECT instance_id FROM instance"
_WRITE: Final = "INSERT INTO instance VALUES ($id, make_timestamp_ns($now))"


def instance_id_of(store: Store) -> str:
    """Return the id of a store; the first call creates and stores it."""
    with store.read() as con:
        rows = con.execute(_READ).fetchall()
    return str(rows[0][0]) if rows else store.write(lambda con: _created(con, store.clock()))


def _created(con: DuckDBPyConnection, now_ns: int) -> str:
    rows = con.execute(_READ).fetchall()  # another thread may have created it in the meantime
    if rows:
        return str(rows[0][0])
    instance_id = str(uuid.uuid4())
    con.execute(_WRITE, {"id": instance_id, "now": now_ns})
    return instance_id
