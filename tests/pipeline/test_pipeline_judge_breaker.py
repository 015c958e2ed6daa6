"""A real LangChain client and a server that fails: what one rubric, or an outage, costs the other metrics and conversations."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from otel_agentic.commands import Commands
from otel_agentic.testing import NOON_NS, SECOND_NS, AgentRunScript, speak_genai
from tests.builders import feed, rows
from tests.judges.openai_server import OpenAIServer, Said, error, said
from tests.pipeline.exporting import export, just_now
from tests.pipeline.running import eventually, live_settings, running

if TYPE_CHECKING:
    from pathlib import Path

    from tests.pipeline.conftest import OpenEngine

COUNT = 12
READABLE = ("helpfulness", "coherence", "agent_behavior_failure")
UNREADABLE = "goal_accuracy_without_reference"
UNREAD = "SELECT explanation FROM scores WHERE name LIKE '%.goal_accuracy_without_reference'"
JUDGED = "SELECT count(label), list(explanation) FILTER (reason IS NOT NULL) FROM scores WHERE name LIKE '%agent_behavior_failure' AND NOT superseded"


def judge(server: OpenAIServer, **judge: Any) -> dict[str, Any]:
    """Return settings of a judge over a server; it fails fast."""
    options = {"base_url": server.base_url, "api_key": "none"}
    own = {"tries": 1, "backoff_s": 0, "timeout_s": 5, "concurrency": 2, "breaker_failures": 3, "breaker_wait_s": 0.3}
    return {"scoring": {"judge": "langchain:openai:small"}, "judge": {"model_options": options, **own, **judge}}


def conforming(request: dict[str, Any]) -> Said:
    """Return a reply of the schema that the request holds; two texts where one is allowed."""
    properties = request["response_format"]["json_schema"]["schema"]["properties"]
    (field,) = set(properties) - {"reasoning"}
    schema = properties[field]
    value: Any = ["one", "two"] if is_goal(request) else ["one"]
    if field != "texts":
        value = schema["maximum"] if field == "score" else schema["enum"][0]
    return said(json.dumps({"reasoning": "So it is.", field: value}))


def is_goal(request: dict[str, Any]) -> bool:
    properties = request["response_format"]["json_schema"]["schema"]["properties"]
    return "texts" in properties and properties["texts"]["maxItems"] == 1


def conversation(number: int) -> AgentRunScript:
    return AgentRunScript(conversation_id=f"c{number}").ask("Which hotel?").answers(f"The Ritz, room {number}.")


def test_a_rubric_that_is_never_read_costs_no_other_metric_a_value(open_engine: OpenEngine) -> None:
    asked: Counter[bool] = Counter()

    def script(request: dict[str, Any], _: int) -> Said:
        asked[is_goal(request)] += 1
        return conforming(request)

    with OpenAIServer(script) as server:
        engine = open_engine(**judge(server))
        for number in range(COUNT):
            feed(engine, *speak_genai(conversation(number), start_ns=NOON_NS + number * SECOND_NS).spans)
        done = Commands(engine).evaluate(metrics=[UNREADABLE, *READABLE])["evaluators"]["metrics"]

    found = {one["name"].rpartition(".")[2]: (one["n"], one["not_evaluated"]) for one in done}
    assert {**dict.fromkeys(READABLE, (COUNT, {})), UNREADABLE: (0, {"judge_error": COUNT})} == found
    assert asked[True] <= 3 + 2  # until the prompt is no longer asked, and what was under way
    explanations = {told for (told,) in rows(engine, UNREAD)}
    assert any("not asked" in told and "more than 1 texts" in told for told in explanations)


def test_an_evaluation_waits_for_a_judge_that_comes_back(open_engine: OpenEngine) -> None:
    def script(request: dict[str, Any], number: int) -> Said:
        return error(503, "no") if number < 4 else conforming(request)

    with OpenAIServer(script) as server:
        engine = open_engine(**judge(server))
        for number in range(COUNT):
            feed(engine, *speak_genai(conversation(number), start_ns=NOON_NS + number * SECOND_NS).spans)
        (found,) = Commands(engine).evaluate(metrics=["agent_behavior_failure"])["evaluators"]["metrics"]

    assert (COUNT - 4, {"judge_error": 4}) == (found["n"], found["not_evaluated"])  # those that the server refused


@pytest.mark.parametrize("longest_s", [0.0, 0.5])
def test_an_evaluation_gives_up_on_a_judge_that_stays_away(open_engine: OpenEngine, longest_s: float) -> None:
    with OpenAIServer(lambda *_: error(503, "no")) as server:
        engine = open_engine(**judge(server, outage_wait_s=longest_s))
        for number in range(COUNT):
            feed(engine, *speak_genai(conversation(number), start_ns=NOON_NS + number * SECOND_NS).spans)
        (found,) = Commands(engine).evaluate(metrics=["agent_behavior_failure"])["evaluators"]["metrics"]

    assert {"judge_error": COUNT} == found["not_evaluated"]
    assert len(server.requests) < COUNT


def test_a_collector_leaves_metrics_for_later_while_its_judge_is_away(tmp_path: Path) -> None:
    well: list[bool] = []

    def script(request: dict[str, Any], _: int) -> Said:
        return conforming(request) if well else error(503, "no")

    with OpenAIServer(script) as server:
        settings = live_settings(
            tmp_path / "t.duckdb",
            evaluators={"metrics": ["agent_behavior_failure"]},
            **judge(server),
        )
        with running(settings) as (live, found):
            for number in range(COUNT):
                export(found, speak_genai(conversation(number), start_ns=just_now()).spans)
            scored = "SELECT count(*) FROM conversation_scores WHERE NOT superseded"
            eventually(lambda: rows(live.engine, scored), [(COUNT,)])
            eventually(lambda: live.health()["judge"]["state"] != "closed", wanted=True)
            assert [(0,)] == rows(live.engine, "SELECT count(label) FROM scores WHERE name LIKE '%behavior_failure'")

            well.append(True)
            eventually(lambda: rows(live.engine, JUDGED), [(COUNT, None)])
