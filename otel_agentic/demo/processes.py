"""The processes of the demo: a collector on free ports, the agent services, and a minimal telemetry backend.

The backend receives OTLP/HTTP metrics and logs on a loopback port and stores them in memory.
"""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING, Any, Final

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from otel_agentic.commands import Client, RemoteClient
from otel_agentic.demo.recordings import Replay, Sent
from otel_agentic.errors import BackendError
from otel_agentic.net.server_file import LiveServer, find_live_server

if TYPE_CHECKING:
    from opentelemetry.proto.common.v1.common_pb2 import AnyValue
    from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric

    from otel_agentic.demo.scenario import AgentName

Attributes = frozenset[tuple[str, str | int | float | bool]]


@dataclass(slots=True, kw_only=True)
class Received:
    """The received data: points by metric, the last value of each gauge, and log records by event name."""

    points: Counter[str] = field(default_factory=Counter)
    gauges: dict[tuple[str, Attributes], float] = field(default_factory=dict)
    events: Counter[str] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def gauge(self, metric: str, selected: Mapping[str, str | int]) -> float | None:
        """Return the last value of the gauge with (at least) these attributes, None if it was never received."""
        with self.lock:
            values = [
                value
                for (name, attributes), value in self.gauges.items()
                if name == metric and selected.items() <= attributes
            ]
        return values[-1] if values else None

    def add_metrics(self, request: ExportMetricsServiceRequest) -> None:
        """Store the points of one request."""
        metrics = [
            metric for block in request.resource_metrics for scope in block.scope_metrics for metric in scope.metrics
        ]
        with self.lock:
            for metric in metrics:
                self._add_metric(metric)

    def add_logs(self, request: ExportLogsServiceRequest) -> None:
        """Count the log records of one request."""
        records = [
            record for block in request.resource_logs for scope in block.scope_logs for record in scope.log_records
        ]
        with self.lock:
            self.events.update(record.event_name for record in records)

    def _add_metric(self, metric: Metric) -> None:
        data = getattr(metric, metric.WhichOneof("data") or "gauge")
        self.points[metric.name] += len(data.data_points)
        for point in metric.gauge.data_points:
            value = point.as_double if point.WhichOneof("value") == "as_double" else float(point.as_int)
            self.gauges[metric.name, _attributes(point.attributes)] = value


class Backend(ThreadingHTTPServer):
    """The receiver; `endpoint` is its base address."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.received = Received()

    @property
    def endpoint(self) -> str:
        """The address to export to."""
        return f"http://127.0.0.1:{self.server_port}"


@contextmanager
def running_backend() -> Iterator[Backend]:
    """Run a backend on a free loopback port."""
    with Backend() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Backend

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        if self.path == "/v1/metrics":
            self.server.received.add_metrics(ExportMetricsServiceRequest.FromString(body))
        elif self.path == "/v1/logs":
            self.server.received.add_logs(ExportLogsServiceRequest.FromString(body))
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 — http.server's signature
        """Print nothing: the demo prints results, not requests."""


def _attributes(pairs: Any) -> Attributes:
    return frozenset((pair.key, _value(pair.value)) for pair in pairs)


def _value(value: AnyValue) -> str | int | float | bool:
    kind = value.WhichOneof("value") or "string_value"
    scalar: str | int | float | bool = getattr(value, kind)
    return scalar


_POLL_S: Final = 0.1


def wait_until(
    is_true: Callable[[], bool], is_alive: Callable[[], bool] = lambda: True, *, what: str, log: Path
) -> None:
    """Wait until a condition holds, as long as it may still do: a busy machine is no failure.

    Args:
        is_true: the condition, checked every 100 ms; it may raise.
        is_alive: whether the process that must fulfil it still runs.
        what: a description of the condition for the error message.
        log: the log file of that process.

    Raises:
        BackendError: the process ended before.
    """
    while not is_true():
        if not is_alive():
            raise BackendError(f"the collector ended while the demo waited for {what}; its log is {log}")
        time.sleep(_POLL_S)


_STOP_LIMIT_S: Final = 20.0
_FREE_PORT: Final = "127.0.0.1:0"
#: In production a conversation closes after half an hour of silence, which is too long for a demo.
_SHORT_TIMES: Final = {
    "OTEL_AGENTIC_CONVERSATIONS__IDLE_S": "1.5",
    "OTEL_AGENTIC_CONVERSATIONS__TURN_IDLE_S": "0.3",
    "OTEL_AGENTIC_EMIT__INTERVAL_S": "0.5",
    "OTEL_AGENTIC_STORE__SNAPSHOT_INTERVAL_S": "0.5",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A live collector: its addresses, a client for its commands, its process and its log file."""

    server: LiveServer
    client: Client
    process: subprocess.Popen[bytes]
    log: Path

    def wait_until(self, is_true: Callable[[], bool], what: str) -> None:
        """Wait until a condition holds; see `wait_until`."""
        wait_until(is_true, lambda: self.process.poll() is None, what=what, log=self.log)


@contextmanager
def running_collector(db: Path, cases: Path, emit: str) -> Iterator[Running]:
    """Run `otel-agentic serve`, started as a user starts it, until the block ends.

    Args:
        db: the DuckDB file to create, as an absolute path in its own folder.
        cases: the annotated cases.
        emit: the OTLP/HTTP address for its own metrics and events.

    Raises:
        BackendError: it does not start, or does not stop properly; names its log file.
    """
    log = db.with_name("collector.log")
    with log.open("wb") as output:
        process = subprocess.Popen(  # noqa: S603 — our own command line
            _command(db, cases, emit), stdout=output, stderr=output, env=_environment(), cwd=db.parent
        )
    try:
        wait_until(lambda: _is_up(process, db, log), what="its start", log=log)
        server = find_live_server(db)
        if server is None:
            raise BackendError(f"the collector ended right after its start; its log is {log}")
        client = RemoteClient(server.admin, token=None)
        try:
            yield Running(server=server, client=client, process=process, log=log)
        finally:
            client.close()
    finally:
        status = _stop(process)
    if status != 0:
        raise BackendError(f"the collector ended with exit code {status}; its log is {log}")
    log.unlink()


def _command(db: Path, cases: Path, emit: str) -> list[str]:
    listen = ["--grpc", _FREE_PORT, "--http", _FREE_PORT, "--admin", _FREE_PORT]
    data = ["--db", str(db), "--cases", str(cases), "--emit", emit]
    return [sys.executable, "-m", "otel_agentic.cli", "serve", *listen, *data]


def _environment() -> dict[str, str]:
    """Return the environment without the user's own settings, which are for another collector."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    return {**environment, **_SHORT_TIMES}


def _is_up(process: subprocess.Popen[bytes], db: Path, log: Path) -> bool:
    if process.poll() is not None:
        lines = log.read_text(errors="replace").strip().splitlines()
        raise BackendError(
            f"the collector ended with exit code {process.returncode}: {lines[-1] if lines else 'no message'}"
        )
    return find_live_server(db) is not None


def _stop(process: subprocess.Popen[bytes]) -> int:
    """Return the exit code after SIGTERM, or after SIGKILL if the process ignores that."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    try:
        return process.wait(_STOP_LIMIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


#: The agents and their versions.
TRIP_PLANNER: Final[AgentName] = "trip-planner"
REFUND_DESK: Final[AgentName] = "refund-desk"
OLD, NEW, REFUND_VERSION = "1.0.0", "1.1.0", "2.3.0"
AGENTS: Final = ((TRIP_PLANNER, OLD), (TRIP_PLANNER, NEW), (REFUND_DESK, REFUND_VERSION))


class Service:
    """One running agent service."""

    def __init__(self, agent: str, version: str, endpoint: str, errors: IO[bytes]) -> None:
        """Start it; its standard error is written to the file `errors`."""
        self.label = f"{agent} {version}"
        self._errors = errors
        command = [sys.executable, "-m", "otel_agentic.demo.agents", agent, version, "--endpoint", endpoint]
        self._process = subprocess.Popen(  # noqa: S603 — our own command line
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, env=_agent_environment()
        )

    def sent(self) -> Sent:
        """Return its counts after its conversations have ended.

        Raises:
            BackendError: it failed; names it and its last line of output.
        """
        assert self._process.stdout is not None  # noqa: S101 — it was opened as a pipe
        line = self._process.stdout.readline()
        if not line:
            self._process.wait()
            self._errors.seek(0)
            lines = self._errors.read().decode(errors="replace").strip().splitlines()
            raise BackendError(f"the agent {self.label} failed: {lines[-1] if lines else 'no message'}")
        return Sent(**json.loads(line))

    def finish(self) -> None:
        """Let it send its delayed spans, and wait until it exits.

        Raises:
            BackendError: it fails.
        """
        self._process.communicate(b"\n", timeout=_STOP_LIMIT_S)
        if self._process.returncode != 0:
            raise BackendError(f"the agent {self.label} ended with exit code {self._process.returncode}")

    def close(self) -> None:
        """Kill it if it is running."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()


@contextmanager
def running_agents(server: LiveServer, *, live: bool) -> Iterator[Sequence[Service | Replay]]:
    """Replay all agents, or with `live` run them all at once, until the block ends.

    Raises:
        BackendError: the collector does not listen on the address of an agent.
    """
    if server.http is None or server.grpc is None:
        raise BackendError("the collector does not listen on OTLP/HTTP and OTLP/gRPC")
    endpoints = {TRIP_PLANNER: server.http, REFUND_DESK: f"grpc://{server.grpc.removeprefix('http://')}"}
    with ExitStack() as stack:
        services: list[Service | Replay] = []
        for agent, version in AGENTS:
            errors = stack.enter_context(TemporaryFile())
            endpoint = endpoints[agent]
            service = Service(agent, version, endpoint, errors) if live else Replay(agent, version, endpoint)
            stack.callback(service.close)
            services.append(service)
        yield services


def _agent_environment() -> dict[str, str]:
    """Return the environment without the user's own OpenTelemetry settings, which would send the spans elsewhere."""
    return {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
