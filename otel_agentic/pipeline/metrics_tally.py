"""Counts of the metric scores of a run."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from otel_agentic.store.metric_scores import Measured


@dataclass(slots=True)
class _MetricCounts:
    """Counts of one metric."""

    evaluator: str
    n: int = 0
    values: int = 0
    total: float = 0.0
    labels: Counter[str] = field(default_factory=Counter)
    not_evaluated: Counter[str] = field(default_factory=Counter)

    @property
    def mean(self) -> float | None:
        return self.total / self.values if self.values else None


@dataclass(slots=True)
class MetricTally:
    """Accumulates metric scores, batch by batch.

    Attributes:
        conversations: number of conversations that evaluators were run on.
        rows: number of scores.
        caught_up: number of already scored conversations that evaluators were run on.
        faults: messages of failed evaluators, with how often each occurred.
    """

    conversations: int = 0
    rows: int = 0
    caught_up: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    _counted: set[tuple[str, str]] = field(default_factory=set)
    _metrics: dict[str, _MetricCounts] = field(default_factory=dict)

    def add(self, measured: Sequence[Measured]) -> None:
        """Count a batch."""
        for item in measured:
            key = (item.conversation.environment, str(item.conversation.conversation_id))
            if key not in self._counted:
                self._counted.add(key)
                self.conversations += 1
            self.rows += len(item.scores)
            for score in item.scores:
                counted = self._metrics.setdefault(score.name, _MetricCounts(item.evaluator.name))
                if score.reason is not None and score.abstained:
                    counted.not_evaluated[score.reason] += 1
                    continue
                counted.n += 1
                if score.value is not None:
                    counted.values += 1
                    counted.total += score.value
                if score.label is not None:
                    counted.labels[score.label] += 1

    def to_json(self, metrics: Collection[str]) -> dict[str, Any]:
        """Return the counts as JSON, restricted to the requested metrics and sorted by name."""
        return {
            "conversations": self.conversations,
            "rows": self.rows,
            "caught_up": self.caught_up,
            "faults": dict(self.faults.most_common()),
            "metrics": [
                {
                    "name": name,
                    "evaluator": counts.evaluator,
                    "n": counts.n,
                    "mean": counts.mean,
                    "labels": dict(counts.labels.most_common()),
                    "not_evaluated": dict(counts.not_evaluated.most_common()),
                }
                for name, counts in sorted(self._metrics.items())
                if name in metrics
            ],
        }
