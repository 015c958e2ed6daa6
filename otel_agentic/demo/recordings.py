"""Recordings of the demo's agents: made once from real runs, and replayed through real OTLP exporters, shifted to now.

A recording is one `ExportTraceServiceRequest`, compressed by gzip; `python -m tools.record_demo` makes them. Spans that an
agent sent late are in a recording of their own.
"""

from __future__ import annotations

import gzip
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from otel_agentic.errors import BackendError

if TYPE_CHECKING:
    from opentelemetry.proto.trace.v1.trace_pb2 import Span
    from opentelemetry.sdk.trace.export import SpanExporter

FOLDER: Final = Path(__file__).with_name("recordings")
#: The number of spans of one request.
_BATCH: Final = 256
_SAMPLED: Final = TraceFlags(TraceFlags.SAMPLED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """The conversations and spans that an agent sent, and the spans that it delays."""

    conversations: int
    spans: int
    held_back: int


class Replay:
    """Replays the recording of a version of an agent, with fresh ids and with times that end now."""

    def __init__(
        self, agent: str, version: str, endpoint: str, exporter: Callable[[str], SpanExporter] | None = None
    ) -> None:
        """Read the recording; `exporter` returns the exporter to an endpoint, None means `exporter_to`."""
        on_time = _read(path_of(agent, version))
        late_path = path_of(agent, version, late=True)
        late = _read(late_path) if late_path.exists() else ExportTraceServiceRequest()
        shift = _Shift([*_spans(on_time), *_spans(late)])
        self._label = f"{agent} {version}"
        self._on_time, self._late = [*_readable(on_time, shift)], [*_readable(late, shift)]
        self._exporter = (exporter or exporter_to)(endpoint)

    def sent(self) -> Sent:
        """Send the spans that were on time, and return the counts.

        Raises:
            BackendError: the collector does not accept them.
        """
        self._send(self._on_time)
        conversations = len({_conversation(span) for span in self._on_time} - {None})
        return Sent(conversations=conversations, spans=len(self._on_time), held_back=len(self._late))

    def finish(self) -> None:
        """Send the late spans. Raises what `sent` raises."""
        self._send(self._late)

    def close(self) -> None:
        """Close the exporter."""
        self._exporter.shutdown()

    def _send(self, spans: Sequence[ReadableSpan]) -> None:
        for start in range(0, len(spans), _BATCH):
            if self._exporter.export(spans[start : start + _BATCH]) is not SpanExportResult.SUCCESS:
                raise BackendError(f"the collector did not accept the spans of {self._label}")


def exporter_to(endpoint: str) -> SpanExporter:
    """Return an exporter to http://host:port of OTLP/HTTP, or grpc://host:port of OTLP/gRPC."""
    scheme, _, address = endpoint.partition("://")
    if scheme == "grpc":
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter  # noqa: PLC0415 — gRPC is loaded where it is used

        return GrpcExporter(endpoint=address, insecure=True)
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter  # noqa: PLC0415 — same

    return HttpExporter(endpoint=f"{endpoint}/v1/traces")


def path_of(agent: str, version: str, *, late: bool = False) -> Path:
    """Return the file of a recording."""
    return FOLDER / f"{agent}-{version}{'.late' if late else ''}.pb.gz"


def _read(path: Path) -> ExportTraceServiceRequest:
    return ExportTraceServiceRequest.FromString(gzip.decompress(path.read_bytes()))


def _spans(request: ExportTraceServiceRequest) -> Iterator[Span]:
    for block in request.resource_spans:
        for scope_block in block.scope_spans:
            yield from scope_block.spans


class _Shift:
    """Maps the ids of a recording to fresh ones, and its times so that the last one is now."""

    def __init__(self, spans: Sequence[Span]) -> None:
        self._offset_ns = time.time_ns() - max(span.end_time_unix_nano for span in spans)
        self._trace_mask = int.from_bytes(os.urandom(16), "big")
        self._span_mask = int.from_bytes(os.urandom(8), "big")

    def time_ns(self, recorded_ns: int) -> int:
        """Return a time."""
        return recorded_ns + self._offset_ns

    def context(self, trace_id: bytes, span_id: bytes) -> SpanContext:
        """Return the context of a span."""
        return SpanContext(
            int.from_bytes(trace_id, "big") ^ self._trace_mask,
            int.from_bytes(span_id, "big") ^ self._span_mask,
            is_remote=False,
            trace_flags=_SAMPLED,
        )


def _readable(request: ExportTraceServiceRequest, shift: _Shift) -> Iterator[ReadableSpan]:
    for block in request.resource_spans:
        resource = Resource(_attributes(block.resource.attributes))
        for scope_block in block.scope_spans:
            scope = InstrumentationScope(scope_block.scope.name, scope_block.scope.version)
            for span in scope_block.spans:
                parent = shift.context(span.trace_id, span.parent_span_id) if span.parent_span_id else None
                yield ReadableSpan(
                    span.name,
                    context=shift.context(span.trace_id, span.span_id),
                    parent=parent,
                    resource=resource,
                    attributes=_attributes(span.attributes),
                    events=[
                        Event(event.name, _attributes(event.attributes), shift.time_ns(event.time_unix_nano))
                        for event in span.events
                    ],
                    links=[
                        Link(shift.context(link.trace_id, link.span_id), _attributes(link.attributes))
                        for link in span.links
                    ],
                    kind=SpanKind(max(0, span.kind - 1)),  # OTLP counts from 1, the SDK from 0
                    status=Status(StatusCode(span.status.code), span.status.message or None),
                    start_time=shift.time_ns(span.start_time_unix_nano),
                    end_time=shift.time_ns(span.end_time_unix_nano),
                    instrumentation_scope=scope,
                )


def _attributes(pairs: Any) -> dict[str, Any]:
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(element) for element in value.array_value.values]
    return getattr(value, kind)


def _conversation(span: ReadableSpan) -> Any:
    attributes = span.attributes or {}
    return attributes.get("session.id", attributes.get("gen_ai.conversation.id"))
