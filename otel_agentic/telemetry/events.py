"""Scores as single results, and what their telemetry needs: attributes, spans and values."""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

from opentelemetry.sdk.resources import Resource

from otel_agentic.evaluators.score_ids import target_of
from otel_agentic.scoring.model import (
    ConversationScore,
    JudgedCall,
    ToolFault,
    ToolScore,
    TurnScore,
    faulty,
    judged_calls,
)
from otel_agentic.telemetry import names
from otel_agentic.telemetry.observations import NO_SPAN, SpanIds
from otel_agentic.windows.model import GroupKey

if TYPE_CHECKING:
    from otel_agentic.config import Severity
    from otel_agentic.conversations.model import Conversation, Turn
    from otel_agentic.evaluators.base import Metric, MetricScore
    from otel_agentic.scoring.scope import Outcome
    from otel_agentic.telemetry.names import Instrument


def own_version() -> str:
    """Return the version of the installed distribution, `unknown` if run from a bare source tree."""
    try:
        return version(names.OWN_SERVICE_NAME)
    except PackageNotFoundError:
        return "unknown"


def own_resource(instance_id: str | None = None) -> Resource:
    """Return the resource of everything that this process emits, never that of the judged agent.

    Without an instance id, each call creates a new one.
    """
    attributes = {
        names.SERVICE_NAME: names.OWN_SERVICE_NAME,
        names.SERVICE_VERSION: own_version(),
        names.SERVICE_INSTANCE_ID: instance_id or str(uuid.uuid4()),
    }
    return Resource.create(attributes, schema_url=names.SCHEMA_URL)


#: The largest number of characters of an attribute value: each value of a metric stays in memory as long as its series.
MAX_LABEL_CHARS: Final = 256


def label(text: str, limit: int = MAX_LABEL_CHARS) -> str:
    r"""Return `text`, cut to `limit` characters and encodable as UTF-8.

    A single lone surrogate would make the encoder refuse the whole export.

    >>> label("refunds\ud800")
    'refunds?'
    """
    cut = text if len(text) <= limit else text[: limit - 1] + "…"
    return cut.encode("utf-8", "replace").decode("utf-8")


def group_attributes(key: GroupKey) -> dict[str, str]:
    """Return a group's metric attributes; unknown ones are omitted.

    >>> group_attributes(GroupKey(agent="travel", environment="production"))
    {'gen_ai.agent.name': 'travel', 'deployment.environment.name': 'production'}
    """
    values = {
        names.GEN_AI_AGENT_NAME: key.agent,
        names.GEN_AI_AGENT_VERSION: key.agent_version,
        names.DEPLOYMENT_ENVIRONMENT_NAME: key.environment,
        names.SUBJECT_SERVICE_NAME: key.service,
        names.CASE_TAG: key.tag,
        names.CRITERION: key.criterion,
        names.CRITERIA: key.criteria,
    }
    return {name: label(value) for name, value in values.items() if value}


def group_of(conversation: Conversation) -> GroupKey:
    """Return the group of one conversation: agent, version, environment and service."""
    return GroupKey(
        agent=conversation.agent_name,
        agent_version=conversation.agent_version,
        environment=conversation.environment,
        service=conversation.service,
    )


def root_of(conversation: Conversation) -> SpanIds:
    """Return the span of a conversation: the root span of its last turn."""
    if not conversation.turns:
        return NO_SPAN
    last = conversation.turns[-1]
    return SpanIds(last.trace_id, last.span_id)


Target: TypeAlias = Literal["conversation", "turn", "tool_call"]
EvaluatorType: TypeAlias = Literal["rule", "judge", "label"]

#: Scores are sums of weighted shares: the comparison with a threshold tolerates rounding errors, as in scoring.
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluator:
    """What produced scores: `version` identifies code, prompt, model, thresholds and truth.

    `answers` is how answers were judged.
    """

    version: str | None = None
    answers: EvaluatorType = "rule"
    answer_threshold: float | None = None
    tool_threshold: float | None = None


class Result(NamedTuple):
    """One evaluation of one target.

    `score` is in [0, 1], None if there is no score. `time_ns` is the end of the evaluated target. `trace_id` and `span_id`
    identify the evaluated span. `position` distinguishes results with the same name and target. `threshold` and the
    fields after it are None or empty if they do not apply.
    """

    name: str
    target: Target
    evaluator_type: EvaluatorType
    label: Outcome
    score: float | None
    reason: str | None
    explanation: str
    time_ns: int
    trace_id: str
    span_id: str
    position: tuple[int | str | None, ...] = ()
    threshold: float | None = None
    turn_index: int | None = None
    response_id: str | None = None
    tool_name: str | None = None
    fault: ToolFault | None = None
    parameters: tuple[str, ...] = ()

    @property
    def failed_judge(self) -> bool:
        """Whether the judge gave no usable verdict."""
        return self.label == "not_evaluated" and self.reason == "judge_error"


def results_of(conversation: Conversation, score: ConversationScore, evaluator: Evaluator) -> tuple[Result, ...]:
    """Return the results: the conversation, each turn's answer, each tool dimension, each call at fault."""
    turns = {turn.index: turn for turn in conversation.turns}
    calls = judged_calls(conversation, score)
    return (
        _conversation(conversation, score),
        *(_answer(turns[turn.turn_index], turn, evaluator) for turn in score.turns if turn.turn_index in turns),
        *(result for tool in score.tools for result in _dimensions(conversation, turns, tool, evaluator)),
        *(_call(conversation, turns, call, fault) for call, fault in faulty(calls)),
    )


def _conversation(conversation: Conversation, score: ConversationScore) -> Result:
    last = conversation.turns[-1] if conversation.turns else None
    return Result(
        name=names.EVALUATION_CONVERSATION,
        target="conversation",
        evaluator_type="rule" if score.outcome_source == "computed" else "label",
        label=score.outcome,
        score={"pass": 1.0, "fail": 0.0, "not_evaluated": None}[score.outcome],
        reason=score.reason,
        explanation=score.explanation,
        time_ns=conversation.ended_ns,
        trace_id=last.trace_id if last else "",
        span_id=last.span_id if last else "",
        response_id=last.response_id if last else None,
    )


def _answer(turn: Turn, score: TurnScore, evaluator: Evaluator) -> Result:
    return Result(
        name=names.EVALUATION_ANSWER,
        target="turn",
        evaluator_type=evaluator.answers,
        label=score.answer_outcome,
        score=score.answer_score,  # without an evaluation, only an uncertain judge has a score
        reason=score.answer_reason,
        explanation=score.explanation,
        time_ns=turn.ended_ns,
        trace_id=turn.trace_id,
        span_id=turn.span_id,
        position=(turn.index,),
        threshold=evaluator.answer_threshold,
        turn_index=turn.index,
        response_id=turn.response_id,
    )


def _dimensions(
    conversation: Conversation, turns: dict[int, Turn], tool: ToolScore, evaluator: Evaluator
) -> Iterator[Result]:
    last = conversation.turns[-1] if conversation.turns else None
    turn = turns.get(tool.turn_index) if tool.turn_index is not None else last
    for dimension, value in tool.dimensions.items():
        if value is None:
            continue
        yield Result(
            name=names.EVALUATION_TOOL_PREFIX + dimension,
            target="conversation" if tool.turn_index is None else "turn",
            evaluator_type="rule",
            label=_dimension_label(tool, value, evaluator),
            score=value,
            reason=tool.reason,
            explanation=tool.explanation,
            time_ns=turn.ended_ns if turn else conversation.ended_ns,
            trace_id=turn.trace_id if turn else "",
            span_id=turn.span_id if turn else "",
            position=(tool.turn_index,),
            threshold=evaluator.tool_threshold,
            turn_index=tool.turn_index,
            response_id=turn.response_id if turn else None,
        )


def _dimension_label(tool: ToolScore, value: float, evaluator: Evaluator) -> Outcome:
    if tool.outcome == "not_evaluated":
        return "not_evaluated"
    threshold = 1.0 if evaluator.tool_threshold is None else evaluator.tool_threshold
    return "pass" if value >= threshold - _ROUNDING else "fail"


def _call(conversation: Conversation, turns: dict[int, Turn], call: JudgedCall, fault: ToolFault) -> Result:
    turn = turns.get(call.turn_index) if call.turn_index is not None else None
    return Result(
        name=names.EVALUATION_TOOL_CALL,
        target="tool_call",
        evaluator_type="rule",
        label="fail",
        score=0.0,
        reason="tool_fault",
        explanation=" ".join(call_fault.explanation for call_fault in call.faults if call_fault.explanation),
        # The model has no end time for a call: the end of its turn is the first moment at which the call is complete.
        time_ns=turn.ended_ns if turn else conversation.ended_ns,
        trace_id=call.trace_id,
        span_id=call.span_id,
        position=call.score_key(fault),
        turn_index=call.turn_index,
        tool_name=call.tool_name,
        fault=fault,
        parameters=tuple(
            sorted({call_fault.parameter for call_fault in call.faults if call_fault.parameter is not None})
        ),
    )


#: The histogram of a metric's unit, and the unit of the histogram in the metric's unit.
_Unit: TypeAlias = "tuple[Instrument, float]"
_UNITS: Final[Mapping[str, _Unit]] = {
    "s": (names.METRIC_DURATION, 1.0),
    "ms": (names.METRIC_DURATION, 1e3),
    "min": (names.METRIC_DURATION, 1 / 60),
    "{token}": (names.METRIC_TOKENS, 1.0),
    "{USD}": (names.METRIC_COST, 1.0),
    "USD": (names.METRIC_COST, 1.0),
}
_SCORE_UNIT: Final = "1"


class MetricResult(NamedTuple):
    """One score of a metric, or its abstention, with its evaluator.

    `score_id` is the id in the table `scores`; `case_id` is that of the reviewed case, if there is one. `by_judge` is
    whether a model was called. `outcome`, `severity` and `threshold` are the status of the score according to the
    settings; None if the settings do not define a failure of the metric.
    """

    metric: Metric
    score: MetricScore
    evaluator: str
    evaluator_version: str
    score_id: str
    case_id: str | None = None
    by_judge: bool = False
    outcome: Outcome | None = None
    severity: Severity | None = None
    threshold: float | None = None

    @property
    def failed_judge(self) -> bool:
        """Whether there is no score because the judge gave no usable verdict."""
        return self.score.abstained and self.score.reason == "judge_error"

    @property
    def target(self) -> str:
        """The target of the score, as named in events."""
        return "tool_call" if (target := target_of(self.score)) == "call" else target

    @property
    def label(self) -> str | None:
        """The label: the metric's own, else the outcome; None if there is neither."""
        return self.score.label or ("not_evaluated" if self.score.abstained else self.outcome)


class ConversationResult(NamedTuple):
    """The score of a conversation. `restated`: it replaces an earlier one; `evaluator`: None for that of the run."""

    conversation: Conversation
    score: ConversationScore
    restated: bool = False
    evaluator: Evaluator | None = None


class ConversationResults(NamedTuple):
    """Results of metrics for a conversation. `restated`: they replace earlier results."""

    conversation: Conversation
    results: Sequence[MetricResult]
    restated: bool = False


class Spot(NamedTuple):
    """The evaluated span, the end of the target in nanoseconds, and the turn."""

    span: SpanIds
    time_ns: int
    turn: Turn | None


class Scale(NamedTuple):
    """How the values of a metric are recorded: in which histogram, and the values `low` and `high` that become 0 and 1 there.

    `range` names these two; None if values are recorded as they are, or only in another unit.
    """

    instrument: Instrument
    low: float = 0.0
    high: float = 1.0
    range: str | None = None

    def apply(self, value: float) -> float | None:
        """Return the value to record; None for a negative or non-finite one, which histograms do not accept."""
        scaled = (value - self.low) / (self.high - self.low)
        return scaled if 0.0 <= scaled < math.inf else None


def spots_of(conversation: Conversation) -> Callable[[MetricScore], Spot]:
    """Return a function from a score of the conversation to its spot; each spot is computed once."""
    spots: dict[tuple[int | None, int | None], Spot] = {}

    def spot(score: MetricScore) -> Spot:
        target = (score.turn_index, score.position)
        if target not in spots:
            spots[target] = spot_of(conversation, score)
        return spots[target]

    return spot


def spot_of(conversation: Conversation, score: MetricScore) -> Spot:
    """Return the spot of a score: the span of its call, else of its turn, else the root of the last turn.

    A call has no end time: the end of its turn is the first moment at which the call is complete.
    """
    if score.turn_index is None:
        last = conversation.turns[-1] if conversation.turns else None
        return Spot(root_of(conversation), conversation.ended_ns, last)
    turn = next((turn for turn in conversation.turns if turn.index == score.turn_index), None)
    if turn is None:
        return Spot(NO_SPAN, conversation.ended_ns, None)
    call = next((call for call in turn.calls if call.position == score.position), None)
    if call is not None and call.span_id:
        return Spot(SpanIds(call.trace_id, call.span_id), turn.ended_ns, turn)
    return Spot(SpanIds(turn.trace_id, turn.span_id), turn.ended_ns, turn)


def scale_of(metric: Metric) -> Scale:
    """Return the scale of a metric: a score is mapped from its bounds to 0 to 1; a value with a unit, or without bounds, is not.

    >>> from otel_agentic.evaluators.base import Metric
    >>> texts = {"title": "", "definition": "", "source": "", "target": "turn"}
    >>> scale = scale_of(Metric(name="a", low=1.0, high=5.0, **texts))
    >>> scale.apply(4.0), scale.range
    (0.75, '1..5')
    >>> scale_of(Metric(name="b", unit="ms", high=None, **texts)).apply(250.0)
    0.25
    """
    low, high = metric.low, metric.high
    if metric.unit == _SCORE_UNIT and low is not None and high is not None and low < high:
        return Scale(names.SCORE, low, high, None if (low, high) == (0.0, 1.0) else f"{low:g}..{high:g}")
    instrument, unit = _UNITS.get(metric.unit, (names.METRIC_AMOUNT, 1.0))
    return Scale(instrument, high=unit)
