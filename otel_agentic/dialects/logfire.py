"""Logfire: its integrations of openai-agents and of model clients, and spans created by hand.

Span names are templates; the formatted text is `logfire.msg`. The values of a user's span, or the arguments of an
instrumented function, are top-level attributes, listed in `logfire.json_schema`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.dialects.base import handoff
from otel_agentic.dialects.genai import GenAI
from otel_agentic.dialects.generic import Generic
from otel_agentic.dialects.payloads import Spoken, run_input, run_output
from otel_agentic.dialects.values import first, id_of, is_redacted, parsed, session_keys, text_of

if TYPE_CHECKING:
    from otel_agentic.dialects.events import AgentEvent, Header, ToolCall
    from otel_agentic.spans.model import LogRecord, Span

_TEMPLATE: Final = "logfire.msg_template"
_MESSAGE: Final = "logfire.msg"
_SCHEMA: Final = ("logfire.json_schema~.properties",)
_LEVEL: Final = "logfire.level_num"
_ERROR_LEVEL: Final = 17
_OPERATION: Final = "gen_ai.operation.name"
_RETURN: Final = "return"
_NAME: Final = "name"
_SPAN_TYPE: Final = "logfire.span_type"
_SPAN: Final = "span"
_RUNS: Final = frozenset({"agent", "maybe_agent"})
_FROM_AGENT, _TO_AGENT = "from_agent", "to_agent"
#: Beginning of a template of the openai-agents integration -> the meaning of its spans.
_AGENTS_SCOPE: Final = "logfire.openai_agents"
_HANDOFF: Final = "Handoff:"
_AGENT_RUN: Final = "Agent run:"
_AGENTS: Final[Mapping[str, str]] = {
    "OpenAI Agents trace:": "maybe_agent",  # contains one run, or all turns of a conversation
    "Task:": "agent",
    _AGENT_RUN: "agent",
    "Function:": "tool",
    "Chat completion": "model",
    "Responses API": "model",
}
#: Names of spans that people create by hand: `tool get_weather`, `agent: concierge`.
_BY_HAND: Final = re.compile(
    r"(?P<kind>tool|agent)(?: run| call)?[ :]+['\"]?(?P<name>[\w.-]+)['\"]?\s*$", re.IGNORECASE
)
_NAMED_KINDS: Final = {"tool": "tool", "agent": "maybe_agent"}
#: Set by instrumented clients on the request and on the log of its streamed response; only the log has the response.
_CLIENT: Final = "async"
_ANSWERED: Final = ("gen_ai.response.model", "response_data", "gen_ai.output.messages")
_ERRORS: Final = ("error~.data.error", "error~.message", "error")


class Logfire(GenAI):
    """Logfire's own spans. Those of other libraries that it exports keep their scope and are read by their dialect."""

    name = "logfire"
    table = replace(
        GenAI.table,
        scopes=("logfire",),
        marks=(),
        conversation_id=(*GenAI.table.conversation_id, "group_id", *session_keys("")),
        agent_name=(*GenAI.table.agent_name, "agent_name"),
        query=Generic.table.query,
        answer=Generic.table.answer,
        messages_in=(*GenAI.table.messages_in, "raw_input", "input", "request_data~.messages"),
        messages_out=(
            *GenAI.table.messages_out,
            "response~.output",
            "output~.0.output",  # the whole response, as openai-agents records a stream
            "output",
            "response_data~.message",
            "response_data~.combined_chunk_content",
        ),
        tool_name=(*GenAI.table.tool_name, *Generic.table.tool_name),
        arguments=(*GenAI.table.arguments, *Generic.table.arguments),
        result=(*GenAI.table.result, *Generic.table.result),
        usage=("usage~", "response_data~.usage"),
        definitions=(*GenAI.table.definitions, "response~.tools", "request_data~.tools", "tools"),
    )

    def read(self, span: Span, logs: Sequence[LogRecord]) -> AgentEvent:
        """Return the event of the span; a handoff is the call of the tool that hands over."""
        attributes = span.attributes
        if _template(span).startswith(_HANDOFF) and attributes.get(_TO_AGENT):
            header = self.header(span, logs)
            return handoff(header, from_agent=attributes.get(_FROM_AGENT), to_agent=attributes[_TO_AGENT])
        return super().read(span, logs)

    def meaning(self, span: Span) -> str:
        """Return the meaning by operation, template, or the name of a span created by hand."""
        if _OPERATION in span.attributes:
            return "request of a streamed response" if _is_streamed(span) else super().meaning(span)
        template = _template(span)
        if span.scope.name == _AGENTS_SCOPE:
            return next((kind for start, kind in _AGENTS.items() if template.startswith(start)), "a span of the SDK")
        if span.attributes.get(_SPAN_TYPE, _SPAN) != _SPAN:
            return "a line of the log"
        if first(span.attributes, self.table.tool_name) is not None:
            return "tool"
        named = _BY_HAND.match(template)
        if named is not None:
            return _NAMED_KINDS[named["kind"].lower()]
        return "maybe_agent" if self._is_turn(span) else "made by hand"

    def _is_turn(self, span: Span) -> bool:
        """Return whether a span created by hand looks like a turn: it has a query, and a conversation id or an answer."""
        if first(span.attributes, self.table.query) is None:
            return False
        return any(first(span.attributes, keys) is not None for keys in (self.table.conversation_id, self.table.answer))

    def header(self, span: Span, logs: Sequence[LogRecord]) -> Header:
        """Return the header, with the agent's name from the attributes or the name of its span."""
        header = super().header(span, logs)
        if header.agent_name is not None or self.meaning(span) not in _RUNS:
            return header
        if span.scope.name == _AGENTS_SCOPE:
            is_run = _template(span).startswith(_AGENT_RUN)
            return replace(header, agent_name=text_of(span.attributes.get(_NAME))) if is_run else header
        return replace(header, agent_name=_name_by_hand(span))

    def conversation_id(self, span: Span, logs: Sequence[LogRecord]) -> str | None:
        """Return the conversation id, ignoring attributes that may be parameters of a tool."""
        if not _is_by_hand(span) or self.meaning(span) != "tool":
            return super().conversation_id(span, logs)
        keys = (key for key in self._conversation_keys if not key.isidentifier())
        return id_of(first(span.attributes, keys))

    def error(self, span: Span) -> str | None:
        """Return the error of the span, or None; its level may be error although the status is not."""
        error = super().error(span)
        level = span.attributes.get(_LEVEL)
        if not isinstance(level, int) or level < _ERROR_LEVEL:
            return error
        return text_of(first(span.attributes, _ERRORS)) or error or text_of(span.attributes.get(_MESSAGE)) or "error"

    def tool_call(self, header: Header, span: Span) -> ToolCall:
        """Return the execution of a tool; for a function, its arguments and return value."""
        call = super().tool_call(header, span)
        if not _is_by_hand(span):
            return replace(call, name=text_of(span.attributes.get(_NAME)) or call.name)
        if first(span.attributes, self.table.tool_name) is not None:
            return call
        values = _user_values(span)
        result = values.pop(_RETURN, None)
        return replace(
            call,
            name=_name_by_hand(span) or call.name,
            arguments=values or None,
            result=result,
            result_captured=_RETURN in span.attributes and not is_redacted(result),
        )

    def run_input(self, span: Span) -> Spoken:
        """Return the arguments of the function that runs the agent."""
        arguments = {name: value for name, value in _user_values(span).items() if name != _RETURN}
        return run_input({"args": [], "kwargs": arguments}) if _is_by_hand(span) else Spoken()

    def run_output(self, span: Span) -> Spoken:
        """Return the return value of the function that runs the agent."""
        return run_output(_user_values(span).get(_RETURN))


def _template(span: Span) -> str:
    return text_of(span.attributes.get(_TEMPLATE)) or span.name


def _name_by_hand(span: Span) -> str | None:
    """Return the name of the tool or agent in the name of a span created by hand, or None."""
    named = _BY_HAND.match(text_of(span.attributes.get(_MESSAGE)) or _template(span))
    return named["name"] if named is not None else None


def _is_by_hand(span: Span) -> bool:
    return span.scope.name != _AGENTS_SCOPE and _OPERATION not in span.attributes


def _is_streamed(span: Span) -> bool:
    """Return whether the response to a client's request is in a separate log, which repeats the request."""
    attributes = span.attributes
    failed = attributes.get(_LEVEL) == _ERROR_LEVEL
    return _CLIENT in attributes and not failed and not any(key in attributes for key in _ANSWERED)


def _user_values(span: Span) -> dict[str, Any]:
    """Return the values that the user set on a span; the schema distinguishes containers in JSON text from text."""
    schema = first(span.attributes, _SCHEMA)
    if not isinstance(schema, Mapping):
        return {}
    return {
        name: parsed(span.attributes[name]) if isinstance(kind, Mapping) and "type" in kind else span.attributes[name]
        for name, kind in schema.items()
        if name in span.attributes
    }
