"""Commands about ground truth."""

from __future__ import annotations

from collections.abc import Sequence

from otel_agentic.pipeline.commands.base import EngineCommands, Json
from otel_agentic.pipeline.commands.wire import plain
from otel_agentic.pipeline.evaluate import TruthFile
from otel_agentic.store.matches import list_cases


class TruthCommands(EngineCommands):
    """Put ground truth in force; tell what is."""

    def truth_import(
        self, *, cases: Sequence[tuple[str, str]] = (), labels: Sequence[tuple[str, str]] = ()
    ) -> dict[str, Json]:
        """Put cases and labels, given as (name, text), in force."""
        fresh = self._engine.evaluating.remember(
            [TruthFile(name=name, text=text) for name, text in cases],
            [TruthFile(name=name, text=text) for name, text in labels],
        )
        with self._engine.store.read() as con:
            total = len(list_cases(con))
        return {"new_case_versions": fresh, "cases": total}

    def truth_list(self) -> Json:
        """Return the cases in force."""
        with self._engine.store.read() as con:
            return plain(list_cases(con))
