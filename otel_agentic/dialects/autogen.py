"""AutoGen: GenAI spans of agents, and the messages that its runtime sends between the members of a team.

A team's turn is spread over many traces, one per message. The manager of the team receives everything: the task, and
the calls and messages of each agent that spoke.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.dialects.events import AgentRun, CallResult, Header, Message
from otel_agentic.dialects.genai import GenAI
from otel_agentic.dialects.messages import read_message
from otel_agentic.dialects.values import first, id_of, parsed, read_repr, text_of

if TYPE_CHECKING:
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
#: The calls of an agent, and its answer, in the message that ends its turn to speak; or the messages of a team as a member.
_INNER: Final = ("message~.response.inner_messages", "message~.result.messages")
_ANSWER: Final = ("message~.response.chat_message",)
_SPEAKER: Final = ("message~.response.chat_message.source",)
_TASK: Final = ("message~.messages",)
_HANDOFF: Final = "HandoffMessage"


class AutoGen(GenAI):
    """AutoGen agents, alone and in teams."""

    name = "autogen"
    table = replace(GenAI.table, scopes=("autogen-core", "autogen "), marks=("recipient_agent_",))

    def meaning(self, span: Span) -> str:
        """Return the meaning of the operation; messages of the runtime that begin or end a turn to speak are runs."""
        if _OPERATION in span.attributes:
            return super().meaning(span)
        if span.attributes.get(_WORK) != _PROCESS:
            return "a message in transit"
        asked_to_speak = parsed(span.attributes.get(_MESSAGE)) == {}
        if _is_manager(span):
            has_content = first(span.attributes, (*_TASK, *_ANSWER, *_INNER)) is not None
            return "agent" if has_content else "a message to the team's manager"
        return "agent" if asked_to_speak else "a message to a member of the team"

    def conversation_id(self, span: Span, logs: Sequence[LogRecord]) -> str | None:
        """Return the conversation id, else the key of the session or team that a message is addressed to."""
        explicit = super().conversation_id(span, logs)
        key = _KEY.search(text_of(span.attributes.get(_DESTINATION)) or "")
        return explicit if explicit is not None or key is None or key[1] == _NO_KEY else id_of(key[1])

    def header(self, span: Span, logs: Sequence[LogRecord]) -> Header:
        """Return the header; the team's id is removed from the end of a member's name."""
        header = super().header(span, logs)
        if header.agent_name is not None or _RECIPIENT_NAME not in span.attributes:
            return header
        speaker = first(span.attributes, _SPEAKER) if _is_manager(span) else None
        name = text_of(speaker) or _TEAM.sub("", text_of(span.attributes[_RECIPIENT_NAME]) or "")
        return replace(header, agent_name=name or None)

    def agent_run(self, header: Header, span: Span, logs: Sequence[LogRecord], *, certain: bool) -> AgentRun:
        """Return a run: of an agent, of a team with its task, or of one of the team's members."""
        run = super().agent_run(header, span, logs, certain=certain)
        if _OPERATION in span.attributes:
            return run
        task = _messages(first(span.attributes, _TASK), "user") if _is_manager(span) else ()
        inner = _messages(first(span.attributes, _INNER), "assistant")
        answer = _messages([first(span.attributes, _ANSWER)], "assistant")
        return replace(run, messages_in=task or None, messages_out=(*inner, *answer) or None, goes_on=not task)


def _is_manager(span: Span) -> bool:
    return (text_of(span.attributes.get(_RECIPIENT)) or "").endswith(_MANAGER)


def _messages(items: Any, role: str) -> tuple[Message, ...]:
    content = parsed(items)
    messages = (
        _message(item, role) for item in (content if isinstance(content, list) else ()) if isinstance(item, Mapping)
    )
    return tuple(message for message in messages if message is not None)


def _message(fields: Mapping[str, Any], role: str) -> Message | None:
    """Return one AutoGen message: text, the calls that a model requested, or their results."""
    content = fields.get("content")
    if fields.get("type") == _HANDOFF or content is None:
        return None
    if isinstance(content, list) and all(isinstance(block, Mapping) and "call_id" in block for block in content):
        return Message(role="tool", parts=tuple(_results(content)))
    if isinstance(content, list) and all(isinstance(block, Mapping) and "arguments" in block for block in content):
        return read_message({"role": "assistant", "tool_calls": content})
    if isinstance(content, list):
        content = "\n".join(block for block in content if isinstance(block, str)) or None
    return read_message({"role": role, "content": content if isinstance(content, str) else text_of(content)})


def _results(results: Iterable[Mapping[str, Any]]) -> Iterable[CallResult]:
    for fields in results:
        content = fields.get("content")
        literal = read_repr(content)
        yield CallResult(
            call_id=id_of(fields.get("call_id")),
            name=text_of(fields.get("name")),
            result=parsed(content) if literal is None else literal,
            captured="content" in fields,
            is_error=fields.get("is_error") is True,
        )
