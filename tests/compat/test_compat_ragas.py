from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_agentic.compat.ragas import (
    RagasCall,
    answer_accuracy,
    legacy_tool_call_accuracy,
    tool_call_accuracy,
    tool_call_f1,
    topic_adherence,
)
from otel_agentic.errors import BadInputError

scalars = st.none() | st.booleans() | st.integers(0, 2) | st.sampled_from(["1", "x", 1.0])
calls = st.lists(
    st.builds(RagasCall, name=st.sampled_from("ab"), args=st.dictionaries(st.sampled_from("xy"), scalars)), max_size=4
)


def call(name: str = "search", **args: Any) -> RagasCall:
    return RagasCall(name=name, args=args)


@given(predicted=calls, reference=calls)
def test_every_number_but_the_legacy_one_lies_between_0_and_1(predicted: Any, reference: Any) -> None:
    assert 0 <= tool_call_accuracy(predicted, reference) <= 1
    assert 0 <= tool_call_accuracy(predicted, reference, strict_order=False) <= 1
    assert 0 <= tool_call_f1(predicted, reference) <= 1


@given(actual=calls, data=st.data())
def test_without_order_a_permutation_scores_1(actual: list[RagasCall], data: st.DataObject) -> None:
    shuffled = data.draw(st.permutations(actual))
    assert tool_call_accuracy(shuffled, actual, strict_order=False) == 1.0


@given(
    topics=st.lists(
        st.tuples(st.booleans(), st.booleans() | st.sampled_from(["yes", "No", 1, 0, None, 2.5])), max_size=5
    )
)
def test_topics_give_numbers_below_1(topics: list[tuple[bool, Any]]) -> None:
    explanation = topic_adherence([refused for refused, _ in topics], [classified for _, classified in topics])
    assert all(0 <= number < 1 for number in (explanation.precision, explanation.recall, explanation.f1))


def test_classifications_for_other_topics_are_refused() -> None:
    with pytest.raises(BadInputError, match="2 classifications for 3 topics"):
        topic_adherence([False] * 3, [True] * 2)


def test_both_answers_are_shown_as_json_in_either_order() -> None:
    known: list[dict[str, str]] = []

    def ask(prompt: str) -> str:
        known.append(json.loads(next(line for line in prompt.splitlines() if line.startswith("{"))))
        return "4"

    assert answer_accuracy("Capital?", 'Paris"}', "Lyon", ask=ask).score == 1.0
    assert [list(visible) for visible in known] == [
        ["question", "user_answer", "reference"],
        ["question", "reference", "user_answer"],
    ]
    assert known[0]["user_answer"] == 'Paris"}'


class TestFaultsOfRagas:
    """The smallest example of each fault; `docs/compat.md` lists the most consequential ones."""

    def test_one_extra_call_makes_the_accuracy_0(self) -> None:
        assert tool_call_accuracy([call(q=1), call("log")], [call(q=1)]) == 0.0

    def test_numbers_are_compared_as_text(self) -> None:
        assert tool_call_accuracy([call(n=5)], [call(n=5.0)]) == 0.0
        assert tool_call_accuracy([call(n=None)], [call(n="None")]) == 1.0

    def test_arguments_beyond_the_reference_cost_nothing_unless_it_has_none(self) -> None:
        assert tool_call_accuracy([call(q=1, force=True)], [call(q=1)]) == 1.0
        assert tool_call_accuracy([call(q=1)], [call()]) == 0.0

    def test_the_legacy_accuracy_exceeds_1_for_repeated_calls(self) -> None:
        assert legacy_tool_call_accuracy([call(q=1)] * 3, [call(q=1)]) == 3.0

    def test_f1_forgives_any_number_of_repetitions(self) -> None:
        assert tool_call_f1([call("pay", amount=9)] * 5, [call("pay", amount=9)]) == 1.0

    def test_f1_fails_for_an_argument_that_is_a_list(self) -> None:
        with pytest.raises(BadInputError, match=r"predicted\[0\] search"):
            tool_call_f1([call(ids=[1])], [call(ids=1)])

    def test_a_rating_of_10_is_taken_for_0(self) -> None:
        assert answer_accuracy("q", "a", "a", ask=lambda _: "10").score == 0.0

    def test_a_judge_that_fails_once_counts_or_not_by_which_prompt_it_was(self) -> None:
        first, second = iter(["-"] * 5 + ["4"]), iter(["4"] + ["-"] * 5)
        assert answer_accuracy("q", "a", "a", ask=lambda _: next(first)).score is None
        assert answer_accuracy("q", "a", "a", ask=lambda _: next(second)).score == 1.0

    def test_perfect_adherence_is_below_1(self) -> None:
        assert topic_adherence([False], [True]).precision == pytest.approx(0.9999999999, abs=1e-12)

    def test_an_agent_that_rightly_refuses_everything_has_precision_0(self) -> None:
        assert topic_adherence([True], [False]).precision == 0.0

    def test_one_classification_stands_for_all_topics(self) -> None:
        assert topic_adherence([False, False], [True]) == topic_adherence([False, False], [True, True])
