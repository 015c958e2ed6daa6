"""Results of worker processes equal those of one process, and a process that fails loses nothing."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from inline_snapshot import snapshot

from otel_agentic.commands.ingest import rebuild_pending
from otel_agentic.engine.engine import Engine
from otel_agentic.engine.parallel import (
    PooledJudgeRun,
    WorkerPool,
    WorkerResources,
    by_bucket,
    packed,
    rebuilder_over,
    score_part,
    scoring_over,
    unpacked,
)
from otel_agentic.evaluation.scope import TruthFile
from otel_agentic.scoring.pairs import tool_counts
from otel_agentic.store.table import Selection
from otel_agentic.testing import NOON_NS, SECOND_NS, batch, speak_genai
from tests.builders import CASE, ask_hotel, contents, feed
from tests.snapshots import opening, passage
from tests.stores import CopyOf, PreparedStore, settings_for

if TYPE_CHECKING:
    from concurrent.futures import Future

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
        runner = scoring_over(engine, pool)
        truth = runner.truth()
        runner.evaluate(truth, runner.select(truth, Selection()))
        result = contents(engine)
        del result["schema_migrations"]
        return result


def test_workers_make_the_rows_that_one_process_makes(tmp_path: Path, pool: WorkerPool) -> None:
    alone = filled(tmp_path / "alone.duckdb", 20, None)

    assert alone == filled(tmp_path / "over.duckdb", 20, pool)
    assert 21 == sum("agentic.conversation" in row for row in alone["scores"])
    assert alone["tool_counts"]
    assert [] == pool.problems


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
            runner = scoring_over(engine, pool)
            runner.evaluate(runner.truth(), runner.select(runner.truth(), Selection()))
        built.append({name: rows for name, rows in contents(engine).items() if name != "schema_migrations"})
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


def matched(engine: Engine) -> list[MatchedConversation]:
    truth = engine.runner.truth()
    return engine.runner.match(truth, engine.runner.select(truth, Selection()).keys)


def test_a_score_comes_out_of_its_bytes_with_all_that_it_was_made_from(engine: Engine) -> None:
    given = matched(engine)
    scores = score_part(WorkerResources(engine.settings), given)

    again = unpacked(packed(scores, given), given)

    assert scores == again
    counts = [tool_counts(tools) for score in scores for tools in score.tools]
    assert counts == [tool_counts(tools) for score in again for tools in score.tools]
    assert any(counts)


def test_calls_are_named_by_their_place_and_not_sent(engine: Engine) -> None:
    given = matched(engine)
    content = packed(score_part(WorkerResources(engine.settings), given), given)

    assert not [name for name in (b"ToolCall", b"CompiledCall", b"CompiledExpectation") if name in content]
    (first, *_) = [tools for score in unpacked(content, given) for tools in score.tools if tools.calls]
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


def test_a_conversation_that_cannot_be_scored_is_reported_and_the_others_are_scored(
    engine: Engine, pool: WorkerPool
) -> None:
    given = matched(engine)
    broken = replace(given[3], conversation=replace(given[3].conversation, turns=(None,)))  # type: ignore[arg-type]  # on purpose
    runner = scoring_over(engine, pool)
    pool.problems.clear()

    with runner.judge_run() as judge:
        assert isinstance(judge, PooledJudgeRun)
        result = list(judge._submit([*given[:3], broken, *given[4:]]))

    assert [item.conversation.key for item in (*given[:3], *given[4:])] == [item.conversation.key for item in result]
    (problem,) = pool.problems
    pool.problems.clear()
    assert passage(problem, conversation_id=repr(broken.conversation.conversation_id)) == snapshot(
        "conversation <conversation_id> cannot be scored"
    )


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

        assert engine.runner is scoring_over(engine, pool)


class CountingJudge:
    name = "asked"


def own_process(tools: WorkerResources) -> int:
    return os.getpid()


def killed(tools: WorkerResources) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def failing(tools: WorkerResources, *arguments: Any) -> None:
    message = "on purpose"
    raise ValueError(message)
