"""The open DuckDB file: schema, writer, readers."""

from otel_agentic.store.store import Store

__all__ = ["Store"]
