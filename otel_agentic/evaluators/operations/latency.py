"""How long a turn takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from otel_agentic.evaluators.base import Metric, MetricScore
from otel_agentic.evaluators.operations.names import LATENCY, OWN

if TYPE_CHECKING:
    from collections.abc import Iterable

    from otel_agentic.config import EvaluatorSettings
    from otel_agentic.evaluators.base import Need, Subject

_NS_PER_S: Final = 1e9

_METRICS: Final = (
    Metric(
        name=LATENCY,
        title="latency of a turn",
        definition="Seconds from the first start to the last end of the spans of a turn.",
        source=OWN,
        target="turn",
        limits="Time in which an interrupted turn waits for a person counts, too. The clocks are those of the senders.",
        high=None,
        unit="s",
        higher_is_better=False,
    ),
)


class Latency:
    """How long each turn takes."""

    name: str = "operations.latency"
    version: str = "1"
    metrics: tuple[Metric, ...] = _METRICS
    needs: frozenset[Need] = frozenset({"turns"})
    default: bool = True

    @classmethod
    def from_settings(cls, settings: EvaluatorSettings) -> Latency:
        """Return the evaluator; nothing of it can be set."""
        del settings
        return cls()

    def evaluate(self, subject: Subject) -> Iterable[MetricScore]:
        """Return one score a turn, seconds."""
        for turn in subject.conversation.turns:
            lasted_s = max(0, turn.ended_ns - turn.started_ns) / _NS_PER_S
            told = f"turn {turn.index + 1} took {lasted_s:.3f} s"
            yield MetricScore(name=LATENCY, value=lasted_s, turn_index=turn.index, explanation=told)
