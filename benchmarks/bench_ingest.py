"""Spans to a durable DuckDB file: what the size of a batch costs, beside decoding the same spans."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path

from benchmarks.workload import SPANS_A_CONVERSATION, best_s, request, show
from otel_agentic.config import ConversationSettings, ReceiveSettings, StoreSettings
from otel_agentic.dialects import Reader
from otel_agentic.spans import Limits, SpanBatch, decode_traces
from otel_agentic.store import Store

CONVERSATIONS = 2000
#: Conversations a batch: 40, 400 and 4000 spans.
SIZES = (10, 100, 1000)


def main() -> None:
    """Time the store on the same spans in batches of several sizes, each commit durable before the next."""
    limits = Limits.from_settings(ReceiveSettings())
    payload = request(0, CONVERSATIONS).SerializeToString()
    times_s = {"decoding alone": best_s(lambda: decode_traces(payload, limits), repeats=3)}
    for size in SIZES:
        parts = [request(first, size).SerializeToString() for first in range(0, CONVERSATIONS, size)]
        batches = [decode_traces(part, limits) for part in parts]
        times_s[f"storing in batches of {size * SPANS_A_CONVERSATION} spans"] = best_s(
            partial(_store, batches), repeats=2
        )
    show(times_s, CONVERSATIONS * SPANS_A_CONVERSATION)


def _store(batches: list[SpanBatch]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        settings = StoreSettings(db=Path(folder) / "bench.duckdb")
        with Store(settings, Reader.from_settings(ConversationSettings())) as store:
            for batch in batches:
                store.accept(batch)


if __name__ == "__main__":
    main()
