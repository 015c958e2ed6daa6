"""Compare our decoders (OTLP bytes to spans) with the bare parsers of the protobuf package, which build no spans."""

from __future__ import annotations

import base64

from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from benchmarks.cpu_time import best_s
from benchmarks.workload import SPANS_A_CONVERSATION, request, show
from otel_agentic.config import ReceiveSettings
from otel_agentic.spans import Limits, decode_traces, decode_traces_json

CONVERSATIONS = 1000


def main() -> None:
    """Time the decoders on the same spans."""
    limits = Limits.from_settings(ReceiveSettings())
    message = request(0, CONVERSATIONS)
    protobuf = message.SerializeToString()
    # The ids are base64, which OTLP/JSON does not allow. json_format reads only base64, and the length is similar.
    foreign_json = json_format.MessageToJson(message, indent=None).encode()
    own_json = _with_hex_ids(message, foreign_json)
    times_s = best_s(
        {
            "protobuf package, parse only": lambda: ExportTraceServiceRequest.FromString(protobuf),
            "decode_traces, protobuf to spans": lambda: decode_traces(protobuf, limits),
            "decode_traces_json, OTLP/JSON to spans": lambda: decode_traces_json(own_json, limits),
            "json_format, parse only": lambda: json_format.Parse(foreign_json, ExportTraceServiceRequest()),
        }
    )
    show(times_s, CONVERSATIONS * SPANS_A_CONVERSATION)


def _with_hex_ids(message: ExportTraceServiceRequest, document: bytes) -> bytes:
    for span in message.resource_spans[0].scope_spans[0].spans:
        for identifier in (span.trace_id, span.span_id):
            document = document.replace(b'"' + base64.b64encode(identifier) + b'"', f'"{identifier.hex()}"'.encode())
    return document


if __name__ == "__main__":
    main()
