"""The processes of the demo: a collector on free ports, and the agent services."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Final

from otel_agentic.commands.client import RemoteClient
from otel_agentic.errors import BackendError
from otel_agentic.net.server_file import find_live_server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path
    from typing import IO

    from otel_agentic.commands.client import Client
    from otel_agentic.demo.scenario import AgentName
    from otel_agentic.net.server_file import LiveServer

_POLL_S: Final = 0.1


def wait_until(is_true: Callable[[], bool], what: str, *, limit_s: float) -> None:
    """Wait until a condition holds.

    Args:
        is_true: the condition, checked every 100 ms; it may raise.
        what: a description of the condition for the error message.
        limit_s: the longest wait, seconds.

    Raises:
        BackendError: it did not hold in time; contains the description.
    """
    until = time.monotonic() + limit_s
    while not is_true():
        if time.monotonic() > until:
            raise BackendError(f"timeout: the demo waited {limit_s:g} s for {what}")
        time.sleep(_POLL_S)


_START_LIMIT_S: Final = 120.0
_STOP_LIMIT_S: Final = 20.0
_FREE_PORT: Final = "127.0.0.1:0"
#: In production a conversation closes after half an hour of silence, which is too long for a demo.
_SHORT_TIMES: Final = {
    "OTEL_AGENTIC_CONVERSATIONS__IDLE_S": "3",
    "OTEL_AGENTIC_CONVERSATIONS__TURN_IDLE_S": "0.5",
    "OTEL_AGENTIC_EMIT__INTERVAL_S": "1",
    "OTEL_AGENTIC_STORE__SNAPSHOT_INTERVAL_S": "0.5",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A live collector: its addresses and a client for its commands."""

    server: LiveServer
    client: Client


@contextmanager
def running_collector(db: Path, cases: Path, emit: str) -> Iterator[Running]:
    """Run `otel-agentic serve` until the block ends.

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
        wait_until(lambda: _is_up(process, db, log), "the collector to start", limit_s=_START_LIMIT_S)
        server = find_live_server(db)
        if server is None:
            raise BackendError(f"the collector ended right after its start; its log is {log}")
        client = RemoteClient(server.admin, token=None)
        try:
            yield Running(server=server, client=client)
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
    own = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    return {**own, **_SHORT_TIMES}


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """The conversations and spans that an agent service sent, and the spans that it delays."""

    conversations: int
    spans: int
    held_back: int


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
        """Let it send its delayed spans, and wait for its end.

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
def running_agents(server: LiveServer) -> Iterator[Sequence[Service]]:
    """Run all agents at once until the block ends.

    Raises:
        BackendError: the collector does not listen on the address of an agent.
    """
    if server.http is None or server.grpc is None:
        raise BackendError("the collector does not listen on OTLP/HTTP and OTLP/gRPC")
    agents = (
        (TRIP_PLANNER, OLD, server.http),
        (TRIP_PLANNER, NEW, server.http),
        (REFUND_DESK, REFUND_VERSION, f"grpc://{server.grpc.removeprefix('http://')}"),
    )
    with ExitStack() as stack:
        services = []
        for agent, version, endpoint in agents:
            errors = stack.enter_context(TemporaryFile())
            service = Service(agent, version, endpoint, errors)
            stack.callback(service.close)
            services.append(service)
        yield services


def _agent_environment() -> dict[str, str]:
    """Return the environment without the user's own OpenTelemetry settings, which would send the spans elsewhere."""
    return {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
