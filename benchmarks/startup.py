"""Measure the CPU time of starting: the command line, the package, a new store and a collector.

python -m benchmarks.startup
python -m benchmarks.startup --rounds 20

Each figure is the CPU time of a process of its own, in alternation with a bare `python -c pass` and `import duckdb`. Byte code
is cached, as in an installed package. `new store` is measured inside a process that has imported everything. `serve` is
measured until its addresses are known, once in a new file and once in an existing one.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from benchmarks.cpu_time import children_s, cpu_of
from benchmarks.load import serving
from otel_agentic.config import Settings, StoreSettings
from otel_agentic.engine.engine import Engine

_COMMAND: Final = (sys.executable, "-m", "otel_agentic.cli")
_ROUNDS: Final = 9
#: Targets on an idle machine, seconds.
_TARGETS_S: Final = {
    "otel-agentic --help": 0.25,
    'otel-agentic query "select 1"': 0.5,
    "import otel_agentic": 0.15,
    "new store": 0.05,
    "otel-agentic serve, ready": 1.5,
}


def main() -> None:
    """Print the minimum and the median of each figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=_ROUNDS, help="of each figure")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["PYTHONPYCACHEPREFIX"] = folder  # and thereby not where other processes run from
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        works = _works(Path(folder))
        for work in works.values():
            work()  # compiles
        times_s: dict[str, list[float]] = {name: [] for name in works}
        for _ in range(options.rounds):
            for name, work in works.items():
                times_s[name].append(work())
    for name, spent_s in times_s.items():
        target_s = _TARGETS_S.get(name)
        target = f"   target {target_s * 1e3:6,.0f} ms" if target_s else ""
        print(f"{name:<36} {min(spent_s) * 1e3:7,.0f} ms, median {statistics.median(spent_s) * 1e3:7,.0f} ms{target}")


def _works(folder: Path) -> dict[str, Callable[[], float]]:
    """Return functions that each measure one figure once, by name."""
    db = folder / "startup.duckdb"
    _create(db)
    return {
        "python -c pass": partial(_process_s, sys.executable, "-c", "pass"),
        "import duckdb": partial(_process_s, sys.executable, "-c", "import duckdb"),
        "import otel_agentic": partial(_process_s, sys.executable, "-c", "import otel_agentic"),
        "otel-agentic --help": partial(_process_s, *_COMMAND, "--help"),
        'otel-agentic query "select 1"': partial(_process_s, *_COMMAND, "query", "select 1", "--db", str(db)),
        "new store": partial(_new_store_s, folder),
        "otel-agentic serve, ready": partial(_ready_s, folder, new=False),
        "otel-agentic serve in a new file": partial(_ready_s, folder, new=True),
    }


def _process_s(*command: str) -> float:
    """Return the CPU time of a process and its children."""
    before_s = children_s()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)  # noqa: S603 — our own commands
    return children_s() - before_s


def _create(db: Path) -> None:
    Engine(Settings(store=StoreSettings(db=db)), create=True).close()


def _new_store_s(folder: Path) -> float:
    with tempfile.TemporaryDirectory(dir=folder) as empty:
        return cpu_of(partial(_create, Path(empty) / "new.duckdb"))


def _ready_s(folder: Path, *, new: bool) -> float:
    with tempfile.TemporaryDirectory(dir=folder) as empty:
        if not new:
            _create(Path(empty) / "load.duckdb")
        with serving(Path(empty)) as served:
            served.stop()
        return served.ready_cpu_s


if __name__ == "__main__":
    main()
