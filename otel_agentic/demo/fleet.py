"""The demo's agent services, each a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Final

from otel_agentic.errors import BackendError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import IO

    from otel_agentic.demo.scenario import AgentName
    from otel_agentic.pipeline.serverfile import LiveServer

#: The agents and their versions.
TRIP_PLANNER: Final[AgentName] = "trip-planner"
REFUND_DESK: Final[AgentName] = "refund-desk"
OLD, NEW, REFUND_VERSION = "1.0.0", "1.1.0", "2.3.0"
_STOP_LIMIT_S: Final = 20.0


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
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, env=_environment()
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


def _environment() -> dict[str, str]:
    """Return the environment without the user's own OpenTelemetry settings: they would send the spans elsewhere."""
    return {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
