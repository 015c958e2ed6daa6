"""Conversations that the judge is unsure about leave every rate, with their failures known."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from inline_snapshot import snapshot

from otel_agentic.commands import Commands
from otel_agentic.judges import Question, Verdict
from otel_agentic.render.report_notes import group_notes
from otel_agentic.results import from_json
from otel_agentic.results.reports import ReportGroup
from otel_agentic.testing import NOON_NS, SECOND_NS, AgentRunScript, speak_genai
from tests.builders import feed, rows
from tests.judges.parts import PlainJudge
from tests.snapshots import passage

if TYPE_CHECKING:
    from otel_agentic.engine.engine import Engine
    from otel_agentic.spans.model import SpanBatch
    from tests.stores import CopyOf, PreparedStore

CASE = {"case_id": "trip", "turns": [{"query": query, "answer": "x"} for query in ("Which hotel?", "Which train?")]}
CASES = [("cases.jsonl", json.dumps(CASE))]
SPOKEN = {
    "right": ("0.9", "0.9"),
    "wrong": ("0.9", "0.1"),
    "open": ("0.9", "0.5"),
    "open-and-wrong": ("0.5", "0.1"),
}


def by_number(question: Question) -> Verdict:
    score = float(question.answer)
    return Verdict(score=score, reasoning=f"{score:g}", unsure=score == 0.5)


@pytest.fixture
def judge() -> PlainJudge:
    return PlainJudge(by_number)


def _spoken(engine: Engine) -> None:
    spans: list[SpanBatch] = []
    for index, (name, answers) in enumerate(SPOKEN.items()):
        script = AgentRunScript(conversation_id=name)
        for query, answer in zip(("Which hotel?", "Which train?"), answers, strict=True):
            script = script.ask(query).answers(answer)
        spans.append(speak_genai(script, start_ns=NOON_NS + index * SECOND_NS))
    feed(engine, *spans)


@pytest.fixture
def engine(copy_of: CopyOf, prepared_store: PreparedStore, judge: PlainJudge) -> Engine:
    """An engine on the conversations `SPOKEN`."""
    engine = copy_of(prepared_store(_spoken))
    engine.runner.judge = judge
    return engine


@pytest.fixture
def commands(engine: Engine) -> Commands:
    return Commands(engine)


OUTCOMES = """
SELECT conversation_id, outcome, reason, known_failure FROM conversation_scores WHERE NOT superseded ORDER BY ALL
"""


def test_they_leave_n_and_the_failures_among_them_are_listed_and_bound_the_pass_rate(
    commands: Commands, engine: Engine
) -> None:
    done = commands.evaluate(cases=CASES, metrics=["none"])

    assert {"pass": 1, "fail": 1, "not_evaluated": 2} == done["outcomes"]
    assert (0.5, 1, 0) == (done["coverage"], done["known_failures"], done["partial_fails"])
    assert [
        ("open", "not_evaluated", "judge_unsure", None),
        ("open-and-wrong", "not_evaluated", "judge_unsure", "wrong_answer"),
        ("right", "pass", None, None),
        ("wrong", "fail", "wrong_answer", None),
    ] == rows(engine, OUTCOMES)
    (group,) = commands.report(k=[1], estimator="plugin")["groups"]
    assert ({"judge_unsure": 2}, 1, [0.25, 0.5]) == (group["not_evaluated"], group["known_failures"], group["bounds"])
    notes = "\n".join(group_notes([from_json(ReportGroup, group)]))
    assert passage(notes, name=group["judge"]["name"]) == snapshot(
        "judge <name> is unsure about an answer of 2 conversations; 1 of them fails"
    )
    assert "judge_unsure: " in notes
    assert "--labels" in notes

    failing = commands.failures()
    result = {failure["conversation_id"] for item in failing["groups"] for failure in item["failures"]}
    assert {"wrong", "open-and-wrong"} == result
    assert [] == rows(engine, "SELECT partial_fails FROM v_partial_evidence WHERE partial_fails > 0")
    assert [("open", 0.5), ("open-and-wrong", 0.5)] == rows(
        engine,
        "SELECT conversation_id, answer_score FROM turn_scores WHERE answer_reason = 'judge_unsure' ORDER BY ALL",
    )
    assert [("judge_unsure", 2)] == rows(
        engine, "SELECT reason, count(*) FROM results WHERE outcome = 'not_evaluated' GROUP BY ALL"
    )


def test_a_verdict_from_the_cache_is_as_unsure_as_it_was(commands: Commands, judge: PlainJudge, engine: Engine) -> None:
    commands.evaluate(cases=CASES, metrics=["none"])
    before, requested = rows(engine, OUTCOMES), dict(judge.requests)

    again = commands.evaluate(force=True, metrics=["none"])

    assert (before, requested) == (rows(engine, OUTCOMES), dict(judge.requests))
    assert {"pass": 1, "fail": 1, "not_evaluated": 2} == again["outcomes"]


def test_labels_of_people_decide_what_the_judge_leaves_open(commands: Commands, engine: Engine) -> None:
    labels = [("labels.csv", "conversation_id,verdict\nopen,pass\nopen-and-wrong,fail\n")]
    done = commands.evaluate(cases=CASES, labels=labels, metrics=["none"])

    assert ({"pass": 2, "fail": 2}, 0, 0) == (done["outcomes"], done["known_failures"], done["partial_fails"])
    (group,) = commands.report(k=[1], estimator="plugin")["groups"]
    assert ({}, [0.5, 0.5]) == (group["not_evaluated"], group["bounds"])
    assert [] == rows(engine, "SELECT * FROM v_disagreements")


def test_calibration_leaves_them_out_and_says_how_many(commands: Commands) -> None:
    commands.evaluate(cases=CASES, metrics=["none"])
    verdicts = "conversation_id,turn,verdict\nright,1,pass\nwrong,2,fail\nopen,2,pass\nopen,,pass\nwrong,,fail\n"
    done: dict[str, Any] = commands.judge_calibrate(labels=[("people.csv", verdicts)])

    assert (2, {"judge_unsure": 1}) == (done["turn"]["n"], done["turn"]["not_judged"])
    assert (1, {"judge_unsure": 1}) == (done["conversation"]["n"], done["conversation"]["not_judged"])
