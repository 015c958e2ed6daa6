"""Chat messages of evaluation rows, in both forms: `{"type": "human"}` of RAGAS and `{"role": "user"}` of OpenAI."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import ConfigDict, Field, model_validator

from otel_agentic.truth.formats.foreign import NOTHING, Arguments, Listed, Silent, first_of
from otel_agentic.truth.formats.items import faults
from otel_agentic.truth.formats.json_text import whole
from otel_agentic.truth.formats.made import made_call, made_turn
from otel_agentic.truth.model import Name  # noqa: TC001 — pydantic reads it at run time

if TYPE_CHECKING:
    from collections.abc import Iterable

    from otel_agentic.conversations.model import Turn

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
