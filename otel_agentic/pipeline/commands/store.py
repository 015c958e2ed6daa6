"""Commands about the store itself."""

from __future__ import annotations

from otel_agentic.dialects.frameworks import framework_of
from otel_agentic.pipeline.commands.base import EngineCommands, Json
from otel_agentic.pipeline.coverage import by_framework, of_view
from otel_agentic.pipeline.wire import plain
from otel_agentic.store import browse
from otel_agentic.store.query_guard import run_query


class StoreCommands(EngineCommands):
    """Query the store; tell what it holds."""

    def query(self, *, sql: str) -> dict[str, Json]:
        """Return the rows of one read-only SQL statement."""
        limits = self._engine.settings.store
        with self._engine.store.connection() as con:
            found = run_query(con, sql, timeout_s=limits.query_timeout_s, max_rows=limits.query_max_rows)
        return {
            "columns": list(found.columns),
            "types": list(found.types),
            "rows": plain([list(row) for row in found.rows]),
            "truncated": found.truncated,
        }

    def store_summary(self) -> dict[str, Json]:
        """Return counts and content coverage of the store."""
        with self._engine.store.read() as con:
            return {**browse.counts(con), "coverage": by_framework(of_view(browse.coverage(con)))}

    def live(self) -> dict[str, Json]:
        """Return what arrived: spans by scope and dialect, counts, coverage. A running collector adds its own state."""
        with self._engine.store.read() as con:
            spans = browse.received(con)
        for row in spans:
            row["framework"] = framework_of(row["scope"], row["dialect"]).name
        return {"spans": plain(spans), **self.store_summary()}
