"""A real Prometheus on loopback, and its tool; both are the packages of Debian."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

needs_prometheus = pytest.mark.skipif(
    shutil.which("prometheus") is None or shutil.which("promtool") is None,
    reason="needs the programs prometheus and promtool: `apt-get install prometheus` on Debian or Ubuntu",
)
needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None,
    reason="needs the program promtool: `apt-get install prometheus` on Debian or Ubuntu",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prometheus:
    """A running Prometheus."""

    url: str

    def query(self, expression: str, at_s: float | None = None) -> list[tuple[dict[str, str], float]]:
        """Return labels (with `__name__`) and value of each series of an instant query."""
        given = {"query": expression, **({} if at_s is None else {"time": repr(at_s)})}
        return [(series["metric"], float(series["value"][1])) for series in self.ask("query", **given)["result"]]

    def ask(self, path: str, **parameters: str) -> Any:
        """Return the data of the answer; fails with its error."""
        answer = httpx.get(f"{self.url}/api/v1/{path}", params=parameters, trust_env=False, timeout=30).json()
        assert answer["status"] == "success", answer
        return answer["data"]


@contextmanager
def prometheus(folder: Path, *, scrape: str | None = None, rules: Path | None = None) -> Iterator[Prometheus]:
    """Run a Prometheus on the blocks in `folder/data`, which scrapes an address each second."""
    config = folder / "prometheus.yml"
    config.write_text(_config(scrape, rules))
    address = f"127.0.0.1:{_free_port()}"
    command = [
        "prometheus",
        f"--config.file={config}",
        f"--storage.tsdb.path={folder / 'data'}",
        "--storage.tsdb.retention.time=20y",
        f"--web.listen-address={address}",
        "--enable-feature=exemplar-storage",
        "--log.level=warn",
    ]
    with (folder / "prometheus.log").open("w") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            _await_ready(f"http://{address}", process, folder)
            yield Prometheus(url=f"http://{address}")
        finally:
            process.terminate()
            process.wait(20)


def promtool(*arguments: str | Path) -> str:
    """Run promtool and return its output; fail with the output if promtool reports an error."""
    done = subprocess.run(["promtool", *map(str, arguments)], check=False, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _config(scrape: str | None, rules: Path | None) -> str:
    lines = ["global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}"]
    if rules is not None:
        lines.append(f"rule_files: ['{rules}']")
    if scrape is not None:
        target = scrape.removeprefix("http://")
        lines.append(f"scrape_configs: [{{job_name: otel-agentic, static_configs: [{{targets: ['{target}']}}]}}]")
    return "\n".join(lines) + "\n"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _await_ready(url: str, process: subprocess.Popen[bytes], folder: Path) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        try:
            if httpx.get(f"{url}/-/ready", trust_env=False, timeout=2).is_success:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.1)
    pytest.fail((folder / "prometheus.log").read_text())
