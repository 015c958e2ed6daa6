"""A backfill that is killed again and again comes to the same rows, and sends no point with another value."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from otel_agentic.engine.engine import Engine
from tests.builders import HOUR_NS, fill_days, rows, run_backfill, window_values
from tests.cli.running import environment
from tests.stores import settings_for
from tests.telemetry.receiver.over_http import http_receiver
from tests.telemetry.receiver.received import Received, attributes

#: A point of a series: name, attributes, time.
Point = tuple[str, str, int]
KILLS = 2


def killed(db: Path, seed: int, times: int, endpoint: str = "") -> list[int]:
    """Kill a backfill so many times, then let it finish; return how each run ended."""
    command = [sys.executable, "-m", "tests.backfill.killed_backfill", str(db), str(seed), str(times), endpoint]
    done = subprocess.run(
        [part for part in command if part], capture_output=True, check=False, env=environment(), text=True, timeout=250
    )
    assert 0 == done.returncode, done.stderr
    ended: list[int] = json.loads(done.stdout)
    return ended


def values(received: Received) -> dict[Point, set[float]]:
    """Return all values that were sent for each point."""
    result: dict[Point, set[float]] = defaultdict(set)
    for request in received.metrics:
        for resource in request.resource_metrics:
            for metric in (metric for scope in resource.scope_metrics for metric in scope.metrics):
                data: Any = getattr(metric, str(metric.WhichOneof("data")))
                for point in data.data_points:
                    value = point.as_int if point.HasField("as_int") else point.as_double
                    index = (
                        metric.name,
                        json.dumps(attributes(point.attributes), sort_keys=True),
                        point.time_unix_nano,
                    )
                    result[index].add(float(value))
    return result


def filled(db: Path) -> None:
    with Engine(settings_for(db), create=True) as engine:
        fill_days(engine, 12)


def check(tmp_path: Path, seed: int, times: int) -> None:
    """Compare a backfill that was killed with one that was not: rows of the table, and points at a receiver."""
    filled(tmp_path / "killed.duckdb")
    shutil.copy(tmp_path / "killed.duckdb", tmp_path / "whole.duckdb")
    with http_receiver() as once, Engine(settings_for(tmp_path / "whole.duckdb")) as engine:
        run_backfill(engine, step_ns=HOUR_NS // 2, emit="otlp", endpoint=once.endpoint)
        expected, sent = window_values(engine), values(once.received)
    with http_receiver() as often:
        ended = killed(tmp_path / "killed.duckdb", seed, times, often.endpoint)
        result = values(often.received)

    assert [*[-signal.SIGKILL] * times, 0] == ended
    with Engine(settings_for(tmp_path / "killed.duckdb")) as engine:
        assert expected == window_values(engine)
        assert [(1,)] == rows(engine, "SELECT DISTINCT revision FROM windows")
        assert [("finished", 1, len(expected))] == rows(engine, "SELECT state, passes, rows_changed FROM backfills")
        scored = rows(engine, "SELECT count(*), count(DISTINCT conversation_id) FROM conversation_scores")
        assert [(12, 12)] == scored
    assert sent == result
    assert {1} == {len(sent_values) for sent_values in result.values()}


def test_a_backfill_killed_at_random_points_comes_to_the_same_rows_and_points(tmp_path: Path) -> None:
    check(tmp_path, 7, KILLS)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_a_backfill_killed_at_many_random_points_comes_to_the_same_rows_and_points(tmp_path: Path, seed: int) -> None:
    check(tmp_path, seed, 12)
