"""The open DuckDB file: schema, writer, readers.

`Store` is imported on first use, because the process of a user query imports this package without needing it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from otel_agentic.store.store import Store

__all__ = ["Store"]


def __getattr__(name: str) -> Any:
    if name != "Store":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from otel_agentic.store.store import Store  # noqa: PLC0415 — see above

    return Store
