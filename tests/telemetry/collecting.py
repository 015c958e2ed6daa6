"""A real collector that scores real conversations with a judge that costs money."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from otel_agentic.judges import Verdict
from otel_agentic.testing import AgentRunScript, scripted_call, span, speak_genai
from tests.builders import CASE, ask_hotel, rows
from tests.judges.parts import PlainJudge
from tests.live.otlp_export import export, just_now
from tests.live.running_collector import eventually, live_settings, running

if TYPE_CHECKING:
    from otel_agentic.judges import Question
    from otel_agentic.live.collector import LiveCollector
    from otel_agentic.net.server_file import LiveServer
    from otel_agentic.spans.model import Span

#: Right, wrong answer, wrong call.
GOOD, BAD, FAULTY = "good", "bad", "faulty"
SCORED = "SELECT count(*) FROM conversation_scores WHERE NOT superseded"


def _judge(question: Question) -> Verdict:
    right = question.answer == question.expected
    return Verdict(score=float(right), reasoning="Compared.", model="gpt-5-mini", cost_usd=0.002)


@contextmanager
def collecting(folder: Path, **sections: Any) -> Iterator[tuple[LiveCollector, LiveServer]]:
    """Run a collector whose objective is pass^1 >= 0.9 and whose windows are an hour, a day and the last two."""
    settings = live_settings(
        folder / "t.duckdb",
        windows={"widths": ["1h", "24h", "n2"], "step_s": 1, "lateness_s": 1e-3},
        stats={"k": [1, 3]},
        slo={"objectives": [{"k": 1, "target": 0.9}]},
        retention={"export": True},
        evaluators={
            "prices": {"scripted-*": {"input_usd": 1.0, "output_usd": 2.0}},
            "thresholds": {"layers.tool_f1": {"min": 1.0}},
        },
        **sections,
    )
    with running(settings, cases=[("cases.jsonl", CASE)]) as (live, server):
        live.engine.runner.judge = PlainJudge(say=_judge, name="paid")
        live.engine.runner.remember([], [])  # conversations read under the judge of the settings are read again
        yield live, server


def ended(script: AgentRunScript) -> list[Span]:
    """Return the spans of a conversation that began just now, with tokens, and the mark that it is over."""
    spans = [_with_tokens(agent_span) for agent_span in speak_genai(script, start_ns=just_now()).spans]
    mark = {"agentic.conversation.end": True}
    return [*spans, span("end", parent=spans[0], attributes=mark, environment=script.environment)]


def _with_tokens(agent_span: Span) -> Span:
    if agent_span.attributes.get("gen_ai.operation.name") != "chat":
        return agent_span
    tokens = {"gen_ai.usage.input_tokens": 900, "gen_ai.usage.output_tokens": 30}
    return replace(agent_span, attributes={**agent_span.attributes, **tokens})


def converse(live: LiveCollector, server: LiveServer, way: str = "http") -> None:
    """Send three conversations and return once they are scored; calibrate the judge with them."""
    scripts = (
        ask_hotel(GOOD, environment="production"),
        ask_hotel(BAD, environment="production").answers("The Plaza."),
        ask_hotel(FAULTY, environment="production").calls(scripted_call("book", {"room": 1}, result=["ok"])),
    )
    before = rows(live.engine, SCORED)[0][0]
    for number, script in enumerate(
        scripts, 1
    ):  # one after the other: the last has the first one's answer from the cache
        export(server, ended(script), way)
        eventually(partial(rows, live.engine, SCORED), [(before + number,)])
    labels = f"conversation_id,verdict\n{GOOD},pass\n{BAD},fail\n"
    live.run("judge_calibrate", {"labels": [("people.csv", labels)]})
