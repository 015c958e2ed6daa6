"""The id of a store in telemetry: the same after every restart, and for history as for what is emitted live."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from otel_agentic.store.store import Store

_READ: Final = "SELECT instance_id FROM instance"
_WRITE: Final = "INSERT INTO instance VALUES ($id, make_timestamp_ns($now))"


def instance_id_of(store: Store) -> str:
    """Return the id of a store; it is made and kept at the first call."""
    with store.read() as con:
        found = con.execute(_READ).fetchall()
    return str(found[0][0]) if found else store.write(lambda con: _made(con, store.clock()))


def _made(con: DuckDBPyConnection, now_ns: int) -> str:
    found = con.execute(_READ).fetchall()  # another thread may have made it meanwhile
    if found:
        return str(found[0][0])
    instance_id = str(uuid.uuid4())
    con.execute(_WRITE, {"id": instance_id, "now": now_ns})
    return instance_id
