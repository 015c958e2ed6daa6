"""The tool score of Fair Forge 3.0.0, number for number: `otel_agentic.compat.fair_forge` exports it."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from functools import reduce
from operator import add
from types import MappingProxyType
from typing import Annotated, Any, Final

from pydantic import BaseModel, Field

from otel_agentic.errors import BadInputError
from otel_agentic.evaluators.base import Overlap

Ratio = Annotated[float, Field(ge=0.0, le=1.0)]


class ToolCorrectnessScore(BaseModel):
    """The tool score of one interaction; every number is in [0, 1]."""

    tool_selection_correct: Ratio
    parameter_accuracy: Ratio
    sequence_correct: Ratio
    result_utilization: Ratio
    overall_correctness: Ratio
    is_correct: bool
    reasoning: str | None = None


#: The weighted numbers are added in this order.
DEFAULT_WEIGHTS: Final[Mapping[str, float]] = MappingProxyType(
    {"selection": 0.25, "parameters": 0.25, "sequence": 0.25, "utilization": 0.25}
)

_Calls = Mapping[Hashable, list[Any]]


def turn_tool_correctness(
    agentic: Any, ground_truth_agentic: Any, *, weights: Mapping[str, float] | None = None, threshold: float = 1.0
) -> ToolCorrectnessScore | None:
    """Return the tool score of an interaction as the whole metric reports it: None if no tool was used.

    Also None if nothing is annotated. An agent that called no tool although one was expected therefore has no score,
    not 0.

    Raises:
        BadInputError: see `tool_correctness`.
    """
    if not ground_truth_agentic or not agentic or (isinstance(agentic, Mapping) and not agentic.get("tools_used")):
        return None
    return tool_correctness(agentic, ground_truth_agentic, weights=weights, threshold=threshold)


def tool_correctness(
    agentic: Any, ground_truth_agentic: Any, *, weights: Mapping[str, float] | None = None, threshold: float = 1.0
) -> ToolCorrectnessScore:
    """Return the four numbers of the actual calls compared with the expected ones, each in [0, 1], and their weighted sum.

    This is Fair Forge's definition, by sets of names and by the n-th call of each name; `otel_agentic.scoring` pairs
    the calls with the greatest agreement, and normalises the weights.

    Args:
        agentic: `tools_used` (list of objects with `tool_name`, `parameters`, `step`) and `final_answer_uses_tools`.
        ground_truth_agentic: `expected_tools`, of the same form, and `tool_sequence_matters`.
        weights: of `selection`, `parameters`, `sequence`, `utilization`, not normalised: a sum above 1 is rejected if
            the result exceeds 1. None: .25 each.
        threshold: the sum at which the tools are correct, compared without any tolerance for rounding.

    Raises:
        BadInputError: input on which Fair Forge fails with an exception; the message names the malformed part.

    >>> call = {"tool_name": "calc", "parameters": {"a": 5, "b": 3}, "step": 1}
    >>> wrong = {"tools_used": [call | {"parameters": {"a": 5, "b": 4}}], "final_answer_uses_tools": True}
    >>> tool_correctness(wrong, {"expected_tools": [call]}).overall_correctness
    0.875
    """
    try:
        return _score(agentic, ground_truth_agentic, DEFAULT_WEIGHTS if weights is None else weights, threshold)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise BadInputError(_complaint(agentic, ground_truth_agentic, weights, error)) from error


def _score(agentic: Any, truth: Any, weights: Mapping[str, float], threshold: float) -> ToolCorrectnessScore:
    used, expected = _by_name(agentic.get("tools_used", [])), _by_name(truth.get("expected_tools", []))
    matters = truth.get("tool_sequence_matters", True)
    numbers = {
        "selection": _selection(used.keys(), expected.keys()),
        "parameters": _mean([*_parameter_scores(used, expected)]),
        "sequence": _mean([*_step_scores(used, expected)]) if matters else 1.0,
        "utilization": 1.0 if agentic.get("final_answer_uses_tools", False) else 0.0,
    }
    # Added one by one: `sum` of newer Python versions rounds differently, and the threshold has no tolerance.
    overall = reduce(add, (weights[name] * number for name, number in numbers.items()))
    return ToolCorrectnessScore(
        tool_selection_correct=numbers["selection"],
        parameter_accuracy=numbers["parameters"],
        sequence_correct=numbers["sequence"],
        result_utilization=numbers["utilization"],
        overall_correctness=overall,
        is_correct=overall >= threshold,
        reasoning=", ".join(f"{name} {number:.2f}" for name, number in numbers.items()),
    )


def _by_name(tools: Any) -> dict[Hashable, list[Any]]:
    results: dict[Hashable, list[Any]] = {}
    for tool in tools:
        results.setdefault(tool.get("tool_name"), []).append(tool)
    return results


def _selection(used: Any, expected: Any) -> float:
    """Return the share of names in common, as sets: how often a tool is called does not count."""
    overlap = Overlap(common=len(used & expected), actual=len(used), expected=len(expected))
    return overlap.jaccard(empty=1.0)


def _parameter_scores(used: _Calls, expected: _Calls) -> Iterator[float]:
    """Yield a number for each expected call, against the *first* call of its name; a missing name counts once."""
    for name, calls in expected.items():
        if name not in used:
            yield 0.0
            continue
        actual = used[name][0].get("parameters", {})
        yield from (_agreement(call.get("parameters", {}), actual) for call in calls)


def _agreement(expected: Any, actual: Any) -> float:
    if expected == actual:
        return 1.0
    keys = set(expected.keys()).union(actual.keys())
    # An absent key reads as None here: an expected null and no parameter at all are the same.
    return sum(expected.get(key) == actual.get(key) for key in keys) / len(keys) if keys else 0.0


def _step_scores(used: _Calls, expected: _Calls) -> Iterator[float]:
    """Yield a number for each expected call, against the n-th call of its name; a missing name counts once."""
    for name, calls in expected.items():
        if name not in used:
            yield 0.0
            continue
        actual = used[name]
        for index, call in enumerate(calls):
            step = actual[index].get("step") if index < len(actual) else None
            yield 1.0 if call.get("step") == step else 0.0


def _mean(scores: Sequence[float]) -> float:
    return sum(scores) / len(scores) if scores else 0.0


def _complaint(agentic: Any, truth: Any, weights: Mapping[str, float] | None, error: Exception) -> str:
    """Return a message on the malformed part of the input or, without one, on the error of the arithmetic."""
    for field, owner, key in (
        ("agentic", agentic, "tools_used"),
        ("ground_truth_agentic", truth, "expected_tools"),
    ):
        if not isinstance(owner, Mapping):
            return f"{field} is {owner!r}; allowed: an object with {key!r}"
        problem = _tools_problem(owner.get(key, []))
        if problem:
            return f"{field}.{key}{problem}"
    weights_text = "" if weights is None else f" with tool_weights {weights!r}"
    return f"Fair Forge has no tool score for this interaction{weights_text}: {type(error).__name__}: {error}"


def _tools_problem(tools: Any) -> str | None:
    if not isinstance(tools, list):
        return f" is {tools!r}; allowed: a list of objects with tool_name, parameters and step"
    for index, tool in enumerate(tools):
        if not isinstance(tool, Mapping):
            return f"[{index}] is {tool!r}; allowed: an object with tool_name, parameters and step"
        if not isinstance(tool.get("tool_name"), Hashable):
            return f"[{index}].tool_name is {tool['tool_name']!r}; allowed: a text"
        if not isinstance(tool.get("parameters", {}), Mapping):
            return f"[{index}].parameters is {tool['parameters']!r}; allowed: an object, or leave it out"
    return None
