"""The spans that the benchmarks use, and a printer for tables of CPU times."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

if TYPE_CHECKING:
    from opentelemetry.proto.trace.v1.trace_pb2 import ScopeSpans

SPANS_A_CONVERSATION: Final = 4
_BEGAN_NS: Final = 1_760_000_000_000_000_000
_SECOND_NS: Final = 1_000_000_000


def request(first: int, conversations: int) -> ExportTraceServiceRequest:
    """Return conversations, numbered from `first`, with four spans each: a run, two model calls and a tool call."""
    message = ExportTraceServiceRequest()
    block = message.resource_spans.add()
    block.resource.attributes.add(key="service.name").value.string_value = "benchmark"
    scope = block.scope_spans.add()
    scope.scope.name = "benchmark"
    for number in range(first, first + conversations):
        _conversation(scope, number)
    return message


def _conversation(scope: ScopeSpans, number: int) -> None:
    name = f"conversation-{number}"
    question = {"role": "user", "parts": [{"type": "text", "content": f"Where is order {number}?"}]}
    call = {"type": "tool_call", "id": f"call-{number}", "name": "find_order", "arguments": {"order": number}}
    result = {"type": "tool_call_response", "id": f"call-{number}", "response": "in the post"}
    answer = {"role": "assistant", "parts": [{"type": "text", "content": "It is in the post."}]}
    wish = {"role": "assistant", "parts": [call]}
    run = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "clerk", "gen_ai.conversation.id": name}
    first = {"gen_ai.input.messages": json.dumps([question]), "gen_ai.output.messages": json.dumps([wish])}
    second = {
        "gen_ai.input.messages": json.dumps([question, wish, {"role": "tool", "parts": [result]}]),
        "gen_ai.output.messages": json.dumps([answer]),
    }
    tool = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "find_order",
        "gen_ai.tool.call.id": f"call-{number}",
        "gen_ai.tool.call.arguments": json.dumps({"order": number}),
        "gen_ai.tool.call.result": "in the post",
    }
    _span(scope, number, 0, "invoke_agent clerk", run)
    _span(scope, number, 1, "chat m", {"gen_ai.operation.name": "chat", **first})
    _span(scope, number, 2, "execute_tool find_order", tool)
    _span(scope, number, 3, "chat m", {"gen_ai.operation.name": "chat", **second})


def _span(scope: ScopeSpans, number: int, index: int, name: str, attributes: Mapping[str, str]) -> None:
    begins_ns = _BEGAN_NS + (number * SPANS_A_CONVERSATION + index) * _SECOND_NS
    span = scope.spans.add(
        trace_id=(number + 1).to_bytes(16, "big"),
        span_id=(index + 1).to_bytes(8, "big"),
        name=name,
        kind=1,
        start_time_unix_nano=begins_ns,
        end_time_unix_nano=begins_ns + _SECOND_NS // 2,
    )
    if index:
        span.parent_span_id = (1).to_bytes(8, "big")
    for key, value in attributes.items():
        span.attributes.add(key=key).value.string_value = value


def show(times_s: Mapping[str, float], spans: int) -> None:
    """Print each CPU time per span and its ratio to the first."""
    base = next(iter(times_s.values()))
    for name, spent_s in times_s.items():
        print(f"{name:<48} {spent_s / spans * 1e6:8.2f} us CPU a span   x {spent_s / base:5.2f}")
