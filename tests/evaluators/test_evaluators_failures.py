"""What counts as a failure: which scores, of what severity, and the faults of a conversation that failed."""

from __future__ import annotations

import re
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from otel_agentic.config import EvaluatorSettings, Settings, Severity, Threshold
from otel_agentic.errors import ConfigError
from otel_agentic.evaluators.agentest import AgentBehaviorFailure, ToolCallBehaviorFailure
from otel_agentic.evaluators.base import Metric, MetricScore
from otel_agentic.evaluators.failures import core_scores, failures_of
from otel_agentic.evaluators.registry import all_evaluators, metrics_by_name
from otel_agentic.evaluators.run import CORE_METRICS, SEVERITIES, Failure, FailureRules, at_least, threshold_of
from otel_agentic.judges import JudgeFailure, Verdict
from otel_agentic.testing import conversation, tool_call, turn
from tests.evaluators.failing import MOOD, TONE, WAIT, location, mood, rules, subjects
from tests.judges.parts import PlainJudge
from tests.snapshots import raises

if TYPE_CHECKING:
    from otel_agentic.conversations.model import Conversation, ToolCall

TRIP: dict[str, Any] = {
    "case_id": "trip",
    "turns": [
        {
            "query": "A room in Rome",
            "answer": "AB12",
            "tools": {"calls": [{"tool_name": "book", "parameters": {"city": "Rome"}}]},
        }
    ],
    "outputs": ["AB12"],
}


def talk(*calls: ToolCall, answer: str = "It is AB12.", **changes: Any) -> Conversation:
    fields = {"closed_by": "end_of_input", "case_id": "trip", **changes}
    return conversation(turn("A room in Rome", answer, *calls), **fields)


def book(city: str = "Rome", **fields: Any) -> ToolCall:
    return tool_call("book", {"city": city}, **fields)


def described(results: list[Failure]) -> list[tuple[str, str | None, str | None, str | None, Severity]]:
    return [(result.metric, result.label, result.tool_name, result.parameter, result.severity) for result in results]


def tone(value: float | None, **fields: Any) -> MetricScore:
    return MetricScore(name=TONE.name, value=value, **fields)


# Scores of metrics


@pytest.mark.parametrize(
    ("value", "fails"), [(1.0, True), (2.999, True), (3.0, False), (3.0 - 1e-12, False), (5.0, False)]
)
def test_a_value_fails_below_the_threshold_of_its_metric(value: float, *, fails: bool) -> None:
    assert fails == (rules().failure(location(), tone(value)) is not None)


def test_where_lower_is_better_a_value_fails_above_its_threshold() -> None:
    bounded = rules(thresholds={WAIT.name: {"max": 2.0}})
    results = [bounded.failure(location(), MetricScore(name=WAIT.name, value=value)) for value in (1.9, 2.0, 2.1)]
    assert [None, None, 2.1] == [result and result.value for result in results]


def test_without_a_threshold_no_value_is_a_failure() -> None:
    assert rules().failure(location(), MetricScore(name=WAIT.name, value=1e9)) is None


@pytest.mark.parametrize("name", ["house.talk.tone", "talk.tone", "tone"])
def test_the_settings_threshold_wins_by_any_name_of_the_metric(name: str) -> None:
    set_anew = rules(thresholds={name: {"min": 4.0, "max": 4.5}})
    assert Threshold(min=4.0, max=4.5) == set_anew.thresholds[TONE.name]
    assert [True, False, True] == [set_anew.failure(location(), tone(value)) is not None for value in (3.5, 4.2, 4.9)]


def test_the_more_exact_name_of_a_metric_wins() -> None:
    both = rules(
        thresholds={"house.talk.tone": {"min": 2}, "tone": {"min": 5}}, severities={"tone": "low", "talk.tone": "high"}
    )
    assert Threshold(min=2) == both.thresholds[TONE.name]
    assert "high" == both.severity(TONE.name)


def test_a_failing_label_is_a_failure_and_another_is_none() -> None:
    results = [rules().failure(location(), mood(label)) for label in MOOD.labels]
    assert [None, ("angry", "low"), ("furious", "high")] == [
        result and (result.label, result.severity) for result in results
    ]


def test_a_score_with_a_failing_label_and_a_bad_value_is_one_failure() -> None:
    bounded = rules(thresholds={"mood": {"min": 1}})
    (results,) = bounded.failures(location(), [mood("angry", value=0.0)])
    assert ("angry", 0.0, None) == (results.label, results.value, results.threshold)


def test_a_good_label_with_a_bad_value_fails_by_the_value() -> None:
    (results,) = rules(thresholds={"mood": {"min": 1}}).failures(location(), [mood("calm", value=0.0)])
    assert (None, 0.0, Threshold(min=1)) == (results.label, results.value, results.threshold)


def test_a_failure_names_its_location() -> None:
    score = mood("angry", turn_index=2, position=1, tool_name="book", parameter="city", explanation="it shouted")
    (results,) = rules().failures(location("c9"), [score])
    assert ("c9", 2, 1, "book", "city", "it shouted") == (
        results.location.conversation_id, results.turn_index, results.position, results.tool_name, results.parameter, results.explanation,
    )  # fmt: skip


@given(
    st.sampled_from(
        ["judge_error", "budget_exhausted", "sampled_out", "no_data", "content_not_captured", "unmatched", "incomplete"]
    )
)
def test_an_abstention_is_never_a_failure(reason: Any) -> None:
    strict = rules(thresholds={"tone": {"min": 5}, "wait": {"max": 0}, "mood": {"min": 1}})
    silent = [MetricScore(name=metric.name, reason=reason, explanation="angry") for metric in (TONE, WAIT, MOOD)]
    assert [] == strict.failures(location(), silent)


def test_a_score_of_a_metric_that_is_not_installed_is_no_failure() -> None:
    assert [] == rules().failures(location(), [MetricScore(name="gone.metric", value=0.0, label="angry")])


@pytest.mark.parametrize(
    ("severities", "expected"),
    [
        ({}, "high"),
        ({"mood": "medium"}, "medium"),
        ({"mood": "medium", "mood=furious": "critical"}, "critical"),
        ({"house.talk.mood=furious": "low", "mood=furious": "critical"}, "low"),
        ({"mood=angry": "critical"}, "high"),
    ],
)
def test_a_severity_is_that_of_the_settings_for_the_label_then_for_the_metric_then_the_built_in_one(
    severities: dict[str, str], expected: str
) -> None:
    assert expected == rules(severities=severities).severity(MOOD.name, "furious")


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"thresholds": {"tine": {"min": 1}}}, "evaluators.thresholds: 'tine' is not a metric"),
        ({"severities": {"tine": "low"}}, "evaluators.severities: 'tine' is not a metric"),
        ({"severities": {"mood=cross": "low"}}, "house.talk.mood has no label 'cross'; it has calm, angry, furious"),
        ({"severities": {"tone=cross": "low"}}, "house.talk.tone has no label 'cross'; it has none: it gives values"),
        ({"severities": {"=angry": "low"}}, "evaluators.severities: '' is not a metric"),
    ],
)
def test_a_setting_that_names_nothing_is_refused_with_what_is_allowed(settings: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError) as refused:
        rules(**settings)
    assert problem in str(refused.value)


def test_an_ambiguous_name_is_refused_with_its_candidates() -> None:
    other = replace(TONE, name="other.tone")
    with raises(ConfigError, snapshot("'tone' may mean house.talk.tone or other.tone")):
        FailureRules([TONE, other], EvaluatorSettings.model_validate({"thresholds": {"tone": {"min": 1}}}))


def test_severities_have_an_order() -> None:
    assert [(severity, two) for severity in SEVERITIES for two in SEVERITIES if at_least(severity, two)] == [
        (severity, two) for position, severity in enumerate(SEVERITIES) for two in SEVERITIES[: position + 1]
    ]


def test_a_metric_that_is_neither_better_high_nor_low_has_no_threshold_of_its_own() -> None:
    assert threshold_of(replace(TONE, higher_is_better=None)) is None


# Conversations that failed


def test_a_conversation_that_passed_has_no_failure_though_a_fault_stands_in_its_scores() -> None:
    (item,) = subjects([TRIP], [talk(book("Oslo"))], criteria=("answer",))
    assert item.score is not None
    assert ("pass", ["wrong_parameters"]) == (item.score.outcome, [fault.kind for fault in item.score.tools[0].faults])
    assert [] == failures_of(item, [], rules())


def test_each_tool_fault_of_a_failed_conversation_is_one_failure() -> None:
    (item,) = subjects([TRIP], [talk(book("Oslo"), tool_call("drop", {}))], criteria=("annotated",))
    assert [
        ("agentic.tool", "spurious", "drop", None, "high"),
        ("agentic.tool", "wrong_parameters", "book", "city", "high"),
    ] == sorted(described(failures_of(item, [], rules())))


def test_an_error_that_was_made_good_is_no_failure() -> None:
    broken = book(error="no room", result=None, result_captured=False)
    good, bad = subjects(
        [TRIP], [talk(broken, book(), answer="No idea."), talk(broken, answer="No idea.")], criteria=("annotated",)
    )
    assert [("agentic.answer", "wrong_answer", None, None, "high")] == described(failures_of(good, [], rules()))[:1]
    assert "errored" not in {failure.label for failure in failures_of(good, [], rules())}
    assert {"errored", "missing"} <= {failure.label for failure in failures_of(bad, [], rules())}


def test_the_explanation_of_a_wrong_answer_leaves_out_that_of_tools() -> None:
    (item,) = subjects([TRIP], [talk(book("Oslo"), answer="It is ZZ99.")], criteria=("annotated",))
    results = {failure.label: failure for failure in failures_of(item, [], rules())}
    assert {"wrong_answer", "wrong_parameters", "output_not_said"} == set(results)
    assert "city" in results["wrong_parameters"].explanation
    assert "city" not in results["wrong_answer"].explanation
    assert 0.0 <= (results["wrong_answer"].value or 0.0) < 0.7


def test_a_forbidden_answer_is_critical() -> None:
    case = {"case_id": "trip", "turns": [{"query": "A room in Rome", "not_answer": "AB12"}]}
    (item,) = subjects([case], [talk()])
    assert [("agentic.answer", "forbidden_answer", None, None, "critical")] == described(failures_of(item, [], rules()))


def test_each_missing_output_is_one_failure() -> None:
    case = {"case_id": "trip", "outputs": ["AB12", 4711, "CD34"]}
    (item,) = subjects([case], [talk()])
    assert [failure.explanation for failure in failures_of(item, [], rules())] == snapshot(
        ["no answer contains '4711'", "no answer contains 'CD34'"]
    )


def test_a_turn_that_never_came_is_missing_once_the_conversation_ended() -> None:
    case = {
        "case_id": "trip",
        "turns": [{"query": "A room in Rome", "answer": "AB12"}, {"query": "And a taxi?", "answer": "Yes"}],
    }
    ended, quiet = subjects(
        [case], [talk(closed_by="end_mark"), talk(answer="No.", closed_by="idle", conversation_id="quiet")]
    )
    assert [(failure.label, failure.explanation) for failure in failures_of(ended, [], rules())] == snapshot(
        [("missing_turn", "expected turn 2 (And a taxi?) never came")]
    )
    assert ["wrong_answer"] == [failure.label for failure in failures_of(quiet, [], rules())]


def test_a_turn_that_is_not_in_the_case_is_a_failure_where_turns_are_strict_and_no_wrong_answer() -> None:
    longer = conversation(
        turn("A room in Rome", "It is AB12.", book()), turn("Thanks", "Bye"), closed_by="end_of_input", case_id="trip"
    )
    (item,) = subjects([TRIP], [longer], strict_turns=True)
    assert [("agentic.conversation", "extra_turn", None, None, "medium")] == described(failures_of(item, [], rules()))


def test_a_given_verdict_is_a_failure_only_where_nothing_else_is_found_wrong() -> None:
    good, bad = talk(book()), talk(book("Oslo"), conversation_id="c2")
    item, two = subjects([TRIP], [good, bad], {"conversation-1": False, "c2": False}, criteria=("annotated",))
    assert [("agentic.conversation", "verdict", None, None, "high")] == described(failures_of(item, [], rules()))
    assert [("agentic.tool", "wrong_parameters", "book", "city", "high")] == described(failures_of(two, [], rules()))


def test_what_a_verdict_says_has_passed_has_no_failure() -> None:
    (item,) = subjects([TRIP], [talk(book("Oslo"), answer="No.")], {"conversation-1": True}, criteria=("annotated",))
    assert [] == failures_of(item, [], rules())


def test_nothing_fails_by_a_draft_but_by_the_verdict() -> None:
    draft = {**TRIP, "reviewed": False}
    silent, labelled = (
        subjects([draft], [talk(book("Oslo"))], labels, criteria=("annotated",))[0]
        for labels in ({}, {"conversation-1": False})
    )
    assert [] == failures_of(silent, [], rules())
    assert [("agentic.conversation", "verdict", None, None, "high")] == described(failures_of(labelled, [], rules()))


def test_a_conversation_without_a_score_has_no_failure_of_the_core() -> None:
    (item,) = subjects([{"case_id": "other"}], [conversation()])
    assert [] == core_scores(item)


def test_a_judge_that_fails_makes_no_failure() -> None:
    failing = PlainJudge(lambda _: JudgeFailure(reason="judge_error", message="wrong_answer"))
    (item,) = subjects([TRIP], [talk(book())], judge=failing)
    assert item.score is not None
    assert "not_evaluated" == item.score.outcome
    assert [] == failures_of(item, [], rules())


@given(
    cities=st.lists(st.sampled_from(["Rome", "Oslo", None]), max_size=3),
    right=st.booleans(),
    ended=st.booleans(),
    labelled=st.booleans(),
)
def test_a_failed_conversation_has_a_failure_and_another_has_none(
    cities: list[str | None], *, right: bool, ended: bool, labelled: bool
) -> None:
    calls = [tool_call("drop", {}) if city is None else book(city) for city in cities]
    actual = talk(*calls, answer="It is AB12." if right else "No.", closed_by="end_mark" if ended else "idle")
    verdicts = {"conversation-1": False} if labelled else {}
    judge = PlainJudge(lambda question: Verdict(score=float("AB12" in question.answer), reasoning="."))
    (item,) = subjects([TRIP], [actual], verdicts, judge, criteria=("annotated",))
    assert item.score is not None
    failures = failures_of(item, [], rules())
    assert (item.score.outcome == "fail") == bool(failures)
    assert {failure.metric for failure in failures} <= {metric.name for metric in CORE_METRICS}


# Statements of the guide


def test_the_guide_names_every_label_and_its_severity_and_its_settings_are_taken() -> None:
    guide = (Path(__file__).parents[2] / "docs" / "failures.md").read_text(encoding="utf-8")
    metrics = [*CORE_METRICS, *AgentBehaviorFailure.metrics, *ToolCallBehaviorFailure.metrics]
    built_in = FailureRules(all_metrics(), EvaluatorSettings())
    rows = {line.split("`")[1]: line for line in guide.splitlines() if line.startswith(("| `ag", "| `tool_call"))}
    for metric in metrics:
        row = rows[metric.name] if metric.name in rows else rows[metric.name.rpartition(".")[2]]
        for label in metric.failing:
            explanation = row.partition(f"`{label}`")[2]
            severity = next(
                (term for term in re.findall(r"\w+", re.sub(r"`\w+`", "", explanation)) if term in SEVERITIES), "high"
            )
            assert (metric.name, label, severity) == (metric.name, label, built_in.severity(metric.name, label))
    (block,) = re.findall(r"```toml\n(.*?)```", guide, re.DOTALL)
    settings = Settings.model_validate(tomllib.loads(block)).evaluators
    rules_again = FailureRules(all_metrics(), settings)
    assert "critical" == rules_again.severity("agentic.tool", "spurious")
    assert Threshold(min=3.5) == rules_again.thresholds["agentic.agentest.helpfulness"]


def all_metrics() -> list[Metric]:
    return list(metrics_by_name(all_evaluators(EvaluatorSettings())).values())
