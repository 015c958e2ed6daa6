"""Scores of metrics as telemetry tells them: which span they are about, and which histogram takes their value."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from otel_agentic.evaluators.failures import Place
from otel_agentic.evaluators.identity import target_of
from otel_agentic.telemetry import names
from otel_agentic.telemetry.attributes import conversation_context, span_context

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from opentelemetry.context import Context

    from otel_agentic.config import Severity, Threshold
    from otel_agentic.conversations.model import Conversation, Turn
    from otel_agentic.evaluators.base import Metric, MetricScore
    from otel_agentic.evaluators.failures import FailureRules
    from otel_agentic.scoring.model import Outcome
    from otel_agentic.telemetry.names import Instrument

#: What becomes of one unit of a metric: the histogram, and how much of its unit that is.
_Unit: TypeAlias = "tuple[Instrument, float]"
_UNITS: Final[Mapping[str, _Unit]] = {
    "s": (names.METRIC_DURATION, 1.0),
    "ms": (names.METRIC_DURATION, 1e-3),
    "min": (names.METRIC_DURATION, 60.0),
    "{token}": (names.METRIC_TOKENS, 1.0),
    "{USD}": (names.METRIC_COST, 1.0),
    "USD": (names.METRIC_COST, 1.0),
}
_SCORE_UNIT: Final = "1"


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricResult:
    """One score of a metric, or its abstention, with who gave it.

    `score_id` is that of the table `scores`; `case_id` that of the reviewed case, where there is one. `judged` says whether a
    model was asked. `outcome`, `severity` and `threshold` say how it stands by the settings; None where nothing says what a
    failure of the metric is.
    """

    metric: Metric
    score: MetricScore
    evaluator: str
    evaluator_version: str
    score_id: str
    case_id: str | None = None
    judged: bool = False
    outcome: Outcome | None = None
    severity: Severity | None = None
    threshold: float | None = None

    @property
    def failed_judge(self) -> bool:
        """Whether there is no score because the judge gave no usable verdict."""
        return self.score.abstained and self.score.reason == "judge_error"

    @property
    def target(self) -> str:
        """What the score is about, in the words of events."""
        return "tool_call" if (found := target_of(self.score)) == "call" else found

    @property
    def label(self) -> str | None:
        """The label: the metric's own, else how the score stands; None where there is neither."""
        return self.score.label or ("not_evaluated" if self.score.abstained else self.outcome)


class Standing(NamedTuple):
    """How a score stands by the settings: see `MetricResult`."""

    outcome: Outcome | None = None
    severity: Severity | None = None
    threshold: float | None = None


class Spot(NamedTuple):
    """The judged span as a context, and the end of what was judged, ns."""

    context: Context
    time_ns: int
    turn: Turn | None


class Reading(NamedTuple):
    """A value on its way into a histogram. `range` names the bounds that became 0 and 1, where they are others."""

    instrument: Instrument
    value: float
    range: str | None = None


def spots_of(conversation: Conversation) -> Callable[[MetricScore], Spot]:
    """Return what tells where scores of a conversation belong; of those of one place it looks once."""
    found: dict[tuple[int | None, int | None], Spot] = {}

    def spot(score: MetricScore) -> Spot:
        place = (score.turn_index, score.position)
        if place not in found:
            found[place] = spot_of(conversation, score)
        return found[place]

    return spot


def spot_of(conversation: Conversation, score: MetricScore) -> Spot:
    """Return where a score belongs: its call's span, its turn's, else the root of the last turn.

    A call has no end of its own: its turn's end is the first moment at which all of it is known.
    """
    if score.turn_index is None:
        last = conversation.turns[-1] if conversation.turns else None
        return Spot(conversation_context(conversation), conversation.ended_ns, last)
    turn = next((turn for turn in conversation.turns if turn.index == score.turn_index), None)
    if turn is None:
        return Spot(span_context("", ""), conversation.ended_ns, None)
    call = next((call for call in turn.calls if call.position == score.position), None)
    if call is not None and call.span_id:
        return Spot(span_context(call.trace_id, call.span_id), turn.ended_ns, turn)
    return Spot(span_context(turn.trace_id, turn.span_id), turn.ended_ns, turn)


def reading_of(metric: Metric, value: float) -> Reading | None:
    """Return the histogram that a value goes into, None where none can take it: they take no negative ones.

    A score is told between its bounds, as 0 to 1; what has a unit, or no bounds, goes where its unit is measured.

    >>> from otel_agentic.evaluators.base import Metric
    >>> told = {"title": "", "definition": "", "source": "", "target": "turn"}
    >>> reading_of(Metric(name="a", low=1.0, high=5.0, **told), 4.0)[1:]
    (0.75, '1..5')
    >>> reading_of(Metric(name="b", unit="ms", high=None, **told), 250.0)[1:]
    (0.25, None)
    """
    low, high = metric.low, metric.high
    if metric.unit == _SCORE_UNIT and low is not None and high is not None and low < high:
        between = None if (low, high) == (0.0, 1.0) else f"{low:g}..{high:g}"
        instrument, value = names.SCORE, (value - low) / (high - low)
    else:
        between = None
        instrument, scale = _UNITS.get(metric.unit, (names.METRIC_AMOUNT, 1.0))
        value *= scale
    return Reading(instrument, value, between) if math.isfinite(value) and value >= 0.0 else None


def standing_of(conversation: Conversation, score: MetricScore, rules: FailureRules) -> Standing:
    """Return whether a score is a failure, how bad it is, and at which value it would be none."""
    metric, threshold = rules.metrics.get(score.name), rules.thresholds.get(score.name)
    bound = None if threshold is None else _bound(threshold)
    if score.abstained:
        return Standing(threshold=bound)
    failure = rules.failure(Place.of(conversation), score)
    if failure is not None:
        return Standing("fail", failure.severity, bound)
    says = threshold is not None or (metric is not None and metric.failing)
    return Standing("pass" if says else None, None, bound)


def _bound(threshold: Threshold) -> float | None:
    return threshold.max if threshold.min is None else threshold.min
