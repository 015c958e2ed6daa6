"""Measure rebuilding conversations from stored spans, with and without changes, relative to storing the same spans."""

from __future__ import annotations

import tempfile
from pathlib import Path

from benchmarks.cpu_time import cpu_of
from benchmarks.workload import SPANS_A_CONVERSATION, request, show
from otel_agentic.config import ReceiveSettings, Settings, StoreSettings
from otel_agentic.engine.engine import Engine
from otel_agentic.spans import Limits, decode_traces

CONVERSATIONS = 2000


def main() -> None:
    """Measure each step once on a new file."""
    batch = decode_traces(request(0, CONVERSATIONS).SerializeToString(), Limits.from_settings(ReceiveSettings()))
    trace_ids = frozenset(span.trace_id for span in batch.spans)
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(store=StoreSettings(db=Path(folder) / "bench.duckdb"))
        with Engine(settings, create=True) as engine:
            times_s = {
                "storing the spans": cpu_of(lambda: engine.store.accept(batch)),
                "building their conversations": cpu_of(lambda: _rebuild(engine, trace_ids)),
                "building them again: nothing changed": cpu_of(lambda: _rebuild(engine, trace_ids)),
            }
    show(times_s, CONVERSATIONS * SPANS_A_CONVERSATION)


def _rebuild(engine: Engine, trace_ids: frozenset[str]) -> None:
    engine.rebuilder.rebuild(engine.rebuilder.read(trace_ids), lambda _: "end_of_input")


if __name__ == "__main__":
    main()
