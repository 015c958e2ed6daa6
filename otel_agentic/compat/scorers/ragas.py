"""Conversations as RAGAS sees them: answers compared both ways, tool calls of the whole conversation."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from otel_agentic.compat.ragas import RagasCall, tool_call_accuracy, tool_call_f1
from otel_agentic.compat.scorers.common import Numbers, Prepared, System, Told, tool_score
from otel_agentic.compat.scorers.whole import WholeConversation, whole_numbers
from otel_agentic.errors import BadInputError
from otel_agentic.judges import JudgeFailure, Question
from otel_agentic.scoring.answers import answer_part, closest_accepted
from otel_agentic.scoring.parts import Part, failed, passed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from otel_agentic.conversations.model import Turn
    from otel_agentic.scoring.model import ToolScore


def _questions(prepared: Prepared) -> Iterator[Question]:
    for question in prepared.questions():
        reference = closest_accepted(question.answer, question.accepted_answers)  # RAGAS has one reference
        yield replace(question, expected=reference, also_accepted=())
        yield replace(question, expected=question.answer, answer=reference, also_accepted=())


def _numbers(prepared: Prepared, told: Iterator[Told]) -> Numbers:
    answers = {
        turn.index: _average(turn, next(told), next(told), prepared.threshold) if isinstance(asked, Question) else asked
        for turn, asked in prepared.answers()
    }
    return whole_numbers(prepared, answers, lambda whole: _tools(whole, prepared.rules.threshold))


def _average(turn: Turn, first: Told, second: Told, threshold: float) -> Part:
    if isinstance(first, JudgeFailure) or isinstance(second, JudgeFailure):
        return answer_part(turn, first if isinstance(first, JudgeFailure) else second, threshold)
    score = (first.score + second.score) / 2
    reasoning = f"average of {first.score:.2f} and, compared the other way, {second.score:.2f}"
    averaged = replace(first, score=score, reasoning=reasoning, unsure=first.unsure or second.unsure)
    return answer_part(turn, averaged, threshold)


def _tools(whole: WholeConversation, threshold: float) -> ToolScore:
    made = [RagasCall(name=call.name, args=call.arguments or {}) for call in whole.made]
    wanted = [RagasCall(name=call.tool_name, args=call.parameters) for call in whole.required]
    accuracy = tool_call_accuracy(made, wanted, strict_order=whole.ordered)
    order = "strict" if whole.ordered else "unordered"
    note = f"RAGAS's tool call accuracy ({order}) {accuracy:.2f}, threshold {threshold:g}; tool call F1 {_f1(made, wanted)}"
    part = passed(note, accuracy) if accuracy >= threshold else failed("tool_fault", note, accuracy)
    return tool_score(part)


def _f1(made: list[RagasCall], wanted: list[RagasCall]) -> str:
    try:
        return f"{tool_call_f1(made, wanted):.4f}"
    except BadInputError as error:
        return f"unknown: {error}"


RAGAS = System(title="RAGAS 0.3.9", questions=_questions, numbers=_numbers)
