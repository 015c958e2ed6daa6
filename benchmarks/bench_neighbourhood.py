"""Measure the time to find the traces that may share a conversation with a new trace, by the number of stored traces.

The cost must not grow with the store: every size should cost about the same.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Final

from benchmarks.cpu_time import best_s
from otel_agentic.config import Settings, StoreSettings
from otel_agentic.engine.engine import Engine
from otel_agentic.store.links import neighbourhood
from otel_agentic.testing import NOON_NS, SECOND_NS

SIZES: Final = (1_000, 10_000, 100_000, 1_000_000)
#: Number of traces that are looked up together.
TOGETHER: Final = 50
IDLE_NS: Final = 300 * SECOND_NS
#: One trace every ten seconds, without a conversation id; three traces form a conversation, linked by their history.
FILL: Final = """
INSERT INTO trace_links BY NAME
SELECT
    md5('t' || i) AS trace_id, '' AS environment, 'service' AS service, md5('t' || (i - i % 3)) AS conversation_id,
    []::VARCHAR[] AS linked_traces, CASE WHEN i % 3 = 0 THEN [] ELSE [md5('h' || (i - 1))] END AS history_in,
    [md5('h' || i)] AS history_out, 2 AS events, make_timestamp_ns($noon + i * 10000000000) AS started_at,
    make_timestamp_ns($noon + i * 10000000000 + 5000000000) AS ended_at, ended_at AS received_until,
    ended_at AS received_from, false AS clock_ahead, md5('q' || i) AS query_digest, ['scope'] AS scopes
FROM range($size) t(i)
"""
NEWEST: Final = "SELECT trace_id FROM trace_links ORDER BY rowid DESC LIMIT $together"


def main() -> None:
    """Measure a store of each size."""
    for size in SIZES:
        with tempfile.TemporaryDirectory() as folder:
            settings = Settings(store=StoreSettings(db=Path(folder) / "bench.duckdb"))
            with Engine(settings, create=True) as engine:
                print(f"{size:>9,} traces: {_cost_s(engine, size) * 1000:6.1f} ms of CPU for {TOGETHER} traces")


def _cost_s(engine: Engine, size: int) -> float:
    engine.store.write(lambda con: con.execute(FILL, {"size": size, "noon": NOON_NS}))
    with engine.store.read() as con:
        newest = [trace_id for (trace_id,) in con.execute(NEWEST, {"together": TOGETHER}).fetchall()]
        return best_s({"near": lambda: neighbourhood(con, newest, IDLE_NS)})["near"]


if __name__ == "__main__":
    main()
