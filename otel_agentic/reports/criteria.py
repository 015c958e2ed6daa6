"""Outcomes of stored conversations by any criterion, or by several together, from their stored scores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from otel_agentic.errors import UsageError
from otel_agentic.results.reports import CriterionPart
from otel_agentic.scoring.criteria import ANNOTATED, CASE_CRITERIA, Criterion, parsed, rule_of
from otel_agentic.scoring.parts import Part, combine, not_evaluated
from otel_agentic.scoring.scope import DIMENSIONS, OPEN_REASONS
from otel_agentic.store.queries.scores import scores_by_conversation

if TYPE_CHECKING:
    from otel_agentic.engine.engine import Engine
    from otel_agentic.evaluators.base import MetricScore
    from otel_agentic.store.table import Key, Selection
    from otel_agentic.windows import ScoredConversation

#: The stored outcome of a conversation, by the deciding criteria of its evaluation.
CORRECT: Final = "correct"
#: Joins criteria that have to pass together.
_AND: Final = " and "


def rule(engine: Engine, criterion: str) -> str:
    """Return the conditions of a criterion as part of a sentence."""
    scoring = engine.settings.scoring
    return rule_of(scoring.criteria if criterion == CORRECT else _texts(engine, criterion))


def outcomes_by(
    engine: Engine, scored: Sequence[ScoredConversation], criterion: str, selection: Selection
) -> list[ScoredConversation]:
    """Return conversations with their outcomes by a criterion instead of the deciding ones.

    Args:
        engine: the opened store.
        scored: closed conversations.
        criterion: `correct`, a criterion, several joined by " and ", or the name of a profile.
        selection: how the conversations were selected.

    Raises:
        UsageError: the criterion is malformed, its metric is unknown, or no conversation has a score of it.
    """
    if criterion == CORRECT:
        return list(scored)
    criteria, stored = _read(engine, criterion, selection)
    missing = [item for item in criteria if not item.of_case and not item.occurs_in(stored)]
    if scored and missing and all(not item.criterion.optional for item in missing):
        metrics = ",".join(sorted({name for item in missing for name in item.names}))
        raise UsageError(
            f"--criterion {criterion!r}: no conversation has a score of {metrics}; "
            f"otel-agentic evaluate --metrics {metrics} computes it"
        )
    return [_under(conversation, criteria, stored) for conversation in scored]


def parts_of_criterion(
    engine: Engine, scored: Sequence[ScoredConversation], criterion: str, selection: Selection
) -> list[CriterionPart]:
    """Return for each condition of a criterion how many conversations have it, and how many it fails.

    Empty for `correct`, whose conditions differ by case.

    Raises:
        UsageError: the criterion is malformed, or its metric is unknown.
    """
    if criterion == CORRECT:
        return []
    criteria, stored = _read(engine, criterion, selection)
    by_conversation = [
        [item.part(stored.get((row.environment, row.conversation_id), ()), row) for item in criteria] for row in scored
    ]
    failing = [sum(part is not None and part.outcome == "fail" for part in parts) for parts in by_conversation]
    result = []
    for index, item in enumerate(criteria):
        of_condition = [parts[index] for parts in by_conversation]
        outcomes = ["missing" if part is None else part.outcome for part in of_condition]
        unknown = [row for row, outcome in zip(scored, outcomes, strict=True) if outcome not in {"pass", "fail"}]
        result.append(
            CriterionPart(
                condition=item.criterion.text,
                known=len(scored) - len(unknown),
                failed=outcomes.count("fail"),
                failed_alone=sum(
                    outcome == "fail" and count == 1 for outcome, count in zip(outcomes, failing, strict=True)
                ),
                missing=dict(Counter(item.reason_missing(stored, row) for row in unknown).most_common()),
                metric=item.names[0].removeprefix("agentic."),
            )
        )
    return result


def _read(
    engine: Engine, criterion: str, selection: Selection
) -> tuple[list[_Stored], Mapping[Key, Sequence[MetricScore]]]:
    """Return the conditions of a criterion, and the scores that they read."""
    criteria = [_Stored.of(engine, item) for item in parsed(tuple(_texts(engine, criterion)))]
    names = {name for item in criteria for name in item.names}
    with engine.store.read() as con:
        return criteria, scores_by_conversation(con, selection, sorted(names))


def _texts(engine: Engine, criterion: str) -> Sequence[str]:
    profile = engine.settings.scoring.profiles.get(criterion)
    return [part.strip() for part in criterion.split(_AND)] if profile is None else profile


def _under(
    conversation: ScoredConversation, criteria: Sequence[_Stored], stored: Mapping[Key, Sequence[MetricScore]]
) -> ScoredConversation:
    scores = stored.get((conversation.environment, conversation.conversation_id), ())
    parts = [part for item in criteria if (part := item.part(scores, conversation)) is not None]
    if not parts and conversation.reason in OPEN_REASONS:  # sampling excluded it, or the budget was exhausted
        return conversation
    names = {name for item in criteria for name in item.names}
    if not parts and not any(score.name in names for score in scores):
        outcome = not_evaluated("not_scored", "none of the conditions has a score")
    else:
        outcome = combine(parts)
    return replace(
        conversation,
        outcome=outcome.outcome,
        reason=outcome.reason,
        known_failure=outcome.known_failure,
        pass_probability=None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stored:
    """A criterion with the full names of the scores that it reads."""

    criterion: Criterion
    names: tuple[str, ...]
    of_case: bool

    @classmethod
    def of(cls, engine: Engine, criterion: Criterion) -> _Stored:
        """Return a criterion; those on metrics are resolved."""
        if criterion.name == ANNOTATED:
            names = tuple(f"agentic.{name}" for name in CASE_CRITERIA)
        elif criterion.name in DIMENSIONS:
            names = (f"agentic.tool.{criterion.name}",)
        elif criterion.of_case:
            names = (f"agentic.{criterion.name}",)
        else:
            (metric,) = engine.runner.criteria.of([criterion])
            return cls(criterion=metric.criterion, names=(metric.metric,), of_case=False)
        return cls(criterion=replace(criterion, labels=frozenset({"pass"})), names=names, of_case=True)

    def occurs_in(self, stored: Mapping[Key, Sequence[MetricScore]]) -> bool:
        """Return whether any conversation has a score of it."""
        return any(score.name in self.names for scores in stored.values() for score in scores)

    def part(self, scores: Sequence[MetricScore], conversation: ScoredConversation) -> Part | None:
        """Return the outcome of a conversation by it; None if it decides nothing."""
        own = [score for score in scores if score.name in self.names]
        if own or self.criterion.optional:
            return self.criterion.part(own)
        if self.of_case and conversation.outcome == "not_evaluated" and conversation.reason is not None:
            return Part(outcome="not_evaluated", reason=conversation.reason)
        return not_evaluated("no_data" if self.of_case else "not_scored", f"{self.criterion.text} has no score")

    def reason_missing(self, stored: Mapping[Key, Sequence[MetricScore]], conversation: ScoredConversation) -> str:
        """Return the reason for which a conversation has no value, `not_scored` if it was not computed."""
        scores = stored.get((conversation.environment, conversation.conversation_id), ())
        reasons = [score.reason for score in scores if score.name in self.names and score.reason is not None]
        if reasons:
            return reasons[0]
        return conversation.reason if conversation.reason == "sampled_out" else "not_scored"
