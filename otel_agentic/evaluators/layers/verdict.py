"""The first layer that broke in a failed conversation: reasoning, action or outcome."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal

from otel_agentic.evaluators.base import Metric, MetricScore, WithoutSettings, none_of
from otel_agentic.evaluators.catalog import metrics_of
from otel_agentic.evaluators.layers.calls import ExpectedCalls, call_scores, expected_calls, hallucinated, tool_calls
from otel_agentic.evaluators.layers.plans import common, executed, expected_plan, in_order, written_plan
from otel_agentic.evaluators.layers.state import completion
from otel_agentic.evaluators.needs import first_missing

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from otel_agentic.evaluators.base import Need, Subject
    from otel_agentic.scoring.model import ConversationScore, FaultKind, ToolFault, ToolScore

VERDICT: Final = "agentic.layers.verdict"
Layer = Literal["none", "reasoning", "action", "outcome"]
_LAYERS: Final[tuple[Layer, ...]] = ("reasoning", "action", "outcome")
#: Faults of calls themselves. An unused result is a fault of later steps; an error is one of the tool: see below.
_ACTION_FAULTS: Final[frozenset[FaultKind]] = frozenset(
    {"missing", "spurious", "forbidden", "wrong_parameters", "wrong_order"}
)
#: Reasons for which a turn that is missing may still exist.
_MISSING_TURNS: Final = frozenset({"incomplete", "no_conversation_id"})
_LISTED: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One thing that is wrong, and in which layer; tool, parameter and turn (0-based) as far as it is about them."""

    layer: Layer
    kind: str
    message: str
    tool: str | None = None
    parameter: str | None = None
    turn_index: int | None = None


class Verdict(WithoutSettings):
    """The verdict of the layers."""

    name: str = "layers.verdict"
    version: str = "1"
    metrics: tuple[Metric, ...] = metrics_of("layers.verdict")
    needs: frozenset[Need] = frozenset({"turns", "score"})
    default: bool = True

    def evaluate(self, subject: Subject) -> Iterable[MetricScore]:
        """Return the verdict of a conversation."""
        score = subject.score
        if score is None:
            return [none_of(VERDICT, "no_data", "the conversation has no score yet")]
        if score.outcome == "not_evaluated":
            explanation = f"the conversation neither passed nor failed: {score.explanation}"
            return [none_of(VERDICT, score.reason if score.reason is not None else "no_data", explanation)]  # type: ignore[arg-type]  # a reason of such an outcome
        # A draft (no case here) repeats what an agent did, right or wrong: its faults are not evidence.
        held = score if subject.case is not None else replace(score, turns=(), tools=(), missing_outputs=())
        evidence = [*_reasoning(subject), *_action(subject, held), *_outcome(subject, held)]
        return [_passed(evidence) if score.outcome == "pass" else _failed(evidence, score)]


def _passed(evidence: Sequence[Evidence]) -> MetricScore:
    explanation = "the conversation passed"
    if evidence:
        explanation += f", although {evidence[0].message}" + (
            f"; {len(evidence) - 1} more" if len(evidence) > 1 else ""
        )
    return MetricScore(name=VERDICT, label="none", explanation=explanation, details=_details(evidence))


def _failed(evidence: Sequence[Evidence], score: ConversationScore) -> MetricScore:
    layer: Layer = next((item.layer for item in evidence), "outcome")
    of_layer = [item for item in evidence if item.layer == layer]
    first = of_layer[0] if of_layer else None
    if first is None:
        source = f"the verdict given ({score.outcome_source})" if score.outcome_source != "computed" else "its score"
        explanation = f"outcome: nothing is found wrong in plan, calls and answers; it failed by {source}"
    else:
        explanation = f"{layer} broke first: {first.message}"
        explanation += f"; {len(of_layer) - 1} more like it" if len(of_layer) > 1 else ""
    return MetricScore(
        name=VERDICT,
        label=layer,
        explanation=explanation,
        tool_name=first.tool if first else None,
        parameter=first.parameter if first else None,
        details=_details(evidence),
    )


def _details(evidence: Sequence[Evidence]) -> dict[str, Any]:
    counts = Counter(item.layer for item in evidence)
    return {
        "found": {layer: counts[layer] for layer in _LAYERS},
        "evidence": [
            {
                "layer": item.layer,
                "kind": item.kind,
                "tool": item.tool,
                "parameter": item.parameter,
                "turn_index": item.turn_index,
                "message": item.message,
            }
            for item in evidence[:_LISTED]
        ],
    }


def _reasoning(subject: Subject) -> Iterator[Evidence]:
    groups = expected_plan(subject, expected_calls(subject))
    expected = [name for group in groups for name in group]
    plan = written_plan(subject, expected)
    if plan is None or not plan.tools:
        return
    planned, called = Counter(plan.tools), Counter(name for step in executed(subject) for name in step)
    # A step may mean several calls: a tool is planned if the plan names it at all.
    for name in dict.fromkeys(name for name in expected if name not in planned):
        yield Evidence(layer="reasoning", kind="not_planned", tool=name, message=f"the plan does not name {name}")
    if expected and in_order(plan.tools, groups) < common(plan.tools, expected):
        yield Evidence(
            layer="reasoning", kind="planned_order", message="the plan has the tools in another order than expected"
        )
    for name, times in _to_be_kept(subject, planned, expected).items():
        if called[name] < times:
            message = f"{name} was planned and not called"
            if called[name]:
                message = f"{name} was planned for {times} calls and called {called[name]} times"
            yield Evidence(layer="reasoning", kind="plan_not_kept", tool=name, message=message)


def _to_be_kept(subject: Subject, planned: Counter[str], expected: Sequence[str]) -> Mapping[str, int]:
    """Return how often each planned tool must be called: unexpected ones may be skipped.

    If the case has no expectation of tools, the plan is the only known requirement.
    """
    if expected:
        return planned & Counter(expected)
    return {} if first_missing(subject, ("expected_tools",)) is None else dict.fromkeys(planned, 1)


def _action(subject: Subject, score: ConversationScore) -> Iterator[Evidence]:
    decided = [tools for tools in score.tools if tools.outcome in {"pass", "fail"}]
    for tools in score.tools:
        if tools.outcome == "pass":
            continue
        faults = [fault for fault in tools.faults if fault.kind in _ACTION_FAULTS]
        if _may_be_made(subject, tools):
            faults = [fault for fault in faults if fault.kind != "missing"]
        yield from map(_of_fault, faults)
        # The arithmetic of other systems (`--compat`) reports no faults.
        if not tools.faults and tools.outcome == "fail":
            yield Evidence(layer="action", kind="tool_fault", turn_index=tools.turn_index, message=tools.explanation)
    if not decided:
        yield from _unannotated(subject)


def _may_be_made(subject: Subject, tools: ToolScore) -> bool:
    """Return whether calls that are missing may still come, or were made and not recorded."""
    if tools.reason == "content_not_captured":
        return tools.calls is None or not (tools.calls.actual or tools.calls.errored)
    expected = expected_calls(subject)
    return tools.turn_index is None and not isinstance(expected, ExpectedCalls) and expected[0] in _MISSING_TURNS


def _of_fault(fault: ToolFault) -> Evidence:
    return Evidence(
        layer="action",
        kind=fault.kind,
        tool=fault.tool_name,
        parameter=fault.parameter,
        turn_index=fault.turn_index,
        message=fault.explanation,
    )


def _unannotated(subject: Subject) -> Iterator[Evidence]:
    """Yield the faults of calls that are independent of expectations."""
    conversation = subject.conversation
    for turn, call in (hallucinated(conversation) or ([], 0))[0]:
        message = f"{call.name} in turn {turn.index + 1} is no tool that the agent was given"
        yield Evidence(layer="action", kind="hallucinated", tool=call.name, turn_index=turn.index, message=message)
    last: dict[str, tuple[int, str | None]] = {
        call.name: (turn.index, call.error) for turn, call in tool_calls(conversation)
    }
    for score in call_scores(conversation):
        if score.label == "invalid" and score.tool_name is not None and last[score.tool_name][1] is not None:
            location: dict[str, Any] = {
                "tool": score.tool_name,
                "parameter": score.parameter,
                "turn_index": score.turn_index,
            }
            yield Evidence(layer="action", kind="invalid_arguments", message=score.explanation, **location)
    for name, (turn_index, error) in last.items():
        if error is not None:
            message = f"{name} answered with an error the last time it was called, in turn {turn_index + 1}"
            yield Evidence(layer="action", kind="errored", tool=name, turn_index=turn_index, message=message)


def _outcome(subject: Subject, score: ConversationScore) -> Iterator[Evidence]:
    for tools in score.tools:
        for fault in tools.faults:
            if fault.kind == "unused_result" and tools.outcome != "pass":
                message = fault.explanation
                yield Evidence(
                    layer="outcome", kind=fault.kind, tool=fault.tool_name, turn_index=fault.turn_index, message=message
                )
    for turn in score.turns:
        if turn.answer_outcome == "fail":
            kind = turn.answer_reason or "wrong_answer"
            message = f"turn {turn.turn_index + 1}: {turn.explanation}"
            yield Evidence(layer="outcome", kind=kind, turn_index=turn.turn_index, message=message)
    for output in score.missing_outputs:
        yield Evidence(layer="outcome", kind="output_not_said", message=f"no answer contains {output!r}")
    if score.computed_reason in {"missing_turn", "extra_turn"}:
        yield Evidence(layer="outcome", kind=f"{score.computed_reason}", message=score.explanation)
    if first_missing(subject, ("expected_state",)) is None:
        reached = completion(subject)
        if reached.value == 0.0:
            yield Evidence(layer="outcome", kind="state", parameter=reached.parameter, message=reached.explanation)
