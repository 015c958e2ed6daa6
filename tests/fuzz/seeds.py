"""What mutations begin from: one sound input of each kind for each reader."""

from __future__ import annotations

import gzip
import json
from typing import Final

import zstandard
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.spans.test_spans_decoders_agree import to_otlp_json


def _traces() -> ExportTraceServiceRequest:
    request = ExportTraceServiceRequest()
    block = request.resource_spans.add()
    block.resource.attributes.add(key="service.name").value.string_value = "desk"
    part = block.scope_spans.add()
    part.scope.name = "lib"
    span = part.spans.add(trace_id=b"\1" * 16, span_id=b"\2" * 8, parent_span_id=b"\3" * 8, name="chat", kind=3)
    span.start_time_unix_nano, span.end_time_unix_nano = 5, 9
    span.status.message = "ok"
    for key, kind, value in (
        ("a", "string_value", "text"),
        ("b", "int_value", -7),
        ("c", "double_value", 1.5),
        ("d", "bool_value", True),
        ("e", "bytes_value", b"\0\1"),
    ):
        setattr(span.attributes.add(key=key).value, kind, value)
    span.attributes.add(key="f").value.array_value.values.add().int_value = 1
    inner = span.attributes.add(key="g").value.kvlist_value.values.add(key="h").value
    inner.array_value.values.add().string_value = "x"
    span.events.add(name="e", time_unix_nano=6).attributes.add(key="k").value.string_value = "v"
    span.links.add(trace_id=b"\4" * 16, span_id=b"\5" * 8)
    return request


def _logs() -> ExportLogsServiceRequest:
    request = ExportLogsServiceRequest()
    part = request.resource_logs.add().scope_logs.add()
    record = part.log_records.add(trace_id=b"\1" * 16, span_id=b"\2" * 8, time_unix_nano=7, event_name="gen_ai.choice")
    record.body.kvlist_value.values.add(key="content").value.string_value = "hello"
    return request


def _delimited(*messages: bytes) -> bytes:
    return b"".join(bytes([len(message) & 0x7F | 0x80, len(message) >> 7]) + message for message in messages)


TRACES: Final = _traces().SerializeToString()
LOGS: Final = _logs().SerializeToString()
TRACES_JSON: Final = to_otlp_json(_traces())
LOGS_JSON: Final = to_otlp_json(_logs())
_LINES: Final = TRACES_JSON + b"\n" + LOGS_JSON + b"\n"
_CASE: Final = {
    "case_id": "a",
    "turns": [{"query": "q", "answer": "b", "tools": [{"name": "t", "arguments": {"x": 1, "y": [1.5, None]}}]}],
}
_SQL: Final = (
    "SELECT 1; SELECT count(*) FROM spans|SELECT name, attributes->>'a' FROM spans WHERE start_time > now() - INTERVAL 1 DAY"
    "|EXPLAIN ANALYZE DELETE FROM spans|WITH a AS (SELECT unnest([1,2]) AS b) FROM a PIVOT (sum(b) FOR b IN (1))"
    "|COPY spans TO 'x'|SELECT * FROM read_csv('/etc/passwd')|PRAGMA database_list|SET memory_limit='1TB'"
    "|SELECT lambda x: x + 1|/* -- */ SELECT '\\0' -- x"
)

#: By the name of the reader.
SEEDS: Final[dict[str, tuple[bytes, ...]]] = {
    "protobuf": (TRACES, LOGS),
    "json": (TRACES_JSON, LOGS_JSON, b'{"resource_spans":[{"scope_spans":[{"spans":[{}]}]}]}'),
    "file": (
        _LINES,
        json.dumps(json.loads(TRACES_JSON), indent=1).encode(),
        TRACES,
        _delimited(TRACES, LOGS),
        gzip.compress(_LINES, mtime=0),
        zstandard.compress(_LINES),
        gzip.compress(_delimited(TRACES), mtime=0),
    ),
    "inflate": (
        b"\1" + gzip.compress(_LINES, mtime=0),
        b"\1" + gzip.compress(b"a", mtime=0) + gzip.compress(b"b", mtime=0),
        b"\2" + zstandard.compress(_LINES),
        b"\1" + gzip.compress(bytes(100_000), mtime=0),
    ),
    "http": (
        b"\1" + TRACES_JSON,
        b"\1" + LOGS_JSON,
        b"\2\0" + gzip.compress(LOGS, mtime=0),
        b"\2\1" + zstandard.compress(LOGS),
        b"\2\2" + LOGS,
        b"\0POST /v1/traces HTTP/1.1\r\nhost: a\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\n\r\n",
        b"\0GET /health HTTP/1.0\r\n\r\n",
        b"\0OPTIONS * HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\nupgrade: h2c\r\nconnection: upgrade\r\n\r\n",
    ),
    "grpc": (
        b"\2" + TRACES,
        b"\3" + LOGS,
        b"\0" + b"\0\0\0\4\0\0\0\0\0" + b"\0\0\5\1\4\0\0\0\1\x82\x86\x84\x41\x8a" + b"\0\0\5\0\1\0\0\0\1\0\0\0\0\0",
        b"\1GET / HTTP/1.1\r\n\r\n",
    ),
    "query": tuple(part.encode() for part in _SQL.split("|")),
    "cases": (
        b"\0" + json.dumps(_CASE).encode() + b"\n",
        b"\1" + json.dumps([_CASE]).encode(),
        b"\2- case_id: a\n  turns:\n  - query: &x q\n    answer: *x\n",
        b'\3case_id,query,answer,tools\na,q,b,"[{""name"": ""t""}]"\n',
    ),
    "labels": (b"conversation_id,case_id,verdict\na,b,pass\n", b"conversation_id,reward\na,0.5\n"),
    "config": (
        b'[receive]\nhttp = "127.0.0.1:0"\nmax_items = 5\n[stats]\nk = [1, 3]\nprior = [1.0, 1.0]\n',
        b'[slo]\nobjectives = [{k = 3, target = 0.7, agent = "*"}]\n[dialects.scopes]\n"a*" = "none"\n',
    ),
}  # fmt: skip
