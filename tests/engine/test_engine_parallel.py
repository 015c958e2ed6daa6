"""Results of worker processes equal those of one process, and a process that fails loses nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from inline_snapshot import snapshot

from otel_agentic.commands.ingest import rebuild_pending
from otel_agentic.engine.engine import Engine, rebuilder_over
from otel_agentic.engine.packing import packed, unpacked
from otel_agentic.engine.pooled_rebuild import PooledRebuilder, WorkerSegments
from otel_agentic.engine.pooled_scoring import EvaluationTask, PooledJudgeRun, by_bucket, score_part, scoring_over
from otel_agentic.engine.rebuild import AffectedItems
from otel_agentic.engine.segments import HeldSegments
from otel_agentic.engine.workers import WorkerPool, WorkerResources, collector_workers
from otel_agentic.evaluation.scope import TruthFile
from otel_agentic.scoring.pairs import tool_counts
from otel_agentic.store.spans import TraceRows
from otel_agentic.store.table import Selection
from otel_agentic.testing import NOON_NS, SECOND_NS, batch, speak_genai
from tests.builders import CASE, ask_hotel, contents, feed, stored_conversations
from tests.snapshots import opening, passage
from tests.stores import CopyOf, PreparedStore, settings_for

if TYPE_CHECKING:
    from concurrent.futures import Future

    from otel_agentic.evaluation.conversation import ConversationEvaluation
    from otel_agentic.scoring import MatchedConversation

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
    talks = spoken(12)
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


def test_workers_rebuild_what_arrives_in_parts_as_one_process_does(
    tmp_path: Path, pool: WorkerPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = arriving(tmp_path / "alone.duckdb", None)
    assert len(alone["conversations"]) > 12

    assert alone == arriving(tmp_path / "over.duckdb", pool)
    monkeypatch.setattr("otel_agentic.engine.pooled_rebuild._MOST_IN_PART", 3)
    assert alone == arriving(tmp_path / "parts.duckdb", pool)
    assert ([], True) == (pool.problems, pool.is_running)


def test_workers_without_room_for_segments_make_the_same_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = arriving(tmp_path / "alone.duckdb", None)
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

    held = HeldSegments(3 * 22_000)

    assert set() == held.keep(1, rows_of("a", "b"), [])
    assert {"d"} == held.keep(2, rows_of("c", "d"), [])
    assert [] == held.to_rebuild({"a": 1})
    assert set() == held.keep(3, rows_of("d"), [])
    held.forget([("b", 0), ("d", 2)])  # of earlier readings
    assert [None, None, []] == [
        held.to_rebuild(readings) for readings in ({"a": 1}, {"b": 9}, {"b": 1, "c": 2, "d": 3})
    ]


@pytest.mark.slow
def test_workers_make_the_rows_of_tau_airline(copy_of: CopyOf, tau_file: Path, tau_truth: dict[str, Any]) -> None:
    truth = [[TruthFile(name=name, text=text) for name, text in tau_truth[kind]] for kind in ("cases", "labels")]
    built = []
    for count in (None, 2):
        engine = copy_of(tau_file)
        engine.store.clock = lambda: NOON_NS
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


def evaluation_of(engine: Engine) -> ConversationEvaluation:
    return engine.runner.evaluation(engine.runner.truth(), engine.runner.chosen)


def matched(engine: Engine) -> list[MatchedConversation]:
    truth = engine.runner.truth()
    return engine.runner.match(truth, engine.runner.select(truth, Selection()).keys)


def evaluators_of(evaluation: ConversationEvaluation) -> dict[str, Any]:
    return {evaluator.name: evaluator for evaluator in evaluation.active.chosen.evaluators}


def test_scores_come_out_of_their_bytes_with_all_that_they_were_made_from(engine: Engine) -> None:
    given, evaluation = matched(engine), evaluation_of(engine)
    results = score_part(evaluation, given)

    again = unpacked(packed(results, given), given, evaluators_of(evaluation))

    assert results == again
    counts = [tool_counts(tools) for score, _ in results for tools in score.tools]
    assert counts == [tool_counts(tools) for score, _ in again for tools in score.tools]
    assert any(counts)
    assert [len(evaluation.active.chosen.evaluators)] * len(given) == [len(measured) for _, measured in again]
    assert all(item.score_ids for _, measured in again for item in measured if item.scores)


def test_a_worker_evaluates_as_its_parent_does(engine: Engine) -> None:
    given, evaluation = matched(engine), evaluation_of(engine)
    at_worker = EvaluationTask.of(evaluation).restored(WorkerResources(engine.settings))

    results = unpacked(packed(score_part(at_worker, given), given), given, evaluators_of(evaluation))

    assert score_part(evaluation, given) == results


def test_calls_are_named_by_their_place_and_not_sent(engine: Engine) -> None:
    given, evaluation = matched(engine), evaluation_of(engine)
    content = packed(score_part(evaluation, given), given)

    assert not [name for name in (b"ToolCall", b"CompiledCall", b"CompiledExpectation") if name in content]
    (first, *_) = [
        tools
        for score, _ in unpacked(content, given, evaluators_of(evaluation))
        for tools in score.tools
        if tools.calls
    ]
    assert first.calls is not None
    assert any(
        first.calls.actual[0].call is call for item in given for turn in item.conversation.turns for call in turn.calls
    )


def test_every_conversation_is_in_exactly_one_part(engine: Engine) -> None:
    given = matched(engine)
    parts = by_bucket(given, 4)
    half = by_bucket(given[::2], 4)

    assert list(range(len(given))) == sorted(index for part in parts for index in part)
    together = [{given[index].conversation.key for index in part} for part in parts]
    assert all(
        any({given[::2][index].conversation.key for index in part} <= item for item in together) for part in half
    )


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
    given = matched(engine)
    broken = replace(given[3], conversation=replace(given[3].conversation, turns=(None,)))  # type: ignore[arg-type]  # on purpose
    runner = scoring_over(engine.runner, engine.settings, pool)
    pool.problems.clear()

    with runner.judge_run() as judge:
        assert isinstance(judge, PooledJudgeRun)
        result = list(judge._submit([*given[:3], broken, *given[4:]], evaluation_of(engine)))

    assert [item.conversation.key for item in (*given[:3], *given[4:])] == [item.conversation.key for item in result]
    (problem,) = pool.problems
    pool.problems.clear()
    assert passage(problem, conversation_id=repr(broken.conversation.conversation_id)) == snapshot(
        "conversation <conversation_id> cannot be scored"
    )


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
    class Failing(WorkerPool):
        def __init__(self) -> None:
            vars(self).update(vars(pool))

        def submit(self, work: Any, *arguments: Any, **more: Any) -> Any:  # noqa: ARG002 — instead of any work
            return pool.submit(failing, *arguments, **more)

    assert filled(tmp_path / "alone.duckdb", 6, None) == filled(tmp_path / "over.duckdb", 6, Failing())


def test_a_judge_that_asks_models_is_asked_from_this_process(tmp_path: Path, pool: WorkerPool) -> None:
    with Engine(settings_for(tmp_path / "t.duckdb"), create=True) as engine:
        engine.runner.judge = CountingJudge()  # type: ignore[assignment]  # as much of a judge as is looked at

        assert engine.runner is scoring_over(engine.runner, engine.settings, pool)


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
