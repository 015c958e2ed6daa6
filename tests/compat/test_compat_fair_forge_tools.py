from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_agentic.compat.fair_forge import tool_correctness, turn_tool_correctness
from otel_agentic.errors import BadInputError

SEARCH = {"tool_name": "search", "parameters": {"q": "hotels", "n": 2}, "step": 1}
BOOK = {"tool_name": "book", "parameters": {"id": 7}, "step": 2}

values = st.none() | st.booleans() | st.integers(-3, 3) | st.floats(allow_nan=False) | st.sampled_from(["", "a", "5"])
json_values = st.recursive(
    values, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner)
)
tools = st.fixed_dictionaries(
    {"tool_name": st.sampled_from("abc")},
    optional={"parameters": st.dictionaries(st.sampled_from("xyz"), values), "step": st.integers(0, 3)},
)


def scores(used: Any, expected: Any, *, uses: bool = True, **truth: Any) -> tuple[float, float, float, float]:
    agentic = {"tools_used": used, "final_answer_uses_tools": uses}
    score = tool_correctness(agentic, {"expected_tools": expected, **truth})
    return (
        score.tool_selection_correct,
        score.parameter_accuracy,
        score.sequence_correct,
        score.result_utilization,
    )


@given(used=st.lists(tools, max_size=5), expected=st.lists(tools, max_size=5))
def test_each_number_lies_between_0_and_1_and_the_sum_is_their_mean(used: Any, expected: Any) -> None:
    score = tool_correctness({"tools_used": used}, {"expected_tools": expected})
    numbers = scores(used, expected, uses=False)
    assert all(0 <= number <= 1 for number in numbers)
    assert score.overall_correctness == pytest.approx(sum(numbers) / 4)


@given(agentic=json_values, truth=json_values, weights=st.none() | json_values)
def test_every_input_gives_a_score_or_a_complaint(agentic: Any, truth: Any, weights: Any) -> None:
    with suppress(BadInputError):
        assert 0 <= tool_correctness(agentic, truth, weights=weights).overall_correctness <= 1


@pytest.mark.parametrize(
    ("used", "explanation"),
    [
        (["search"], "agentic.tools_used[0] is 'search'; allowed: an object with tool_name, parameters and step"),
        ({"tool_name": "search"}, "agentic.tools_used is {'tool_name': 'search'}; allowed: a list of objects"),
        ([SEARCH | {"tool_name": ["a"]}], "agentic.tools_used[0].tool_name is ['a']; allowed: a text"),
        ([SEARCH, BOOK | {"parameters": "id=7"}], "agentic.tools_used[1].parameters is 'id=7'; allowed: an object"),
    ],
)
def test_a_malformed_tool_is_named(used: Any, explanation: str) -> None:
    with pytest.raises(BadInputError) as raised:
        scores(used, [SEARCH, BOOK])
    assert str(raised.value).startswith(explanation)


@pytest.mark.parametrize(
    "weights", [{}, {"selection": 1.0}, dict.fromkeys(("selection", "parameters", "sequence", "utilization"), 1)]
)
def test_weights_that_give_no_score_are_refused(weights: dict[str, float]) -> None:
    call = {"tools_used": [SEARCH], "final_answer_uses_tools": True}
    with pytest.raises(BadInputError, match="with tool_weights"):
        tool_correctness(call, {"expected_tools": [SEARCH]}, weights=weights)


class TestFaultsOfFairForge:
    """The smallest example of each fault; `docs/compat.md` lists the most consequential ones."""

    def test_a_repeated_tool_is_compared_with_its_first_call_alone(self) -> None:
        calls = [SEARCH, SEARCH | {"parameters": {"q": "flights", "n": 2}, "step": 2}]
        assert scores(calls, calls) == (1.0, 0.75, 1.0, 1.0)

    def test_repeating_a_tool_costs_nothing(self) -> None:
        assert scores([SEARCH, SEARCH | {"step": 2}], [SEARCH]) == (1.0, 1.0, 1.0, 1.0)

    def test_an_extra_first_call_shifts_every_step(self) -> None:
        used = [BOOK | {"step": 1}, SEARCH | {"step": 2}]
        assert scores(used, [SEARCH])[2] == 0.0

    def test_a_step_alone_out_of_order_is_still_wrong_with_one_call(self) -> None:
        assert scores([SEARCH | {"step": 2}], [SEARCH])[2] == 0.0

    def test_a_null_parameter_equals_no_parameter(self) -> None:
        assert scores([SEARCH], [SEARCH | {"parameters": {"q": "hotels", "n": 2, "page": None}}])[1] == 1.0

    def test_true_equals_1(self) -> None:
        used, expected = SEARCH | {"parameters": {"all": True}}, SEARCH | {"parameters": {"all": 1}}
        assert scores([used], [expected])[1] == 1.0

    def test_a_flag_of_no_is_taken_for_yes(self) -> None:
        score = tool_correctness(
            {"tools_used": [SEARCH], "final_answer_uses_tools": "no"}, {"expected_tools": [SEARCH]}
        )
        assert score.result_utilization == 1.0

    def test_no_call_where_one_was_expected_has_no_score(self) -> None:
        assert turn_tool_correctness({"tools_used": []}, {"expected_tools": [SEARCH]}) is None

    def test_nothing_expected_and_nothing_used_has_no_parameter_score(self) -> None:
        assert scores([], [])[1] == 0.0

    def test_weights_that_sum_to_almost_1_fail_a_perfect_run(self) -> None:
        weights = {"selection": 0.7, "parameters": 0.1, "sequence": 0.1, "utilization": 0.1}
        score = tool_correctness(
            {"tools_used": [SEARCH], "final_answer_uses_tools": True}, {"expected_tools": [SEARCH]}, weights=weights
        )
        assert not score.is_correct
