"""The Vercel AI SDK: `ai.*` spans of releases 3 to 6 and of the legacy integration of 7, GenAI names with settings in 7."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from otel_agentic.dialects.base import Table, TableDialect
from otel_agentic.dialects.messages import read_message
from otel_agentic.dialects.payloads import Spoken
from otel_agentic.dialects.values import first, session_keys

if TYPE_CHECKING:
    from otel_agentic.dialects.events import Message
    from otel_agentic.spans.model import LogRecord, Span

#: The response of a model call, by the names of the releases; the calls are a JSON list.
_TEXT: Final = ("ai.response.text", "ai.response.object", "ai.result.text", "ai.result.object")
_CALLS: Final = ("ai.response.toolCalls~", "ai.result.toolCalls~")
_REASONING: Final = ("ai.response.reasoning~", "ai.response.reasoning")


class Vercel(TableDialect):
    """Spans of the Vercel AI SDK."""

    name = "vercel"
    table = Table(
        marks=("ai.operationId", "ai.settings.context."),
        kind=("ai.operationId", "gen_ai.operation.name"),
        kinds={
            "ai.generateText": "agent",
            "ai.streamText": "agent",
            # An object is mostly an intermediate step (a route, a verdict), rarely the user's request.
            "ai.generateObject": "maybe_agent",
            "ai.streamObject": "maybe_agent",
            "ai.generateText.doGenerate": "model",
            "ai.streamText.doStream": "model",
            "ai.generateObject.doGenerate": "model",
            "ai.streamObject.doStream": "model",
            "ai.toolCall": "tool",
            "invoke_agent": "agent",
            "agent_step": "step of a run",
            "chat": "model",
            "execute_tool": "tool",
        },
        conversation_id=(
            "gen_ai.conversation.id",
            *session_keys("ai.telemetry.metadata."),
            *session_keys("ai.settings.context."),
            "session.id",
        ),
        agent_name=("ai.telemetry.functionId", "gen_ai.agent.name"),
        model=("gen_ai.response.model", "ai.response.model", "ai.model.id", "gen_ai.request.model"),
        response_id=("gen_ai.response.id", "ai.response.id"),
        finish_reason=("ai.response.finishReason", "gen_ai.response.finish_reasons", "ai.finishReason"),
        messages_in=("ai.prompt.messages", "gen_ai.input.messages"),
        messages_out=("gen_ai.output.messages",),
        input=("ai.prompt",),
        output=(*_TEXT, *_CALLS),
        tool_name=("ai.toolCall.name", "gen_ai.tool.name"),
        call_id=("ai.toolCall.id", "gen_ai.tool.call.id"),
        arguments=("ai.toolCall.args", "gen_ai.tool.call.arguments"),
        result=("ai.toolCall.result", "gen_ai.tool.call.result"),
        input_tokens=("gen_ai.usage.input_tokens", "ai.usage.inputTokens", "ai.usage.promptTokens"),
        output_tokens=("gen_ai.usage.output_tokens", "ai.usage.outputTokens", "ai.usage.completionTokens"),
        definitions=("ai.prompt.tools", "gen_ai.tool.definitions"),
    )

    def messages_out(self, span: Span, logs: Sequence[LogRecord]) -> tuple[Message, ...] | None:
        """Return a model's text and requested calls as one message.

        The calls of a run are omitted, because some releases list the calls of all its steps next to the final text.
        """
        if self.meaning(span) != "model":
            return super().messages_out(span, logs)
        text, calls = first(span.attributes, _TEXT), first(span.attributes, _CALLS)
        if text is None and calls is None:
            return super().messages_out(span, logs)
        reasoning = first(span.attributes, _REASONING)
        message = read_message(
            {"role": "assistant", "content": text or [], "tool_calls": calls, "reasoning": reasoning}
        )
        return (message,) if message is not None else None

    def run_output(self, span: Span) -> Spoken:
        """Return the final text of a run; an empty text means that the run ended with tool calls."""
        text = first(span.attributes, _TEXT)
        return Spoken(text=text) if isinstance(text, str) and text else Spoken()
