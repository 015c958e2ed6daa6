"""The ways to ask a model: the best one that it knows, and never again one that it does not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from inline_snapshot import snapshot
from langchain_core.runnables import Runnable, RunnableLambda

from tests.judges.models import Bare, Structured, Tools, verdict
from tests.judges.parts import question, questions
from tests.snapshots import passage

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage

    from otel_agentic.judges.messages import Way

from tests.judges.scripted_judges import failed, in_turn, judge_of, only


@pytest.mark.parametrize(("kind", "way"), [(Bare, "text"), (Tools, "tool"), (Structured, "structured")])
def test_the_first_way_that_the_model_knows_is_taken(kind: type[Bare], way: str) -> None:
    model = kind()
    judge_of(model).judge(questions(3))
    assert [way] * 3 == model.ways


@pytest.mark.parametrize("way", ["structured", "tool", "text"])
def test_a_way_can_be_forced(way: Way) -> None:
    model = Structured()
    only(judge_of(model, method=way).judge([question()]))
    assert [way] == model.ways


@pytest.mark.parametrize("way", ["structured", "tool"])
def test_a_forced_way_that_the_model_does_not_know_is_a_failure_without_a_call(way: Way) -> None:
    model = Bare()
    received = failed(judge_of(model, method=way).judge([question()]))
    assert 0 == received.tries == len(model.requests)
    assert passage(received.message, way=repr(way)) == snapshot("does not support the method <way> (judge.method)")


@pytest.mark.parametrize(
    "error",
    [
        NotImplementedError("not for this model"),
        ValueError("response_format is not supported"),
        TypeError("unexpected keyword argument 'tools'"),
    ],
)
def test_a_way_that_fails_when_it_is_taken_is_left_for_good(error: Exception) -> None:
    model = Structured(say=lambda _, way: verdict() if way == "text" else error)
    judge = judge_of(model, tries=1)
    assert 3 == only(judge.judge([question()])).tries
    assert 1 == only(judge.judge([question("another")])).tries
    assert ["structured", "tool", "text", "text"] == model.ways


@pytest.mark.parametrize(
    "refusal",
    [
        "Invalid schema for response_format 'verdict': In context=('properties', 'score'), 'minimum' is not permitted.",
        "output_format.schema: For 'number' type, properties maximum, minimum are not supported",
        'Unknown name "maxItems" at generation_config.response_schema: cannot find field; invalid',
    ],
)
def test_a_provider_that_refuses_bounds_is_asked_the_same_way_without_them(refusal: str) -> None:
    schemas: list[dict[str, Any]] = []

    class Picky(Tools):
        def with_structured_output(self, schema: Any, **_: Any) -> Runnable[Any, Any]:
            schemas.append(schema)

            def reply(messages: Any) -> dict[str, Any]:
                if "minimum" in schema["properties"]["score"]:
                    raise ValueError(refusal)
                return {"raw": self._reply([*self._convert_input(messages).to_messages()], "structured")}

            return RunnableLambda(reply)

    model = Picky()
    judge = judge_of(model, tries=1)
    assert [1.0] * 4 == [only([answer]).score for answer in judge.judge(questions(4))]
    assert {"structured"} == set(model.ways)
    assert [{"minimum", "maximum"}, set()] == [
        {"minimum", "maximum"} & set(item["properties"]["score"]) for item in schemas
    ]


def test_a_forced_way_that_fails_when_it_is_taken_is_a_failure() -> None:
    model = Structured(say=in_turn(ValueError("response_format is not supported")))
    received = failed(judge_of(model, method="structured").judge([question()]))
    assert 1 == received.tries
    assert passage(received.message) == snapshot("response_format is not supported")


def test_a_way_that_never_gives_a_verdict_is_left() -> None:
    model = Structured(say=lambda _, way: verdict() if way == "text" else "I would rather talk.")
    received = only(judge_of(model, tries=7).judge([question()]))
    assert ["structured"] * 3 + ["tool"] * 3 + ["text"] == model.ways
    assert 7 == received.tries


def test_a_way_that_gave_a_verdict_is_kept() -> None:
    model = Structured(say=in_turn(verdict(), "x", "x", "x", "x", "x", verdict()))
    judge = judge_of(model, tries=10)
    judge.judge([question("a")])
    judge.judge([question("b")])
    assert {"structured"} == set(model.ways)


def test_a_model_that_knows_no_choice_of_tool_is_given_the_tool_alone() -> None:
    class Stubborn(Tools):
        def bind_tools(self, tools: Any, **options: Any) -> Runnable[Any, AIMessage]:
            if "tool_choice" in options:
                raise ValueError("tool_choice: no")
            return super().bind_tools(tools, **options)

    model = Stubborn()
    only(judge_of(model).judge([question()]))
    assert (["tool"], [None]) == (model.ways, model.tool_choice)


def test_a_model_that_answers_with_words_though_it_has_the_tool_is_understood() -> None:
    class Talking(Tools):
        def _generate(self, messages: Any, *_: Any, **__: Any) -> Any:
            return super()._generate(messages)

    assert 1.0 == only(judge_of(Talking()).judge([question()])).score


def test_a_model_whose_chain_gives_only_what_it_parsed_is_understood() -> None:
    class Parsed(Structured):
        def with_structured_output(self, schema: Any, *, include_raw: bool = False, **_: Any) -> Runnable[Any, Any]:
            chain = super().with_structured_output(schema, include_raw=include_raw)
            return chain | (lambda _: {"raw": None, "parsed": {"reasoning": "parsed", "score": 0.3}})

    assert 0.3 == only(judge_of(Parsed()).judge([question()])).score
