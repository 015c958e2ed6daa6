"""The command `otel-agentic console`: on a file it only looks, and to a collector it shows the way."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx

from tests.console.conftest import serving

_COMMAND = [sys.executable, "-m", "otel_agentic.cli", "console", "--no-browser"]


def test_on_a_file_it_neither_removes_data_nor_sends_telemetry(tmp_path: Path, demo_file: Path) -> None:
    db = Path(shutil.copy(demo_file, tmp_path / "demo.duckdb"))
    config = tmp_path / "settings.toml"
    config.write_text('[retention]\nkeep = "1h"\nexport = true\n[emit]\nendpoint = "http://127.0.0.1:9"\n')
    command = [*_COMMAND, "--db", str(db), "--config", str(config)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            lines = [process.stdout.readline(), process.stdout.readline()]
            link = urlsplit(lines[1].strip())
            assert lines[0] == f"console of {db}; Ctrl-C stops\n"
            with httpx.Client(base_url=f"http://{link.netloc}", headers={"sec-fetch-site": "same-origin"}) as session:
                session.post("/login", data={"ticket": parse_qs(link.query)["ticket"][0]})
                state = session.get("/collector.json").json()
        finally:
            os.kill(process.pid, signal.SIGINT)
        assert process.wait(60) == 0

    assert state["store"]["retention"]["keep"] is None
    assert not list(tmp_path.glob("*.export"))
    assert state["live"]["collector"]["ready"]
    assert not db.with_name("demo.duckdb.console").exists()


def test_a_collector_without_a_console_is_named(tmp_path: Path, empty_file: Path) -> None:
    db = Path(shutil.copy(empty_file, tmp_path / "empty.duckdb"))
    for _ in serving(db, admin={"console": False}):
        answer = subprocess.run([*_COMMAND, "--db", str(db)], capture_output=True, text=True, check=False)

    assert answer.returncode == 2
    assert re.search(r"has no console \(admin\.console = false\)", " ".join(answer.stderr.split()))
    assert not db.with_name("empty.duckdb.console").exists()
