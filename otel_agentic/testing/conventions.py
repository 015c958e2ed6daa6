"""Scripts of agent runs as spans of the GenAI conventions, OpenInference and OpenLLMetry."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal

import orjson

from otel_agentic.dialects.events import CallRequest, CallResult, Message, Part, Text
from otel_agentic.spans.model import LogRecord, Span, SpanBatch, SpanEvent, StatusCode
from otel_agentic.testing.builders import NOON_NS, Act, AgentRunScript, event, in_workflow, log_record, play, span


def json_text(value: Any) -> str:
    """Return a value as JSON text."""
    return orjson.dumps(value).decode()


def value_text(value: Any) -> str:
    """Return a value as tools return it: text unchanged, other values as JSON."""
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
        name=_genai_name,
        attributes=lambda act: {**_genai_identity(act), **_genai_content(act, style)},
        events=lambda act: _events(act, style),
        scope="otel_agentic.testing.conventions",
    )
    logs = [log for act, written_span in written for log in _logs(act, written_span, style)]
    return SpanBatch(spans=tuple(written_span for _, written_span in written), logs=tuple(logs))


def _genai_name(act: Act) -> str:
    subject = {"run": act.script.agent_name, "model": _MODEL, "tool": act.call.name if act.call else ""}[act.does]
    return f"{_OPERATIONS[act.does]} {subject}"


def _genai_identity(act: Act) -> dict[str, Any]:
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


def _genai_content(act: Act, style: GenAIStyle) -> dict[str, Any]:
    if style not in {"text", "structured"}:
        return {}
    if act.call is None:
        messages = _genai_messages(act)
        return {key: json_text(value) for key, value in messages.items()} if style == "text" else messages
    write = value_text if style == "text" else _same
    attributes = {"gen_ai.tool.call.arguments": write(dict(act.call.arguments))}
    if act.error is None and act.call.result is not None:
        attributes["gen_ai.tool.call.result"] = write(act.call.result)
    return attributes


def _events(act: Act, style: GenAIStyle) -> tuple[SpanEvent, ...]:
    if style != "events" or act.does != "model":
        return ()
    fields = {key: json_text(value) for key, value in _genai_messages(act).items()}
    return (event(_DETAILS, fields, time_ns=act.end_ns),)


def _logs(act: Act, owner: Span, style: GenAIStyle) -> list[LogRecord]:
    if act.does != "model":
        return []
    if style == "logs":
        return [log_record(owner, _DETAILS, attributes=_genai_messages(act))]
    if style == "per_message":
        return _per_message(act, owner)
    return []


def _genai_messages(act: Act) -> dict[str, Any]:
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


_OPENINFERENCE_KINDS: Final = {"run": "AGENT", "model": "LLM", "tool": "TOOL"}


def speak_openinference(script: AgentRunScript, *, start_ns: int = NOON_NS) -> SpanBatch:
    """Return a script as OpenInference spans: flattened messages, values as text, `session.id` on every span.

    Args:
        script: the agent's actions.
        start_ns: its start, ns since the epoch.
    """
    written = spans_of(
        play(script, start_ns=start_ns),
        name=_openinference_name,
        attributes=lambda act: {**_openinference_identity(act), **_openinference_content(act)},
        events=exception_events,
        scope="openinference.instrumentation.testing",
    )
    return SpanBatch(spans=tuple(written_span for _, written_span in written))


def _openinference_name(act: Act) -> str:
    if act.call is not None:
        return act.call.name
    return act.script.agent_name if act.does == "run" else "ChatModel"


def _openinference_identity(act: Act) -> dict[str, Any]:
    attributes: dict[str, Any] = {"openinference.span.kind": _OPENINFERENCE_KINDS[act.does]}
    if act.does == "run":
        attributes["agent.name"] = act.script.agent_name
    if act.call is not None:
        attributes |= {"tool.name": act.call.name, "tool_call.id": act.call_id}
    if act.script.conversation_id is not None:
        attributes["session.id"] = act.script.conversation_id
    return attributes


def _openinference_content(act: Act) -> dict[str, Any]:
    if act.call is not None:
        attributes: dict[str, Any] = {"input.value": json_text(dict(act.call.arguments))}
        if act.error is None and act.call.result is not None:
            attributes["output.value"] = value_text(act.call.result)
        return attributes
    if act.does == "run":
        output = {"output.value": act.messages_out[0].text} if act.messages_out else {}
        return {"input.value": act.messages_in[-1].text, **output}
    return {
        **_openinference_messages("llm.input_messages", act.messages_in),
        **_openinference_messages("llm.output_messages", act.messages_out or ()),
    }


def _openinference_messages(prefix: str, messages: Sequence[Message]) -> dict[str, Any]:
    attributes: dict[str, Any] = {}
    for number, message in enumerate(messages):
        start = f"{prefix}.{number}.message"
        attributes[f"{start}.role"] = message.role
        if message.text is not None:
            attributes[f"{start}.content"] = message.text
        for result in message.results:
            attributes[f"{start}.content"] = value_text(result.result)
            attributes[f"{start}.tool_call_id"] = result.call_id
        for index, request in enumerate(message.requests):
            call = f"{start}.tool_calls.{index}.tool_call"
            attributes[f"{call}.id"] = request.call_id
            attributes[f"{call}.function.name"] = request.name
            attributes[f"{call}.function.arguments"] = json_text(dict(request.arguments or {}))
    return attributes


#: `old` flattens messages (releases around 0.40), `new` writes GenAI messages (releases around 0.60).
OpenLLMetryForm = Literal["old", "new"]

_OPENLLMETRY_KINDS: Final = {"frame": "workflow", "run": "agent", "tool": "tool"}
_WORKFLOW: Final = "chat_turn"
_SYSTEM: Final = "You are a helpful assistant."
_DECORATORS: Final = "traceloop.tracer"
_INSTRUMENTATION: Final = "opentelemetry.instrumentation.openai.v1"


def speak_openllmetry(script: AgentRunScript, form: OpenLLMetryForm = "new", *, start_ns: int = NOON_NS) -> SpanBatch:
    """Return a script as OpenLLMetry spans: `@workflow` around `@agent` with model calls and `@tool`s.

    Tool spans have no call id. A sub-agent without its own conversation id has that of its caller, because the SDK
    propagates it.

    Args:
        script: the agent's actions.
        form: the form of messages and of the conversation id.
        start_ns: its start, ns since the epoch.
    """
    written = spans_of(
        [in_workflow(acts) for acts in play(script, start_ns=start_ns)],
        name=_openllmetry_name,
        attributes=lambda act: {**_openllmetry_identity(act, script, form), **_openllmetry_content(act, form)},
        events=exception_events,
        scope=lambda act: _INSTRUMENTATION if act.does == "model" else _DECORATORS,
        error=bare_error,
    )
    return SpanBatch(spans=tuple(written_span for _, written_span in written))


def _openllmetry_name(act: Act) -> str:
    return "openai.chat" if act.does == "model" else f"{_entity(act)}.{_OPENLLMETRY_KINDS[act.does]}"


def _entity(act: Act) -> str:
    if act.call is not None:
        return act.call.name
    return _WORKFLOW if act.does == "frame" else act.script.agent_name


def _openllmetry_identity(act: Act, script: AgentRunScript, form: OpenLLMetryForm) -> dict[str, Any]:
    # In the old form the name of an inner agent overwrites that of the workflow.
    workflow = _WORKFLOW if form == "new" or act.does == "frame" else act.script.agent_name
    attributes: dict[str, Any] = {"traceloop.workflow.name": workflow}
    conversation_id = act.script.conversation_id or script.conversation_id
    if conversation_id is not None:
        key = "gen_ai.conversation.id" if form == "new" else "traceloop.association.properties.session_id"
        attributes[key] = conversation_id
    if form == "new" and act.does != "frame":
        attributes["gen_ai.agent.name"] = act.script.agent_name
    if act.inside:
        attributes["traceloop.entity.path"] = ".".join(act.inside)
    if act.does != "model":
        attributes |= {"traceloop.span.kind": _OPENLLMETRY_KINDS[act.does], "traceloop.entity.name": _entity(act)}
    if act.call is not None and form == "new":
        attributes["gen_ai.tool.name"] = act.call.name
    return attributes


def _openllmetry_content(act: Act, form: OpenLLMetryForm) -> dict[str, Any]:
    if act.does == "model":
        return _openllmetry_flattened(act) if form == "old" else _openllmetry_messages(act)
    if act.call is not None:
        return _entity_content([], dict(act.call.arguments), None if act.error else act.call.result)
    query = act.messages_in[-1].text
    # The application passes its history; a sub-agent receives only its task.
    inputs = [query] if act.inside else [query, [_system(), *(_openai(message) for message in act.history)]]
    return _entity_content(inputs, {}, act.messages_out[0].text if act.messages_out else None)


def _entity_content(args: Sequence[Any], kwargs: dict[str, Any], output: Any) -> dict[str, Any]:
    attributes = {"traceloop.entity.input": json.dumps({"args": args, "kwargs": kwargs})}
    if output is not None:
        attributes["traceloop.entity.output"] = json.dumps(output)
    return attributes


def _openllmetry_flattened(act: Act) -> dict[str, Any]:
    attributes: dict[str, Any] = {
        "llm.request.type": "chat",
        "gen_ai.system": "OpenAI",
        "gen_ai.request.model": _MODEL,
        "gen_ai.prompt.0.role": "system",
        "gen_ai.prompt.0.content": _SYSTEM,
    }
    for number, message in enumerate(act.messages_in, start=1):
        attributes |= _one_flattened(f"gen_ai.prompt.{number}", message)
    for number, message in enumerate(act.messages_out or ()):
        attributes[f"gen_ai.completion.{number}.finish_reason"] = "tool_calls" if message.requests else "stop"
        attributes |= _one_flattened(f"gen_ai.completion.{number}", message)
    return attributes


def _one_flattened(prefix: str, message: Message) -> dict[str, Any]:
    attributes: dict[str, Any] = {f"{prefix}.role": message.role}
    if message.text is not None:
        attributes[f"{prefix}.content"] = message.text
    for result in message.results:
        attributes |= {f"{prefix}.content": _model_text(result.result), f"{prefix}.tool_call_id": result.call_id}
    for index, request in enumerate(message.requests):
        call = f"{prefix}.tool_calls.{index}"
        attributes |= {f"{call}.id": request.call_id, f"{call}.name": request.name}
        attributes[f"{call}.arguments"] = _model_text(dict(request.arguments or {}))
    return attributes


def _openllmetry_messages(act: Act) -> dict[str, Any]:
    inputs = [{"role": "system", "parts": [{"content": _SYSTEM, "type": "text"}]}]
    inputs += [_with_parts(message) for message in act.messages_in]
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": _MODEL,
        "gen_ai.input.messages": json.dumps(inputs),
    }
    if act.messages_out is not None:
        outputs = [
            {**_with_parts(message), "finish_reason": "tool_call" if message.requests else "stop"}
            for message in act.messages_out
        ]
        attributes["gen_ai.output.messages"] = json.dumps(outputs)
    return attributes


def _with_parts(message: Message) -> dict[str, Any]:
    parts: list[dict[str, Any]] = [] if message.text is None else [{"content": message.text, "type": "text"}]
    parts += [
        {"type": "tool_call", "name": request.name, "id": request.call_id, "arguments": dict(request.arguments or {})}
        for request in message.requests
    ]
    parts += [
        {"type": "tool_call_response", "id": result.call_id, "response": _model_text(result.result)}
        for result in message.results
    ]
    return {"role": message.role, "parts": parts}


def _system() -> dict[str, Any]:
    return {"role": "system", "content": _SYSTEM}


def _openai(message: Message) -> dict[str, Any]:
    """Return a message as an application that calls OpenAI stores it."""
    if message.results:
        (result,) = message.results
        return {"role": "tool", "tool_call_id": result.call_id, "content": _model_text(result.result)}
    fields: dict[str, Any] = {"role": message.role, "content": message.text}
    if message.requests:
        fields["tool_calls"] = openai_calls(message.requests)
    return fields


def _model_text(value: Any) -> str:
    """Return a value as the application sends it to the model: text unchanged, other values as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
