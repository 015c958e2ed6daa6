"""Commands that score, and that tell what the scores say."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from otel_agentic.pipeline.commands.base import EngineCommands, Json
from otel_agentic.pipeline.evaluate import TruthFile
from otel_agentic.pipeline.report import report
from otel_agentic.store.scores import Scored, Selection
from otel_agentic.windows import GroupBy


class EvaluationCommands(EngineCommands):
    """Score conversations; report reliability."""

    def evaluate(
        self,
        *,
        cases: Sequence[tuple[str, str]] = (),
        labels: Sequence[tuple[str, str]] = (),
        since_ns: int | None = None,
        until_ns: int | None = None,
        agent: str | None = None,
        force: bool = False,
    ) -> dict[str, Json]:
        """Match and score closed conversations; cases and labels are (name, text) and are remembered."""
        evaluating = self._engine.evaluating
        fresh = evaluating.remember(
            [TruthFile(name=n, text=t) for n, t in cases], [TruthFile(name=n, text=t) for n, t in labels]
        )
        truth = evaluating.truth()
        selection = Selection(since_ns=since_ns, until_ns=until_ns, agent=agent)
        keys = evaluating.wanted(truth, selection, again=force)
        done = 0

        def step(scored: Sequence[Scored], restated: AbstractSet[tuple[str, str]]) -> None:
            nonlocal done
            done += len(scored)
            self._progress("scoring", done, len(keys))
            self._on_scored(scored, restated)

        evaluated = evaluating.evaluate(truth, keys, step)
        return {
            "evaluation_id": evaluated.evaluation_id,
            "cases": len(truth.index),
            "new_case_versions": fresh,
            "labels": len(truth.labels),
            "scored": evaluated.scored,
            "restated": evaluated.restated,
            "outcomes": dict(evaluated.outcomes),
            "reasons": dict(evaluated.reasons),
            "warnings": list(evaluated.warnings),
        }

    def report(
        self,
        *,
        k: list[int] | None = None,
        by: list[GroupBy] | None = None,
        window: str | None = None,
        since_ns: int | None = None,
        until_ns: int | None = None,
        agent: str | None = None,
        estimator: str | None = None,
    ) -> dict[str, Json]:
        """Return the reliability of each group."""
        selection = Selection(since_ns=since_ns, until_ns=until_ns, agent=agent)
        return report(self._engine, k=k, by=by or (), window=window, selection=selection, estimator=estimator)
