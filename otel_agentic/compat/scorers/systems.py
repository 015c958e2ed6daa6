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
    System,
    Told,
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


def _agent_surface_numbers(prepared: Prepared, _told: Iterator[Told]) -> Numbers:
    return whole_numbers(prepared, {}, lambda whole: _agent_surface_tools(whole, prepared))


def _agent_surface_tools(whole: WholeConversation, prepared: Prepared) -> ToolScore:
    names, wanted = [call.name for call in whole.made], [call.tool_name for call in whole.required]
    routing, f1 = tool_routing_accuracy(names, wanted), calculate_tool_f1(wanted, names)
    told = [
        f"Agent Surface's tool routing accuracy {routing:.2f}, threshold {prepared.rules.threshold:g}",
        f"tool F1 {f1.f1:.2f} (precision {f1.precision:.2f}, recall {f1.recall:.2f})",
    ]
    dimensions: dict[Dimension, float] = {"selection": f1.f1}
    if wanted:
        dimensions["parameters"] = _parameters(whole)
    if prepared.case.minimum_steps is not None:
        told.append(f"step efficiency {step_efficiency(len(names), prepared.case.minimum_steps):.2f}")
    note = "; ".join(told)
    right = routing >= prepared.rules.threshold
    part = passed(note, routing) if right else failed("tool_fault", note, routing)
    return tool_score(part, dimensions=dimensions)


def _parameters(whole: WholeConversation) -> float:
    """Return the mean semantic score over the expected calls, each against the call at its place, 0 without one."""
    scores = [
        parameter_correctness(call.arguments or {}, {}, wanted.parameters).semantic_score
        for call, wanted in zip(whole.made, whole.required, strict=False)
    ]
    return sum(scores) / len(whole.required)


AGENT_SURFACE = System(
    title="the Agent Surface pages", questions=_agent_surface_questions, numbers=_agent_surface_numbers
)


def _questions(_prepared: Prepared) -> Iterator[Question]:
    yield from ()


def _agentest_numbers(prepared: Prepared, _told: Iterator[Told]) -> Numbers:
    return whole_numbers(prepared, {}, _agentest_tools)


def _agentest_tools(whole: WholeConversation) -> ToolScore:
    mode = _match_mode(whole)
    wanted = whole.expected if mode == "within" else whole.required
    made = [MadeToolCall(name=call.name, args=dict(call.arguments or {})) for call in whole.made]
    result = match_trajectory(
        made,
        TrajectoryAssertions(
            match_mode=mode, expected=tuple(map(_assertion, wanted)), forbidden=tuple(_forbidden(whole))
        ),
    )
    note = f"Agentest's {mode} match: {_told(result)}"
    return tool_score(passed(note, 1.0) if result.matched else failed("tool_fault", note, 0.0))


def _match_mode(whole: WholeConversation) -> MatchMode:
    """Return the mode that comes closest: it has no order that leaves gaps, and no optional calls beside others."""
    if whole.expected and not whole.required:
        return "within"
    if whole.extras_allowed:
        return "contains"
    return "strict" if whole.ordered else "unordered"


def _assertion(call: ExpectedCall) -> CallAssertion:
    args = {key: value for key, value in call.parameters.items() if call.rules[key].mode not in VALUELESS_MODES}
    loose = call.ignore_extra_parameters or len(args) < len(call.rules)
    return CallAssertion(name=call.tool_name, args=args, mode="partial" if loose else "exact")


def _forbidden(whole: WholeConversation) -> Iterator[CallAssertion]:
    """Yield a rule for each made name that fits: it forbids names, not globs."""
    for name in dict.fromkeys(call.name for call in whole.made):
        if any(fnmatchcase(name, pattern) for pattern in whole.forbidden):
            yield CallAssertion(name=name)


def _told(result: TrajectoryResult) -> str:
    lists = {
        "missing": result.missing_calls,
        "extra": result.extra_calls,
        "ordering": result.ordering_issues,
        "forbidden": result.forbidden_calls,
    }
    found = [f"{name}: {', '.join(entries)}" for name, entries in lists.items() if entries]
    return "; ".join(found) or "every call is as asserted"


AGENTEST = System(title="Agentest 0.0.17", questions=_questions, numbers=_agentest_numbers)


def _fair_forge_numbers(prepared: Prepared, told: Iterator[Told]) -> Numbers:
    answers = prepared.answer_parts(told)
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
    return _shown(score, turn.index, rules.threshold)


def _weights(rules: ToolRules) -> dict[str, float] | None:
    """Return the weights that were given; None, its own quarters, where none were."""
    given = {str(name): weight for name, weight in rules.weights.items()}
    return None if given == DEFAULT_TOOL_WEIGHTS else given


def _shown(score: ToolCorrectnessScore, turn_index: int, threshold: float) -> ToolScore:
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
                "step": place if call.step is None else call.step,
            }
            for place, call in enumerate(required, start=1)
        ],
        "tool_sequence_matters": expectation.order != "any",
    }


def _answer_uses_tools(turn: Turn, calls: list[ToolCall], expectation: ToolExpectation, rules: ToolRules) -> bool:
    """Return the flag that its datasets carry: as the spans flag it, else as our own search for the results finds."""
    flags = [call.used_flag for call in calls if call.used_flag is not None]
    if flags:
        return any(flags)
    found = score_tools(expectation, scope_of([turn], turn_index=turn.index), rules).dimensions["utilization"]
    return found is not None and found > 0


FAIR_FORGE = System(title="Fair Forge 3.0.0", questions=Prepared.questions, numbers=_fair_forge_numbers)


def _ragas_questions(prepared: Prepared) -> Iterator[Question]:
    for question in prepared.questions():
        reference = closest_accepted(question.answer, question.accepted_answers)  # RAGAS has one reference
        yield replace(question, expected=reference, also_accepted=())
        yield replace(question, expected=question.answer, answer=reference, also_accepted=())


def _ragas_numbers(prepared: Prepared, told: Iterator[Told]) -> Numbers:
    answers = {
        turn.index: _average(turn, next(told), next(told), prepared.threshold) if isinstance(asked, Question) else asked
        for turn, asked in prepared.answers()
    }
    return whole_numbers(prepared, answers, lambda whole: _ragas_tools(whole, prepared.rules.threshold))


def _average(turn: Turn, first: Told, second: Told, threshold: float) -> Part:
    if isinstance(first, JudgeFailure) or isinstance(second, JudgeFailure):
        return answer_part(turn, first if isinstance(first, JudgeFailure) else second, threshold)
    score = (first.score + second.score) / 2
    reasoning = f"average of {first.score:.2f} and, compared the other way, {second.score:.2f}"
    averaged = replace(first, score=score, reasoning=reasoning, unsure=first.unsure or second.unsure)
    return answer_part(turn, averaged, threshold)


def _ragas_tools(whole: WholeConversation, threshold: float) -> ToolScore:
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


RAGAS = System(title="RAGAS 0.3.9", questions=_ragas_questions, numbers=_ragas_numbers)
