"""Measure the CPU time per span of each stage, from an OTLP request to the point of its window, for several kinds of traffic.

python -m benchmarks.end_to_end                              # all workloads
python -m benchmarks.end_to_end --workload small --size 2000
python -m benchmarks.end_to_end --workload small --profile FILE   # write a cProfile file of the stages
python -m benchmarks.end_to_end --workload small --workers 1 # read, rebuild and score in workers
python -m benchmarks.end_to_end --workload small --peers     # compare with other tools, installed by `make peers`

Each stage calls the parts of the collector as the collector calls them, one after the other in one process. `plain reading`
decodes the same requests with the protobuf library and parses their JSON attributes; it is measured in the same run. The sum
is printed as a multiple of it, too.

`count results` adds the scores to the counters and histograms of the collector.

`windows` is measured as live ticks: after all conversations are scored, ten ticks follow the clock of the spans, each as long after a
tenth of the conversations ended as idle conversations close. A tick before them, which is not counted, loads imports. So
the cost of a tick depends on the groups and on the results in the widest window, and that of a span also on the spans in a tick.

With workers, the CPU time of the first process and that of the workers are printed separately; ratios concern the first process.

Other tools get the small chats in the same run: their CPU time per span is divided by ours
until spans are stored, and until conversations are scored and in their windows.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import os
import tempfile
import time
from collections.abc import Callable, Container, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks.agent_traffic import Workload, captures, growing_histories, small_chats, tau_airline
from benchmarks.cpu_time import children_of, cpu_of, process_s
from benchmarks.peers import PEERS
from otel_agentic.config import Settings
from otel_agentic.engine.engine import Engine, EngineListener
from otel_agentic.engine.rebuild import AffectedItems, RebuildResult, chunks
from otel_agentic.engine.workers import WorkerPool, WorkerResources, tune_interpreter
from otel_agentic.evaluation.scope import TruthFile
from otel_agentic.live.loops import WindowLoop
from otel_agentic.live.reporting import EventReporter
from otel_agentic.spans import Limits, SpanBatch, decode_traces
from otel_agentic.store.results import note_changes
from otel_agentic.store.windows import forget_changes, read_changes
from otel_agentic.telemetry import Observer, Telemetry
from otel_agentic.telemetry.observer import EventOptions

if TYPE_CHECKING:
    from otel_agentic.evaluation.batch import ScoredBatch
    from otel_agentic.store.table import Key

#: Traces, or conversations, in one portion of the collector's loops.
_PORTION: Final = 500
#: Repetitions of plain reading, of which the smallest counts.
_ROUNDS: Final = 3
#: Workloads by name, with their default sizes: conversations, traces or copies.
_WORKLOADS: Final[dict[str, tuple[Callable[[int], Workload], int]]] = {
    "small": (small_chats, 1000),
    "captures": (captures, 5),
    "tau": (tau_airline, 1),
    "growing": (growing_histories, 8),
}
#: Ticks of the windows.
_TICKS: Final = 10
_ENDED: Final = (
    "SELECT environment, conversation_id, epoch_ns(window_time) FROM results ORDER BY window_time, conversation_id"
)
#: The stages after which spans are stored.
_STORED: Final = ("decode", "store and commit")


def main() -> None:
    """Measure the workloads, each in an empty store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workload", choices=_WORKLOADS, action="append", help="all by default")
    parser.add_argument("--size", type=int, help="conversations (small), copies (captures, tau) or traces (growing)")
    parser.add_argument("--profile", metavar="FILE", help="write a profile of all stages, readable by pstats")
    parser.add_argument("--peers", action="store_true", help="compare the small chats with other tools (minutes)")
    parser.add_argument("--workers", type=int, default=0, help="worker processes (0)")
    options = parser.parse_args()
    _run(small_chats(200), None, shows=False)  # imports, and the first use of each part
    profile = cProfile.Profile() if options.profile else None
    for name in options.workload or _WORKLOADS:
        workload, size = _WORKLOADS[name]
        stages_us = _run(workload(options.size or size), profile, workers=options.workers)
        if options.peers and name == "small":
            _show_peers(stages_us)
    if profile is not None:
        profile.dump_stats(options.profile)


def _run(
    workload: Workload, profile: cProfile.Profile | None, *, shows: bool = True, workers: int = 0
) -> dict[str, float]:
    """Measure a workload in a new store, print and return the CPU time of each stage; returned per span, us."""
    plain_s = min(cpu_of(workload.plain_reading) for _ in range(_ROUNDS))
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings.model_validate({"store": {"db": Path(folder) / "bench.duckdb"}})
        clock, scores = Clock(), Scores()
        pool = WorkerPool(settings, workers) if workers else None
        with Engine(settings, create=True, collecting=True, clock=clock, listener=scores, workers=pool) as engine:
            if pool is not None:
                for worker in range(workers):
                    pool.result(pool.submit_to(worker, _load))
            if workload.cases:
                engine.runner.remember([TruthFile(name="cases.jsonl", text=workload.cases)], [])
            stages = Stages(engine, workload, clock, scores)
            times_s: dict[str, float] = {}
            workers_s: dict[str, float] = {}
            tune_interpreter()  # as `serve` does
            for name, work in stages.all():
                before_s = _children_s()
                with profile or nullcontext():
                    times_s[name] = times_s.get(name, 0.0) + cpu_of(work)
                workers_s[name] = workers_s.get(name, 0.0) + _children_s() - before_s
            gc.unfreeze()
            stages.close()
            counts = stages.counts()
    if shows:
        _show(workload, plain_s, times_s, counts, workers_s if workers else {})
    return {name: spent_s / workload.spans * 1e6 for name, spent_s in times_s.items()}


def _load(resources: WorkerResources) -> None:
    """Start a worker, and load its modules, judge and evaluators."""
    from otel_agentic.engine import pooled_rebuild, pooled_scoring  # noqa: PLC0415 — imported in the worker

    _ = resources.reader, resources.judge, resources.evaluators, pooled_rebuild, pooled_scoring


def _children_s() -> float:
    """Return the CPU time of the running child processes so far, in seconds."""
    return sum(map(process_s, children_of(os.getpid())))


def _show(
    workload: Workload, plain_s: float, times_s: dict[str, float], counts: str, workers_s: Mapping[str, float]
) -> None:
    size = sum(map(len, workload.requests)) / workload.spans
    print(f"\n{workload.name}: {workload.spans:,} spans of {size:,.0f} bytes; {counts}")
    total_s = sum(times_s.values())
    for name, spent_s in (("plain reading", plain_s), *times_s.items(), ("sum of the stages", total_s)):
        note = f"   {spent_s / _TICKS * 1e3:.1f} ms a tick" if name == "windows" else ""
        if name in workers_s:
            note += f"   workers {workers_s[name] / workload.spans * 1e6:8.1f} us"
        print(f"  {name:<34} {spent_s / workload.spans * 1e6:8.1f} us CPU a span   x {spent_s / plain_s:6.1f}{note}")
    print(f"  nothing falls behind on one core up to {workload.spans / total_s:,.0f} spans/s")


def _show_peers(stages_us: Mapping[str, float]) -> None:
    ours_us = {"stored": sum(stages_us[name] for name in _STORED), "scored": sum(stages_us.values())}
    print("\nother tools, small chats")
    for name, spent_us in ours_us.items():
        print(f"  {'ours, ' + name:<34} {spent_us:8.1f} us CPU a span")
    for peer in PEERS:
        peer_us = peer.measured_us()
        if peer_us is None:
            print(f"  {peer.name:<34} not installed (`make peers`)")
            continue
        print(f"  {peer.name:<34} {peer_us:8.1f} us CPU a span", flush=True)
        for name, target in peer.targets.items():
            aim = "" if target is None else f" (target: at least {target:g})"
            print(f"  {'  as a multiple of ours, ' + name:<34} {peer_us / ours_us[name]:8.1f}{aim}")


class Clock:
    """The clock of an engine: the current time, until it is set."""

    def __init__(self) -> None:
        self.now_ns: int | None = None

    def __call__(self) -> int:
        """Return the time, ns."""
        return time.time_ns() if self.now_ns is None else self.now_ns


class Scores(EngineListener):
    """The scores of an evaluation, in the portions in which they were stored."""

    def __init__(self) -> None:
        self.scored: list[tuple[ScoredBatch, AbstractSet[Key]]] = []
        self.measured: list[tuple[ScoredBatch, Container[tuple[str, str, str]]]] = []
        self._observer = Observer(options=EventOptions(run_id="benchmark", trigger="online"))

    @property
    def observer(self) -> Observer:
        """What workers collect."""
        return self._observer

    def metrics_stored(self, batch: ScoredBatch, restated: Container[tuple[str, str, str]]) -> None:
        """Keep metric scores."""
        self.measured.append((batch, restated))


class Stages:
    """The stages of a collector on an opened store."""

    def __init__(
        self,
        engine: Engine,
        workload: Workload,
        clock: Clock,
        scores: Scores | None = None,
        portion: int = _PORTION,
    ) -> None:
        """Create the stages; `portion` is the number of traces, or conversations, that are processed together."""
        self._engine = engine
        self._scores = scores or Scores()
        self._portion = portion
        self._clock = clock
        self._requests = workload.requests
        self._limits = Limits.from_settings(engine.settings.receive)
        self._telemetry = Telemetry.from_settings(engine.emit, run_id="benchmark", trigger="online")
        self._windows = WindowLoop(engine, self._telemetry)
        self._batches: list[SpanBatch] = []
        self._touched = AffectedItems(keys=frozenset(), loose_traces=frozenset())
        #: As a collector remembers them: the traces that arrived, the conversations that are open, and the earliest end of all.
        self._arrived: dict[str, None] = {}
        self._open: set[Key] = set()
        self._first_end_ns = clock()
        engine.store.listen(lambda traces: self._arrived.update(dict.fromkeys(sorted(traces))))

    def all(self) -> Iterator[tuple[str, Callable[[], object]]]:
        """Yield the name and the work of each stage, in order; a stage may be yielded in several parts."""
        yield "decode", self._decode
        yield "store and commit", self._store
        yield "read traces", self._read
        yield "rebuild when turns are idle", self._rebuild
        yield "close", self._close
        yield "match and score", self._score
        yield "count results", self._count
        for _ in self._live_ticks():
            yield "windows", self._windows.refresh

    def close(self) -> None:
        """Shut down the telemetry."""
        self._telemetry.shutdown(1.0)

    def counts(self) -> str:
        """Return the numbers of conversations and scores."""
        with self._engine.store.read() as con:
            ((conversations, scores),) = con.execute(
                "SELECT (SELECT count(*) FROM conversations), (SELECT count(*) FROM scores)"
            ).fetchall()
        return f"{conversations:,} conversations, {scores:,} scores"

    def _live_ticks(self) -> Iterator[None]:
        """Set the clock, and note the changes, for each tick of a running collector."""
        store, idle_ns = self._engine.store, int(self._engine.settings.conversations.idle_s * 1e9)
        with store.read() as con:
            ended = con.execute(_ENDED).fetchall()
        store.write(lambda con: forget_changes(con, read_changes(con)))
        self._clock.now_ns = ended[0][2] - 1
        self._windows.refresh()
        size = -(-len(ended) // _TICKS)
        for start in range(0, len(ended), size):
            part = ended[start : start + size]
            keys = [(environment, conversation_id) for environment, conversation_id, _ in part]
            store.write(partial(note_changes, keys=keys))
            self._clock.now_ns = part[-1][2] + idle_ns
            yield

    def _decode(self) -> None:
        self._batches = [decode_traces(body, self._limits) for body in self._requests]

    def _store(self) -> None:
        for batch in self._batches:
            self._engine.store.accept(batch)

    def _read(self) -> None:
        rebuilder = self._engine.rebuilder
        for traces in chunks(list(self._arrived), self._portion):
            self._touched |= rebuilder.read(traces)

    def _rebuild(self) -> None:
        nothing = AffectedItems(keys=frozenset(), loose_traces=frozenset())
        parts = [replace(nothing, keys=frozenset(keys)) for keys in chunks(sorted(self._touched.keys), self._portion)]
        parts += [
            replace(nothing, loose_traces=frozenset(ids))
            for ids in chunks(sorted(self._touched.loose_traces), self._portion)
        ]
        for part in parts:
            self._note(self._engine.rebuilder.rebuild(part, lambda _: None))

    def _close(self) -> None:
        for portion in chunks(sorted(self._open), self._portion):
            self._note(self._engine.rebuilder.close(frozenset(portion), ()))

    def _note(self, rebuilt: RebuildResult) -> None:
        self._open |= {saved.key for saved in rebuilt.saved if saved.closed_by is None}
        self._first_end_ns = min([self._first_end_ns, *(saved.ended_ns for saved in rebuilt.saved)])

    def _score(self) -> None:
        runner = self._engine.runner
        while (unscored := runner.never_scored(self._first_end_ns)).keys:
            request = replace(unscored, keys=unscored.keys[: self._portion], chosen=runner.chosen)
            runner.evaluate(runner.truth(), request, lambda *stored: self._scores.scored.append(stored))

    def _count(self) -> None:
        reporter = EventReporter(self._engine, self._telemetry)
        for batch, scored_before in self._scores.measured:
            reporter.report_metrics(batch, scored_before)
        for batch, restated in self._scores.scored:
            reporter.report_scores(batch, restated)
        self._scores.scored.clear()
        self._scores.measured.clear()


if __name__ == "__main__":
    main()
