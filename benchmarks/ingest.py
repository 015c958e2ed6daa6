"""Compare the CPU time per span of our receiver and a bare loop, from OTLP to queryable rows, in one run.

python -m benchmarks.ingest                              # ours and a bare decode-and-insert loop
python -m benchmarks.ingest --recorded FILE              # the size on disk of recorded agent text, too

Each receiver is a separate process with an empty file. Its CPU time counts until the rows are in the file. The bare loop is a
minimal implementation: one process without a network, protobuf's own parser, one transaction per request, columns of numpy arrays
into DuckDB. It has no checks and no limits, and it does not detect duplicates, NaN, NUL or malformed ids.
"""

from __future__ import annotations

import argparse
import gzip
import http.client
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import grpc  # type: ignore[import-untyped]  # grpcio ships no types
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from benchmarks.ingest_receiver import keep_requests
from benchmarks.ingest_requests import BATCH, as_json, recorded, requests
from benchmarks.load import address
from tests.shared import SHARED

SPANS: Final = 20_480
_SENDERS: Final = 4
_ROUNDS: Final = 2
_PROTOBUF: Final = {"Content-Type": "application/x-protobuf"}
_GZIP: Final = {**_PROTOBUF, "Content-Encoding": "gzip"}
_JSON: Final = {"Content-Type": "application/json"}
_EXPORT: Final = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """The cost of a receiver: CPU time per span in us, peak memory, and file size relative to the protobuf bytes."""

    name: str
    cpu_us: float
    rss_bytes: int
    disk_ratio: float


def post_all(url: str, bodies: Sequence[bytes], headers: dict[str, str]) -> None:
    """Send bodies over a few connections; each connection waits for the response to the previous body."""

    def some(first: int) -> None:
        host, port = address(url)
        connection = http.client.HTTPConnection(host, port, timeout=60)
        for body in bodies[first::_SENDERS]:
            connection.request("POST", "/v1/traces", body, headers)
            answer = connection.getresponse()
            text = answer.read()
            if answer.status >= http.client.BAD_REQUEST:
                raise RuntimeError(f"{url} answers {answer.status}: {text!r}")
        connection.close()

    _in_threads(some)


def call_all(endpoint: str, bodies: Sequence[bytes]) -> None:
    """Send bodies over gRPC."""
    with grpc.insecure_channel(endpoint.removeprefix("http://")) as channel:
        export = channel.unary_unary(_EXPORT)  # without serialisers the bytes are sent unchanged

        def some(first: int) -> None:
            for body in bodies[first::_SENDERS]:
                export(body, timeout=60)

        _in_threads(some)


def _in_threads(work: Callable[[int], None]) -> None:
    with ThreadPoolExecutor(_SENDERS) as threads:
        list(threads.map(work, range(_SENDERS)))


def run_ours(name: str, plain: Sequence[bytes], send: Callable[[dict[str, str]], None]) -> Usage:
    """Measure our receiver with the requests that `send` sends to its endpoints."""
    with tempfile.TemporaryDirectory() as folder:
        return _run(name, "ours", Path(folder), plain, send)


def run_bare(plain: Sequence[bytes]) -> Usage:
    """Measure the bare loop with the requests of a file."""
    with tempfile.TemporaryDirectory() as folder:
        keep_requests(Path(folder) / "requests", plain)
        return _run("bare loop, no network", "bare", Path(folder), plain, lambda _: None)


def _run(name: str, kind: str, folder: Path, plain: Sequence[bytes], send: Callable[[dict[str, str]], None]) -> Usage:
    cpu_s, rss_bytes = receive(kind, folder, send)
    disk = (folder / "ingest.duckdb").stat().st_size
    cpu_us, size = cpu_s / (len(plain) * BATCH) * 1e6, sum(map(len, plain))
    return Usage(name=name, cpu_us=cpu_us, rss_bytes=rss_bytes, disk_ratio=disk / size)


def receive(kind: str, folder: Path, send: Callable[[dict[str, str]], None]) -> tuple[float, int]:
    """Run a receiver in its own process; return its CPU time until the rows are in its file (s), and its memory.

    Args:
        kind: `ours` or `bare`, see `benchmarks.ingest_receiver`.
        folder: the folder of the file.
        send: sends the spans to the endpoints, by collector.
    """
    command = (sys.executable, "-m", "benchmarks.ingest_receiver", kind, str(folder))
    root = Path(__file__).parents[1]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=root) as process:  # noqa: S603 — our own command
        assert process.stdout is not None
        send(json.loads(process.stdout.readline()))
        usage = json.loads(process.communicate(timeout=60)[0])
    return float(usage["cpu_s"]), int(usage["rss_bytes"])


def least(rounds: Sequence[Usage]) -> Usage:
    """Return the round with the minimum CPU time; other processes slow down the other rounds."""
    return min(rounds, key=lambda usage: usage.cpu_us)


def show(usage: Usage) -> None:
    """Print the cost of a receiver."""
    print(
        f"{usage.name:<28} {usage.cpu_us:9.1f} us CPU a span   RSS {usage.rss_bytes / 2**20:5.0f} MiB   "
        f"disk {usage.disk_ratio:5.2f} of protobuf",
        flush=True,
    )


def show_ratios(bare: Usage, plain: Usage, zipped: Usage, as_text: Usage, _rpc: Usage) -> None:
    """Print the promised ratios."""
    print(f"spans per CPU-second relative to the bare loop: {bare.cpu_us / plain.cpu_us:.2f} (promised: at least 0.6)")
    print(f"gzip costs {zipped.cpu_us / plain.cpu_us - 1:+.0%} (promised: at most +25%)")
    print(f"OTLP/JSON speed relative to protobuf: {plain.cpu_us / as_text.cpu_us:.2f} (promised: at least 0.6)")


def main() -> None:
    """Run all receivers and print their costs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--recorded", metavar="FILE", type=Path, help="recorded OTLP/JSON lines (gzip), to measure the file size"
    )
    options = parser.parse_args()
    plain = requests(SPANS)
    measured = _measured(plain)
    for usage in measured:
        show(usage)
    show_ratios(*measured)
    recording = options.recorded or SHARED / "data" / "tau-airline" / "spans.jsonl.gz"
    if recording.is_file():
        _show_recorded(recorded(recording, copies=4))


def _measured(plain: Sequence[bytes]) -> list[Usage]:
    zipped = [gzip.compress(body, compresslevel=6) for body in plain]
    texts = [as_json(body) for body in plain]
    ways: list[Callable[[], Usage]] = [
        lambda: run_bare(plain),
        lambda: run_ours("ours, HTTP protobuf", plain, lambda at: post_all(at["otlp_http"], plain, _PROTOBUF)),
        lambda: run_ours("ours, HTTP protobuf, gzip", plain, lambda at: post_all(at["otlp_http"], zipped, _GZIP)),
        lambda: run_ours("ours, HTTP JSON", plain, lambda at: post_all(at["otlp_http"], texts, _JSON)),
        lambda: run_ours("ours, gRPC", plain, lambda at: call_all(at["otlp_grpc"], plain)),
    ]
    rounds = [[way() for way in ways] for _ in range(_ROUNDS)]
    return [least(same_way) for same_way in zip(*rounds, strict=True)]


def _show_recorded(plain: Sequence[bytes]) -> None:
    spans = sum(len(part.spans) for body in plain for part in _parts(body))
    with tempfile.TemporaryDirectory() as folder:
        usage = _run("", "ours", Path(folder), plain, lambda at: post_all(at["otlp_http"], plain, _PROTOBUF))
    print(
        f"recorded agent text, {spans} spans in {len(plain)} requests: {usage.disk_ratio:.2f} of the protobuf bytes on disk"
    )


def _parts(body: bytes) -> list[Any]:
    return [part for block in ExportTraceServiceRequest.FromString(body).resource_spans for part in block.scope_spans]


if __name__ == "__main__":
    main()
