"""Compare a backfill in one process with a backfill over workers, stage by stage, in one run; both must write the same tables.

The time of a stage is the CPU time of the process that reads and writes the store; workers are intended to reduce it. The
last line is elapsed time, which depends on whether the processors are idle.

    python -m benchmarks.bench_backfill [--copies 10] [--workers 2] [--spans FILE --cases FILE --labels FILE]

Without files, the benchmark uses the workload of the other benchmarks. Each copy of the files has its own conversations and
traces, some days after those of the previous copy.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import io
import json
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from benchmarks.cpu_time import children_s, own_s
from benchmarks.workload import request
from otel_agentic.backfill.plan import BackfillRequest
from otel_agentic.backfill.run import BackfillContext, backfill
from otel_agentic.commands.ingest import ingest_files
from otel_agentic.config import Settings, StoreSettings
from otel_agentic.engine.engine import Engine, rebuilder_over
from otel_agentic.engine.pooled_scoring import scoring_over
from otel_agentic.engine.workers import open_workers
from otel_agentic.evaluation.scope import TruthFile

CONVERSATIONS: Final = 500
APART_NS: Final = 10 * 86_400 * 10**9
HOUR_NS: Final = 3_600 * 10**9
STAGES: Final = ("reading", "linking", "rebuilding", "scoring", "windows")


@dataclass(slots=True)
class Stages:
    """The last event of each stage, in seconds of CPU time since the start."""

    began: float = field(default_factory=own_s)
    done_at_s: dict[str, float] = field(default_factory=dict)

    def step(self, stage: str, _done: int, _total: int | None) -> None:
        self.done_at_s[stage] = own_s() - self.began

    def seconds(self) -> dict[str, float]:
        """Return the duration of each stage."""
        ends = [0.0, *(self.done_at_s.get(stage, 0.0) for stage in STAGES)]
        return {stage: max(0.0, end - before) for stage, before, end in zip(STAGES, ends[:-1], ends[1:], strict=True)}


def main() -> None:
    """Time both backfills and compare their tables."""
    options = arguments()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        spans, truth = inputs(options, folder)
        single, rows = timed(folder / "one.duckdb", spans, truth, None)
        over, other = timed(folder / "over.duckdb", spans, truth, options.workers)
    assert rows == other, "the workers wrote different rows"
    print(f"{rows['results'][0][0]:,} conversations, {rows['spans'][0][0]:,} spans; {options.workers} workers")
    print(f"{'':<14}{'one process':>14}{'workers':>12}{'ratio':>9}")
    for stage in (*STAGES, "all stages", "all processes", "elapsed"):
        print(f"{stage:<14}{single[stage]:>12.2f} s{over[stage]:>10.2f} s{single[stage] / over[stage]:>8.2f}x")


def arguments() -> argparse.Namespace:
    """Return the parsed command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--copies", type=int, default=4)
    parser.add_argument("--workers", type=int, default=2)
    for option in ("--spans", "--cases", "--labels"):
        parser.add_argument(option, type=Path)
    return parser.parse_args()


def timed(db: Path, spans: Path, truth: list[list[TruthFile]], workers: int | None) -> tuple[dict[str, float], Any]:
    """Return seconds per stage, of all stages, of all processes and elapsed; and the content of the tables."""
    settings = Settings(store=StoreSettings(db=db))
    began_s, children, stages = time.perf_counter(), children_s(), Stages()
    with ExitStack() as stack:
        engine = stack.enter_context(Engine(settings, create=True))
        pool = stack.enter_context(open_workers(settings, workers))
        ingest_files(engine, [str(spans)], stages.step, rebuilder_over(engine, pool))
        engine.runner.remember(*truth)
        plan = BackfillRequest(windows=("24h", "7d"), step_ns=HOUR_NS, k=(1, 3, 5)).checked()
        around = BackfillContext(progress=stages.step)
        backfill(engine, plan, runner=scoring_over(engine.runner, engine.settings, pool), context=around)
        rows = contents(engine)
    here_s = own_s() - stages.began
    totals = {"all stages": here_s, "all processes": here_s + children_s() - children}
    return {**stages.seconds(), **totals, "elapsed": time.perf_counter() - began_s}, rows


def contents(engine: Engine) -> dict[str, list[Any]]:
    """Return the values on which both runs must agree: counts of all rows, and hashes of scores and windows."""
    queries = {
        "spans": "SELECT count(*) FROM spans",
        "results": "SELECT count(*), count(*) FILTER (outcome = 'pass') FROM results",
        "turns": "SELECT bit_xor(hash(t)) FROM turns t",
        "tool_calls": "SELECT bit_xor(hash(t)) FROM tool_calls t",
        "tool_faults": "SELECT bit_xor(hash(t)) FROM tool_faults t",
        "tool_counts": "SELECT bit_xor(hash(t)) FROM tool_counts t",
        "call_pairs": "SELECT bit_xor(hash(t)) FROM call_pairs t",
        "windows": 'SELECT bit_xor(hash(t)) FROM (SELECT "end", "window", k, estimator, n, c, tier FROM windows) t',
    }
    with engine.store.read() as con:
        return {name: con.execute(sql).fetchall() for name, sql in queries.items()}


def inputs(options: argparse.Namespace, folder: Path) -> tuple[Path, list[list[TruthFile]]]:
    """Return a file of spans and its ground truth."""
    if options.spans is None:
        spans = folder / "spans.binpb"
        spans.write_bytes(request(0, CONVERSATIONS * options.copies).SerializeToString())
        return spans, [[], []]
    spans = folder / "spans.jsonl"
    with gzip.open(options.spans, "rt", encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    with spans.open("w", encoding="utf-8") as out:
        out.writelines(json.dumps(copied(line, copy)) + "\n" for copy in range(options.copies) for line in lines)
    cases = [TruthFile(name="cases", text=options.cases.read_text("utf-8"))] if options.cases else []
    labels = [TruthFile(name="labels", text=copied_labels(options.labels, options.copies))] if options.labels else []
    return spans, [cases, labels]


def copied(line: dict[str, Any], copy: int) -> dict[str, Any]:
    """Return an export request with its own ids, later than the previous one."""
    duplicate: dict[str, Any] = json.loads(json.dumps(line))
    for span in spans_in(duplicate):
        span["traceId"] = f"{copy:04x}{span['traceId'][4:]}"
        for name in ("startTimeUnixNano", "endTimeUnixNano"):
            span[name] = str(int(span[name]) + copy * APART_NS)
        for attribute in span["attributes"]:
            if attribute["key"] == "gen_ai.conversation.id":
                attribute["value"]["stringValue"] += f"-{copy}"
    return duplicate


def spans_in(exported: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the spans of an export request."""
    for resource_spans in exported["resourceSpans"]:
        for scope in resource_spans["scopeSpans"]:
            yield from scope["spans"]


def copied_labels(path: Path, copies: int) -> str:
    """Return labels for all copies."""
    with path.open(encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(header)
    writer.writerows([f"{row[0]}-{copy}", *row[1:]] for copy in range(copies) for row in rows)
    return text.getvalue()


if __name__ == "__main__":
    main()
