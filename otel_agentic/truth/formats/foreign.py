"""Shared by the formats of other tools: checked fields, expected calls with literal arguments, recorded conversations, chat messages."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from otel_agentic.config import ConversationSettings
from otel_agentic.config.patterns import OwnPattern, own_pattern
from otel_agentic.conversations.calls import error_in
from otel_agentic.conversations.model import Conversation, ConversationId, ToolCall, Turn
from otel_agentic.truth.formats.located import faults, whole
from otel_agentic.truth.model import Name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from otel_agentic.truth.model import Case, CaseTurn, ExpectedCall, ToolExpectation

#: What says nothing: leaving it out loses nothing.
NOTHING: tuple[Any, ...] = (None, "", [], {})


class Record(BaseModel):
    """A record of a foreign file. Fields that are not declared are kept, and told as left out.

    `no_place` names declared fields that a case has no place for, `ignored` fields that nobody misses.
    """

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)
    no_place: ClassVar[frozenset[str]] = frozenset()
    ignored: ClassVar[frozenset[str]] = frozenset()

    @classmethod
    def of(cls, value: Any) -> Self:
        """Return a record.

        Raises:
            ValidationError: it breaks the format.
        """
        return cls.model_validate_json(json.dumps(value))

    def left_out(self, path: str = "") -> Iterator[str]:
        """Yield the fields that say something and have no place in a case; places in lists are not told."""
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
    """A record of what an agent did: nothing of it belongs into a case."""

    def left_out(self, path: str = "") -> Iterator[str]:  # noqa: ARG002 — the signature of a record
        """Yield nothing."""
        return iter(())


def _object(value: Any) -> Any:
    """Return the object that a JSON text says, a blank one none; anything else as it is."""
    if isinstance(value, str) and value.strip():
        try:
            found = whole(value)
        except ValueError:
            return value
        return value if any(faults(found)) else found
    return {} if value is None or isinstance(value, str) else value


def _listed(value: Any) -> Any:
    return [] if value is None else value


def _named(value: Any) -> Any:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _text(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


#: Arguments of a call: an object, also as JSON text as OpenAI has it; null and a blank text mean none.
Arguments = Annotated[dict[str, Any], BeforeValidator(_object)]
#: A list that may be null.
Listed = BeforeValidator(_listed)
#: An id: a text, or a whole number, which becomes one.
Id = Annotated[Name, BeforeValidator(_named)]
#: What somebody says: a text, or a number, which becomes one.
Said = Annotated[str, BeforeValidator(_text)]


def first_of(record: dict[str, Any], *names: str) -> Any:
    """Return the first of several fields that is there and not null, None where none is."""
    return next((record[name] for name in names if record.get(name) is not None), None)


#: Modes whose expected value is itself a right value; of the others (a pattern, a list of choices) it is none.
_LITERAL_MODES: Final = frozenset({"exact", "unordered", "casefold", "number", "judge"})


def required_calls(tools: ToolExpectation) -> Iterator[ExpectedCall]:
    """Yield the calls that must be made: a format without optional calls would demand the others too."""
    return (call for call in tools.calls if call.required)


def calls_of_conversation(case: Case) -> list[ExpectedCall] | None:
    """Return the calls expected of the conversation, or else those of its turns one after the other; None for none."""
    if case.tools is not None:
        return list(case.tools.calls)
    expected = [turn.tools for turn in case.turns if turn.tools is not None]
    return [call for tools in expected for call in tools.calls] if expected else None


def tools_of_turn(case: Case, turn: CaseTurn) -> ToolExpectation | None:
    """Return what is expected of a turn, or else of the conversation where it is the only one."""
    return case.tools if turn.tools is None and len(case.turns) == 1 else turn.tools


def literal_arguments(call: ExpectedCall) -> dict[str, Any]:
    """Return the parameters whose expected value is one that an agent may pass."""
    return {key: value for key, value in call.parameters.items() if call.rules[key].mode in _LITERAL_MODES}


#: Why fields of an expectation are lost in formats that list calls with arguments.
_REASONS: Final = {
    "calls": "only required calls can be listed there",
    "calls.match": "arguments compare exactly there",
    "calls.parameters": "a pattern or a choice is no argument, so the parameter is left out",
    "calls.required": "whether a call is required follows from its name there",
    "calls.ignore_extra_parameters": "that further arguments do not matter cannot be said there",
    "calls.step": "calls have no steps there, only an order",
    "order": "the order that matters cannot be chosen there",
    "extra_calls": "what else may be called cannot be said there",
    "forbidden": "forbidden tools cannot be said there",
    "alternatives": "other ways to be right cannot be said there",
}


def call_reasons(prefix: str, **others: str) -> dict[str, str]:
    """Return why fields of the expectation at `prefix` are lost; `others` replace the usual reasons."""
    return {f"{prefix}.{name}": reason for name, reason in {**_REASONS, **others}.items()}


def made_call(
    name: str,
    arguments: Mapping[str, Any],
    *,
    step: int,
    position: int,
    call_id: str | None = None,
    used: bool | None = None,
    **result: Any,
) -> ToolCall:
    """Return a call of a file; give `result` only where the file holds one. `used` says whether the answer used it.

    A result that looks like an error is one, as in spans.
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


def made_turn(index: int, query: str | None, answer: str | None, calls: Sequence[ToolCall]) -> Turn:
    """Return a turn of a file; an answer or query of None was not given."""
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


def made_conversation(name: str, turns: Sequence[Turn], *, agent_name: str | None = None) -> Conversation:
    """Return a conversation of a file: complete, of no service, at no time (0)."""
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


#: Who speaks, by either form's word.
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
        held = value["function"] if isinstance(value.get("function"), dict) else value
        return {
            **{key: value[key] for key in cls.model_fields if key in value},
            **{key: held[key] for key in ("name",) if key in held},
            "args": first_of(held, "args", "arguments", "parameters", "kwargs", "input"),
            "id": value.get("id"),
        }


class Message(Silent):
    """A message of either form."""

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
        said = [word for word in (value.get("type"), value.get("role")) if isinstance(word, str)]
        speaker = next((_SPEAKERS[word] for word in said if word in _SPEAKERS), None)
        if speaker is None:
            raise ValueError(
                f"found type or role {' and '.join(map(repr, said)) or 'nothing'}; allowed: {', '.join(_SPEAKERS)}"
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
    """Return the text of a message: given as text, as parts, or beside its calls."""
    if isinstance(content, list):
        parts = [part.get("text") if isinstance(part, dict) else part for part in content]
        return "\n".join(part for part in parts if isinstance(part, str))
    if isinstance(content, dict) and isinstance(content.get("text"), str):
        return content["text"]
    return "" if content is None else content


def _result_text(content: Any) -> Any:
    """Return the text of a tool's message: JSON where its content is a value of another kind."""
    text = _content_text(content)
    return text if isinstance(text, str) and (text or content in NOTHING) else json.dumps(content)


@dataclass(slots=True, kw_only=True)
class _Draft:
    """A turn while its messages are read. Of several answers the last counts; text beside calls only where no other is."""

    query: str | None
    answer: str | None = None
    aside: str | None = None
    calls: list[tuple[int, Call]] = field(default_factory=list)
    results: dict[int, Any] = field(default_factory=dict)
    step: int = 0

    def say(self, message: Message) -> None:
        """Take a message of the agent."""
        if message.tool_calls:
            self.step += 1
            self.calls += [(self.step, call) for call in message.tool_calls]
            self.aside = message.content or self.aside
        elif message.content:
            self.answer = message.content

    def answered(self, message: Message) -> None:
        """Take the result of a call: of the one it names, else of the first that has none yet."""
        open_ = [place for place in range(len(self.calls)) if place not in self.results]
        named = [
            place
            for place in open_
            if message.tool_call_id is not None and self.calls[place][1].id == message.tool_call_id
        ]
        for place in (named or open_)[:1]:
            self.results[place] = _result(message.content)

    def turn(self, index: int) -> Turn:
        """Return the turn."""
        calls = [
            made_call(
                call.name,
                call.args,
                step=step,
                position=place,
                call_id=call.id,
                **({"result": self.results[place]} if place in self.results else {}),
            )
            for place, (step, call) in enumerate(self.calls)
        ]
        return made_turn(index, self.query, self.answer if self.answer is not None else self.aside, calls)


def turns_of(messages: Iterable[Message]) -> list[Turn]:
    """Return the turns of a conversation: each begins with what the user says; a greeting before it belongs to none."""
    drafts: list[_Draft] = []
    for message in messages:
        if message.speaker == "user" or (message.speaker == "agent" and message.tool_calls and not drafts):
            drafts.append(_Draft(query=(message.content or None) if message.speaker == "user" else None))
        if message.speaker == "agent" and drafts:
            drafts[-1].say(message)
        elif message.speaker == "tool" and drafts:
            drafts[-1].answered(message)
    return [draft.turn(index) for index, draft in enumerate(drafts)]


def _result(content: str) -> Any:
    """Return what a tool answered: the JSON value where the text is an object or a list, else the text."""
    if not content.lstrip().startswith(("{", "[")):
        return content
    try:
        value = whole(content)
    except ValueError:
        return content
    return content if any(faults(value)) else value
