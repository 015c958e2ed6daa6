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
    """Return when a condition holds.

    Args:
        is_true: the condition, asked every 100 ms; it may raise.
        what: what is waited for, for the message.
        limit_s: how long to wait, seconds.

    Raises:
        BackendError: it did not hold in time; names what was waited for.
    """
    until = time.monotonic() + limit_s
    while not is_true():
        if time.monotonic() > until:
            raise BackendError(f"the demo waited {limit_s:g} s for {what}, in vain")
        time.sleep(_POLL_S)


_START_LIMIT_S: Final = 120.0
_STOP_LIMIT_S: Final = 20.0
_FREE_PORT: Final = "127.0.0.1:0"
#: In production a conversation closes after half an hour of silence; nobody waits that long for a demo.
_IMPATIENCE: Final = {
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
        db: the DuckDB file to make, as an absolute path in a folder of its own.
        cases: the annotated cases.
        emit: where its own metrics and events go, an OTLP/HTTP address.

    Raises:
        BackendError: it does not come up, or does not stop as it should; names its log file.
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
            raise BackendError(f"the collector ended as soon as it was up; its log is {log}")
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
    """Return the environment without the user's own settings, which are meant for another collector."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    return {**own, **_IMPATIENCE}


def _is_up(process: subprocess.Popen[bytes], db: Path, log: Path) -> bool:
    if process.poll() is not None:
        told = log.read_text(errors="replace").strip().splitlines()
        raise BackendError(
            f"the collector ended with exit code {process.returncode}: {told[-1] if told else 'no message'}"
        )
    return find_live_server(db) is not None


def _stop(process: subprocess.Popen[bytes]) -> int:
    """Return the exit code after a polite request, or after force when that is not heard."""
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
    """What an agent service says that it sent, and what it keeps back."""

    conversations: int
    spans: int
    held_back: int


class Service:
    """One running agent service."""

    def __init__(self, agent: str, version: str, endpoint: str, errors: IO[bytes]) -> None:
        """Start it; what it complains about goes to the file `errors`."""
        self.label = f"{agent} {version}"
        self._errors = errors
        command = [sys.executable, "-m", "otel_agentic.demo.agents", agent, version, "--endpoint", endpoint]
        self._process = subprocess.Popen(  # noqa: S603 — our own command line
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, env=_agent_environment()
        )

    def sent(self) -> Sent:
        """Return what it sent, when its conversations are over.

        Raises:
            BackendError: it failed; names it and its last line of output.
        """
        assert self._process.stdout is not None  # noqa: S101 — it was opened as a pipe
        line = self._process.stdout.readline()
        if not line:
            self._process.wait()
            self._errors.seek(0)
            told = self._errors.read().decode(errors="replace").strip().splitlines()
            raise BackendError(f"the agent {self.label} failed: {told[-1] if told else 'no message'}")
        return Sent(**json.loads(line))

    def finish(self) -> None:
        """Let it send what it kept back, and wait for its end.

        Raises:
            BackendError: it does not end well.
        """
        self._process.communicate(b"\n", timeout=_STOP_LIMIT_S)
        if self._process.returncode != 0:
            raise BackendError(f"the agent {self.label} ended with exit code {self._process.returncode}")

    def close(self) -> None:
        """End it, however far it is."""
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
        BackendError: the collector does not listen where an agent wants to send.
    """
    if server.http is None or server.grpc is None:
        raise BackendError("the collector does not listen on OTLP/HTTP and OTLP/gRPC")
    wanted = (
        (TRIP_PLANNER, OLD, server.http),
        (TRIP_PLANNER, NEW, server.http),
        (REFUND_DESK, REFUND_VERSION, f"grpc://{server.grpc.removeprefix('http://')}"),
    )
    with ExitStack() as stack:
        services = []
        for agent, version, endpoint in wanted:
            errors = stack.enter_context(TemporaryFile())
            service = Service(agent, version, endpoint, errors)
            stack.callback(service.close)
            services.append(service)
        yield services


def _agent_environment() -> dict[str, str]:
    """Return the environment without the user's own OpenTelemetry settings: they would send the spans elsewhere."""
    return {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
