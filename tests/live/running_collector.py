"""Running collectors, and waiting for what they do."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from otel_agentic.commands import open_client
from otel_agentic.live.collector import LiveCollector
from tests.stores import settings_for

if TYPE_CHECKING:
    from otel_agentic.config import Settings
    from otel_agentic.net.server_file import LiveServer

PORTS: dict[str, Any] = {
    "receive": {"grpc": "127.0.0.1:0", "http": "127.0.0.1:0"},
    "admin": {"address": "127.0.0.1:0"},
}
QUICK: dict[str, Any] = {
    "conversations": {"turn_idle_s": 0.05, "idle_s": 0.2, "idle_without_id_s": 0.2},
    "windows": {"widths": ["1h"], "step_s": 1},
    "store": {"snapshot_interval_s": 0.01},
}
#: A conversation stays open as long as a test lasts.
OPEN: dict[str, Any] = {"conversations": {"turn_idle_s": 0.05, "idle_s": 600, "idle_without_id_s": 600}}


def live_settings(db: Path, **sections: dict[str, Any]) -> Settings:
    """Return settings of a collector on free ports that closes conversations at once, and answers SQL of now."""
    return settings_for(db, **{**PORTS, **QUICK, **sections})


@contextmanager
def running(settings: Settings, **truth: list[tuple[str, str]]) -> Iterator[tuple[LiveCollector, LiveServer]]:
    """Run a collector."""
    live = LiveCollector(settings)
    try:
        if truth:
            live.run("truth_import", truth)
        yield live, live.start()
    finally:
        live.stop()


def ask(settings: Settings, name: str, **arguments: Any) -> Any:
    """Run a command as the command line does, by the file's name."""
    client = open_client(settings, server=None)
    try:
        return client.call(name, **arguments)
    finally:
        client.close()


def eventually(ask_for: Callable[[], Any], expected: Any, timeout_s: float = 60.0) -> None:
    """Return when `ask_for` returns the expected answer; fail with the last one after `timeout_s` seconds."""
    deadline, wait_s = time.monotonic() + timeout_s, 0.02
    while (result := ask_for()) != expected:
        assert time.monotonic() < deadline, f"wanted {expected!r}, found {result!r}"
        time.sleep(wait_s)
        wait_s = min(wait_s * 1.3, 0.25)  # each question costs as much CPU time as the work that it waits for
