"""opentelemetry-instrumentation-openai-agents-v2: GenAI spans whose texts contain Python reprs of the SDK's objects."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from otel_agentic.dialects.base import handoff
from otel_agentic.dialects.events import AgentEvent, CallRequest, Message, Part, Text
from otel_agentic.dialects.genai import GenAI
from otel_agentic.dialects.messages import read_messages
from otel_agentic.dialects.payloads import model_output
from otel_agentic.dialects.values import read_repr

if TYPE_CHECKING:
    from otel_agentic.spans.model import LogRecord, Span

_HANDOFF: Final = "agent_handoff"
_OPERATION: Final = "gen_ai.operation.name"
_TO_AGENT: Final = "gen_ai.handoff.to_agent"
_FROM_AGENT: Final = "gen_ai.handoff.from_agent"
#: The start of the repr of a message, of a content block and of an item of a response.
_REPR: Final = re.compile(r"\s*(?:\{['\"]|Response[A-Z]\w*\()")
#: A repr without any of these keys is an ordinary text.
_MESSAGE_KEYS: Final = frozenset({"type", "role", "object"})


class OpenAIAgents(GenAI):
    """The openai-agents instrumentation of OpenTelemetry: the topmost span is the workflow, `unknown` are its tasks and turns."""

    name = "openai-agents"
    table = replace(
        GenAI.table,
        scopes=("opentelemetry.instrumentation.openai_agents",),
        marks=("gen_ai.handoff.",),
        kinds={**GenAI.table.kinds, _HANDOFF: "a handoff without a target", "unknown": "a task or turn of the SDK"},
    )

    def read(self, span: Span, logs: Sequence[LogRecord]) -> AgentEvent:
        """Return the event of the span; a handoff is the call of the tool that hands over."""
        attributes = span.attributes
        if attributes.get(_OPERATION) == _HANDOFF and attributes.get(_TO_AGENT):
            header = self.header(span, logs)
            return handoff(header, from_agent=attributes.get(_FROM_AGENT), to_agent=attributes[_TO_AGENT])
        return super().read(span, logs)

    def messages_in(self, span: Span, logs: Sequence[LogRecord]) -> tuple[Message, ...] | None:
        """Return the input messages, with reprs parsed."""
        return _with_parsed_reprs(super().messages_in(span, logs))

    def messages_out(self, span: Span, logs: Sequence[LogRecord]) -> tuple[Message, ...] | None:
        """Return the output messages, with reprs parsed."""
        return _with_parsed_reprs(super().messages_out(span, logs))


def _with_parsed_reprs(messages: tuple[Message, ...] | None) -> tuple[Message, ...] | None:
    if messages is None:
        return None
    return tuple(
        replace(message, parts=tuple(piece for part in message.parts for piece in _parts(part))) for message in messages
    )


def _parts(part: Part) -> tuple[Part, ...]:
    """Return the parts of the repr in a text, or the text itself if it is not a repr."""
    if not isinstance(part, Text) or _REPR.match(part.content) is None:
        return (part,)
    fields = read_repr(part.content)
    if not isinstance(fields, Mapping) or not fields.keys() & _MESSAGE_KEYS:
        return (part,)
    block = {"role": "assistant", "content": [fields]}
    messages = model_output(fields) or read_messages([block], "assistant") or ()
    return tuple(piece for message in messages for piece in message.parts if isinstance(piece, (Text, CallRequest)))
