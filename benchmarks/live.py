"""Send small chats to a running collector at a constant rate, and measure whether rebuilding and scoring keep up.

python -m benchmarks.live                                  # 1,000 spans/s for a minute
python -m benchmarks.live --rate 10000 --seconds 300       # more than it scores at once: how long the rest takes
python -m benchmarks.live --processors 1                   # a collector on one processor; the sender uses the others

The collector is a real `otel-agentic serve` with cases, default metrics and windows. A turn closes 2 s and a conversation 5 s after
its last span, so that all stages run during the load. Printed are the items that are due and wait (traces to read, conversations to
rebuild, conversations to score), every tenth of the load and until none waits.
"""

from __future__ import annotations

import argparse
import http.client
import os
import re
import tempfile
import threading
import time
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from benchmarks.agent_traffic import Workload, small_chats
from benchmarks.cpu_time import process_s
from benchmarks.load import Serving, address, serving
from otel_agentic.config import Settings
from otel_agentic.engine.engine import Engine

_SPANS_A_CHAT: Final = 8
_BATCH: Final = 512
_SETTINGS: Final = """
[conversations]
turn_idle_s = 2
idle_s = 5
"""
_IDLE_S: Final = 5.0
_CONNECTIONS: Final = 8
_HEADERS: Final = {"Content-Type": "application/x-protobuf"}
_RETRY_S: Final = 0.5
#: Number of lines printed during the load.
_LINES: Final = 10
#: Maximum time after the load until nothing waits.
_DRAIN_S: Final = 1800.0
_BACKLOG: Final = re.compile(r'^agentic_pipeline_backlog\{.*agentic_stage="(\w+)".*\} (\S+)', re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """The delays of the acknowledgements from their scheduled times in ms, and the number of refused requests."""

    delays_ms: list[float]
    refused: list[int]


def main() -> None:
    """Run the load, wait until nothing waits, and print the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=float, default=1_000, help="spans a second")
    parser.add_argument("--seconds", type=float, default=60, help="duration of the load")
    parser.add_argument("--processors", type=int, help="processors of the collector; all by default")
    options = parser.parse_args()
    chats = int(options.rate * options.seconds / _SPANS_A_CHAT)
    # Building the requests takes longer than sending them, so they begin at the expected end of building.
    building_s = chats * _SPANS_A_CHAT * 150e-6 + 5
    workload = small_chats(chats, time.time_ns() + int(building_s * 1e9), int(_SPANS_A_CHAT / options.rate * 1e9))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "cases.jsonl").write_text(workload.cases)
        (folder / "settings.toml").write_text(_SETTINGS)
        with serving(folder, "--cases", "cases.jsonl", "--config", "settings.toml") as served:
            if options.processors:
                os.sched_setaffinity(served.process.pid, sorted(os.sched_getaffinity(0))[: options.processors])
            began_s = time.monotonic()
            sent = _send_watched(served, workload, options.rate)
            loaded_s, loaded_cpu_s = time.monotonic() - began_s, served.cpu_s() - served.ready_cpu_s
            drained_s = _drain(served, began_s)
            cpu_s = served.cpu_s() - served.ready_cpu_s
            workers_s = served.cpu_s() - process_s(served.process.pid)
            served.stop()
        _show_result(served, workload, sent, chats)
        print(f"  after the load, nothing waited within {drained_s:,.0f} s (conversations close after {_IDLE_S:g} s)")
        worker_us, total_us = workers_s / workload.spans * 1e6, cpu_s / workload.spans * 1e6
        print(f"  CPU: {total_us:,.0f} us a span, of which workers take {worker_us:,.0f} us")
        print(f"  {loaded_cpu_s / loaded_s:.2f} processors were busy under load")


def _send_watched(served: Serving, workload: Workload, rate: float) -> Sent:
    """Send the requests on schedule; print the backlog meanwhile."""
    sent = Sent(delays_ms=[], refused=[])
    host, port = address(served.live["http"])
    began_s = time.monotonic() + 0.5
    every_s = _BATCH / rate

    def some(first: int) -> None:
        connection = http.client.HTTPConnection(host, port, timeout=60)
        for number in range(first, len(workload.requests), _CONNECTIONS):
            due_s = began_s + number * every_s
            time.sleep(max(0.0, due_s - time.monotonic()))
            while _post(connection, workload.requests[number]) != http.client.OK:
                sent.refused.append(number)
                time.sleep(_RETRY_S)
            sent.delays_ms.append((time.monotonic() - due_s) * 1e3)
        connection.close()

    threads = [threading.Thread(target=some, args=(first,)) for first in range(_CONNECTIONS)]
    for thread in threads:
        thread.start()
    for line in range(1, _LINES + 1):
        due_s = began_s + line * len(workload.requests) * every_s / _LINES
        time.sleep(max(0.0, due_s - time.monotonic()))
        _show_backlog(served, began_s)
    for thread in threads:
        thread.join()
    return sent


def _post(connection: http.client.HTTPConnection, body: bytes) -> int:
    connection.request("POST", "/v1/traces", body, _HEADERS)
    response = connection.getresponse()
    response.read()
    return response.status


def _drain(served: Serving, began_s: float) -> float:
    """Wait until nothing waits for longer than conversations take to close; return the time until then in seconds."""
    loaded_s = free_s = time.monotonic()
    shown_s = 0.0
    while free_s - loaded_s < _DRAIN_S:
        now_s = time.monotonic()
        if any(_backlog(served)):
            free_s = now_s
            if now_s - shown_s > _DRAIN_S / 60:
                _show_backlog(served, began_s)
                shown_s = now_s
        elif now_s - free_s > 2 * _IDLE_S:
            return free_s - loaded_s
        time.sleep(1)
    raise TimeoutError(f"the backlog is {_backlog(served)} after {_DRAIN_S:,.0f} s")


def _backlog(served: Serving) -> tuple[int, ...]:
    """Return the traces to read, and the conversations to rebuild and to score."""
    with urllib.request.urlopen(f"{served.live['admin']}/metrics", timeout=60) as response:  # noqa: S310 — our own URL
        counts = dict(_BACKLOG.findall(response.read().decode()))
    return tuple(int(float(counts[stage])) for stage in ("read", "rebuild", "score"))


def _show_backlog(served: Serving, began_s: float) -> None:
    read, rebuild, score = _backlog(served)
    print(
        f"  after {time.monotonic() - began_s:4.0f} s, {read:,} traces wait to be read, {rebuild:,} conversations to be "
        f"rebuilt, {score:,} to be scored",
        flush=True,
    )


def _show_result(served: Serving, workload: Workload, sent: Sent, chats: int) -> None:
    with Engine(Settings.model_validate({"store": {"db": served.db}})) as engine, engine.store.read() as con:
        ((spans, scored),) = con.execute(
            "SELECT (SELECT count(*) FROM spans), (SELECT count(*) FROM conversation_scores WHERE NOT superseded)"
        ).fetchall()
    p50_ms, p99_ms = _percentiles(sent.delays_ms)
    print(f"  {spans:,} of {workload.spans:,} spans are stored, {scored:,} of {chats:,} conversations are scored")
    print(
        f"  acknowledged after {p50_ms:,.0f} ms (median), {p99_ms:,.0f} ms (99 %); {len(sent.refused):,} requests refused"
    )
    print(f"  memory: {served.largest_memory_bytes / 2**20:,.0f} MiB at most, with the workers")


def _percentiles(delays_ms: Sequence[float]) -> tuple[float, float]:
    median, high = np.percentile(delays_ms, (50, 99))
    return float(median), float(high)


if __name__ == "__main__":
    main()
