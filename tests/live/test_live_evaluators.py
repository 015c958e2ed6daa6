"""Evaluators in a running collector: what closes is looked at live, and what a kill left is caught up."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from otel_agentic.engine.engine import Engine
from otel_agentic.errors import UsageError
from otel_agentic.evaluation.scope import TruthFile
from otel_agentic.live.collector import LiveCollector
from otel_agentic.live.loops import ScoringLoop
from otel_agentic.testing import span, speak_genai
from tests.builders import CASE, ask_hotel, feed, rows
from tests.evaluation.test_evaluation_metrics import with_own
from tests.evaluators.own import Plain
from tests.live.otlp_export import export, just_now
from tests.live.running_collector import ask, eventually, live_settings, running
from tests.stores import settings_for

if TYPE_CHECKING:
    from otel_agentic.spans.model import Span

CASES = [("cases.jsonl", CASE)]
END = {"agentic.conversation.end": True}
LENGTHS = "SELECT conversation_id, value FROM scores WHERE name = 'length.characters' AND NOT superseded ORDER BY ALL"
DAY_NS = 86_400 * 1_000_000_000
KINDS = {"evaluators": {"metrics": ["none"]}}


def test_what_closes_in_a_collector_is_looked_at(tmp_path: Path) -> None:
    settings = live_settings(tmp_path / "t.duckdb", **KINDS)
    with running(settings, cases=CASES) as (live, addresses):
        with_own(live.engine, Plain())
        live.engine.runner.chosen = live.engine.runner.choose(["length"])
        export(addresses, speak_genai(ask_hotel("first"), start_ns=just_now()).spans)

        eventually(lambda: rows(live.engine, LENGTHS), [("first", 9.0)])
        done = ask(settings, "evaluate", metrics=["length"], force=True)
        assert ["length.characters", "length.kind"] == [metric["name"] for metric in done["evaluators"]["metrics"]]
        with pytest.raises(UsageError, match="no metric 'no_such_metric'"):
            ask(settings, "evaluate", metrics=["no_such_metric"])


def ended(conversation: str, start_ns: int) -> list[Span]:
    spans = speak_genai(ask_hotel(conversation), start_ns=start_ns).spans
    return [*spans, span(f"end {conversation}", parent=spans[0], start_ns=start_ns, attributes=END)]


def test_what_a_kill_left_without_evaluators_is_caught_up_and_older_things_wait(tmp_path: Path) -> None:
    with Engine(settings_for(tmp_path / "t.duckdb", **KINDS), create=True) as engine:
        feed(engine, *ended("new", just_now()), *ended("old", just_now() - 2 * DAY_NS))
        engine.runner.remember([TruthFile(name=name, text=text) for name, text in CASES], [])
        with_own(engine).evaluate()
        assert [(2,)] == rows(engine, "SELECT count(*) FROM conversation_scores")

        with_own(engine, Plain())
        engine.runner.chosen = engine.runner.choose(["length"])
        scoring = ScoringLoop(engine, lambda *_: None)
        scoring.start()
        eventually(lambda: rows(engine, LENGTHS), [("new", 9.0)])
        scoring.stop(10)

        assert [("new", 9.0)] == rows(engine, LENGTHS)
        engine.stopping.clear()
        with_own(engine, Plain()).evaluate(metrics=["length"])
        assert [("new", 9.0), ("old", 9.0)] == rows(engine, LENGTHS)


def test_a_collector_does_not_start_with_metrics_that_it_cannot_compute(tmp_path: Path) -> None:
    settings = live_settings(tmp_path / "t.duckdb", evaluators={"metrics": ["lenght"]})

    with pytest.raises(UsageError, match="no metric 'lenght'"):
        LiveCollector(settings)
