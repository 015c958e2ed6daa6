"""Commands about tool calls."""

from __future__ import annotations

from otel_agentic.pipeline.commands.base import EngineCommands, Json
from otel_agentic.pipeline.commands.wire import plain
from otel_agentic.store.failing import failing_tools
from otel_agentic.store.scores import Selection


class ToolCommands(EngineCommands):
    """Ask which tools fail."""

    def tools_failing(
        self, *, since_ns: int | None = None, until_ns: int | None = None, agent: str | None = None
    ) -> Json:
        """Return which tool fails in which dimension, most frequent first."""
        with self._engine.store.read() as con:
            return plain(failing_tools(con, Selection(since_ns=since_ns, until_ns=until_ns, agent=agent)))
