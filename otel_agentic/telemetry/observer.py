"""The observer of scored conversations: results become counts, values of histograms, and events.

It holds options only, so it can be sent to a worker process, which collects what another process records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from otel_agentic.evaluators.base import CORE
from otel_agentic.evaluators.score_ids import core_score_id
from otel_agentic.scoring.model import judged_calls
from otel_agentic.telemetry import names
from otel_agentic.telemetry.events import (
    Evaluator,
    group_attributes,
    group_of,
    label,
    results_of,
    root_of,
    scale_of,
    spots_of,
)
from otel_agentic.telemetry.observations import Event, Observations, Series, SpanIds, attributes_of

if TYPE_CHECKING:
    from otel_agentic.conversations.model import Conversation
    from otel_agentic.evaluators.base import Metric, MetricScore
    from otel_agentic.scoring.model import ConversationScore
    from otel_agentic.telemetry.events import (
        ConversationResult,
        ConversationResults,
        MetricResult,
        Result,
        Scale,
        Spot,
    )
    from otel_agentic.telemetry.observations import EventValue
    from otel_agentic.windows.model import GroupKey

Trigger: TypeAlias = Literal["online", "backfill", "cli"]

#: The largest number of characters of an explanation, and of an id.
MAX_EXPLANATION_CHARS: Final = 1000
MAX_ID_CHARS: Final = 1024
#: The largest number of wrong parameters in one event: an untrusted call may have any number, and 4,096 events may wait.
MAX_PARAMETERS: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class EventOptions:
    """Options of all events of one run. `explanations` may contain conversation text."""

    run_id: str
    trigger: Trigger
    explanations: bool = False
    evaluator: Evaluator = field(default_factory=Evaluator)


@dataclass(frozen=True, slots=True, kw_only=True)
class Observer:
    """Collects the observations of one run.

    Attributes:
        options: options of all events.
        counts: whether to collect counts and values.
        events: whether to create events: those of conversations, and of the metrics that a model scored.
        every_metric: whether to create the events of all metrics.
    """

    options: EventOptions
    counts: bool = True
    events: bool = False
    every_metric: bool = False

    def scores(self, scored: Iterable[ConversationResult]) -> Observations:
        """Count conversations, and, of first results, their turns, calls and scores; create their events.

        The series of turns, calls and scores have no revision attribute, so a restatement would be counted twice.
        """
        observations = Observations()
        for conversation, score, restated, evaluator in scored:
            if self.counts:
                _count_scores(observations, conversation, score, restated=restated)
            if self.events:
                observations.events += score_events(conversation, score, self.options, evaluator)
        return observations

    def metrics(self, results: Sequence[ConversationResults]) -> Observations:
        """Count the scores and abstentions of evaluators, record values of first results only, and create the events."""
        observations = Observations()
        if self.counts:
            _count_metrics(observations, results)
        if self.events:
            for conversation, own, _ in results:
                selected = own if self.every_metric else [result for result in own if result.by_judge]
                observations.events += metric_events(conversation, selected, self.options)
        return observations


def _count_scores(
    observations: Observations, conversation: Conversation, score: ConversationScore, *, restated: bool
) -> None:
    group = group_attributes(group_of(conversation))
    reason = {names.REASON: score.reason} if score.reason else {}
    revision = "restated" if restated else "first"
    attributes = {**group, names.OUTCOME: score.outcome, names.REVISION: revision, **reason}
    root = root_of(conversation)
    observations.count(names.EVALUATED_CONVERSATIONS, attributes_of(attributes), root)
    if restated:
        return
    spans = {turn.index: SpanIds(turn.trace_id, turn.span_id) for turn in conversation.turns}
    for turn in score.turns:
        of_turn = attributes_of({**group, names.OUTCOME: turn.outcome})
        observations.count(names.EVALUATED_TURNS, of_turn, spans.get(turn.turn_index, root))
    for call in judged_calls(conversation, score):
        fault = call.fault.kind if call.fault else names.NO_FAULT
        of_call = attributes_of({**group, names.GEN_AI_TOOL_NAME: label(call.tool_name), names.TOOL_FAULT: fault})
        observations.count(names.EVALUATED_TOOL_CALLS, of_call, SpanIds(call.trace_id, call.span_id))
    for result in results_of(conversation, score, Evaluator()):
        if result.score is not None and result.label != "not_evaluated" and result.target != "tool_call":
            of_score = attributes_of({**group, names.GEN_AI_EVALUATION_NAME: result.name})
            observations.measure(names.SCORE, of_score, result.score, SpanIds(result.trace_id, result.span_id))


def _count_metrics(observations: Observations, results: Sequence[ConversationResults]) -> None:
    """Count results; their number of series is bounded by the installed metrics and the labels that each declares."""
    groups: dict[tuple[GroupKey, bool], _MetricCounts] = {}
    subjects: dict[tuple[int, bool], tuple[_MetricCounts, Callable[[MetricScore], Spot]]] = {}
    for conversation, metric_results, restated in results:
        subject = id(conversation), restated
        if subject not in subjects:  # a batch has the results of each evaluator apart
            group = group_of(conversation)
            counts = groups.setdefault((group, restated), _MetricCounts(group, restated=restated))
            subjects[subject] = counts, spots_of(conversation)
        counts, spot_of = subjects[subject]
        counts.add(metric_results, spot_of)
    for counts in groups.values():
        counts.add_to(observations)


class _MetricCounts:
    """The results of one group in a batch. They are added to observations, whose keys take longer to hash, at the end."""

    def __init__(self, group: GroupKey, *, restated: bool) -> None:
        self._attributes = group_attributes(group)
        self._restated = restated
        #: The number of equal results, the first of them and its span.
        self._counts: dict[object, tuple[int, MetricResult, SpanIds]] = {}
        #: The values of each metric.
        self._values: dict[str, tuple[Scale, Series]] = {}

    def add(self, results: Iterable[MetricResult], spot_of: Callable[[MetricScore], Spot]) -> None:
        """Count results of a conversation; only those that replace none have their values recorded."""
        for result in results:
            score = result.score
            span = spot_of(score).span
            key = (result.metric.name, result.outcome, result.severity, score.label, score.reason, score.abstained)
            count, first, first_span = self._counts.get(key) or (0, result, span)
            self._counts[key] = count + 1, first, first_span
            if score.value is not None and not self._restated:
                scale, series = self._series_of(result.metric)
                value = scale.apply(score.value)
                if value is not None:
                    series.add(scale.instrument, value, span)

    def add_to(self, observations: Observations) -> None:
        """Add all counts and values to observations."""
        revision = {names.REVISION: "restated" if self._restated else "first"}
        for count, result, span in self._counts.values():
            attributes = attributes_of({**self._attributes, **revision, **_result_attributes(result)})
            observations.count(names.METRIC_RESULTS, attributes, span, count)
        for name, (scale, series) in self._values.items():
            if not any(series.counts):
                continue
            evaluation_range = {} if scale.range is None else {names.EVALUATION_RANGE: scale.range}
            evaluation_name = {names.GEN_AI_EVALUATION_NAME: label(name)}
            attributes = attributes_of({**self._attributes, **evaluation_name, **evaluation_range})
            observations.add_series(scale.instrument, attributes, series)

    def _series_of(self, metric: Metric) -> tuple[Scale, Series]:
        known = self._values.get(metric.name)
        if known is None:
            scale = scale_of(metric)
            known = self._values[metric.name] = scale, Series.of(scale.instrument)
        return known


def _result_attributes(result: MetricResult) -> dict[str, str]:
    """Return the metric's name and the attributes that distinguish results; a label that the metric does not declare is `other`."""
    score = result.score
    replacement = None if score.label is None or score.label in result.metric.labels else names.OTHER
    values = {
        names.GEN_AI_EVALUATION_NAME: label(result.metric.name),
        names.OUTCOME: "not_evaluated" if score.abstained else result.outcome,
        names.GEN_AI_EVALUATION_SCORE_LABEL: None if score.label is None else replacement or label(score.label),
        names.SEVERITY: result.severity,
        names.REASON: score.reason if score.abstained else None,
    }
    return {name: value for name, value in values.items() if value is not None}


def score_events(
    conversation: Conversation, score: ConversationScore, options: EventOptions, evaluator: Evaluator | None = None
) -> Iterator[Event]:
    """Yield the events of one scored conversation; `evaluator` None means that of the options."""
    own = options if evaluator is None else replace(options, evaluator=evaluator)
    for result in results_of(conversation, score, own.evaluator):
        yield Event(
            time_ns=result.time_ns,
            span=SpanIds(result.trace_id, result.span_id),
            body=f"{result.name}: {result.label}",
            attributes=event_attributes(conversation, score, result, own),
        )


def event_attributes(
    conversation: Conversation, score: ConversationScore, result: Result, options: EventOptions
) -> dict[str, EventValue]:
    """Return the attributes of one event; unknown or inapplicable ones are omitted."""
    values: dict[str, EventValue | None] = {
        **group_attributes(group_of(conversation)),
        **_standard(conversation, result),
        **_own(score, result),
        names.EVALUATION_ID: core_score_id(score, options.evaluator.version or "", result.name, result.position),
        names.EVALUATOR: CORE,
        names.EVALUATOR_VERSION: options.evaluator.version,
        names.RUN_ID: options.run_id,
        names.TRIGGER: options.trigger,
    }
    if options.explanations and result.explanation:
        values[names.GEN_AI_EVALUATION_EXPLANATION] = label(result.explanation, MAX_EXPLANATION_CHARS)
    return {name: value for name, value in values.items() if value is not None}


def _standard(conversation: Conversation, result: Result) -> dict[str, EventValue | None]:
    return {
        names.GEN_AI_EVALUATION_NAME: result.name,
        names.GEN_AI_EVALUATION_SCORE_VALUE: result.score,
        names.GEN_AI_EVALUATION_SCORE_LABEL: result.label,
        names.GEN_AI_CONVERSATION_ID: label(conversation.conversation_id, MAX_ID_CHARS),
        names.GEN_AI_RESPONSE_ID: _text(result.response_id),
        names.GEN_AI_TOOL_NAME: _text(result.tool_name),
        names.ERROR_TYPE: "judge_error" if result.failed_judge else None,
    }


def _own(score: ConversationScore, result: Result) -> dict[str, EventValue | None]:
    return {
        names.EVALUATION_TARGET: result.target,
        names.EVALUATION_THRESHOLD: result.threshold,
        names.EVALUATION_REVISION: score.revision,
        names.EVALUATOR_TYPE: result.evaluator_type,
        names.TURN_INDEX: result.turn_index,
        names.CASE_ID: _text(score.case_id),
        names.MATCH_METHOD: score.match_method,
        names.REASON: result.reason,
        names.TOOL_FAULT: result.fault.kind if result.fault else None,
        names.TOOL_PARAMETER: tuple(label(name) for name in result.parameters[:MAX_PARAMETERS]) or None,
    }


def _text(value: str | None) -> str | None:
    return None if value is None else label(value, MAX_ID_CHARS)


def metric_events(
    conversation: Conversation, results: Iterable[MetricResult], options: EventOptions
) -> Iterator[Event]:
    """Yield an event for each score, and for each failure of a judge.

    Other abstentions have no event: most metrics do not apply to most conversations.
    """
    spot_of, shared = spots_of(conversation), _shared(conversation, options)
    for result in results:
        if result.score.abstained and not result.failed_judge:
            continue
        spot = spot_of(result.score)
        yield Event(
            time_ns=spot.time_ns,
            span=spot.span,
            body=f"{label(result.metric.name)}: {_label_or_value(result)}",
            attributes={**shared, **_attributes(result, spot, explained=options.explanations)},
        )


def _shared(conversation: Conversation, options: EventOptions) -> dict[str, EventValue]:
    """Return the attributes that all metric events of a conversation share."""
    return {
        **group_attributes(group_of(conversation)),
        names.GEN_AI_CONVERSATION_ID: label(conversation.conversation_id, MAX_ID_CHARS),
        names.EVALUATION_REVISION: conversation.revision,
        names.RUN_ID: options.run_id,
        names.TRIGGER: options.trigger,
    }


def _attributes(result: MetricResult, spot: Spot, *, explained: bool) -> dict[str, EventValue]:
    """Return the attributes of a metric's event; unknown or inapplicable ones are omitted."""
    values: dict[str, EventValue | None] = {
        **_standard_attributes_of_metric(result, spot),
        **_own_attributes_of_metric(result),
    }
    if explained and result.score.explanation:
        values[names.GEN_AI_EVALUATION_EXPLANATION] = label(result.score.explanation, MAX_EXPLANATION_CHARS)
    return {name: value for name, value in values.items() if value is not None}


def _standard_attributes_of_metric(result: MetricResult, spot: Spot) -> dict[str, EventValue | None]:
    response_id = spot.turn.response_id if spot.turn else None
    return {
        names.GEN_AI_EVALUATION_NAME: label(result.metric.name),
        names.GEN_AI_EVALUATION_SCORE_VALUE: result.score.value,
        names.GEN_AI_EVALUATION_SCORE_LABEL: _text(result.label),
        names.GEN_AI_RESPONSE_ID: _text(response_id),
        names.GEN_AI_TOOL_NAME: _text(result.score.tool_name),
        names.ERROR_TYPE: "judge_error" if result.failed_judge else None,
    }


def _own_attributes_of_metric(result: MetricResult) -> dict[str, EventValue | None]:
    score = result.score
    return {
        names.EVALUATION_TARGET: result.target,
        names.CASE_ID: _text(result.case_id),
        names.EVALUATION_ID: result.score_id,
        names.EVALUATION_THRESHOLD: result.threshold,
        names.EVALUATOR: label(result.evaluator),
        names.EVALUATOR_VERSION: label(result.evaluator_version),
        names.EVALUATOR_TYPE: "judge" if result.by_judge else "rule",
        names.OUTCOME: result.outcome,
        names.SEVERITY: result.severity,
        names.TURN_INDEX: score.turn_index,
        names.REASON: score.reason,
        names.TOOL_PARAMETER: None if score.parameter is None else (label(score.parameter),),
    }


def _label_or_value(result: MetricResult) -> str:
    """Return the label of a score, or its value if it has no label."""
    return f"{result.score.value}" if result.label is None else label(result.label)
