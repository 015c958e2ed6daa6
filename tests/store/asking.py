"""Short ways to ask a store."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from otel_agentic.store import Store


def rows(store: Store, sql: str, parameters: list[Any] | None = None) -> list[tuple[Any, ...]]:
    """Return the rows of a query."""
    with store.read() as con:
        return con.execute(sql, parameters or []).fetchall()


def value(store: Store, sql: str) -> Any:
    """Return the only value of a query."""
    ((found,),) = rows(store, sql)
    return found


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
