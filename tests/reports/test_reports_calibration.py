"""A judge compared with people: stored verdicts are used, missing ones are judged once, and the result is stored."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from inline_snapshot import snapshot

from otel_agentic.commands import Commands
from otel_agentic.config import ScoringSettings
from otel_agentic.errors import CaseError
from otel_agentic.judges import JudgeFailure, Question, Verdict
from otel_agentic.reports.calibration import of_conversation
from otel_agentic.scoring import MatchedConversation, score_conversations
from otel_agentic.store.judges import HumanVerdict
from otel_agentic.testing import NOON_NS, SECOND_NS, AgentRunScript, speak_genai
from otel_agentic.truth import CaseIndex, parse_cases
from tests.builders import feed, rows
from tests.judges.parts import Answer, PlainJudge
from tests.scoring.test_scoring_outcome import conversation, turn
from tests.snapshots import raises

if TYPE_CHECKING:
    from otel_agentic.engine.engine import Engine
    from tests.stores import CopyOf, OpenEngine, PreparedStore

CASE: dict[str, Any] = {
    "case_id": "trip",
    "turns": [{"query": "Which hotel?", "answer": "The Ritz."}, {"query": "Which train?", "answer": "The 9:15."}],
}
CASES = [("cases.jsonl", json.dumps(CASE))]


def tell(engine: Engine, name: str, *answers: str, environment: str | None = None, after_s: int = 0) -> None:
    """Store a conversation about a hotel and a train; an answer is the score that the judge gives it."""
    script = AgentRunScript(conversation_id=name, environment=environment)
    for query, answer in zip(("Which hotel?", "Which train?"), answers, strict=False):
        script = script.ask(query).answers(answer)
    feed(engine, speak_genai(script, start_ns=NOON_NS + (len(name) + after_s) * SECOND_NS))


def by_name(question: Question) -> Answer:
    if question.answer == "fails":
        return JudgeFailure(reason="judge_error", message="refused", tries=1)
    return Verdict(score=float(question.answer), reasoning=f"because {question.answer}", model="m-1")


@pytest.fixture
def judge() -> PlainJudge:
    return PlainJudge(by_name)


def judged_trips(engine: Engine) -> None:
    """Store three conversations that a judge scored: both turns right, one wrong, one that it failed on."""
    engine.runner.judge = PlainJudge(by_name)
    tell(engine, "a", "0.9", "1.0")
    tell(engine, "bb", "0.9", "0.2")
    tell(engine, "ccc", "0.9", "fails")
    Commands(engine).evaluate(cases=CASES, metrics=["none"])


@pytest.fixture
def engine(copy_of: CopyOf, prepared_store: PreparedStore, judge: PlainJudge) -> Engine:
    """An engine on a copy of these conversations, with a judge that was asked nothing yet."""
    engine = copy_of(prepared_store(judged_trips))
    engine.runner.judge = judge
    return engine


@pytest.fixture
def commands(engine: Engine) -> Commands:
    return Commands(engine)


def calibrated(commands: Commands, text: str, **options: Any) -> dict[str, Any]:
    calibration: dict[str, Any] = commands.judge_calibrate(labels=[("l.csv", text)], **options)
    return calibration


def test_turns_and_conversations_are_compared_each_with_its_own(commands: Commands) -> None:
    text = """conversation_id,turn,verdict
a,1,pass
a,2,fail
bb,2,fail
a,,pass
bb,,pass
"""
    calibration = calibrated(commands, text)

    assert {"both_pass": 1, "false_pass": 1, "false_fail": 0, "both_fail": 1} == calibration["turn"]["confusion"]
    assert {"both_pass": 1, "false_pass": 0, "false_fail": 1, "both_fail": 0} == calibration["conversation"][
        "confusion"
    ]
    rates = [calibration["turn"][name]["value"] for name in ("agreement", "sensitivity", "specificity")]
    assert rates == pytest.approx([2 / 3, 1.0, 0.5])
    assert [0.2, 0.9, 1.0] == [point["threshold"] for point in calibration["turn"]["curve"]]
    assert [0.2, 0.9] == [point["threshold"] for point in calibration["conversation"]["curve"]]


def test_a_disagreement_is_shown_with_all_that_a_person_needs(commands: Commands) -> None:
    (example,) = calibrated(commands, "conversation_id,turn,verdict\na,2,fail\n")["turn"]["examples"]

    assert ("a", 2, "Which train?", "The 9:15.", "1.0", 1.0, "pass", "fail") == tuple(
        example[name] for name in ("conversation_id", "turn", "query", "expected", "answer", "score", "judge", "human")
    )
    assert "because 1.0" in example["reasoning"]


def test_what_is_scored_is_asked_no_second_time_and_what_failed_is(commands: Commands, judge: PlainJudge) -> None:
    calibration = calibrated(commands, "conversation_id,turn,verdict\na,1,pass\nbb,2,fail\nccc,2,fail\nccc,1,pass\n")

    assert (1, {"judge_error": 1}) == (calibration["judged_now"], calibration["turn"]["not_judged"])
    assert {"fails": 1} == judge.requests  # every other verdict is remembered


def test_calibrating_another_judge_leaves_the_scores_in_force_alone(engine: Engine, commands: Commands) -> None:
    before = rows(engine, "SELECT * FROM conversation_scores ORDER BY ALL")
    engine.runner.judge = PlainJudge(by_name, version="2")
    engine.runner.remember([], [])  # sets the active evaluation again

    calibration = calibrated(commands, "conversation_id,verdict\na,pass\nbb,fail\n")

    assert (2, 3, 1.0) == (
        calibration["judged_now"],
        calibration["judge"]["calls"],
        calibration["conversation"]["agreement"]["value"],
    )
    assert before == rows(engine, "SELECT * FROM conversation_scores ORDER BY ALL")


def test_a_label_is_not_a_verdict_of_the_judge(commands: Commands) -> None:
    commands.evaluate(labels=[("given.csv", "conversation_id,verdict\na,fail\n")])
    calibration = calibrated(commands, "conversation_id,verdict\na,pass\n")

    assert 1 == calibration["conversation"]["confusion"]["both_pass"]


def test_an_answer_that_was_never_given_is_not_the_judges_doing(engine: Engine, commands: Commands) -> None:
    feed(engine, speak_genai(AgentRunScript(conversation_id="silent").ask("Which hotel?")))
    calibration = calibrated(commands, "conversation_id,turn,verdict\nsilent,1,fail\na,1,pass\n")

    assert 1 == calibration["turn"]["n"]
    assert 1 == sum(calibration["turn"]["not_judged"].values())


def test_labels_without_a_target_are_reported_and_the_others_count(commands: Commands) -> None:
    calibration = calibrated(commands, "conversation_id,turn,verdict\nzzz,,pass\na,7,pass\na,1,pass\n")

    assert 1 == calibration["turn"]["n"]
    assert calibration["warnings"][:2] == snapshot(
        [
            "1 label skipped (the store has no such conversation): zzz (l.csv:2)",
            "1 label skipped (the conversation has no such turn): a turn 7 (l.csv:3)",
        ]
    )


def test_an_id_of_two_environments_needs_the_environment(engine: Engine, commands: Commands) -> None:
    for hour, environment in enumerate(("staging", "production")):
        tell(engine, "twice", "0.9", "0.9", environment=environment, after_s=hour * 3600)

    with raises(CaseError, snapshot("l.csv:2: conversation 'twice' exists in environments 'production', 'staging'")):
        calibrated(commands, "conversation_id,verdict\ntwice,pass\n")
    calibration = calibrated(commands, "conversation_id,verdict,environment\ntwice,pass,staging\n")
    assert 1 == calibration["conversation"]["n"]


def test_a_bad_file_is_refused_whole_and_nothing_is_remembered(engine: Engine, commands: Commands) -> None:
    with raises(CaseError, snapshot("l.csv:3: verdict: found 'maybe'")):
        calibrated(commands, "conversation_id,verdict\na,pass\nbb,maybe\n")

    assert [(0,)] == rows(engine, "SELECT count(*) FROM human_verdicts")


def test_what_corrected_rates_need_is_stored(engine: Engine, commands: Commands) -> None:
    text = "conversation_id,turn,verdict\na,,pass\nbb,,pass\nbb,2,fail\n"
    calibration = calibrated(commands, text, random_sample=True)
    again = calibrated(commands, text.replace("bb,,pass", "bb,,fail"), random_sample=True)

    assert [("a", None, True, True), ("bb", 1, False, True), ("bb", None, False, True)] == rows(
        engine, "SELECT conversation_id, turn_index, verdict, random_sample FROM human_verdicts ORDER BY ALL"
    )
    assert [("a", True, "pass", 0.9, "trip"), ("bb", True, "fail", 0.2, "trip")] == rows(
        engine,
        "SELECT conversation_id, human, judge_outcome, judge_score, case_id FROM calibration_verdicts "
        "WHERE turn_index IS NULL AND calibration_id = $id ORDER BY ALL",
        {"id": calibration["calibration_id"]},
    )
    assert [("conversation", 0.5), ("conversation", 1.0), ("turn", 1.0), ("turn", 1.0)] == rows(
        engine, "SELECT target, agreement FROM judge_calibrations WHERE random_sample ORDER BY ALL"
    )
    assert calibration["calibration_id"] != again["calibration_id"]


def test_the_report_shows_the_agreement_of_the_judge_next_to_each_judged_rate(commands: Commands) -> None:
    before = commands.report(k=[1], estimator="plugin")["groups"][0]["judge"]
    calibrated(commands, "conversation_id,turn,verdict\na,1,pass\nbb,2,fail\na,,pass\nbb,,pass\n")
    (group,) = commands.report(k=[1], estimator="plugin")["groups"]
    judge = group["judge"]

    assert ("plain", "1", "m-1", 3, None) == tuple(
        before[name] for name in ("name", "version", "model", "conversations", "calibration")
    )
    assert (2, 1.0) == (judge["calibration"]["turn"]["n"], judge["calibration"]["turn"]["agreement"]["value"])
    assert (2, 0.5) == (
        judge["calibration"]["conversation"]["n"],
        judge["calibration"]["conversation"]["agreement"]["value"],
    )
    assert (True, False) == (judge["calibration"]["same_evaluation"], judge["calibration"]["random_sample"])


def test_a_calibration_under_other_cases_is_marked(engine: Engine, commands: Commands) -> None:
    calibrated(commands, "conversation_id,turn,verdict\na,1,pass\n")
    commands.evaluate(cases=[("cases.jsonl", json.dumps(CASE | {"tags": ["new"]}))])

    assert not commands.report(k=[1], estimator="plugin")["groups"][0]["judge"]["calibration"]["same_evaluation"]


def test_rates_without_judged_answers_name_no_judge(labelled_engine: Engine) -> None:
    groups = Commands(labelled_engine).report(k=[1], estimator="plugin")["groups"]
    assert {None} == {group["judge"] for group in groups}


@pytest.mark.slow  # of a few conversations: the other tests of this file
def test_the_conversations_of_tau_airline_agree_with_their_labels(
    copy_of: CopyOf, tau_file: Path, tau_truth: dict[str, Any]
) -> None:
    commands = Commands(copy_of(tau_file))
    commands.evaluate(cases=tau_truth["cases"])
    result = commands.judge_calibrate(labels=tau_truth["labels"])["conversation"]

    assert 200 == result["n"]
    assert result["agreement"]["value"] >= 198 / 200
    assert (
        result["kappa"]["lower"] > 0.85
    )  # few cases carry the disagreements, so the variance between cases is partly assumed


def test_cached_verdicts_and_spending_are_reported_and_can_be_cleared(commands: Commands, judge: PlainJudge) -> None:
    reported = commands.judge_cache()
    (row,) = [row for row in reported["judges"] if row["model"] == "m-1"]
    cleared = commands.judge_clear(judge="plain")
    again = commands.evaluate(force=True)

    assert ("plain", "1", 3, 3) == (row["judge"], row["judge_version"], row["verdicts"], row["calls"])
    assert (4, "24h", None) == (
        reported["budget"]["calls"],
        reported["budget"]["window"],
        reported["budget"]["max_calls"],
    )
    assert 4 == cleared["cleared"]
    assert (4, {"0.9": 1, "1.0": 1, "0.2": 1, "fails": 1}) == (again["judge"]["calls"], judge.requests)
    assert 8 == commands.judge_cache()["budget"]["calls"]


def test_the_judge_that_decided_is_named_with_what_no_judge_decided(open_engine: OpenEngine, judge: PlainJudge) -> None:
    engine = open_engine()
    engine.runner.judge = judge
    booked = {"tools": {"calls": [{"tool_name": "book"}]}}
    cases = [CASE, {"case_id": "flight", "turns": [{"query": "Book a flight", **booked}]}]
    tell(engine, "a", "0.9", "1.0")
    tell(engine, "bb", "0.9", "0.2")
    for name in ("no-call", "no-call-2"):
        feed(engine, speak_genai(AgentRunScript(conversation_id=name).ask("Book a flight").answers("done")))
    commands = Commands(engine)
    commands.evaluate(cases=[("cases.jsonl", "\n".join(map(json.dumps, cases)))])

    both = calibrated(commands, "conversation_id,verdict\na,pass\nbb,pass\nno-call,fail\nno-call-2,fail\n")
    alone = calibrated(commands, "conversation_id,verdict\nno-call,fail\n")

    assert [("plain", "1", 2, 0, 0.5), (None, None, 2, 0, 1.0)] == [
        (decider["judge"], decider["version"], decider["n"], decider["unsure"], decider["agreement"]["value"])
        for decider in both["conversation"]["deciders"]
    ]
    assert 0.75 == both["conversation"]["agreement"]["value"]
    assert [(None, 1)] == [(decider["judge"], decider["n"]) for decider in alone["conversation"]["deciders"]]
    assert [(1, 0), (4, 2)] == rows(engine, "SELECT n, judged FROM judge_calibrations ORDER BY n")
    assert [("a", True), ("bb", True), ("no-call", False), ("no-call-2", False)] == rows(
        engine,
        "SELECT conversation_id, judged FROM calibration_verdicts WHERE calibration_id = $id ORDER BY ALL",
        {"id": both["calibration_id"]},
    )


def test_a_judge_whose_scores_are_shown_meanwhile_is_named(engine: Engine, commands: Commands) -> None:
    engine.runner.judge = PlainJudge(by_name, version="2")
    engine.runner.remember([], [])

    calibration = calibrated(commands, "conversation_id,verdict\na,pass\nbb,fail\n")

    assert [("plain", "2")] == [
        (decider["judge"], decider["version"]) for decider in calibration["conversation"]["deciders"]
    ]
    assert any(
        "in reports, 2 of these conversations are judged by plain, version 1" in warning
        for warning in calibration["warnings"]
    )


@pytest.mark.parametrize(
    ("answers", "criterion", "is_judged"),
    [
        (("0.9", "0.9"), "answer", True),
        (("0.9", "0.2"), "answer", True),
        (("0.9", None), "answer", False),  # an answer that was never given is wrong without a judge
        (("0.2", None), "answer", True),
        (("0.9",), "tools", False),  # tools decide where they are annotated
    ],
)
def test_a_judge_decided_where_the_outcome_rests_on_its_verdict(
    *, answers: Sequence[str | None], criterion: str, is_judged: bool
) -> None:
    tools: dict[str, Any] = {"tools": {"calls": []}} if criterion == "tools" else {}
    requested = [{**turn, **tools} for turn in CASE["turns"][: len(answers)]]
    index = CaseIndex(parse_cases("d.jsonl", json.dumps({"case_id": "trip", "turns": requested})).require())
    dialogue = conversation(*(turn(entry["query"], answer) for entry, answer in zip(requested, answers, strict=True)))
    item = MatchedConversation(conversation=dialogue, match=index.match(dialogue))
    (score,) = score_conversations([item], judge=PlainJudge(by_name), settings=ScoringSettings(criteria=(criterion,)))
    verdict = HumanVerdict(
        environment="", conversation_id="c1", revision=1, turn_index=None, verdict=True, source="l.csv:2"
    )

    labelled = of_conversation(item, score, verdict, ("plain", "1"))

    assert labelled.judge == (("plain", "1") if is_judged else None)
