"""Commands about the store itself."""

from __future__ import annotations

from typing import Final

from otel_agentic.dialects.frameworks import framework_of
from otel_agentic.pipeline.commands.base import EngineCommands, Json
from otel_agentic.pipeline.coverage import by_framework, of_view, wrong_clocks_json
from otel_agentic.pipeline.wire import plain
from otel_agentic.store import browse
from otel_agentic.store.export_layout import export_folder_of
from otel_agentic.store.query_guard import QueryLimits, run_query

_MB: Final = 1_000_000


class StoreCommands(EngineCommands):
    """Query the store; tell what it holds."""

    def query(self, *, sql: str) -> dict[str, Json]:
        """Return the rows of one read-only SQL statement."""
        settings, store = self._engine.settings.store, self._engine.store
        limits = QueryLimits(
            timeout_s=settings.query_timeout_s,
            max_rows=settings.query_max_rows,
            max_bytes=settings.query_max_bytes,
            max_growth_bytes=settings.query_memory_mb * _MB,
        )
        folder = export_folder_of(self._engine.settings).resolve()
        with store.connection() as con:
            found = run_query(con, sql, limits, queries=store.user_queries, gone=self.gone, folder=folder)
        return {
            "columns": list(found.columns),
            "types": list(found.types),
            "rows": plain([list(row) for row in found.rows]),
            "truncated": found.truncated,
            "cut_by": found.cut_by,
        }

    def store_summary(self) -> dict[str, Json]:
        """Return counts and content coverage of the store."""
        with self._engine.store.read() as con:
            found = {**browse.counts(con), "coverage": by_framework(of_view(browse.coverage(con)))}
        return {**found, "wrong_clocks": plain(wrong_clocks_json(self._engine.store))}

    def live(self) -> dict[str, Json]:
        """Return what arrived: spans by scope and dialect, counts, coverage. A running collector adds its own state."""
        with self._engine.store.read() as con:
            spans = browse.received(con)
        for row in spans:
            row["framework"] = framework_of(row["scope"], row["dialect"]).name
        return {"spans": plain(spans), **self.store_summary()}
