"""The receiver of the events of evaluations, apart from their code, which takes long to import."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_agentic.judges import JudgeFailure, Verdict
    from otel_agentic.store.table import Measured


class EvaluationListener:
    """Receives the events of evaluations; this one ignores them."""

    def judge_answered(self, answer: Verdict | JudgeFailure) -> None:
        """Handle an answer of the judge, which may come from the cache."""

    def metrics_stored(self, measured: Sequence[Measured]) -> None:
        """Handle the scores of evaluators, after they were stored."""
