"""Small files of spans: one agent run a turn, tools below it, in the words of the GenAI conventions."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

SECOND_NS: Final = 1_000_000_000
#: 2026-03-02T12:00:00Z
NOON_NS: Final = 1_772_452_800 * SECOND_NS

Call = tuple[str, dict[str, Any], str]


def conversation(
    name: str,
    *,
    query: str = "Where is my order?",
    answer: str = "It arrives on Monday.",
    calls: Sequence[Call] = (),
    agent: str = "clerk",
    version: str = "1.0",
    case: str | None = None,
    content: bool = True,
    start_ns: int = NOON_NS,
    span_name: str | None = None,
) -> dict[str, Any]:
    """Return an export request with a conversation of one turn, which takes a minute."""
    trace = _hex(name, 32)
    own: dict[str, Any] = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": agent,
        "gen_ai.agent.version": version,
        "gen_ai.conversation.id": name,
    }
    if content:
        own |= {
            "gen_ai.input.messages": _messages("user", query),
            "gen_ai.output.messages": _messages("assistant", answer),
        }
    if case is not None:
        own["agentic.case.id"] = case
    end_ns = start_ns + 60 * SECOND_NS
    root = _span(trace, _hex(name, 16), span_name or f"invoke_agent {agent}", (start_ns, end_ns), own)
    tools = [_tool(name, position, call, start_ns) for position, call in enumerate(calls)]
    for span, (_, arguments, result) in zip(tools, calls, strict=True):
        output = {"gen_ai.tool.call.arguments": json.dumps(arguments), "gen_ai.tool.call.result": result}
        span["attributes"] += _attributes(output if content else {})
    return request([root, *tools])


def request(spans: Sequence[dict[str, Any]], **resource: str) -> dict[str, Any]:
    """Return an export request of spans."""
    described = {"service.name": "shop", "deployment.environment.name": "production", **resource}
    scope = {"scope": {"name": "shop-tracing"}, "spans": list(spans)}
    return {"resourceSpans": [{"resource": {"attributes": _attributes(described)}, "scopeSpans": [scope]}]}


def spans_of(exported: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the spans of an export request."""
    (resource,) = exported["resourceSpans"]
    (scope,) = resource["scopeSpans"]
    return list(scope["spans"])


def write_spans(path: Path, requests: Iterable[dict[str, Any]]) -> Path:
    """Write export requests as JSON lines, compressed if the name ends in .gz."""
    text = "".join(json.dumps(request) + "\n" for request in requests)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def write_cases(path: Path, cases: Iterable[Mapping[str, Any]]) -> Path:
    """Write cases as JSON lines."""
    path.write_text("".join(json.dumps(case) + "\n" for case in cases), encoding="utf-8")
    return path


def _tool(conversation: str, position: int, call: Call, start_ns: int) -> dict[str, Any]:
    own = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": call[0]}
    begin_ns = start_ns + (position + 1) * SECOND_NS
    times = (begin_ns, begin_ns + SECOND_NS // 2)
    created = _span(
        _hex(conversation, 32), _hex(f"{conversation}/{position}", 16), f"execute_tool {call[0]}", times, own
    )
    return {**created, "parentSpanId": _hex(conversation, 16)}


def _span(trace: str, span: str, name: str, times: tuple[int, int], attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "traceId": trace,
        "spanId": span,
        "name": name,
        "kind": 1,
        "startTimeUnixNano": str(times[0]),
        "endTimeUnixNano": str(times[1]),
        "attributes": _attributes(attributes),
    }


def _attributes(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": {"stringValue": value}} for key, value in values.items()]


def _messages(role: str, text: str) -> str:
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": text}]}])


def _hex(name: str, digits: int) -> str:
    return hashlib.sha256(name.encode()).hexdigest()[:digits]
