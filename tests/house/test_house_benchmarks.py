"""Benchmarks compare CPU time: elapsed time depends on the other processes of the machine."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Final

import pytest

BENCHMARKS: Final = Path(__file__).parents[2] / "benchmarks"
#: The clocks that count elapsed time, wherever they are read.
ELAPSED: Final = {"perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns"}
#: Files whose subject is a latency or a schedule; they print CPU time alongside. `cpu_time.py` offers both.
ALLOWED: Final = {
    "bench_backfill.py",
    "bench_latency.py",
    "bench_retention.py",
    "console.py",
    "cpu_time.py",
    "live.py",
    "load.py",
    "peers.py",
    "sender.py",
}


@pytest.mark.parametrize("path", sorted(BENCHMARKS.glob("*.py")), ids=lambda path: path.name)
def test_elapsed_time_is_read_only_where_latency_is_the_subject(path: Path) -> None:
    names = {
        node.attr if isinstance(node, ast.Attribute) else node.id
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Attribute | ast.Name)
    }

    assert bool(names & ELAPSED) == (path.name in ALLOWED)
