"""A collector with a judge that takes its time: closing, windows and stopping do not wait for it."""

from __future__ import annotations

import threading
from pathlib import Path

import httpx
import pytest

from otel_agentic.engine.engine import Engine
from otel_agentic.errors import PluginError, UsageError
from otel_agentic.evaluation.scope import TruthFile
from otel_agentic.judges import JudgeFailure, Question, Verdict
from otel_agentic.live.collector import LiveCollector
from otel_agentic.live.loops import ScoringLoop
from otel_agentic.testing import span, speak_genai
from tests.builders import CASE, ask_hotel, feed, rows
from tests.judges.parts import Answer, Streaming
from tests.live.otlp_export import export, just_now
from tests.live.running_collector import eventually, live_settings, running
from tests.stores import settings_for

CASES = [("cases.jsonl", CASE)]
END = {"agentic.conversation.end": True}
CLOSED = "SELECT conversation_id FROM conversations WHERE closed_by IS NOT NULL AND NOT superseded ORDER BY ALL"
SCORED = "SELECT conversation_id, outcome FROM conversation_scores WHERE NOT superseded ORDER BY ALL"


class Pondering(Streaming):
    """Answers once it may, and signals when it was asked. Closed, it gives up, as an LLM judge does."""

    def __init__(self) -> None:
        super().__init__(self._ponder)
        self.began, self.may = threading.Event(), threading.Event()
        self.closed = False

    def _ponder(self, _: Question) -> Answer:
        self.began.set()
        assert self.may.wait(30)
        if self.closed:
            return JudgeFailure(reason="judge_error", message="the judge was closed", tries=1)
        return Verdict(score=1.0, reasoning="at last", model="m")

    def close(self) -> None:
        self.closed = True
        self.may.set()


def test_conversations_close_while_the_judge_ponders_over_another(tmp_path: Path) -> None:
    judge = Pondering()
    with running(live_settings(tmp_path / "t.duckdb"), cases=CASES) as (live, addresses):
        live.engine.runner.judge = judge
        export(addresses, speak_genai(ask_hotel("first"), start_ns=just_now()).spans)
        assert judge.began.wait(20)
        export(addresses, speak_genai(ask_hotel("second"), start_ns=just_now()).spans)

        eventually(lambda: rows(live.engine, CLOSED), [("first",), ("second",)])
        assert [] == rows(live.engine, SCORED)
        assert httpx.get(f"{addresses.admin}/metrics").is_success
        judge.may.set()
        eventually(lambda: rows(live.engine, SCORED), [("first", "pass"), ("second", "pass")])


def test_a_stop_does_not_wait_for_the_judge_for_long_and_the_next_start_judges_the_rest(tmp_path: Path) -> None:
    settings = settings_for(tmp_path / "t.duckdb")
    with Engine(settings, create=True) as engine:
        ended = span("end", parent=(spans := speak_genai(ask_hotel()).spans)[0], attributes=END)
        feed(engine, *spans, ended)
        engine.runner.remember([TruthFile(name=name, text=text) for name, text in CASES], [])
        judge = engine.runner.judge = Pondering()
        scoring = ScoringLoop(engine, lambda *_: None)
        scoring.start()
        assert judge.began.wait(20)
        scoring.stop(0.01)

        assert (True, []) == (judge.closed, rows(engine, SCORED))

    with Engine(settings) as engine:
        scoring = ScoringLoop(engine, lambda *_: None)
        scoring.start()
        eventually(lambda: rows(engine, SCORED), [("conversation-1", "pass")])
        scoring.stop(10)


@pytest.mark.parametrize(
    ("judge", "reported"),
    [("no-such-judge", "no judges plug-in 'no-such-judge'"), ("exact:strict", "exact"), ("langchain", "langchain")],
)
def test_an_unavailable_judge_is_reported_before_anything_listens(tmp_path: Path, judge: str, reported: str) -> None:
    with pytest.raises((PluginError, UsageError), match=reported):
        LiveCollector(live_settings(tmp_path / "t.duckdb", scoring={"judge": judge}))
