"""ADK eval sets: conversations with the expected calls and response of each invocation.

Reads all three forms (an eval set; a list of named conversations; a bare list of turns, which is one case) and writes
the current one. ADK compares calls in their exact order.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import Field, model_validator
from pydantic.alias_generators import to_camel

from otel_agentic.truth.formats.base import Format, Reading, stem
from otel_agentic.truth.formats.foreign import (
    Arguments,
    Id,
    Listed,
    Record,
    Silent,
    first_of,
    literal_arguments,
    required_calls,
    tools_of_turn,
)
from otel_agentic.truth.formats.located import Item, Path
from otel_agentic.truth.model import Name  # noqa: TC001 — pydantic reads it at run time

if TYPE_CHECKING:
    from otel_agentic.truth.model import Case, CaseTurn, ToolExpectation


class _Adk(Record):
    """A record whose fields may be written in camel case."""

    @model_validator(mode="before")
    @classmethod
    def _snake_case(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        names = {to_camel(name): name for name in cls.model_fields}
        return {names.get(key, key): field_value for key, field_value in value.items()}


class ToolUse(_Adk):
    """An expected call."""

    name: Name
    args: Arguments = Field(default_factory=dict)
    ignored: ClassVar[frozenset[str]] = frozenset({"id"})


class Part(_Adk, Silent):
    """A part of a message: text, or a call."""

    text: str | None = None
    function_call: ToolUse | None = None


class Content(_Adk, Silent):
    """A message."""

    parts: Annotated[list[Part], Listed] = Field(default_factory=list)

    @property
    def text(self) -> str | None:
        """The text of all parts, or None if no part has text."""
        texts = [part.text for part in self.parts if part.text is not None]
        return "\n".join(filter(None, texts)) if texts else None


class Event(_Adk, Silent):
    """A step of the agent."""

    content: Content | None = None


class Intermediate(_Adk):
    """The expected actions before the answer: calls in order, or the events that contain them."""

    tool_uses: list[ToolUse] | None = None
    invocation_events: list[Event] | None = None
    ignored: ClassVar[frozenset[str]] = frozenset({"tool_responses"})

    @property
    def calls(self) -> list[ToolUse] | None:
        """The calls, or None if they are not specified."""
        if self.tool_uses is not None or self.invocation_events is None:
            return self.tool_uses
        contents = [event.content for event in self.invocation_events if event.content is not None]
        return [part.function_call for content in contents for part in content.parts if part.function_call is not None]


class Invocation(_Adk):
    """A turn."""

    user_content: Content
    final_response: Content | None = None
    intermediate_data: Intermediate | None = None
    ignored: ClassVar[frozenset[str]] = frozenset({"invocation_id", "creation_timestamp", "creationTimestamp"})


class Scenario(_Adk):
    """A conversation with a simulated user."""

    starting_prompt: str
    conversation_plan: str


class SessionInput(_Adk):
    """The initial session of the agent."""

    state: dict[str, Any] | None = None
    ignored: ClassVar[frozenset[str]] = frozenset(
        {"app_name", "appName", "user_id", "userId", "session_id", "sessionId"}
    )
    no_place: ClassVar[frozenset[str]] = frozenset({"state"})


class EvalCase(_Adk):
    """A case of the current form; `dataset` is an extension of this project."""

    eval_id: Id
    conversation: list[Invocation] | None = None
    conversation_scenario: Scenario | None = None
    session_input: SessionInput | None = None
    final_session_state: dict[str, Any] | None = None
    dataset: Name | None = None
    ignored: ClassVar[frozenset[str]] = frozenset({"creation_timestamp", "creationTimestamp"})

    @model_validator(mode="after")
    def _one_of_both(self) -> EvalCase:
        if (self.conversation is None) == (self.conversation_scenario is None):
            raise ValueError("an eval case has either `conversation` or `conversation_scenario`")
        return self


class OldToolUse(_Adk):
    """A call of the older forms."""

    tool_name: Name
    tool_input: Arguments = Field(default_factory=dict)


class OldTurn(_Adk):
    """A turn of the older forms."""

    query: str
    expected_tool_use: list[OldToolUse] | None = None
    reference: str | None = None


class OldCase(_Adk):
    """A case of an older form: a name, and its turns as `data`."""

    name: Id
    data: Annotated[list[OldTurn], Field()]
    initial_session: SessionInput | None = None


_CALLS = ("expected_tool_use", "expectedToolUse")


class Adk(Format):
    """ADK eval sets."""

    name = "adk"

    def fits(self, record: Mapping[str, Any]) -> bool:
        """Return whether a record is an eval case, an older one, or a bare turn."""
        return (
            "eval_id" in record
            or "evalId" in record
            or ("name" in record and isinstance(record.get("data"), list))
            or _is_bare_turn(record)
        )

    def items(self, items: Sequence[Item], name: str) -> Sequence[Item]:
        """Return the records; bare turns are one case, named after the file."""
        if not items or not all(isinstance(item.value, dict) and _is_bare_turn(item.value) for item in items):
            return items

        def line_of(path: Path) -> int:
            match path:
                case ("data", int(number), *rest) if number < len(items):
                    return items[number].line_of(tuple(rest))
            return items[0].line_of(())

        value = {"name": stem(name) or "case", "data": [item.value for item in items]}
        return [Item(value=value, line_of=line_of, header=items[0].header)]

    def dataset_of(self, item: Item) -> str | None:
        """Return the id of the eval set."""
        dataset = first_of(dict(item.header), "eval_set_id", "evalSetId", "dataset")
        return dataset if isinstance(dataset, str) and dataset else None

    def reading(self, item: Item, number: int) -> Reading:  # noqa: ARG002 — the signature of a format
        """Return an eval case of any form."""
        if "data" in item.value:
            old = OldCase.of(item.value)
            return Reading(
                fields={"case_id": old.name, "turns": [_old_turn(turn) for turn in old.data]},
                left_out=tuple(old.left_out()),
            )
        eval_case = EvalCase.of(item.value)
        fields: dict[str, Any] = {"case_id": eval_case.eval_id}
        if eval_case.conversation_scenario is not None:
            fields["turns"] = [{"query": eval_case.conversation_scenario.starting_prompt}]
            fields["goal"] = eval_case.conversation_scenario.conversation_plan
        else:
            fields["turns"] = [_turn(invocation) for invocation in eval_case.conversation or ()]
        if eval_case.final_session_state:
            fields["expected_state"] = eval_case.final_session_state
        if eval_case.dataset:
            fields["dataset"] = eval_case.dataset
        return Reading(fields=fields, left_out=tuple(eval_case.left_out()))

    def document(self, cases: Sequence[Case]) -> str:
        """Return the cases as one eval set, named after their dataset; with several datasets each case names its own."""
        datasets = sorted({case.dataset for case in cases})
        name = datasets[0] if len(datasets) == 1 else "cases"
        eval_set = {"eval_set_id": name, "name": name, "eval_cases": [_eval_case(case, name) for case in cases]}
        return json.dumps(eval_set, indent=2, ensure_ascii=False) + "\n"


def _is_bare_turn(record: Mapping[str, Any]) -> bool:
    return "query" in record and any(name in record for name in _CALLS)


def _turn(invocation: Invocation) -> dict[str, Any]:
    response = invocation.final_response.text if invocation.final_response is not None else None
    calls = invocation.intermediate_data.calls if invocation.intermediate_data is not None else None
    expected = None if calls is None else [(call.name, call.args) for call in calls]
    return _turn_of(invocation.user_content.text, response, expected)


def _old_turn(turn: OldTurn) -> dict[str, Any]:
    calls = turn.expected_tool_use
    expected = None if calls is None else [(call.tool_name, call.tool_input) for call in calls]
    return _turn_of(turn.query, turn.reference, expected)


def _turn_of(
    query: str | None, answer: str | None, calls: Iterable[tuple[str, Mapping[str, Any]]] | None
) -> dict[str, Any]:
    turn: dict[str, Any] = {} if query is None else {"query": query}
    if answer:
        turn["answer"] = answer
    if calls is not None:
        expected_calls = [{"tool_name": name, "parameters": arguments} for name, arguments in calls]
        turn["tools"] = {"calls": expected_calls, **({"order": "exact"} if expected_calls else {})}
    return turn


def _eval_case(case: Case, eval_set: str) -> dict[str, Any]:
    record: dict[str, Any] = {"eval_id": case.case_id}
    if case.dataset != eval_set:
        record["dataset"] = case.dataset
    if case.goal is not None and _only_a_query(case):
        record["conversation_scenario"] = {"starting_prompt": case.turns[0].query, "conversation_plan": case.goal}
    else:
        record["conversation"] = [
            _invocation(turn, tools_of_turn(case, turn), f"{case.case_id}-{number}")
            for number, turn in enumerate(case.turns, start=1)
        ]
    if case.expected_state:
        record["final_session_state"] = case.expected_state
    return record


def _only_a_query(case: Case) -> bool:
    return (
        case.tools is None
        and len(case.turns) == 1
        and case.turns[0].model_dump(exclude_defaults=True).keys() == {"query"}
    )


def _invocation(turn: CaseTurn, tools: ToolExpectation | None, name: str) -> dict[str, Any]:
    parts = [] if turn.query is None else [{"text": turn.query}]
    record: dict[str, Any] = {"invocation_id": name, "user_content": {"role": "user", "parts": parts}}
    if turn.first_answer is not None:
        record["final_response"] = {"role": "model", "parts": [{"text": turn.first_answer}]}
    if tools is not None:
        calls = [{"name": call.tool_name, "args": literal_arguments(call)} for call in required_calls(tools)]
        record["intermediate_data"] = {"tool_uses": calls}
    return record
