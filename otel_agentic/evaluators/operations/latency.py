"""How long a turn takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from otel_agentic.evaluators.base import Metric, MetricScore, WithoutSettings
from otel_agentic.evaluators.catalog import metrics_of
from otel_agentic.evaluators.operations.names import LATENCY

if TYPE_CHECKING:
    from collections.abc import Iterable

    from otel_agentic.conversations.model import Conversation, Turn
    from otel_agentic.evaluators.base import Need, Subject
    from otel_agentic.evaluators.needs import Missing

_NS_PER_S: Final = 1e9


class Latency(WithoutSettings):
    """How long each turn takes."""

    name: str = "operations.latency"
    version: str = "2"
    metrics: tuple[Metric, ...] = metrics_of("operations.latency")
    needs: frozenset[Need] = frozenset({"turns"})
    default: bool = True

    def evaluate(self, subject: Subject) -> Iterable[MetricScore]:
        """Return one score a turn, seconds."""
        for turn in subject.conversation.turns:
            lacking = _lacking(turn, subject.conversation)
            if lacking is not None:
                reason, told = lacking
                yield MetricScore(name=LATENCY, reason=reason, turn_index=turn.index, explanation=told)
                continue
            lasted_s = (turn.ended_ns - turn.started_ns) / _NS_PER_S
            told = f"turn {turn.index + 1} took {lasted_s:.3f} s"
            yield MetricScore(name=LATENCY, value=lasted_s, turn_index=turn.index, explanation=told)


def _lacking(turn: Turn, conversation: Conversation) -> Missing | None:
    """Return why nobody knows how long a turn took, as (reason, explanation); None where it is known."""
    if turn.ended_ns < turn.started_ns:
        return (
            "incomplete",
            f"turn {turn.index + 1} ends before it starts: the times of its spans contradict each other",
        )
    whole = (conversation.started_ns, conversation.ended_ns)
    # A conversation that was not rebuilt from spans lends its own times to its turns: of several none lasts the whole.
    lent = len(conversation.turns) > 1 and all((each.started_ns, each.ended_ns) == whole for each in conversation.turns)
    if lent or not turn.span_id or not turn.started_ns:
        return "times_not_recorded", f"no span records when turn {turn.index + 1} began and ended"
    return None
