"""Measure retention and export of a million spans: duration, how long the writer thread is blocked, and the effect on acknowledgements.

Acknowledgements and blocking of the writer are latencies: elapsed time, with CPU time alongside.

`python -m benchmarks.bench_retention [--spans 1000000]`
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from benchmarks.cpu_time import Timer, timed
from otel_agentic.engine.retention import HourlyExport, RetentionPass
from otel_agentic.testing import NOON_NS, batch, span
from tests.builders import HOUR_NS, fill_hour
from tests.engine.retention_engine import Clock, retaining_engine

if TYPE_CHECKING:
    from otel_agentic.engine.engine import Engine

PER_CONVERSATION: Final = 25
HOURS: Final = 10
BATCH: Final = 100


class Watched:
    """Records how long each unit of work blocks the writer thread."""

    def __init__(self, engine: Engine) -> None:
        self.held_s: list[float] = []
        self.cpu_s: list[float] = []
        self._write = engine.store.write
        engine.store.write = self.write  # type: ignore[method-assign]

    def write(self, work: Callable[[Any], Any]) -> Any:
        """Run work on the writer thread and measure it."""

        def timed(con: Any) -> Any:
            began, cpu = time.perf_counter(), time.thread_time()
            try:
                return work(con)
            finally:
                self.held_s.append(time.perf_counter() - began)
                self.cpu_s.append(time.thread_time() - cpu)

        return self._write(timed)


def acknowledged(engine: Engine, stop: threading.Event, start_ns: int) -> list[float]:
    """Send batches one after the other until the stop event; return the duration of each acknowledgement in seconds."""
    took, number = [], 0
    template = span("chat")
    while not stop.is_set():
        spans = [
            replace(
                template, trace_id=f"{number:032x}", span_id=f"{number * BATCH + index + 1:016x}", start_ns=start_ns
            )
            for index in range(BATCH)
        ]
        number += 1
        began = time.perf_counter()
        engine.store.accept(batch(*spans))
        took.append(time.perf_counter() - began)
        stop.wait(0.01)
    return took


def with_writer(engine: Engine, work: Callable[[], object], start_ns: int) -> tuple[Timer, list[float]]:
    """Run the work while batches arrive; return the time of both, and the seconds of each acknowledgement."""
    stop, took = threading.Event(), list[float]()
    sender = threading.Thread(target=lambda: took.extend(acknowledged(engine, stop, start_ns)))
    with timed() as timer:
        sender.start()
        work()
        stop.set()
        sender.join()
    return timer, took


def latencies(name: str, took: list[float]) -> str:
    """Return a summary line of the acknowledgements."""
    took_ms = np.array(took) * 1000
    return f"{name:<24} {len(took):>6} acks, median {np.median(took_ms):7.1f} ms, p99 {np.percentile(took_ms, 99):7.1f} ms, max {took_ms.max():7.1f} ms"


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spans", type=int, default=1_000_000)
    spans = parser.parse_args().spans
    per_hour = spans // HOURS // PER_CONVERSATION
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder, retaining_engine(Path(folder) / "t.duckdb", clock) as engine:
        for hour in range(HOURS):
            fill_hour(engine, hour, conversations=per_hour, spans=PER_CONVERSATION)
        say(f"{spans:,} spans in {per_hour * HOURS:,} conversations over {HOURS} hours, file {mb(engine.store.path)}")
        clock.at(HOURS + 1)
        now_ns = clock.now_ns
        _, idle = with_writer(engine, lambda: time.sleep(5), now_ns)
        say(latencies("nothing else", idle))

        timer, took = with_writer(engine, lambda: HourlyExport(engine).run(), now_ns + HOUR_NS)
        size = sum(path.stat().st_size for path in (Path(folder) / "t.duckdb.export").rglob("*.parquet"))
        say(latencies("while exporting", took))
        say(
            f"  exported all in {timer.cpu_s:.1f} s of CPU, {timer.elapsed_s:.1f} s elapsed (both including sending), {size / 1e6:.0f} MB of Parquet"
        )

        watched = Watched(engine)
        cut_ns = clock.now_ns - (NOON_NS + HOURS * HOUR_NS)
        deleted = []
        timer, took = with_writer(
            engine, lambda: deleted.append(RetentionPass(engine, cut_ns).run()), now_ns + 2 * HOUR_NS
        )
        held, busy = np.array(watched.held_s) * 1000, np.array(watched.cpu_s) * 1000
        say(latencies("while removing", took))
        say(
            f"  removed {deleted[0].spans:,} spans, {deleted[0].conversations:,} conversations in {timer.cpu_s:.1f} s of CPU, {timer.elapsed_s:.1f} s elapsed"
        )
        say(
            f"  {len(held)} units of work blocked the writer: median {np.median(held):.1f} ms, p99 {np.percentile(held, 99):.1f} ms, max {held.max():.1f} ms"
        )
        say(
            f"  CPU time of the writer: median {np.median(busy):.1f} ms, p99 {np.percentile(busy, 99):.1f} ms, max {busy.max():.1f} ms"
        )


def mb(path: Path) -> str:
    """Return the size of a file as text."""
    return f"{path.stat().st_size / 1e6:.0f} MB"


def say(line: str) -> None:
    """Print a line and flush it."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
