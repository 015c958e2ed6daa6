"""AutoGen: GenAI spans of agents, and the messages that its runtime carries between the members of a team.

A team's turn is spread over many traces, one a message. The manager of the team is told all of it: the task, and what each
agent did and said when it was its turn to speak.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.dialects.events import CallResult, Message
from otel_agentic.dialects.genai import GenAI
from otel_agentic.dialects.literals import read_repr
from otel_agentic.dialects.messages import read_message
from otel_agentic.dialects.values import first, id_of, parsed, text_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from otel_agentic.dialects.events import AgentRun, Header
    from otel_agentic.spans.model import LogRecord, Span

_OPERATION: Final = "gen_ai.operation.name"
_WORK: Final = "messaging.operation"
_PROCESS: Final = "process"
_MESSAGE: Final = "message"
_RECIPIENT: Final = "recipient_agent_class"
_RECIPIENT_NAME: Final = "recipient_agent_type"
_DESTINATION: Final = "messaging.destination"
_MANAGER: Final = "GroupChatManager"
#: `type.(key)-A` for an agent, `-T` for a topic. The key is the session, in a team its id.
_KEY: Final = re.compile(r"\.\(([^()]+)\)-[AT]$")
_NO_KEY: Final = "default"
_TEAM: Final = re.compile(r"_[0-9a-f]{8}-[0-9a-f-]{27}$")
#: What an agent did, and after it what it said, in the message that ends its turn to speak; or a team that was a member.
_DONE: Final = ("message~.response.inner_messages", "message~.result.messages")
_SAID: Final = ("message~.response.chat_message",)
_SPEAKER: Final = ("message~.response.chat_message.source",)
_TASK: Final = ("message~.messages",)
_HANDOFF: Final = "HandoffMessage"


class AutoGen(GenAI):
    """AutoGen agents, alone and in teams."""

    name = "autogen"
    table = replace(GenAI.table, scopes=("autogen-core", "autogen "), marks=("recipient_agent_",))

    def meaning(self, span: Span) -> str:
        """Return what the operation says; of the runtime's messages, those that begin or end a turn to speak are runs."""
        if _OPERATION in span.attributes:
            return super().meaning(span)
        if span.attributes.get(_WORK) != _PROCESS:
            return "a message on its way"
        asked_to_speak = parsed(span.attributes.get(_MESSAGE)) == {}
        if _is_manager(span):
            told = first(span.attributes, (*_TASK, *_SAID, *_DONE)) is not None
            return "agent" if told else "a message to the team's manager"
        return "agent" if asked_to_speak else "a message to a member of the team"

    def conversation_id(self, span: Span, logs: Sequence[LogRecord]) -> str | None:
        """Return the conversation id, else the key of the session or team that a message is addressed to."""
        found = super().conversation_id(span, logs)
        key = _KEY.search(text_of(span.attributes.get(_DESTINATION)) or "")
        return found if found is not None or key is None or key[1] == _NO_KEY else id_of(key[1])

    def header(self, span: Span, logs: Sequence[LogRecord]) -> Header:
        """Return the header; a member's name has the team's id behind it."""
        header = super().header(span, logs)
        if header.agent_name is not None or _RECIPIENT_NAME not in span.attributes:
            return header
        speaker = first(span.attributes, _SPEAKER) if _is_manager(span) else None
        name = text_of(speaker) or _TEAM.sub("", text_of(span.attributes[_RECIPIENT_NAME]) or "")
        return replace(header, agent_name=name or None)

    def agent_run(self, header: Header, span: Span, logs: Sequence[LogRecord], *, certain: bool) -> AgentRun:
        """Return a run: an agent's, the task that a team was given, or what one of its members then did."""
        run = super().agent_run(header, span, logs, certain=certain)
        if _OPERATION in span.attributes:
            return run
        task = _messages(first(span.attributes, _TASK), "user") if _is_manager(span) else ()
        done = _messages(first(span.attributes, _DONE), "assistant")
        said = _messages([first(span.attributes, _SAID)], "assistant")
        return replace(run, messages_in=task or None, messages_out=(*done, *said) or None, goes_on=not task)


def _is_manager(span: Span) -> bool:
    return (text_of(span.attributes.get(_RECIPIENT)) or "").endswith(_MANAGER)


def _messages(items: Any, role: str) -> tuple[Message, ...]:
    found = parsed(items)
    read = (_message(item, role) for item in (found if isinstance(found, list) else ()) if isinstance(item, Mapping))
    return tuple(message for message in read if message is not None)


def _message(item: Mapping[str, Any], role: str) -> Message | None:
    """Return one message of AutoGen's: text, the calls that a model asked for, or what they came to."""
    content = item.get("content")
    if item.get("type") == _HANDOFF or content is None:
        return None
    if isinstance(content, list) and all(isinstance(each, Mapping) and "call_id" in each for each in content):
        return Message(role="tool", parts=tuple(_results(content)))
    if isinstance(content, list) and all(isinstance(each, Mapping) and "arguments" in each for each in content):
        return read_message({"role": "assistant", "tool_calls": content})
    if isinstance(content, list):
        content = "\n".join(each for each in content if isinstance(each, str)) or None
    return read_message({"role": role, "content": content if isinstance(content, str) else text_of(content)})


def _results(items: Iterable[Mapping[str, Any]]) -> Iterable[CallResult]:
    for item in items:
        told = item.get("content")
        found = read_repr(told)
        yield CallResult(
            call_id=id_of(item.get("call_id")),
            name=text_of(item.get("name")),
            result=parsed(told) if found is None else found,
            captured="content" in item,
            is_error=item.get("is_error") is True,
        )
