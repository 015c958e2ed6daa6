"""Do calls fit the tools that the agent was given: arguments against the JSON schemas, names against the definitions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.dialects.values import has_named_arguments, text_of
from otel_agentic.evaluators.base import Metric, MetricScore, WithoutSettings
from otel_agentic.evaluators.catalog import metrics_of
from otel_agentic.evaluators.layers.abstaining import none_of
from otel_agentic.evaluators.layers.wording import listed
from otel_agentic.evaluators.needs import NO_DEFINITIONS
from otel_agentic.truth.json_schema import SchemaFault, SchemaUnusableError, schema_faults

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from otel_agentic.conversations.model import Conversation, ToolCall, Turn
    from otel_agentic.evaluators.base import Need, Subject
    from otel_agentic.scoring.model import NotEvaluatedReason

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


class Validity(WithoutSettings):
    """The three metrics of calls against tool definitions."""

    name: str = "layers.validity"
    version: str = "3"
    metrics: tuple[Metric, ...] = metrics_of("layers.validity")
    needs: frozenset[Need] = frozenset({"turns", "calls", "definitions"})
    default: bool = True

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
    seen = [
        (turn, call)
        for turn, call in tool_calls(conversation)
        if call.parent_span_id is None or call.name in definitions or _is_refused(call)
    ]
    return [(turn, call) for turn, call in seen if call.name not in definitions and call.name not in worked], len(seen)


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
        for call in sorted(turn.calls, key=lambda call: (call.step, call.position)):
            if call.kind == "tool":
                yield turn, call


def _call_score(turn: Turn, call: ToolCall, schema: Any, given_up: dict[str, str]) -> MetricScore:
    place: dict[str, Any] = {"turn_index": turn.index, "position": call.position, "tool_name": call.name}

    def none(reason: NotEvaluatedReason, told: str) -> MetricScore:
        return MetricScore(
            name=CALL, reason=reason, explanation=f"{call.name} in turn {turn.index + 1}: {told}", **place
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
    return _judged(turn, call, faults, place)


def _takes(schema: Any, parameter: str) -> bool:
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    return isinstance(properties, Mapping) and parameter in properties


def _judged(turn: Turn, call: ToolCall, faults: Sequence[SchemaFault], place: Mapping[str, Any]) -> MetricScore:
    told = [
        f"parameter {fault.path} {fault.message}" if fault.path else f"the object {fault.message}" for fault in faults
    ]
    where = f"{call.name} in turn {turn.index + 1}, step {call.step}"
    return MetricScore(
        name=CALL,
        value=float(not faults),
        label="invalid" if faults else "valid",
        explanation=f"{where}: {'; '.join(told[:3]) or 'valid'}" + (f"; {len(told) - 3} more" if len(told) > 3 else ""),  # noqa: PLR2004 — three of each
        parameter=faults[0].path or None if faults else None,
        details={
            "faults": [{"path": fault.path, "keyword": fault.keyword, "message": fault.message} for fault in faults]
        }
        if faults
        else {},
        **place,
    )


def _share(calls: Sequence[MetricScore]) -> MetricScore:
    known = [one for one in calls if one.value is not None]
    if not known:
        if calls:
            return none_of(VALIDITY, calls[0].reason or "no_data", f"no call could be checked: {calls[0].explanation}")
        return none_of(VALIDITY, "no_data", "no call of a tool that was defined")
    wrong = [one for one in known if one.label == "invalid"]
    left = f"; {len(calls) - len(known)} could not be checked" if len(known) < len(calls) else ""
    return MetricScore(
        name=VALIDITY,
        value=(len(known) - len(wrong)) / len(known),
        explanation=f"{len(known) - len(wrong)} of {len(known)} calls are valid{left}"
        + "".join(f"; {one.explanation}" for one in wrong[:3]),
        details={"calls": len(known), "invalid": len(wrong), "not_checked": len(calls) - len(known)},
    )


def _hallucinated(conversation: Conversation) -> MetricScore:
    found = hallucinated(conversation)
    if found is None:
        return none_of(HALLUCINATED, "tool_definitions_not_recorded", NO_DEFINITIONS)
    strange, seen = found
    if not seen:
        return none_of(HALLUCINATED, "no_data", "no tool was called")
    names: dict[str, int] = {}
    for _, call in strange:
        names[call.name] = names.get(call.name, 0) + 1
    told = f"no such tool: {listed(names)}" if names else "every call is of a tool that the agent was given"
    return MetricScore(
        name=HALLUCINATED,
        value=len(strange) / seen,
        explanation=told,
        tool_name=next(iter(names), None),
        details={
            "calls": seen,
            "hallucinated": [
                {"tool": call.name, "turn_index": turn.index, "position": call.position} for turn, call in strange
            ],
        },
    )
