"""Foreign clients, installed into a folder of their own, and what they sent as it is stored."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from otel_agentic.live.collector import LiveCollector

_HERE = Path(__file__).parent
_INSTALL = ("npm", "install", "--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error")


@dataclass(frozen=True, slots=True, kw_only=True)
class JsClient:
    """The exporters for JavaScript in a folder where they are installed."""

    folder: Path

    def send(self, protocol: str, endpoint: str, compression: str, *, turns: int = 1, pause_ms: int = 0) -> str:
        """Return the output of the client after it exited."""
        begun = self.begin(protocol, endpoint, compression, turns=turns, pause_ms=pause_ms)
        output, complaint = begun.communicate(timeout=120)
        assert (begun.returncode, complaint) == (0, "")
        return output

    def begin(
        self, protocol: str, endpoint: str, compression: str, *, turns: int, pause_ms: int
    ) -> subprocess.Popen[str]:
        """Return the client, running."""
        arguments = (protocol, endpoint, compression, str(turns), str(pause_ms))
        command = ("node", "send.mjs", *arguments)
        return subprocess.Popen(command, cwd=self.folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def send_by_vercel(self, protocol: str, endpoint: str) -> None:
        """Send a span with the exporters of @vercel/otel."""
        command = ("node", "vercel.mjs", protocol, endpoint)
        done = subprocess.run(command, cwd=self.folder, text=True, capture_output=True, timeout=120, check=False)
        assert ("sent\n", "") == (done.stdout, done.stderr)


def installed_js(folder: Path) -> JsClient:
    """Return the client for JavaScript, installed; skip where node, npm or the registry is missing."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("node and npm are not installed")
    for file in ("package.json", "send.mjs", "vercel.mjs"):
        shutil.copy(_HERE / "js" / file, folder)
    try:
        done = subprocess.run(_INSTALL, cwd=folder, capture_output=True, text=True, timeout=240, check=False)
    except subprocess.TimeoutExpired:
        pytest.skip("npm install did not end within 240 s")
    if done.returncode:
        pytest.skip(f"npm install failed: {done.stderr.strip()[-300:]}")
    return JsClient(folder=folder)


def stored_spans(live: LiveCollector) -> list[dict[str, Any]]:
    """Return the spans that are stored, by the turn they belong to."""
    sql = "SELECT trace_id, span_id, parent_span_id, name, service, scope, attributes FROM spans ORDER BY start_time"
    names = ("trace_id", "span_id", "parent_span_id", "name", "service", "scope", "attributes")
    with live.engine.store.read() as con:
        rows = con.execute(sql).fetchall()
    return [{**dict(zip(names, row, strict=True)), "attributes": json.loads(row[-1])} for row in rows]


def stored_logs(live: LiveCollector) -> list[tuple[str, str, Any]]:
    """Return trace id, event name and body of the log records that are stored."""
    with live.engine.store.read() as con:
        rows = con.execute("SELECT trace_id, event_name, body FROM log_records ORDER BY time").fetchall()
    return [(trace_id, event_name, json.loads(body)) for trace_id, event_name, body in rows]
