"""Plans and arguments in free words: real LangChain models that reply by a script, over the real prompts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import pytest
from inline_snapshot import snapshot

from otel_agentic.config import JudgeSettings
from otel_agentic.evaluators.layers import ParametersJudged, PlanAdherenceJudged, PlanQualityJudged
from otel_agentic.judges.messages import messages
from otel_agentic.testing import conversation, tool_call, turn
from tests.evaluators.scripted import about, judged, made
from tests.judges.models import Bare, Structured, Tools
from tests.judges.test_judges_hostile import ATTACKS
from tests.snapshots import passage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from otel_agentic.evaluators.base import AskingEvaluator, Subject
    from otel_agentic.judges.base import Question

ALL: Final[tuple[type[AskingEvaluator], ...]] = (PlanQualityJudged, PlanAdherenceJudged, ParametersJudged)
CAP: Final = JudgeSettings().max_answer_characters
TODOS = tool_call("write_todos", {"todos": [{"content": "Look the booking up"}, {"content": "Cancel it"}]})
NOTE = {"tool_name": "note", "parameters": {"text": "The guest comes late", "room": 7}}


def noted(text: Any, room: Any = 7, **changes: Any) -> Subject:
    talk = conversation(turn("Tell them", "Done", tool_call("note", {"text": text, "room": room}), **changes))
    return about(talk, {"tools": {"calls": [NOTE]}})


def planned(**fields: Any) -> Subject:
    talk = conversation(
        turn("Cancel my trip", "Done", TODOS, tool_call("cancel", {})), tool_definitions={"cancel": None}
    )
    return about(talk, fields or None)


def test_the_quality_of_a_plan_is_judged_by_what_was_asked_and_what_is_known() -> None:
    (score,), ((rubric, shown),) = judged(PlanQualityJudged, planned(goal="No trip", plan=["cancel"]), 0.8)

    assert ("agentic.layers.plan_quality_judged", 0.8, "It is so.") == (score.name, score.value, score.explanation)
    assert "layers.plan_quality_judged" == rubric
    assert {"plan", "asked", "tools", "goal", "expected_plan"} == set(shown)
    assert {"turn": 1, "user": "Cancel my trip"} == json.loads(shown["asked"])
    assert passage(json.loads(shown["plan"])["plan"]) == snapshot("Look the booking up")
    # How the conversation ended is not shown: the plan is judged as it stood.
    assert "Done" not in json.dumps(shown)
    assert {"plan", "asked", "tools"} == set(judged(PlanQualityJudged, planned(), 0.8)[1][0][1])


def test_adherence_is_judged_by_the_plan_and_the_whole_conversation() -> None:
    (score,), ((rubric, shown),) = judged(PlanAdherenceJudged, planned(), 0.25)

    assert ("agentic.layers.plan_adherence_judged", 0.25) == (score.name, score.value)
    assert ("layers.plan_adherence_judged", {"plan", "conversation"}) == (rubric, set(shown))
    assert 4 == len(shown["conversation"].split("\n"))


@pytest.mark.parametrize("model", [Bare, Tools, Structured])
@pytest.mark.parametrize("kind", ALL)
def test_a_model_of_any_kind_can_be_asked(kind: type[AskingEvaluator], model: type[Bare]) -> None:
    subject = noted("Guest late") if kind is ParametersJudged else planned()
    assert 1.0 == judged(kind, subject, 1.0, model)[0][0].value


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("reply", ["no idea", 7.0, TimeoutError("slow")])
def test_a_judge_that_fails_says_nothing_of_the_agent(kind: type[AskingEvaluator], reply: Any) -> None:
    subject = noted("Guest late") if kind is ParametersJudged else planned()
    (score,), _ = judged(kind, subject, reply)
    assert (None, None, "judge_error") == (score.value, score.label, score.reason)


def test_without_a_plan_nobody_is_asked() -> None:
    for kind in (PlanQualityJudged, PlanAdherenceJudged):
        (score,), shown = judged(kind, about(conversation(turn("Hi", "Hello"))), 1.0)
        assert (None, "no_data", []) == (score.value, score.reason, shown)


def test_a_long_plan_is_cut_and_that_is_shown() -> None:
    turns = [turn("go", "ok", plans=("do this, then that " * 500,)) for _ in range(5)]
    _, ((_, shown),) = judged(PlanQualityJudged, about(conversation(*turns)), 1.0)
    lines = [json.loads(line) for line in shown["plan"].split("\n")]
    assert [1, 2, 3, None] == [line.get("turn") for line in lines]
    assert {5_500} == {line["characters_left_out"] for line in lines[:3]}
    assert lines[3] == snapshot({"left_out": "the plans of 2 later turns"})


def test_a_text_counts_as_far_as_the_same_is_meant() -> None:
    (score,), ((rubric, shown),) = judged(ParametersJudged, noted("Late arrival of the guest"), 0.9)

    # Two parameters, one of them equal: (1 + 0.9) / 2.
    assert pytest.approx(0.95) == score.value
    assert ("layers.parameter_semantics_judged", "note", "text") == (rubric, shown["tool"], shown["parameter"])
    assert (shown["expected"], shown["made"], shown["query"]) == snapshot(
        ("The guest comes late", "Late arrival of the guest", "Tell them")
    )
    assert score.explanation == snapshot("meant the same: note(text) 0.9")


@pytest.mark.parametrize(
    ("text", "room", "value"), [("The guest comes late", 7, 1.0), ("The guest comes late", 8, 0.5), (5, 7, 0.5)]
)
def test_only_texts_that_differ_are_asked_about(text: Any, room: Any, value: float) -> None:
    (score,), shown = judged(ParametersJudged, noted(text, room), 1.0)
    assert (value, []) == (score.value, shown)


def test_a_parameter_for_a_judge_and_a_missing_call_count_as_they_should() -> None:
    calls = [{**NOTE, "match": {"text": "judge"}}, {"tool_name": "pay"}]
    talk = conversation(turn("Tell them", "Done", tool_call("note", {"text": "Late", "room": 7})))
    (score,), shown = judged(ParametersJudged, about(talk, {"tools": {"calls": calls}}), 0.5)
    # The call that was made: (1 + 0.5) / 2; the one that was not: 0.
    assert (0.375, 1) == (score.value, len(shown))


@pytest.mark.parametrize(("expected", "made"), [(["late", "loud"], ["loud", "late"]), ("late", ["late"]), (5, 7)])
def test_what_the_case_leaves_to_a_judge_is_asked_about_whatever_it_is(expected: Any, made: Any) -> None:
    calls = [{"tool_name": "note", "parameters": {"text": expected}, "match": {"text": "judge"}}]
    talk = conversation(turn("Tell them", "Done", tool_call("note", {"text": made})))
    (score,), shown = judged(ParametersJudged, about(talk, {"tools": {"calls": calls}}), 0.25)
    assert (0.25, 1) == (score.value, len(shown))


def test_without_an_expectation_no_parameter_is_judged() -> None:
    unannotated: dict[str, Any] = {}
    for case in (None, unannotated):
        (score,), shown = judged(ParametersJudged, about(conversation(turn("Hi", "Hello")), case), 1.0)
        assert (None, []) == (score.value, shown)
        assert score.reason in {"unmatched", "no_data"}


PLACES: Final = ("query", "answer", "argument", "result", "plan", "tool", "expected", "goal")


def attacked(place: str, text: str) -> Subject:
    """Return a conversation with an attack in one place, and harmless texts in the others."""
    at = {**dict.fromkeys(PLACES, "Rome 7"), place: text}
    # Files of cases are refused where half a character stands in them.
    at |= {name: at[name].encode("utf-8", "replace").decode() for name in ("expected", "goal")}
    note = tool_call("note", {"text": f"no {at['argument']}"}, result=at["result"])
    steps = (at["plan"], f"{at['plan']}\n- {at['plan']}")
    talk = conversation(turn(at["query"], at["answer"], note, plans=steps), tool_definitions={at["tool"]: None})
    expected = {"calls": [{"tool_name": "note", "parameters": {"text": f"yes {at['expected']}"}}]}
    return about(talk, {"tools": expected, "goal": at["goal"] or "a room"})


def outside(question: Question) -> str:
    """Return all that a model is told of a question beside its material."""
    assert question.rubric is not None
    told = messages(question, question.rubric.instructions, "text", max_characters=CAP, nonce=lambda: "0123")
    system, human = (text for _, text in told)
    block, _, rest = human.partition("\n</data 0123>")
    assert block.startswith("<data 0123>\n{")
    assert 1 == block.count("\n")
    return system + rest


def questions(kind: type[AskingEvaluator], place: str, text: str) -> Iterator[Question]:
    yield from next(made(kind).ask(attacked(place, text)))


@pytest.mark.parametrize("kind", ALL)
def test_no_attack_changes_a_word_of_what_a_judge_is_told(kind: type[AskingEvaluator]) -> None:
    harmless = [outside(one) for one in questions(kind, "query", "Rome 7")]
    assert harmless
    for place in PLACES:
        for attack in ATTACKS:
            assert harmless == [outside(one) for one in questions(kind, place, attack.whole)], (attack.id, place)


def test_the_lines_of_a_plan_are_whole_json_whatever_stands_in_them() -> None:
    for attack in ATTACKS:
        (question,) = questions(PlanAdherenceJudged, "plan", attack.whole)
        for name, text in question.material:
            assert all(isinstance(json.loads(line), dict) for line in text.split("\n")), (attack.id, name)
