"""Commands about which conversation is an attempt of which case."""

from __future__ import annotations

from typing import Literal

from otel_agentic.pipeline.commands.base import EngineCommands, Json
from otel_agentic.pipeline.commands.wire import plain
from otel_agentic.store.matches import list_matches
from otel_agentic.store.scores import Selection


class MatchCommands(EngineCommands):
    """Tell what was matched, and what was not."""

    def truth_matches(
        self,
        *,
        since_ns: int | None = None,
        until_ns: int | None = None,
        agent: str | None = None,
        only: Literal["unmatched", "ambiguous", "warning"] | None = None,
    ) -> Json:
        """Return which case each conversation was matched to, and how."""
        selection = Selection(since_ns=since_ns, until_ns=until_ns, agent=agent)
        with self._engine.store.read() as con:
            return plain(list_matches(con, selection, only=only))
