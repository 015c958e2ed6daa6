"""A script as the decorators of OpenLLMetry and its OpenAI instrumentation write it, before and after the GenAI names."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, Literal

from otel_agentic.spans.model import SpanBatch
from otel_agentic.testing.builders import NOON_NS
from otel_agentic.testing.genai import bare_error, exception_events, openai_calls, spans_of
from otel_agentic.testing.script import in_workflow, play

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_agentic.dialects.events import Message
    from otel_agentic.testing.script import Act, AgentRunScript

#: `old` flattens messages (releases around 0.40), `new` writes GenAI messages (releases around 0.60).
OpenLLMetryForm = Literal["old", "new"]

_KINDS: Final = {"frame": "workflow", "run": "agent", "tool": "tool"}
_WORKFLOW: Final = "chat_turn"
_MODEL: Final = "scripted-1"
_SYSTEM: Final = "You are a helpful assistant."
_DECORATORS: Final = "traceloop.tracer"
_INSTRUMENTATION: Final = "opentelemetry.instrumentation.openai.v1"


def speak_openllmetry(script: AgentRunScript, form: OpenLLMetryForm = "new", *, start_ns: int = NOON_NS) -> SpanBatch:
    """Return a script as OpenLLMetry spans: `@workflow` around `@agent` with model calls and `@tool`s.

    Tool spans have no call id. A sub-agent without a conversation id of its own has that of its caller, because the SDK passes
    it on.

    Args:
        script: the agent's actions.
        form: the form of messages and of the conversation id.
        start_ns: its start, ns since the epoch.
    """
    written = spans_of(
        [in_workflow(acts) for acts in play(script, start_ns=start_ns)],
        name=_name,
        attributes=lambda act: {**_identity(act, script, form), **_content(act, form)},
        events=exception_events,
        scope=lambda act: _INSTRUMENTATION if act.does == "model" else _DECORATORS,
        error=bare_error,
    )
    return SpanBatch(spans=tuple(written_span for _, written_span in written))


def _name(act: Act) -> str:
    return "openai.chat" if act.does == "model" else f"{_entity(act)}.{_KINDS[act.does]}"


def _entity(act: Act) -> str:
    if act.call is not None:
        return act.call.name
    return _WORKFLOW if act.does == "frame" else act.script.agent_name


def _identity(act: Act, script: AgentRunScript, form: OpenLLMetryForm) -> dict[str, Any]:
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
        attributes |= {"traceloop.span.kind": _KINDS[act.does], "traceloop.entity.name": _entity(act)}
    if act.call is not None and form == "new":
        attributes["gen_ai.tool.name"] = act.call.name
    return attributes


def _content(act: Act, form: OpenLLMetryForm) -> dict[str, Any]:
    if act.does == "model":
        return _flattened(act) if form == "old" else _messages(act)
    if act.call is not None:
        return _entity_content([], dict(act.call.arguments), None if act.error else act.call.result)
    query = act.messages_in[-1].text
    # The application passes its history; a sub-agent gets only its task.
    inputs = [query] if act.inside else [query, [_system(), *(_openai(message) for message in act.history)]]
    return _entity_content(inputs, {}, act.messages_out[0].text if act.messages_out else None)


def _entity_content(args: Sequence[Any], kwargs: dict[str, Any], output: Any) -> dict[str, Any]:
    attributes = {"traceloop.entity.input": json.dumps({"args": args, "kwargs": kwargs})}
    if output is not None:
        attributes["traceloop.entity.output"] = json.dumps(output)
    return attributes


def _flattened(act: Act) -> dict[str, Any]:
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


def _messages(act: Act) -> dict[str, Any]:
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
    """Return a value as the application sends it to the model: text as it is, other values as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
