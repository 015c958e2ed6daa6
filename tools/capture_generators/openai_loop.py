"""The agent that people write by hand: a loop around the OpenAI client. Also the JSON schemas of the tools."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, get_type_hints

from tools.capture_generators.script import MODEL
from tools.capture_generators.story import INSTRUCTIONS, TOOLS

_SHAPES: Final[dict[Any, dict[str, Any]]] = {
    float: {"type": "number"},
    int: {"type": "integer"},
    str: {"type": "string"},
    list[str]: {"type": "array", "items": {"type": "string"}},
    dict[str, Any]: {"type": "object", "additionalProperties": True},
}


def tool_schema(tool: Callable[..., Any]) -> dict[str, Any]:
    """Return name, description and the JSON schema of a tool's parameters."""
    hints = get_type_hints(tool)
    hints.pop("return", None)
    properties = {name: _SHAPES[kind] for name, kind in hints.items()}
    parameters = {"type": "object", "properties": properties, "required": [*hints], "additionalProperties": False}
    return {"name": tool.__name__, "description": (inspect.getdoc(tool) or "").split("\n")[0], "parameters": parameters}


def named(tools: Iterable[Callable[..., Any]]) -> dict[str, Callable[..., Any]]:
    """Return the tools by the names of the story, for tools that a framework has wrapped one by one."""
    return {plain.__name__: tool for plain, tool in zip(TOOLS, tools, strict=True)}


def opening() -> list[dict[str, Any]]:
    """Return the messages before the first query."""
    return [{"role": "system", "content": INSTRUCTIONS}]


def ask(client: Any, messages: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the model's message after these."""
    functions: list[Any] = [{"type": "function", "function": tool_schema(tool)} for tool in TOOLS]
    completion = client.chat.completions.create(model=MODEL, messages=messages, tools=functions)
    message: dict[str, Any] = completion.choices[0].message.model_dump(exclude_none=True)
    return message


def ask_streaming(client: Any, messages: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the model's message after these, put together from a stream."""
    functions: list[Any] = [{"type": "function", "function": tool_schema(tool)} for tool in TOOLS]
    chunks = client.chat.completions.create(model=MODEL, messages=messages, tools=functions, stream=True)
    text, calls = "", dict[int, dict[str, Any]]()
    for chunk in chunks:
        for delta in (choice.delta for choice in chunk.choices):
            text += delta.content or ""
            for part in delta.tool_calls or ():
                call = calls.setdefault(
                    part.index, {"id": "", "type": "function", "function": {"name": "", "arguments": ""}}
                )
                call["id"] += part.id or ""
                call["function"]["name"] += part.function.name or ""
                call["function"]["arguments"] += part.function.arguments or ""
    message: dict[str, Any] = {"role": "assistant"}
    return {**message, "tool_calls": list(calls.values())} if calls else {**message, "content": text}


def answered(
    messages: list[dict[str, Any]],
    ask_model: Callable[[list[dict[str, Any]]], dict[str, Any]],
    tools: Mapping[str, Callable[..., Any]],
) -> str:
    """Return the answer to the last message; the calls and results before it are added to `messages`."""
    while True:
        message = ask_model(messages)
        messages.append(message)
        if not message.get("tool_calls"):
            return str(message["content"])
        messages += [_tool_message(call, tools) for call in message["tool_calls"]]


def _tool_message(call: dict[str, Any], tools: Mapping[str, Callable[..., Any]]) -> dict[str, Any]:
    function = call["function"]
    try:
        result = tools[function["name"]](**json.loads(function["arguments"]))
        content = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)
    except ValueError as error:
        content = f"Error: {error}"
    return {"role": "tool", "tool_call_id": call["id"], "content": content}
