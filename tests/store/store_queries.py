"""Short ways to ask a store."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from otel_agentic.store.queries.user_queries import QueryLimits

if TYPE_CHECKING:
    from otel_agentic.store import Store
    from otel_agentic.store.queries.user_queries import Answer


def rows(store: Store, sql: str, parameters: list[Any] | None = None) -> list[tuple[Any, ...]]:
    """Return the rows of a query."""
    with store.read() as con:
        return con.execute(sql, parameters or []).fetchall()


def value(store: Store, sql: str) -> Any:
    """Return the only value of a query."""
    ((result,),) = rows(store, sql)
    return result


def ask_sql(store: Store, sql: str, *, is_disconnected: Callable[[], bool] = lambda: False, **limits: Any) -> Answer:
    """Return the answer to a user query, as a collector gives it."""
    bounds = QueryLimits(**{"timeout_s": 20.0, "max_rows": 100, "max_bytes": 1_000_000, **limits})
    snapshot = store.snapshots.latest(fresh=True)
    return store.user_queries.run(snapshot.path, sql, bounds, as_of_ns=snapshot.as_of_ns, is_cancelled=is_disconnected)


def run_python(code: str, *arguments: str | Path, **options: Any) -> subprocess.Popen[str]:
    """Start a Python process on some code; its standard input and output are pipes."""
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), *(str(argument) for argument in arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        **options,
    )
