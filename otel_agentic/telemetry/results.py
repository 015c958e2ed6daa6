"""A score as single results: one per judged target and evaluation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from otel_agentic.scoring.judged_calls import faulty, judged_calls
from otel_agentic.telemetry import names

if TYPE_CHECKING:
    from collections.abc import Iterator

    from otel_agentic.conversations.model import Conversation, Turn
    from otel_agentic.scoring.judged_calls import JudgedCall
    from otel_agentic.scoring.model import ConversationScore, Outcome, ToolFault, ToolScore, TurnScore

Target: TypeAlias = Literal["conversation", "turn", "tool_call"]
EvaluatorType: TypeAlias = Literal["rule", "judge", "label"]

#: Scores are sums of weighted shares: the comparison with a threshold forgives the last bits, as scoring does.
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluator:
    """Who judged: `version` names code, prompt, model, thresholds and truth; `answers` says how answers were judged."""

    version: str | None = None
    answers: EvaluatorType = "rule"
    answer_threshold: float | None = None
    tool_threshold: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One evaluation of one target.

    `score` is in [0, 1], None where there is none. `time_ns` is the end of the judged target. `trace_id` and `span_id`
    name the judged span. `place` tells results of one name and target apart. The last five are None or empty where
    they do not apply.
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
    place: tuple[int | str | None, ...] = ()
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
        score=score.answer_score,  # of what was not evaluated only an unsure judge gives one
        reason=score.answer_reason,
        explanation=score.explanation,
        time_ns=turn.ended_ns,
        trace_id=turn.trace_id,
        span_id=turn.span_id,
        place=(turn.index,),
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
            place=(tool.turn_index,),
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
        explanation=" ".join(each.explanation for each in call.faults if each.explanation),
        # A call has no end of its own in the model: its turn's end is the first moment at which all of it is known.
        time_ns=turn.ended_ns if turn else conversation.ended_ns,
        trace_id=call.trace_id,
        span_id=call.span_id,
        place=call.place(fault),
        turn_index=call.turn_index,
        tool_name=call.tool_name,
        fault=fault,
        parameters=tuple(sorted({each.parameter for each in call.faults if each.parameter is not None})),
    )
