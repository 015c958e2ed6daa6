"""Queries of people are few at once, whatever else runs."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from otel_agentic import LiveCollector, load_settings
from otel_agentic.errors import OverloadedError, QueryError

if TYPE_CHECKING:
    from pathlib import Path


def test_a_query_beyond_the_slots_is_refused_until_one_is_free(tmp_path: Path) -> None:
    settings = load_settings(store={"db": tmp_path / "live.duckdb", "query_timeout_s": 3.0}, admin={"query_slots": 1})
    live = LiveCollector(settings, collectors=())
    try:
        running = threading.Thread(target=_ignoring_timeout, args=(live,))
        running.start()
        with pytest.raises(OverloadedError, match=r"1 queries are running already \(admin.query_slots\)"):
            _until_refused(live)
        running.join()
        assert live.run("query", {"sql": "SELECT 1 AS one"})["rows"] == [[1]]
    finally:
        live.stop()


def _until_refused(live: LiveCollector) -> None:
    for _ in range(1000):
        live.run("query", {"sql": "SELECT 1"})


def _ignoring_timeout(live: LiveCollector) -> None:
    with pytest.raises(QueryError, match="took longer than"):
        live.run("query", {"sql": "SELECT sum(a.range * b.range) FROM range(1000000) a, range(1000000) b"})
