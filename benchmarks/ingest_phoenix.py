"""Run Phoenix as a peer of `benchmarks.ingest`: its own server, in a separate process and environment."""

from __future__ import annotations

import os
import socket
import sqlite3
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Final

from benchmarks.cpu_time import process_s

_START_S: Final = 240.0
_STORE_S: Final = 180.0
#: With these settings, Phoenix sends no telemetry and loads no external resources.
_QUIET: Final = {"PHOENIX_TELEMETRY_ENABLED": "false", "PHOENIX_ALLOW_EXTERNAL_RESOURCES": "false"}


def run_phoenix(
    python: str, spans: int, warm_up: Callable[[str], int], send: Callable[[str], None]
) -> tuple[float, int, int]:
    """Send spans to Phoenix; return its CPU time until all are rows in its SQLite file (s), its RSS and its file size.

    Args:
        python: an interpreter that has arize-phoenix.
        spans: the number of spans that `send` sends.
        warm_up: sends some spans to the URL before the measurement, and returns their number.
        send: sends the spans to the URL; Phoenix responds before it stores.
    """
    with tempfile.TemporaryDirectory() as folder:
        http, rpc = _free_port(), _free_port()
        url = f"http://127.0.0.1:{http}"
        environment = {
            **os.environ,
            **_QUIET,
            "PHOENIX_WORKING_DIR": folder,
            "PHOENIX_HOST": "127.0.0.1",
            "PHOENIX_PORT": str(http),
            "PHOENIX_GRPC_PORT": str(rpc),
        }
        command = (python, "-m", "phoenix.server.main", "serve")
        with (Path(folder) / "log").open("wb") as log:
            process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=folder)  # noqa: S603 — the requested peer
            try:
                _await(url, process, Path(folder) / "log")
                file = Path(folder) / "phoenix.db"
                before = warm_up(url)
                _await_rows(file, before)
                began_s = process_s(process.pid)
                send(url)
                _await_rows(file, before + spans)
                return process_s(process.pid) - began_s, _rss_bytes(process.pid), _size(Path(folder))
            finally:
                process.kill()
                process.wait()


def _await(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(f"{url}/healthz", timeout=2):  # noqa: S310 — our own URL
                return
        except OSError:
            time.sleep(0.5)
    raise RuntimeError(f"Phoenix did not start: {log.read_text('utf-8')[-2000:]}")


def _await_rows(file: Path, spans: int) -> None:
    deadline = time.monotonic() + _STORE_S
    while time.monotonic() < deadline:
        if _rows(file) >= spans:
            return
        time.sleep(0.25)
    raise RuntimeError(f"Phoenix stored {_rows(file)} of {spans} spans")


def _rows(file: Path) -> int:
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as con:
        return int(con.execute("SELECT count(*) FROM spans").fetchone()[0])


def _rss_bytes(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text("ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.glob("phoenix.db*"))


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
