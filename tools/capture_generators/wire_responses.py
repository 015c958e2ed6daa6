"""Responses: requests -> messages, replies -> responses and stream events."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tools.capture_generators.script import MODEL, Message, Reply
from tools.capture_generators.wire_chat import text_of

_CREATED = 1_700_000_000


def messages(request: dict[str, Any]) -> list[Message]:
    """Return the messages of a request; only new items where the server keeps the conversation."""
    items = request["input"]
    if isinstance(items, str):
        return [Message("user", items)]
    return [_message_of(item) for item in items]


def _message_of(item: dict[str, Any]) -> Message:
    if item.get("type") == "function_call_output":
        return Message("tool", text_of(item.get("output")))
    return Message(item.get("role", "assistant"), text_of(item.get("content")))


def response(request: dict[str, Any], reply: Reply, number: int) -> dict[str, Any]:
    """Return the response body."""
    read, written = 12 * len(messages(request)), 9 * max(1, len(reply.calls))
    details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    return {
        **_head(request, number),
        "status": "completed",
        "output": _items(reply, number),
        "usage": {"input_tokens": read, "output_tokens": written, "total_tokens": read + written, **details},
    }


def events(request: dict[str, Any], reply: Reply, number: int) -> Iterator[tuple[str, str]]:
    """Yield type and data of each stream event."""
    begun = {**_head(request, number), "status": "in_progress", "output": [], "usage": None}
    sequence: list[tuple[str, dict[str, Any]]] = [("response.created", {"response": begun})]
    for index, item in enumerate(_items(reply, number)):
        sequence += _item_events(index, item)
    sequence.append(("response.completed", {"response": response(request, reply, number)}))
    for order, (kind, data) in enumerate(sequence):
        yield kind, json.dumps({"type": kind, "sequence_number": order, **data})


def _head(request: dict[str, Any], number: int) -> dict[str, Any]:
    named = request.get("conversation")
    conversation = {"id": named} if isinstance(named, str) else named
    return {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": _CREATED,
        "model": MODEL,
        "error": None,
        "incomplete_details": None,
        "instructions": request.get("instructions"),
        "metadata": {},
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": request.get("tools") or [],
        "top_p": 1.0,
        "previous_response_id": request.get("previous_response_id"),
        **({"conversation": conversation} if conversation else {}),
    }


def _items(reply: Reply, number: int) -> list[dict[str, Any]]:
    if not reply.calls:
        content: dict[str, Any] = {"type": "output_text", "text": reply.text, "annotations": [], "logprobs": []}
        return [
            {"type": "message", "id": f"msg_{number}", "status": "completed", "role": "assistant", "content": [content]}
        ]
    return [
        {
            "type": "function_call",
            "id": f"fc_{number}_{index}",
            "call_id": call_id,
            "name": call.name,
            "arguments": json.dumps(call.arguments, ensure_ascii=False),
            "status": "completed",
        }
        for index, (call_id, call) in enumerate(reply.calls)
    ]


def _item_events(index: int, item: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    empty: dict[str, Any] = {"content": []} if "content" in item else {"arguments": ""}
    begun = {**item, "status": "in_progress", **empty}
    where = {"output_index": index, "item_id": item["id"]}
    yield "response.output_item.added", {"output_index": index, "item": begun}
    if "content" in item:
        yield from _text_events({**where, "content_index": 0}, item["content"][0])
    else:
        yield "response.function_call_arguments.delta", {**where, "delta": item["arguments"]}
        yield "response.function_call_arguments.done", {**where, "arguments": item["arguments"], "name": item["name"]}
    yield "response.output_item.done", {"output_index": index, "item": item}


def _text_events(where: dict[str, Any], part: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    half = len(part["text"]) // 2
    yield "response.content_part.added", {**where, "part": {**part, "text": ""}}
    yield "response.output_text.delta", {**where, "delta": part["text"][:half], "logprobs": []}
    yield "response.output_text.delta", {**where, "delta": part["text"][half:], "logprobs": []}
    yield "response.output_text.done", {**where, "text": part["text"], "logprobs": []}
    yield "response.content_part.done", {**where, "part": part}
