"""CPU time for every benchmark: of this process (all threads), of a running process, and of child processes that ended.

Ratios compare CPU time, not elapsed time, because elapsed time on a shared machine depends on other processes. Work that is
compared is measured in one run and in alternation, so that a change of the machine's speed affects all of it equally.
"""

from __future__ import annotations

import os
import resource
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

#: CPU time of this process and all its threads, seconds.
own_s: Final = time.process_time
_TICKS: Final = os.sysconf("SC_CLK_TCK")


@dataclass(slots=True)
class Timer:
    """The time of a block of code: CPU time of this process, and elapsed time, in seconds."""

    cpu_s: float = 0.0
    elapsed_s: float = 0.0


@contextmanager
def timed() -> Iterator[Timer]:
    """Measure the block; the times are set when it ends."""
    timer = Timer()
    elapsed_s, cpu_s = time.perf_counter(), own_s()
    try:
        yield timer
    finally:
        timer.cpu_s, timer.elapsed_s = own_s() - cpu_s, time.perf_counter() - elapsed_s


def cpu_of(work: Callable[[], object]) -> float:
    """Return the CPU time of the work in this process, in seconds."""
    with timed() as timer:
        work()
    return timer.cpu_s


def in_turns(works: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """Return the CPU time of each work in each round, seconds; a round does each work once."""
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(rounds):
        for name, work in works.items():
            times[name].append(cpu_of(work))
    return times


def best_s(works: Mapping[str, Callable[[], object]], rounds: int = 5) -> dict[str, float]:
    """Return the minimum CPU time of each work in seconds, measured in alternation."""
    return {name: min(times) for name, times in in_turns(works, rounds).items()}


def median_s(works: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Return the median CPU time of each work in seconds, measured in alternation."""
    return {name: statistics.median(times) for name, times in in_turns(works, rounds).items()}


def process_s(pid: int) -> float:
    """Return the CPU time of a running process so far, in seconds, with the resolution of the kernel's clock tick."""
    fields = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def tree_s(pid: int) -> float:
    """Return the CPU time of a running process and its running descendants so far, in seconds."""
    children = " ".join(thread.read_text("ascii") for thread in Path(f"/proc/{pid}/task").glob("*/children")).split()
    return process_s(pid) + sum(tree_s(int(child)) for child in children)


def children_s() -> float:
    """Return the CPU time of all child processes that ended and were waited for, in seconds."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
