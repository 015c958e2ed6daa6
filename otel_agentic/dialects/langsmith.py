"""LangSmith's OpenTelemetry export: every run has its inputs in `gen_ai.prompt`, its outputs in `gen_ai.completion`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from otel_agentic.dialects.base import RecordedDialect, Table
from otel_agentic.dialects.values import parsed, session_keys

if TYPE_CHECKING:
    from otel_agentic.dialects.events import Header, ToolCall
    from otel_agentic.spans.model import Span

_OUTPUT: Final = "gen_ai.completion"
_TRACEBACK: Final = "Traceback (most recent call last)"
#: The recorded output of a function that did not return, and of one that returned None.
_LEFT_OUT: Final[dict[str, object]] = {}
_NOTHING: Final = {"output": None}


class LangSmith(RecordedDialect):
    """Runs of LangChain and of LangSmith's decorators and wrappers."""

    name = "langsmith"
    table = Table(
        scopes=("langsmith",),
        marks=("langsmith.span.kind",),
        kind=("langsmith.span.kind", "gen_ai.operation.name"),
        kinds={
            "chain": "maybe_agent",
            "llm": "model",
            "tool": "tool",
            "chat": "model",
            "execute_tool": "tool",
            "prompt": "prompt template",
            "parser": "output parser",
            "retriever": "retrieval",
            "embedding": "embeddings",
        },
        # `langsmith.trace.session_name` is the project.
        conversation_id=(*session_keys("langsmith.metadata."), "gen_ai.conversation.id", "session.id"),
        agent_name=("langsmith.metadata.lc_agent_name", "gen_ai.agent.name"),
        model=("gen_ai.response.model", "gen_ai.request.model"),
        response_id=("gen_ai.response.id",),
        finish_reason=("gen_ai.response.finish_reasons",),
        messages_in=("gen_ai.input.messages",),
        messages_out=("gen_ai.output.messages",),
        flat_in=("gen_ai.prompt",),
        flat_out=("gen_ai.completion",),
        input=("gen_ai.prompt",),
        output=(f"{_OUTPUT}~.output", _OUTPUT),
        tool_name=("gen_ai.tool.name",),
        call_id=("gen_ai.tool.call.id",),
        arguments=("gen_ai.tool.call.arguments",),
        result=("gen_ai.tool.call.result",),
        input_tokens=("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens"),
        output_tokens=("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens"),
        usage=("langsmith.metadata.usage_metadata~",),
        definitions=("gen_ai.tool.definitions",),
    )

    def error(self, span: Span) -> str | None:
        """Return the error of the run without the traceback after it."""
        error = super().error(span)
        return error and (error.partition(_TRACEBACK)[0].strip() or error)

    def tool_call(self, header: Header, span: Span) -> ToolCall:
        """Return the call; a function that failed has no result, one without a return value has None."""
        call, output = super().tool_call(header, span), parsed(span.attributes.get(_OUTPUT))
        if output not in (_LEFT_OUT, _NOTHING):
            return call
        return replace(call, result=None, result_captured=output == _NOTHING and header.error is None)
