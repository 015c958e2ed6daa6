"""The Messages interface of Anthropic: requests -> messages, replies -> responses and stream events.

Tool results come back in messages of the user, and calls are parts of the content.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tools.capture_generators.script import MODEL, Message, Reply
from tools.capture_generators.wire_chat import text_of


def messages(request: dict[str, Any]) -> list[Message]:
    """Return the messages of a request; each tool result is one."""
    return [part for message in request["messages"] for part in _messages_of(message)]


def _messages_of(message: dict[str, Any]) -> list[Message]:
    content = message["content"]
    parts = content if isinstance(content, list) else []
    results = [Message("tool", text_of(part.get("content"))) for part in parts if part.get("type") == "tool_result"]
    return results or [Message(message["role"], text_of(content))]


def response(request: dict[str, Any], reply: Reply, number: int) -> dict[str, Any]:
    """Return the response body."""
    usage = {"input_tokens": 12 * len(request["messages"]), "output_tokens": 9 * max(1, len(reply.calls))}
    return {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": MODEL,
        "content": _content(reply),
        "stop_reason": "tool_use" if reply.calls else "end_turn",
        "stop_sequence": None,
        "usage": usage,
    }


def events(request: dict[str, Any], reply: Reply, number: int) -> Iterator[tuple[str, str]]:
    """Yield type and data of each stream event."""
    complete = response(request, reply, number)
    begun = {**complete, "content": [], "stop_reason": None}
    sequence: list[tuple[str, dict[str, Any]]] = [("message_start", {"message": begun})]
    for index, part in enumerate(complete["content"]):
        sequence += _part_events(index, part)
    stop = {"stop_reason": complete["stop_reason"], "stop_sequence": None}
    sequence += [("message_delta", {"delta": stop, "usage": complete["usage"]}), ("message_stop", {})]
    for kind, data in sequence:
        yield kind, json.dumps({"type": kind, **data})


def _content(reply: Reply) -> list[dict[str, Any]]:
    calls = [
        {"type": "tool_use", "id": call_id, "name": call.name, "input": call.arguments} for call_id, call in reply.calls
    ]
    return calls or [{"type": "text", "text": reply.text, "citations": None}]


def _part_events(index: int, part: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    where = {"index": index}
    if part["type"] == "tool_use":
        begun, text = {**part, "input": {}}, json.dumps(part["input"], ensure_ascii=False)
        deltas = [{"type": "input_json_delta", "partial_json": half} for half in _halves(text)]
    else:
        begun = {**part, "text": ""}
        deltas = [{"type": "text_delta", "text": half} for half in _halves(part["text"])]
    yield "content_block_start", {**where, "content_block": begun}
    for delta in deltas:
        yield "content_block_delta", {**where, "delta": delta}
    yield "content_block_stop", where


def _halves(text: str) -> tuple[str, str]:
    return text[: len(text) // 2], text[len(text) // 2 :]
