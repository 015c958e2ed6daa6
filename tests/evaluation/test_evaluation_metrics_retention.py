"""Scores of evaluators go where the conversation goes: exports, imports, retention; and survive a process that dies."""

from __future__ import annotations

from collections.abc import Container
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pytest

from otel_agentic.engine.engine import Engine, EngineListener
from otel_agentic.engine.retention import HourlyExport, RetentionPass
from tests.builders import CASE, rows
from tests.engine.retention_engine import HOUR_NS, Clock, retaining_engine, store_talk
from tests.evaluation.test_evaluation_metrics import CASES, call_count, judge_replying, tell, with_own
from tests.evaluators.own import Asker, Plain
from tests.stores import settings_for

if TYPE_CHECKING:
    from otel_agentic.evaluation.batch import ScoredBatch

LENGTHS = "SELECT count(*) FROM '{folder}/scores/**/*.parquet' WHERE evaluator = 'length' AND NOT superseded"


def lengths_in(folder: Path) -> int:
    with duckdb.connect() as con:
        ((count,),) = con.execute(LENGTHS.format(folder=folder)).fetchall()
    return int(count)


def test_an_exported_hour_is_written_anew_once_an_evaluator_caught_up(tmp_path: Path) -> None:
    clock, folder = Clock(), tmp_path / "t.duckdb.export"
    with retaining_engine(tmp_path / "t.duckdb", clock, retention={"export": True}) as engine:
        store_talk(engine, "first", 0)
        with_own(engine).evaluate(cases=[("c.jsonl", CASE)])
        clock.at(1.9)
        HourlyExport(engine).run()
        assert 0 == lengths_in(folder) == HourlyExport(engine).run().hours

        with_own(engine, Plain()).evaluate()
        again = HourlyExport(engine).run()

    assert (True, 2) == (again.hours > 0, lengths_in(folder))


def test_what_is_removed_takes_its_scores_along(tmp_path: Path) -> None:
    clock = Clock()
    with retaining_engine(tmp_path / "t.duckdb", clock) as engine:
        store_talk(engine, "old", 0)
        store_talk(engine, "young", 3)
        with_own(engine, Plain()).evaluate(cases=[("c.jsonl", CASE)])
        clock.at(4)
        RetentionPass(engine, 2 * HOUR_NS).run()

        assert [("young",)] == rows(engine, "SELECT DISTINCT conversation_id FROM scores")


class Killed(BaseException):
    """Represents the end of the process."""


def test_after_a_kill_only_what_was_not_answered_is_asked(tmp_path: Path) -> None:
    judge = judge_replying()
    judge.slots = 1
    answers = [f"answer {number}" for number in range(6)]

    class Dies(EngineListener):
        def metrics_stored(self, batch: ScoredBatch, restated: Container[tuple[str, str, str]]) -> None:
            del batch, restated
            raise Killed

    with Engine(settings_for(tmp_path / "t.duckdb"), create=True, listener=Dies()) as engine:
        tell(engine, *answers)
        with pytest.raises(Killed):
            with_own(engine, Asker(), judge=judge).evaluate(cases=CASES, metrics=["polite"])
    with Engine(settings_for(tmp_path / "t.duckdb")) as engine:
        again = with_own(engine, Asker(), judge=judge).evaluate(metrics=["polite"])

        assert [(6, 6)] == rows(engine, "SELECT count(*), count(label) FROM scores WHERE name = 'manners.polite'")
        assert [(6,)] == rows(engine, "SELECT count(DISTINCT conversation_id) FROM conversation_scores")
    assert 12 == call_count(judge)  # each answer once for its outcome, and once for its manners
    assert 0 == again["scored"]


def test_a_backfill_runs_no_evaluator_and_leaves_them_to_evaluate(tmp_path: Path) -> None:
    with Engine(settings_for(tmp_path / "t.duckdb", evaluators={"metrics": ["length"]}), create=True) as engine:
        tell(engine, "The Ritz.")
        commands = with_own(engine, Plain())
        list(commands.backfill(cases=CASES, windows=["1h"]))

        assert [("core",)] == rows(engine, "SELECT DISTINCT evaluator FROM scores")
        assert 1 == commands.evaluate()["evaluators"]["caught_up"]
