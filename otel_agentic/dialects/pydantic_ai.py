"""pydantic-ai: all six formats of its instrumentation, and the lists of events and messages under its own keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeGuard

from otel_agentic.dialects.events import AgentRun, CallRequest, CallResult, Header, Message, ModelCall, Part, Text
from otel_agentic.dialects.genai import GenAI, messages_of_events
from otel_agentic.dialects.messages import read_messages
from otel_agentic.dialects.values import first, parsed

if TYPE_CHECKING:
    from otel_agentic.spans.model import LogRecord, Span

_OPERATION: Final = "gen_ai.operation.name"
#: The run's messages, with the history before it: in the current format, and as events in the first format.
_ALL_MESSAGES: Final = "pydantic_ai.all_messages"
_ALL_EVENTS: Final = "all_messages_events"
#: The index of the run's own first message in this list; absent without a history, and in early releases.
_FIRST_NEW: Final = "pydantic_ai.new_message_index"
#: Tools whose arguments are the answer in a structured form.
_OUTPUT_TOOLS: Final = ("model_request_parameters~.output_tools",)
#: The end of the framework's message to the model about a call that failed or whose arguments were invalid.
_RETRY: Final = "Fix the errors and try again."
_RUN_KEY: Final = "agent_name"
_RUN_NAMES: Final = ("agent run", "invoke_agent")


class PydanticAI(GenAI):
    """pydantic-ai, on its own or through Logfire."""

    name = "pydantic-ai"
    table = replace(
        GenAI.table,
        scopes=("pydantic-ai",),
        marks=("pydantic_ai.",),
        agent_name=(*GenAI.table.agent_name, _RUN_KEY),
        definitions=(*GenAI.table.definitions, "model_request_parameters~.function_tools"),
    )

    def meaning(self, span: Span) -> str:
        """Return the meaning of the operation name; early releases write no operation name on runs."""
        if _OPERATION not in span.attributes and _RUN_KEY in span.attributes and span.name.startswith(_RUN_NAMES):
            return "agent"
        return super().meaning(span)

    def agent_run(self, header: Header, span: Span, logs: Sequence[LogRecord], *, certain: bool) -> AgentRun:
        """Return a run, with its messages divided into input and output."""
        run = super().agent_run(header, span, logs, certain=certain)
        if run.messages_in is not None or run.messages_out is not None:
            return run
        messages = _all_messages(span)
        cut = _first_new_answer(messages, span.attributes.get(_FIRST_NEW)) if messages else None
        return (
            run
            if messages is None or cut is None
            else replace(run, messages_in=messages[:cut], messages_out=messages[cut:])
        )

    def messages_in(self, span: Span, logs: Sequence[LogRecord]) -> tuple[Message, ...] | None:
        """Return the messages to the model; a result that asks to try again is an error."""
        return _with_errors(super().messages_in(span, logs))

    def model_call(self, header: Header, span: Span, logs: Sequence[LogRecord]) -> ModelCall:
        """Return a model call without calls of output tools, which are the answer."""
        call = super().model_call(header, span, logs)
        names = _output_tools(span)
        if not names or call.messages_out is None:
            return call
        return replace(call, messages_out=tuple(_without_calls(message, names) for message in call.messages_out))


def _all_messages(span: Span) -> tuple[Message, ...] | None:
    events = parsed(span.attributes.get(_ALL_EVENTS))
    if isinstance(events, list):
        return _with_errors(messages_of_events(events))
    return _with_errors(read_messages(span.attributes.get(_ALL_MESSAGES)))


def _first_new_answer(messages: Sequence[Message], first_new: Any) -> int | None:
    """Return the index of the run's own first answer; None if it cannot be distinguished from the history before it."""
    if isinstance(first_new, int) and 0 <= first_new <= len(messages):
        start = first_new
    elif (
        sum(message.role == "user" and any(isinstance(part, Text) for part in message.parts) for message in messages)
        == 1
    ):
        start = 0
    else:
        return None
    answers = (index for index in range(start, len(messages)) if messages[index].role == "assistant")
    return next(answers, len(messages))


def _with_errors(messages: tuple[Message, ...] | None) -> tuple[Message, ...] | None:
    if messages is None:
        return None
    return tuple(
        replace(
            message, parts=tuple(replace(part, is_error=True) if _is_retry(part) else part for part in message.parts)
        )
        for message in messages
    )


def _is_retry(part: Part) -> TypeGuard[CallResult]:
    return isinstance(part, CallResult) and isinstance(part.result, str) and part.result.rstrip().endswith(_RETRY)


def _output_tools(span: Span) -> frozenset[str]:
    content = first(span.attributes, _OUTPUT_TOOLS)
    tools = content if isinstance(content, list) else []
    return frozenset(str(tool.get("name")) for tool in tools if isinstance(tool, Mapping))


def _without_calls(message: Message, names: frozenset[str]) -> Message:
    remaining = tuple(part for part in message.parts if not (isinstance(part, CallRequest) and part.name in names))
    return replace(message, parts=remaining)
