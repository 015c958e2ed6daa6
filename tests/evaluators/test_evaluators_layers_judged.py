"""Plans and arguments in free words: real LangChain models that reply by a script, over the real prompts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import pytest
from inline_snapshot import snapshot

from otel_agentic.config import JudgeSettings
from otel_agentic.evaluators.layers import ParametersJudged, PlanAdherenceJudged, PlanQualityJudged
from otel_agentic.judges.base import Question, Verdict, metric_of
from otel_agentic.testing import conversation, tool_call, turn
from tests.evaluators.running import evaluate
from tests.evaluators.scripted import about, default_evaluator, scores_and_questions
from tests.judges.models import Bare, Structured, Tools
from tests.judges.test_judges_hostile import ATTACKS
from tests.snapshots import passage

if TYPE_CHECKING:
    from otel_agentic.evaluators.base import AskingEvaluator, Subject

ALL: Final[tuple[type[AskingEvaluator], ...]] = (PlanQualityJudged, PlanAdherenceJudged, ParametersJudged)
CAP: Final = JudgeSettings().max_answer_characters
TODOS = tool_call("write_todos", {"todos": [{"content": "Look the booking up"}, {"content": "Cancel it"}]})
NOTE = {"tool_name": "note", "parameters": {"text": "The guest comes late", "room": 7}}


def noted(text: Any, room: Any = 7, **changes: Any) -> Subject:
    talk = conversation(turn("Inform them", "Done", tool_call("note", {"text": text, "room": room}), **changes))
    return about(talk, {"tools": {"calls": [NOTE]}})


def planned(**fields: Any) -> Subject:
    talk = conversation(
        turn("Cancel my trip", "Done", TODOS, tool_call("cancel", {})), tool_definitions={"cancel": None}
    )
    return about(talk, fields or None)


def test_the_quality_of_a_plan_is_judged_by_what_was_asked_and_what_is_known() -> None:
    (score,), ((rubric, visible),) = scores_and_questions(
        PlanQualityJudged, planned(goal="No trip", plan=["cancel"]), 0.8
    )

    assert ("agentic.layers.plan_quality_judged", 0.8, "It is so.") == (score.name, score.value, score.explanation)
    assert "layers.plan_quality_judged" == rubric
    assert {"plan", "asked", "tools", "goal", "expected_plan"} == set(visible)
    assert [{"turn": 1, "user": "Cancel my trip"}] == visible["asked"]
    assert passage(visible["plan"][0]["plan"]) == snapshot("Look the booking up")
    # How the conversation ended is not shown: the plan is judged on its own.
    assert "Done" not in json.dumps(visible)
    assert {"plan", "asked", "tools"} == set(scores_and_questions(PlanQualityJudged, planned(), 0.8)[1][0][1])


def test_adherence_is_judged_by_the_plan_and_the_whole_conversation() -> None:
    (score,), ((rubric, visible),) = scores_and_questions(PlanAdherenceJudged, planned(), 0.25)

    assert ("agentic.layers.plan_adherence_judged", 0.25) == (score.name, score.value)
    assert ("layers.plan_adherence_judged", {"plan", "turn"}) == (rubric, set(visible))
    assert 4 == len(visible["turn"])


@pytest.mark.parametrize("model", [Bare, Tools, Structured])
@pytest.mark.parametrize("kind", ALL)
def test_a_model_of_any_kind_can_be_asked(kind: type[AskingEvaluator], model: type[Bare]) -> None:
    subject = noted("Guest late") if kind is ParametersJudged else planned()
    assert 1.0 == scores_and_questions(kind, subject, 1.0, model)[0][0].value


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("reply", ["no idea", 7.0, TimeoutError("slow")])
def test_a_judge_that_fails_says_nothing_of_the_agent(kind: type[AskingEvaluator], reply: Any) -> None:
    subject = noted("Guest late") if kind is ParametersJudged else planned()
    (score,), _ = scores_and_questions(kind, subject, reply)
    assert (None, None, "judge_error") == (score.value, score.label, score.reason)


def test_without_a_plan_no_judge_is_asked() -> None:
    for kind in (PlanQualityJudged, PlanAdherenceJudged):
        (score,), visible = scores_and_questions(kind, about(conversation(turn("Hi", "Hello"))), 1.0)
        assert (None, "no_data", []) == (score.value, score.reason, visible)


INTENTION: Final = "I look the booking up, and if it can be cancelled, I cancel it."
STEPS: Final = ["look the booking up", "cancel it if it can be cancelled"]


def intending(*texts: str) -> Subject:
    return about(conversation(turn("Cancel my trip", "Done", tool_call("cancel", {}), reasoning=texts)))


def test_the_judge_extracts_a_plan_from_free_text_before_it_grades_it() -> None:
    def reply(name: str, _: Any) -> Any:
        return STEPS if name == "layers.plan_steps" else 0.75

    for kind in (PlanQualityJudged, PlanAdherenceJudged):
        (score,), ((first, requested), (second, visible)) = scores_and_questions(
            kind, intending(INTENTION, "Now."), reply
        )
        assert (0.75, {"extracted_plan": STEPS}) == (score.value, score.details)
        assert ("layers.plan_steps", kind.name) == (first, second)
        assert [{"turn": 1, "text": INTENTION}, {"turn": 1, "text": "Now."}] == requested["written"]
        (line,) = visible["plan"]
        assert {"turn": 1, "plan": STEPS} == {**line, "plan": json.loads(line["plan"])}


def test_the_plan_is_extracted_once_for_both_metrics() -> None:
    questions: list[str] = []

    def ask(requested: Sequence[Question]) -> Iterator[tuple[int, Verdict]]:
        for number, question in enumerate(requested):
            questions.append(metric_of(question))
            yield number, Verdict(score=0.5, reasoning=".", texts=tuple(STEPS))

    evaluators = [default_evaluator(kind) for kind in (PlanQualityJudged, PlanAdherenceJudged)]
    assert [0.5, 0.5] == [
        score.value for ran in evaluate(evaluators, [intending(INTENTION)], ask) for score in ran.scores
    ]
    assert ["layers.plan_adherence_judged", "layers.plan_quality_judged", "layers.plan_steps"] == sorted(questions)


@pytest.mark.parametrize("texts", [[], ["cancel the trip"]])
def test_a_conversation_without_a_plan_of_several_steps_has_no_score(texts: list[str]) -> None:
    (score,), requested = scores_and_questions(PlanQualityJudged, intending("I cancel the trip."), texts)
    assert (None, "no_data", 1) == (score.value, score.reason, len(requested))


def test_a_plan_that_could_not_be_extracted_is_an_error_of_the_judge() -> None:
    (score,), _ = scores_and_questions(PlanAdherenceJudged, intending(INTENTION), "no idea")
    assert (None, "judge_error") == (score.value, score.reason)


def test_a_long_plan_is_cut_and_that_is_shown() -> None:
    turns = [turn("go", "ok", plans=("do this, then that " * 500,)) for _ in range(5)]
    _, ((_, visible),) = scores_and_questions(PlanQualityJudged, about(conversation(*turns)), 1.0)
    lines = visible["plan"]
    assert [1, 2, 3, None] == [line.get("turn") for line in lines]
    assert {5_500} == {line["characters_left_out"] for line in lines[:3]}
    assert lines[3] == snapshot({"left_out": 2})


def test_a_text_counts_as_far_as_the_same_is_meant() -> None:
    (score,), ((rubric, visible),) = scores_and_questions(ParametersJudged, noted("Late arrival of the guest"), 0.9)

    # Two parameters, one of them equal: (1 + 0.9) / 2.
    assert pytest.approx(0.95) == score.value
    assert ("layers.parameter_semantics_judged", "note", "text") == (rubric, visible["tool"], visible["parameter"])
    assert (visible["expected"], visible["made"], visible["query"]) == snapshot(
        ("The guest comes late", "Late arrival of the guest", "Inform them")
    )
    assert score.explanation == snapshot("meant the same: note(text) 0.9")


@pytest.mark.parametrize(
    ("text", "room", "value"), [("The guest comes late", 7, 1.0), ("The guest comes late", 8, 0.5), (5, 7, 0.5)]
)
def test_only_texts_that_differ_are_asked_about(text: Any, room: Any, value: float) -> None:
    (score,), visible = scores_and_questions(ParametersJudged, noted(text, room), 1.0)
    assert (value, []) == (score.value, visible)


def test_a_parameter_for_a_judge_and_a_missing_call_count_as_they_should() -> None:
    calls = [{**NOTE, "match": {"text": "judge"}}, {"tool_name": "pay"}]
    talk = conversation(turn("Inform them", "Done", tool_call("note", {"text": "Late", "room": 7})))
    (score,), visible = scores_and_questions(ParametersJudged, about(talk, {"tools": {"calls": calls}}), 0.5)
    # The call that was made: (1 + 0.5) / 2; the one that was not: 0.
    assert (0.375, 1) == (score.value, len(visible))


@pytest.mark.parametrize(("expected", "actual"), [(["late", "loud"], ["loud", "late"]), ("late", ["late"]), (5, 7)])
def test_a_parameter_that_the_case_leaves_to_a_judge_is_asked_about_for_every_type(expected: Any, actual: Any) -> None:
    calls = [{"tool_name": "note", "parameters": {"text": expected}, "match": {"text": "judge"}}]
    talk = conversation(turn("Inform them", "Done", tool_call("note", {"text": actual})))
    (score,), visible = scores_and_questions(ParametersJudged, about(talk, {"tools": {"calls": calls}}), 0.25)
    assert (0.25, 1) == (score.value, len(visible))


def test_without_an_expectation_no_parameter_is_judged() -> None:
    unannotated: dict[str, Any] = {}
    for case in (None, unannotated):
        (score,), visible = scores_and_questions(ParametersJudged, about(conversation(turn("Hi", "Hello")), case), 1.0)
        assert (None, []) == (score.value, visible)
        assert score.reason in {"unmatched", "no_data"}


def test_each_line_of_a_plan_is_complete_json() -> None:
    for attack in ATTACKS:
        note = tool_call("note", {"text": "no"})
        talk = conversation(
            turn("Rome 7", "Rome 7", note, plans=(attack.full_text, f"{attack.full_text}\n- {attack.full_text}"))
        )
        (question,) = next(default_evaluator(PlanAdherenceJudged).ask(about(talk)))
        for name, text in question.material:
            assert all(isinstance(json.loads(line), dict) for line in text.split("\n")), (attack.id, name)
