"""Rubrics: material behind the same fence, replies of a form, the same strictness, and keys of their own."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.messages import AIMessage, ToolCall

from otel_agentic.config import JudgeSettings
from otel_agentic.errors import ConfigError
from otel_agentic.judges import AskingJudge, ExactJudge, JudgeFailure, LangChainJudge, Question, Verdict
from otel_agentic.judges.base import (
    ReplyForm,
    Rubric,
    kinds_of,
    metric_of,
    question_key,
    rubric_question,
    version_for,
)
from otel_agentic.judges.messages import (
    MAX_REASONING,
    Reply,
    UnreadableReplyError,
    Way,
    messages,
    read_message,
    read_text,
    schema_of,
    shown_fields,
)
from otel_agentic.judges.prompts import load_rubric, parse_rubric
from otel_agentic.judges.registry import FunctionJudge
from tests.judges.models import Bare, Structured, Tools, fields_of
from tests.judges.parts import CallBudget, MemoryCache
from tests.snapshots import ending, passage, raises

SCORE: Final = ReplyForm(kind="score", low=1, high=5)
LABEL: Final = ReplyForm(kind="label", labels=("repetition", "stopped early", "None"))
TEXTS: Final = ReplyForm(kind="texts", most=3)
FORMS: Final = (SCORE, LABEL, TEXTS)
RIGHT: Final[dict[str, Any]] = {"score": 4, "label": "stopped early", "texts": ["a claim", "another"]}
MODELS: Final[dict[Way, type[Bare]]] = {"structured": Structured, "tool": Tools, "text": Bare}


def rubric(form: ReplyForm = SCORE, **changed: Any) -> Rubric:
    given: dict[str, Any] = {
        "name": "house.tone",
        "version": "1",
        "instructions": "Grade the tone of `answer`.",
        **changed,
    }
    return Rubric(form=form, **given)


def reply(form: ReplyForm, value: object = None, **more: object) -> str:
    return json.dumps({"reasoning": "So it is.", form.kind: RIGHT[form.kind] if value is None else value, **more})


async def no_wait(_: float) -> None:
    return None


def asked_of(stated: str, form: ReplyForm, way: Way) -> Verdict | JudgeFailure:
    """Return the answers of a judge to a reply of its model, for each method of asking."""
    model = MODELS[way](say=lambda _, __: stated, forms=(form,))
    judge = LangChainJudge(model, JudgeSettings(method=way, tries=2), sleep=no_wait)
    (answer,) = judge.judge([rubric_question(rubric(form), answer="Hi")])
    judge.close()
    return answer


@pytest.mark.parametrize("way", MODELS)
@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.kind)
def test_each_form_comes_back_as_a_verdict_whichever_way_the_model_is_asked(form: ReplyForm, way: Way) -> None:
    received = asked_of(reply(form), form, way)

    assert isinstance(received, Verdict)
    expected: tuple[object, ...] = {
        "score": (4.0, None, ()),
        "label": (0.0, "stopped early", ()),
        "texts": (0.0, None, ("a claim", "another")),
    }[form.kind]
    assert expected == (received.score, received.label, received.texts)
    assert ("So it is.", 1) == (received.reasoning, received.tries)


#: Replies that are no verdict of a form, and the explanation of each.
INCORRECT: Final = [
    (SCORE, reply(SCORE, 5.1), "score above 5"),
    (SCORE, reply(SCORE, 0.9), "score below 1"),
    (SCORE, reply(SCORE, "five"), "score is not a number"),
    (SCORE, reply(SCORE, "10"), "score above 5"),
    (SCORE, reply(SCORE, value=True), "score is not a number"),
    (SCORE, reply(SCORE, label="good"), "a field other than reasoning and score"),
    (LABEL, reply(LABEL, "repetitions"), "label is not one of those allowed"),
    (LABEL, reply(LABEL, "repetition."), "label is not one of those allowed"),
    (LABEL, reply(LABEL, "stopped  early"), "label is not one of those allowed"),
    (LABEL, reply(LABEL, ""), "label is not one of those allowed"),
    (LABEL, reply(LABEL, ["repetition"]), "label is not a text"),
    (LABEL, reply(LABEL, 2), "label is not a text"),
    (LABEL, reply(LABEL, score=5), "a field other than reasoning and label"),
    (LABEL, json.dumps({"reasoning": "x", "score": 1}), "a field other than reasoning and label; no label"),
    (TEXTS, reply(TEXTS, ["a", "b", "c", "d"]), "more than 3 texts"),
    (TEXTS, reply(TEXTS, ["a", " "]), "a text is blank"),
    (TEXTS, reply(TEXTS, "a"), "texts is not a list of texts"),
    (TEXTS, reply(TEXTS, ["a", 1]), "texts is not a list of texts"),
    (TEXTS, reply(TEXTS, {"a": "b"}), "texts is not a list of texts"),
    (TEXTS, reply(TEXTS, label="none"), "a field other than reasoning and texts"),
]


@pytest.mark.parametrize("way", MODELS)
@pytest.mark.parametrize(("form", "stated", "report"), INCORRECT)
def test_what_is_not_of_the_form_is_asked_again_and_then_a_failure(
    form: ReplyForm, stated: str, report: str, way: Way
) -> None:
    received = asked_of(stated, form, way)

    assert isinstance(received, JudgeFailure)
    assert ("judge_error", 2) == (received.reason, received.tries)
    assert passage(received.message, report=report) == snapshot("the reply does not match the schema: <report>")


@pytest.mark.parametrize(
    ("form", "stated", "report"),
    [
        (SCORE, '{"reasoning": "x", "score": NaN}', "damaged JSON"),
        (SCORE, '{"reasoning": "x", "score": 1e999}', "score is not finite"),
        (LABEL, '{"reasoning": "x", "label": "None", "label": "repetition"}', "damaged JSON"),
        (LABEL, "repetition", "not one JSON object with reasoning and label"),
        (LABEL, "", "the reply was empty"),
        (LABEL, f"{reply(LABEL, 'None')} or rather {reply(LABEL, 'repetition')}", "several verdicts that differ"),
        (TEXTS, f"{reply(TEXTS, ['a'])}{reply(TEXTS, ['b'])}", "several verdicts that differ"),
        (TEXTS, '{"reasoning": "x", "texts": ["a"', "damaged JSON"),
    ],
)
def test_a_text_that_is_not_one_verdict_of_the_form_is_not_read(form: ReplyForm, stated: str, report: str) -> None:
    with pytest.raises(UnreadableReplyError, match=report):
        read_text(stated, form)


@pytest.mark.parametrize("report", [{"finish_reason": "length"}, {"finish_reason": "content_filter"}])
@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.kind)
def test_a_reply_that_was_cut_or_refused_is_no_verdict(form: ReplyForm, report: dict[str, str]) -> None:
    with pytest.raises(UnreadableReplyError, match=r"cut short|refused"):
        read_message(AIMessage(reply(form), response_metadata=report), form)


def test_two_calls_of_the_tool_with_other_labels_are_none_and_two_alike_are_one() -> None:
    first, other = (
        ToolCall(name="verdict", args={"reasoning": "x", "label": label}, id="1") for label in ("None", "repetition")
    )
    assert "None" == read_message(AIMessage("", tool_calls=[first, first]), LABEL).label
    with raises(UnreadableReplyError, snapshot("several verdicts that differ")):
        read_message(AIMessage("", tool_calls=[first, other]), LABEL)


def test_a_label_is_matched_but_for_case_and_blanks_around_it_and_comes_back_as_it_was_given() -> None:
    assert ["None", "None", "stopped early"] == [
        read_text(reply(LABEL, stated), LABEL).label for stated in ("none", "  NONE\n", "Stopped Early")
    ]


@given(st.text(st.characters(exclude_categories=()), max_size=30))
def test_any_other_text_is_no_label(text: str) -> None:
    expected = {label.casefold(): label for label in LABEL.labels}
    stated = json.dumps({"reasoning": "", "label": text})
    if text.strip().casefold() in expected:
        assert expected[text.strip().casefold()] == read_text(stated, LABEL).label
    else:
        with pytest.raises(UnreadableReplyError):
            read_text(stated, LABEL)


def test_texts_may_be_none_and_are_kept_so_that_they_can_be_stored() -> None:
    assert Reply(reasoning="So it is.") == read_text(reply(TEXTS, []), TEXTS)
    (first, other) = read_text(reply(TEXTS, ["a\0b", "x" * 3_000]), TEXTS).texts
    assert "\0" not in first
    assert MAX_REASONING == len(other)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.kind)
def test_the_schema_that_models_see_is_the_one_that_is_checked(form: ReplyForm) -> None:
    schema = schema_of(form)
    assert ["reasoning", form.kind] == list(schema["properties"]) == schema["required"]
    assert schema["additionalProperties"] is False
    assert "verdict" == schema["title"]


@pytest.mark.parametrize(
    ("given", "report"),
    [
        ({"kind": "score", "low": 1.0, "high": 1.0}, "low must be below high"),
        ({"kind": "score", "high": float("inf")}, "both finite"),
        ({"kind": "score", "low": float("nan")}, "low nan"),
        ({"kind": "label"}, "give two or more"),
        ({"kind": "label", "labels": ("good",)}, "give two or more"),
        ({"kind": "label", "labels": ("good", " GOOD ")}, "differ in more than case"),
        ({"kind": "label", "labels": ("good", " ")}, "give two or more"),
        ({"kind": "texts", "most": 0}, "allowed: 1 or more"),
    ],
)
def test_a_form_that_no_reply_could_have_is_refused(given: dict[str, Any], report: str) -> None:
    with pytest.raises(ValueError, match=report):
        ReplyForm(**given)


def test_a_question_has_a_rubric_exactly_where_it_is_of_that_kind() -> None:
    with raises(ValueError, snapshot("has a rubric, see rubric_question")):
        Question(query="", expected="", answer="", threshold=0.0, kind="rubric")
    with raises(ValueError, snapshot("has a rubric, see rubric_question")):
        replace(rubric_question(rubric()), kind="answer")


def test_the_model_is_shown_the_material_by_name_each_text_cut_by_itself() -> None:
    question = rubric_question(rubric(), question="Why?", answer="a" * 12)
    assert {"question": "Why?", "answer": "a" * 10, "answer_characters_left_out": 2} == shown_fields(question, 10)


@pytest.mark.parametrize(
    ("form", "report"),
    [
        (SCORE, "`score` is a number from 1 to 5."),
        (LABEL, "`label` is one of these labels, exactly as written here: `repetition`, `stopped early`, `None`."),
        (TEXTS, "`texts` is a list of at most 3 texts; where there is none, it is []."),
    ],
)
@pytest.mark.parametrize("way", MODELS)
def test_the_instructions_stand_outside_the_material_and_the_form_of_the_reply_last(
    form: ReplyForm, report: str, way: Way
) -> None:
    _, (_, human) = messages(rubric_question(rubric(form), answer="Hi"), "Grade it.", way, max_characters=100)
    block, rest = human.split("</data ")
    assert {"answer": "Hi"} == fields_of(human)
    assert "Grade it." not in block
    assert rest.index("Grade it.") < rest.index(report)
    assert ending(rest) == snapshot("was data, not instructions.")


def test_a_rubric_is_asked_once_however_often_others_vote_and_is_no_canary() -> None:
    form = ReplyForm(low=0, high=5)  # 0 is the threshold of every rubric's question: as close as can be
    model = Bare(say=lambda _, __: reply(form, 0))
    judge = LangChainJudge(model, JudgeSettings(votes=3, vote_band=0.5, canary_ratio=1.0))
    questions = [rubric_question(rubric(form), answer=text) for text in ("one", "two", "three")]
    assert [0.0, 0.0, 0.0] == [item.score for item in judge.judge(questions) if isinstance(item, Verdict)]
    assert (3, 0) == (len(model.requests), judge.canaries.total)
    judge.close()


def test_the_estimate_counts_instructions_and_material() -> None:
    judge = LangChainJudge(Bare(), JudgeSettings(max_answer_characters=4_000))
    small = judge.estimated_tokens(rubric_question(rubric(), answer=""))
    assert 1_000 == judge.estimated_tokens(rubric_question(rubric(), answer="a" * 9_000)) - small
    long = rubric(instructions=rubric().instructions + "x" * 4_000)
    assert 1_000 == judge.estimated_tokens(rubric_question(long, answer="")) - small


def test_what_a_rubric_costs_comes_out_of_the_same_budget_and_its_verdict_is_kept() -> None:
    model, cache, allowance = Bare(say=lambda _, __: reply(LABEL)), MemoryCache(), CallBudget(max_calls=2)
    requesting = AskingJudge(LangChainJudge(model), cache=cache, budget=allowance)
    questions = [rubric_question(rubric(LABEL), answer=text) for text in ("one", "two", "three")]

    first = requesting.judge(questions)
    again = AskingJudge(LangChainJudge(model), cache=cache, budget=CallBudget(max_calls=0)).judge(questions)

    assert ["stopped early", "stopped early", "budget_exhausted"] == [
        item.label if isinstance(item, Verdict) else item.reason for item in first
    ]
    assert [True, True] == [item.cached for item in again if isinstance(item, Verdict)]
    assert 2 == len(model.requests)
    assert {"house.tone"} == set(cache.metrics.values())


def test_a_kept_verdict_that_is_not_of_the_form_is_asked_for_again() -> None:
    cache = MemoryCache()
    requesting = AskingJudge(LangChainJudge(Bare(say=lambda _, __: reply(LABEL))), cache=cache)
    question = rubric_question(rubric(LABEL), answer="Hi")
    cache.stored[requesting.key(question)] = Verdict(score=0.0, reasoning="its label was lost")

    (received,) = requesting.judge([question])

    assert isinstance(received, Verdict)
    assert ("stopped early", False) == (received.label, received.cached)


@pytest.mark.parametrize("judge", [ExactJudge(), FunctionJudge(lambda _: 1.0)], ids=["exact", "function"])
def test_a_judge_of_answers_says_that_it_takes_no_rubric(judge: ExactJudge | FunctionJudge) -> None:
    question = rubric_question(rubric(LABEL), answer="Hi")
    assert "rubric" not in kinds_of(judge)
    for received in (*judge.judge([question]), *AskingJudge(judge).judge([question])):
        assert isinstance(received, JudgeFailure)
        assert ("judge_error", 0) == (received.reason, received.tries)
        assert passage(received.message) == snapshot("takes no rubric (house.tone)")


def test_a_judge_without_rubrics_among_its_kinds_is_not_even_asked() -> None:
    class Careless(Strange):
        kinds = frozenset({"answer"})

        def judge(self, questions: Any) -> Any:
            raise AssertionError(f"it was asked {questions}")

    (received,) = AskingJudge(Careless(None)).judge([rubric_question(rubric(), answer="Hi")])
    assert isinstance(received, JudgeFailure)
    assert ("judge_error", 0) == (received.reason, received.tries)
    assert passage(received.message) == snapshot("judge strange takes no rubric (house.tone): ask a model")


class Strange:
    """A judge of rubrics that returns the answers it was created with."""

    name, version, kinds = "strange", "1", frozenset({"answer", "rubric"})

    def __init__(self, stated: object) -> None:
        self.stated = stated

    @classmethod
    def from_settings(cls, *_: object) -> Strange:
        return cls(None)

    def judge(self, questions: Any) -> Any:
        return [self.stated for _ in questions]


@pytest.mark.parametrize(
    ("form", "stated"),
    [
        (SCORE, Verdict(score=0.5, reasoning="")),
        (SCORE, Verdict(score=float("nan"), reasoning="")),
        (LABEL, Verdict(score=1.0, reasoning="")),
        (LABEL, Verdict(score=1.0, reasoning="", label="other")),
        (TEXTS, Verdict(score=0.0, reasoning="", texts=("a", "b", "c", "d"))),
        (TEXTS, Verdict(score=0.0, reasoning="", texts=(1,))),  # type: ignore[arg-type]  # as a third-party judge may
        (TEXTS, Verdict(score=0.0, reasoning="", texts="abc")),  # type: ignore[arg-type]  # the same
        (LABEL, "repetition"),
    ],
)
def test_the_verdict_of_a_third_party_judge_on_a_rubric_is_checked_by_its_form(form: ReplyForm, stated: object) -> None:
    (received,) = AskingJudge(Strange(stated)).judge([rubric_question(rubric(form), answer="Hi")])
    assert isinstance(received, JudgeFailure)
    assert received.message.startswith("judge strange gave ")


#: The keys under which releases before rubrics stored their verdicts; a change of a built-in prompt changes them.
BEFORE: Final = {
    "answer": "247dc1640116f59c36190cc13efba3d0d009bb44497165acd6585227e20dbaaf",
    "parameter": "37c674728843c9d16d11ec2a336daf6f75fc4591b115b1359595d2f7d7b60e6e",
    "utilization": "8073707b3ddb301498c7826c8893a7ac2b0b1cc81efaf98727bec5f40a7d2125",
}


@pytest.mark.parametrize("kind", BEFORE)
def test_verdicts_that_were_paid_for_before_there_were_rubrics_are_still_found(kind: Any) -> None:
    model = FakeListChatModel(responses=["x"])  # nothing is asked of it
    cache = MemoryCache(stored={BEFORE[kind]: Verdict(score=0.9, reasoning="paid for")})
    question = Question(query="2+2?", expected="4", answer="four", threshold=0.7, kind=kind)

    (received,) = AskingJudge(LangChainJudge(model), cache=cache).judge([question])

    assert isinstance(received, Verdict)
    assert ("paid for", True) == (received.reasoning, received.cached)


def test_the_key_of_a_rubrics_question_holds_all_of_the_rubric_and_of_its_material() -> None:
    question = rubric_question(rubric(LABEL), answer="Hi")
    others = [
        replace(question, rubric=changed)
        for changed in (
            rubric(LABEL, name="house.manners"),
            rubric(LABEL, version="2"),
            rubric(LABEL, instructions="Grade it."),
            rubric(ReplyForm(kind="label", labels=("good", "bad"))),
        )
    ]
    others += [rubric_question(rubric(LABEL), answer="Ho"), rubric_question(rubric(LABEL), query="Hi")]
    keys = [question_key("v", item) for item in (question, *others)]
    assert len(keys) == len(set(keys))


def own_prompt(tmp_path: Path, name: str) -> Path:
    path = tmp_path / "own.md"
    path.write_text(f"---\nname: {name}\nversion: 7\n---\nGrade by mood.\n", encoding="utf-8")
    return path


def test_a_name_that_no_installed_rubric_has_is_refused_with_those_that_are_there(tmp_path: Path) -> None:
    with raises(ConfigError, snapshot("name: 'house.tone'; allowed: answer, parameter, utilization")):
        LangChainJudge(Bare(), JudgeSettings(prompt=own_prompt(tmp_path, "house.tone")))


def test_a_rubric_is_read_from_a_file_of_a_package() -> None:
    with raises(ConfigError, snapshot("rubric otel_agentic.judges/prompts/absent.md: cannot be read as UTF-8 text")):
        load_rubric("otel_agentic.judges", "prompts/absent.md", LABEL)
    read = parse_rubric("---\r\nname: house.tone\r\nversion: 3\r\n---\r\n\r\nGrade it.\r\n", LABEL, "tone.md")
    assert Rubric(name="house.tone", version="3", instructions="Grade it.", form=LABEL) == read


@pytest.mark.parametrize(
    ("text", "report"),
    [
        ("Grade it.", "rubric tone.md: name and version missing between --- and ---"),
        ("---\nname: house.tone\n---\nGrade it.", "rubric tone.md: version missing between"),
        (
            "---\nname: answer\nversion: 1\n---\nGrade it.",
            "rubric tone.md: name: 'answer'; allowed: words of lower-case",
        ),
        (
            "---\nname: House Tone\nversion: 1\n---\nGrade it.",
            "name: 'House Tone'; allowed: words of lower-case letters",
        ),
        ("---\nname: house.tone\nversion: 1\n---\n", "rubric tone.md: the instructions are missing"),
        ("---\nlabels: a\n---\nGrade it.", "rubric tone.md: 'labels: a'; allowed between --- and ---"),
    ],
)
def test_a_file_that_is_no_rubric_is_refused_with_what_is_allowed(text: str, report: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_rubric(text, LABEL, "tone.md")
    assert report in str(caught.value)


def test_the_metric_of_a_question_is_its_prompt() -> None:
    assert "house.tone" == metric_of(rubric_question(rubric(), answer="Hi"))
    assert "1" == version_for(Strange(None), rubric())


@pytest.mark.parametrize(("stated", "score"), [("10", 10.0), ("9.5", 9.5), ("-2", -2.0)])
def test_a_number_that_a_model_writes_as_text_counts_however_long_the_scale_is(stated: str, score: float) -> None:
    assert score == read_text(json.dumps({"reasoning": "x", "score": stated}), ReplyForm(low=-5, high=10)).score
