"""Stored spans to conversations: building them, and finding that nothing changed, beside storing the same spans."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.workload import SPANS_A_CONVERSATION, request, show
from otel_agentic.config import ReceiveSettings, Settings, StoreSettings
from otel_agentic.pipeline import Engine
from otel_agentic.spans import Limits, decode_traces

if TYPE_CHECKING:
    from collections.abc import Callable

CONVERSATIONS = 2000


def main() -> None:
    """Time each step once on a fresh file."""
    batch = decode_traces(request(0, CONVERSATIONS).SerializeToString(), Limits.from_settings(ReceiveSettings()))
    trace_ids = frozenset(span.trace_id for span in batch.spans)
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(store=StoreSettings(db=Path(folder) / "bench.duckdb"))
        with Engine(settings, create=True) as engine:
            times_s = {
                "storing the spans": _timed(lambda: engine.store.accept(batch)),
                "building their conversations": _timed(lambda: _rebuild(engine, trace_ids)),
                "building them again: nothing changed": _timed(lambda: _rebuild(engine, trace_ids)),
            }
    show(times_s, CONVERSATIONS * SPANS_A_CONVERSATION)


def _rebuild(engine: Engine, trace_ids: frozenset[str]) -> None:
    engine.rebuilder.rebuild(engine.rebuilder.read(trace_ids), lambda _: "end_of_input")


def _timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
