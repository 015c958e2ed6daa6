"""Traces to be made hostile: an agent's run with one tool call, in protobuf and in JSON."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, Final

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from otel_agentic.testing import NOON_NS, SECOND_NS
from tests.spans.test_spans_decoders_agree import to_otlp_json

if TYPE_CHECKING:
    from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
    from opentelemetry.proto.trace.v1.trace_pb2 import Span

QUERY: Final = "Where is my parcel?"
ANSWER: Final = "It is on its way."


class Trace:
    """One trace: span 0 is the agent's run, span 1 a tool call of it; more may be added, and all be changed."""

    def __init__(self, name: str, *, trace_id: bytes | None = None, conversation: str | None = None) -> None:
        """Make a trace whose ids follow from its name."""
        self.trace_id = trace_id or hashlib.blake2b(name.encode(), digest_size=16).digest()
        self.conversation = conversation or f"of {self.trace_id.hex()}"
        self.request = ExportTraceServiceRequest()
        self.block = self.request.resource_spans.add()
        set_value(self.block.resource.attributes.add(key="service.name").value, "desk")
        self.part = self.block.scope_spans.add()
        self.part.scope.name = "opentelemetry.instrumentation.desk"
        stated = [{"role": "user", "parts": [{"type": "text", "content": QUERY}]}]
        message = [{"role": "assistant", "parts": [{"type": "text", "content": ANSWER}], "finish_reason": "stop"}]
        self.root = self.add(
            "invoke_agent desk",
            attributes={
                "gen_ai.operation.name": "invoke_agent",
                "gen_ai.agent.name": "desk",
                "gen_ai.conversation.id": self.conversation,
                "gen_ai.input.messages": json.dumps(stated),
                "gen_ai.output.messages": json.dumps(message),
            },
        )
        self.tool = self.add(
            "execute_tool look",
            parent=0,
            attributes={
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": "look",
                "gen_ai.tool.call.id": "c",
            },
        )

    def add(self, name: str, *, parent: int | None = None, attributes: dict[str, Any] | None = None) -> Span:
        """Return a span more, with the next id and a start one millisecond after the one before."""
        at = len(self.part.spans)
        start_ns = NOON_NS + at * SECOND_NS // 1000
        span = self.part.spans.add(trace_id=self.trace_id, span_id=span_id(at), name=name)
        span.start_time_unix_nano, span.end_time_unix_nano = start_ns, start_ns + SECOND_NS
        if parent is not None:
            span.parent_span_id = span_id(parent)
        for key, value in (attributes or {}).items():
            set_value(span.attributes.add(key=key).value, value)
        return span

    def set_value(self, value: Any, key: str = "x") -> Trace:
        """Return itself with an attribute of the tool call more."""
        set_value(self.attribute(key).value, value)
        return self

    def attribute(self, key: str = "x") -> KeyValue:
        """Return an attribute of the tool call, to be filled."""
        added: KeyValue = self.tool.attributes.add(key=key)
        return added

    @property
    def protobuf(self) -> bytes:
        """The request in protobuf."""
        return self.request.SerializeToString()

    @property
    def json(self) -> bytes:
        """The request in OTLP/JSON."""
        return to_otlp_json(self.request)


def span_id(at: int) -> bytes:
    """Return the id of the span with a number."""
    return (at + 1).to_bytes(8, "big")


def set_value(target: AnyValue, value: Any) -> None:
    """Write a plain value into an AnyValue."""
    match value:
        case bool():
            target.bool_value = value
        case int():
            target.int_value = value
        case float():
            target.double_value = value
        case str():
            target.string_value = value
        case bytes():
            target.bytes_value = value
        case list():
            target.array_value.SetInParent()
            for item in value:
                set_value(target.array_value.values.add(), item)
        case dict():
            target.kvlist_value.SetInParent()
            for key, item in value.items():
                set_value(target.kvlist_value.values.add(key=key).value, item)


def nested(levels: int) -> Any:
    """Return a text inside of so many lists."""
    value: Any = "deep"
    for _ in range(levels):
        value = [value]
    return value


def nested_json(levels: int) -> bytes:
    """Return the AnyValue of `nested` in OTLP/JSON; no protobuf and no encoder makes it that deep."""
    opening, closing = b'{"arrayValue":{"values":[', b"]}}"
    return opening * levels + b'{"stringValue":"deep"}' + closing * levels
