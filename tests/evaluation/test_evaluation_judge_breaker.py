"""A real LangChain client and a server that fails: what one rubric, or an outage, costs the other metrics and conversations."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from otel_agentic.commands import Commands
from otel_agentic.testing import NOON_NS, SECOND_NS, AgentRunScript, speak_genai
from tests.builders import feed, rows
from tests.judges.openai_server import OpenAIServer, ServerReply, completed, error, filled
from tests.live.otlp_export import export, just_now
from tests.live.running_collector import eventually, live_settings, running

if TYPE_CHECKING:
    from otel_agentic.spans import SpanBatch
    from tests.stores import OpenEngine

COUNT = 12
READABLE = ("helpfulness", "coherence", "agent_behavior_failure")
UNREADABLE = "goal_accuracy_without_reference"
UNREAD = "SELECT explanation FROM scores WHERE name LIKE '%.goal_accuracy_without_reference'"
JUDGED_METRICS = "SELECT count(label), list(explanation) FILTER (reason IS NOT NULL) FROM scores WHERE name LIKE '%agent_behavior_failure' AND NOT superseded"


def judge(server: OpenAIServer, **judge: Any) -> dict[str, Any]:
    """Return settings of a judge over a server; it fails fast."""
    options = {"base_url": server.base_url, "api_key": "none"}
    own: dict[str, Any] = {
        "tries": 1,
        "backoff_s": 0,
        "timeout_s": 5,
        "concurrency": 2,
        "breaker_failures": 3,
        "breaker_wait_s": 0.3,
    }
    own |= {"model_options": options, "sanity_check": False}
    return {"scoring": {"judge": "langchain:openai:small"}, "judge": own | judge}


def conforming(request: dict[str, Any]) -> ServerReply:
    """Return a reply of the schema that the request holds; two texts where one is allowed."""
    return completed(json.dumps(filled(schema_in(request), single=("one", "two"))))


def schema_in(request: dict[str, Any]) -> dict[str, Any]:
    schema: dict[str, Any] = request["response_format"]["json_schema"]["schema"]
    return schema


def is_goal(request: dict[str, Any]) -> bool:
    """Return whether a request holds the rubric that gets no readable reply, and no other."""
    return bool(schema_in(request)["properties"].get("texts", {}).get("maxItems") == 1)


def conversation(number: int) -> AgentRunScript:
    return AgentRunScript(conversation_id=f"c{number}").ask("Which hotel?").answers(f"The Ritz, room {number}.")


def conversations() -> list[SpanBatch]:
    """Return spans of `COUNT` conversations."""
    return [speak_genai(conversation(number), start_ns=NOON_NS + number * SECOND_NS) for number in range(COUNT)]


def test_a_rubric_that_is_never_read_costs_no_other_metric_a_value(open_engine: OpenEngine) -> None:
    counts: Counter[bool] = Counter()

    def script(request: dict[str, Any], _: int) -> ServerReply:
        counts[is_goal(request)] += 1
        return conforming(request)

    with OpenAIServer(script) as server:
        engine = open_engine(**judge(server, breaker_wait_s=60))  # longer than the test takes
        feed(engine, *conversations())
        done = Commands(engine).evaluate(metrics=[UNREADABLE, *READABLE])["evaluators"]["metrics"]

    result = {item["name"].rpartition(".")[2]: (item["n"], item["not_evaluated"]) for item in done}
    assert {**dict.fromkeys(READABLE, (COUNT, {})), UNREADABLE: (0, {"judge_error": COUNT})} == result
    assert counts[True] <= 3 + 2  # until the prompt is no longer asked, and the requests in flight
    explanations = {reported for (reported,) in rows(engine, UNREAD)}
    assert any("not asked" in explanation and "more than 1 texts" in explanation for explanation in explanations)


def test_an_evaluation_waits_for_a_judge_that_comes_back(open_engine: OpenEngine) -> None:
    def script(request: dict[str, Any], number: int) -> ServerReply:
        return error(503, "no") if number < 4 else conforming(request)

    with OpenAIServer(script) as server:
        engine = open_engine(**judge(server))
        feed(engine, *conversations())
        (metric,) = Commands(engine).evaluate(metrics=["agent_behavior_failure"])["evaluators"]["metrics"]

    assert (COUNT - 4, {"judge_error": 4}) == (metric["n"], metric["not_evaluated"])  # those that the server refused


@pytest.mark.parametrize("longest_s", [0.0, 0.5])
def test_an_evaluation_gives_up_on_a_judge_that_stays_away(open_engine: OpenEngine, longest_s: float) -> None:
    with OpenAIServer(lambda *_: error(503, "no")) as server:
        engine = open_engine(**judge(server, outage_wait_s=longest_s))
        feed(engine, *conversations())
        (metric,) = Commands(engine).evaluate(metrics=["agent_behavior_failure"])["evaluators"]["metrics"]

    assert {"judge_error": COUNT} == metric["not_evaluated"]
    assert len(server.requests) < COUNT


def test_a_collector_leaves_metrics_for_later_while_its_judge_is_away(tmp_path: Path) -> None:
    well: list[bool] = []

    def script(request: dict[str, Any], _: int) -> ServerReply:
        return conforming(request) if well else error(503, "no")

    with OpenAIServer(script) as server:
        settings = live_settings(
            tmp_path / "t.duckdb",
            evaluators={"metrics": ["agent_behavior_failure"]},
            **judge(server, breaker_wait_s=0.03),  # each conversation waits for it, and longer than the one before
        )
        with running(settings) as (live, addresses):
            for number in range(COUNT):
                export(addresses, speak_genai(conversation(number), start_ns=just_now()).spans)
            scored = "SELECT count(*) FROM conversation_scores WHERE NOT superseded"
            eventually(lambda: rows(live.engine, scored), [(COUNT,)])
            eventually(lambda: live.health()["judge"]["state"] != "closed", expected=True)
            assert [(0,)] == rows(live.engine, "SELECT count(label) FROM scores WHERE name LIKE '%behavior_failure'")

            well.append(True)
            eventually(lambda: rows(live.engine, JUDGED_METRICS), [(COUNT, None)])
