"""What a running collector hands on to telemetry."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from inline_snapshot import snapshot

from otel_agentic.commands import Commands
from otel_agentic.config import EmitSettings
from otel_agentic.engine.engine import Engine, EngineListener
from otel_agentic.engine.rebuild import RebuildResult
from otel_agentic.judges import JudgeFailure, Question, Verdict
from otel_agentic.live.reporting import EventReporter
from otel_agentic.telemetry import Telemetry
from otel_agentic.testing import SECOND_NS, speak_genai
from tests.builders import CASE, ask_hotel, feed, rows
from tests.judges.parts import Answer, PlainJudge
from tests.stores import settings_for

if TYPE_CHECKING:
    from otel_agentic.evaluation.batch import ScoredBatch


class Relay(EngineListener):
    """Passes the events of an engine to a reporter, which needs the engine first."""

    reporter: EventReporter | None = None

    def judge_answered(self, answer: Answer) -> None:
        """Pass an answer."""
        if self.reporter is not None:
            self.reporter.report_answer(answer)

    def metrics_stored(self, batch: ScoredBatch, restated: Container[tuple[str, str, str]]) -> None:
        """Pass metric scores."""
        if self.reporter is not None:
            self.reporter.report_metrics(batch, restated)


RELAY = Relay()


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    RELAY.reporter = None
    with Engine(settings_for(tmp_path / "t.duckdb"), create=True, listener=RELAY) as opened:
        yield opened


@pytest.fixture
def telemetry() -> Iterator[Telemetry]:
    built = Telemetry.from_settings(EmitSettings(), run_id="run-1", trigger="online")
    yield built
    built.shutdown(1.0)


def metric_lines(telemetry: Telemetry, name: str) -> list[str]:
    return [line for line in telemetry.render()[1].decode().splitlines() if line.startswith(name)]


def evaluated(engine: Engine, listener: EventReporter, *answers: str) -> Commands:
    RELAY.reporter = listener
    commands = Commands(engine, scored=listener.report_scores)
    feed(engine, *(speak_genai(ask_hotel(f"c-{number}").answers(answer)) for number, answer in enumerate(answers)))
    commands.evaluate(cases=[("cases.jsonl", CASE)])
    return commands


def by_answer(question: Question) -> Answer:
    right = question.answer == question.expected
    return Verdict(score=float(right), reasoning="Compared.", model="m", cost_usd=0.5)


def test_answers_of_a_paid_judge_are_reported_and_those_of_the_exact_judge_are_not(
    engine: Engine, telemetry: Telemetry
) -> None:
    listener = EventReporter(engine, telemetry)
    evaluated(engine, listener, "The Ritz.")
    assert metric_lines(telemetry, "agentic_judge") == []
    engine.runner.judge = PlainJudge(say=by_answer, name="paid")
    engine.runner.remember([], [])
    evaluated(engine, listener, "The Ritz.", "The Plaza.")
    assert metric_lines(telemetry, "agentic_judge_cost") == snapshot(
        ['agentic_judge_cost_total{agentic_evaluator="paid",gen_ai_request_model="m"} 1.0']
    )
    misses = (
        'agentic_judge_cache_requests_total{agentic_evaluator="paid",agentic_result="miss",gen_ai_request_model="m"}'
    )
    assert metric_lines(telemetry, "agentic_judge_cache") == [f"{misses} 2.0"]


def test_an_answer_from_the_cache_is_a_hit(engine: Engine, telemetry: Telemetry) -> None:
    engine.runner.judge = PlainJudge(say=by_answer, name="paid")
    listener = EventReporter(engine, telemetry)
    commands = evaluated(engine, listener, "The Ritz.")
    commands.evaluate(force=True)
    result = {
        line.partition('agentic_result="')[2][:4]: line[-3:] for line in metric_lines(telemetry, "agentic_judge_cache")
    }
    assert result == {"miss": "1.0", 'hit"': "1.0"}


def test_a_judge_that_fails_costs_what_it_cost(engine: Engine, telemetry: Telemetry) -> None:
    def fails(_: Question) -> Answer:
        return JudgeFailure(reason="judge_error", message="429", tries=3, model="m", cost_usd=0.25)

    engine.runner.judge = PlainJudge(say=fails, name="paid")
    evaluated(engine, EventReporter(engine, telemetry), "The Ritz.")
    assert [line[-4:] for line in metric_lines(telemetry, "agentic_judge_cost")] == ["0.25"]
    assert (
        metric_lines(telemetry, "agentic_evaluation_conversations_total")[0].count('agentic_reason="judge_error"') == 1
    )


def test_agreement_is_reported_for_the_active_judge_and_after_a_restart(engine: Engine, telemetry: Telemetry) -> None:
    engine.runner.judge = PlainJudge(say=by_answer, name="paid")
    listener = EventReporter(engine, telemetry)
    commands = evaluated(engine, listener, "The Ritz.", "The Plaza.")
    commands.judge_calibrate(labels=[("people.csv", "conversation_id,verdict\nc-0,pass\nc-1,fail\n")])
    assert metric_lines(telemetry, "agentic_judge_agreement{") == []
    listener.report_agreement()
    (line,) = metric_lines(telemetry, "agentic_judge_agreement{")
    assert ('agentic_evaluation_target="conversation"' in line, line[-4:]) == (True, " 1.0")
    EventReporter(engine, telemetry)
    assert metric_lines(telemetry, "agentic_judge_agreement{") == [line]
    engine.runner.judge = PlainJudge(say=by_answer, name="paid", version="2")
    EventReporter(engine, telemetry)
    assert metric_lines(telemetry, "agentic_judge_agreement{") == []


def test_what_is_counted_of_metrics_adds_up_to_the_report_and_to_the_store(
    tmp_path: Path, telemetry: Telemetry
) -> None:
    sections = {"evaluators": {"thresholds": {"operations.tool_calls": {"max": 0}}}}
    engine = Engine(settings_for(tmp_path / "t.duckdb", **sections), create=True, listener=RELAY)
    commands = evaluated(engine, EventReporter(engine, telemetry), "The Ritz.", "The Plaza.", "The Ritz.")
    lines = metric_lines(telemetry, "agentic_metric_results_total")
    report = [(dict(re.findall(r'(\w+)="(.*?)"', line)), int(float(line.rpartition(" ")[2]))) for line in lines]

    def counted(name: str, **only: str) -> int:
        expected = {"gen_ai_evaluation_name": name, **only}
        return sum(count for attributes, count in report if expected.items() <= attributes.items())

    (group,) = commands.report(metrics=["all"])["groups"]
    reported = {
        metric["name"]: (metric["n"], sum(metric["not_evaluated"].values()), metric["failures"])
        for metric in group["metrics"]
        if metric["target"] != "group"
    }
    none = {"agentic_outcome": "not_evaluated"}
    assert reported == {
        name: (counted(name) - counted(name, **none), counted(name, **none), counted(name, agentic_outcome="fail"))
        for name in reported
    }
    stored = rows(
        engine,
        "SELECT count(*) FROM scores WHERE NOT superseded AND name IN (SELECT unnest($names))",
        {"names": [*reported]},
    )
    assert [(sum(count for _, count in report),)] == stored
    assert (3, 0, 3) == reported["agentic.operations.tool_calls"]
    assert 3 == counted("agentic.operations.tool_calls", agentic_severity="medium", agentic_revision="first")
    engine.close()


def test_late_spans_and_open_conversations_are_reported(engine: Engine, telemetry: Telemetry) -> None:
    EventReporter(engine, telemetry).report_rebuild(RebuildResult(late_spans=3), 7)
    assert metric_lines(telemetry, "agentic_ingest_late_spans_total") == snapshot(
        ["agentic_ingest_late_spans_total 3.0"]
    )
    assert metric_lines(telemetry, "agentic_conversations_open") == ["agentic_conversations_open 7.0"]


def test_only_what_closed_is_assembled(engine: Engine, telemetry: Telemetry) -> None:
    listener = EventReporter(engine, telemetry)
    spans = speak_genai(ask_hotel()).spans
    engine.store.accept(speak_genai(ask_hotel()))
    rebuilder = engine.rebuilder
    listener.report_rebuild(rebuilder.rebuild(rebuilder.read(rebuilder.pending()), lambda _: None), 1)
    assert metric_lines(telemetry, "agentic_evaluation_delay_seconds_count") == []
    closed = feed(engine, *speak_genai(ask_hotel("other")).spans)
    listener.report_rebuild(closed, 0)
    (line,) = metric_lines(telemetry, "agentic_evaluation_delay_seconds_count")
    assert 'agentic_stage="assembled"' in line
    assert spans


def test_a_score_is_in_its_window_once_gauges_were_computed_after_it_was_stored(
    engine: Engine, telemetry: Telemetry
) -> None:
    def timed() -> list[str]:
        lines = metric_lines(telemetry, "agentic_evaluation_delay_seconds_count")
        return [line.rpartition(" ")[2] for line in lines if 'agentic_stage="window"' in line]

    listener = EventReporter(engine, telemetry)
    before_ns = engine.clock()
    evaluated(engine, listener, "The Ritz.", "The Plaza.")
    listener.report_gauges(before_ns)
    assert timed() == []
    listener.report_gauges(engine.clock() + SECOND_NS)
    listener.report_gauges(engine.clock() + SECOND_NS)
    assert timed() == ["2.0"]
