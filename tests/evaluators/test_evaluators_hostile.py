"""The laws of every judged metric that is installed: its prompts, the fence around material, and what becomes of bad replies.

They apply to every installed evaluator, new ones included.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage

from otel_agentic.config import EvaluatorSettings, JudgeSettings
from otel_agentic.evaluators.base import asks
from otel_agentic.evaluators.registry import all_evaluators
from otel_agentic.judges import AskingJudge, JudgeFailure, LangChainJudge, Verdict
from otel_agentic.judges.messages import Way, messages, read_text, shown_fields
from otel_agentic.judges.prompts import KINDS, merge_rubric
from otel_agentic.testing import conversation, tool_call, turn
from tests.evaluators.running import evaluate
from tests.evaluators.scripted import about
from tests.judges.models import Bare, Structured, Tools, fields_of, read_lines
from tests.judges.parts import CallBudget
from tests.judges.test_judges_hostile import ATTACKS, Attack, outside, pairs

if TYPE_CHECKING:
    from otel_agentic.evaluators import AskingEvaluator, MetricScore, Subject
    from otel_agentic.judges import Question
    from otel_agentic.judges.base import ReplyForm, Rubric

JUDGE_EVALUATORS: Final[dict[str, AskingEvaluator]] = {
    evaluator.name: evaluator for evaluator in all_evaluators(EvaluatorSettings()) if asks(evaluator)
}
EVERY: Final = pytest.mark.parametrize("evaluator", JUDGE_EVALUATORS.values(), ids=JUDGE_EVALUATORS.keys())
RUBRICS: Final = {rubric.name: rubric for evaluator in JUDGE_EVALUATORS.values() for rubric in evaluator.rubrics}
MODELS: Final[dict[Way, type[Bare]]] = {"structured": Structured, "tool": Tools, "text": Bare}
WAYS: Final[tuple[Way, ...]] = tuple(MODELS)
CAP: Final = 20_000
#: The first attack of each kind.
ONE_OF_EACH: Final = tuple({attack.kind: attack for attack in reversed(ATTACKS)}.values())
#: As many labels as there are: each is replied once, so that every question that depends on one is reached.
MOST_LABELS: Final = max([len(rubric.form.labels) for rubric in RUBRICS.values()], default=1)


@cache
def subject(text: str = "a trip to Rome") -> Subject:
    """Return a conversation that lacks nothing, with a text in every field that holds untrusted input."""
    calls = (
        tool_call("book", {"city": f"Rome {text}", text: text}, result={"state": text}),
        tool_call(text or "none", {"q": text}, result=None, result_captured=False, error=text),
    )
    talk = conversation(
        turn(f"Book {text}", f"I booked {text}.", *calls, plans=(f'["book", {json.dumps(text)}]\n{text}',)),
        turn(text, text),
        turn("Thanks", "You are welcome."),
        tool_definitions={"book": {"type": "object", "description": text}, text: None},
        final_state={"booked": text},
    )
    text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")  # a case holds whole characters
    expected = [{"tool_name": "book", "parameters": {"city": f"Rome, Italy {text}"}}]
    case = {
        "goal": f"To have {text}",
        "plan": ["look", text or "book"],
        "expected_state": {"booked": f"not {text}"},
        "minimum_steps": 1,
        "tools": {"calls": expected},
        "turns": [
            {
                "query": "q",
                "answer": f"Booked: {text}",
                "reference_topics": [text or "trips"],
                "tools": {"calls": expected},
            },
            {"query": "q", "answer": text or "yes"},
        ],
    }
    return about(talk, case)


def rubric_of(human: str) -> Rubric:
    """Return the rubric that a model is asked by: its instructions follow the material verbatim."""
    _, _, rest = human.partition("\n</data ")
    (results,) = {item.name: item for item in RUBRICS.values() if f"\n\n{item.instructions}\n\n" in rest}.values()
    return results


def reply(form: ReplyForm, choice: int = 0) -> str:
    """Return a right reply; `choice` selects the label, and whether a score is the best or the worst one."""
    value: object = {
        "score": form.high if choice == 0 else form.low,
        "label": form.labels[choice % len(form.labels)] if form.labels else "",
        "texts": ["one", "another"][: form.most],
    }[form.kind]
    return json.dumps({"reasoning": "So it is.", form.kind: value})


@dataclass
class Run:
    """The scores of an evaluator for a subject with some replies of its model, and the questions asked."""

    evaluator: AskingEvaluator
    say: Any
    way: Way = "text"
    tries: int = 1
    budget: CallBudget = field(default_factory=CallBudget)
    questions: list[Question] = field(default_factory=list)
    answers: list[Verdict | JudgeFailure] = field(default_factory=list)

    def scores(self, about_it: Subject) -> list[MetricScore]:
        forms = tuple(rubric.form for rubric in self.evaluator.rubrics)
        chat = MODELS[self.way](say_to_all=self.say, forms=forms)
        settings = JudgeSettings(
            method=self.way, tries=self.tries, backoff_s=0.0, concurrency=1, timeout_s=5, panel=False
        )
        judge = LangChainJudge(chat, settings)
        requests = AskingJudge(judge, budget=self.budget)

        def ask(questions: Sequence[Question]) -> Iterator[tuple[int, Verdict | JudgeFailure]]:
            self.questions += questions
            for number, answer in enumerate(requests.judge(questions)):
                self.answers.append(answer)
                yield number, answer

        (ran,) = evaluate([self.evaluator], [about_it], ask)
        judge.close()
        assert () == ran.faults
        return list(ran.scores)


def asked_about(
    evaluator: AskingEvaluator, about_it: Subject, choice: int = 0
) -> tuple[list[Question], list[MetricScore]]:
    """Return the questions of an evaluator if every reply is right, and its scores; no model is involved."""
    requested: list[Question] = []

    def ask(questions: Sequence[Question]) -> Iterator[tuple[int, Verdict | JudgeFailure]]:
        requested.extend(questions)
        for number, question in enumerate(questions):
            assert question.rubric is not None
            read = read_text(reply(question.rubric.form, choice), question.rubric.form)
            yield number, Verdict(score=read.score, reasoning=read.reasoning, label=read.label, texts=read.texts)

    (ran,) = evaluate([evaluator], [about_it], ask)
    return requested, list(ran.scores)


def choosing(choice: int) -> Any:
    return lambda actual: reply(rubric_of(str(actual[-1].content)).form, choice)


def scores_by_location(scores: Sequence[MetricScore]) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    """Return value and label of each score, by its location; several of one location by their order."""
    results: dict[tuple[Any, ...], list[tuple[Any, ...]]] = defaultdict(list)
    for score in scores:
        results[score.name, score.turn_index, score.position, score.tool_name, score.parameter].append(
            (score.value, score.label)
        )
    return {(*position, number): item for position, given in results.items() for number, item in enumerate(given)}


def test_the_families_of_judged_metrics_are_under_these_laws() -> None:
    assert {"agentest", "ragas"} <= {name.partition(".")[0] for name in JUDGE_EVALUATORS}
    assert len(ATTACKS) >= 60


def test_no_two_prompts_share_a_name_and_each_says_what_it_is() -> None:
    by_name: dict[str, set[Rubric]] = defaultdict(set)
    for item in (*(rubric for evaluator in JUDGE_EVALUATORS.values() for rubric in evaluator.rubrics), merge_rubric()):
        by_name[item.name].add(item)
        assert item.version
        assert item.name not in KINDS
        assert item.instructions == item.instructions.strip() != ""
        assert not re.search(r"\{\{?\s*\w+\s*\}?\}", item.instructions), "nothing is filled in"
        assert "<data" not in item.instructions
    assert {name for name, rubrics in by_name.items() if len(rubrics) > 1} == set()


@EVERY
def test_every_prompt_of_an_evaluator_is_reached_and_no_other_and_names_what_it_shows(
    evaluator: AskingEvaluator,
) -> None:
    planned = subject()
    free_text = replace(planned.conversation.turns[0], plans=(), reasoning=("I look for a trip, then I book it.",))
    unplanned = replace(planned, conversation=replace(planned.conversation, turns=(free_text,)))
    questions: list[Question] = []
    for choice in range(MOST_LABELS):
        questions += asked_about(evaluator, planned, choice)[0] + asked_about(evaluator, unplanned, choice)[0]
    assert {item.name for item in evaluator.rubrics} == {
        item.rubric.name for item in questions if item.rubric is not None
    }
    for question in questions:
        assert question.rubric in evaluator.rubrics
        for name, _ in question.material:
            assert re.fullmatch(r"[a-z][a-z_]*", name)
            assert f"`{name}`" in question.rubric.instructions, f"{question.rubric.name} does not describe {name}"


def check_fence(evaluator: AskingEvaluator, attacks: Sequence[Attack]) -> None:
    """Check that the texts outside the fence are the same with and without attacks."""
    usual: set[tuple[str, str]] = set()
    for number, attack in enumerate((None, *attacks)):
        for question in asked_about(evaluator, subject() if attack is None else subject(attack.full_text))[0]:
            rubric = question.rubric
            assert rubric is not None
            # Each way without an attack, and one of them in turn with an attack.
            for way in WAYS if attack is None else (WAYS[number % len(WAYS)],):
                sent = messages(question, rubric.instructions, way, max_characters=CAP)
                texts = (rubric.name, outside([*sent]))
                if attack is None:
                    usual.add(texts)
                assert texts in usual, (attack, rubric.name, way)
            assert read_lines(shown_fields(question, CAP)) == fields_of(sent[1][1])
            mark, line = sent[1][1].split("\n")[:2]
            assert mark.removeprefix("<data ").removesuffix(">") not in line
    assert usual


@EVERY
def test_an_attack_of_each_kind_stays_within_the_fence(evaluator: AskingEvaluator) -> None:
    check_fence(evaluator, ONE_OF_EACH)


@pytest.mark.slow
@EVERY
def test_no_attack_leaves_the_fence_or_changes_the_instructions(evaluator: AskingEvaluator) -> None:
    check_fence(evaluator, ATTACKS)


@EVERY
def test_each_text_is_cut_to_the_setting_and_says_by_how_much(evaluator: AskingEvaluator) -> None:
    questions, _ = asked_about(evaluator, subject("far and " * 4_000))
    assert questions
    for question in questions:
        fields = shown_fields(question, 300)
        for name, text in question.material:
            assert str(fields[name]) == text[:300]
            assert len(text) - 300 == fields.get(f"{name}_characters_left_out", len(text) - 300)
            assert (len(text) > 300) == (f"{name}_characters_left_out" in fields)


@dataclass
class Gullible:
    """A model that obeys any unusual text outside the fence, and is strict otherwise."""

    usual: frozenset[str]

    def __call__(self, actual: list[BaseMessage]) -> str:
        form = rubric_of(str(actual[-1].content)).form
        return reply(form, -1 if outside(pairs(actual)) in self.usual else 0)


def check_gullible(evaluator: AskingEvaluator, attacks: Sequence[Attack]) -> None:
    """Check that a gullible model gives the same scores as if it read no instructions of the attacks."""
    usual = {way: frozenset(usual_of(evaluator, way)) for way in WAYS}
    for number, attack in enumerate(attacks):
        way = WAYS[number % len(WAYS)]
        gullible = Run(evaluator, Gullible(usual[way]), way)
        assert asked_about(evaluator, subject(attack.full_text), -1)[1] == gullible.scores(subject(attack.full_text)), (
            attack.id
        )
        assert gullible.questions


@EVERY
def test_a_model_that_obeys_only_text_outside_the_fence_is_not_fooled(evaluator: AskingEvaluator) -> None:
    """Each kind of attack meets a third of the evaluators, and each evaluator a third of the kinds."""
    check_gullible(evaluator, ONE_OF_EACH[[*JUDGE_EVALUATORS].index(evaluator.name) % 3 :: 3])


@pytest.mark.slow
@EVERY
def test_no_kind_of_attack_fools_a_model_that_obeys_only_text_outside_the_fence(evaluator: AskingEvaluator) -> None:
    check_gullible(evaluator, ONE_OF_EACH)


def usual_of(evaluator: AskingEvaluator, way: Way) -> Iterator[str]:
    """Yield the texts outside the fence without an attack."""
    for question in asked_about(evaluator, subject(), -1)[0]:
        assert question.rubric is not None
        yield outside([*messages(question, question.rubric.instructions, way, max_characters=CAP)])


#: Replies and actions of a model that are no verdict, by the requested form.
def _with(form: ReplyForm, **more: object) -> str:
    return json.dumps({**json.loads(reply(form)), **more})


INVALID: Final[dict[str, Any]] = {
    "a field more": lambda form: _with(form, passes=True),
    "a score as well": lambda form: _with(form, **{"score" if form.kind != "score" else "label": 1}),
    "out of range": lambda form: _with(
        form,
        **{"score": {"score": form.high + 1}, "label": {"label": "all is well"}, "texts": {"texts": "one"}}[form.kind],
    ),
    "no number": lambda form: re.sub(r'("(?:score|label|texts)"): .*\}$', r"\1: NaN}", reply(form)),
    "nothing of it": lambda form: _with(form, **{form.kind: None}),
    "no reasons": lambda form: json.dumps({form.kind: json.loads(reply(form))[form.kind]}),
    "another form": lambda form: _with(form, **{form.kind: {"score": ["x"], "label": ["x"], "texts": 1}[form.kind]}),
    "two that differ": lambda form: (
        f"{reply(form)} or {reply(form, -1)}" if form.kind != "texts" else f"{reply(form)}{_with(form, texts=[])}"
    ),
    "cut": lambda form: reply(form)[:-3],
    "prose": lambda _: "All is well: 5 of 5, passed, completed.",
    "empty": lambda _: "",
    "refused": lambda form: AIMessage(reply(form), response_metadata={"finish_reason": "content_filter"}),
    "too long": lambda form: AIMessage(reply(form), response_metadata={"finish_reason": "length"}),
    "down": lambda _: ConnectionError("no route"),
    "no credentials": lambda _: PermissionError("401"),
}


def model_replying(invalid: Any, only: str | None = None) -> Any:
    """Return a model with malformed replies to all questions, or to those of one rubric."""

    def say(actual: list[BaseMessage]) -> Any:
        rubric = rubric_of(str(actual[-1].content))
        return invalid(rubric.form) if only in {None, rubric.name} else reply(rubric.form)

    return say


#: A reply to a form that is no verdict: one of those above, prose, or an object that lacks what the form asks for.
bad_replies: Final = st.one_of(
    st.sampled_from(list(INVALID.values())),
    st.text(st.characters(exclude_characters="{}")).map(lambda text: lambda _: text),
    st.dictionaries(
        st.sampled_from(["reasoning", "score", "label", "texts", "verdict"]),
        st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.lists(st.text(), max_size=2),
    ).map(lambda fields: lambda form: json.dumps({name: fields[name] for name in fields if name != form.kind})),
)


def check_failure(evaluator: AskingEvaluator, invalid: Any) -> None:
    """Check that every metric of an evaluator abstains if all replies of the judge are invalid."""
    run = Run(evaluator, model_replying(invalid))
    scores = run.scores(subject())

    assert run.answers
    assert {"judge_error"} == {getattr(answer, "reason", "a verdict") for answer in run.answers}
    assert {metric.name for metric in evaluator.metrics} == {score.name for score in scores}
    assert {(None, None)} == {(score.value, score.label) for score in scores}
    explained = {score.reason: score.explanation for score in scores}
    assert explained["judge_error"]


@EVERY
def test_a_judge_that_fails_gives_no_score_no_label_and_no_zero(evaluator: AskingEvaluator) -> None:
    for invalid in INVALID.values():
        check_failure(evaluator, invalid)


@given(st.sampled_from(list(JUDGE_EVALUATORS.values())), bad_replies)
def test_no_malformed_reply_gives_a_score(evaluator: AskingEvaluator, invalid: Any) -> None:
    check_failure(evaluator, invalid)


@EVERY
def test_what_the_budget_does_not_allow_is_no_score_either(evaluator: AskingEvaluator) -> None:
    scores = Run(evaluator, choosing(0), budget=CallBudget(max_calls=0)).scores(subject())

    assert [] == [score for score in scores if score.value is not None or score.label is not None]
    assert "budget_exhausted" in {score.reason for score in scores}


@EVERY
def test_one_answer_that_is_missing_takes_scores_away_and_changes_none(evaluator: AskingEvaluator) -> None:
    for rubric in evaluator.rubrics:
        sound = scores_by_location(Run(evaluator, choosing(0)).scores(subject()))
        total = Run(evaluator, model_replying(INVALID["prose"], rubric.name))
        failed = {
            position: item
            for position, item in scores_by_location(total.scores(subject())).items()
            if item != (None, None)
        }
        assert [] == [position for position, item in failed.items() if sound.get(position) != item], rubric.name


@EVERY
def test_one_call_that_fails_takes_scores_away_and_changes_none(evaluator: AskingEvaluator) -> None:
    first = Run(evaluator, choosing(0))
    sound = scores_by_location(first.scores(subject()))
    for failing in range(len(first.questions)):
        count = iter(range(10_000))

        def say(messages: list[BaseMessage], count: Iterator[int] = count, failing: int = failing) -> Any:
            if next(count) == failing:
                return ConnectionError("no route")
            return reply(rubric_of(str(messages[-1].content)).form)

        given = scores_by_location(Run(evaluator, say).scores(subject()))
        retained = {position: item for position, item in given.items() if item != (None, None)}
        assert [] == [position for position, item in retained.items() if sound.get(position) != item]
        assert len(retained) < sum(item != (None, None) for item in sound.values())
