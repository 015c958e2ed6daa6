"""The windows of some ends, as the live collector would have stored them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from otel_agentic.pipeline.estimators import stored_estimators
from otel_agentic.store.backfills import count_groups
from otel_agentic.store.result_columns import results_for
from otel_agentic.store.tier_claims import claims_at
from otel_agentic.windows import roll

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_agentic.pipeline.backfill.plan import Plan
    from otel_agentic.pipeline.engine import Engine
    from otel_agentic.windows.columns import WindowTable

#: Rows of `windows` that are written at once, about: a running collector stores spans between two such writes.
PART_ROWS: Final = 20_000


class Rolling:
    """Computes the window table of some ends of a plan."""

    def __init__(self, engine: Engine, plan: Plan) -> None:
        self._engine = engine
        self._asked = plan.asked
        self._windows = plan.windows
        self._estimators = stored_estimators(engine)

    def part_size(self, rows: int) -> int:
        """Return how many ends make about so many rows."""
        with self._engine.store.read() as con:
            groups = count_groups(con) * (1 + len(self._engine.settings.windows.tags))
        rows_an_end = groups * len(self._asked.windows) * len(self._asked.k) * len(self._estimators)
        return max(1, rows // max(1, rows_an_end))

    def table(self, ends: Sequence[int]) -> WindowTable:
        """Return the windows of some ends, ascending."""
        settings = self._engine.settings
        with self._engine.store.read() as con:
            results = results_for(con, self._windows, ends, tags=settings.windows.tags)
            claims = claims_at(
                con,
                ends,
                tags=settings.windows.tags,
                since_ns=settings.slo.since_ns,
                settings=settings.stats,
                estimators=self._estimators,
            )
        return roll(
            results,
            self._asked.windows,
            ends,
            estimators=self._estimators,
            settings=settings.stats,
            k=self._asked.k,
            claims=claims,
        )
