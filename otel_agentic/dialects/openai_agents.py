"""opentelemetry-instrumentation-openai-agents-v2: GenAI spans whose texts hold Python reprs of the SDK's objects."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from otel_agentic.dialects.base import handoff
from otel_agentic.dialects.events import CallRequest, Message, Text
from otel_agentic.dialects.genai import GenAI
from otel_agentic.dialects.literals import read_repr
from otel_agentic.dialects.messages import read_messages
from otel_agentic.dialects.payloads import model_output

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_agentic.dialects.events import AgentEvent, Part
    from otel_agentic.spans.model import LogRecord, Span

_HANDOFF: Final = "agent_handoff"
_OPERATION: Final = "gen_ai.operation.name"
_TO_AGENT: Final = "gen_ai.handoff.to_agent"
_FROM_AGENT: Final = "gen_ai.handoff.from_agent"
#: What the repr of a message, of a content block and of an item of a response begin with.
_REPR: Final = re.compile(r"\s*(?:\{['\"]|Response[A-Z]\w*\()")
#: A repr without any of these is something that somebody said.
_SAYS: Final = frozenset({"type", "role", "object"})


class OpenAIAgents(GenAI):
    """The openai-agents instrumentation of OpenTelemetry: the topmost span is the workflow, `unknown` are its tasks and turns."""

    name = "openai-agents"
    table = replace(
        GenAI.table,
        scopes=("opentelemetry.instrumentation.openai_agents",),
        marks=("gen_ai.handoff.",),
        kinds={**GenAI.table.kinds, _HANDOFF: "a handoff to nobody", "unknown": "a task or turn of the SDK"},
    )

    def read(self, span: Span, logs: Sequence[LogRecord]) -> AgentEvent:
        """Return what the span means; a handoff is the call of the tool that hands over."""
        attributes = span.attributes
        if attributes.get(_OPERATION) == _HANDOFF and attributes.get(_TO_AGENT):
            header = self.header(span, logs)
            return handoff(header, from_agent=attributes.get(_FROM_AGENT), to_agent=attributes[_TO_AGENT])
        return super().read(span, logs)

    def messages_in(self, span: Span, logs: Sequence[LogRecord]) -> tuple[Message, ...] | None:
        """Return the input messages with reprs read."""
        return _spelled_out(super().messages_in(span, logs))

    def messages_out(self, span: Span, logs: Sequence[LogRecord]) -> tuple[Message, ...] | None:
        """Return the output messages with reprs read."""
        return _spelled_out(super().messages_out(span, logs))


def _spelled_out(messages: tuple[Message, ...] | None) -> tuple[Message, ...] | None:
    if messages is None:
        return None
    return tuple(
        replace(message, parts=tuple(part for each in message.parts for part in _parts(each))) for message in messages
    )


def _parts(part: Part) -> tuple[Part, ...]:
    """Return what the repr in a text says; the text itself where it is no repr."""
    if not isinstance(part, Text) or _REPR.match(part.content) is None:
        return (part,)
    found = read_repr(part.content)
    if not isinstance(found, Mapping) or not found.keys() & _SAYS:
        return (part,)
    block = {"role": "assistant", "content": [found]}
    said = model_output(found) or read_messages([block], "assistant") or ()
    return tuple(each for message in said for each in message.parts if isinstance(each, (Text, CallRequest)))
