"""The laws of every judged metric that is installed: its prompts, the fence around material, and what becomes of bad replies.

They are of the general kind: a new evaluator is under them as soon as it is installed.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage

from otel_agentic.config import EvaluatorSettings, JudgeSettings
from otel_agentic.evaluators.registry import all_evaluators, asks
from otel_agentic.evaluators.run import evaluate
from otel_agentic.judges import AskingJudge, JudgeFailure, LangChainJudge, Verdict
from otel_agentic.judges.messages import messages, read_text, shown_fields
from otel_agentic.judges.prompts import KINDS, merge_rubric
from otel_agentic.testing import conversation, tool_call, turn
from tests.evaluators.scripted import about
from tests.judges.models import Bare, Structured, Tools, fields_of
from tests.judges.parts import Purse
from tests.judges.test_judges_hostile import ATTACKS, outside, pairs

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from langchain_core.messages import BaseMessage

    from otel_agentic.evaluators import AskingEvaluator, MetricScore, Subject
    from otel_agentic.judges import Question
    from otel_agentic.judges.base import ReplyForm, Rubric
    from otel_agentic.judges.messages import Way

JUDGED: Final[dict[str, AskingEvaluator]] = {one.name: one for one in all_evaluators(EvaluatorSettings()) if asks(one)}
EVERY: Final = pytest.mark.parametrize("evaluator", JUDGED.values(), ids=JUDGED.keys())
RUBRICS: Final = {rubric.name: rubric for one in JUDGED.values() for rubric in one.rubrics}
MODELS: Final[dict[Way, type[Bare]]] = {"structured": Structured, "tool": Tools, "text": Bare}
WAYS: Final[tuple[Way, ...]] = tuple(MODELS)
CAP: Final = 20_000
#: The first attack of each kind.
ONE_OF_EACH: Final = tuple({attack.kind: attack for attack in reversed(ATTACKS)}.values())
#: As many labels as there are: each is said once, so that every question is reached that hangs on one.
MOST_LABELS: Final = max([len(rubric.form.labels) for rubric in RUBRICS.values()], default=1)


def subject(text: str = "a trip to Rome") -> Subject:
    """Return a conversation that lacks nothing, with a text in every place that a stranger may fill."""
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
    """Return the rubric that a model is asked by: its instructions stand behind the material, word for word."""
    _, _, rest = human.partition("\n</data ")
    (found,) = {one.name: one for one in RUBRICS.values() if f"\n\n{one.instructions}\n\n" in rest}.values()
    return found


def reply(form: ReplyForm, choice: int = 0) -> str:
    """Return a right reply; `choice` says which label, and whether a score is the best or the worst one."""
    value: object = {
        "score": form.high if choice == 0 else form.low,
        "label": form.labels[choice % len(form.labels)] if form.labels else "",
        "texts": ["one", "another"][: form.most],
    }[form.kind]
    return json.dumps({"reasoning": "So it is.", form.kind: value})


@dataclass
class Run:
    """What an evaluator says of a subject where its model replies in some way, and what was asked meanwhile."""

    evaluator: AskingEvaluator
    say: Any
    way: Way = "text"
    tries: int = 1
    budget: Purse = field(default_factory=Purse)
    questions: list[Question] = field(default_factory=list)
    answers: list[Verdict | JudgeFailure] = field(default_factory=list)

    def scores(self, about_it: Subject) -> list[MetricScore]:
        forms = tuple(rubric.form for rubric in self.evaluator.rubrics)
        chat = MODELS[self.way](say_to_all=self.say, forms=forms)
        settings = JudgeSettings(method=self.way, tries=self.tries, backoff_s=0.0, concurrency=1, timeout_s=5)
        judge = LangChainJudge(chat, settings)
        asking = AskingJudge(judge, budget=self.budget)

        def ask(questions: Sequence[Question]) -> Iterator[tuple[int, Verdict | JudgeFailure]]:
            self.questions += questions
            for number, answer in enumerate(asking.judge(questions)):
                self.answers.append(answer)
                yield number, answer

        (ran,) = evaluate([self.evaluator], [about_it], ask)
        judge.close()
        assert () == ran.faults
        return list(ran.scores)


def asked_about(
    evaluator: AskingEvaluator, about_it: Subject, choice: int = 0
) -> tuple[list[Question], list[MetricScore]]:
    """Return what an evaluator asks where every reply is right, and what it says then; no model stands between."""
    asked: list[Question] = []

    def ask(questions: Sequence[Question]) -> Iterator[tuple[int, Verdict | JudgeFailure]]:
        asked.extend(questions)
        for number, question in enumerate(questions):
            assert question.rubric is not None
            read = read_text(reply(question.rubric.form, choice), question.rubric.form)
            yield number, Verdict(score=read.score, reasoning=read.reasoning, label=read.label, texts=read.texts)

    (ran,) = evaluate([evaluator], [about_it], ask)
    return asked, list(ran.scores)


def choosing(choice: int) -> Any:
    return lambda got: reply(rubric_of(str(got[-1].content)).form, choice)


def places(scores: Sequence[MetricScore]) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    """Return value and label of each score, by what it is a score of; several of one place by their order."""
    found: dict[tuple[Any, ...], list[tuple[Any, ...]]] = defaultdict(list)
    for one in scores:
        found[one.name, one.turn_index, one.position, one.tool_name, one.parameter].append((one.value, one.label))
    return {(*place, number): each for place, given in found.items() for number, each in enumerate(given)}


def test_the_families_of_judged_metrics_are_under_these_laws() -> None:
    assert {"agentest", "ragas"} <= {name.partition(".")[0] for name in JUDGED}
    assert len(ATTACKS) >= 60


def test_no_two_prompts_share_a_name_and_each_says_what_it_is() -> None:
    by_name: dict[str, set[Rubric]] = defaultdict(set)
    for one in (*(rubric for evaluator in JUDGED.values() for rubric in evaluator.rubrics), merge_rubric()):
        by_name[one.name].add(one)
        assert one.version
        assert one.name not in KINDS
        assert one.instructions == one.instructions.strip() != ""
        assert not re.search(r"\{\{?\s*\w+\s*\}?\}", one.instructions), "nothing is filled in"
        assert "<data" not in one.instructions
    assert {name for name, rubrics in by_name.items() if len(rubrics) > 1} == set()


@EVERY
def test_every_prompt_of_an_evaluator_is_reached_and_no_other_and_names_what_it_shows(
    evaluator: AskingEvaluator,
) -> None:
    asked: list[Question] = []
    for choice in range(MOST_LABELS):
        asked += asked_about(evaluator, subject(), choice)[0]
    assert {one.name for one in evaluator.rubrics} == {one.rubric.name for one in asked if one.rubric is not None}
    for question in asked:
        assert question.rubric in evaluator.rubrics
        for name, _ in question.material:
            assert re.fullmatch(r"[a-z][a-z_]*", name)
            assert f"`{name}`" in question.rubric.instructions, f"{question.rubric.name} does not say what {name} is"


@EVERY
def test_no_attack_leaves_the_fence_nor_changes_a_word_of_what_is_told(evaluator: AskingEvaluator) -> None:
    usual: set[tuple[str, str]] = set()
    for number, attack in enumerate((None, *ATTACKS)):
        for question in asked_about(evaluator, subject() if attack is None else subject(attack.whole))[0]:
            rubric = question.rubric
            assert rubric is not None
            # In each way where nobody attacks, and in one of them, in turn, where somebody does.
            for way in WAYS if attack is None else (WAYS[number % len(WAYS)],):
                sent = messages(question, rubric.instructions, way, max_characters=CAP)
                told = (rubric.name, outside([*sent]))
                if attack is None:
                    usual.add(told)
                assert told in usual, (attack, rubric.name, way)
            assert shown_fields(question, CAP) == fields_of(sent[1][1])
            mark, line = sent[1][1].split("\n")[:2]
            assert mark.removeprefix("<data ").removesuffix(">") not in line
    assert usual


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
    """A model that obeys whatever stands outside the fence and is not what usually stands there, and else is strict."""

    usual: frozenset[str]

    def __call__(self, got: list[BaseMessage]) -> str:
        form = rubric_of(str(got[-1].content)).form
        return reply(form, -1 if outside(pairs(got)) in self.usual else 0)


@EVERY
def test_a_model_that_obeys_what_stands_outside_the_fence_says_of_no_attack_what_it_wants(
    evaluator: AskingEvaluator,
) -> None:
    usual = {way: frozenset(usual_of(evaluator, way)) for way in WAYS}
    for number, attack in enumerate(ONE_OF_EACH):
        way = WAYS[number % len(WAYS)]
        gullible = Run(evaluator, Gullible(usual[way]), way)
        assert asked_about(evaluator, subject(attack.whole), -1)[1] == gullible.scores(subject(attack.whole)), attack.id
        assert gullible.questions


def usual_of(evaluator: AskingEvaluator, way: Way) -> Iterator[str]:
    """Yield what stands outside the fence when nobody attacks."""
    for question in asked_about(evaluator, subject(), -1)[0]:
        assert question.rubric is not None
        yield outside([*messages(question, question.rubric.instructions, way, max_characters=CAP)])


#: What a model may say, or do, that is no verdict, by the form that it was asked for.
def _with(form: ReplyForm, **more: object) -> str:
    return json.dumps({**json.loads(reply(form)), **more})


WRONG: Final[dict[str, Any]] = {
    "a field more": lambda form: _with(form, passes=True),
    "a score beside": lambda form: _with(form, **{"score" if form.kind != "score" else "label": 1}),
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


def saying(wrong: Any, only: str | None = None) -> Any:
    """Return a model that says something wrong, to all questions or to those of one rubric."""

    def say(got: list[BaseMessage]) -> Any:
        rubric = rubric_of(str(got[-1].content))
        return wrong(rubric.form) if only in {None, rubric.name} else reply(rubric.form)

    return say


#: A reply to a form that is no verdict: one of those above, prose, or an object that lacks what the form asks for.
bad_replies: Final = st.one_of(
    st.sampled_from(list(WRONG.values())),
    st.text(st.characters(exclude_characters="{}")).map(lambda text: lambda _: text),
    st.dictionaries(
        st.sampled_from(["reasoning", "score", "label", "texts", "verdict"]),
        st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.lists(st.text(), max_size=2),
    ).map(lambda fields: lambda form: json.dumps({name: fields[name] for name in fields if name != form.kind})),
)


def each_wrong_reply(test: Any) -> Any:
    return reduce(lambda decorated, wrong: example(wrong)(decorated), WRONG.values(), test)


@each_wrong_reply
@given(bad_replies)
@settings(max_examples=settings().max_examples // 3)
def test_a_judge_that_fails_gives_no_score_no_label_and_no_zero(wrong: Any) -> None:
    for evaluator in JUDGED.values():
        run = Run(evaluator, saying(wrong))
        scores = run.scores(subject())

        assert run.answers, evaluator.name
        assert {"judge_error"} == {getattr(answer, "reason", "a verdict") for answer in run.answers}, evaluator.name
        assert {metric.name for metric in evaluator.metrics} == {score.name for score in scores}
        assert {(None, None)} == {(score.value, score.label) for score in scores}, evaluator.name
        explained = {score.reason: score.explanation for score in scores}
        assert explained["judge_error"], evaluator.name


@EVERY
def test_what_the_budget_does_not_allow_is_no_score_either(evaluator: AskingEvaluator) -> None:
    scores = Run(evaluator, choosing(0), budget=Purse(max_calls=0)).scores(subject())

    assert [] == [one for one in scores if one.value is not None or one.label is not None]
    assert "budget_exhausted" in {one.reason for one in scores}


@EVERY
def test_one_answer_that_is_missing_takes_scores_away_and_changes_none(evaluator: AskingEvaluator) -> None:
    for rubric in evaluator.rubrics:
        sound = places(Run(evaluator, choosing(0)).scores(subject()))
        whole = Run(evaluator, saying(WRONG["prose"], rubric.name))
        failed = {place: one for place, one in places(whole.scores(subject())).items() if one != (None, None)}
        assert [] == [place for place, one in failed.items() if sound.get(place) != one], rubric.name


@EVERY
def test_one_call_that_fails_takes_scores_away_and_changes_none(evaluator: AskingEvaluator) -> None:
    first = Run(evaluator, choosing(0))
    sound = places(first.scores(subject()))
    for failing in range(len(first.questions)):
        count = iter(range(10_000))

        def say(got: list[BaseMessage], count: Iterator[int] = count, failing: int = failing) -> Any:
            if next(count) == failing:
                return ConnectionError("no route")
            return reply(rubric_of(str(got[-1].content)).form)

        given = places(Run(evaluator, say).scores(subject()))
        kept = {place: one for place, one in given.items() if one != (None, None)}
        assert [] == [place for place, one in kept.items() if sound.get(place) != one]
        assert len(kept) < sum(one != (None, None) for one in sound.values())
