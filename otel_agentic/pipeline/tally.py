"""Counts of an evaluation: what was asked of the judge, and what came out."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from otel_agentic.judges import JudgeFailure, Verdict
from otel_agentic.pipeline.metrics_tally import MetricTally

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from otel_agentic.store.selection import Scored
    from otel_agentic.store.table import Key


@dataclass(slots=True, kw_only=True)
class Tally:
    """What a run asked of its judge: each question counts once.

    `refused` were not asked because the budget is exhausted; `postponed` are left for a later round because the judge does not
    answer. `cost_usd` is None where no price is known. `models` are those that answered, now or when it was first asked. `failure`
    is what the last failure said. Of the `canaries`, wrong answers on purpose, `fooled` passed.
    """

    calls: int = 0
    cached: int = 0
    judged: int = 0
    failed: int = 0
    refused: int = 0
    postponed: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None
    models: set[str] = field(default_factory=set)
    failure: str | None = None
    canaries: int = 0
    fooled: int = 0

    def count(self, answer: Verdict | JudgeFailure) -> None:
        """Count a verdict or a failure."""
        if answer.model is not None:
            self.models.add(answer.model)
        if isinstance(answer, Verdict) and answer.cached:
            self.cached += 1
            return
        self.judged += isinstance(answer, Verdict)
        if isinstance(answer, JudgeFailure) and answer.reason == "judge_error":
            self.failed += 1
            self.failure = answer.message
        self.refused += isinstance(answer, JudgeFailure) and answer.reason == "budget_exhausted"
        self.calls += answer.tries
        self.input_tokens += answer.input_tokens
        self.output_tokens += answer.output_tokens
        if answer.cost_usd is not None:
            self.cost_usd = (self.cost_usd or 0.0) + answer.cost_usd


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluated:
    """What an evaluation did: how many conversations it scored, how many of them had a score before, with what result.

    `unchanged`: asked about again, and as before. `partial_fails`: fails while other needed parts were not evaluated.
    `known_failures`: not evaluated because the judge is unsure, though something else failed.
    `compared` conversations have a given verdict and a computed outcome, `disagreements` of them differ. `metrics` counts
    what evaluators said.
    """

    evaluation_id: str
    scored: int
    restated: int
    unchanged: int
    outcomes: Mapping[str, int]
    reasons: Mapping[str, int]
    warnings: tuple[str, ...]
    partial_fails: int
    known_failures: int
    compared: int
    disagreements: int
    tally: Tally
    metrics: MetricTally = field(default_factory=MetricTally)

    @property
    def n(self) -> int:
        """Conversations evaluated: those that passed or failed."""
        return self.outcomes.get("pass", 0) + self.outcomes.get("fail", 0)


@dataclass(slots=True, kw_only=True)
class Outcomes:
    """Gathers what an evaluation did, part by part."""

    outcomes: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    warnings: set[str] = field(default_factory=set)
    restated: int = 0
    unchanged: int = 0
    partial_fails: int = 0
    known_failures: int = 0
    compared: int = 0
    disagreements: int = 0

    def add(self, part: Sequence[Scored], before: AbstractSet[Key], *, unchanged: int) -> None:
        """Count a part that was stored.

        Args:
            part: what was stored.
            before: conversations that had a score before.
            unchanged: how many more were scored and say what they said.
        """
        self.unchanged += unchanged
        for item in part:
            score = item.score
            self.outcomes[score.outcome] += 1
            if score.reason is not None:
                self.reasons[score.reason] += 1
            if item.match.warning is not None:
                self.warnings.add(item.match.warning)
            self.restated += (score.environment, score.conversation_id) in before
            self.partial_fails += score.partial and score.outcome == "fail"
            self.known_failures += score.outcome == "not_evaluated" and score.known_failure is not None
            if score.outcome_source != "computed" and score.computed_outcome != "not_evaluated":
                self.compared += 1
                self.disagreements += score.computed_outcome != score.outcome

    def told(self, evaluation_id: str, tally: Tally, metrics: MetricTally) -> Evaluated:
        """Return all of it."""
        return Evaluated(
            evaluation_id=evaluation_id,
            scored=self.outcomes.total(),
            restated=self.restated,
            unchanged=self.unchanged,
            outcomes=self.outcomes,
            reasons=self.reasons,
            warnings=tuple(sorted(self.warnings)),
            partial_fails=self.partial_fails,
            known_failures=self.known_failures,
            compared=self.compared,
            disagreements=self.disagreements,
            tally=tally,
            metrics=metrics,
        )
