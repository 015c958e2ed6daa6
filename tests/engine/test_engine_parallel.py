"""Results of worker processes equal those of one process, and a process that fails loses nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from inline_snapshot import snapshot

from otel_agentic.commands.ingest import rebuild_pending
from otel_agentic.config import SamplingSettings
from otel_agentic.engine.engine import Engine, EngineListener, rebuilder_over
from otel_agentic.engine.observing import ScoreObserver
from otel_agentic.engine.pooled_rebuild import PooledRebuilder, WorkerSegments
from otel_agentic.engine.pooled_scoring import PooledEvaluationRunner, ScoringTask, score_rows, scoring_over
from otel_agentic.engine.rebuild import AffectedItems
from otel_agentic.engine.segments import HeldSegments
from otel_agentic.engine.workers import WorkerPool, WorkerResources, collector_workers
from otel_agentic.evaluation.run import EvaluationRequest
from otel_agentic.evaluation.scope import Sample, TruthFile
from otel_agentic.evaluators.registry import metrics_by_name
from otel_agentic.evaluators.run import FailureRules
from otel_agentic.store.conversations import load_conversation_rows
from otel_agentic.store.score_rows import score_types
from otel_agentic.store.spans import TraceRows
from otel_agentic.store.table import Scored, Selection, json_text
from otel_agentic.telemetry import Observer
from otel_agentic.telemetry.observations import Observations
from otel_agentic.telemetry.observer import EventOptions
from otel_agentic.testing import NOON_NS, SECOND_NS, batch, speak_genai
from tests.builders import CASE, ask_hotel, contents, feed, stored_conversations
from tests.snapshots import opening, passage
from tests.stores import CopyOf, PreparedStore, settings_for

if TYPE_CHECKING:
    from concurrent.futures import Future

    from otel_agentic.evaluation.batch import EvaluationSummary, ScoredBatch
    from otel_agentic.evaluation.scope import Truth
    from otel_agentic.evaluators.base import MetricScore
    from otel_agentic.scoring import MatchedConversation
    from otel_agentic.store.table import Key

TRUTH = TruthFile(name="cases.jsonl", text=CASE)


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerPool]:
    with WorkerPool(settings_for(tmp_path_factory.mktemp("none") / "none.duckdb"), 2) as workers:
        yield workers


def spoken(count: int) -> list[Any]:
    """Return conversations with and without an id, some wrong, one of three traces that only their history joins."""
    built = []
    for number in range(count):
        named = ask_hotel(f"c-{number}" if number % 3 else None)
        script = named if number % 4 else named.answers("The Savoy.")
        built.append(speak_genai(script, start_ns=NOON_NS + number * 3_600 * SECOND_NS))
    long = ask_hotel(None).ask("How much?").answers("300 euros.").ask("Per night?").answers("Yes.")
    return [*built, speak_genai(long, start_ns=NOON_NS - 86_400 * SECOND_NS)]


def filled(db: Path, count: int, pool: WorkerPool | None) -> dict[str, list[tuple[Any, ...]]]:
    """Return every row of a new file after some conversations were stored, rebuilt and scored."""
    with Engine(settings_for(db), create=True, clock=lambda: NOON_NS) as engine:
        engine.store.accept(batch(*spoken(count)))
        rebuild_pending(engine, lambda *_: None, rebuilder_over(engine, pool))
        engine.runner.remember([TRUTH], [])
        runner = scoring_over(engine.runner, engine.settings, pool)
        truth = runner.truth()
        runner.evaluate(truth, runner.select(truth, Selection(), chosen=runner.chosen))
        result = contents(engine)
        del result["schema_migrations"]
        return result


def test_workers_make_the_rows_that_one_process_makes(tmp_path: Path, pool: WorkerPool) -> None:
    alone = filled(tmp_path / "alone.duckdb", 20, None)

    assert alone == filled(tmp_path / "over.duckdb", 20, pool)
    assert 21 == sum("agentic.conversation" in row for row in alone["scores"])
    assert alone["tool_counts"]
    assert [] == pool.problems


#: In how many commits the spans of each conversation arrive.
COMMITS = 3


def arriving(db: Path, pool: WorkerPool | None) -> dict[str, list[tuple[Any, ...]]]:
    """Return every row of a collector's new file after spans arrived in several commits, with rebuilds in between."""
    talks = spoken(8)
    with Engine(settings_for(db), create=True, clock=lambda: NOON_NS, collecting=True) as engine:
        rebuilder, touched = rebuilder_over(engine, pool), AffectedItems(keys=frozenset(), loose_traces=frozenset())
        for number in range(COMMITS):
            engine.store.accept(batch(*(item for talk in talks for item in talk.spans[number::COMMITS])))
            touched = rebuilder.read(rebuilder.pending())
            engine.store.accept(batch(talks[number].spans[-1]))  # between reading and rebuilding
            rebuilder.rebuild(touched, lambda _: None)
        rebuilder.rebuild(touched, lambda _: "idle")
        rebuilder.close(stored_conversations(engine).keys(), ())
        return {name: rows for name, rows in contents(engine).items() if name != "schema_migrations"}


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[tuple[Any, ...]]]:
    """The rows that one process makes of what arrives."""
    return arriving(tmp_path_factory.mktemp("alone") / "alone.duckdb", None)


@pytest.mark.slow  # of spans that arrive at once: the first test
def test_workers_rebuild_what_arrives_in_parts_as_one_process_does(
    tmp_path: Path, pool: WorkerPool, monkeypatch: pytest.MonkeyPatch, alone: dict[str, list[tuple[Any, ...]]]
) -> None:
    assert len(alone["conversations"]) > 8

    assert alone == arriving(tmp_path / "over.duckdb", pool)
    monkeypatch.setattr("otel_agentic.engine.pooled_rebuild._MOST_IN_PART", 3)
    assert alone == arriving(tmp_path / "parts.duckdb", pool)
    assert ([], True) == (pool.problems, pool.is_running)


@pytest.mark.slow  # of one conversation without segments: the next test
def test_workers_without_room_for_segments_make_the_same_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, alone: dict[str, list[tuple[Any, ...]]]
) -> None:
    monkeypatch.setattr("otel_agentic.engine.workers.MAX_BYTES", 100_000)  # of about six traces
    with WorkerPool(settings_for(tmp_path / "none.duckdb"), 1) as workers:
        assert alone == arriving(tmp_path / "over.duckdb", workers)


def test_a_worker_that_holds_no_segments_any_more_gets_the_rows(tmp_path: Path, pool: WorkerPool) -> None:
    with Engine(settings_for(tmp_path / "t.duckdb"), create=True, clock=lambda: NOON_NS) as engine:
        segments = WorkerSegments(engine.store, engine.reader, pool, keeps_spans=False)
        rebuilder = PooledRebuilder(engine.store, segments, engine.settings.conversations, pool)
        engine.store.accept(batch(*spoken(3)))
        traces = rebuilder.pending()
        touched = rebuilder.read(traces)
        assert segments.held(traces).keys() == set(traces)
        segments.hold(traces, 0)  # a reading that no worker has seen

        rebuilt = rebuilder.rebuild(touched, lambda _: None)

        assert (4, ()) == (len(rebuilt.saved), rebuilt.left_out)
        assert {} == segments.held(traces)


def test_only_rebuilt_traces_make_room_for_others() -> None:
    def rows_of(*trace_ids: str) -> TraceRows:
        return TraceRows(spans=[(trace_id, "x" * 10_000) for trace_id in trace_ids], logs=[])

    held = HeldSegments(3 * 17_000)

    assert set() == held.keep(1, rows_of("a", "b"), [])
    assert {"d"} == held.keep(2, rows_of("c", "d"), [])
    assert [] == held.to_rebuild({"a": 1})
    assert set() == held.keep(3, rows_of("d"), [])
    held.forget([("b", 0), ("d", 2)])  # of earlier readings
    assert [None, None, []] == [
        held.to_rebuild(readings) for readings in ({"a": 1}, {"b": 9}, {"b": 1, "c": 2, "d": 3})
    ]


@pytest.mark.slow
def test_workers_make_the_rows_of_tau_airline(
    copy_of: CopyOf, tau_file: Path, tau_truth: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    truth = [[TruthFile(name=name, text=text) for name, text in tau_truth[kind]] for kind in ("cases", "labels")]
    built = []
    for count in (None, 2):
        engine = copy_of(tau_file)
        monkeypatch.setattr(engine.store, "_clock", lambda: NOON_NS)
        engine.store.write(lambda con: [con.execute(f"DELETE FROM {name}") for name in BUILT])  # noqa: S608 — of our own
        with WorkerPool(engine.settings, 2) as workers:
            pool = workers if count else None
            rebuild_pending(engine, lambda *_: None, rebuilder_over(engine, pool))
            engine.runner.remember(*truth)
            runner = scoring_over(engine.runner, engine.settings, pool)
            runner.evaluate(runner.truth(), runner.select(runner.truth(), Selection()))
        drawn = {"schema_migrations", "annotations"}  # with times and random ids
        tables = {name: rows for name, rows in contents(engine).items() if name not in drawn}
        tables["window_changes"] = sorted(
            row[1:] for row in tables["window_changes"]
        )  # without the number of the commit
        built.append(tables)
        engine.close()

    assert built[0] == built[1]
    assert 200 == len(built[0]["results"])


BUILT = ("trace_links", "conversations", "turns", "tool_calls")


def _twelve_spoken(engine: Engine) -> None:
    feed(engine, *spoken(12))
    engine.runner.remember([TRUTH], [])


@pytest.fixture
def engine(copy_of: CopyOf, prepared_store: PreparedStore) -> Engine:
    """An engine on twelve conversations with their case."""
    return copy_of(prepared_store(_twelve_spoken))


def evaluated(db: Path, pool: WorkerPool | None) -> tuple[dict[Key, Scored], EvaluationSummary]:
    """Return the scores that a caller of an evaluation receives, and its counts, from a new file."""
    with Engine(settings_for(db), create=True, clock=lambda: NOON_NS) as engine:
        _twelve_spoken(engine)
        runner, scored = scoring_over(engine.runner, engine.settings, pool), dict[Any, Scored]()
        truth = runner.truth()
        request = runner.select(truth, Selection(), chosen=runner.chosen)
        summary = runner.evaluate(
            truth, request, lambda some, _: scored.update({item.conversation.key: item for item in some})
        )
        return scored, summary


def without_calls(item: Scored) -> Scored:
    """Return a score as it is restored: without the calls, and a reason only where there is no score."""
    tools = tuple(score._replace(uses=(), judge_results=()) for score in item.score.tools)
    metrics = tuple(
        replace(measured, scores=tuple(map(as_stored, measured.scores)), evaluator=measured.evaluator.name)  # type: ignore[arg-type]  # both are compared by their names
        for measured in item.metrics
    )
    return replace(item, score=replace(item.score, tools=tools), metrics=metrics)


def as_stored(score: MetricScore) -> MetricScore:
    return replace(
        score, reason=score.reason if score.abstained else None, details=json.loads(json_text(score.details))
    )


def test_those_who_read_scores_of_workers_get_those_of_one_process(tmp_path: Path, pool: WorkerPool) -> None:
    alone, counts = evaluated(tmp_path / "alone.duckdb", None)
    over, counts_over = evaluated(tmp_path / "over.duckdb", pool)

    assert 13 == len(alone)
    assert {key: without_calls(item) for key, item in alone.items()} == {
        key: without_calls(item) for key, item in over.items()
    }
    assert any(item.score.tools for item in over.values())
    assert any(item.metrics and item.metrics[0].score_ids for item in over.values())
    assert counts.metrics.rows == counts_over.metrics.rows > 0
    assert replace(counts, tally=counts_over.tally, metrics=counts_over.metrics) == counts_over
    assert [] == pool.problems


class Observing(EngineListener):
    """Makes workers collect all observations."""

    observer = Observer(
        options=EventOptions(run_id="r", trigger="online", explanations=True), events=True, every_metric=True
    )


def observed(db: Path, pool: WorkerPool | None) -> list[Observations]:
    """Return the observations that a telemetry would record of the scores, and of the scores of evaluators, in a new file."""
    scores, metrics = Observations(), Observations()
    with Engine(settings_for(db), create=True, clock=lambda: NOON_NS) as engine:
        _twelve_spoken(engine)
        runner = (
            engine.runner if pool is None else PooledEvaluationRunner(engine.store, engine.settings, pool, Observing())
        )
        truth = runner.truth()
        observer = ScoreObserver(
            observer=Observing.observer,
            rules=FailureRules(metrics_by_name(runner.installed).values(), engine.settings.evaluators),
            judge=runner.judge,
            settings=engine.settings.scoring,
        )

        def observe(batch: ScoredBatch, restated: AbstractSet[Key]) -> None:
            assert (pool is None) == (batch.observed is None)
            own = batch.observed or (
                observer.scores(batch, batch.summary.evaluation_id, restated), observer.metrics(batch.measured(()))
            )  # fmt: skip
            scores.merge(own[0])
            metrics.merge(own[1])

        runner.evaluate(truth, runner.select(truth, Selection(), chosen=runner.chosen), observe)
    return [scores, metrics]


def without_order(observations: Observations) -> tuple[object, ...]:
    """Return observations without the spans of exemplars, which are those of the first or newest conversation."""
    counts = {series: count for series, (count, _) in observations.counts.items()}
    values = {
        series: (part.counts, round(part.total, 9), part.low, part.high, part.newest.keys())
        for series, part in observations.values.items()
    }
    return counts, values, sorted(observations.events, key=repr)


def test_workers_observe_what_one_process_observes(tmp_path: Path, pool: WorkerPool) -> None:
    alone, over = observed(tmp_path / "alone.duckdb", None), observed(tmp_path / "over.duckdb", pool)

    assert list(map(without_order, alone)) == list(map(without_order, over))
    assert all(part.counts and part.values and part.events for part in alone)
    assert [] == pool.problems


def test_scores_that_replace_others_are_not_observed_by_workers(engine: Engine, pool: WorkerPool) -> None:
    runner = PooledEvaluationRunner(engine.store, engine.settings, pool, Observing())
    batches: list[ScoredBatch] = []
    for again in (False, True):
        truth = runner.truth()
        runner.evaluate(truth, runner.select(truth, Selection(), again=again), lambda batch, _: batches.append(batch))

    assert [False, True] == [batch.observed is None for batch in batches]
    assert [] == pool.problems


def test_workers_get_labels_that_were_added_after_they_had_started(engine: Engine, pool: WorkerPool) -> None:
    runner = PooledEvaluationRunner(engine.store, engine.settings, pool)

    def outcomes() -> dict[str, str]:
        truth, scored = runner.truth(), list[Scored]()
        request = runner.select(truth, Selection(), again=True)
        runner.evaluate(truth, request, lambda some, _: scored.extend(some))
        return {item.score.conversation_id: item.score.outcome for item in scored}

    before = outcomes()
    runner.remember([], [TruthFile(name="labels.csv", text="conversation_id,verdict\nc-1,fail\n")])

    assert {"c-1": ("pass", "fail")} == {
        name: (outcome, after[name])
        for after in (outcomes(),)
        for name, outcome in before.items()
        if outcome != after[name]
    }
    assert [] == pool.problems


def test_a_worker_without_the_annotations_of_a_part_does_not_score_it(engine: Engine) -> None:
    runner = engine.runner
    truth = runner.truth()
    evaluation = runner.evaluation(truth)
    with engine.store.read() as con:
        rows, types = load_conversation_rows(con, runner.select(truth, Selection()).keys), score_types(con)
    task = ScoringTask(
        number=1,
        annotations=truth.annotations,
        settings=evaluation.settings,
        ids={},
        evaluation="default",
        sample=Sample(settings=SamplingSettings(), recorded={}),
        types=types,
        evaluation_id="e",
        criteria="",
        now_ns=NOON_NS,
        observer=None,
    )
    resources = WorkerResources(engine.settings)

    assert score_rows(resources, rows, replace(task, annotations=None)) is None
    assert score_rows(resources, rows, task) is not None
    assert score_rows(resources, rows, replace(task, annotations=None)) is not None
    assert score_rows(resources, rows, replace(task, annotations=None, number=2)) is None


@pytest.mark.slow
def test_a_dead_worker_is_reported_and_this_process_does_the_rest(tmp_path: Path) -> None:
    alone = filled(tmp_path / "alone.duckdb", 12, None)
    with WorkerPool(settings_for(tmp_path / "none.duckdb"), 1) as workers:
        victim: Future[int] | None = workers.submit(own_process)
        assert workers.result(workers.submit(killed)) is None
        assert workers.result(victim)

        assert alone == filled(tmp_path / "over.duckdb", 12, workers)
        (problem,) = workers.problems
        assert opening(problem) == snapshot("a worker process died")


def test_the_end_of_a_part_does_not_wait_for_the_lock_of_submission(pool: WorkerPool) -> None:
    assert pool.result(pool.submit_to(0, own_process))
    counted = threading.Event()
    part = pool.submit_to(0, waited)
    assert part is not None
    part.add_done_callback(lambda _: counted.set())  # called after that of the pool
    with pool._lock:
        assert counted.wait(timeout=60)


def test_a_conversation_that_cannot_be_scored_is_reported_and_the_others_are_scored(
    engine: Engine, pool: WorkerPool
) -> None:
    class Broken(PooledEvaluationRunner):
        def match(self, truth: Truth, keys: Sequence[Key]) -> list[MatchedConversation]:
            return [
                replace(item, conversation=replace(item.conversation, turns=(None,)))  # type: ignore[arg-type]  # on purpose
                if item.conversation.conversation_id == "c-4"
                else item
                for item in super().match(truth, keys)
            ]

    runner, workers = engine.runner, Failing(pool)
    truth, scored = runner.truth(), list[Scored]()
    keys = runner.select(truth, Selection()).keys
    pool.problems.clear()

    Broken(engine.store, engine.settings, workers).evaluate(
        truth, EvaluationRequest(keys=keys), lambda some, _: scored.extend(some)
    )

    assert {key for key in keys if key[1] != "c-4"} == {item.conversation.key for item in scored}
    (problem,) = pool.problems
    pool.problems.clear()
    assert passage(problem, conversation_id=repr("c-4")) == snapshot("conversation <conversation_id> cannot be scored")


def test_a_collector_scores_in_workers_as_it_does_alone(tmp_path: Path) -> None:
    assert collected(tmp_path / "alone.duckdb", workers=0) == collected(tmp_path / "over.duckdb", workers=1)


def collected(db: Path, *, count: int = 40, workers: int) -> dict[str, list[tuple[Any, ...]]]:
    """Return every row of a collector's new file after it scored some conversations, in workers if there are many."""
    settings = settings_for(db, processing={"workers": workers})
    pool = collector_workers(settings)
    with Engine(settings, create=True, clock=lambda: NOON_NS, collecting=True, workers=pool) as engine:
        engine.runner.remember([TRUTH], [])
        feed(engine, *spoken(count))
        truth = engine.runner.truth()
        engine.runner.evaluate(truth, engine.runner.select(truth, Selection(), chosen=engine.runner.chosen))
        assert (pool is not None and pool.is_running) is (workers > 0 and count > 32)
        return {name: rows for name, rows in contents(engine).items() if name != "schema_migrations"}


def test_a_collector_with_little_work_starts_no_workers(tmp_path: Path) -> None:
    assert 4 == len(collected(tmp_path / "t.duckdb", count=3, workers=1)["results"])


@pytest.mark.slow
def test_workers_start_again_a_while_after_one_died(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    problems: list[str] = []
    with WorkerPool(settings_for(tmp_path / "none.duckdb"), 1, on_problem=problems.append) as workers:
        assert workers.result(workers.submit(killed)) is None
        assert workers.submit(own_process) is None
        monkeypatch.setattr("otel_agentic.engine.workers._RESTART_S", 0.0)

        assert workers.result(workers.submit(own_process))
    assert [opening(problem) for problem in problems] == snapshot(["a worker process died"])


_PARENT = """
import os, signal, sys
from otel_agentic.config import Settings
from otel_agentic.engine.rebuild import AffectedItems
from otel_agentic.engine.segments import HeldSegments
from otel_agentic.engine.workers import WorkerPool

def pid(resources):
    return os.getpid()

if __name__ == "__main__":
    pool = WorkerPool(Settings.model_validate({"store": {"db": "none.duckdb"}}), 1)
    print(pool.result(pool.submit(pid)), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.slow
def test_workers_end_with_their_killed_parent(tmp_path: Path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(_PARENT)

    ended = subprocess.run(
        [sys.executable, script], check=False, capture_output=True, text=True, timeout=60, cwd=tmp_path
    )

    worker = int(ended.stdout)
    deadline = time.monotonic() + 20
    while Path(f"/proc/{worker}").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not Path(f"/proc/{worker}").exists()


@pytest.mark.slow
def test_what_fails_at_every_worker_is_done_by_this_process(tmp_path: Path, pool: WorkerPool) -> None:
    assert filled(tmp_path / "alone.duckdb", 6, None) == filled(tmp_path / "over.duckdb", 6, Failing(pool))


def test_a_judge_that_asks_models_is_asked_from_this_process(tmp_path: Path, pool: WorkerPool) -> None:
    with Engine(settings_for(tmp_path / "t.duckdb"), create=True) as engine:
        engine.runner.judge = CountingJudge()  # type: ignore[assignment]  # as much of a judge as is looked at

        assert engine.runner is scoring_over(engine.runner, engine.settings, pool)


class Failing(WorkerPool):
    """The workers of another pool, in which everything fails."""

    def __init__(self, pool: WorkerPool) -> None:
        vars(self).update(vars(pool))
        self._pool = pool

    def submit_to(self, worker: int, work: Any, *arguments: Any, **more: Any) -> Any:  # noqa: ARG002 — instead of any work
        """Submit work that fails."""
        return self._pool.submit_to(worker, failing, *arguments, **more)


class CountingJudge:
    name = "asked"


def own_process(tools: WorkerResources) -> int:
    return os.getpid()


def waited(_: WorkerResources) -> None:
    time.sleep(0.2)


def killed(tools: WorkerResources) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def failing(tools: WorkerResources, *arguments: Any) -> None:
    message = "on purpose"
    raise ValueError(message)
