"""What goes over processes comes back as one process would have made it, and a process that fails loses nothing."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
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
    rebuilding_over,
    score_part,
    scoring_over,
    unpacked,
)
from otel_agentic.evaluation.truth import TruthFile
from otel_agentic.scoring.dimensions import tool_counts
from otel_agentic.store.selection import Selection
from otel_agentic.testing import NOON_NS, SECOND_NS, batch, speak_genai
from tests.builders import CASE, ask_hotel, contents, feed
from tests.pipeline.conftest import settings_for
from tests.snapshots import opening, passage

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Future
    from pathlib import Path

    from otel_agentic.scoring import MatchedConversation
    from tests.pipeline.conftest import CopyOf

TRUTH = TruthFile(name="cases.jsonl", text=CASE)


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerPool]:
    with WorkerPool(settings_for(tmp_path_factory.mktemp("none") / "none.duckdb"), 2) as workers:
        yield workers


def spoken(count: int) -> list[Any]:
    """Return conversations with and without an id, some wrong, one of three traces that only their history joins."""
    made = []
    for number in range(count):
        named = ask_hotel(f"c-{number}" if number % 3 else None)
        script = named if number % 4 else named.answers("The Savoy.")
        made.append(speak_genai(script, start_ns=NOON_NS + number * 3_600 * SECOND_NS))
    long = ask_hotel(None).ask("How much?").answers("300 euros.").ask("Per night?").answers("Yes.")
    return [*made, speak_genai(long, start_ns=NOON_NS - 86_400 * SECOND_NS)]


def filled(db: Path, count: int, pool: WorkerPool | None) -> dict[str, list[tuple[Any, ...]]]:
    """Return every row of a new file after some conversations were stored, rebuilt and scored."""
    with Engine(settings_for(db), create=True, clock=lambda: NOON_NS) as engine:
        engine.store.accept(batch(*spoken(count)))
        rebuilding_over(engine, pool)
        rebuild_pending(engine, lambda *_: None)
        engine.evaluating.remember([TRUTH], [])
        evaluating = scoring_over(engine, pool)
        truth = evaluating.truth()
        evaluating.evaluate(truth, evaluating.select(truth, Selection()))
        found = contents(engine)
        del found["schema_migrations"]
        return found


def test_workers_make_the_rows_that_one_process_makes(tmp_path: Path, pool: WorkerPool) -> None:
    alone = filled(tmp_path / "alone.duckdb", 20, None)

    assert alone == filled(tmp_path / "over.duckdb", 20, pool)
    assert 21 == len(alone["conversation_scores"])
    assert alone["tool_counts"]
    assert [] == pool.problems


@pytest.mark.slow
def test_workers_make_the_rows_of_tau_airline(copy_of: CopyOf, tau_file: Path, tau_truth: dict[str, Any]) -> None:
    truth = [[TruthFile(name=name, text=text) for name, text in tau_truth[kind]] for kind in ("cases", "labels")]
    made = []
    for count in (None, 2):
        engine = copy_of(tau_file)
        engine.store.clock = lambda: NOON_NS
        engine.store.write(lambda con: [con.execute(f"DELETE FROM {name}") for name in BUILT])  # noqa: S608 — of our own
        with WorkerPool(engine.settings, 2) as workers:
            pool = workers if count else None
            rebuilding_over(engine, pool)
            rebuild_pending(engine, lambda *_: None)
            engine.evaluating.remember(*truth)
            evaluating = scoring_over(engine, pool)
            evaluating.evaluate(evaluating.truth(), evaluating.select(evaluating.truth(), Selection()))
        made.append({name: rows for name, rows in contents(engine).items() if name != "schema_migrations"})
        engine.close()

    assert made[0] == made[1]
    assert 200 == len(made[0]["results"])


BUILT = ("trace_links", "conversations", "turns", "tool_calls")


def matched(engine: Engine) -> list[MatchedConversation]:
    feed(engine, *spoken(12))
    engine.evaluating.remember([TRUTH], [])
    truth = engine.evaluating.truth()
    return engine.evaluating.match(truth, engine.evaluating.select(truth, Selection()).keys)


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
        first.calls.actual[0].call is call for one in given for turn in one.conversation.turns for call in turn.calls
    )


def test_every_conversation_is_in_one_part_whatever_its_neighbours(engine: Engine) -> None:
    given = matched(engine)
    parts = by_bucket(given, 4)
    half = by_bucket(given[::2], 4)

    assert list(range(len(given))) == sorted(place for part in parts for place in part)
    together = [{given[place].conversation.key for place in part} for part in parts]
    assert all(any({given[::2][place].conversation.key for place in part} <= one for one in together) for part in half)


@pytest.mark.slow
def test_a_worker_that_dies_is_told_and_this_process_does_the_rest(tmp_path: Path) -> None:
    alone = filled(tmp_path / "alone.duckdb", 12, None)
    with WorkerPool(settings_for(tmp_path / "none.duckdb"), 1) as workers:
        victim: Future[int] | None = workers.submit(own_process)
        assert workers.result(workers.submit(killed)) is None
        assert workers.result(victim)

        assert alone == filled(tmp_path / "over.duckdb", 12, workers)
        (problem,) = workers.problems
        assert opening(problem) == snapshot("a worker process died")


def test_a_conversation_that_cannot_be_scored_is_told_and_the_others_are(engine: Engine, pool: WorkerPool) -> None:
    given = matched(engine)
    broken = replace(given[3], conversation=replace(given[3].conversation, turns=(None,)))  # type: ignore[arg-type]  # on purpose
    evaluating = scoring_over(engine, pool)
    pool.problems.clear()

    with evaluating.judge_run() as judging:
        assert isinstance(judging, PooledJudgeRun)
        found = list(judging._submit([*given[:3], broken, *given[4:]]))

    assert [one.conversation.key for one in (*given[:3], *given[4:])] == [item.conversation.key for item in found]
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
        engine.evaluating.judge = Asked()  # type: ignore[assignment]  # as much of a judge as is looked at

        assert engine.evaluating is scoring_over(engine, pool)


class Asked:
    name = "asked"


def own_process(tools: WorkerResources) -> int:
    return os.getpid()


def killed(tools: WorkerResources) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def failing(tools: WorkerResources, *arguments: Any) -> None:
    message = "on purpose"
    raise ValueError(message)
