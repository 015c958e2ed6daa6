"""The receiver of the events of evaluations, apart from their code, which takes long to import."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Container

    from otel_agentic.evaluation.batch import ScoredBatch
    from otel_agentic.judges import JudgeFailure, Verdict
    from otel_agentic.telemetry import Observer


class EvaluationListener:
    """Receives the events of evaluations; this one ignores them."""

    @property
    def observer(self) -> Observer | None:
        """What worker processes shall collect of the scores of the default evaluation; None for nothing."""
        return None

    def judge_answered(self, answer: Verdict | JudgeFailure) -> None:
        """Handle an answer of the judge, which may come from the cache."""

    def metrics_stored(self, batch: ScoredBatch, restated: Container[tuple[str, str, str]]) -> None:
        """Handle the scores of evaluators, after they were stored; for `restated`, see `ScoredBatch.measured`."""
