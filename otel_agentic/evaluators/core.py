"""The evaluator `core`: outcomes, answers, tool dimensions and faulty calls as metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from otel_agentic.evaluators.base import MetricScore
from otel_agentic.evaluators.catalog import metrics_of
from otel_agentic.scoring.model import impacts_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from otel_agentic.evaluators.base import Subject
    from otel_agentic.scoring.model import ConversationScore, TurnScore

TOOL: Final = "agentic.tool"
ANSWER: Final = "agentic.answer"
CONVERSATION: Final = "agentic.conversation"

_ANSWERS: Final = ("wrong_answer", "forbidden_answer")

CORE_METRICS: Final = metrics_of("core")


def core_scores(subject: Subject) -> list[MetricScore]:
    """Return the faults of a conversation: none unless it failed or is known to fail, and then at least one."""
    score = subject.score
    if score is None or not (score.outcome == "fail" or (score.outcome == "not_evaluated" and score.known_failure)):
        return []
    # A draft decides no outcome, so deviations from it are not faults.
    held = score.computed_reason != "unreviewed"
    faults = [*_tools(score), *_answers(score), *_lacking(subject, score)] if held else []
    return faults or [without_fault(score.outcome_source, score.explanation)]


def without_fault(outcome_source: str, explanation: str) -> MetricScore:
    """Return that a conversation failed without a single fault: by a given verdict, or by arithmetic that names none."""
    label = "no_fault_named" if outcome_source == "computed" else "verdict"
    return MetricScore(name=CONVERSATION, label=label, explanation=explanation)


def missing_output(output: str) -> MetricScore:
    """Return the fault of an expected output that no answer contains."""
    return MetricScore(name=CONVERSATION, label="output_not_said", explanation=f"no answer contains {output!r}")


def missing_turn(index: int, query: str | None) -> MetricScore:
    """Return that an expected turn never came; `index` is that in the case, 0-based."""
    explanation = f"expected turn {index + 1} ({query or 'no query'}) never came"
    return MetricScore(name=CONVERSATION, label="missing_turn", explanation=explanation)


def wrong_answer(
    turn_index: int, reason: str | None, value: float | None, explanation: str, tools_explanation: str
) -> MetricScore:
    """Return the fault of an answer; the explanation of a turn states its tools after its answer."""
    return MetricScore(
        name=ANSWER,
        label=reason if reason in _ANSWERS else "wrong_answer",
        value=value,
        turn_index=turn_index,
        explanation=explanation.removesuffix(f"; {tools_explanation}") if tools_explanation else explanation,
    )


def extra_turn(turn_index: int) -> MetricScore:
    """Return that a turn is not in the case, where turns are strict."""
    explanation = f"turn {turn_index + 1} is not in the case"
    return MetricScore(name=CONVERSATION, label="extra_turn", turn_index=turn_index, explanation=explanation)


def _tools(score: ConversationScore) -> Iterator[MetricScore]:
    for tools in score.tools:
        for fault, impact in zip(tools.faults, impacts_of(tools), strict=True):
            if impact.failed:
                yield MetricScore(
                    name=TOOL,
                    label=fault.kind,
                    turn_index=fault.turn_index,
                    position=fault.actual_position,
                    tool_name=fault.tool_name,
                    parameter=fault.parameter,
                    explanation=fault.explanation,
                )


def _answers(score: ConversationScore) -> Iterator[MetricScore]:
    tools_explanation = {tools.turn_index: tools.explanation for tools in score.tools}
    for turn in score.turns:
        if turn.answer_reason in _ANSWERS:
            explanations = turn.explanation, tools_explanation.get(turn.turn_index, "")
            yield wrong_answer(turn.turn_index, turn.answer_reason, turn.answer_score, *explanations)


def _lacking(subject: Subject, score: ConversationScore) -> Iterator[MetricScore]:
    if subject.case is not None:
        present = _case_turns_of(score.turns)
        absent = [(index, expected.query) for index, expected in enumerate(subject.case.turns) if index not in present]
        # Unless it is proven that a missing turn never came, it may exist and contain the missing outputs.
        if subject.conversation.ended or not score.partial:
            yield from (missing_turn(index, query) for index, query in absent)
            absent = []
        if not absent:
            yield from map(missing_output, score.missing_outputs)
    for turn in score.turns:
        if turn.reason == "extra_turn":
            yield extra_turn(turn.turn_index)


def _case_turns_of(turns: Sequence[TurnScore]) -> set[int | None]:
    return {turn.case_turn_index for turn in turns}
