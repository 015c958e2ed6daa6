"""The open DuckDB file: schema, writer, readers.

`Store` is imported on first use, because the process of a user query imports this package without needing it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_agentic.lazy_imports import lazy_imports

if TYPE_CHECKING:
    from otel_agentic.store.store import Store as Store

__all__, __getattr__ = lazy_imports(
    __name__,
    {
        "store": "Store",
    },
)
