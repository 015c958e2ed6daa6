"""Measure the cost of the default evaluators relative to core scoring: CPU time, rows and file size for 200 tau-airline conversations.

    python -m benchmarks.bench_evaluators

Each round evaluates two copies of one file in succession: one without and one with evaluators. The report shows the median
round. The last table shows the time of each evaluator alone, without storing.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

from benchmarks.cpu_time import timed
from otel_agentic.commands import Commands
from otel_agentic.commands.ingest import ingest_files
from otel_agentic.config import Settings
from otel_agentic.engine.engine import Engine
from otel_agentic.evaluation.conversation import subject_of
from otel_agentic.evaluators.run import evaluating
from otel_agentic.judges.dialogue import ask_of, run_dialogues
from otel_agentic.scoring import score_conversations
from otel_agentic.truth import parse_cases
from tests.shared import SHARED

_TAU: Final = SHARED / "data" / "tau-airline"
_ROUNDS: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One evaluation: CPU time in seconds, rows of evaluators, size of the file afterwards in bytes."""

    cpu_s: float
    rows: int
    file_bytes: int


def engine_on(db: Path, *, create: bool = False) -> Engine:
    """Open a file."""
    return Engine(Settings.model_validate({"store": {"db": db}}), create=create)


def truth() -> dict[str, Any]:
    """Return cases and labels in the form that the command accepts."""
    return {
        "cases": [("cases.jsonl", (_TAU / "cases.jsonl").read_text("utf-8"))],
        "labels": [("labels.csv", (_TAU / "labels.csv").read_text("utf-8"))],
    }


def measured(base: Path, metrics: str) -> Run:
    """Evaluate a copy of a file."""
    db = Path(shutil.copy(base, base.with_name("run.duckdb")))
    with engine_on(db) as engine:
        engine.runner.choose([metrics])  # plug-ins are loaded once per process
        with timed() as timer:
            done = Commands(engine).evaluate(**truth(), metrics=[metrics])
    return Run(cpu_s=timer.cpu_s, rows=done["evaluators"]["rows"], file_bytes=db.stat().st_size)


def alone(base: Path) -> Iterator[tuple[str, float, int]]:
    """Yield each default evaluator with its CPU time in seconds over all conversations, and its rows."""
    with engine_on(base) as engine:
        runner = engine.runner
        cases = parse_cases("cases.jsonl", (_TAU / "cases.jsonl").read_text("utf-8")).require()
        in_force = runner.truth_of(cases, {})
        with engine.store.read() as con:
            keys = con.execute("SELECT environment, conversation_id FROM conversations").fetchall()
        matched = runner.match(in_force, keys)
        settings = engine.settings.scoring
        scores = score_conversations(matched, judge=runner.judge, settings=settings)
        subjects = [
            subject_of(item.conversation, item.match, score, settings)
            for item, score in zip(matched, scores, strict=True)
        ]
        took: dict[str, list[float]] = defaultdict(list)
        rows: dict[str, int] = {}
        for _ in range(_ROUNDS):
            for evaluator in runner.choose(["default"]).evaluators:
                with timed() as timer:
                    dialogues = (evaluating([evaluator], subject) for subject in subjects)
                    results = run_dialogues(dialogues, ask_of(runner.judge))
                    rows[evaluator.name] = sum(len(ran.scores) for _, runs in results for ran in runs)
                took[evaluator.name].append(timer.cpu_s)
        for name, times in sorted(took.items(), key=lambda item: -median(item[1])):
            yield name, median(times), rows[name]


def main() -> int:
    """Print the tables."""
    if not _TAU.is_dir():
        sys.stdout.write("tau-airline is missing: see OTEL_AGENTIC_SHARED in CONTRIBUTING.md\n")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder) / "base.duckdb"
        with engine_on(base, create=True) as engine:
            ingest_files(engine, [str(_TAU / "spans.jsonl.gz")], lambda *_: None)
            ((count,),) = _read(engine, "SELECT count(*) FROM conversations WHERE NOT superseded")
        pairs = [(measured(base, "none"), measured(base, "default")) for _ in range(_ROUNDS)]
        without, with_them = min(pairs, key=lambda pair: abs(_ratio(pair) - median(map(_ratio, pairs))))
        sys.stdout.write("| | CPU | rows a conversation | file |\n|---|---:|---:|---:|\n")
        for name, run in (("core scoring alone", without), ("with the default evaluators", with_them)):
            sys.stdout.write(
                f"| {name} | {run.cpu_s:.2f} s | {run.rows / count:.1f} | {run.file_bytes / 1e6:.2f} MB |\n"
            )
        added = (with_them.cpu_s - without.cpu_s) / count * 1e3
        sys.stdout.write(
            f"\n{count:,} conversations; {with_them.cpu_s / without.cpu_s:.2f} x, {added:.2f} ms a conversation\n"
        )
        sys.stdout.write("\n| evaluator | CPU a conversation | rows a conversation |\n|---|---:|---:|\n")
        for name, took_s, rows in alone(base):
            sys.stdout.write(f"| {name} | {took_s / count * 1e3:.3f} ms | {rows / count:.1f} |\n")
    return 0


def _ratio(pair: tuple[Run, Run]) -> float:
    return pair[1].cpu_s / pair[0].cpu_s


def _read(engine: Engine, sql: str) -> list[tuple[Any, ...]]:
    with engine.store.read() as con:
        return con.execute(sql).fetchall()


if __name__ == "__main__":
    sys.exit(main())
