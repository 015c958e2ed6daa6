"""The action layer: tools selected and ordered as expected, parameters correct, calls valid against the recorded tool definitions."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.dialects.values import has_named_arguments, text_of
from otel_agentic.evaluators.base import (
    NO_DEFINITIONS,
    BuiltInEvaluator,
    MetricScore,
    Missing,
    Overlap,
    SameObject,
    Subject,
    calls_in_order,
    first_missing,
    listed,
    none_of,
    none_of_all,
    without_case,
)
from otel_agentic.scoring.compile import compiled
from otel_agentic.scoring.dimensions import score_calls
from otel_agentic.scoring.outcome import unproven_absence
from otel_agentic.scoring.scope import ActualCall, NotEvaluatedReason, Scope, ToolRules, scope_of
from otel_agentic.truth.values import SchemaFault, SchemaUnusableError, schema_faults

if TYPE_CHECKING:
    from otel_agentic.conversations.model import Conversation, ToolCall, Turn
    from otel_agentic.scoring.align import PairedCall, SortedCalls
    from otel_agentic.truth.model import Case, Effect, ToolExpectation

#: Conversations whose sorted calls are kept: the metrics of one are computed one after the other.
_CACHED: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class SortedScope:
    """The calls of one turn (`turn_index`, None for one that never came), or of the whole conversation (`is_whole`).

    `calls` are sorted under the expectation, or the alternative of it that fits best. `beyond` are the actual calls
    that neither it nor another expectation of the case requires or allows, and those that it forbids.
    """

    is_whole: bool
    turn_index: int | None
    calls: SortedCalls
    beyond: tuple[ActualCall, ...]

    @property
    def paired(self) -> tuple[tuple[PairedCall, ActualCall], ...]:
        """Each required call that was made, with the call that answers it, in order of the latter."""
        return tuple((pair, self.calls.actual[pair.actual_index]) for pair in self.calls.pairs)

    @property
    def missing(self) -> tuple[tuple[str, Mapping[str, object]], ...]:
        """Name and parameters of each required call that was not made, in the order of the case."""
        there = {pair.expected.index for pair in self.calls.pairs}
        return tuple(
            (call.name, call.call.parameters)
            for call in self.calls.expectation.calls
            if call.required and call.index not in there
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedCalls:
    """All scopes of a conversation: of its turns in the order of the case, of the whole last."""

    scopes: tuple[SortedScope, ...]
    effects: tuple[Mapping[str, Effect], ...]

    @property
    def required(self) -> int:
        """How many calls are required."""
        return sum(scope.calls.expectation.required for scope in self.scopes)

    @property
    def paired(self) -> tuple[tuple[PairedCall, ActualCall], ...]:
        """Each required call that was made, with the call that answers it."""
        return tuple(pair for scope in self.scopes for pair in scope.paired)

    @property
    def missing(self) -> tuple[tuple[str, Mapping[str, object]], ...]:
        """Name and parameters of each required call that was not made."""
        return tuple(call for scope in self.scopes for call in scope.missing)

    @property
    def beyond(self) -> tuple[ActualCall, ...]:
        """The calls that nothing asks for or allows, each once, in order of their place."""
        calls = {actual.location: actual for scope in self.scopes for actual in scope.beyond}
        return tuple(actual for _, actual in sorted(calls.items()))


def expected_calls(subject: Subject) -> ExpectedCalls | Missing:
    """Return the calls of a conversation sorted out, or why they cannot be, as (reason, explanation).

    Made is a call of kind `tool` that answered without an error (transfers and agents used as tools only where an
    expectation names them). Calls that are expected of a turn are looked for in that turn, of the conversation anywhere; a
    turn of the case that never came has none.
    """
    return _remembered(SameObject(subject))


@lru_cache(maxsize=_CACHED)
def _remembered(same: SameObject[Subject]) -> ExpectedCalls | Missing:
    subject = same.item
    lacks = first_missing(subject, ("expected_tools",))
    case = subject.case
    if lacks is not None or case is None:
        return lacks or without_case(subject)
    absent = turns_absent(subject, case)
    if absent is not None:
        return absent
    scopes = list(scopes_of(subject, case))
    if any(_is_unseen(scope, is_whole=is_whole) for _, scope, is_whole in scopes):
        return "content_not_captured", "no content was recorded, so that calls may be missing from the record"
    rules = ToolRules.of(case, subject.settings)
    results = [(*expected, _sorted(expected[0], expected[1], rules)) for expected in scopes]
    requested = [_asked_for(calls) for *_, calls in results]
    return ExpectedCalls(
        scopes=tuple(
            _scope(is_whole, scope, _without(_others(requested, number), calls, expectation, scope, rules))
            for number, (expectation, scope, is_whole, calls) in enumerate(results)
        ),
        effects=rules.effects,
    )


def _scope(is_whole: bool, scope: Scope, calls: SortedCalls) -> SortedScope:  # noqa: FBT001 — handed on
    return SortedScope(is_whole=is_whole, turn_index=scope.turn_index, calls=calls, beyond=tuple(_beyond(calls)))


def turns_absent(subject: Subject, case: Case) -> Missing | None:
    """Return the reason why turns of the case that the conversation lacks may still exist; None if they certainly do not."""
    absent = sorted(set(range(len(case.turns))) - set(subject.aligned.values()))
    awaited = unproven_absence(subject.conversation, subject.settings) if absent else None
    if awaited is None:
        return None
    return awaited[0], f"expected turn {', '.join(str(index + 1) for index in absent)} is missing; {awaited[1]}"


def scopes_of(subject: Subject, case: Case) -> Iterator[tuple[ToolExpectation, Scope, bool]]:
    """Yield each expectation of a case with its scope, and whether that is the whole conversation.

    The scope of a turn that never came is empty, and has no turn index.
    """
    turns = subject.conversation.turns
    present = {subject.aligned[turn.index]: turn for turn in turns if turn.index in subject.aligned}
    for index, expected in enumerate(case.turns):
        if expected.tools is not None:
            turn = present.get(index)
            held = () if turn is None else (turn,)
            yield expected.tools, scope_of(held, turn_index=None if turn is None else turn.index), False
    if case.tools is not None:
        yield case.tools, scope_of(turns, turn_index=None), True


def _is_unseen(scope: Scope, *, is_whole: bool) -> bool:
    """Return whether unrecorded calls are possible; a turn that never came has none."""
    return not (scope.captured or scope.calls) and (is_whole or scope.turn_index is not None)


def _sorted(expectation: ToolExpectation, scope: Scope, rules: ToolRules) -> SortedCalls:
    calls = score_calls(compiled(expectation, rules), scope.calls, turn_index=scope.turn_index).calls
    assert calls is not None  # noqa: S101 — for the types: a score that is made from calls holds them
    return calls


def _without(
    elsewhere: frozenset[tuple[int, int, int]],
    calls: SortedCalls,
    expectation: ToolExpectation,
    scope: Scope,
    rules: ToolRules,
) -> SortedCalls:
    """Return the calls, sorted again if other expectations require some of the extra ones.

    Again, because those may have determined which alternative fits best.
    """
    indices = {calls.actual[index].location for index, _ in calls.extra if index not in calls.forbidden} & elsewhere
    if not indices:
        return calls
    retained = tuple(actual for actual in scope.calls if actual.location not in indices)
    return _sorted(expectation, replace(scope, calls=retained), rules)


def _asked_for(calls: SortedCalls) -> frozenset[tuple[int, int, int]]:
    return frozenset(calls.actual[pair.actual_index].location for pair in (*calls.pairs, *calls.excused))


def _others(requested: Sequence[frozenset[tuple[int, int, int]]], number: int) -> frozenset[tuple[int, int, int]]:
    """Return the places of calls that other expectations than the numbered one ask for."""
    return frozenset().union(*(indices for other, indices in enumerate(requested) if other != number))


def _beyond(calls: SortedCalls) -> Iterable[ActualCall]:
    rules, forbidden = dict(calls.extra), set(calls.forbidden)
    for index in sorted({*rules, *forbidden}):
        if index in forbidden or rules[index] != "allow":
            yield calls.actual[index]


ROUTING: Final = "agentic.layers.tool_routing_accuracy"
PRECISION: Final = "agentic.layers.tool_precision"
RECALL: Final = "agentic.layers.tool_recall"
F1: Final = "agentic.layers.tool_f1"


class Tools(BuiltInEvaluator):
    """The four metrics of tool names."""

    name = "layers.tools"
    needs = frozenset({"turns", "case", "expected_tools"})

    def evaluate(self, subject: Subject) -> Iterable[MetricScore]:
        """Return the four scores of a conversation."""
        expected = expected_calls(subject)
        if not isinstance(expected, ExpectedCalls):
            return none_of_all(self.metrics, *expected)
        return _scores(expected)


def _scores(expected: ExpectedCalls) -> list[MetricScore]:
    required, paired, beyond = expected.required, len(expected.paired), len(expected.beyond)
    explanation = _routing_text(expected)
    details = {"required": required, "made": paired, "beyond": beyond}

    overlap = Overlap(common=paired, actual=paired + beyond, expected=required)
    undefined = {
        PRECISION: "no call was made that could be right or wrong",
        RECALL: "the case requires no call",
    }
    values = {
        ROUTING: overlap.jaccard(empty=1.0),
        PRECISION: overlap.precision(empty=None),
        RECALL: overlap.recall(empty=None),
        F1: overlap.f1(empty=1.0),
    }
    return [
        none_of(name, "no_data", undefined[name])
        if value is None
        else MetricScore(name=name, value=value, explanation=explanation, details=details)
        for name, value in values.items()
    ]


def _routing_text(counts: ExpectedCalls) -> str:
    """Return which tools were called wrongly, in words."""
    missing = Counter(name for name, _ in counts.missing)
    beyond = Counter(actual.call.name for actual in counts.beyond)
    parts = [
        f"{len(counts.paired)} of {counts.required} required calls occurred"
        if counts.required
        else "no call is required",
        f"not called: {listed(missing)}" if missing else "",
        f"not asked for: {listed(beyond)}" if beyond else "",
    ]
    return "; ".join(filter(None, parts))


SEMANTICS: Final = "agentic.layers.parameter_semantics"


class Parameters(BuiltInEvaluator):
    """The metric of expected parameters."""

    name = "layers.parameters"
    needs = frozenset({"turns", "case", "expected_tools"})

    def evaluate(self, subject: Subject) -> Iterable[MetricScore]:
        """Return the score of a conversation."""
        expected = comparable(subject, SEMANTICS)
        return [expected if isinstance(expected, MetricScore) else _score(subject, expected)]


def comparable(subject: Subject, name: str) -> ExpectedCalls | MetricScore:
    """Return the calls whose parameters can be compared, or an abstention of the named metric."""
    expected = expected_calls(subject)
    if not isinstance(expected, ExpectedCalls):
        return none_of(name, *expected)
    if not expected.required:
        return none_of(name, "no_data", "the case requires no call")
    actual_call = next((actual for _, actual in expected.paired if actual.call.arguments is None), None)
    if actual_call is not None:
        explanation = f"the arguments of {actual_call.call.name} in turn {actual_call.turn_index + 1} were not recorded"
        return none_of(name, "content_not_captured", explanation)
    return expected


def wrong_parameters(result: ExpectedCalls) -> Iterator[tuple[PairedCall, ActualCall, str]]:
    """Yield each parameter that is not as expected, with its call."""
    for pair, actual in result.paired:
        for key in pair.agreement.differing:
            yield pair, actual, key


def compared(pair: PairedCall, actual: ActualCall) -> int:
    """Return how many parameters of a call are compared: those expected, and those made beyond them where these count."""
    parameters, arguments = pair.expected.parameters, actual.call.arguments or {}
    beyond = [key for key in arguments if key not in parameters.modes] if parameters.strict else []
    return len(parameters.compared) + len(beyond)


def wrong_as_json(pair: PairedCall, actual: ActualCall, key: str) -> Mapping[str, object]:
    """Return one wrong parameter: tool, place, and both values as far as they are there."""
    expected, provided = pair.expected.parameters.values, actual.call.arguments or {}
    payload: dict[str, object] = {"tool": actual.call.name, "turn_index": actual.turn_index, "parameter": key}
    payload |= {"expected": expected[key]} if key in expected else {}
    return payload | ({"made": provided[key]} if key in provided else {})


def _score(subject: Subject, result: ExpectedCalls) -> MetricScore:
    value: float | None = sum(pair.agreement.score for pair, _ in result.paired) / result.required
    left = next((actual for pair, actual in result.paired if pair.expected.parameters.undecided(actual)), None)
    if left is not None:
        value = _as_judged(subject, result.required)
    if value is None and left is not None:
        explanation = f"a parameter of {left.call.name} is for a judge to compare (`match`), and the score asked none"
        return none_of(SEMANTICS, "no_data", explanation)
    invalid = list(wrong_parameters(result))
    named = [f"{actual.call.name}({key})" for _, actual, key in invalid]
    missing = len(result.missing)
    parts = [
        f"other arguments: {listed(named)}" if named else "",
        f"{missing} of {result.required} required calls not made" if missing else "",
    ]
    return MetricScore(
        name=SEMANTICS,
        value=value,
        explanation="; ".join(filter(None, parts)) or "every required call was made with the expected arguments",
        tool_name=invalid[0][1].call.name if invalid else None,
        parameter=invalid[0][2] if invalid else None,
        details={"required": result.required, "wrong": [wrong_as_json(*item) for item in invalid[:20]]},
    )


def _as_judged(subject: Subject, required: int) -> float | None:
    """Return the mean agreement of the tool scores, which include the judge's verdicts; None if they do not have it."""
    tools = [tool for tool in (subject.score.tools if subject.score is not None else ()) if tool.required]
    agreed = [tool.dimensions.get("parameters") for tool in tools]
    if not tools or None in agreed:
        return None
    return sum((share or 0.0) * item.required for share, item in zip(agreed, tools, strict=True)) / required


VALIDITY: Final = "agentic.layers.parameter_validity"
CALL: Final = "agentic.layers.call_validity"
HALLUCINATED: Final = "agentic.layers.hallucinated_tools"

#: What frameworks answer to a name that they do not know; characters of an error that are read.
_NO_TOOL: Final = re.compile(
    r"\b(?:no such|unknown|invalid|unrecognized|undefined|unsupported) (?:tool|function)\b(?! (?:arg|param|input|call|result))"
    r"|\bunavailable tool\b|\b(?:tool|function)\b.{0,300}?\b(?:not found|not (?:a )?(?:valid|known) tool|does not exist|doesn't exist|not exist"
    r"|not defined|not registered)\b|\bis not a valid tool\b",
    re.IGNORECASE | re.DOTALL,
)
_ERROR_CHARACTERS: Final = 1_000


class Validity(BuiltInEvaluator):
    """The three metrics of calls against tool definitions."""

    name = "layers.validity"
    version = "3"
    needs = frozenset({"turns", "calls", "definitions"})

    def evaluate(self, subject: Subject) -> Iterable[MetricScore]:
        """Return the validity of each call with a schema, the share of valid ones, and that of hallucinated ones."""
        calls = call_scores(subject.conversation)
        return [_share(calls), *calls, _hallucinated(subject.conversation)]


def call_scores(conversation: Conversation) -> list[MetricScore]:
    """Return the validity of each call of a defined tool, in order."""
    definitions = conversation.tool_definitions or {}
    given_up: dict[str, str] = {}
    return [
        _call_score(turn, call, definitions[call.name], given_up)
        for turn, call in tool_calls(conversation)
        if call.name in definitions
    ]


def hallucinated(conversation: Conversation) -> tuple[list[tuple[Turn, ToolCall]], int] | None:
    """Return the calls of tools that the agent was not given, and how many calls were looked at; None without definitions.

    A tool that answered exists: definitions may be recorded in part, and an interpreter needs none.
    """
    definitions = conversation.tool_definitions
    if definitions is None:
        return None
    worked = {call.name for _, call in tool_calls(conversation) if _worked(call)}
    checked = [
        (turn, call)
        for turn, call in tool_calls(conversation)
        if call.parent_span_id is None or call.name in definitions or _is_refused(call)
    ]
    return [(turn, call) for turn, call in checked if call.name not in definitions and call.name not in worked], len(
        checked
    )


def _worked(call: ToolCall) -> bool:
    """Return whether a tool answered a call: without an error, and not that there is no such tool."""
    answer = text_of(call.result)
    if call.error is not None or (call.span_id is None and answer is None):
        return False
    return answer is None or _NO_TOOL.search(answer[:_ERROR_CHARACTERS]) is None


def _is_refused(call: ToolCall) -> bool:
    """Return whether the answer to a call was that there is no such tool."""
    return call.error is not None and _NO_TOOL.search(call.error[:_ERROR_CHARACTERS]) is not None


def tool_calls(conversation: Conversation) -> Iterator[tuple[Turn, ToolCall]]:
    """Yield the calls of kind `tool` with their turns, in order."""
    for turn in conversation.turns:
        for call in calls_in_order(turn):
            if call.kind == "tool":
                yield turn, call


def _call_score(turn: Turn, call: ToolCall, schema: Any, given_up: dict[str, str]) -> MetricScore:
    location: dict[str, Any] = {"turn_index": turn.index, "position": call.position, "tool_name": call.name}

    def none(reason: NotEvaluatedReason, explanation: str) -> MetricScore:
        return MetricScore(
            name=CALL, reason=reason, explanation=f"{call.name} in turn {turn.index + 1}: {explanation}", **location
        )

    if schema is None:
        return none("tool_definitions_not_recorded", "the schema of its parameters was not recorded")
    if call.arguments is None:
        return none("content_not_captured", "its arguments were not recorded")
    if not (has_named_arguments(call.arguments) or _takes(schema, *call.arguments)):
        return none("content_not_captured", "its one argument was recorded without a name")
    if call.name in given_up:
        return none("no_data", given_up[call.name])
    try:
        faults = schema_faults(call.arguments, schema)
    except SchemaUnusableError as error:
        if not error.of_call:
            given_up[call.name] = f"{error}"
        return none("no_data", f"{error}")
    return _validity_score(turn, call, faults, location)


def _takes(schema: Any, parameter: str) -> bool:
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    return isinstance(properties, Mapping) and parameter in properties


def _validity_score(
    turn: Turn, call: ToolCall, faults: Sequence[SchemaFault], location: Mapping[str, Any]
) -> MetricScore:
    messages = [
        f"parameter {fault.path} {fault.message}" if fault.path else f"the object {fault.message}" for fault in faults
    ]
    where = f"{call.name} in turn {turn.index + 1}, step {call.step}"
    return MetricScore(
        name=CALL,
        value=float(not faults),
        label="invalid" if faults else "valid",
        explanation=f"{where}: {'; '.join(messages[:3]) or 'valid'}"
        + (f"; {len(messages) - 3} more" if len(messages) > 3 else ""),  # noqa: PLR2004 — three of each
        parameter=faults[0].path or None if faults else None,
        details={
            "faults": [{"path": fault.path, "keyword": fault.keyword, "message": fault.message} for fault in faults]
        }
        if faults
        else {},
        **location,
    )


def _share(calls: Sequence[MetricScore]) -> MetricScore:
    known = [call for call in calls if call.value is not None]
    if not known:
        if calls:
            return none_of(VALIDITY, calls[0].reason or "no_data", f"no call could be checked: {calls[0].explanation}")
        return none_of(VALIDITY, "no_data", "no call of a tool that was defined")
    invalid = [item for item in known if item.label == "invalid"]
    left = f"; {len(calls) - len(known)} could not be checked" if len(known) < len(calls) else ""
    return MetricScore(
        name=VALIDITY,
        value=(len(known) - len(invalid)) / len(known),
        explanation=f"{len(known) - len(invalid)} of {len(known)} calls are valid{left}"
        + "".join(f"; {item.explanation}" for item in invalid[:3]),
        details={"calls": len(known), "invalid": len(invalid), "not_checked": len(calls) - len(known)},
    )


def _hallucinated(conversation: Conversation) -> MetricScore:
    result = hallucinated(conversation)
    if result is None:
        return none_of(HALLUCINATED, "tool_definitions_not_recorded", NO_DEFINITIONS)
    strange, checked = result
    if not checked:
        return none_of(HALLUCINATED, "no_data", "no tool was called")
    names = Counter(call.name for _, call in strange)
    explanation = f"no such tool: {listed(names)}" if names else "every call is of a tool that the agent was given"
    return MetricScore(
        name=HALLUCINATED,
        value=len(strange) / checked,
        explanation=explanation,
        tool_name=next(iter(names), None),
        details={
            "calls": checked,
            "hallucinated": [
                {"tool": call.name, "turn_index": turn.index, "position": call.position} for turn, call in strange
            ],
        },
    )
