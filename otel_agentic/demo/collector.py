"""A collector of the demo's own: started as a user starts it, on free ports, and stopped again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from otel_agentic.commands.client import RemoteClient
from otel_agentic.demo.waiting import wait_until
from otel_agentic.errors import BackendError
from otel_agentic.pipeline.serverfile import find_live_server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from otel_agentic.commands.client import Client
    from otel_agentic.pipeline.serverfile import LiveServer

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
