"""Evaluators alongside core scoring: their scores are stored once, kept up to date, and no judge is asked twice."""

from __future__ import annotations

import json
from collections.abc import Callable, Container
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pytest
from inline_snapshot import snapshot

from otel_agentic.commands import Commands
from otel_agentic.config import JudgeSettings
from otel_agentic.engine.engine import Engine, EngineListener
from otel_agentic.errors import UsageError
from otel_agentic.evaluators.base import AnyEvaluator, MetricScore, Subject
from otel_agentic.judges import JudgeFailure, LangChainJudge, Verdict
from otel_agentic.testing import NOON_NS, SECOND_NS, AgentRunScript, speak_genai
from tests.builders import feed, rows
from tests.evaluators.own import Asker, OfGroup, Plain, metric
from tests.judges.models import Bare, fields_of
from tests.judges.parts import Answer, Streaming
from tests.snapshots import raises
from tests.stores import CopyOf, OpenEngine, PreparedStore, settings_for

if TYPE_CHECKING:
    from otel_agentic.evaluation.batch import ScoredBatch
    from otel_agentic.judges import Judge, Question
    from otel_agentic.store.table import Measured

CASES = [("cases.jsonl", '{"case_id": "hotel", "turns": [{"query": "Which hotel?", "answer": "The Ritz."}]}')]
NEWEST = """
SELECT conversation_id, revision, name, target, turn_index, value, label, reason FROM scores
WHERE evaluator <> 'core' AND NOT superseded ORDER BY ALL
"""
HISTORY = """
SELECT evaluator_version, revision, superseded, count(*) FROM scores WHERE evaluator = 'length' GROUP BY ALL ORDER BY ALL
"""
CORE = "SELECT * EXCLUDE (metrics_at) FROM conversation_scores ORDER BY ALL"
CORE_ROWS = "SELECT * EXCLUDE (metrics_at) FROM scores WHERE evaluator = 'core' ORDER BY ALL"
#: All rows, apart from when they were written.
ROWS = "SELECT * EXCLUDE (scored_at, metrics_at) FROM scores ORDER BY ALL"


def tell(engine: Engine, *answers: str) -> None:
    """Store conversations c0, c1, … of one turn, each with its answer."""
    scripts = [
        AgentRunScript(conversation_id=f"c{number}").ask("Which hotel?").answers(answer)
        for number, answer in enumerate(answers)
    ]
    reported = [speak_genai(script, start_ns=NOON_NS + index * SECOND_NS) for index, script in enumerate(scripts)]
    feed(engine, *(span for batch in reported for span in batch.spans))


def _tell_all(engine: Engine, answers: tuple[str, ...]) -> None:
    tell(engine, *answers)


class Stored(Protocol):
    """Opens an engine on a copy of a store with a conversation for each answer."""

    def __call__(self, *answers: str) -> Engine: ...


@pytest.fixture
def stored(copy_of: CopyOf, prepared_store: PreparedStore) -> Stored:
    return lambda *answers: copy_of(prepared_store(partial(_tell_all, answers=answers)))


def with_own(engine: Engine, *evaluators: AnyEvaluator, judge: Judge | None = None) -> Commands:
    """Return commands on an engine that knows these evaluators and no others."""
    engine.runner.installed = evaluators
    for name in ("chosen", "configured"):
        engine.runner.__dict__.pop(name, None)
    if judge is not None:
        engine.runner.judge = judge
    return Commands(engine)


def test_scores_of_evaluators_are_stored_alongside_the_core_scores(engine: Engine) -> None:
    tell(engine, "The Ritz.", "The Savoy, " + "perhaps " * 20)

    done = with_own(engine, Plain()).evaluate(cases=CASES)

    assert [
        ("c0", 1, "length.characters", "turn", 0, 9.0, None, None),
        ("c0", 1, "length.kind", "conversation", None, None, "short", None),
        ("c1", 1, "length.characters", "turn", 0, 171.0, None, None),
        ("c1", 1, "length.kind", "conversation", None, None, "long", None),
    ] == rows(engine, NEWEST)
    assert {
        "conversations": 2,
        "rows": 4,
        "caught_up": 0,
        "faults": {},
        "metrics": [
            {
                "name": "length.characters",
                "evaluator": "length",
                "n": 2,
                "mean": 90.0,
                "labels": {},
                "not_evaluated": {},
            },
            {
                "name": "length.kind",
                "evaluator": "length",
                "n": 2,
                "mean": None,
                "labels": {"short": 1, "long": 1},
                "not_evaluated": {},
            },
        ],
        "left_out": [],
    } == done["evaluators"]
    assert [(4, 4)] == rows(
        engine, "SELECT count(score_id), count(DISTINCT score_id) FROM scores WHERE evaluator = 'length'"
    )
    assert [("length", "1")] == rows(
        engine, "SELECT evaluator, evaluator_version FROM evaluations WHERE evaluator IS NOT NULL"
    )


def test_every_field_of_a_score_is_kept(stored: Stored) -> None:
    engine = stored("The Ritz.")
    reported = MetricScore(
        name="length.kind",
        label="long",
        explanation="so it is",
        tool_name="search",
        parameter="q",
        details={"of": [1, None]},
    )

    with_own(engine, Plain(say=lambda _: [reported])).evaluate(cases=CASES)

    assert [("so it is", "search", "q", '{"of":[1,null]}', None)] == rows(
        engine, "SELECT explanation, tool_name, parameter, details, position FROM scores WHERE evaluator <> 'core'"
    )


def test_what_was_run_is_not_run_again_unless_forced(stored: Stored) -> None:
    engine = stored("The Ritz.", "The Savoy.")
    plain = Plain()
    commands = with_own(engine, plain)
    commands.evaluate(cases=CASES)
    before = rows(engine, ROWS)

    again = commands.evaluate()

    assert (0, ["c0", "c1"]) == (again["evaluators"]["conversations"], plain.known)
    assert before == rows(engine, ROWS)

    forced = commands.evaluate(force=True)

    assert (2, ["c0", "c1"] * 2) == (forced["evaluators"]["conversations"], plain.known)
    assert before == rows(engine, ROWS)


def test_an_evaluator_that_is_new_catches_up_and_no_core_row_changes(stored: Stored) -> None:
    engine = stored("The Ritz.", "The Savoy.")
    with_own(engine).evaluate(cases=CASES)
    before = [rows(engine, sql) for sql in (CORE, CORE_ROWS, "FROM turn_scores ORDER BY ALL")]
    reported: list[tuple[str, str | None, str | None]] = []

    def look(subject: Subject) -> list[MetricScore]:
        assert subject.score is not None
        case = None if subject.case is None else subject.case.case_id
        reported.append((str(subject.conversation.conversation_id), subject.score.outcome, case))
        return [MetricScore(name="length.kind", label="short")]

    done = with_own(engine, Plain(say=look)).evaluate()

    assert (0, 2, 2) == (done["scored"], done["evaluators"]["conversations"], done["evaluators"]["caught_up"])
    assert [("c0", "pass", "hotel"), ("c1", "fail", "hotel")] == reported
    after = [
        rows(engine, CORE),
        rows(engine, CORE_ROWS),
        rows(engine, "FROM turn_scores ORDER BY ALL"),
    ]
    assert before == after


def test_a_new_version_supersedes_the_scores_of_the_old_one(stored: Stored) -> None:
    engine = stored("The Ritz.")
    with_own(engine, Plain()).evaluate(cases=CASES)

    with_own(engine, Plain(version="2")).evaluate()

    assert [("1", 1, True, 2), ("2", 1, False, 2)] == rows(engine, HISTORY)


def test_a_new_revision_supersedes_the_scores_of_the_old_one(stored: Stored) -> None:
    engine = stored("The Ritz.")
    commands = with_own(engine, Plain())
    commands.evaluate(cases=CASES)
    script = AgentRunScript(conversation_id="c0").ask("Which hotel?").answers("The Ritz.").ask("Sure?").answers("Yes.")
    feed(engine, *speak_genai(script, start_ns=NOON_NS + 60 * SECOND_NS).spans)

    commands.evaluate()

    (first, *_, last) = rows(engine, HISTORY)
    assert (("1", 1, True, 2), (2, False)) == (first, last[1:3])
    assert [(True,)] == rows(engine, "SELECT DISTINCT superseded FROM scores WHERE evaluator = 'core' AND revision = 1")
    assert [(False,)] == rows(
        engine, "SELECT DISTINCT superseded FROM scores WHERE evaluator = 'core' AND revision = 2"
    )


def test_a_new_revision_leaves_nothing_of_an_evaluator_that_is_not_run_any_more(stored: Stored) -> None:
    engine = stored("The Ritz.")
    with_own(engine, Plain()).evaluate(cases=CASES)
    script = AgentRunScript(conversation_id="c0").ask("Which hotel?").answers("The Ritz.").ask("Sure?").answers("Yes.")
    feed(engine, *speak_genai(script, start_ns=NOON_NS + 60 * SECOND_NS).spans)

    with_own(engine).evaluate()

    assert [("1", 1, True, 2)] == rows(engine, HISTORY)
    assert [] == rows(engine, "FROM v_metrics")


def test_another_truth_is_another_evaluation(stored: Stored) -> None:
    engine = stored("The Ritz.")
    commands = with_own(engine, Plain())
    commands.evaluate(cases=CASES)

    commands.evaluate(cases=[("cases.jsonl", CASES[0][1].replace("The Ritz", "The Savoy"))])

    assert [("1", 1, False, 2), ("1", 1, True, 2)] == rows(engine, HISTORY)
    assert [(False, 1), (True, 1)] == rows(
        engine,
        "SELECT superseded, count(DISTINCT evaluation_id) FROM scores WHERE evaluator = 'core' GROUP BY ALL ORDER BY ALL",
    )


def test_a_forced_core_score_leaves_evaluators_alone_that_are_not_run(stored: Stored) -> None:
    engine = stored("The Ritz.")
    with_own(engine, Plain()).evaluate(cases=CASES)
    before = rows(engine, NEWEST)

    with_own(engine).evaluate(force=True)

    assert before == rows(engine, NEWEST)


def test_exactly_the_chosen_metrics_are_reported_and_the_complete_evaluator_is_stored(stored: Stored) -> None:
    engine = stored("The Ritz.")
    other = Plain(name="width", metrics=(metric("width.characters"),), say=lambda _: [])

    done = with_own(engine, Plain(), other).evaluate(cases=CASES, metrics=["kind"])

    assert ["length.kind"] == [item["name"] for item in done["evaluators"]["metrics"]]
    assert [("length",)] == rows(engine, "SELECT DISTINCT evaluator FROM scores WHERE evaluator <> 'core'")


def test_an_unknown_metric_is_refused_before_anything_is_scored(stored: Stored) -> None:
    engine = stored("The Ritz.")

    with raises(UsageError, snapshot("no metric 'lenght'; allowed: default, all, none")):
        with_own(engine, Plain()).evaluate(cases=CASES, metrics=["lenght"])

    assert [] == rows(engine, CORE)


def test_an_evaluator_that_raises_is_counted_and_harms_no_other(stored: Stored) -> None:
    engine = stored("The Ritz.", "The Savoy.")

    done = with_own(engine, Plain(name="broken", metrics=(metric("broken.m"),), say=lambda _: 1 / 0), Plain()).evaluate(  # type: ignore[arg-type, return-value]
        cases=CASES
    )

    assert done["evaluators"]["faults"] == snapshot({"evaluator broken failed: ZeroDivisionError": 2})
    assert {"no_data": 2} == done["evaluators"]["metrics"][0]["not_evaluated"]
    assert [(2,)] == rows(engine, "SELECT count(*) FROM scores WHERE name = 'length.kind'")
    assert {"pass": 1, "fail": 1} == done["outcomes"]


def noting(recorded: list[Subject]) -> Callable[[Subject], list[MetricScore]]:
    """Return the function of an evaluator that only records its subjects."""

    def say(subject: Subject) -> list[MetricScore]:
        recorded.append(subject)
        return []

    return say


def test_a_draft_is_no_case(stored: Stored) -> None:
    engine = stored("The Ritz.")
    draft = CASES[0][1].replace('"turns"', '"reviewed": false, "turns"')
    recorded: list[Subject] = []

    with_own(engine, Plain(say=noting(recorded))).evaluate(cases=[("cases.jsonl", draft)])

    assert [(None, {})] == [(subject.case, subject.aligned) for subject in recorded]


def test_turns_are_aligned_as_scoring_aligns_them(engine: Engine) -> None:
    script = AgentRunScript(conversation_id="c0").ask("Hello?").answers("Yes?").ask("Which hotel?").answers("The Ritz.")
    feed(engine, *speak_genai(script, start_ns=NOON_NS).spans)
    case = json.dumps({"case_id": "hotel", "turns": [{"query": "Which hotel?", "answer": "The Ritz."}]})
    recorded: list[Subject] = []

    with_own(engine, Plain(say=noting(recorded))).evaluate(
        cases=[("cases.jsonl", case)], labels=[("labels.csv", "conversation_id,case_id\nc0,hotel\n")]
    )

    assert [{1: 0}] == [subject.aligned for subject in recorded]


# Judged ones


def verdict(label: str = "yes") -> Verdict:
    return Verdict(score=0.0, label=label, reasoning="because", model="judge-model", input_tokens=100, output_tokens=10)


class Rubrics(Streaming):
    """A judge of answers and rubrics; its questions are counted by the answer in the prompt."""

    kinds = frozenset({"answer", "rubric"})
    reads_threshold = False


def judge_replying(say: Callable[[str], Answer] = lambda _: verdict()) -> Rubrics:
    """Return a judge whose replies to rubrics depend on the answer in the prompt; other answers pass."""

    def reply(question: Question) -> Answer:
        if question.kind == "answer":
            return Verdict(score=1.0, reasoning="")
        return say(dict(question.material)["answer"])

    return Rubrics(reply)


def call_count(judge: Rubrics) -> int:
    return sum(judge.requests.values())


def test_a_metric_that_needs_a_model_is_refused_where_the_judge_asks_none(stored: Stored) -> None:
    engine = stored("The Ritz.")

    with pytest.raises(UsageError) as refused:
        with_own(engine, Asker()).evaluate(cases=CASES, metrics=["polite"])

    assert str(refused.value) == snapshot(
        "an LLM judge is needed for manners.polite, and judge 'exact' calls no model; pass --judge langchain:openai:gpt-5-mini, or choose other metrics"
    )
    assert [] == rows(engine, CORE)


def test_a_judged_metric_asks_once_and_its_verdicts_are_kept(stored: Stored) -> None:
    engine = stored("The Ritz.", "No!", "Well.")
    judge = judge_replying(lambda answer: verdict("no" if answer == "No!" else "yes"))
    commands = with_own(engine, Asker(), judge=judge)

    first = commands.evaluate(cases=CASES, metrics=["polite"])
    again = commands.evaluate(metrics=["polite"], force=True)

    assert (
        {"yes": 2, "no": 1}
        == first["evaluators"]["metrics"][0]["labels"]
        == again["evaluators"]["metrics"][0]["labels"]
    )
    assert (6, 0, 6) == (first["judge"]["calls"], again["judge"]["calls"], again["judge"]["cached"])
    assert [("c0", "yes"), ("c1", "no"), ("c2", "yes")] == rows(
        engine,
        "SELECT conversation_id, label FROM scores WHERE name = 'manners.polite' AND NOT superseded ORDER BY ALL",
    )


def test_a_judged_metric_catches_up_without_asking_about_answers_again(stored: Stored) -> None:
    engine = stored("The Ritz.", "No!")
    judge = judge_replying()
    with_own(engine, judge=judge).evaluate(cases=CASES)
    before = rows(engine, CORE)

    done = with_own(engine, Asker()).evaluate(metrics=["polite"])

    assert (0, 2, 2) == (done["scored"], done["evaluators"]["caught_up"], done["judge"]["calls"])
    assert before == rows(engine, CORE)
    assert 4 == call_count(judge)


def test_what_is_caught_up_sees_the_stored_score_even_where_verdicts_are_gone(stored: Stored) -> None:
    engine = stored("No!", "Well.")
    judge = judge_replying()
    with_own(engine, judge=judge).evaluate(cases=CASES)
    engine.store.write(lambda con: con.execute("DELETE FROM judge_calls"))
    recorded: list[Any] = []

    def look(subject: Subject) -> list[MetricScore]:
        assert subject.score is not None
        recorded.append((subject.score.outcome, [(turn.answer_score, turn.outcome) for turn in subject.score.turns]))
        return []

    with_own(engine, Plain(say=look)).evaluate()

    assert [("pass", [(1.0, "pass")])] * 2 == recorded
    assert 2 == call_count(judge)


@pytest.mark.parametrize("reason", ["judge_error", "budget_exhausted"])
def test_what_the_judge_left_open_is_asked_again_by_the_next_run(stored: Stored, reason: Any) -> None:
    engine = stored("The Ritz.", "No!")
    failure = JudgeFailure(reason=reason, message="not now", tries=int(reason == "judge_error"))
    judge = judge_replying(lambda answer: failure if answer == "No!" else verdict())
    commands = with_own(engine, Asker(), judge=judge)

    first = commands.evaluate(cases=CASES, metrics=["polite"])
    (result,) = first["evaluators"]["metrics"]
    assert (1, {"yes": 1}, {reason: 1}) == (result["n"], result["labels"], result["not_evaluated"])
    assert ({"pass": 2}, {}) == (first["outcomes"], first["evaluators"]["faults"])

    judge.say = judge_replying().say
    second = commands.evaluate(metrics=["polite"])

    assert (0, 1, 1) == (second["scored"], second["evaluators"]["caught_up"], second["judge"]["calls"])
    assert [("c0", "yes", None), ("c1", "yes", None)] == rows(
        engine, "SELECT conversation_id, label, reason FROM scores WHERE name = 'manners.polite' ORDER BY ALL"
    )
    assert 0 == commands.evaluate(metrics=["polite"])["evaluators"]["conversations"]


def test_a_stop_keeps_what_is_there_and_the_next_run_asks_the_rest(engine: Engine) -> None:
    tell(engine, *(f"answer {number}" for number in range(6)))
    questions: list[str] = []

    def say(answer: str) -> Answer:
        questions.append(answer)
        if len(questions) == 3:
            engine.stopping.set()
        return verdict()

    judge = judge_replying(say)
    judge.slots = 1
    commands = with_own(engine, Asker(), judge=judge)

    first = commands.evaluate(cases=CASES, metrics=["polite"])
    stored = rows(engine, "SELECT count(*) FROM scores WHERE name = 'manners.polite'")[0][0]
    engine.stopping.clear()
    second = commands.evaluate(metrics=["polite"])

    assert (True, False) == (first["stopped"], second["stopped"])
    assert 3 <= stored < 6
    assert (6 - stored, 0) == (second["scored"], second["evaluators"]["caught_up"])
    assert [(6, 6)] == rows(engine, "SELECT count(*), count(label) FROM scores WHERE name = 'manners.polite'")
    assert 6 == len(set(questions)) == len(questions)


def test_what_sampling_leaves_out_no_evaluator_looks_at(open_engine: OpenEngine) -> None:
    engine = open_engine(sampling={"ratio": 0.5})
    tell(engine, *(f"answer {number}" for number in range(12)))
    judge, plain = judge_replying(), Plain()
    commands = with_own(engine, Asker(), plain, judge=judge)

    done = commands.evaluate(cases=CASES, metrics=["all"])
    again = commands.evaluate(metrics=["all"])

    left = done["reasons"]["sampled_out"]
    assert 0 < left < 12
    assert 12 - left == done["evaluators"]["conversations"] == len(plain.known) == call_count(judge) / 2
    assert 0 == again["evaluators"]["conversations"]


def test_a_real_langchain_model_is_asked_with_the_rubric(stored: Stored) -> None:
    engine = stored("The Ritz.", "Go away!")

    def say(human: str, _: str) -> str:
        displayed = fields_of(human)
        if "expected_answer" in displayed or "expected" in displayed:
            return json.dumps({"reasoning": "It is so.", "score": 1.0})
        return json.dumps({"reasoning": "So it is.", "label": "no" if "Go away" in displayed["answer"] else "yes"})

    judge = LangChainJudge(Bare(say=say), JudgeSettings(tries=1, backoff_s=0.0))

    done = with_own(engine, Asker(), judge=judge).evaluate(cases=CASES, metrics=["polite"])

    assert {"yes": 1, "no": 1} == done["evaluators"]["metrics"][0]["labels"]
    assert [("c0", "yes", "So it is."), ("c1", "no", "So it is.")] == rows(
        engine, "SELECT conversation_id, label, explanation FROM scores WHERE name = 'manners.polite' ORDER BY ALL"
    )


def test_a_listener_receives_the_stored_scores_of_metrics(tmp_path: Path) -> None:
    questions: list[Measured] = []

    class Listener(EngineListener):
        def metrics_stored(self, batch: ScoredBatch, restated: Container[tuple[str, str, str]]) -> None:
            questions.extend(batch.measured(restated))

    with Engine(settings_for(tmp_path / "t.duckdb"), create=True, listener=Listener()) as engine:
        tell(engine, "The Ritz.")
        commands = with_own(engine, Plain())

        commands.evaluate(cases=CASES)
        commands.evaluate(force=True)

        first, second = questions
        assert (("length", "hotel", False), ("length", "hotel", True)) == tuple(
            (item.evaluator.name, item.case_id, item.restated) for item in questions
        )
        assert first.score_ids == second.score_ids
        assert {(score_id,) for score_id in first.score_ids} == set(
            rows(engine, "SELECT score_id FROM scores WHERE evaluator <> 'core'")
        )


def test_metrics_of_groups_are_not_stored(stored: Stored) -> None:
    engine = stored("The Ritz.")

    with_own(engine, Plain(), OfGroup()).evaluate(cases=CASES)

    assert [] == rows(engine, "SELECT * FROM scores WHERE name LIKE 'length.per%'")


def test_prices_and_what_an_evaluator_says_of_its_configuration_make_another_evaluation(
    open_engine: OpenEngine,
) -> None:
    engine = open_engine()
    tell(engine, "The Ritz.")
    priced = Plain(needs=frozenset({"answers", "prices"}))
    with_own(engine, priced, Plain(name="free", metrics=(metric("free.m"),), say=lambda _: [])).evaluate(cases=CASES)
    engine.close()

    other = open_engine(evaluators={"prices": {"m": {"input_usd": 1, "output_usd": 2}}})
    done = with_own(other, priced, Plain(name="free", metrics=(metric("free.m"),), say=lambda _: [])).evaluate()

    assert [("free", 1), ("length", 2)] == rows(
        other,
        "SELECT evaluator, count(DISTINCT evaluation_id) FROM scores WHERE evaluator <> 'core' GROUP BY ALL ORDER BY ALL",
    )
    assert 1 == done["evaluators"]["caught_up"]
    configured = replace(priced)
    configured.configuration = {"limit": 3}  # type: ignore[attr-defined]
    assert 1 == with_own(other, configured).evaluate()["evaluators"]["caught_up"]


def test_progress_tells_how_far_asking_is(stored: Stored) -> None:
    engine = stored("The Ritz.", "No!")
    reported: list[tuple[str, int, int | None]] = []
    with_own(engine, Asker(), Plain(), judge=judge_replying())

    Commands(engine, lambda *step: reported.append(step)).evaluate(cases=CASES, metrics=["all"])

    assert ("scoring", 2, 2) in reported
    assert ("asking for metrics", 2, 2) == reported[-1]
