"""`gen_ai.evaluation.result` events of metrics: one a score."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from opentelemetry._logs import SeverityNumber

from otel_agentic.telemetry import names
from otel_agentic.telemetry.attributes import group_attributes, group_of, label
from otel_agentic.telemetry.events import MAX_EXPLANATION_CHARS, MAX_ID_CHARS
from otel_agentic.telemetry.metric_results import spots_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from opentelemetry._logs import Logger

    from otel_agentic.conversations.model import Conversation
    from otel_agentic.telemetry.events import EventOptions
    from otel_agentic.telemetry.metric_results import MetricResult, Spot

_Value: TypeAlias = "str | int | float | tuple[str, ...]"


def emit_metrics(
    logger: Logger, options: EventOptions, conversation: Conversation, results: Iterable[MetricResult]
) -> None:
    """Emit an event for each score, and for each failure of a judge, in the context of the span that it is about.

    Other abstentions have none: most metrics have nothing to say of most conversations. Never blocks.
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
            body=f"{label(result.metric.name)}: {_said(result)}",
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
    """Return the attributes of one event; what is unknown or does not apply is left out."""
    values: dict[str, _Value | None] = {**_standard(result, spot), **_own(result)}
    if explained and result.score.explanation:
        values[names.GEN_AI_EVALUATION_EXPLANATION] = label(result.score.explanation, MAX_EXPLANATION_CHARS)
    return {name: value for name, value in values.items() if value is not None}


def _standard(result: MetricResult, spot: Spot) -> dict[str, _Value | None]:
    response_id = spot.turn.response_id if spot.turn else None
    return {
        names.GEN_AI_EVALUATION_NAME: label(result.metric.name),
        names.GEN_AI_EVALUATION_SCORE_VALUE: result.score.value,
        names.GEN_AI_EVALUATION_SCORE_LABEL: _text(result.label),
        names.GEN_AI_RESPONSE_ID: _text(response_id),
        names.GEN_AI_TOOL_NAME: _text(result.score.tool_name),
        names.ERROR_TYPE: "judge_error" if result.failed_judge else None,
    }


def _own(result: MetricResult) -> dict[str, _Value | None]:
    score = result.score
    return {
        names.EVALUATION_TARGET: result.target,
        names.CASE_ID: _text(result.case_id),
        names.EVALUATION_ID: result.score_id,
        names.EVALUATION_THRESHOLD: result.threshold,
        names.EVALUATOR: label(result.evaluator),
        names.EVALUATOR_VERSION: label(result.evaluator_version),
        names.EVALUATOR_TYPE: "judge" if result.judged else "rule",
        names.OUTCOME: result.outcome,
        names.SEVERITY: result.severity,
        names.TURN_INDEX: score.turn_index,
        names.REASON: score.reason,
        names.TOOL_PARAMETER: None if score.parameter is None else (label(score.parameter),),
    }


def _said(result: MetricResult) -> str:
    """Return the label of a score, or its value where it has none."""
    return f"{result.score.value}" if result.label is None else label(result.label)


def _text(value: str | None) -> str | None:
    return None if value is None else label(value, MAX_ID_CHARS)
