"""Scorers of stored conversations, one for each compatible system."""

from __future__ import annotations

from dataclasses import replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from otel_agentic.compat.agent_surface import (
    calculate_tool_f1,
    parameter_correctness,
    step_efficiency,
    tool_routing_accuracy,
)
from otel_agentic.compat.agentest import (
    CallAssertion,
    MadeToolCall,
    TrajectoryAssertions,
    TrajectoryResult,
    match_trajectory,
)
from otel_agentic.compat.fair_forge import turn_tool_correctness
from otel_agentic.compat.ragas import RagasCall, tool_call_accuracy, tool_call_f1
from otel_agentic.compat.scorers.common import (
    NOT_CAPTURED,
    NOTHING_TO_SCORE,
    Numbers,
    Prepared,
    Sentence,
    System,
    WholeConversation,
    all_captured,
    counted,
    tool_part,
    tool_score,
    whole_numbers,
)
from otel_agentic.config import DEFAULT_TOOL_WEIGHTS
from otel_agentic.errors import BadInputError
from otel_agentic.judges import JudgeFailure, Question
from otel_agentic.scoring.answers import Part, answer_part, closest_accepted, combine, failed, not_evaluated, passed
from otel_agentic.scoring.dimensions import score_tools
from otel_agentic.scoring.model import scope_of
from otel_agentic.truth.model import VALUELESS_MODES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from otel_agentic.compat.agentest import MatchMode
    from otel_agentic.compat.fair_forge import ToolCorrectnessScore
    from otel_agentic.conversations.model import ToolCall, Turn
    from otel_agentic.scoring.align import ToolRules
    from otel_agentic.scoring.model import Dimension, ToolScore
    from otel_agentic.truth.model import ExpectedCall, ToolExpectation


def _agent_surface_questions(_prepared: Prepared) -> Iterator[Question]:
    yield from ()


def _agent_surface_numbers(prepared: Prepared, _text: Iterator[Sentence]) -> Numbers:
    return whole_numbers(prepared, {}, lambda total: _agent_surface_tools(total, prepared))


def _agent_surface_tools(total: WholeConversation, prepared: Prepared) -> ToolScore:
    names, expected = [call.name for call in total.actual], [call.tool_name for call in total.required]
    routing, f1 = tool_routing_accuracy(names, expected), calculate_tool_f1(expected, names)
    parts = [
        f"Agent Surface's tool routing accuracy {routing:.2f}, threshold {prepared.rules.threshold:g}",
        f"tool F1 {f1.f1:.2f} (precision {f1.precision:.2f}, recall {f1.recall:.2f})",
    ]
    dimensions: dict[Dimension, float] = {"selection": f1.f1}
    if expected:
        dimensions["parameters"] = _parameters(total)
    if prepared.case.minimum_steps is not None:
        parts.append(f"step efficiency {step_efficiency(len(names), prepared.case.minimum_steps):.2f}")
    note = "; ".join(parts)
    right = routing >= prepared.rules.threshold
    part = passed(note, routing) if right else failed("tool_fault", note, routing)
    return tool_score(part, dimensions=dimensions)


def _parameters(total: WholeConversation) -> float:
    """Return the mean semantic score over the expected calls, each against the call at its place, 0 without one."""
    scores = [
        parameter_correctness(call.arguments or {}, {}, expected.parameters).semantic_score
        for call, expected in zip(total.actual, total.required, strict=False)
    ]
    return sum(scores) / len(total.required)


AGENT_SURFACE = System(
    title="the Agent Surface pages", questions=_agent_surface_questions, numbers=_agent_surface_numbers
)


def _questions(_prepared: Prepared) -> Iterator[Question]:
    yield from ()


def _agentest_numbers(prepared: Prepared, _text: Iterator[Sentence]) -> Numbers:
    return whole_numbers(prepared, {}, _agentest_tools)


def _agentest_tools(total: WholeConversation) -> ToolScore:
    mode = _match_mode(total)
    expected = total.expected if mode == "within" else total.required
    actual = [MadeToolCall(name=call.name, args=dict(call.arguments or {})) for call in total.actual]
    result = match_trajectory(
        actual,
        TrajectoryAssertions(
            match_mode=mode, expected=tuple(map(_assertion, expected)), forbidden=tuple(_forbidden(total))
        ),
    )
    note = f"Agentest's {mode} match: {_text(result)}"
    return tool_score(passed(note, 1.0) if result.matched else failed("tool_fault", note, 0.0))


def _match_mode(total: WholeConversation) -> MatchMode:
    """Return the closest mode: Agentest has no order with gaps, and no optional calls among others."""
    if total.expected and not total.required:
        return "within"
    if total.extras_allowed:
        return "contains"
    return "strict" if total.ordered else "unordered"


def _assertion(call: ExpectedCall) -> CallAssertion:
    args = {key: value for key, value in call.parameters.items() if call.rules[key].mode not in VALUELESS_MODES}
    loose = call.ignore_extra_parameters or len(args) < len(call.rules)
    return CallAssertion(name=call.tool_name, args=args, mode="partial" if loose else "exact")


def _forbidden(total: WholeConversation) -> Iterator[CallAssertion]:
    """Yield a rule for each made name that fits: it forbids names, not globs."""
    for name in dict.fromkeys(call.name for call in total.actual):
        if any(fnmatchcase(name, pattern) for pattern in total.forbidden):
            yield CallAssertion(name=name)


def _text(result: TrajectoryResult) -> str:
    lists = {
        "missing": result.missing_calls,
        "extra": result.extra_calls,
        "ordering": result.ordering_issues,
        "forbidden": result.forbidden_calls,
    }
    results = [f"{name}: {', '.join(entries)}" for name, entries in lists.items() if entries]
    return "; ".join(results) or "every call is as asserted"


AGENTEST = System(title="Agentest 0.0.17", questions=_questions, numbers=_agentest_numbers)


def _fair_forge_numbers(prepared: Prepared, message: Iterator[Sentence]) -> Numbers:
    answers = prepared.answer_parts(message)
    tools = tuple(
        _fair_forge_tools(turn, expected.tools, prepared.rules)
        for turn, expected in prepared.turns()
        if expected.tools is not None
    )
    parts = [tool_part(score) for score in tools]
    return Numbers(
        # Tools gate nothing, and a turn that never came is no interaction.
        decided=combine([*answers.values()]) if answers else NOTHING_TO_SCORE,
        needed=tuple(answers.values()),
        answers=answers,
        tools=tools,
        by_tools=combine(parts),
        by_both=combine([*answers.values(), *parts]),
    )


def _fair_forge_tools(turn: Turn, expectation: ToolExpectation, rules: ToolRules) -> ToolScore:
    calls = counted(turn.calls, {call.tool_name for call in expectation.calls})
    if not all_captured([turn], calls):
        return tool_score(NOT_CAPTURED, turn_index=turn.index)
    agentic = {"tools_used": [_used(call) for call in calls]}
    try:
        score = turn_tool_correctness(
            agentic | {"final_answer_uses_tools": _answer_uses_tools(turn, calls, expectation, rules)},
            _ground_truth(expectation),
            weights=_weights(rules),
            threshold=rules.threshold,
        )
    except BadInputError as error:  # weights that it cannot work with
        return tool_score(not_evaluated("no_data", str(error)), turn_index=turn.index)
    if score is None:
        part = not_evaluated("no_data", f"turn {turn.index + 1} called no tool; Fair Forge does not score that")
        return tool_score(part, turn_index=turn.index)
    return _displayed(score, turn.index, rules.threshold)


def _weights(rules: ToolRules) -> dict[str, float] | None:
    """Return the weights that were given; None, its own quarters, where none were."""
    provided = {str(name): weight for name, weight in rules.weights.items()}
    return None if provided == DEFAULT_TOOL_WEIGHTS else provided


def _displayed(score: ToolCorrectnessScore, turn_index: int, threshold: float) -> ToolScore:
    note = f"Fair Forge's tool score {score.overall_correctness:.2f}, threshold {threshold:g}: {score.reasoning}"
    part: Part = passed(note) if score.is_correct else failed("tool_fault", note)
    return tool_score(
        replace(part, score=score.overall_correctness),
        turn_index=turn_index,
        dimensions={
            "selection": score.tool_selection_correct,
            "parameters": score.parameter_accuracy,
            "sequence": score.sequence_correct,
            "utilization": score.result_utilization,
        },
    )


def _used(call: ToolCall) -> dict[str, Any]:
    return {"tool_name": call.name, "parameters": dict(call.arguments or {}), "step": call.step}


def _ground_truth(expectation: ToolExpectation) -> dict[str, Any]:
    required = [call for call in expectation.calls if call.required]
    return {
        "expected_tools": [
            {
                "tool_name": call.tool_name,
                "parameters": dict(call.parameters),
                "step": index if call.step is None else call.step,
            }
            for index, call in enumerate(required, start=1)
        ],
        "tool_sequence_matters": expectation.order != "any",
    }


def _answer_uses_tools(turn: Turn, calls: list[ToolCall], expectation: ToolExpectation, rules: ToolRules) -> bool:
    """Return the flag that its datasets carry: as the spans flag it, else as our own search for the results finds."""
    flags = [call.used_flag for call in calls if call.used_flag is not None]
    if flags:
        return any(flags)
    result = score_tools(expectation, scope_of([turn], turn_index=turn.index), rules).dimensions["utilization"]
    return result is not None and result > 0


FAIR_FORGE = System(title="Fair Forge 3.0.0", questions=Prepared.questions, numbers=_fair_forge_numbers)


def _ragas_questions(prepared: Prepared) -> Iterator[Question]:
    for question in prepared.questions():
        reference = closest_accepted(question.answer, question.accepted_answers)  # RAGAS has one reference
        yield replace(question, expected=reference, also_accepted=())
        yield replace(question, expected=question.answer, answer=reference, also_accepted=())


def _ragas_numbers(prepared: Prepared, message: Iterator[Sentence]) -> Numbers:
    answers = {
        turn.index: _average(turn, next(message), next(message), prepared.threshold)
        if isinstance(requested, Question)
        else requested
        for turn, requested in prepared.answers()
    }
    return whole_numbers(prepared, answers, lambda total: _ragas_tools(total, prepared.rules.threshold))


def _average(turn: Turn, first: Sentence, second: Sentence, threshold: float) -> Part:
    if isinstance(first, JudgeFailure) or isinstance(second, JudgeFailure):
        return answer_part(turn, first if isinstance(first, JudgeFailure) else second, threshold)
    score = (first.score + second.score) / 2
    reasoning = f"average of {first.score:.2f} and, compared the other way, {second.score:.2f}"
    averaged = replace(first, score=score, reasoning=reasoning, unsure=first.unsure or second.unsure)
    return answer_part(turn, averaged, threshold)


def _ragas_tools(total: WholeConversation, threshold: float) -> ToolScore:
    actual = [RagasCall(name=call.name, args=call.arguments or {}) for call in total.actual]
    expected = [RagasCall(name=call.tool_name, args=call.parameters) for call in total.required]
    accuracy = tool_call_accuracy(actual, expected, strict_order=total.ordered)
    order = "strict" if total.ordered else "unordered"
    note = f"RAGAS's tool call accuracy ({order}) {accuracy:.2f}, threshold {threshold:g}; tool call F1 {_f1(actual, expected)}"
    part = passed(note, accuracy) if accuracy >= threshold else failed("tool_fault", note, accuracy)
    return tool_score(part)


def _f1(actual: list[RagasCall], expected: list[RagasCall]) -> str:
    try:
        return f"{tool_call_f1(actual, expected):.4f}"
    except BadInputError as error:
        return f"unknown: {error}"


RAGAS = System(title="RAGAS 0.3.9", questions=_ragas_questions, numbers=_ragas_numbers)
