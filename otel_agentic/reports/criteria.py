"""Outcomes of stored conversations by any criterion, or by several together, from their stored scores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from otel_agentic.errors import UsageError
from otel_agentic.evaluators.criteria import StoredCriterion, combined
from otel_agentic.results.reports import CriterionPart
from otel_agentic.scoring.criteria import CORRECT, rule_of, texts_of
from otel_agentic.store.queries.scores import scores_by_conversation

if TYPE_CHECKING:
    from otel_agentic.engine.engine import Engine
    from otel_agentic.evaluators.base import MetricScore
    from otel_agentic.store.table import Key
    from otel_agentic.windows import ScoredConversation


def rule(engine: Engine, criterion: str) -> str:
    """Return the conditions of a criterion as part of a sentence."""
    return rule_of(texts_of(criterion, engine.settings.scoring))


def scores_read_by(engine: Engine, criteria: Sequence[str]) -> tuple[str, ...]:
    """Return the full names of the scores that decide criteria other than `correct`.

    Raises:
        UsageError: a criterion is malformed, or its metric is unknown.
    """
    texts = [text for name in criteria if name != CORRECT for text in texts_of(name, engine.settings.scoring)]
    return tuple(sorted({name for item in engine.runner.criteria.stored(texts) for name in item.names}))


def outcomes_by(engine: Engine, scored: Sequence[ScoredConversation], criterion: str) -> list[ScoredConversation]:
    """Return conversations with their outcomes by a criterion instead of the deciding ones.

    Args:
        engine: the opened store.
        scored: closed conversations.
        criterion: `correct`, a criterion, several joined by " and ", or the name of a profile.

    Raises:
        UsageError: the criterion is malformed, its metric is unknown, or no conversation has a score of it.
    """
    if criterion == CORRECT:
        return list(scored)
    criteria, stored = _read(engine, scored, criterion)
    known = {score.name for scores in stored.values() for score in scores}
    missing = [item for item in criteria if not item.criterion.of_case and known.isdisjoint(item.names)]
    if scored and missing and all(not item.criterion.optional for item in missing):
        metrics = ",".join(sorted({name for item in missing for name in item.names}))
        raise UsageError(
            f"--criterion {criterion!r}: no conversation has a score of {metrics}; "
            f"otel-agentic evaluate --metrics {metrics} computes it"
        )
    outcomes = [combined(criteria, stored.get(_key(row), ()), row.outcome, row.reason) for row in scored]
    return [
        replace(
            conversation,
            outcome=part.outcome,
            reason=part.reason,
            known_failure=part.known_failure,
            pass_probability=None,
        )
        for conversation, part in zip(scored, outcomes, strict=True)
    ]


def parts_of_criterion(engine: Engine, scored: Sequence[ScoredConversation], criterion: str) -> list[CriterionPart]:
    """Return for each condition of a criterion how many conversations have it, and how many it fails.

    Empty for `correct`, whose conditions differ by case.

    Raises:
        UsageError: the criterion is malformed, or its metric is unknown.
    """
    if criterion == CORRECT:
        return []
    criteria, stored = _read(engine, scored, criterion)
    total = sum(row.count for row in scored)
    by_conversation = [
        [item.part(stored.get(_key(row), ()), row.outcome, row.reason) for item in criteria] for row in scored
    ]
    failing = [sum(part is not None and part.outcome == "fail" for part in parts) for parts in by_conversation]
    result = []
    for index, item in enumerate(criteria):
        of_condition = [parts[index] for parts in by_conversation]
        outcomes = ["missing" if part is None else part.outcome for part in of_condition]
        unknown = [row for row, outcome in zip(scored, outcomes, strict=True) if outcome not in {"pass", "fail"}]
        reasons: Counter[str] = Counter()
        for row in unknown:
            reasons[item.reason_missing(stored.get(_key(row), ()), row.reason)] += row.count
        result.append(
            CriterionPart(
                condition=item.criterion.text,
                known=total - sum(row.count for row in unknown),
                failed=sum(row.count for row, outcome in zip(scored, outcomes, strict=True) if outcome == "fail"),
                failed_alone=sum(
                    row.count
                    for row, outcome, count in zip(scored, outcomes, failing, strict=True)
                    if outcome == "fail" and count == 1
                ),
                missing=dict(reasons.most_common()),
                metric=item.names[0].removeprefix("agentic."),
            )
        )
    return result


def _read(
    engine: Engine, scored: Sequence[ScoredConversation], criterion: str
) -> tuple[list[StoredCriterion], Mapping[Key, Sequence[MetricScore]]]:
    """Return the conditions of a criterion, and the scores of conversations that they read."""
    criteria = engine.runner.criteria.stored(texts_of(criterion, engine.settings.scoring))
    with engine.store.read() as con:
        names = {name for item in criteria for name in item.names}
        return criteria, scores_by_conversation(con, map(_key, scored), sorted(names))


def _key(conversation: ScoredConversation) -> Key:
    return (conversation.environment, conversation.conversation_id)
