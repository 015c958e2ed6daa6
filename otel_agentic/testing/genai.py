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
    """Return a value as tools write it: text as it is, anything else as JSON."""
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
    """Return the acts of a script with their spans, one trace a turn.

    `error` says with which status message an act failed, None that it did not.
    """
    written: list[tuple[Act, Span]] = []
    for acts in turns:
        spans: list[Span] = []
        for index, act in enumerate(acts):
            trace = repr((acts[0].script.conversation_id, acts[0].script.agent_name, acts[0].start_ns))
            failure = error(act)
            found = span(
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
            spans.append(found)
            written.append((act, found))
    return written


def bare_error(act: Act) -> str | None:
    """Return why an act failed without the error's type, None when it did not."""
    return act.error and (act.error.partition(": ")[2] or act.error)


def exception_events(act: Act) -> tuple[SpanEvent, ...]:
    """Return the exception event of an act that failed."""
    if act.error is None:
        return ()
    kind, _, message = act.error.partition(": ")
    fields = {"exception.type": kind, "exception.message": message or act.error}
    return (event("exception", fields, time_ns=act.end_ns),)


#: Where content stands: attributes as JSON text or structured values; one span event or one log record per model call;
#: one log record per message (the names of 1.36); nowhere.
GenAIStyle = Literal["text", "structured", "events", "logs", "per_message", "none"]

_DETAILS: Final = "gen_ai.client.inference.operation.details"
_OPERATIONS: Final = {"run": "invoke_agent", "model": "chat", "tool": "execute_tool"}
_MODEL: Final = "scripted-1"


def speak_genai(script: AgentRunScript, style: GenAIStyle = "text", *, start_ns: int = NOON_NS) -> SpanBatch:
    """Return a script as GenAI spans and log records.

    Args:
        script: what the agent did.
        style: where the content stands. Styles other than `text` and `structured` leave agent and tool spans bare.
        start_ns: when it began, ns since the epoch.
    """
    written = spans_of(
        play(script, start_ns=start_ns),
        name=_name,
        attributes=lambda act: {**_identity(act), **_content(act, style)},
        events=lambda act: _events(act, style),
        scope="otel_agentic.testing.genai",
    )
    logs = [log for act, found in written for log in _logs(act, found, style)]
    return SpanBatch(spans=tuple(found for _, found in written), logs=tuple(logs))


def _name(act: Act) -> str:
    what = {"run": act.script.agent_name, "model": _MODEL, "tool": act.made.name if act.made else ""}[act.does]
    return f"{_OPERATIONS[act.does]} {what}"


def _identity(act: Act) -> dict[str, Any]:
    found: dict[str, Any] = {"gen_ai.operation.name": _OPERATIONS[act.does]}
    if act.error is not None:
        found["error.type"] = act.error.partition(":")[0]
    if act.made is not None:
        # The conversation id is no attribute of tool spans in the releases in use.
        return {**found, "gen_ai.tool.name": act.made.name, "gen_ai.tool.call.id": act.call_id}
    if act.does == "run":
        found["gen_ai.agent.name"] = act.script.agent_name
    else:
        found["gen_ai.request.model"] = _MODEL
    if act.script.conversation_id is not None:
        found["gen_ai.conversation.id"] = act.script.conversation_id
    return found


def _content(act: Act, style: GenAIStyle) -> dict[str, Any]:
    if style not in {"text", "structured"}:
        return {}
    if act.made is None:
        messages = _messages(act)
        return {key: json_text(value) for key, value in messages.items()} if style == "text" else messages
    write = value_text if style == "text" else _same
    found = {"gen_ai.tool.call.arguments": write(dict(act.made.arguments))}
    if act.error is None and act.made.result is not None:
        found["gen_ai.tool.call.result"] = write(act.made.result)
    return found


def _events(act: Act, style: GenAIStyle) -> tuple[SpanEvent, ...]:
    if style != "events" or act.does != "model":
        return ()
    fields = {key: json_text(value) for key, value in _messages(act).items()}
    return (event(_DETAILS, fields, time_ns=act.end_ns),)


def _logs(act: Act, found: Span, style: GenAIStyle) -> list[LogRecord]:
    if act.does != "model":
        return []
    if style == "logs":
        return [log_record(found, _DETAILS, attributes=_messages(act))]
    if style == "per_message":
        return _per_message(act, found)
    return []


def _messages(act: Act) -> dict[str, Any]:
    found = {"gen_ai.input.messages": [genai_message(message) for message in act.messages_in]}
    if act.messages_out is not None:
        found["gen_ai.output.messages"] = [{**genai_message(m), "finish_reason": "stop"} for m in act.messages_out]
    return found


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


def _per_message(act: Act, found: Span) -> list[LogRecord]:
    """Return one record per message, in order; they all carry the time of the call, as real ones do."""
    said: list[tuple[str, Mapping[str, Any]]] = [_entry(message) for message in act.messages_in]
    for index, message in enumerate(act.messages_out or ()):
        name, fields = _entry(message)
        said.append(("gen_ai.choice", {"index": index, "finish_reason": "stop", "message": {"role": name, **fields}}))
    return [
        log_record(found, name, body, attributes={"gen_ai.message.index": index})
        for index, (name, body) in enumerate(said)
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
