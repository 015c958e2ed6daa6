"""Measure a collector under load: a real `otel-agentic serve` receives spans from another process.

python -m benchmarks.load                                  # 10,000 spans/s of 2 KB for a minute
python -m benchmarks.load --seconds 300                    # … for five minutes
python -m benchmarks.load --rate 30000 --connections 96 --surplus   # three times the capacity; refused requests are not retried
python -m benchmarks.load --rate 2000 --batch 1            # one request per span
python -m benchmarks.load --folder /dev/shm                # the file on a memory disk, which excludes disk latency
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import numpy as np
import orjson

from benchmarks.cpu_time import children_of, children_s, tree_s
from benchmarks.sender import Load, Sent
from otel_agentic.config import Settings, StoreSettings
from otel_agentic.engine.engine import Engine
from otel_agentic.net.server_file import server_file

_START_S: Final = 30.0
_SAMPLE_S: Final = 0.25
_PROBE_BYTES: Final = 4096
_PSS: Final = re.compile(r"^Pss: +(\d+) kB$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """The results of a collector under load.

    `disk_ms` contains the durations of a bare write and sync of 4 KiB, repeated every quarter of a second during the load: an
    acknowledgement cannot be faster than the disk.
    """

    sent: Sent
    stored: int
    twice: int
    largest_memory_bytes: int
    cpu_s: float
    sender_cpu_s: float
    drain_s: float
    file_bytes: int
    disk_ms: list[float]


class Serving:
    """A collector in its own process, with monitored memory."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.db = folder / "load.duckdb"
        self._log = (folder / "serve.log").open("wb")
        addresses = ("--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0", "--admin", "127.0.0.1:0")
        command = (sys.executable, "-m", "otel_agentic.cli", "serve", "--db", str(self.db), *addresses, *options)
        self.process = subprocess.Popen(command, stdout=self._log, stderr=self._log, cwd=folder)  # noqa: S603 — our own command
        self.live = self._await()
        self.ready_cpu_s = self.cpu_s()
        self.largest_memory_bytes = 0
        self.disk_ms: list[float] = []
        self._watching = threading.Event()
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        self._watcher.start()

    def memory_bytes(self) -> int:
        """Return the resident memory of the process and its workers, where pages that they share count once."""
        return sum(map(_pss_bytes, (self.process.pid, *children_of(self.process.pid))))

    def cpu_s(self) -> float:
        """Return the CPU time of the process and its workers."""
        return tree_s(self.process.pid)

    def stop(self) -> float:
        """Stop the process as a service manager does; return the duration in seconds."""
        self._watching.set()
        self._watcher.join()
        began = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)
        self._log.close()
        return time.monotonic() - began

    def _await(self) -> dict[str, str]:
        deadline = time.monotonic() + _START_S
        while time.monotonic() < deadline and self.process.poll() is None:
            if server_file(self.db).is_file():
                addresses: dict[str, str] = orjson.loads(server_file(self.db).read_bytes())
                return addresses
            time.sleep(0.02)
        raise RuntimeError(f"the collector did not start: {Path(self._log.name).read_text('utf-8')}")

    def _watch(self) -> None:
        with self.db.with_name("probe").open("wb", buffering=0) as probe:
            while not self._watching.wait(_SAMPLE_S):
                self.largest_memory_bytes = max(self.largest_memory_bytes, self.memory_bytes())
                began = time.monotonic()
                probe.write(bytes(_PROBE_BYTES))
                os.fsync(probe.fileno())
                self.disk_ms.append((time.monotonic() - began) * 1e3)


def _pss_bytes(pid: int) -> int:
    """Return the proportional set size of a process: of a page that several processes map, its share."""
    (kilobytes,) = _PSS.findall(Path(f"/proc/{pid}/smaps_rollup").read_text("ascii"))
    return int(kilobytes) * 1024


@contextmanager
def serving(folder: Path, *options: str) -> Iterator[Serving]:
    """Run a collector while the block runs; kill it if the block did not stop it."""
    served = Serving(folder, *options)
    try:
        yield served
    finally:
        if served.process.poll() is None:
            served.process.kill()
            served.process.wait()


def sent_by_process(load: Load) -> tuple[Sent, float]:
    """Send a load from a separate process; return the results and the CPU time of sending in seconds."""
    before_s = children_s()
    command = (sys.executable, "-m", "benchmarks.sender", json.dumps(asdict(load)))
    out = subprocess.run(command, check=True, stdout=subprocess.PIPE, cwd=Path(__file__).parents[1]).stdout  # noqa: S603 — our own command
    return Sent(**orjson.loads(out)), children_s() - before_s


def address(url: str) -> tuple[str, int]:
    """Return host and port of a URL."""
    host, _, port = url.partition("://")[2].rpartition(":")
    return host, int(port)


def stored(db: Path) -> tuple[int, int]:
    """Return the number of spans in a file, and the number of duplicates."""
    with Engine(Settings(store=StoreSettings(db=db))) as engine, engine.store.read() as con:
        spans, distinct = con.execute("SELECT count(*), count(DISTINCT (trace_id, span_id)) FROM spans").fetchall()[0]
    return int(spans), int(spans - distinct)


def hold(folder: Path, load: Load, *options: str) -> Held:
    """Run a collector under a load whose address is not known yet, stop the collector, and read its file."""
    with serving(folder, *options) as served:
        host, port = address(served.live["http"])
        sent, sender_cpu_s = sent_by_process(Load(**{**asdict(load), "host": host, "port": port}))
        cpu_s = served.cpu_s()
        drain_s = served.stop()
    rows, twice = stored(served.db)
    return Held(
        sent=sent,
        stored=rows,
        twice=twice,
        largest_memory_bytes=served.largest_memory_bytes,
        cpu_s=cpu_s,
        sender_cpu_s=sender_cpu_s,
        drain_s=drain_s,
        file_bytes=served.db.stat().st_size,
        disk_ms=served.disk_ms,
    )


def show(held: Held, load: Load) -> None:
    """Print the results."""
    sent = held.sent
    print(f"{load.rate:,.0f} spans/s of {load.span_bytes:,} bytes for {load.seconds:g} s in requests of {load.batch}")
    print(f"  sent          {sent.spans_sent:>12,} spans, answers by status: {sent.statuses}")
    if refused := {status: count for status, count in sent.statuses.items() if status != "200"}:
        print(
            f"  refused       {sum(refused.values()):>12,} requests, {sent.refusals_without_hint:,} without Retry-After"
        )
    print(f"  acknowledged  {sent.spans_acknowledged:>12,} spans, abandoned {sent.spans_given_up:,}")
    print(f"  stored        {held.stored:>12,} spans, {held.twice:,} of them duplicates")
    delays = ", ".join(f"p{percent:g} {sent.percentile_ms(percent):,.0f}" for percent in (50, 90, 99, 100))
    print(f"  answer after  {delays} ms (from the scheduled time)")
    probed = ", ".join(f"p{percent:g} {np.percentile(held.disk_ms, percent):,.0f}" for percent in (50, 99, 100))
    print(f"  disk          {probed} ms for a bare write and sync of 4 KiB")
    print(f"  memory        {held.largest_memory_bytes / 2**20:>12,.0f} MiB at most")
    each_us = held.cpu_s / max(held.stored, 1) * 1e6
    print(
        f"  CPU           {held.cpu_s:>12,.1f} s of the collector ({each_us:.0f} us a span), {held.sender_cpu_s:,.1f} s of the sender"
    )
    print(f"  file          {held.file_bytes / 2**20:>12,.0f} MiB; stopped in {held.drain_s:.1f} s")


def main() -> None:
    """Run the load and print the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=float, default=10_000, help="spans a second")
    parser.add_argument("--seconds", type=float, default=60, help="how long")
    parser.add_argument("--batch", type=int, default=512, help="spans in a request")
    parser.add_argument("--connections", type=int, default=8, help="connections of the sender")
    parser.add_argument("--bytes", type=int, default=2_000, help="bytes of a span in protobuf")
    parser.add_argument("--gzip", action="store_true", help="compress requests")
    parser.add_argument(
        "--surplus", action="store_true", help="do not retry, and drop requests that are late at the end"
    )
    parser.add_argument("--folder", type=Path, help="folder of the file (default: the folder for temporary files)")
    options = parser.parse_args()
    load = Load(
        host="",
        port=0,
        rate=options.rate,
        seconds=options.seconds,
        batch=options.batch,
        connections=options.connections,
        span_bytes=options.bytes,
        compressed=options.gzip,
        retry=not options.surplus,
    )
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        show(hold(Path(folder), load), load)


if __name__ == "__main__":
    main()
