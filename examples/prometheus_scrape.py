"""Let Prometheus scrape the reliability of your agents from a collector's `/metrics`.

    python prometheus_scrape.py

Starts a collector on free ports, sends it a few attempts over OTLP/HTTP, scrapes it as Prometheus would and prints
the `agentic_*` series. `prometheus.yml` in this folder is the configuration for a collector on its default ports.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import httpx
from sample_spans import ATTEMPTS, CASES, requests

from otel_agentic import LiveCollector, load_settings

#: The most important series; there are more.
SERIES = ("agentic_success_", "agentic_pass_pow_k_", "agentic_coverage_ratio", "agentic_window_conversations")
LONGEST_S = 30.0


def scrape(admin: str) -> list[str]:
    """Return the lines of `/metrics` that describe agents."""
    text = httpx.get(f"{admin}/metrics", trust_env=False).raise_for_status().text
    return [line for line in text.splitlines() if line.startswith(SERIES)]


def evaluated_conversations(lines: list[str]) -> float:
    """Return the number of conversations in the window."""
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith("agentic_window_conversations"))


def main(folder: Path) -> None:
    """Start a collector, send attempts, wait until they are scored, scrape, stop."""
    settings = load_settings(
        store={"db": folder / "example.duckdb"},
        receive={"http": "127.0.0.1:0", "grpc": "127.0.0.1:0"},
        admin={"address": "127.0.0.1:0"},
        conversations={"turn_idle_s": 0.5, "idle_s": 1},  # in production: one minute and half an hour
        windows={"widths": ("1h",)},
    )
    collector = LiveCollector(settings)
    collector.run("truth_import", {"cases": [("cases.jsonl", CASES)]})
    addresses = collector.start()
    try:
        for request in requests():
            httpx.post(f"{addresses.http}/v1/traces", json=request, trust_env=False).raise_for_status()
        until = time.monotonic() + LONGEST_S
        while time.monotonic() < until and evaluated_conversations(scrape(addresses.admin)) < ATTEMPTS:
            time.sleep(0.1)
        print("\n".join(scrape(addresses.admin)))
    finally:
        collector.stop()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        main(Path(temporary))
