"""A script as the GenAI semantic conventions write it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

import orjson

from otel_agentic.dialects.events import CallRequest, CallResult, Text
from otel_agentic.spans.model import SpanBatch, StatusCode
from otel_agentic.testing.builders import NOON_NS, event, log_record, span
from otel_agentic.testing.script import play

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from otel_agentic.dialects.events import Message, Part
    from otel_agentic.spans.model import LogRecord, Span, SpanEvent
    from otel_agentic.testing.script import Act, AgentRunScript


def json_text(value: Any) -> str:
    """Return a value as JSON text."""
    return orjson.dumps(value).decode()


def value_text(value: Any) -> str:
    """Return a value as tools write it: text as it is, other values as JSON."""
    return value if isinstance(value, str) else json_text(value)


def spans_of(
    turns: list[list[Act]],
    *,
    name: Callable[[Act], str],
    attributes: Callable[[Act], Mapping[str, Any]],
    events: Callable[[Act], tuple[SpanEvent, ...]] = lambda _: (),
    scope: str | Callable[[Act], str],
    error: Callable[[Act], str | None] = lambda act: act.error,
) -> list[tuple[Act, Span]]:
    """Return the acts of a script with their spans, one trace per turn.

    `error` returns the status message of a failed act, None for a successful one.
    """
    written: list[tuple[Act, Span]] = []
    for acts in turns:
        spans: list[Span] = []
        for index, act in enumerate(acts):
            trace = repr((acts[0].script.conversation_id, acts[0].script.agent_name, acts[0].start_ns))
            failure = error(act)
            written_span = span(
                name(act),
                parent=None if act.parent is None else spans[act.parent],
                trace=trace,
                span_id=f"{trace} {index}",
                start_ns=act.start_ns,
                end_ns=act.end_ns,
                status=StatusCode.UNSET if failure is None else StatusCode.ERROR,
                status_message=failure or "",
                attributes=attributes(act),
                events=events(act),
                service=act.script.service,
                environment=act.script.environment,
                scope=scope if isinstance(scope, str) else scope(act),
            )
            spans.append(written_span)
            written.append((act, written_span))
    return written


def bare_error(act: Act) -> str | None:
    """Return the error of an act without its type, None if it did not fail."""
    return act.error and (act.error.partition(": ")[2] or act.error)


def exception_events(act: Act) -> tuple[SpanEvent, ...]:
    """Return the exception event of an act that failed."""
    if act.error is None:
        return ()
    kind, _, message = act.error.partition(": ")
    fields = {"exception.type": kind, "exception.message": message or act.error}
    return (event("exception", fields, time_ns=act.end_ns),)


#: The location of content: attributes as JSON text or structured values; one span event or one log record per model call; one
#: log record per message (the names of 1.36); nowhere.
GenAIStyle = Literal["text", "structured", "events", "logs", "per_message", "none"]

_DETAILS: Final = "gen_ai.client.inference.operation.details"
_OPERATIONS: Final = {"run": "invoke_agent", "model": "chat", "tool": "execute_tool"}
_MODEL: Final = "scripted-1"


def speak_genai(script: AgentRunScript, style: GenAIStyle = "text", *, start_ns: int = NOON_NS) -> SpanBatch:
    """Return a script as GenAI spans and log records.

    Args:
        script: the agent's actions.
        style: the location of content. Styles other than `text` and `structured` leave agent and tool spans without content.
        start_ns: its start, ns since the epoch.
    """
    written = spans_of(
        play(script, start_ns=start_ns),
        name=_name,
        attributes=lambda act: {**_identity(act), **_content(act, style)},
        events=lambda act: _events(act, style),
        scope="otel_agentic.testing.genai",
    )
    logs = [log for act, written_span in written for log in _logs(act, written_span, style)]
    return SpanBatch(spans=tuple(written_span for _, written_span in written), logs=tuple(logs))


def _name(act: Act) -> str:
    what = {"run": act.script.agent_name, "model": _MODEL, "tool": act.call.name if act.call else ""}[act.does]
    return f"{_OPERATIONS[act.does]} {what}"


def _identity(act: Act) -> dict[str, Any]:
    attributes: dict[str, Any] = {"gen_ai.operation.name": _OPERATIONS[act.does]}
    if act.error is not None:
        attributes["error.type"] = act.error.partition(":")[0]
    if act.call is not None:
        # In current releases tool spans have no conversation id.
        return {**attributes, "gen_ai.tool.name": act.call.name, "gen_ai.tool.call.id": act.call_id}
    if act.does == "run":
        attributes["gen_ai.agent.name"] = act.script.agent_name
    else:
        attributes["gen_ai.request.model"] = _MODEL
    if act.script.conversation_id is not None:
        attributes["gen_ai.conversation.id"] = act.script.conversation_id
    return attributes


def _content(act: Act, style: GenAIStyle) -> dict[str, Any]:
    if style not in {"text", "structured"}:
        return {}
    if act.call is None:
        messages = _messages(act)
        return {key: json_text(value) for key, value in messages.items()} if style == "text" else messages
    write = value_text if style == "text" else _same
    attributes = {"gen_ai.tool.call.arguments": write(dict(act.call.arguments))}
    if act.error is None and act.call.result is not None:
        attributes["gen_ai.tool.call.result"] = write(act.call.result)
    return attributes


def _events(act: Act, style: GenAIStyle) -> tuple[SpanEvent, ...]:
    if style != "events" or act.does != "model":
        return ()
    fields = {key: json_text(value) for key, value in _messages(act).items()}
    return (event(_DETAILS, fields, time_ns=act.end_ns),)


def _logs(act: Act, owner: Span, style: GenAIStyle) -> list[LogRecord]:
    if act.does != "model":
        return []
    if style == "logs":
        return [log_record(owner, _DETAILS, attributes=_messages(act))]
    if style == "per_message":
        return _per_message(act, owner)
    return []


def _messages(act: Act) -> dict[str, Any]:
    attributes = {"gen_ai.input.messages": [genai_message(message) for message in act.messages_in]}
    if act.messages_out is not None:
        attributes["gen_ai.output.messages"] = [{**genai_message(m), "finish_reason": "stop"} for m in act.messages_out]
    return attributes


def genai_message(message: Message) -> dict[str, Any]:
    """Return a message with its parts."""
    return {"role": message.role, "parts": [genai_part(part) for part in message.parts]}


def genai_part(part: Part) -> dict[str, Any]:
    """Return a part of a message."""
    if isinstance(part, CallRequest):
        return {"type": "tool_call", "id": part.call_id, "name": part.name, "arguments": dict(part.arguments or {})}
    if isinstance(part, CallResult):
        return {"type": "tool_call_response", "id": part.call_id, "response": part.result}
    return {"type": "text", "content": part.content if isinstance(part, Text) else ""}


def _per_message(act: Act, owner: Span) -> list[LogRecord]:
    """Return one record per message, in order, all with the time of the call, as in real records."""
    records: list[tuple[str, Mapping[str, Any]]] = [_entry(message) for message in act.messages_in]
    for index, message in enumerate(act.messages_out or ()):
        name, fields = _entry(message)
        records.append(
            ("gen_ai.choice", {"index": index, "finish_reason": "stop", "message": {"role": name, **fields}})
        )
    return [
        log_record(owner, name, body, attributes={"gen_ai.message.index": index})
        for index, (name, body) in enumerate(records)
    ]


def _entry(message: Message) -> tuple[str, dict[str, Any]]:
    if message.results:
        result = message.results[0]
        return "gen_ai.tool.message", {"id": result.call_id, "content": value_text(result.result)}
    fields: dict[str, Any] = {} if message.text is None else {"content": message.text}
    if message.requests:
        fields["tool_calls"] = openai_calls(message.requests)
    return f"gen_ai.{message.role}.message", fields


def openai_calls(requests: Sequence[CallRequest]) -> list[dict[str, Any]]:
    """Return requests in the shape of OpenAI's `tool_calls`."""
    return [
        {
            "id": request.call_id,
            "type": "function",
            "function": {"name": request.name, "arguments": json_text(dict(request.arguments or {}))},
        }
        for request in requests
    ]


def _same(value: Any) -> Any:
    return value
