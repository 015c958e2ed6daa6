"""Commands about the store itself."""

from __future__ import annotations

from collections.abc import Mapping

from otel_agentic.dialects.frameworks import framework_of
from otel_agentic.pipeline.commands.base import EngineCommands, Json
from otel_agentic.pipeline.coverage import by_framework, of_view, wrong_clocks_json
from otel_agentic.pipeline.wire import plain
from otel_agentic.store import browse
from otel_agentic.store.evaluations import DEFAULT, require_evaluation
from otel_agentic.store.export_layout import export_folder_of
from otel_agentic.store.user_queries import limits_of


class StoreCommands(EngineCommands):
    """Query the store; tell what it holds."""

    def query(self, *, sql: str, fresh: bool = False, evaluation: str = DEFAULT) -> Mapping[str, Json]:
        """Return the rows of one read-only SQL statement, run in a process of its own on a snapshot of the store.

        Args:
            sql: the statement.
            fresh: ask a snapshot that holds everything acknowledged until now, not the last one.
            evaluation: name of the evaluation whose scores the views show.
        """
        store = self._engine.store
        with store.read() as con:
            require_evaluation(con, evaluation)
        snapshot = store.snapshots.latest(fresh=fresh)
        return store.user_queries.run(
            snapshot.path,
            sql,
            limits_of(self._engine.settings.store),
            as_of_ns=snapshot.as_of_ns,
            evaluation=evaluation,
            gone=self.gone,
            folder=export_folder_of(self._engine.settings).resolve(),
        )

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
