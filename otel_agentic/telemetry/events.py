"""`gen_ai.evaluation.result` events: one per judged target and evaluation, and one per metric score."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from opentelemetry._logs import SeverityNumber

from otel_agentic.evaluators.base import CORE
from otel_agentic.evaluators.registry import core_score_id
from otel_agentic.telemetry import names
from otel_agentic.telemetry.attributes import group_attributes, group_of, label, span_context
from otel_agentic.telemetry.results import Evaluator, Result, results_of, spots_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from opentelemetry._logs import Logger

    from otel_agentic.conversations.model import Conversation
    from otel_agentic.scoring.model import ConversationScore
    from otel_agentic.telemetry.results import MetricResult, Spot

Trigger: TypeAlias = Literal["online", "backfill", "cli"]
_Value: TypeAlias = "str | int | float | tuple[str, ...]"

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


class EvaluationEvents:
    """Emits a score's results as events, each in the context of the evaluated span."""

    def __init__(self, logger: Logger, options: EventOptions) -> None:
        self._logger = logger
        self._options = options

    def emit(self, conversation: Conversation, score: ConversationScore, evaluator: Evaluator | None = None) -> None:
        """Emit the events of one scored conversation. Never blocks: a full queue drops the oldest.

        Args:
            conversation: the evaluated conversation.
            score: the result.
            evaluator: the evaluator; None means the one of the options.
        """
        options = self._options if evaluator is None else replace(self._options, evaluator=evaluator)
        for result in results_of(conversation, score, options.evaluator):
            self._logger.emit(
                timestamp=result.time_ns,
                context=span_context(result.trace_id, result.span_id),
                event_name=names.EVALUATION_RESULT_EVENT,
                severity_number=SeverityNumber.INFO,
                severity_text=SeverityNumber.INFO.name,
                body=f"{result.name}: {result.label}",
                attributes=event_attributes(conversation, score, result, options),
            )


def event_attributes(
    conversation: Conversation, score: ConversationScore, result: Result, options: EventOptions
) -> dict[str, _Value]:
    """Return the attributes of one event without unknown or inapplicable ones."""
    values: dict[str, _Value | None] = {
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


def _standard(conversation: Conversation, result: Result) -> dict[str, _Value | None]:
    return {
        names.GEN_AI_EVALUATION_NAME: result.name,
        names.GEN_AI_EVALUATION_SCORE_VALUE: result.score,
        names.GEN_AI_EVALUATION_SCORE_LABEL: result.label,
        names.GEN_AI_CONVERSATION_ID: label(conversation.conversation_id, MAX_ID_CHARS),
        names.GEN_AI_RESPONSE_ID: _text(result.response_id),
        names.GEN_AI_TOOL_NAME: _text(result.tool_name),
        names.ERROR_TYPE: "judge_error" if result.failed_judge else None,
    }


def _own(score: ConversationScore, result: Result) -> dict[str, _Value | None]:
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


def emit_metrics(
    logger: Logger, options: EventOptions, conversation: Conversation, results: Iterable[MetricResult]
) -> None:
    """Emit an event for each score, and for each failure of a judge, in the context of its span.

    Other abstentions have no event: most metrics do not apply to most conversations. Never blocks.
    """
    spot_of, shared = spots_of(conversation), _shared(conversation, options)
    for result in results:
        if result.score.abstained and not result.failed_judge:
            continue
        spot = spot_of(result.score)
        logger.emit(
            timestamp=spot.time_ns,
            context=spot.context,
            event_name=names.EVALUATION_RESULT_EVENT,
            severity_number=SeverityNumber.INFO,
            severity_text=SeverityNumber.INFO.name,
            body=f"{label(result.metric.name)}: {_label_or_value(result)}",
            attributes={**shared, **_attributes(result, spot, explained=options.explanations)},
        )


def _shared(conversation: Conversation, options: EventOptions) -> dict[str, _Value]:
    """Return the attributes that all events of a conversation have."""
    return {
        **group_attributes(group_of(conversation)),
        names.GEN_AI_CONVERSATION_ID: label(conversation.conversation_id, MAX_ID_CHARS),
        names.EVALUATION_REVISION: conversation.revision,
        names.RUN_ID: options.run_id,
        names.TRIGGER: options.trigger,
    }


def _attributes(result: MetricResult, spot: Spot, *, explained: bool) -> dict[str, _Value]:
    """Return the attributes of one event without unknown or inapplicable ones."""
    values: dict[str, _Value | None] = {
        **_standard_attributes_of_metric(result, spot),
        **_own_attributes_of_metric(result),
    }
    if explained and result.score.explanation:
        values[names.GEN_AI_EVALUATION_EXPLANATION] = label(result.score.explanation, MAX_EXPLANATION_CHARS)
    return {name: value for name, value in values.items() if value is not None}


def _standard_attributes_of_metric(result: MetricResult, spot: Spot) -> dict[str, _Value | None]:
    response_id = spot.turn.response_id if spot.turn else None
    return {
        names.GEN_AI_EVALUATION_NAME: label(result.metric.name),
        names.GEN_AI_EVALUATION_SCORE_VALUE: result.score.value,
        names.GEN_AI_EVALUATION_SCORE_LABEL: _text(result.label),
        names.GEN_AI_RESPONSE_ID: _text(response_id),
        names.GEN_AI_TOOL_NAME: _text(result.score.tool_name),
        names.ERROR_TYPE: "judge_error" if result.failed_judge else None,
    }


def _own_attributes_of_metric(result: MetricResult) -> dict[str, _Value | None]:
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
