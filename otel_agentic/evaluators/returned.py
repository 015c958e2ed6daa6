"""What a function says of a conversation or a turn -> scores: numbers, truth values, labels, scores, nothing, or several."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from numbers import Real
from typing import TYPE_CHECKING, Final

from otel_agentic.evaluators.base import MetricScore
from otel_agentic.judges.base import JudgeFailure

if TYPE_CHECKING:
    from otel_agentic.conversations.model import Conversation, Turn
    from otel_agentic.evaluators.base import Metric
    from otel_agentic.scoring.model import NotEvaluatedReason

_ALLOWED: Final = "a number, True or False, one of its labels, a MetricScore, None, or several of these"
#: The name, among `details` of an abstention, of what went wrong in an evaluator. A user's own names are others.
FAULT: Final = "otel_agentic.fault"
#: What is kept of the text of an exception, in characters.
_MAX_TOLD: Final = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """What a function is asked about: a conversation, or one turn of it."""

    evaluator: str
    metrics: tuple[Metric, ...]
    conversation: Conversation
    turn: Turn | None = None

    @property
    def told(self) -> str:
        """The place in words; turns are counted from 1."""
        conversation = f"conversation {self.conversation.conversation_id}"
        return conversation if self.turn is None else f"turn {self.turn.index + 1} of {conversation}"

    def scores(self, said: object) -> Iterator[MetricScore]:
        """Yield the scores that something is which a function returned.

        Raises:
            TypeError: it is none of what is allowed.
        """
        if said is None:
            yield from self.abstentions(f"evaluator {self.evaluator} says nothing of {self.told}")
        elif isinstance(said, JudgeFailure):
            yield from self.abstentions(said.message, said.reason)
        elif isinstance(said, Iterable) and not isinstance(said, str | bytes | Mapping):
            for one in said:
                yield self.score(one)
        else:
            yield self.score(said)

    def score(self, said: object) -> MetricScore:
        """Return the score that one value is.

        Raises:
            TypeError: it is none of what is allowed.
        """
        if isinstance(said, MetricScore):
            return replace(said, turn_index=self._turn_index) if said.turn_index is None else said
        if not isinstance(said, str | Real | JudgeFailure) and said is not None:
            raise TypeError(f"it returned {type(said).__name__}; allowed: {_ALLOWED}")
        if len(self.metrics) != 1:
            names = ", ".join(metric.name for metric in self.metrics)
            raise TypeError(f"it returned {said!r}; of several metrics, a MetricScore says which is meant: {names}")
        if said is None:
            return self._abstention(self.metrics[0], f"evaluator {self.evaluator} says nothing of {self.told}")
        if isinstance(said, JudgeFailure):
            return self._abstention(self.metrics[0], said.message, said.reason)
        name = self.metrics[0].name
        if isinstance(said, str):
            return MetricScore(name=name, label=said, turn_index=self._turn_index)
        return MetricScore(name=name, value=float(said), turn_index=self._turn_index)

    def abstentions(self, explanation: str, reason: NotEvaluatedReason = "no_data") -> list[MetricScore]:
        """Return that there is no score of any metric, and why."""
        return [self._abstention(metric, explanation, reason) for metric in self.metrics]

    def failed(self, error: Exception, given: Iterable[MetricScore]) -> list[MetricScore]:
        """Return that there is no score of those metrics that were not given before a function raised.

        `details` tell what is counted as a fault of the evaluator: without the place, so that a thousand alike are one.
        """
        there = {score.name for score in given}
        text = " ".join(str(error).split())[:_MAX_TOLD]
        raised = f"{type(error).__name__}: {text}" if text else type(error).__name__
        told = f"evaluator {self.evaluator} failed at {self.told}: {raised}"
        fault = {FAULT: f"evaluator {self.evaluator} failed: {type(error).__name__}"}
        return [replace(one, details=fault) for one in self.abstentions(told) if one.name not in there]

    @property
    def _turn_index(self) -> int | None:
        return None if self.turn is None else self.turn.index

    def _abstention(self, metric: Metric, explanation: str, reason: NotEvaluatedReason = "no_data") -> MetricScore:
        return MetricScore(name=metric.name, reason=reason, explanation=explanation, turn_index=self._turn_index)
