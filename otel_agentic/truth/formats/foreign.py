"""Shared by the formats of other tools: checked fields, expected calls with literal arguments, recorded conversations, chat messages."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from otel_agentic.config import ConversationSettings
from otel_agentic.config.patterns import OwnPattern, own_pattern
from otel_agentic.conversations.calls import error_in
from otel_agentic.conversations.model import Conversation, ConversationId, ToolCall, Turn
from otel_agentic.truth.formats.located import faults, parse_value
from otel_agentic.truth.model import Case, CaseTurn, ExpectedCall, Name, ToolExpectation

#: Values that count as absent: omitting them loses nothing.
NOTHING: tuple[Any, ...] = (None, "", [], {})


class Record(BaseModel):
    """A record of a foreign file. Undeclared fields are kept, and reported as skipped.

    `no_place` names declared fields that cases do not have, `ignored` fields that need not be reported.
    """

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)
    no_place: ClassVar[frozenset[str]] = frozenset()
    ignored: ClassVar[frozenset[str]] = frozenset()

    @classmethod
    def of(cls, value: Any) -> Self:
        """Return a record.

        Raises:
            ValidationError: it violates the format.
        """
        return cls.model_validate_json(json.dumps(value))

    def left_out(self, path: str = "") -> Iterator[str]:
        """Yield the fields with a value that cases do not have; indices of lists are omitted."""
        for name in (*(self.model_extra or {}), *type(self).model_fields):
            value = getattr(self, name)
            if name in self.no_place or name in (self.model_extra or {}):
                if value not in NOTHING and name not in self.ignored:
                    yield f"{path}{name}"
                continue
            for part in value if isinstance(value, list) else [value]:
                if isinstance(part, Record):
                    yield from part.left_out(f"{path}{name}.")


class Silent(Record):
    """A record of the agent's actions: no part of it belongs in a case."""

    def left_out(self, path: str = "") -> Iterator[str]:  # noqa: ARG002 — the signature of a record
        """Yield nothing."""
        return iter(())


def _parsed_object(value: Any) -> Any:
    """Return the object in a JSON text, {} for blank text; any other value unchanged."""
    if isinstance(value, str) and value.strip():
        try:
            parsed = parse_value(value)
        except ValueError:
            return value
        return value if any(faults(parsed)) else parsed
    return {} if value is None or isinstance(value, str) else value


def _list_or_empty(value: Any) -> Any:
    return [] if value is None else value


def _id_text(value: Any) -> Any:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _number_as_text(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


#: Arguments of a call: an object, also as JSON text as in OpenAI's format; null and blank text mean no arguments.
Arguments = Annotated[dict[str, Any], BeforeValidator(_parsed_object)]
#: A list that may be null.
Listed = BeforeValidator(_list_or_empty)
#: An id: a text, or a whole number, which is converted.
Id = Annotated[Name, BeforeValidator(_id_text)]
#: A text, or a number, which is converted.
TextOrNumber = Annotated[str, BeforeValidator(_number_as_text)]


def first_of(record: dict[str, Any], *names: str) -> Any:
    """Return the first of several fields that is present and not null, or None."""
    return next((record[name] for name in names if record.get(name) is not None), None)


#: Modes whose expected value is itself a correct value; for the others (a pattern, a list of choices) it is not.
_LITERAL_MODES: Final = frozenset({"exact", "unordered", "casefold", "number", "judge"})


def required_calls(tools: ToolExpectation) -> Iterator[ExpectedCall]:
    """Yield the required calls: a format without optional calls would require the others as well."""
    return (call for call in tools.calls if call.required)


def calls_of_conversation(case: Case) -> list[ExpectedCall] | None:
    """Return the calls expected of the conversation, or else those of its turns in order; None without expectations."""
    if case.tools is not None:
        return list(case.tools.calls)
    expected = [turn.tools for turn in case.turns if turn.tools is not None]
    return [call for tools in expected for call in tools.calls] if expected else None


def tools_of_turn(case: Case, turn: CaseTurn) -> ToolExpectation | None:
    """Return the expectation of a turn, or that of the conversation if this is its only turn."""
    return case.tools if turn.tools is None and len(case.turns) == 1 else turn.tools


def literal_arguments(call: ExpectedCall) -> dict[str, Any]:
    """Return the parameters whose expected value may be passed as an argument."""
    return {key: value for key, value in call.parameters.items() if call.rules[key].mode in _LITERAL_MODES}


def recorded_call(
    name: str,
    arguments: Mapping[str, Any],
    *,
    step: int,
    position: int,
    call_id: str | None = None,
    used: bool | None = None,
    **result: Any,
) -> ToolCall:
    """Return a call recorded in a file.

    Pass `result` only if the file has one. `used` states whether the answer used it.

    A result that looks like an error is treated as one, as for spans.
    """
    return ToolCall(
        name=name,
        kind="tool",
        step=step,
        position=position,
        arguments=dict(arguments),
        result=result.get("result"),
        result_captured="result" in result,
        error=error_in(result["result"], _error_patterns()) if "result" in result else None,
        call_id=call_id,
        trace_id="",
        span_id=None,
        parent_span_id=None,
        agent_name=None,
        source="message",
        used_flag=used,
    )


@cache
def _error_patterns() -> list[OwnPattern]:
    return [own_pattern(pattern, ignore_case=True) for pattern in ConversationSettings().error_patterns]


def recorded_turn(index: int, query: str | None, answer: str | None, calls: Sequence[ToolCall]) -> Turn:
    """Return a turn recorded in a file; a missing query or answer is None."""
    return Turn(
        index=index,
        query=query,
        query_captured=True,
        answer=answer,
        answer_captured=True,
        error=None,
        calls=tuple(calls),
        trace_id="",
        span_id="",
        started_ns=0,
        ended_ns=0,
    )


def recorded_conversation(name: str, turns: Sequence[Turn], *, agent_name: str | None = None) -> Conversation:
    """Return a conversation recorded in a file: complete, without a service, and with 0 for its times."""
    return Conversation(
        environment="",
        conversation_id=ConversationId(name),
        revision=1,
        agent_name=agent_name,
        agent_version=None,
        service=None,
        started_ns=0,
        ended_ns=0,
        closed_by="end_of_input",
        link_method="explicit",
        case_id=None,
        verdict=None,
        turns=tuple(turns),
    )


#: Speakers by the `type` (LangChain) or `role` (OpenAI) of a message.
_SPEAKERS: Final = {
    **dict.fromkeys(("human", "user"), "user"),
    **dict.fromkeys(("ai", "assistant"), "agent"),
    **dict.fromkeys(("tool", "function"), "tool"),
    **dict.fromkeys(("system", "developer"), "system"),
}


class Call(Silent):
    """A call: `{"name", "args"}`, `{"name", "arguments"}` or `{"function": {"name", "arguments"}}`."""

    model_config = ConfigDict(extra="ignore")

    name: Name
    args: Arguments = Field(default_factory=dict)
    id: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _one_form(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        function = value["function"] if isinstance(value.get("function"), dict) else value
        return {
            **{key: value[key] for key in cls.model_fields if key in value},
            **{key: function[key] for key in ("name",) if key in function},
            "args": first_of(function, "args", "arguments", "parameters", "kwargs", "input"),
            "id": value.get("id"),
        }


class Message(Silent):
    """A message in the form of LangChain or OpenAI."""

    model_config = ConfigDict(extra="ignore")

    speaker: Literal["user", "agent", "tool", "system"]
    content: str
    tool_calls: Annotated[list[Call], Listed] = Field(default_factory=list)
    tool_call_id: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _one_form(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        words = [word for word in (value.get("type"), value.get("role")) if isinstance(word, str)]
        speaker = next((_SPEAKERS[word] for word in words if word in _SPEAKERS), None)
        if speaker is None:
            raise ValueError(
                f"found type or role {' and '.join(map(repr, words)) or 'nothing'}; allowed: {', '.join(_SPEAKERS)}"
            )
        content = value.get("content")
        inner = content.get("tool_calls") if isinstance(content, dict) else None
        return {
            "speaker": speaker,
            "content": _result_text(content) if speaker == "tool" else _content_text(content),
            "tool_calls": first_of({"own": value.get("tool_calls"), "inner": inner}, "own", "inner"),
            "tool_call_id": value.get("tool_call_id"),
        }


def _content_text(content: Any) -> Any:
    """Return the text of a message: a text, parts, or an object with text and calls."""
    if isinstance(content, list):
        parts = [part.get("text") if isinstance(part, dict) else part for part in content]
        return "\n".join(part for part in parts if isinstance(part, str))
    if isinstance(content, dict) and isinstance(content.get("text"), str):
        return content["text"]
    return "" if content is None else content


def _result_text(content: Any) -> Any:
    """Return the text of a tool's message: JSON if its content is another value."""
    text = _content_text(content)
    return text if isinstance(text, str) and (text or content in NOTHING) else json.dumps(content)


@dataclass(slots=True, kw_only=True)
class _Draft:
    """A turn while its messages are read.

    The last answer counts; the text of a message with calls (`aside`) counts only if there is no answer.
    """

    query: str | None
    answer: str | None = None
    aside: str | None = None
    calls: list[tuple[int, Call]] = field(default_factory=list)
    results: dict[int, Any] = field(default_factory=dict)
    step: int = 0

    def add_agent_message(self, message: Message) -> None:
        """Add a message of the agent."""
        if message.tool_calls:
            self.step += 1
            self.calls += [(self.step, call) for call in message.tool_calls]
            self.aside = message.content or self.aside
        elif message.content:
            self.answer = message.content

    def add_result(self, message: Message) -> None:
        """Add a result to the call that the message names, otherwise to the first call without a result."""
        pending = [index for index in range(len(self.calls)) if index not in self.results]
        matching = [
            index
            for index in pending
            if message.tool_call_id is not None and self.calls[index][1].id == message.tool_call_id
        ]
        for index in (matching or pending)[:1]:
            self.results[index] = _result(message.content)

    def turn(self, index: int) -> Turn:
        """Return the turn."""
        calls = [
            recorded_call(
                call.name,
                call.args,
                step=step,
                position=index,
                call_id=call.id,
                **({"result": self.results[index]} if index in self.results else {}),
            )
            for index, (step, call) in enumerate(self.calls)
        ]
        return recorded_turn(index, self.query, self.answer if self.answer is not None else self.aside, calls)


def turns_of(messages: Iterable[Message]) -> list[Turn]:
    """Return the turns of a conversation, each beginning with a user message; a greeting before the first is omitted."""
    drafts: list[_Draft] = []
    for message in messages:
        if message.speaker == "user" or (message.speaker == "agent" and message.tool_calls and not drafts):
            drafts.append(_Draft(query=(message.content or None) if message.speaker == "user" else None))
        if message.speaker == "agent" and drafts:
            drafts[-1].add_agent_message(message)
        elif message.speaker == "tool" and drafts:
            drafts[-1].add_result(message)
    return [draft.turn(index) for index, draft in enumerate(drafts)]


def _result(content: str) -> Any:
    """Return the result of a tool: the JSON value if the text is an object or a list, otherwise the text."""
    if not content.lstrip().startswith(("{", "[")):
        return content
    try:
        value = parse_value(content)
    except ValueError:
        return content
    return content if any(faults(value)) else value
