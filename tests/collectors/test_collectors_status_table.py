"""The table of answers in `docs/receiving.md`, row by row, on both transports."""

from __future__ import annotations

import gzip
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import grpc  # type: ignore[import-untyped]  # grpcio ships no types
import httpx
import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from pydantic import SecretStr

from collectors.otlp_grpc import OtlpGrpcCollector
from collectors.otlp_http import OtlpHttpCollector
from otel_agentic.config import AdminSettings, ReceiveSettings
from otel_agentic.errors import OverloadedError, StoreUnusableError
from tests.collectors.raw import EXPORT, address_of, answers, connect, post, spans, until_closed

if TYPE_CHECKING:
    from tests.collectors.conftest import RecordingSink

PAGE: Final = Path(__file__).parents[2] / "docs" / "receiving.md"
METRICS: Final = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"


def table() -> dict[str, tuple[int, str, str]]:
    """Return request -> HTTP status, gRPC status, and whether exporters retry."""
    text = PAGE.read_text("utf-8").partition("## Responses")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (.+?) \| (\d{3}) \| `(\w+)` \|(.*)\|$", text, re.MULTILINE)
    return {sent: (int(http), code, again.strip()) for sent, http, code, again in rows}


def logs() -> bytes:
    request = ExportLogsServiceRequest()
    request.resource_logs.add().scope_logs.add().log_records.add(time_unix_nano=5, event_name="e")
    return request.SerializeToString()


@dataclass(frozen=True, kw_only=True)
class Scene:
    """What a row is about."""

    data: bytes = b""
    settings: dict[str, Any] = field(default_factory=dict)
    token: str | None = None
    error: Exception | None = None
    http_path: str = "/v1/traces"
    grpc_path: str = EXPORT
    encoding: str = "identity"
    half: bool = False


AUTHENTICATED: Final[dict[str, Any]] = {"token": SecretStr("in-3f1c")}
SCENES: Final = {
    "spans, all stored": Scene(data=spans("chat")),
    "an empty request": Scene(),
    "spans of which some are rejected (bad ids)": Scene(data=spans("chat", trace_id=b"\1")),
    "log records to the path of spans": Scene(data=logs()),
    "undecodable or truncated data": Scene(data=spans("chat")[:-1]),
    "compressed bytes that are damaged": Scene(data=gzip.compress(spans("chat"))[:-4], encoding="gzip"),
    "no token, or an unknown one": Scene(data=spans("chat"), settings=AUTHENTICATED, token="guessed"),  # noqa: S106 — made up
    "a token of another role": Scene(data=spans("chat"), settings=AUTHENTICATED, token="ask-77aa"),  # noqa: S106 — made up
    "metrics or profiles": Scene(http_path="/v1/metrics", grpc_path=METRICS),
    "a body that does not arrive in time": Scene(settings={"body_timeout_s": 0.4}, half=True),
    "a request larger than `receive.max_request_bytes`": Scene(
        data=spans("x" * 2000), settings={"max_request_bytes": 1000}
    ),
    "too much at once, a full queue": Scene(data=spans("chat"), error=OverloadedError("the queue is full")),
    "anything while the store cannot be written (disk full, reopening)": Scene(
        data=spans("chat"), error=StoreUnusableError("the disk is full")
    ),
    "a request that causes an unexpected error": Scene(data=spans("chat"), error=KeyError("unforeseen")),
}


def test_every_row_has_a_scene() -> None:
    assert table().keys() == SCENES.keys()


@pytest.mark.parametrize("sent", SCENES)
def test_each_row_is_what_is_answered(sent: str, sink: RecordingSink) -> None:
    scene, row = SCENES[sent], table()[sent]
    sink.error = scene.error
    settings = ReceiveSettings.model_validate({"http": "127.0.0.1:0", "grpc": "127.0.0.1:0", **scene.settings})
    admin = AdminSettings(query_token=SecretStr("ask-77aa"))
    http, rpc = OtlpHttpCollector(settings, admin), OtlpGrpcCollector(settings, admin)
    for collector in (http, rpc):
        collector.start(sink)
    try:
        status, waits_http = over_http(http.endpoint, scene)
        code, waits_grpc = over_grpc(rpc.endpoint, scene)
    finally:
        for collector in (http, rpc):
            collector.stop(2)
    assert row[:2] == (status, code)
    assert row[2].startswith("yes") is waits_http is waits_grpc


def over_http(endpoint: str, scene: Scene) -> tuple[int, bool]:
    """Return the status, and whether there is a time to come back at."""
    if scene.half:
        with connect(endpoint) as connection:
            connection.sendall(post(b"\n", length=100))
            received = until_closed(connection)
        return answers(received)[0], b"retry-after" in received.lower()
    headers = {"content-type": "application/x-protobuf", "content-encoding": scene.encoding}
    if scene.token:
        headers["authorization"] = f"Bearer {scene.token}"
    answer = httpx.post(endpoint + scene.http_path, content=scene.data, headers=headers, timeout=20)
    return answer.status_code, "retry-after" in answer.headers


def over_grpc(endpoint: str, scene: Scene) -> tuple[str, bool]:
    """Return the status, and whether there is a time to come back at."""
    host, port = address_of(endpoint)
    metadata = [("authorization", f"Bearer {scene.token}")] if scene.token else []
    with grpc.insecure_channel(f"{host}:{port}", [("grpc.use_local_subchannel_pool", 1)]) as channel:
        if scene.half:
            call = channel.stream_unary(scene.grpc_path).future(_nothing_for_a_while(), timeout=20)
        else:
            call = channel.unary_unary(scene.grpc_path).future(scene.data, metadata=metadata, timeout=20)
        trailers = {item.key: item.value for item in call.trailing_metadata() or ()}
        return call.code().name, b"RetryInfo" in trailers.get("grpc-status-details-bin", b"")


def _nothing_for_a_while() -> Iterator[bytes]:
    """Keep a call open that sends no message."""
    time.sleep(1.5)
    yield from ()
