"""The warning of a wrong ground truth: what two sides share, and when there is nothing to compare."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from otel_agentic.testing import conversation, tool_call, turn
from otel_agentic.truth import Case, CaseTurn, ExpectedCall, ToolExpectation
from otel_agentic.truth.match import shares_nothing


def case(*queries: str, **parameters: Any) -> Case:
    calls = (ExpectedCall(tool_name="book", parameters=parameters),) if parameters else ()
    turns = tuple(CaseTurn(query=query) for query in queries)
    return Case(case_id="x", turns=turns, tools=ToolExpectation(calls=calls) if calls else None)


@pytest.mark.parametrize(
    ("expected", "stated", "actual", "invalid"),
    [
        pytest.param(case("Book it", code="HAT136"), "Book it!", {"code": "HAT999"}, False, id="same query"),
        pytest.param(case(code="HAT136"), "Hi", {"code": "HAT136"}, False, id="same identifier"),
        pytest.param(case(code="HAT136"), "Hi", {"id": ["hat136"]}, False, id="same identifier, elsewhere"),
        pytest.param(case(code="HAT136"), "I mean HAT136", {"code": "HAT999"}, False, id="identifier in the answer"),
        pytest.param(case(code="HAT136"), "Hi", {"code": "HAT999"}, True, id="other identifier"),
        pytest.param(
            case(code="HAT136", cabin="economy"), "Hi", {"code": "HAT999", "cabin": "economy"}, True, id="common value"
        ),
        pytest.param(
            case(code="HAT136", cabin="economy"),
            "Hi",
            {"cabin": "economy"},
            False,
            id="no identifier made: values count",
        ),
        pytest.param(case(bags=3), "Hi", {"bags": 4}, True, id="no value shared"),
        pytest.param(case(bags=3), "I have 3 bags", {"bags": 4}, False, id="value in the answer"),
        pytest.param(case(bags=3), "Hi", None, False, id="no calls: nothing to compare"),
        pytest.param(case(confirmed=True), "Hi", {"confirmed": False}, False, id="true and false prove nothing"),
        pytest.param(case("Where is my order?"), "Please tell me where my order is", None, False, id="in other words"),
        pytest.param(case("Where is my order?"), "Play some music", None, False, id="one short question each"),
        pytest.param(
            case(
                "My parcel from Lyon has not arrived; find out which depot holds it and have it delivered to my neighbour tomorrow morning"
            ),
            "Play calm piano music in the kitchen, dim the ceiling lights until supper, then read headlines about football and weather",
            None,
            True,
            id="another question",
        ),
        pytest.param(
            case("Cancel order A1", code="A1"), "Cancel order B2", {"code": "B2"}, True, id="the same except for the id"
        ),
        pytest.param(case(), "Hi", {"code": "B2"}, False, id="nothing expected"),
    ],
)
def test_a_case_is_wrong_when_it_shares_nothing_that_tells(
    expected: Case, stated: str, actual: dict[str, Any] | None, *, invalid: bool
) -> None:
    calls = () if actual is None else (tool_call("book", actual),)

    assert invalid == shares_nothing(expected, conversation(turn(stated, "Done.", *calls)))


def test_a_conversation_without_content_is_never_called_wrong() -> None:
    silent = replace(tool_call("book"), arguments=None, result=None, result_captured=False)
    actual = conversation(turn(None, None, tool_call("book", {}), silent))

    assert not shares_nothing(case("Book it", code="HAT136"), actual)
