"""The outcome layer, and the first layer that broke in a failed conversation: reasoning, action or outcome.

The outcome layer compares the final state, task completion, step efficiency, and the effects of writing calls on the state.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from otel_agentic.dialects.values import is_redacted
from otel_agentic.evaluators.base import (
    CAPTURE,
    NO_STATE,
    RECORD_STATE,
    BuiltInEvaluator,
    MetricScore,
    Missing,
    Subject,
    calls_in_order,
    first_missing,
    listed,
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
from otel_agentic.evaluators.layers.plans import common, executed, expected_plan, in_order, written_plan
from otel_agentic.scoring.compile import agrees
from otel_agentic.scoring.model import ConversationScore, FaultKind, ToolFault, ToolScore, shown_call
from otel_agentic.scoring.scope import ActualCall, effect_of
from otel_agentic.scoring.values import read
from otel_agentic.truth.model import EXACT
from otel_agentic.truth.values import json_text

if TYPE_CHECKING:
    from otel_agentic.scoring.align import PairedCall

#: An absent value; null is a value.
ABSENT: Final = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class FinalState:
    """The fields of a state, and their source as part of a sentence; `by_tool` holds results under the tool's name.

    `unseen` are tools whose last result was not recorded and is missing from the fields.
    """

    fields: Mapping[str, Any]
    source: str
    by_tool: Mapping[str, Any]
    unseen: tuple[str, ...] = ()


class Differing(NamedTuple):
    """A difference between a state and the expected one: its path, the expected value, and the actual one (or `ABSENT`)."""

    path: str
    expected: Any
    actual: Any

    @property
    def hidden(self) -> bool:
        """Whether the sender removed the value, so that it may equal the expected one.

        The marks of our own redaction do not count: cases are redacted the same way, so equal values have equal marks.
        """
        return is_redacted(self.actual)


def final_state(subject: Subject) -> FinalState | Missing:
    """Return the state at the end of a conversation, or why it is not known, as (reason, explanation).

    It is the one that a span names (`Conversation.final_state`); else it is put together from the last result of each tool
    that writes (see `effects`), where that is a JSON object: the fields of all of them, those of the later call winning. A
    field that none of them has is looked for under the names of the tools.
    """
    conversation = subject.conversation
    if conversation.final_state is not None:
        return FinalState(fields=conversation.final_state, source="the recorded state", by_tool={})
    tables = (*(() if subject.case is None else (subject.case.effects,)), subject.settings.effects)
    calls = [call for turn in conversation.turns for call in calls_in_order(turn)]
    wrote = [call for call in calls if call.error is None and effect_of(call.name, tables) == "write"]
    message = f"{NO_STATE}, and no call that writes"
    if not wrote:
        return "state_not_recorded", f"{message} was made that worked; {RECORD_STATE}"
    newest = {call.name: call for call in wrote}
    if not any(call.result_captured for call in newest.values()):
        return "content_not_captured", f"{message} has a recorded result; {CAPTURE}"
    last = {name: read(call.result) for name, call in newest.items() if call.result_captured}
    order = dict.fromkeys(call.name for call in reversed(wrote) if call.name in last)
    fields: dict[str, Any] = {}
    for name in reversed(order):
        if isinstance(last[name], Mapping):
            fields |= last[name]
    unseen = tuple(name for name in newest if name not in last)
    if not fields:
        return "state_not_recorded", f"{message} has an object as its result; {RECORD_STATE}"
    source = f"the last results of {', '.join(reversed(order))}"
    return FinalState(fields=fields, source=source, by_tool=last, unseen=unseen)


def differing(expected: Mapping[str, Any], state: FinalState) -> list[Differing]:
    """Return the places where an expected state is not part of a state, in the order of the expected one.

    Objects are part of objects with more fields, at any depth; lists have to be as long, item by item; other values equal as
    in `exact` parameters: numbers by value, true is not 1, null is not absent.
    """
    differences: list[Differing] = []
    for key, required in expected.items():
        there = state.fields.get(key, state.by_tool.get(key, ABSENT))
        differences += _inside(key, required, there)
    return differences


def _inside(path: str, expected: Any, there: Any) -> Iterator[Differing]:
    if there is ABSENT:
        yield Differing(path, expected, there)
    elif isinstance(expected, Mapping) and isinstance(there, Mapping):
        for key, held in expected.items():
            yield from _inside(f"{path}.{key}", held, there.get(key, ABSENT))
    elif isinstance(expected, (list, tuple)) and isinstance(there, (list, tuple)) and len(expected) == len(there):
        for index, (held, other) in enumerate(zip(expected, there, strict=True)):
            yield from _inside(f"{path}[{index}]", held, other)
    elif not agrees(expected, there, EXACT):
        yield Differing(path, expected, there)


def size_of(expected: Any) -> int:
    """Return how many values an expected state names, at any depth.

    >>> size_of({"order": {"status": "sent", "items": [1, 2]}, "paid": True})
    4
    """
    if isinstance(expected, Mapping) and expected:
        return sum(map(size_of, expected.values()))
    if isinstance(expected, (list, tuple)) and expected:
        return sum(map(size_of, expected))
    return 1


COMPLETION: Final = "agentic.layers.task_completion"
EFFICIENCY: Final = "agentic.layers.step_efficiency"
#: Differences in the explanation, and those in the details.
_EXPLAINED: Final = 3
_LISTED: Final = 20


class Outcome(BuiltInEvaluator):
    """The two metrics of outcomes."""

    name = "layers.outcome"
    version = "2"
    needs = frozenset({"turns", "case"})

    def evaluate(self, subject: Subject) -> Iterable[MetricScore]:
        """Return both scores of a conversation."""
        return [completion(subject), _efficiency(subject)]


def completion(subject: Subject) -> MetricScore:
    """Return whether the expected state was reached."""
    lacks = first_missing(subject, ("expected_state",))
    if lacks is not None or subject.case is None or subject.case.expected_state is None:
        return none_of(COMPLETION, *(lacks or ("no_data", "no state is expected")))
    expected = subject.case.expected_state
    state = final_state(subject)
    if not isinstance(state, FinalState):
        return none_of(COMPLETION, *state)
    differences = differing(expected, state)
    if differences and state.unseen:
        lost = f"the last result of {listed(state.unseen)} was not recorded, and {_differences_text(differences[:1])} in the others"
        return none_of(COMPLETION, "content_not_captured", lost)
    if differences and all(item.hidden for item in differences):
        explanation = f"in {state.source}, {listed([item.path for item in differences[:_EXPLAINED]])} was taken out before it was recorded"
        return none_of(COMPLETION, "content_not_captured", explanation)
    named = size_of(expected) if expected else 0
    explanation = _differences_text(differences) if differences else f"{named} of {named} expected values are there"
    return MetricScore(
        name=COMPLETION,
        value=float(not differences),
        explanation=f"in {state.source}, {explanation}",
        parameter=differences[0].path if differences else None,
        details={"values": named, "differing": [_as_json(item) for item in differences[:_LISTED]]},
    )


def _differences_text(differences: Sequence[Differing]) -> str:
    parts = [
        f"{item.path} is {'absent' if item.actual is ABSENT else json_text(item.actual)}, expected {json_text(item.expected)}"
        for item in differences[:_EXPLAINED]
    ]
    more = len(differences) - _EXPLAINED
    return "; ".join(parts) + (f"; {more} more" if more > 0 else "")


def _as_json(difference: Differing) -> dict[str, object]:
    payload: dict[str, object] = {"path": difference.path, "expected": difference.expected}
    return payload if difference.actual is ABSENT else {**payload, "found": difference.actual}


def _efficiency(subject: Subject) -> MetricScore:
    lacks = first_missing(subject, ("minimum_steps",))
    if lacks is not None or subject.case is None or subject.case.minimum_steps is None:
        return none_of(EFFICIENCY, *(lacks or ("no_data", "no number of steps is expected")))
    minimum = subject.case.minimum_steps
    actual = sum(call.kind != "transfer" for turn in subject.conversation.turns for call in turn.calls)
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
        """The class according to the calls alone."""
        if self.missing or self.extra:
            return "missing_and_extra" if self.missing and self.extra else "missing" if self.missing else "extra"
        return "wrong_arguments" if self.differing else "right"


class StateChange(BuiltInEvaluator):
    """The metric of state-changing calls."""

    name = "layers.state_changes"
    needs = frozenset({"turns", "case", "expected_tools"})

    def evaluate(self, subject: Subject) -> Iterable[MetricScore]:
        """Return the class of a conversation."""
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
    by_judge = _wrong_by_judge(score)
    differences = [
        (pair, actual, key)
        for pair, actual in paired
        for key in dict.fromkeys(
            (*pair.agreement.differing, *by_judge.get((actual.turn_index, actual.call.position), ()))
        )
    ]
    return _Writes(missing=tuple(missing), extra=tuple(extra), differing=tuple(differences), paired=tuple(paired))


def _wrong_by_judge(score: ConversationScore | None) -> Mapping[tuple[int | None, int | None], Sequence[str]]:
    """Return the parameters that a judge found wrong, by the index of the call."""
    results: dict[tuple[int | None, int | None], list[str]] = {}
    for tools in score.tools if score is not None else ():
        for fault in tools.faults:
            if fault.kind == "wrong_parameters" and fault.mode == "judge" and fault.parameter is not None:
                results.setdefault((fault.turn_index, fault.actual_position), []).append(fault.parameter)
    return results


def _unknown(writes: _Writes, score: ConversationScore | None) -> Missing | None:
    """Return the reason why calls that look right may be wrong: arguments that were not recorded or not compared."""
    for pair, actual in writes.paired:
        message = f"{actual.call.name} in turn {actual.turn_index + 1}"
        if actual.call.arguments is None:
            return "content_not_captured", f"the arguments of {message} were not recorded"
        if pair.expected.parameters.undecided(actual) and not _is_judged(score):
            return "no_data", f"a parameter of {message} is for a judge to compare (`match`), and none has"
    return None


def _is_judged(score: ConversationScore | None) -> bool:
    """Return whether tool scores know of all parameters how they agree."""
    return score is not None and all(
        tools.dimensions.get("parameters") is not None for tools in score.tools if tools.required
    )


def _score(writes: _Writes, score: ConversationScore | None) -> MetricScore:
    label = writes.label
    unknown = _unknown(writes, score) if label == "right" else None
    if unknown is not None:
        return none_of(STATE_CHANGES, *unknown)
    if label == "right" and score is not None and score.outcome == "fail":
        label = "other"
    about = writes.missing[0][0] if writes.missing else None
    if about is None and (writes.extra or writes.differing):
        about = writes.extra[0].call.name if writes.extra else writes.differing[0][1].call.name
    return MetricScore(
        name=STATE_CHANGES,
        label=label,
        explanation=_changes_text(label, writes),
        tool_name=about,
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
        actual_call = len(writes.paired)
        message = f"{actual_call} of {actual_call} expected state changes were made, and no other"
        message = message if actual_call else "no state change was expected, and none was made"
        return f"{message}; the conversation failed all the same" if label == "other" else message
    missing = [shown_call(name, arguments) for name, arguments in writes.missing]
    extra = [
        f"{shown_call(actual.call.name, actual.call.arguments)} in turn {actual.turn_index + 1}"
        for actual in writes.extra
    ]
    differences = Counter(f"{actual.call.name}({key})" for _, actual, key in writes.differing)
    parts = [
        f"not made: {_some(missing)}" if missing else "",
        f"not asked for: {_some(extra)}" if extra else "",
        f"other arguments: {_some(list(differences))}" if differences else "",
    ]
    return "; ".join(filter(None, parts))


def _some(message: Sequence[str]) -> str:
    more = len(message) - _EXPLAINED
    return ", ".join(message[:_EXPLAINED]) + (f" and {more} more" if more > 0 else "")


VERDICT: Final = "agentic.layers.verdict"
Layer = Literal["none", "reasoning", "action", "outcome"]
_LAYERS: Final[tuple[Layer, ...]] = ("reasoning", "action", "outcome")
#: Faults of calls themselves. An unused result is a fault of later steps; an error is one of the tool: see below.
_ACTION_FAULTS: Final[frozenset[FaultKind]] = frozenset(
    {"missing", "spurious", "forbidden", "wrong_parameters", "wrong_order"}
)
#: Reasons for which a turn that is missing may still exist.
_MISSING_TURNS: Final = frozenset({"incomplete", "no_conversation_id"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One thing that is wrong, and in which layer; tool, parameter and turn (0-based) as far as it is about them."""

    layer: Layer
    kind: str
    message: str
    tool: str | None = None
    parameter: str | None = None
    turn_index: int | None = None


class Verdict(BuiltInEvaluator):
    """The verdict of the layers."""

    name = "layers.verdict"
    needs = frozenset({"turns", "score"})

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
