"""A judge that is asked: its verdicts are paid for once, and its failures are never the agent's."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pytest
from inline_snapshot import snapshot

from otel_agentic.commands import Commands
from otel_agentic.conversations.model import ConversationId
from otel_agentic.engine.engine import Engine
from otel_agentic.evaluation.scope import position_of
from otel_agentic.judges import JudgeFailure, Question, Verdict
from otel_agentic.testing import NOON_NS, SECOND_NS, AgentRunScript, scripted_call, speak_genai
from tests.builders import feed, rows
from tests.evaluation.test_evaluation_metrics import judge_replying, with_own
from tests.evaluators.own import Asker
from tests.judges.parts import Answer, PlainJudge, Streaming
from tests.stores import CopyOf, OpenEngine, PreparedStore, settings_for

if TYPE_CHECKING:
    from otel_agentic.judges import Judge
    from otel_agentic.spans.model import Span

CASES = [("cases.jsonl", '{"case_id": "hotel", "turns": [{"query": "Which hotel?", "answer": "The Ritz."}]}')]
HOUR_NS = 3600 * SECOND_NS
OUTCOMES = """
SELECT conversation_id, outcome, coalesce(reason, '') FROM conversation_scores WHERE NOT superseded ORDER BY conversation_id
"""
SCORES = "SELECT count(*), count(DISTINCT conversation_id) FROM conversation_scores"


def tell(engine: Engine, count: int) -> None:
    """Store conversations c0, c1, … each with an answer of its own: hotel 0, hotel 1, …"""
    spans: list[Span] = []
    for number in range(count):
        script = AgentRunScript(conversation_id=f"c{number}").ask("Which hotel?").answers(f"hotel {number}")
        spans += speak_genai(script, start_ns=NOON_NS + number * SECOND_NS).spans
    feed(engine, *spans)


class Stored(Protocol):
    """Opens an engine on a copy of a store with so many conversations."""

    def __call__(self, count: int) -> Engine: ...


@pytest.fixture
def stored(copy_of: CopyOf, prepared_store: PreparedStore) -> Stored:
    return lambda count: copy_of(prepared_store(partial(tell, count=count)))


def judged_by(engine: Engine, judge: Judge) -> Commands:
    engine.runner.judge = judge
    return Commands(engine)


def on(score_of: Callable[[int], Answer]) -> Callable[[Question], Answer]:
    """Return the verdicts of a judge by the number of the hotel."""
    return lambda question: score_of(int(question.answer.rpartition(" ")[2]))


def verdict(score: float = 1.0) -> Verdict:
    return Verdict(
        score=score, reasoning="because", model="judge-model", input_tokens=100, output_tokens=10, cost_usd=0.01
    )


def odd_fail(number: int) -> Answer:
    failure = JudgeFailure(reason="judge_error", message="timeout", model="judge-model", tries=4)
    return failure if number % 2 else verdict()


def test_each_answer_is_judged_once_even_if_it_is_scored_again(stored: Stored) -> None:
    engine = stored(5)
    judge = Streaming(on(lambda number: verdict(number / 4)))
    commands = judged_by(engine, judge)

    first = commands.evaluate(cases=CASES, metrics=["none"])
    again = commands.evaluate(force=True, metrics=["none"])

    assert {1} == set(judge.requests.values())
    assert (5, 0, 5) == tuple(first["judge"][name] for name in ("calls", "cached", "judged"))
    assert (0, 5, 0) == tuple(again["judge"][name] for name in ("calls", "cached", "judged"))
    assert {"pass": 2, "fail": 3} == first["outcomes"] == again["outcomes"]
    assert (500, 50, 0.05, ["judge-model"]) == tuple(
        pytest.approx(first["judge"][name]) if name == "cost_usd" else first["judge"][name]
        for name in ("input_tokens", "output_tokens", "cost_usd", "models")
    )


def test_another_process_pays_for_no_answer_again(open_engine: OpenEngine, tmp_path: Path) -> None:
    db = tmp_path / "t.duckdb"
    judge = PlainJudge(on(lambda _: verdict()))
    with Engine(settings_for(db), create=True) as first:
        tell(first, 3)
        judged_by(first, judge).evaluate(cases=CASES, metrics=["none"])

    judged_by(open_engine(db), judge).evaluate(force=True, metrics=["none"])

    assert {"hotel 0": 1, "hotel 1": 1, "hotel 2": 1} == judge.requests


def test_without_the_cache_each_evaluation_asks_anew(open_engine: OpenEngine) -> None:
    engine = open_engine(judge={"cache": False})
    tell(engine, 1)
    judge = PlainJudge(on(lambda _: verdict()))
    commands = judged_by(engine, judge)

    commands.evaluate(cases=CASES, metrics=["none"])
    commands.evaluate(force=True, metrics=["none"])

    assert {"hotel 0": 2} == judge.requests


def test_what_the_judge_failed_on_is_not_evaluated_and_asked_again_by_the_next_run(stored: Stored) -> None:
    engine = stored(4)
    judge = Streaming(on(odd_fail))
    commands = judged_by(engine, judge)
    first = commands.evaluate(cases=CASES, metrics=["none"])
    (group,) = commands.report(k=[1], estimator="plugin")["groups"]

    assert {"pass": 2, "not_evaluated": 2} == first["outcomes"]
    assert ({"judge_error": 2}, 2, 0.5) == (first["reasons"], first["judge"]["failed"], first["coverage"])
    assert (2, 2, 0.5, {"judge_error": 2}) == (group["n"], group["c"], group["coverage"], group["not_evaluated"])

    judge.say = on(lambda _: verdict(0.0))
    second = commands.evaluate(metrics=["none"])

    assert (2, 2, 0) == (second["scored"], second["asked_again"], second["unchanged"])
    assert {"fail": 2} == second["outcomes"]
    assert {"hotel 0": 1, "hotel 1": 2, "hotel 2": 1, "hotel 3": 2} == judge.requests
    assert [(4, 4)] == rows(engine, SCORES)


def test_what_says_the_same_when_asked_again_is_no_news(stored: Stored) -> None:
    engine = stored(2)
    commands = judged_by(engine, Streaming(on(odd_fail)))
    commands.evaluate(cases=CASES, metrics=["none"])
    before = rows(engine, "SELECT * FROM conversation_scores ORDER BY ALL")
    reported: list[Any] = []

    again = Commands(engine, scored=lambda scored, _: reported.extend(scored)).evaluate(metrics=["none"])

    assert (0, 1, 1) == (again["scored"], again["asked_again"], again["unchanged"])
    assert [] == reported
    assert before == rows(engine, "SELECT * FROM conversation_scores ORDER BY ALL")


class Raising(PlainJudge):
    def judge(self, questions: Sequence[Question]) -> list[Answer]:
        raise RuntimeError(f"out of order, {len(questions)} questions wait")


class Short(PlainJudge):
    def judge(self, questions: Sequence[Question]) -> list[Answer]:
        return super().judge(questions)[:-1]


class Dropping(Streaming):
    def stream(self, questions: Any) -> Iterator[tuple[int, Answer]]:
        yield from list(super().stream(questions))[1:]


class Breaking(Streaming):
    def stream(self, questions: Any) -> Iterator[tuple[int, Answer]]:
        for number, _ in questions:
            raise ValueError(number)
        yield 0, verdict()


@pytest.mark.parametrize(
    "judge",
    [
        pytest.param(Raising(), id="raises"),
        pytest.param(Short(), id="too few", marks=pytest.mark.slow),
        pytest.param(
            Dropping(on(lambda _: JudgeFailure(reason="judge_error", message="no"))),
            id="drops one",
            marks=pytest.mark.slow,
        ),
        pytest.param(Breaking(), id="breaks"),
        pytest.param(PlainJudge(on(lambda _: verdict(float("nan")))), id="no number"),
        pytest.param(PlainJudge(on(lambda _: verdict(1.5))), id="out of range", marks=pytest.mark.slow),
        pytest.param(
            Streaming(on(lambda _: JudgeFailure(reason="judge_error", message="refused", tries=4))),
            id="refuses",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_judge_that_fails_in_any_way_makes_no_agent_fail(stored: Stored, judge: Judge) -> None:
    engine = stored(3)
    done = judged_by(engine, judge).evaluate(cases=CASES, metrics=["none"])

    assert ({"not_evaluated": 3}, {"judge_error": 3}) == (done["outcomes"], done["reasons"])
    assert (0, 0.0) == (done["n"], done["coverage"])
    (group,) = Commands(engine).report(k=[1], estimator="plugin")["groups"]
    assert (0, 0.0, None) == (group["n"], group["coverage"], group["estimates"]["plugin"]["pass_at_k"]["1"]["value"])


@dataclass
class Clock:
    now_ns: int = NOON_NS + HOUR_NS

    def __call__(self) -> int:
        return self.now_ns


def test_what_the_budget_does_not_allow_is_judged_in_a_later_window(tmp_path: Path) -> None:
    clock, judge = Clock(), Streaming(on(lambda _: verdict()), slots=1)
    settings = settings_for(tmp_path / "t.duckdb", judge={"max_calls": 2, "budget_window": "1h"})
    with Engine(settings, create=True, clock=clock) as engine:
        tell(engine, 5)
        first = judged_by(engine, judge).evaluate(cases=CASES, metrics=["none"])
    with Engine(settings, clock=clock) as engine:  # another process, the same window
        second = judged_by(engine, judge).evaluate(metrics=["none"])
        clock.now_ns += HOUR_NS
        third = judged_by(engine, judge).evaluate(metrics=["none"])

    assert ({"pass": 2, "not_evaluated": 3}, {"budget_exhausted": 3}) == (first["outcomes"], first["reasons"])
    assert (first["judge"]["refused"], first["judge"]["used_up"]) == snapshot(
        (3, "the budget of 1h is used up (judge.max_calls 2)")
    )
    assert (0, 3, 3) == (second["judge"]["calls"], second["asked_again"], second["unchanged"])
    assert ({"pass": 2}, 1) == (third["outcomes"], third["unchanged"])
    assert {1} == set(judge.requests.values())


@pytest.mark.parametrize("judged_metrics", [False, True])
def test_what_is_judged_before_the_budget_is_exhausted_is_a_random_sample(
    open_engine: OpenEngine, *, judged_metrics: bool
) -> None:
    """The sample is the conversations that stand first by the hash of their identity, not the oldest ones."""
    engine = open_engine(judge={"max_calls": 8, "budget_window": "1h"})
    tell(engine, 40)
    judge = judge_replying() if judged_metrics else Streaming(on(lambda _: verdict()))
    if judged_metrics:
        done = with_own(engine, Asker(), judge=judge).evaluate(metrics=["polite"])["evaluators"]["metrics"][0]
        stored = rows(engine, "SELECT conversation_id FROM scores WHERE name = 'manners.polite' AND label IS NOT NULL")
        assert {"budget_exhausted": 32} == done["not_evaluated"]
    else:
        done = judged_by(engine, judge).evaluate(cases=CASES, metrics=["none"])
        stored = rows(engine, "SELECT conversation_id FROM conversation_scores WHERE outcome = 'pass'")
        assert {"budget_exhausted": 32} == done["reasons"]

    by_place = sorted((f"c{number}" for number in range(40)), key=lambda name: position_of(("", ConversationId(name))))
    assert set(by_place[:8]) == {name for (name,) in stored}


def test_a_run_that_is_stopped_keeps_what_is_judged_and_the_next_asks_for_the_rest(stored: Stored) -> None:
    engine = stored(20)
    judge = Streaming(slots=4)

    def say(question: Question) -> Answer:
        if len(judge.requests) == 8:
            engine.stopping.set()
        return verdict()

    judge.say = say
    commands = judged_by(engine, judge)
    first = commands.evaluate(cases=CASES, metrics=["none"])
    engine.stopping.clear()
    second = commands.evaluate(metrics=["none"])

    assert (True, False) == (first["stopped"], second["stopped"])
    assert 8 <= first["scored"] <= 12
    assert {} == first["reasons"]
    assert 20 == first["scored"] + second["scored"]
    assert {f"hotel {number}": 1 for number in range(20)} == judge.requests


def test_the_judge_is_asked_all_at_once_not_one_conversation_after_the_other(stored: Stored) -> None:
    engine = stored(12)
    judge = Streaming(on(lambda _: verdict()), slots=12)
    judged_by(engine, judge).evaluate(cases=CASES, metrics=["none"])

    assert 12 == judge.most_at_once


def test_equal_answers_to_the_same_question_are_asked_once(engine: Engine) -> None:
    for name in ("one", "two"):
        feed(engine, speak_genai(AgentRunScript(conversation_id=name).ask("Which hotel?").answers("hotel 7")))
    judge = PlainJudge(on(lambda _: verdict()))
    done = judged_by(engine, judge).evaluate(cases=CASES, metrics=["none"])

    assert ({"hotel 7": 1}, {"pass": 2}) == (judge.requests, done["outcomes"])


@pytest.mark.parametrize(("model", "warned"), [("gpt-5-mini-2025-08-07", ["openai/gpt-5-mini"]), ("other", [])])
def test_a_judge_of_the_agents_own_model_is_reported(engine: Engine, model: str, warned: list[str]) -> None:
    spans = speak_genai(AgentRunScript(conversation_id="c0").ask("Which hotel?").answers("hotel 0")).spans
    named = {"gen_ai.response.model": "openai/gpt-5-mini"}
    feed(engine, *(replace(span, attributes={**span.attributes, **named}) for span in spans))
    reply = Verdict(score=1.0, reasoning="", model=model)
    done = judged_by(engine, PlainJudge(lambda _: reply)).evaluate(cases=CASES, metrics=["none"])

    assert warned == done["judge"]["same_as_agent"]


def test_fails_on_partial_evidence_drafts_and_overruled_outcomes_are_counted(engine: Engine) -> None:
    def ask(name: str, query: str, answer: str) -> None:
        script = AgentRunScript(conversation_id=name).ask(query).calls(scripted_call("search", {"q": "x"}, result=[]))
        feed(engine, speak_genai(script.answers(answer)))

    ask("partial", "Which hotel?", "hotel 1")
    ask("draft", "Which inn?", "hotel 2")
    ask("overruled", "Which bar?", "hotel 4")
    invalid = {"calls": [{"tool_name": "book"}], "extra_calls": "allow"}
    cases = [
        {"case_id": "a", "turns": [{"query": "Which hotel?", "answer": "x"}], "tools": invalid},
        {"case_id": "b", "turns": [{"query": "Which inn?", "answer": "x"}], "reviewed": False},
        {"case_id": "c", "turns": [{"query": "Which bar?", "answer": "x"}], "verdict": "fail"},
    ]
    commands = judged_by(engine, Streaming(on(odd_fail)))
    done = commands.evaluate(cases=[("cases.jsonl", "\n".join(json.dumps(case) for case in cases))])

    assert {"fail": 2, "not_evaluated": 1} == done["outcomes"]
    assert (1, 1, 1) == (done["partial_fails"], done["compared"], done["disagreements"])
    assert 1 == done["reasons"]["unreviewed"]
    (group,) = commands.report(k=[1], estimator="plugin")["groups"]
    assert 1 == group["partial_fails"]


def test_another_systems_arithmetic_is_another_evaluator_version(open_engine: OpenEngine, tmp_path: Path) -> None:
    engine = open_engine(scoring={"compat": "ragas"})
    tell(engine, 1)
    own = open_engine(tmp_path / "own.duckdb")
    tell(own, 1)

    theirs, ours = (
        Commands(engine).evaluate(cases=CASES, metrics=["none"]),
        Commands(own).evaluate(cases=CASES, metrics=["none"]),
    )

    assert theirs["evaluation_id"] != ours["evaluation_id"]
    assert 1 == theirs["scored"]


def test_parameters_and_results_are_judged_once_alongside_answers(open_engine: OpenEngine) -> None:
    engine = open_engine(scoring={"judged_utilization": True, "criteria": ["annotated"]})
    judge = Streaming(lambda _: verdict())
    judge.kinds = frozenset({"answer", "parameter", "utilization"})  # type: ignore[attr-defined]  # as judges of more than answers declare
    call = scripted_call("book", {"room": "a quiet one"}, result={"note": "breakfast is included for two guests"})
    feed(engine, speak_genai(AgentRunScript(conversation_id="c0").ask("Which hotel?").calls(call).answers("hotel 0")))
    expected = {"tool_name": "book", "parameters": {"room": "quiet"}, "match": {"room": "judge"}}
    turn = {"query": "Which hotel?", "answer": "The Ritz.", "tools": {"calls": [expected]}}
    case = [("cases.jsonl", json.dumps({"case_id": "hotel", "turns": [turn]}))]

    first = judged_by(engine, judge).evaluate(cases=case, metrics=["none"])
    again = Commands(engine).evaluate(force=True, metrics=["none"])

    assert ({"pass": 1}, 3, 0) == (first["outcomes"], first["judge"]["calls"], first["judge"]["cached"])
    assert ({"pass": 1}, 0, 3) == (again["outcomes"], again["judge"]["calls"], again["judge"]["cached"])
