"""Counts of what evaluators said in a run."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from otel_agentic.store.metric_scores import Measured


@dataclass(slots=True)
class _Counted:
    """What one metric came to."""

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
    """Gathers what evaluators said, part by part. `conversations` counts those that evaluators were run on."""

    conversations: int = 0
    rows: int = 0
    caught_up: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    _seen: set[tuple[str, str]] = field(default_factory=set)
    _metrics: dict[str, _Counted] = field(default_factory=dict)

    def add(self, measured: Sequence[Measured]) -> None:
        """Count some of it."""
        for one in measured:
            key = (one.conversation.environment, str(one.conversation.conversation_id))
            if key not in self._seen:
                self._seen.add(key)
                self.conversations += 1
            self.rows += len(one.scores)
            for score in one.scores:
                counted = self._metrics.setdefault(score.name, _Counted(one.evaluator.name))
                if score.reason is not None and score.abstained:
                    counted.not_evaluated[score.reason] += 1
                    continue
                counted.n += 1
                if score.value is not None:
                    counted.values += 1
                    counted.total += score.value
                if score.label is not None:
                    counted.labels[score.label] += 1

    def told(self, metrics: Collection[str]) -> dict[str, Any]:
        """Return all of it as JSON can say it; of metrics only those that were asked for, in the order of their names."""
        return {
            "conversations": self.conversations,
            "rows": self.rows,
            "caught_up": self.caught_up,
            "faults": dict(self.faults.most_common()),
            "metrics": [
                {
                    "name": name,
                    "evaluator": one.evaluator,
                    "n": one.n,
                    "mean": one.mean,
                    "labels": dict(one.labels.most_common()),
                    "not_evaluated": dict(one.not_evaluated.most_common()),
                }
                for name, one in sorted(self._metrics.items())
                if name in metrics
            ],
        }
