"""The outcome layer, and the first layer that broke in a failed conversation: reasoning, action or outcome.

The outcome layer compares the final state, task completion, step efficiency, and the effects of writing calls on the state.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from otel_agentic.evaluators.base import (
    BuiltInEvaluator,
    MetricScore,
    Missing,
    Subject,
    first_missing,
    none_of,
    step_ratio,
)
from otel_agentic.evaluators.layers.calls import (
    ExpectedCalls,
    call_scores,
    expected_calls,
    hallucinated,
    tool_calls,
    wrong_as_json,
)
from otel_agentic.evaluators.layers.plans import (
    common,
    executed,
    expected_plan,
    in_order,
    planning_tools,
    plans_of,
    written_plan,
)
from otel_agentic.scoring.model import ConversationScore, FaultKind, ToolFault, ToolScore, shown_call
from otel_agentic.scoring.scope import ActualCall, effect_of
from otel_agentic.scoring.state import ABSENT, Differing, compare_state, size_of

if TYPE_CHECKING:
    from otel_agentic.scoring.align import PairedCall
    from otel_agentic.scoring.scope import NotEvaluatedReason

COMPLETION: Final = "agentic.layers.task_completion"
EFFICIENCY: Final = "agentic.layers.step_efficiency"
#: Maximum number of differences in the details.
_LISTED: Final = 20
#: Maximum number of texts in an explanation.
_EXPLAINED: Final = 3


class Outcome(BuiltInEvaluator):
    """Task completion and step efficiency."""

    name = "layers.outcome"
    version = "3"
    needs = frozenset({"turns", "case"})

    def evaluate(self, subject: Subject) -> Iterable[MetricScore]:
        """Return both scores of a conversation."""
        return [completion(subject), _efficiency(subject)]


def completion(subject: Subject) -> MetricScore:
    """Return the score of task completion: whether the expected state was reached."""
    missing = first_missing(subject, ("expected_state",))
    if missing is not None or subject.case is None or subject.case.expected_state is None:
        return none_of(COMPLETION, *(missing or ("no_data", "no state is expected")))
    part, differences = compare_state(subject.case, subject.conversation, subject.settings)
    if part.outcome == "not_evaluated":
        return none_of(COMPLETION, cast("NotEvaluatedReason", part.reason), part.explanation)
    return MetricScore(
        name=COMPLETION,
        value=part.score,
        explanation=part.explanation,
        parameter=differences[0].path if differences else None,
        details={
            "values": size_of(subject.case.expected_state),
            "differing": [_difference_json(item) for item in differences[:_LISTED]],
        },
    )


def _difference_json(difference: Differing) -> dict[str, object]:
    payload: dict[str, object] = {"path": difference.path, "expected": difference.expected}
    return payload if difference.actual is ABSENT else {**payload, "found": difference.actual}


def _efficiency(subject: Subject) -> MetricScore:
    missing = first_missing(subject, ("minimum_steps",))
    if missing is not None or subject.case is None or subject.case.minimum_steps is None:
        return none_of(EFFICIENCY, *(missing or ("no_data", "no number of steps is expected")))
    minimum = subject.case.minimum_steps
    planning = planning_tools(subject)
    steps = [
        call
        for turn in subject.conversation.turns
        for call in turn.calls
        if call.kind != "transfer" and call.name not in planning
    ]
    actual = len(steps)
    ratio = step_ratio(actual, minimum)
    if ratio is None:
        return none_of(EFFICIENCY, "no_data", "no call was made")
    return MetricScore(
        name=EFFICIENCY,
        value=min(1.0, ratio),
        explanation=f"{actual} calls were made; {minimum} would do",
        details={"minimum": minimum, "made": actual},
    )


STATE_CHANGES: Final = "agentic.layers.state_changes"
StateChanges = Literal["right", "missing", "extra", "wrong_arguments", "missing_and_extra", "other"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Writes:
    """The differences between actual and required writing calls."""

    missing: tuple[tuple[str, Mapping[str, Any]], ...]
    extra: tuple[ActualCall, ...]
    differing: tuple[tuple[PairedCall, ActualCall, str], ...]
    paired: tuple[tuple[PairedCall, ActualCall], ...]

    @property
    def label(self) -> StateChanges:
        """The label according to the calls alone."""
        if self.missing or self.extra:
            return "missing_and_extra" if self.missing and self.extra else "missing" if self.missing else "extra"
        return "wrong_arguments" if self.differing else "right"


class StateChange(BuiltInEvaluator):
    """The metric of state-changing calls."""

    name = "layers.state_changes"
    needs = frozenset({"turns", "case", "expected_tools"})

    def evaluate(self, subject: Subject) -> Iterable[MetricScore]:
        """Return the label of a conversation."""
        expected = expected_calls(subject)
        if not isinstance(expected, ExpectedCalls):
            return [none_of(STATE_CHANGES, *expected)]
        return [_score(_writes(expected, subject.score), subject.score)]


def _writes(expected: ExpectedCalls, score: ConversationScore | None) -> _Writes:
    def writes(name: str) -> bool:
        return effect_of(name, expected.effects) == "write"

    missing = [call for call in expected.missing if writes(call[0])]
    extra = [actual for actual in expected.beyond if writes(actual.call.name)]
    paired = [(pair, actual) for pair, actual in expected.paired if writes(actual.call.name)]
    rejected_by_judge = _rejected_by_judge(score)
    differences = [
        (pair, actual, key)
        for pair, actual in paired
        for key in dict.fromkeys(
            (*pair.agreement.differing, *rejected_by_judge.get((actual.turn_index, actual.call.position), ()))
        )
    ]
    return _Writes(missing=tuple(missing), extra=tuple(extra), differing=tuple(differences), paired=tuple(paired))


def _rejected_by_judge(score: ConversationScore | None) -> Mapping[tuple[int | None, int | None], Sequence[str]]:
    """Return the parameters that a judge rejected, by turn index and position of the call."""
    results: dict[tuple[int | None, int | None], list[str]] = {}
    for tools in score.tools if score is not None else ():
        for fault in tools.faults:
            if fault.kind == "wrong_parameters" and fault.mode == "judge" and fault.parameter is not None:
                results.setdefault((fault.turn_index, fault.actual_position), []).append(fault.parameter)
    return results


def _changes_missing(writes: _Writes, score: ConversationScore | None) -> Missing | None:
    """Return the reason why calls that look right may be wrong: arguments that were not recorded or not compared."""
    for pair, actual in writes.paired:
        message = f"{actual.call.name} in turn {actual.turn_index + 1}"
        if actual.call.arguments is None:
            return "content_not_captured", f"the arguments of {message} were not recorded"
        if pair.expected.parameters.undecided(actual) and not _is_judged(score):
            return "no_data", f"a parameter of {message} is for a judge to compare (`match`), and none has"
    return None


def _is_judged(score: ConversationScore | None) -> bool:
    """Return whether the tool scores contain the agreement of all parameters."""
    return score is not None and all(
        tools.dimensions.get("parameters") is not None for tools in score.tools if tools.required
    )


def _score(writes: _Writes, score: ConversationScore | None) -> MetricScore:
    label = writes.label
    unknown = _changes_missing(writes, score) if label == "right" else None
    if unknown is not None:
        return none_of(STATE_CHANGES, *unknown)
    if label == "right" and score is not None and score.outcome == "fail":
        label = "other"
    tool_name = writes.missing[0][0] if writes.missing else None
    if tool_name is None and (writes.extra or writes.differing):
        tool_name = writes.extra[0].call.name if writes.extra else writes.differing[0][1].call.name
    return MetricScore(
        name=STATE_CHANGES,
        label=label,
        explanation=_changes_text(label, writes),
        tool_name=tool_name,
        parameter=writes.differing[0][2] if label == "wrong_arguments" else None,
        details=_write_details(writes),
    )


def _write_details(writes: _Writes) -> dict[str, Any]:
    return {
        "missing": [{"tool": name, "arguments": dict(arguments)} for name, arguments in writes.missing[:_LISTED]],
        "extra": [
            {"tool": actual.call.name, "turn_index": actual.turn_index, "arguments": actual.call.arguments}
            for actual in writes.extra[:_LISTED]
        ],
        "wrong_arguments": [wrong_as_json(*item) for item in writes.differing[:_LISTED]],
    }


def _changes_text(label: StateChanges, writes: _Writes) -> str:
    if label in {"right", "other"}:
        count = len(writes.paired)
        message = f"{count} of {count} expected state changes were made, and no other"
        message = message if count else "no state change was expected, and none was made"
        return f"{message}; the conversation failed all the same" if label == "other" else message
    missing = [shown_call(name, arguments) for name, arguments in writes.missing]
    extra = [
        f"{shown_call(actual.call.name, actual.call.arguments)} in turn {actual.turn_index + 1}"
        for actual in writes.extra
    ]
    differences = Counter(f"{actual.call.name}({key})" for _, actual, key in writes.differing)
    parts = [
        f"not made: {_first_texts(missing)}" if missing else "",
        f"not asked for: {_first_texts(extra)}" if extra else "",
        f"other arguments: {_first_texts(list(differences))}" if differences else "",
    ]
    return "; ".join(filter(None, parts))


def _first_texts(texts: Sequence[str]) -> str:
    more = len(texts) - _EXPLAINED
    return ", ".join(texts[:_EXPLAINED]) + (f" and {more} more" if more > 0 else "")


VERDICT: Final = "agentic.layers.verdict"
Layer = Literal["none", "reasoning", "action", "outcome"]
_LAYERS: Final[tuple[Layer, ...]] = ("reasoning", "action", "outcome")
#: Faults of calls themselves. An unused result is a fault of later steps; an error is one of the tool: see below.
_ACTION_FAULTS: Final[frozenset[FaultKind]] = frozenset(
    {"missing", "spurious", "forbidden", "wrong_parameters", "wrong_order"}
)
#: Reasons that imply that a missing turn may still exist.
_MISSING_TURNS: Final = frozenset({"incomplete", "no_conversation_id"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One defect and its layer, with the tool, parameter and turn (0-based) that it concerns, if any."""

    layer: Layer
    kind: str
    message: str
    tool: str | None = None
    parameter: str | None = None
    turn_index: int | None = None


class Verdict(BuiltInEvaluator):
    """The first layer that broke in a failed conversation."""

    name = "layers.verdict"
    version = "2"
    needs = frozenset({"turns", "score"})

    def evaluate(self, subject: Subject) -> Iterable[MetricScore]:
        """Return the verdict of a conversation."""
        score = subject.score
        if score is None:
            return [none_of(VERDICT, "no_data", "the conversation has no score yet")]
        if score.outcome == "not_evaluated":
            explanation = f"the conversation neither passed nor failed: {score.explanation}"
            return [none_of(VERDICT, score.reason if score.reason is not None else "no_data", explanation)]  # type: ignore[arg-type]  # a reason of such an outcome
        # A draft (here `case` is None) repeats what an agent did, right or wrong, so its faults are not evidence.
        reviewed_score = score if subject.case is not None else replace(score, turns=(), tools=(), missing_outputs=())
        evidence = [*_reasoning(subject), *_action(subject, reviewed_score), *_outcome(subject, reviewed_score)]
        return [_passed(evidence) if score.outcome == "pass" else _failed(evidence, score)]


def _passed(evidence: Sequence[Evidence]) -> MetricScore:
    explanation = "the conversation passed"
    if evidence:
        explanation += f", although {evidence[0].message}" + (
            f"; {len(evidence) - 1} more" if len(evidence) > 1 else ""
        )
    return MetricScore(name=VERDICT, label="none", explanation=explanation, details=_verdict_details(evidence))


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
        details=_verdict_details(evidence),
    )


def _verdict_details(evidence: Sequence[Evidence]) -> dict[str, Any]:
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
    plans_by_turn = plans_of(subject)
    if not plans_by_turn:
        return
    groups = expected_plan(subject, expected_calls(subject))
    expected = [name for group in groups for name in group]
    plan = written_plan(subject, plans_by_turn, expected)
    if not plan.tools:
        return
    planned, called = Counter(plan.tools), Counter(name for step in executed(subject) for name in step)
    # A step may mean several calls: a tool is planned if the plan names it at all.
    for name in dict.fromkeys(name for name in expected if name not in planned):
        yield Evidence(layer="reasoning", kind="not_planned", tool=name, message=f"the plan does not name {name}")
    if expected and in_order(plan.tools, groups) < common(plan.tools, expected):
        yield Evidence(
            layer="reasoning", kind="planned_order", message="the plan has the tools in another order than expected"
        )
    for name, times in _required_plan(subject, planned, expected).items():
        if called[name] < times:
            message = f"{name} was planned and not called"
            if called[name]:
                message = f"{name} was planned for {times} calls and called {called[name]} times"
            yield Evidence(layer="reasoning", kind="plan_not_kept", tool=name, message=message)


def _required_plan(subject: Subject, planned: Counter[str], expected: Sequence[str]) -> Mapping[str, int]:
    """Return how often each planned tool must be called; tools that are not expected may be skipped.

    If no expected calls are annotated, the plan is the only known requirement.
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
        if _may_be_unrecorded(subject, tools):
            faults = [fault for fault in faults if fault.kind != "missing"]
        yield from map(_fault_evidence, faults)
        # The arithmetic of other systems (`--compat`) reports no faults.
        if not tools.faults and tools.outcome == "fail":
            yield Evidence(layer="action", kind="tool_fault", turn_index=tools.turn_index, message=tools.explanation)
    if not decided:
        yield from _unannotated(subject)


def _may_be_unrecorded(subject: Subject, tools: ToolScore) -> bool:
    """Return whether missing calls may still occur, or occurred without being recorded."""
    if tools.reason == "content_not_captured":
        return tools.calls is None or not (tools.calls.actual or tools.calls.errored)
    expected = expected_calls(subject)
    return tools.turn_index is None and not isinstance(expected, ExpectedCalls) and expected[0] in _MISSING_TURNS


def _fault_evidence(fault: ToolFault) -> Evidence:
    return Evidence(
        layer="action",
        kind=fault.kind,
        tool=fault.tool_name,
        parameter=fault.parameter,
        turn_index=fault.turn_index,
        message=fault.explanation,
    )


def _unannotated(subject: Subject) -> Iterator[Evidence]:
    """Yield the defects of calls that do not depend on expectations."""
    conversation = subject.conversation
    for turn, call in (hallucinated(conversation) or ([], 0))[0]:
        message = f"{call.name} in turn {turn.index + 1} is no tool that the agent was given"
        yield Evidence(layer="action", kind="hallucinated", tool=call.name, turn_index=turn.index, message=message)
    last_calls: dict[str, tuple[int, str | None]] = {
        call.name: (turn.index, call.error) for turn, call in tool_calls(conversation)
    }
    for score in call_scores(conversation):
        if score.label == "invalid" and score.tool_name is not None and last_calls[score.tool_name][1] is not None:
            location: dict[str, Any] = {
                "tool": score.tool_name,
                "parameter": score.parameter,
                "turn_index": score.turn_index,
            }
            yield Evidence(layer="action", kind="invalid_arguments", message=score.explanation, **location)
    for name, (turn_index, error) in last_calls.items():
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
