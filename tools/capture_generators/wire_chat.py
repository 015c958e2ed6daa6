"""Chat Completions: requests -> messages, replies -> responses and stream events."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tools.capture_generators.script import MODEL, Message, Reply

_CREATED = 1_700_000_000


def messages(request: dict[str, Any]) -> list[Message]:
    """Return the messages of a request."""
    return [Message(message["role"], text_of(message.get("content"))) for message in request["messages"]]


def text_of(content: object) -> str:
    """Return the text of a message's content: text, or a list of parts."""
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) if isinstance(part, dict) else str(part) for part in content)
    return content if isinstance(content, str) else ""


def offered(request: dict[str, Any]) -> list[str]:
    """Return the names of the tools that a request offers."""
    functions = (tool.get("function", tool) for tool in request.get("tools") or ())
    return [function["name"] for function in functions if "name" in function]


def usage(request: dict[str, Any], reply: Reply) -> dict[str, Any]:
    """Return counts that depend on the request and the reply alone."""
    read, written = 12 * len(request["messages"]), 9 * max(1, len(reply.calls))
    return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}


def response(request: dict[str, Any], reply: Reply, number: int) -> dict[str, Any]:
    """Return the response body."""
    message = {"role": "assistant", "content": reply.text, **_tool_calls(reply)}
    choice = {"index": 0, "message": message, "finish_reason": _finish(reply), "logprobs": None}
    return {**_head(number, "chat.completion"), "choices": [choice], "usage": usage(request, reply)}


def events(request: dict[str, Any], reply: Reply, number: int) -> Iterator[str]:
    """Yield the data of each stream event; texts and arguments come in two pieces."""
    head = _head(number, "chat.completion.chunk")
    for delta in _deltas(reply):
        yield json.dumps({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
    yield json.dumps({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": _finish(reply)}]})
    if (request.get("stream_options") or {}).get("include_usage"):
        yield json.dumps({**head, "choices": [], "usage": usage(request, reply)})
    yield "[DONE]"


def _head(number: int, kind: str) -> dict[str, Any]:
    return {"id": f"chatcmpl-{number}", "object": kind, "created": _CREATED, "model": MODEL}


def _finish(reply: Reply) -> str:
    return "tool_calls" if reply.calls else "stop"


def _tool_calls(reply: Reply) -> dict[str, Any]:
    calls = [
        {
            "id": call_id,
            "type": "function",
            "function": {"name": call.name, "arguments": json.dumps(call.arguments, ensure_ascii=False)},
        }
        for call_id, call in reply.calls
    ]
    return {"tool_calls": calls} if calls else {}


def _deltas(reply: Reply) -> Iterator[dict[str, Any]]:
    yield {"role": "assistant", "content": "" if reply.text else None}
    for index, call in enumerate(_tool_calls(reply).get("tool_calls", ())):
        arguments = call["function"]["arguments"]
        half = len(arguments) // 2
        start = {**call, "index": index, "function": {**call["function"], "arguments": arguments[:half]}}
        yield {"tool_calls": [start]}
        yield {"tool_calls": [{"index": index, "function": {"arguments": arguments[half:]}}]}
    if reply.text:
        half = len(reply.text) // 2
        yield {"content": reply.text[:half]}
        yield {"content": reply.text[half:]}
