"""The receivers that `benchmarks.ingest` runs in separate processes: our collectors with a store, and a bare loop.

Each reports on standard output: first that it is ready, and at the end its CPU time since then and its peak memory.
"""

from __future__ import annotations

import gc
import json
import resource
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

import duckdb
import numpy as np
import orjson
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from benchmarks.cpu_time import cpu_of
from otel_agentic import plugins
from otel_agentic.config import ReceiveSettings, Settings, StoreSettings
from otel_agentic.dialects import Reader
from otel_agentic.store import Store

_LENGTH_BYTES: Final = 4
_TABLE: Final = """
CREATE TABLE spans (
    trace_id VARCHAR, span_id VARCHAR, parent_span_id VARCHAR, name VARCHAR, kind UTINYINT, start_time TIMESTAMP_NS,
    end_time TIMESTAMP_NS, status UTINYINT, status_message VARCHAR, service VARCHAR, environment VARCHAR, scope VARCHAR,
    scope_version VARCHAR, operation VARCHAR, conversation_id VARCHAR, agent_name VARCHAR, tool_name VARCHAR,
    model VARCHAR, attributes JSON, events JSON, links JSON, resource JSON, received_at TIMESTAMP_NS
)
"""
_PROMOTED: Final = {
    "operation": "gen_ai.operation.name",
    "conversation_id": "gen_ai.conversation.id",
    "agent_name": "gen_ai.agent.name",
    "tool_name": "gen_ai.tool.name",
    "model": "gen_ai.request.model",
}


def main() -> None:
    """Run the receiver named by the first argument, in the folder named by the second."""
    {"ours": _ours, "bare": _bare}[sys.argv[1]](Path(sys.argv[2]))


def _ours(folder: Path) -> None:
    """Listen with the real collectors and a real store until standard input ends."""
    settings = Settings(
        store=StoreSettings(db=folder / "ingest.duckdb"),
        receive=ReceiveSettings(http="127.0.0.1:0", grpc="127.0.0.1:0"),
    )
    store = Store(settings.store, Reader.from_settings(settings.conversations, settings.dialects))
    ways = [plugins.get("collectors", name).load().from_settings(settings) for name in ("otlp_http", "otlp_grpc")]
    for way in ways:
        way.start(store)
    gc.freeze()  # as `serve` does

    def work() -> None:
        sys.stdin.read()
        for way in ways:
            way.stop(2.0)
        store.close()
        gc.unfreeze()

    _measure(work, {way.name: way.endpoint for way in ways})


def _bare(folder: Path) -> None:
    """Decode and insert the requests of a file, one transaction each, by the fastest method of numpy and DuckDB."""
    requests = list(requests_of(folder / "requests"))
    con = duckdb.connect(str(folder / "ingest.duckdb"))
    con.execute(_TABLE)

    def work() -> None:
        for request in requests:
            con.register("batch", _columns(request))
            con.execute("INSERT INTO spans SELECT * FROM batch")
        con.execute("CHECKPOINT")
        con.close()

    _measure(work, {})


def _columns(request: bytes) -> dict[str, Any]:
    message = ExportTraceServiceRequest.FromString(request)
    rows = [
        (span, part.scope, block.resource)
        for block in message.resource_spans
        for part in block.scope_spans
        for span in part.spans
    ]
    spans = [span for span, _, _ in rows]
    attributes = [_plain(span.attributes) for span in spans]
    resources = {id(resource): _plain(resource.attributes) for _, _, resource in rows}
    resource = [resources[id(values)] for _, _, values in rows]
    return {
        "trace_id": _texts(span.trace_id.hex() for span in spans),
        "span_id": _texts(span.span_id.hex() for span in spans),
        "parent_span_id": _texts(span.parent_span_id.hex() for span in spans),
        "name": _texts(span.name for span in spans),
        "kind": np.array([span.kind for span in spans], dtype=np.uint8),
        "start_time": _times(span.start_time_unix_nano for span in spans),
        "end_time": _times(span.end_time_unix_nano for span in spans),
        "status": np.array([span.status.code for span in spans], dtype=np.uint8),
        "status_message": _texts(span.status.message for span in spans),
        "service": _texts(values.get("service.name") for values in resource),
        "environment": _texts(values.get("deployment.environment.name", "") for values in resource),
        "scope": _texts(scope.name for _, scope, _ in rows),
        "scope_version": _texts(scope.version for _, scope, _ in rows),
        **{column: _texts(values.get(key) for values in attributes) for column, key in _PROMOTED.items()},
        "attributes": _texts(orjson.dumps(values).decode() for values in attributes),
        "events": _texts(_listed(span.events) for span in spans),
        "links": _texts(_listed(span.links) for span in spans),
        "resource": _texts(orjson.dumps(values).decode() for values in resource),
        "received_at": np.full(len(spans), time.time_ns()).view("datetime64[ns]"),
    }


def _plain(pairs: Any) -> dict[str, Any]:
    plain = {}
    for pair in pairs:
        kind = pair.value.WhichOneof("value")
        plain[pair.key] = getattr(pair.value, kind) if kind else None
    return plain


def _listed(items: Any) -> str | None:
    return orjson.dumps([_plain(item.attributes) for item in items]).decode() if items else None


def _texts(values: Iterable[str | None]) -> Any:
    return np.array(list(values), dtype=object)


def _times(values: Iterable[int]) -> Any:
    return np.array(list(values), dtype=np.int64).view("datetime64[ns]")


def requests_of(file: Path) -> Iterable[bytes]:
    """Yield the requests that `keep_requests` wrote."""
    data = file.read_bytes()
    position = 0
    while position < len(data):
        end = position + _LENGTH_BYTES + int.from_bytes(data[position : position + _LENGTH_BYTES], "big")
        yield data[position + _LENGTH_BYTES : end]
        position = end


def keep_requests(file: Path, requests: Iterable[bytes]) -> None:
    """Write requests to a file."""
    file.write_bytes(b"".join(len(request).to_bytes(_LENGTH_BYTES, "big") + request for request in requests))


def _measure(work: Callable[[], None], ready: dict[str, Any]) -> None:
    print(json.dumps(ready), flush=True)
    cpu_s = cpu_of(work)
    rss_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"cpu_s": cpu_s, "rss_bytes": rss_bytes}), flush=True)


if __name__ == "__main__":
    main()
