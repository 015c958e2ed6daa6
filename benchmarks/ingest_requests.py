"""The requests that `benchmarks.ingest` sends: generated and recorded ones."""

from __future__ import annotations

import base64
import gzip
import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import orjson
from google.protobuf.json_format import MessageToDict, ParseDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

BATCH: Final = 512
_BEGAN_NS: Final = 1_760_000_000_000_000_000
_MAKERS: Final = "bcdfghjklmnprstvw"
_VOWELS: Final = "aeiou"


def requests(spans: int) -> list[bytes]:
    """Return requests of 2 KB spans; no two spans share a text."""
    rng = random.Random(6)  # noqa: S311 — no secret
    words = ["".join(rng.choice(_MAKERS) + rng.choice(_VOWELS) for _ in range(rng.randint(1, 4))) for _ in range(3000)]
    return [_request(rng, words, first).SerializeToString() for first in range(0, spans, BATCH)]


def _request(rng: random.Random, words: Sequence[str], first: int) -> ExportTraceServiceRequest:
    message = ExportTraceServiceRequest()
    block = message.resource_spans.add()
    block.resource.attributes.add(key="service.name").value.string_value = "ingest"
    part = block.scope_spans.add()
    part.scope.name = "ingest"
    for number in range(first, first + BATCH):
        began_ns = _BEGAN_NS + number * 1_000_000
        span = part.spans.add(
            trace_id=rng.randbytes(16),
            span_id=rng.randbytes(8),
            name="chat m",
            kind=3,
            start_time_unix_nano=began_ns,
            end_time_unix_nano=began_ns + 500_000,
        )
        for key, value in _attributes(rng, words, number).items():
            held = span.attributes.add(key=key).value
            if isinstance(value, str):
                held.string_value = value
            else:
                held.int_value = value
    return message


def _attributes(rng: random.Random, words: Sequence[str], number: int) -> dict[str, str | int]:
    def message(role: str, count: int) -> str:
        text = " ".join(rng.choices(words, k=count))
        return json.dumps([{"role": role, "parts": [{"type": "text", "content": text}]}])

    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.conversation.id": f"conversation-{number // 8}",
        "gen_ai.agent.name": "clerk",
        "gen_ai.request.model": "m",
        "gen_ai.response.id": rng.randbytes(8).hex(),
        "gen_ai.input.messages": message("user", 145),
        "gen_ai.output.messages": message("assistant", 95),
        "gen_ai.usage.input_tokens": rng.randrange(1000),
        "gen_ai.usage.output_tokens": rng.randrange(1000),
    }


def as_json(request: bytes) -> bytes:
    """Return a request as OTLP/JSON, which is protobuf's JSON with hex ids."""
    payload: dict[str, Any] = MessageToDict(ExportTraceServiceRequest.FromString(request), use_integers_for_enums=True)
    raws = ExportTraceServiceRequest.FromString(request).resource_spans[0].scope_spans[0].spans
    for span, raw in zip(payload["resourceSpans"][0]["scopeSpans"][0]["spans"], raws, strict=True):
        span["traceId"], span["spanId"] = raw.trace_id.hex(), raw.span_id.hex()
    return orjson.dumps(payload)


def recorded(file: Path, copies: int) -> list[bytes]:
    """Return recorded OTLP/JSON lines as protobuf requests, repeated with different ids."""
    bodies = []
    for copy in range(copies):
        for line in gzip.decompress(file.read_bytes()).splitlines():
            payload = orjson.loads(line)
            for block in payload["resourceSpans"]:
                for span in (span for part in block["scopeSpans"] for span in part["spans"]):
                    for key in span.keys() & {"traceId", "spanId", "parentSpanId"}:
                        raw = bytes.fromhex(span[key])
                        span[key] = base64.b64encode(bytes([raw[0] ^ copy]) + raw[1:]).decode()
            bodies.append(ParseDict(payload, ExportTraceServiceRequest()).SerializeToString())
    return bodies
