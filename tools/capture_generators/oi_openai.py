# mypy: ignore-errors
# The client is not installed where the types are checked.
# needs: openai==3.54.0 openinference-instrumentation-openai==0.1.66
# needs: opentelemetry-sdk==1.45.2 opentelemetry-exporter-otlp-proto-http==1.45.2
"""The bare OpenAI client under OpenInference, every model call a trace: streamed chat, and Responses in a session."""

from __future__ import annotations

import inspect
import json
from functools import partial

from openai import OpenAI

from tools.capture_generators.oi_play import KEY, Plan, in_session, instrumented, record
from tools.capture_generators.story import INSTRUCTIONS, TOOLS

_TYPES = {int: "integer", float: "number", str: "string"}


def main() -> None:
    """Record the captures. A tool result is only text, without a status."""
    openai = instrumented("openinference.instrumentation.openai:OpenAIInstrumentor")
    notes = {"framework": "openai", "not_in_data": ["error"]}
    record(Plan("openinference-openai-stream-bare", openai, partial(chat, stream=True)), id_in_telemetry=False, **notes)
    record(Plan("openinference-openai-responses-session", openai, in_session(responses)), **notes)


def chat(url, *, stream=False, tools=TOOLS):
    """Return a speaker with a loop of its own over Chat Completions."""
    client, histories = OpenAI(base_url=url, api_key=KEY), {}
    by_name = {function.__name__: function for function in tools}
    offered = [{"type": "function", "function": schema(function)} for function in TOOLS]

    def say(conversation, query):
        messages = histories.setdefault(conversation.id, [{"role": "system", "content": INSTRUCTIONS}])
        messages.append({"role": "user", "content": query})
        while True:
            message = _reply(client, messages, offered, stream=stream)
            messages.append(message)
            if not message.get("tool_calls"):
                return message["content"]
            for call in message["tool_calls"]:
                result = ran(by_name, call["function"]["name"], call["function"]["arguments"])
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})

    return say


def _reply(client, messages, offered, *, stream):
    request = {"model": "scripted-1", "messages": messages, "tools": offered}
    if not stream:
        return client.chat.completions.create(**request).choices[0].message.model_dump(exclude_none=True)
    text, calls = "", {}
    for chunk in client.chat.completions.create(**request, stream=True, stream_options={"include_usage": True}):
        for choice in chunk.choices:
            text += choice.delta.content or ""
            for part in choice.delta.tool_calls or ():
                _add(calls, part)
    return {"role": "assistant", "content": text, **({"tool_calls": list(calls.values())} if calls else {})}


def _add(calls, part):
    """Add a streamed part to the calls by index."""
    call = calls.setdefault(part.index, {"id": "", "type": "function", "function": {"name": "", "arguments": ""}})
    call["id"] = part.id or call["id"]
    call["function"]["name"] += part.function.name or ""
    call["function"]["arguments"] += part.function.arguments or ""


def responses(url):
    """Return a speaker with a loop of its own over Responses."""
    client, histories = OpenAI(base_url=url, api_key=KEY), {}
    by_name = {function.__name__: function for function in TOOLS}
    offered = [{"type": "function", "strict": False, **schema(function)} for function in TOOLS]

    def say(conversation, query):
        items = histories.setdefault(conversation.id, [])
        items.append({"role": "user", "content": query})
        while True:
            response = client.responses.create(
                model="scripted-1", instructions=INSTRUCTIONS, input=items, tools=offered
            )
            items.extend(item.model_dump(exclude_none=True) for item in response.output)
            calls = [item for item in response.output if item.type == "function_call"]
            if not calls:
                return response.output_text
            for call in calls:
                result = ran(by_name, call.name, call.arguments)
                items.append({"type": "function_call_output", "call_id": call.call_id, "output": result})

    return say


def ran(by_name, name, arguments):
    """Return the text of what a tool returns or raises."""
    try:
        return json.dumps(by_name[name](**json.loads(arguments)), ensure_ascii=False)
    except ValueError as error:
        return f"Failed: {error}"


def schema(function):
    """Return name, description and parameters of a tool."""
    properties = {
        name: _type(parameter.annotation) for name, parameter in inspect.signature(function).parameters.items()
    }
    parameters = {"type": "object", "properties": properties, "required": list(properties)}
    return {"name": function.__name__, "description": inspect.getdoc(function), "parameters": parameters}


def _type(annotation):
    if annotation in _TYPES:
        return {"type": _TYPES[annotation]}
    return {"type": "array", "items": {"type": "string"}} if annotation == list[str] else {"type": "object"}


if __name__ == "__main__":
    main()
