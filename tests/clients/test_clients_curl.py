"""curl, which people reach for first: plain, gzip, chunked, with `Expect: 100-continue`, and refused."""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.clients.installing import stored_spans
from tests.live.running_collector import running

if TYPE_CHECKING:
    from otel_agentic.config import Settings

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed"),
]


def document(number: int, padding: str = "") -> bytes:
    span = {
        "traceId": f"{number:032x}",
        "spanId": f"{number:016x}",
        "name": f"span {number}",
        "startTimeUnixNano": "1800000000000000000",
        "endTimeUnixNano": "1800000000000000001",
        "attributes": [{"key": "padding", "value": {"stringValue": padding}}],
    }
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}).encode()


def curl(url: str, file: Path, *more: str) -> tuple[int, str]:
    """Return the HTTP status and the body."""
    usual = ("-sS", "--max-time", "60", "-H", "Content-Type: application/json", "--data-binary", f"@{file}")
    done = subprocess.run(
        ("curl", *usual, *more, "-w", "\n%{http_code}", f"{url}/v1/traces"), capture_output=True, text=True, check=True
    )
    body, _, status = done.stdout.rpartition("\n")
    return int(status), body


def test_every_encoding_arrives_once(settings: Settings, tmp_path: Path) -> None:
    ways: dict[str, tuple[bytes, tuple[str, ...]]] = {
        "plain": (document(1), ()),
        "gzip": (gzip.compress(document(2)), ("-H", "Content-Encoding: gzip")),
        "chunked": (document(3), ("-H", "Transfer-Encoding: chunked")),
        "large, with Expect: 100-continue": (document(4, "x" * 2_000_000), ("-H", "Expect: 100-continue")),
        "again": (document(1), ()),
        "HTTP/1.0": (document(5), ("--http1.0",)),
    }
    file = tmp_path / "body"
    with running(settings) as (live, server):
        for way, (content, options) in ways.items():
            file.write_bytes(content)
            assert (200, "{}") == curl(str(server.http), file, *options), way
        assert [f"span {number}" for number in range(1, 6)] == sorted(span["name"] for span in stored_spans(live))


def test_an_unreadable_request_is_refused_with_a_reason(settings: Settings, tmp_path: Path) -> None:
    file = tmp_path / "body"
    file.write_bytes(b'{"resourceSpans": [')
    with running(settings) as (_, server):
        status, body = curl(str(server.http), file)
    assert status == 400
    assert "not JSON" in json.loads(body)["message"]
