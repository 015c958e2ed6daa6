"""Conversations as Fair Forge sees them: an interaction a turn, correct by its answer; tools are scored beside it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from otel_agentic.compat.fair_forge import turn_tool_correctness
from otel_agentic.compat.scorers.common import (
    NOT_CAPTURED,
    NOTHING_TO_SCORE,
    Numbers,
    Prepared,
    System,
    Told,
    all_captured,
    counted,
    tool_part,
    tool_score,
)
from otel_agentic.config import DEFAULT_TOOL_WEIGHTS
from otel_agentic.errors import BadInputError
from otel_agentic.scoring.made import scope_of
from otel_agentic.scoring.parts import Part, combine, failed, not_evaluated, passed
from otel_agentic.scoring.tools import score_tools

if TYPE_CHECKING:
    from collections.abc import Iterator

    from otel_agentic.compat.fair_forge import ToolCorrectnessScore
    from otel_agentic.conversations.model import ToolCall, Turn
    from otel_agentic.scoring.model import ToolScore
    from otel_agentic.scoring.sorting import ToolRules
    from otel_agentic.truth.model import ToolExpectation


def _numbers(prepared: Prepared, told: Iterator[Told]) -> Numbers:
    answers = prepared.answer_parts(told)
    tools = tuple(
        _tools(turn, expected.tools, prepared.rules)
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


def _tools(turn: Turn, expectation: ToolExpectation, rules: ToolRules) -> ToolScore:
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


FAIR_FORGE = System(title="Fair Forge 3.0.0", questions=Prepared.questions, numbers=_numbers)
