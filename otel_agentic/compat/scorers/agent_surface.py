"""Conversations as the Agent Surface pages see them: which tool was called at which place, with which arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_agentic.compat.agent_surface import (
    calculate_tool_f1,
    parameter_correctness,
    step_efficiency,
    tool_routing_accuracy,
)
from otel_agentic.compat.scorers.common import Numbers, Prepared, System, Told, tool_score
from otel_agentic.compat.scorers.whole import WholeConversation, whole_numbers
from otel_agentic.scoring.parts import failed, passed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from otel_agentic.judges import Question
    from otel_agentic.scoring.model import Dimension, ToolScore


def _questions(_prepared: Prepared) -> Iterator[Question]:
    yield from ()


def _numbers(prepared: Prepared, _told: Iterator[Told]) -> Numbers:
    return whole_numbers(prepared, {}, lambda whole: _tools(whole, prepared))


def _tools(whole: WholeConversation, prepared: Prepared) -> ToolScore:
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


AGENT_SURFACE = System(title="the Agent Surface pages", questions=_questions, numbers=_numbers)
