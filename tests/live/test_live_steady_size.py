"""A store under steady traffic that keeps so many hours: its file levels off."""

from __future__ import annotations

from pathlib import Path

import pytest

from otel_agentic.live.loops import RetentionLoop
from tests.builders import fill_hour, rows
from tests.engine.retention_engine import Clock, retaining_engine

KEEP_HOURS = 4


@pytest.mark.slow
def test_the_file_of_a_store_that_keeps_some_hours_does_not_grow_on(tmp_path: Path) -> None:
    clock, sizes = Clock(), []
    with retaining_engine(
        tmp_path / "t.duckdb",
        clock,
        retention={"keep": f"{KEEP_HOURS}h", "export": True},
        store={"checkpoint_threshold_mb": 4},
    ) as engine:
        retaining = RetentionLoop(engine)
        for hour in range(24):
            fill_hour(engine, hour, conversations=400, spans=25)
            clock.at(hour + 1)
            retaining.round()
            sizes.append(engine.store.path.stat().st_size)
            stored = rows(engine, "SELECT count(*) FROM spans")[0][0]
            assert stored <= (KEEP_HOURS + 1) * 10_000
        exported = rows(engine, "SELECT sum(row_count) FROM exports WHERE table_name = 'spans'")[0][0]

    assert 230_000 <= exported
    assert max(sizes[12:]) <= 1.25 * max(sizes[6:12]), sizes
