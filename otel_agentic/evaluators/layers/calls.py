"""The action layer: selection and order of tools, correct parameters, and validity by the recorded definitions."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.dialects.values import has_named_arguments, text_of
from otel_agentic.evaluators.base import (
    NO_DEFINITIONS,
    BuiltInEvaluator,
    MetricScore,
    Missing,
    Overlap,
    Subject,
    calls_in_order,
    first_missing,
    listed,
    none_of,
    none_of_all,
    without_case,
)
from otel_agentic.scoring.align import sorted_calls
from otel_agentic.scoring.compile import compiled
from otel_agentic.scoring.dimensions import score_calls
from otel_agentic.scoring.outcome import unproven_absence
from otel_agentic.scoring.scope import ActualCall, NotEvaluatedReason, Scope, ToolRules, by_identity, scope_of
from otel_agentic.truth.values import SchemaFault, SchemaUnusableError, schema_faults

if TYPE_CHECKING:
    from otel_agentic.conversations.model import Conversation, ToolCall, Turn
    from otel_agentic.scoring.align import PairedCall, SortedCalls
    from otel_agentic.truth.model import Case, Effect, ToolExpectation

#: Number of conversations whose sorted calls are cached: the metrics of each are computed one after the other.
_CACHED: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class SortedScope:
    """The calls of one turn (`turn_index`, None for one that never came), or of the whole conversation (`is_whole`).

    `calls` are sorted under the expectation, or its alternative that fits best. `beyond` are the actual calls that
    neither it nor another expectation of the case requires or allows, and those that it forbids.
    """

    is_whole: bool
    turn_index: int | None
    calls: SortedCalls
    beyond: tuple[ActualCall, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedCalls:
    """All scopes of a conversation: its turns in the order of the case, then the whole conversation.

    `required` calls are required. `paired` are those that occurred, each with its actual call, and `missing` the name and
    parameters of the others. `beyond` are the actual calls that are forbidden, or neither required nor allowed, each once,
    in order.
    """

    scopes: tuple[SortedScope, ...]
    effects: tuple[Mapping[str, Effect], ...]
    required: int
    paired: tuple[tuple[PairedCall, ActualCall], ...]
    missing: tuple[tuple[str, Mapping[str, object]], ...]
    beyond: tuple[ActualCall, ...]

    @classmethod
    def of(cls, scopes: Sequence[SortedScope], effects: tuple[Mapping[str, Effect], ...]) -> ExpectedCalls:
        """Return the calls of some scopes."""
        beyond = {actual.location: actual for scope in scopes for actual in scope.beyond}
        return cls(
            scopes=tuple(scopes),
            effects=effects,
            required=sum([scope.calls.expectation.required for scope in scopes]),
            paired=tuple(
                [(pair, scope.calls.actual[pair.actual_index]) for scope in scopes for pair in scope.calls.pairs]
            ),
            missing=tuple([call for scope in scopes for call in _missing(scope.calls)]),
            beyond=tuple([beyond[location] for location in sorted(beyond)]),
        )


def _missing(calls: SortedCalls) -> list[tuple[str, Mapping[str, object]]]:
    """Return name and parameters of each required call that did not occur, in the order of the case."""
    if len(calls.pairs) == calls.expectation.required:
        return []
    paired_indices = {pair.expected.index for pair in calls.pairs}
    return [
        (call.name, call.call.parameters)
        for call in calls.expectation.calls
        if call.required and call.index not in paired_indices
    ]


@by_identity(_CACHED)
def expected_calls(subject: Subject) -> ExpectedCalls | Missing:
    """Return the calls of a conversation sorted by expectation, or the reason and explanation why that is impossible.

    Actual calls are calls of kind `tool` that returned without an error; transfers and agents used as tools count only
    if an expectation names them. Expected calls of a turn are searched in that turn, those of the conversation in all
    turns. A turn of the case that never came has no actual calls.
    """
    missing = first_missing(subject, ("expected_tools",))
    case = subject.case
    if missing is not None or case is None:
        return missing or without_case(subject)
    absent = turns_absent(subject)
    if absent is not None:
        return absent
    scopes = scopes_of(subject)
    if any(_may_lack_calls(scope, is_whole=is_whole) for _, scope, is_whole in scopes):
        return "content_not_captured", "no content was recorded, so that calls may be missing from the record"
    rules = ToolRules.of(case, subject.settings)
    sorted_scopes = [(*expected, _sorted(expected[0], expected[1], rules)) for expected in scopes]
    used_locations = [_used_locations(calls) for *_, calls in sorted_scopes]
    return ExpectedCalls.of(
        [
            _scope(is_whole, scope, _without(_used_elsewhere(used_locations, number), calls, expectation, scope, rules))
            for number, (expectation, scope, is_whole, calls) in enumerate(sorted_scopes)
        ],
        rules.effects,
    )


def _scope(is_whole: bool, scope: Scope, calls: SortedCalls) -> SortedScope:  # noqa: FBT001 — passed on
    return SortedScope(is_whole=is_whole, turn_index=scope.turn_index, calls=calls, beyond=tuple(_beyond(calls)))


@by_identity(_CACHED)
def turns_absent(subject: Subject) -> Missing | None:
    """Return the reason why missing turns of the case may still exist, or None if they certainly do not."""
    case = subject.case
    if case is None or len(case.turns) == len(subject.aligned):
        return None
    absent = sorted(set(range(len(case.turns))) - set(subject.aligned.values()))
    unproven = unproven_absence(subject.conversation, subject.settings) if absent else None
    if unproven is None:
        return None
    return unproven[0], f"expected turn {', '.join(str(index + 1) for index in absent)} is missing; {unproven[1]}"


@by_identity(_CACHED)
def scopes_of(subject: Subject) -> Sequence[tuple[ToolExpectation, Scope, bool]]:
    """Return each expectation of the case with its scope, and whether that is the whole conversation.

    The scope of a turn that never came is empty, and has no turn index.
    """
    return [] if subject.case is None else list(_scopes(subject, subject.case))


def _scopes(subject: Subject, case: Case) -> Iterator[tuple[ToolExpectation, Scope, bool]]:
    turns = subject.conversation.turns
    present = {subject.aligned[turn.index]: turn for turn in turns if turn.index in subject.aligned}
    for index, expected in enumerate(case.turns):
        if expected.tools is not None:
            turn = present.get(index)
            scope_turns = () if turn is None else (turn,)
            yield expected.tools, scope_of(scope_turns, turn_index=None if turn is None else turn.index), False
    if case.tools is not None:
        yield case.tools, scope_of(turns, turn_index=None), True


def _may_lack_calls(scope: Scope, *, is_whole: bool) -> bool:
    """Return whether unrecorded calls are possible; a turn that never came has none."""
    return not (scope.captured or scope.calls) and (is_whole or scope.turn_index is not None)


def _sorted(expectation: ToolExpectation, scope: Scope, rules: ToolRules) -> SortedCalls:
    compiled_expectation = compiled(expectation, rules)
    if not compiled_expectation.alternatives:
        return sorted_calls(compiled_expectation, scope.calls)
    calls = score_calls(compiled_expectation, scope.calls, turn_index=scope.turn_index).calls
    assert calls is not None  # noqa: S101 — for the type checker: a score computed from calls contains them
    return calls


def _without(
    elsewhere: frozenset[tuple[int, int, int]],
    calls: SortedCalls,
    expectation: ToolExpectation,
    scope: Scope,
    rules: ToolRules,
) -> SortedCalls:
    """Return the calls, sorted again without the extra calls that other expectations require.

    They must be sorted again, because the extra calls may have determined which alternative fits best.
    """
    if not (elsewhere and calls.extra):
        return calls
    locations = {calls.actual[index].location for index, _ in calls.extra if index not in calls.forbidden} & elsewhere
    if not locations:
        return calls
    retained = tuple(actual for actual in scope.calls if actual.location not in locations)
    return _sorted(expectation, replace(scope, calls=retained), rules)


def _used_locations(calls: SortedCalls) -> frozenset[tuple[int, int, int]]:
    return frozenset(calls.actual[pair.actual_index].location for pair in (*calls.pairs, *calls.excused))


def _used_elsewhere(
    used_locations: Sequence[frozenset[tuple[int, int, int]]], number: int
) -> frozenset[tuple[int, int, int]]:
    """Return the locations of calls that expectations other than the numbered one require or allow."""
    return frozenset().union(*(locations for other, locations in enumerate(used_locations) if other != number))


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
    """Routing accuracy, precision, recall and F1 of tool names."""

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


def _routing_text(expected: ExpectedCalls) -> str:
    """Return a sentence on missing and unexpected calls."""
    missing = Counter(name for name, _ in expected.missing)
    beyond = Counter(actual.call.name for actual in expected.beyond)
    parts = [
        f"{len(expected.paired)} of {expected.required} required calls occurred"
        if expected.required
        else "no call is required",
        f"not called: {listed(missing)}" if missing else "",
        f"not asked for: {listed(beyond)}" if beyond else "",
    ]
    return "; ".join(filter(None, parts))


SEMANTICS: Final = "agentic.layers.parameter_semantics"


class Parameters(BuiltInEvaluator):
    """The agreement of parameters with the expected ones."""

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
    unrecorded = next((actual for _, actual in expected.paired if actual.call.arguments is None), None)
    if unrecorded is not None:
        explanation = f"the arguments of {unrecorded.call.name} in turn {unrecorded.turn_index + 1} were not recorded"
        return none_of(name, "content_not_captured", explanation)
    return expected


def wrong_parameters(result: ExpectedCalls) -> Iterator[tuple[PairedCall, ActualCall, str]]:
    """Yield each parameter that is not as expected, with its call."""
    for pair, actual in result.paired:
        for key in pair.agreement.differing:
            yield pair, actual, key


def compared(pair: PairedCall, actual: ActualCall) -> int:
    """Return how many parameters of a call are compared: the expected ones and, if strict, additional actual ones."""
    parameters, arguments = pair.expected.parameters, actual.call.arguments or {}
    beyond = [key for key in arguments if key not in parameters.modes] if parameters.strict else []
    return len(parameters.compared) + len(beyond)


def wrong_as_json(pair: PairedCall, actual: ActualCall, key: str) -> Mapping[str, object]:
    """Return one wrong parameter: tool, turn, name, and the expected and the actual value if present."""
    expected, arguments = pair.expected.parameters.values, actual.call.arguments or {}
    payload: dict[str, object] = {"tool": actual.call.name, "turn_index": actual.turn_index, "parameter": key}
    payload |= {"expected": expected[key]} if key in expected else {}
    return payload | ({"made": arguments[key]} if key in arguments else {})


def _score(subject: Subject, result: ExpectedCalls) -> MetricScore:
    value: float | None = sum(pair.agreement.score for pair, _ in result.paired) / result.required
    undecided = next((actual for pair, actual in result.paired if pair.expected.parameters.undecided(actual)), None)
    if undecided is not None:
        value = _as_judged(subject, result.required)
    if value is None and undecided is not None:
        explanation = (
            f"a parameter of {undecided.call.name} is for a judge to compare (`match`), and the score asked none"
        )
        return none_of(SEMANTICS, "no_data", explanation)
    differing = list(wrong_parameters(result))
    parameter_names = [f"{actual.call.name}({key})" for _, actual, key in differing]
    missing = len(result.missing)
    parts = [
        f"other arguments: {listed(parameter_names)}" if parameter_names else "",
        f"{missing} of {result.required} required calls not made" if missing else "",
    ]
    return MetricScore(
        name=SEMANTICS,
        value=value,
        explanation="; ".join(filter(None, parts)) or "every required call was made with the expected arguments",
        tool_name=differing[0][1].call.name if differing else None,
        parameter=differing[0][2] if differing else None,
        details={"required": result.required, "wrong": [wrong_as_json(*item) for item in differing[:20]]},
    )


def _as_judged(subject: Subject, required: int) -> float | None:
    """Return the mean agreement of the tool scores, which include the judge's verdicts, or None if one is missing."""
    tools = [tool for tool in (subject.score.tools if subject.score is not None else ()) if tool.required]
    agreements = [tool.dimensions.get("parameters") for tool in tools]
    if not tools or None in agreements:
        return None
    return sum((share or 0.0) * item.required for share, item in zip(agreements, tools, strict=True)) / required


VALIDITY: Final = "agentic.layers.parameter_validity"
CALL: Final = "agentic.layers.call_validity"
HALLUCINATED: Final = "agentic.layers.hallucinated_tools"

#: Replies of frameworks to an unknown tool name; number of characters of a reply that are searched.
_NO_TOOL: Final = re.compile(
    r"\b(?:no such|unknown|invalid|unrecognized|undefined|unsupported) (?:tool|function)\b(?! (?:arg|param|input|call|result))"
    r"|\bunavailable tool\b|\b(?:tool|function)\b.{0,300}?\b(?:not found|not (?:a )?(?:valid|known) tool|does not exist|doesn't exist|not exist"
    r"|not defined|not registered)\b|\bis not a valid tool\b",
    re.IGNORECASE | re.DOTALL,
)
_ERROR_CHARACTERS: Final = 1_000


class Validity(BuiltInEvaluator):
    """Validity of calls by the tool definitions, and hallucinated tools."""

    name = "layers.validity"
    version = "3"
    needs = frozenset({"turns", "calls", "definitions"})

    def evaluate(self, subject: Subject) -> Iterable[MetricScore]:
        """Return the share of valid calls, the validity of each call, and the share of hallucinated calls."""
        calls = call_scores(subject.conversation)
        return [_share(calls), *calls, _hallucinated(subject.conversation)]


def call_scores(conversation: Conversation) -> list[MetricScore]:
    """Return the validity of each call of a defined tool, in order."""
    definitions = conversation.tool_definitions or {}
    unusable_schemas: dict[str, str] = {}
    return [
        _call_score(turn, call, definitions[call.name], unusable_schemas)
        for turn, call in tool_calls(conversation)
        if call.name in definitions
    ]


def hallucinated(conversation: Conversation) -> tuple[list[tuple[Turn, ToolCall]], int] | None:
    """Return the calls of tools that the agent lacks, and the number of checked calls; None without definitions.

    A tool that answered exists: definitions may be recorded in part, and code interpreters need no definitions.
    """
    definitions = conversation.tool_definitions
    if definitions is None:
        return None
    worked = {call.name for _, call in tool_calls(conversation) if _is_answered(call)}
    checked = [
        (turn, call)
        for turn, call in tool_calls(conversation)
        if call.parent_span_id is None or call.name in definitions or _is_refused(call)
    ]
    return [(turn, call) for turn, call in checked if call.name not in definitions and call.name not in worked], len(
        checked
    )


def _is_answered(call: ToolCall) -> bool:
    """Return whether a tool answered a call, without an error and without a message that there is no such tool."""
    answer = text_of(call.result)
    if call.error is not None or (call.span_id is None and answer is None):
        return False
    return answer is None or _NO_TOOL.search(answer[:_ERROR_CHARACTERS]) is None


def _is_refused(call: ToolCall) -> bool:
    """Return whether a call failed with a message that there is no such tool."""
    return call.error is not None and _NO_TOOL.search(call.error[:_ERROR_CHARACTERS]) is not None


def tool_calls(conversation: Conversation) -> Iterator[tuple[Turn, ToolCall]]:
    """Yield the calls of kind `tool` with their turns, in order."""
    for turn in conversation.turns:
        for call in calls_in_order(turn):
            if call.kind == "tool":
                yield turn, call


def _call_score(turn: Turn, call: ToolCall, schema: Any, unusable_schemas: dict[str, str]) -> MetricScore:
    location: dict[str, Any] = {"turn_index": turn.index, "position": call.position, "tool_name": call.name}

    def abstention(reason: NotEvaluatedReason, explanation: str) -> MetricScore:
        return MetricScore(
            name=CALL, reason=reason, explanation=f"{call.name} in turn {turn.index + 1}: {explanation}", **location
        )

    if schema is None:
        return abstention("tool_definitions_not_recorded", "the schema of its parameters was not recorded")
    if call.arguments is None:
        return abstention("content_not_captured", "its arguments were not recorded")
    if not (has_named_arguments(call.arguments) or _has_property(schema, *call.arguments)):
        return abstention("content_not_captured", "its one argument was recorded without a name")
    if call.name in unusable_schemas:
        return abstention("no_data", unusable_schemas[call.name])
    try:
        faults = schema_faults(call.arguments, schema)
    except SchemaUnusableError as error:
        if not error.of_call:
            unusable_schemas[call.name] = f"{error}"
        return abstention("no_data", f"{error}")
    return _validity_score(turn, call, faults, location)


def _has_property(schema: Any, parameter: str) -> bool:
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
    checked = [call for call in calls if call.value is not None]
    if not checked:
        if calls:
            return none_of(VALIDITY, calls[0].reason or "no_data", f"no call could be checked: {calls[0].explanation}")
        return none_of(VALIDITY, "no_data", "no call of a tool that was defined")
    invalid = [call for call in checked if call.label == "invalid"]
    unchecked_text = f"; {len(calls) - len(checked)} could not be checked" if len(checked) < len(calls) else ""
    return MetricScore(
        name=VALIDITY,
        value=(len(checked) - len(invalid)) / len(checked),
        explanation=f"{len(checked) - len(invalid)} of {len(checked)} calls are valid{unchecked_text}"
        + "".join(f"; {call.explanation}" for call in invalid[:3]),
        details={"calls": len(checked), "invalid": len(invalid), "not_checked": len(calls) - len(checked)},
    )


def _hallucinated(conversation: Conversation) -> MetricScore:
    result = hallucinated(conversation)
    if result is None:
        return none_of(HALLUCINATED, "tool_definitions_not_recorded", NO_DEFINITIONS)
    hallucinated_calls, checked = result
    if not checked:
        return none_of(HALLUCINATED, "no_data", "no tool was called")
    names = Counter(call.name for _, call in hallucinated_calls)
    explanation = f"no such tool: {listed(names)}" if names else "every call is of a tool that the agent was given"
    return MetricScore(
        name=HALLUCINATED,
        value=len(hallucinated_calls) / checked,
        explanation=explanation,
        tool_name=next(iter(names), None),
        details={
            "calls": checked,
            "hallucinated": [
                {"tool": call.name, "turn_index": turn.index, "position": call.position}
                for turn, call in hallucinated_calls
            ],
        },
    )
