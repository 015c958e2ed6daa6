"""Agentest's metrics over real prompts and a real chat model: values, labels, the material shown, and abstentions."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

import pytest
from inline_snapshot import snapshot

from otel_agentic.config import EvaluatorSettings, JudgeSettings
from otel_agentic.evaluators.agentest import (
    AgentBehaviorFailure,
    Coherence,
    Faithfulness,
    GoalCompletion,
    Helpfulness,
    Relevance,
    ToolCallBehaviorFailure,
    Verbosity,
)
from otel_agentic.evaluators.base import AskingEvaluator, MetricScore
from otel_agentic.evaluators.registry import all_evaluators
from otel_agentic.evaluators.run import FailureRules
from otel_agentic.judges.panels import panel_key
from otel_agentic.testing import conversation, tool_call, turn
from tests.evaluators.failing import location
from tests.evaluators.scripted import Talker, about, default_evaluator, scores_and_questions
from tests.judges.models import Bare, Structured, Tools
from tests.snapshots import passage

if TYPE_CHECKING:
    from otel_agentic.conversations.model import Conversation

SCALES: Final = (Helpfulness, Coherence, Relevance, Faithfulness, Verbosity)
ALL: Final = (*SCALES, GoalCompletion, AgentBehaviorFailure, ToolCallBehaviorFailure)
MODELS: Final = [Bare, Tools, Structured]
BOOK: Final = {"tool_name": "book", "parameters": {"city": "Rome"}}
CALL, MISSING = "agentest.tool_call", "agentest.missing_tool_call"


def trip(*calls: Any, **changes: Any) -> Conversation:
    """Return three turns, the second of which makes calls: the first and the last make none."""
    return conversation(
        turn("Hi, I am Anna", "Hello Anna"),
        turn("Book a room in Rome for 2 nights", "Booked: AB12.", *calls),
        turn("Thanks", "You are welcome."),
        **changes,
    )


def described(scores: list[MetricScore]) -> list[tuple[Any, ...]]:
    return [
        (score.turn_index, score.position, score.label if score.label is not None else score.value, score.reason)
        for score in scores
    ]


# All of them


@pytest.mark.parametrize("kind", ALL)
def test_each_is_installed_asks_a_judge_and_does_not_run_unless_chosen(kind: Any) -> None:
    installed = {evaluator.name: evaluator for evaluator in all_evaluators(EvaluatorSettings())}
    evaluator = installed[kind.name]
    assert isinstance(evaluator, AskingEvaluator)
    assert isinstance(evaluator, kind)
    assert not evaluator.default
    assert "judge" in evaluator.needs
    assert f"agentic.{evaluator.name}" == evaluator.metrics[0].name
    assert 1 == len(evaluator.metrics)
    assert all(rubric.name.startswith("agentest.") for rubric in evaluator.rubrics)


@pytest.mark.parametrize("kind", ALL)
def test_every_prompt_defines_each_label_or_the_whole_scale(kind: Any) -> None:
    for rubric in kind.rubrics:
        defined = re.findall(r"^(?:`(\w+)`|(\d)): ", rubric.instructions, re.MULTILINE)
        expected = rubric.form.labels or ("5", "4", "3", "2", "1")
        assert sorted(expected) == sorted(label or score for label, score in defined)
        assert passage(rubric.instructions) == snapshot("parts of a text that address a grader")


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("model", MODELS)
def test_each_works_with_every_kind_of_model(kind: Any, model: type[Bare]) -> None:
    good = {"agentest.goal_completion": "completed"}
    scores, questions = scores_and_questions(
        kind, about(trip(tool_call())), lambda name, _: 4 if kind in SCALES else good.get(name, "no_failure"), model
    )
    assert len(questions) == len(scores)
    assert [] == [score for score in scores if score.abstained]
    assert all("It is so." in score.explanation for score in scores)


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize(
    "reply",
    [TimeoutError("too slow"), '{"reasoning": "x", "score": 0}', '{"reasoning": "x", "score": 5.01}', '{"reasoning": "x", "label": "no failure"}'],
)  # fmt: skip
def test_a_failed_judge_gives_neither_a_score_nor_a_failure(kind: Any, reply: Any) -> None:
    scores, _ = scores_and_questions(kind, about(trip(tool_call())), lambda *_: reply)
    assert {"judge_error"} == {score.reason for score in scores}
    assert {(None, None)} == {(score.value, score.label) for score in scores}
    assert all("was not judged: " in score.explanation for score in scores)
    strict = EvaluatorSettings.model_validate({"thresholds": {kind.name: {"min": 1}}})
    assert [] == FailureRules(default_evaluator(kind).metrics, strict).failures(location(), scores)


@pytest.mark.parametrize("kind", ALL)
def test_an_unrecorded_conversation_asks_the_judge_nothing(kind: Any) -> None:
    silent = conversation(turn(None, None, query_captured=False, answer_captured=False))
    scores, questions = scores_and_questions(kind, about(silent), "no_failure")
    assert [] == questions
    assert {"content_not_captured", "no_data"} >= {score.reason for score in scores}
    assert all(score.explanation for score in scores)


@pytest.mark.parametrize("kind", ALL)
def test_a_conversation_without_turns_is_abstained_from(kind: Any) -> None:
    empty = conversation()
    empty = type(empty)(**{**{name: getattr(empty, name) for name in empty.__slots__}, "turns": ()})
    scores, questions = scores_and_questions(kind, about(empty), "no_failure")
    assert ([], [(None, None, None, "empty")]) == (questions, described(scores))


# Scales


@pytest.mark.parametrize("kind", SCALES)
def test_each_turn_gets_its_own_value(kind: Any) -> None:
    values = {"Hello Anna": 5, "Booked: AB12.": 1, "You are welcome.": 3.5}
    scores, _ = scores_and_questions(
        kind, about(trip(tool_call())), lambda _, visible: values[visible["turn"][-1]["agent"]]
    )
    assert [(0, None, 5.0, None), (1, None, 1.0, None), (2, None, 3.5, None)] == described(scores)
    assert [score.explanation for score in scores] == snapshot(
        ["turn 1: It is so.", "turn 2: It is so.", "turn 3: It is so."]
    )


@pytest.mark.parametrize("kind", SCALES)
def test_a_turn_without_an_answer_has_no_value_and_the_others_do(kind: Any) -> None:
    talk = conversation(
        turn("One?", None), turn("Two?", "2"), turn("Three?", None, answer_captured=False), turn(None, "Four")
    )
    scores, questions = scores_and_questions(kind, about(talk, {"goal": "count"}), 4)
    expected_reasons = ["no_data", None, "content_not_captured", "no_data"]
    assert expected_reasons == [score.reason for score in scores]
    assert expected_reasons.count(None) == len(questions)
    assert scores[0].explanation == snapshot("turn 1 has no answer")


def test_a_judge_is_shown_the_turn_what_came_before_it_and_the_goal() -> None:
    _, questions = scores_and_questions(
        Helpfulness, about(trip(tool_call("book", {"city": "Rome"})), {"goal": "a room in Rome"}), 4
    )
    first, second = questions[0][1], questions[1][1]
    assert {"goal", "turn"} == set(first)
    assert {"goal", "turn", "earlier"} == set(second)
    assert ["user", "call", "agent"] == [[*line][1] for line in second["turn"]]
    assert ["user", "agent"] == [[*line][1] for line in second["earlier"]]
    assert second["goal"] == snapshot("a room in Rome")


def test_the_explanation_states_that_a_long_conversation_was_shortened() -> None:
    long = conversation(*(turn(f"Question {number}? " + "x" * 900, "y" * 900) for number in range(60)))
    scores, questions = scores_and_questions(Coherence, about(long), 4)
    last = questions[-1][1]
    assert "29" == last["earlier_turns_left_out"]
    assert all(len(json.dumps(text)) < JudgeSettings().max_answer_characters for text in last.values())
    assert passage(scores[-1].explanation) == snapshot("(the judge saw a shortened conversation")
    assert "(the judge saw" not in scores[0].explanation


@pytest.mark.parametrize(
    ("talk", "reasons"),
    [
        (conversation(turn("What is the capital of France?", "Paris")), ["no_data"]),
        (conversation(turn("I am 41", "You are 41")), [None]),
        (conversation(turn("Hi", "Hello"), turn("Which?", "The Ritz", tool_call())), [None, None]),
        (conversation(turn("Hi", "Done"), tool_definitions={"book": None}), [None]),
        (conversation(turn("Hi", "Hello"), tool_definitions={}), ["no_data"]),
        (conversation(turn("Which?", "Ritz", tool_call(result=None, result_captured=False))), ["content_not_captured"]),
        (conversation(turn("Which?", "Ritz", tool_call(result=None, result_captured=False, error="down"))), [None]),
        (conversation(turn("Hi", "Hello"), turn("At 10:30", "At 11:30"), turn("No", "Sorry")), ["no_data", None, None]),
    ],
)
def test_faithfulness_is_judged_where_there_is_something_to_be_faithful_to(
    talk: Conversation, reasons: list[str | None]
) -> None:
    scores, questions = scores_and_questions(Faithfulness, about(talk), 5)
    assert reasons == [score.reason for score in scores]
    assert reasons.count(None) == len(questions)


# The goal


@pytest.mark.parametrize(("label", "value"), [("completed", 1.0), ("not_completed", 0.0)])
def test_goal_completion_is_one_or_nought_for_the_conversation(label: str, value: float) -> None:
    ((score,), questions) = scores_and_questions(GoalCompletion, about(trip(tool_call())), label)
    assert (label, value, None, {"goal": "user"}) == (score.label, score.value, score.turn_index, score.details)
    assert [{"earlier", "turn"}] == [set(visible) for _, visible in questions]
    assert [1, 1, 2, 2, 2, 3, 3] == [line["turn"] for name in ("earlier", "turn") for line in questions[0][1][name]]


def test_the_goal_of_the_case_goes_before_the_words_of_the_user() -> None:
    ((score,), questions) = scores_and_questions(
        GoalCompletion, about(trip(), {"goal": "a room in Rome, 2 nights"}), "completed"
    )
    assert (score.details, questions[0][1]["goal"]) == snapshot(({"goal": "case"}, "a room in Rome, 2 nights"))


def test_a_goal_that_was_not_reached_is_a_failure() -> None:
    (scores, _) = scores_and_questions(GoalCompletion, about(trip()), "not_completed")
    (results,) = FailureRules(GoalCompletion.metrics, EvaluatorSettings()).failures(location(), scores)
    assert ("not_completed", "high", 0.0) == (results.label, results.severity, results.value)


# Failures of behaviour


def test_the_labels_are_those_of_agentest() -> None:
    behaviour, calls = AgentBehaviorFailure.metrics[0], ToolCallBehaviorFailure.metrics[0]
    assert (
        "no_failure", "repetition", "failure_to_ask_for_clarification", "lack_of_specific_information", "disobey_user_request",
        "false_information", "unsafe_action", "unsafe_state",
    ) == behaviour.labels  # fmt: skip
    assert {
        "no_failure", "unnecessary_tool_call", "wrong_tool", "wrong_arguments", "ignored_tool_result", "missing_tool_call",
        "repeated_tool_call",
    } == set(calls.labels)  # fmt: skip
    assert (8, 7) == (len(behaviour.labels), len(calls.labels))
    for metric in (behaviour, calls):
        assert set(metric.labels) - {"no_failure"} == metric.failing == set(metric.severities)


def test_the_classifier_of_behaviour_looks_at_turns_without_calls_too() -> None:
    scores, questions = scores_and_questions(
        AgentBehaviorFailure,
        about(trip(tool_call())),
        lambda _, material: "no_failure" if any("call" in line for line in material["turn"]) else "false_information",
    )
    assert [
        (0, None, "false_information", None), (1, None, "no_failure", None), (2, None, "false_information", None),
    ] == described(scores)  # fmt: skip
    assert 3 == len(questions)
    failures = FailureRules(AgentBehaviorFailure.metrics, EvaluatorSettings()).failures(location(), scores)
    assert [(0, "false_information", "high"), (2, "false_information", "high")] == [
        (failure.turn_index, failure.label, failure.severity) for failure in failures
    ]


@pytest.mark.parametrize("label", AgentBehaviorFailure.metrics[0].labels)
def test_labels_of_behaviour_are_read_in_any_case(label: str) -> None:
    scores, _ = scores_and_questions(AgentBehaviorFailure, about(conversation()), f" {label.upper()}\n")
    assert [label] == [score.label for score in scores]


def test_a_turn_with_calls_and_without_an_answer_is_classified() -> None:
    scores, _ = scores_and_questions(
        AgentBehaviorFailure, about(conversation(turn("Delete it", None, tool_call("delete")))), "unsafe_action"
    )
    (results,) = FailureRules(AgentBehaviorFailure.metrics, EvaluatorSettings()).failures(location(), scores)
    assert ("unsafe_action", "critical") == (results.label, results.severity)


# Failures of tool use


def test_each_call_gets_a_label_and_each_turn_one_for_what_is_missing() -> None:
    talk = trip(tool_call("find", {"city": "Rome"}), tool_call("book", {"city": "Oslo"}))
    labels = {"turn 2, 1 of 2: find": "unnecessary_tool_call", "turn 2, 2 of 2: book": "wrong_arguments"}
    scores, _ = scores_and_questions(
        ToolCallBehaviorFailure,
        about(talk),
        lambda name, material: labels[material["call"]] if name == CALL else "no_failure",
    )
    assert [
        (0, None, "no_failure", None),
        (1, 0, "unnecessary_tool_call", None),
        (1, 1, "wrong_arguments", None),
        (1, None, "no_failure", None),
        (2, None, "no_failure", None),
    ] == described(scores)
    assert [None, "find", "book", None, None] == [score.tool_name for score in scores]
    assert scores[2].explanation == snapshot("turn 2, call 2 (book): It is so.")


TURN_EXPECTS: Final = {"turns": [{"query": "Book a room", "tools": {"calls": [BOOK]}}]}
WHOLE_EXPECTS: Final = {"tools": {"calls": [BOOK], "alternatives": [{"calls": [{"tool_name": "reserve"}]}]}}


@pytest.mark.parametrize(
    ("talk", "case", "asked_about"),
    [
        (conversation(turn("Book a room", "Booked.")), TURN_EXPECTS, [0]),
        (conversation(turn("Book a room", "Booked.")), WHOLE_EXPECTS, [0]),
        (conversation(turn("Book a room", "Booked."), tool_definitions={"book": None}), None, [0]),
        (conversation(turn("Find one", "Ritz", tool_call()), turn("Book it", "Booked.")), None, [0, 1]),
        (conversation(turn("Book a room", "Booked.")), None, []),
        (conversation(turn("Book a room", "Booked.")), {"tools": {"calls": []}}, []),
        (conversation(turn("Book a room", "Booked.")), {"tools": {"calls": [{**BOOK, "required": False}]}}, []),
        (conversation(turn("Book a room", "Booked."), tool_definitions={}), None, []),
        (conversation(turn("Hi", "Hello"), turn("Book a room", "Booked.")), {"turns": [{"query": "Hi"}, *TURN_EXPECTS["turns"]]}, [1]),
    ],
)  # fmt: skip
def test_a_turn_without_calls_is_asked_about_where_a_call_could_be_due(
    talk: Conversation, case: dict[str, Any] | None, asked_about: list[int]
) -> None:
    scores, _ = scores_and_questions(
        ToolCallBehaviorFailure,
        about(talk, case),
        lambda name, _: "missing_tool_call" if name == MISSING else "no_failure",
    )
    turns = [item for item in scores if item.position is None]
    assert asked_about == [item.turn_index for item in turns if item.label == "missing_tool_call"]
    assert {"no_data"} >= {item.reason for item in turns if item.abstained}
    failures = FailureRules(ToolCallBehaviorFailure.metrics, EvaluatorSettings()).failures(location(), scores)
    assert [(index, "missing_tool_call", "high") for index in asked_about] == [
        (item.turn_index, item.label, item.severity) for item in failures
    ]


def test_the_judge_is_shown_what_is_expected_what_tools_there_are_and_the_conversation() -> None:
    schema = {"type": "object", "properties": {"city": {"type": "string"}}}
    talk = conversation(
        turn("A room", "Which city?"),
        turn("Rome", "Booked.", tool_call("book", {"city": "Rome"}), tool_call("pay", error="declined")),
        tool_definitions={"book": schema, "pay": None},
    )
    _, questions = scores_and_questions(
        ToolCallBehaviorFailure, about(talk, {**TURN_EXPECTS, **WHOLE_EXPECTS}), lambda *_: "no_failure"
    )
    name, visible = questions[0]
    assert (MISSING, "1") == (name, visible["judged_turn"])
    assert [{"tool": "book", "parameters": schema}, {"tool": "pay", "parameters": None}] == visible["tools"]
    assert [
        (item["tool"], item["expected"], item.get("alternative")) for item in visible["expected"]
    ] == snapshot([("book", "in turn 1", None), ("book", "somewhere in the conversation", 1), ("reserve", "somewhere in the conversation", 2)])  # fmt: skip
    shared = [{name: visible[name] for name in ("earlier", "turn", "tools", "expected")} for _, visible in questions]
    assert [shared[0]] * 4 == shared
    assert [2, 2, 2, 2] == [line["turn"] for line in visible["turn"]]


def test_a_turn_of_a_long_conversation_is_shown_with_what_came_before_it_and_the_names_of_later_calls() -> None:
    talk = conversation(
        *(turn(f"A room {number}", "x" * 3_900, tool_call("find", {"n": number})) for number in range(4)),
        turn("Rome", "Booked.", tool_call("book", {"city": "Rome"}), tool_call("pay", error="declined")),
    )
    expected = {"turns": [{"query": f"A room {number}", "tools": {"calls": [BOOK]}} for number in range(4)]}
    _, questions = scores_and_questions(ToolCallBehaviorFailure, about(talk, expected), lambda *_: "no_failure")
    missing = {visible["judged_turn"]: visible for name, visible in questions if name == MISSING}
    assert {"1", "2", "3", "4", "5"} == missing.keys()
    assert [{"turn": 4, "calls": ["find"]}, {"turn": 5, "calls": ["book"]}] == missing["3"]["called_later"]
    assert {3} == {line["turn"] for line in missing["3"]["turn"]}
    assert {1, 2} == {line["turn"] for line in missing["3"]["earlier"]}
    assert ["in turn 3"] == [item["expected"] for item in missing["3"]["expected"]]
    assert "called_later" not in missing["5"]
    assert all("called_later" not in visible for name, visible in questions if name == CALL)


def test_the_questions_of_all_turns_share_one_panel() -> None:
    talk = trip(tool_call("book", {"city": "Rome"}))
    panels = {
        panel_key(question)
        for kind in (ToolCallBehaviorFailure, GoalCompletion)
        for question in next(default_evaluator(kind).ask(about(talk)))
    }
    last = [*next(default_evaluator(Helpfulness).ask(about(talk)))][-1]
    assert {panel_key(last)} == panels


def test_definitions_of_any_size_and_shape_are_shown_within_bounds() -> None:
    wild: dict[Any, Any] = {
        f"tool_{number:04}": {"properties": {f"p{position}": {"description": "x" * 99} for position in range(9)}}
        for number in range(500)
    }
    wild |= {
        "a": None,
        "b": [],
        "c": {"properties": "no"},
        "d" * 9999: {1: object()},
        "e": {"properties": {1: 2}, "x": "y" * 999},
    }
    _, questions = scores_and_questions(
        ToolCallBehaviorFailure, about(conversation(tool_definitions=wild)), "no_failure"
    )
    visible = questions[0][1]["tools"]
    assert len(json.dumps(visible)) < JudgeSettings().max_answer_characters
    assert "left_out" in visible[-1]


def test_equal_questions_about_equal_turns_are_the_same_question() -> None:
    talker = Talker(Helpfulness.rubrics, 4)
    same = [about(conversation(conversation_id=name)) for name in ("one", "two")]
    first, second = (next(default_evaluator(Helpfulness).ask(subject)) for subject in same)
    assert first == second
    assert 2 == len(talker.scores(Helpfulness, *same))
    assert 1 == len(talker.questions)
