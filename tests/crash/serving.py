"""`otel-agentic serve` as a process of its own, on fixed ports, started again and again on one file."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx

from otel_agentic.net.server_file import find_live_server

COMMAND = [sys.executable, "-m", "otel_agentic.cli", "serve"]
#: Conversations close at once and windows are computed all the time: a kill meets all of it at work.
QUICK = {
    "CONVERSATIONS__TURN_IDLE_S": "0.05",
    "CONVERSATIONS__IDLE_S": "0.2",
    "CONVERSATIONS__IDLE_WITHOUT_ID_S": "0.2",
    "WINDOWS__WIDTHS": '["1h"]',
    "STORE__SNAPSHOT_INTERVAL_S": "0.01",
}


class Server:
    """A collector's process. `start` and `kill` may follow each other as often as wanted."""

    def __init__(self, db: Path, *options: str, **settings: Any) -> None:
        self.db = db
        self._options = options
        self._settings = {f"OTEL_AGENTIC_{name}": str(value) for name, value in {**QUICK, **settings}.items()}
        grpc, http, admin = _free_ports(3)
        self.grpc, self.http, self.admin = (f"127.0.0.1:{port}" for port in (grpc, http, admin))
        self._process: subprocess.Popen[str] | None = None
        self._log = db.with_suffix(".log").open("a+")

    @property
    def process(self) -> subprocess.Popen[str]:
        """The process that runs."""
        assert self._process is not None
        return self._process

    @property
    def log(self) -> str:
        """All that its processes wrote."""
        return self.db.with_suffix(".log").read_text()

    def start(self, *, wait: bool = True) -> float:
        """Start it; return how long it took until spans were received, s."""
        began = time.monotonic()
        self._process = subprocess.Popen(
            [
                *COMMAND, "--db", str(self.db), "--grpc", self.grpc, "--http", self.http, "--admin", self.admin,
                *self._options,
            ],
            stdout=self._log,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, **self._settings, "PYTHONUNBUFFERED": "1"},
        )  # fmt: skip
        if wait:
            self.wait()
        return time.monotonic() - began

    def wait(self, timeout_s: float = 60.0) -> None:
        """Return when it is up."""
        deadline = time.monotonic() + timeout_s
        while (live_server := find_live_server(self.db)) is None or live_server.pid != self.process.pid:
            assert self.process.poll() is None, self.log
            assert time.monotonic() < deadline, self.log
            time.sleep(0.01)

    def kill(self) -> None:
        """End it as a power cut of the process would: SIGKILL."""
        self.process.kill()
        self.process.wait()

    def ask(self, sql: str) -> list[list[Any]]:
        """Return the rows of a query, of a collector that runs."""
        answer = httpx.post(f"http://{self.admin}/v1/commands/query", json={"sql": sql}, timeout=60, trust_env=False)
        assert answer.status_code == httpx.codes.OK, answer.text
        rows: list[list[Any]] = answer.json()["rows"]
        return rows

    def close(self) -> None:
        """Kill what still runs."""
        if self._process is not None and self._process.poll() is None:
            self.kill()
        self._log.close()


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        return [stack.enter_context(socket.create_server(("127.0.0.1", 0))).getsockname()[1] for _ in range(count)]
