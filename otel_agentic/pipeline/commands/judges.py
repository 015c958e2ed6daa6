"""Commands about judges: how far they agree with people, what they remember and cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from otel_agentic.pipeline.calibrate import calibrate_judge
from otel_agentic.pipeline.commands.base import EngineCommands, Json
from otel_agentic.pipeline.evaluate import TruthFile
from otel_agentic.pipeline.interrupt import stop_on_interrupt
from otel_agentic.pipeline.wire import plain
from otel_agentic.store.judge_calls import clear_verdicts, judge_summary


class JudgeCommands(EngineCommands):
    """Calibrate a judge; look into its memory, and clear it."""

    def judge_calibrate(
        self,
        *,
        labels: Sequence[tuple[str, str]],
        random_sample: bool = False,
        examples: Annotated[int, Field(ge=0)] = 5,
    ) -> dict[str, Json]:
        """Compare the judge with people, whose verdicts are given as (name, text) of CSV files; both are remembered."""
        files = [TruthFile(name=name, text=text) for name, text in labels]
        with stop_on_interrupt(self._engine.stopping):
            found = calibrate_judge(self._engine, files, random_sample=random_sample, examples=examples)
        told: dict[str, Json] = plain(found)
        return told

    def judge_cache(self) -> dict[str, Json]:
        """Return what each judge said and cost, and what is spent of the budget."""
        with self._engine.store.read() as con:
            judges = judge_summary(con)
        budget = self._engine.evaluating.budget
        spent = budget.spent()
        return {
            "judges": plain(judges),
            "budget": {
                "window": self._engine.settings.judge.budget_window,
                "calls": spent.calls,
                "tokens": spent.tokens,
                "cost_usd": spent.cost_usd,
                **budget.limits,
            },
        }

    def judge_clear(self, *, judge: str | None = None, before_ns: int | None = None) -> dict[str, Json]:
        """Take verdicts out of the cache, those of one judge or before a time; what was spent stays spent."""
        counted_from_ns = self._engine.clock() - self._engine.evaluating.budget.width_ns
        cleared = self._engine.store.write(
            lambda con: clear_verdicts(con, judge=judge, before_ns=before_ns, counted_from_ns=counted_from_ns)
        )
        return {"cleared": cleared}
