"""Trajectory: hand-worked rows, laws, and where the default differs from the compatible mode."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import permutations, product
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from otel_agentic.compat.agentest import CallAssertion, MadeToolCall, TrajectoryAssertions, match_trajectory
from otel_agentic.evaluators.trajectory import Calls, ExpectedCall, Path, is_exact, is_in_order, most_pairs
from otel_agentic.testing import conversation, tool_call, turn
from otel_agentic.truth import Case
from tests.evaluators.ragas_subjects import scores_of, subject

if TYPE_CHECKING:
    from otel_agentic.evaluators.base import MetricScore

MATCHES = ("exact", "in_order", "any_order", "contains", "within")
SHARES = ("precision", "recall", "f1")


def tools(*names: str, **more: Any) -> dict[str, Any]:
    return {"calls": [{"tool_name": name} for name in names], **more}


def case(expected: dict[str, Any] | None = None, *turns: dict[str, Any], **fields: Any) -> Case:
    annotated = list(turns) or [{"query": "go"}]
    total = {} if expected is None else {"tools": expected}
    return Case.model_validate({"case_id": "c", "turns": annotated, **total, **fields})


def talk_with(*calls: Any) -> Any:
    return conversation(turn("go", "done", *(tool_call(call, {}) if isinstance(call, str) else call for call in calls)))


def scores(expected: dict[str, Any], *calls: Any, **settings: Any) -> dict[str, MetricScore]:
    return scores_of(Calls(), subject(talk_with(*calls), case(expected), **settings))


def matches(expected: dict[str, Any], *calls: Any) -> str:
    """Return the five matches as digits."""
    results = scores(expected, *calls)
    return "".join(f"{results[name].value:.0f}" for name in MATCHES)


def shares(expected: dict[str, Any], *calls: Any) -> tuple[float | None, ...]:
    results = scores(expected, *calls)
    return tuple(results[name].value for name in SHARES)


def law(expected: dict[str, Any], actual: str) -> dict[str, MetricScore]:
    """Return the scores from the evaluator itself, which takes less than with the driver."""
    results = Calls().evaluate(subject(talk_with(*actual), case(expected)))
    return {score.name.rpartition(".")[2]: score for score in results}


A_B = tools("a", "b")
A_A = tools("a", "a")
PARALLEL = {"calls": [{"tool_name": "a", "step": 1}, {"tool_name": "b", "step": 1}, {"tool_name": "c", "step": 2}]}
OPTIONAL = {"calls": [{"tool_name": "a"}, {"tool_name": "o", "required": False}, {"tool_name": "b"}]}


@pytest.mark.parametrize(
    ("expected", "actual", "worked_out"),
    [
        (A_B, "ab", ("11111", 1.0, 1.0, 1.0)),
        (A_B, "ba", ("00111", 1.0, 1.0, 1.0)),
        (A_B, "axb", ("01110", 2 / 3, 1.0, 0.8)),
        (A_B, "bxa", ("00110", 2 / 3, 1.0, 0.8)),
        # The second a is like an expected one, but one more than is expected.
        (A_B, "aab", ("01111", 2 / 3, 1.0, 0.8)),
        # In order after all: the first a is one too many.
        (A_B, "aba", ("01111", 2 / 3, 1.0, 0.8)),
        (A_B, "a", ("00001", 1.0, 0.5, 2 / 3)),
        (A_B, "xy", ("00000", 0.0, 0.0, 0.0)),
        (A_B, "", ("00001", 0.0, 0.0, 0.0)),
        # One a answers for both where calls are a set, and for one where each counts.
        (A_A, "a", ("00011", 1.0, 0.5, 2 / 3)),
        (A_A, "aa", ("11111", 1.0, 1.0, 1.0)),
        (tools(), "", ("11111", 1.0, None, 1.0)),
        (tools(), "x", ("01110", 0.0, None, 0.0)),
        # What the case allows is looked over; what it forbids is a match of nothing.
        (tools("a", "b", extra_calls="allow"), "xaybx", ("11111", 1.0, 1.0, 1.0)),
        (tools("a", "b", forbidden=["x"], extra_calls="allow"), "aybx", ("00000", 2 / 3, 1.0, 0.8)),
        # Expected calls of one step have no order.
        (PARALLEL, "bac", ("11111", 1.0, 1.0, 1.0)),
        (PARALLEL, "acb", ("00111", 1.0, 1.0, 1.0)),
        # An optional call may be there or not, and one more of it is one too many.
        (OPTIONAL, "ab", ("11111", 1.0, 1.0, 1.0)),
        (OPTIONAL, "aob", ("11111", 1.0, 1.0, 1.0)),
        (OPTIONAL, "aoob", ("01111", 2 / 3, 1.0, 0.8)),
        (tools("a", alternatives=[tools("b")]), "b", ("11111", 1.0, 1.0, 1.0)),
        # Where no order is asked for both fit equally; only the second is in order.
        (tools("a", "b", alternatives=[tools("b", "a")]), "ba", ("11111", 1.0, 1.0, 1.0)),
        (tools("a", "b", alternatives=[tools("b", "a")]), "bxa", ("01110", 2 / 3, 1.0, 0.8)),
        (tools("a", "b", alternatives=[tools("c")]), "a", ("00001", 1.0, 0.5, 2 / 3)),
        # The second fits best and was made whole, with one call more; nothing was made that the first does not expect.
        (tools("a", "b", "c", alternatives=[tools("a")]), "ab", ("01111", 0.5, 1.0, 2 / 3)),
    ],
)
def test_a_trajectory_scores_as_worked_out_by_hand(expected: dict[str, Any], actual: str, worked_out: Any) -> None:
    digits, *parts = worked_out

    assert digits == matches(expected, *actual)
    assert tuple(part if part is None else pytest.approx(part) for part in parts) == shares(expected, *actual)


def test_calls_of_one_response_have_no_order() -> None:
    together = [tool_call(name, {}, step=1) for name in "ba"]

    assert ("11111", "00111") == (matches(A_B, *together), matches(A_B, *"ba"))


@pytest.mark.parametrize(
    ("match", "actual", "expected"),
    [
        ({}, {"q": "Oslo", "n": 5.0}, True),
        ({}, {"q": "oslo", "n": 5}, False),
        ({"q": "casefold"}, {"q": "OSLO", "n": 5}, True),
        ({"n": {"mode": "number", "tolerance": 1}}, {"q": "Oslo", "n": 6}, True),
        ({"q": "ignore"}, {"n": 5}, True),
        ({"q": "any"}, {"q": "Rome", "n": 5}, True),
        ({}, {"q": "Oslo", "n": 5, "page": 2}, False),
        ({}, {"q": "Oslo"}, False),
    ],
)
def test_arguments_compare_as_the_case_says(match: dict[str, Any], actual: dict[str, Any], *, expected: bool) -> None:
    required = {"calls": [{"tool_name": "a", "parameters": {"q": "Oslo", "n": 5}, "match": match}]}

    assert {float(expected)} == {scores(required, tool_call("a", actual))[name].value for name in (*MATCHES, *SHARES)}


def test_a_call_that_answered_with_an_error_was_not_made_unless_that_is_set() -> None:
    failed = tool_call("a", {}, error="no")
    again = scores(A_B, failed, "a", "b")
    counted = scores(A_B, failed, "a", "b", count_errors=True)

    assert (1.0, 0.0) == (again["exact"].value, counted["exact"].value)


def test_transfers_and_agents_count_only_where_they_are_expected() -> None:
    handed = tool_call("transfer_to_b", {}, kind="transfer")

    assert "11111" == matches(A_B, "a", handed, "b")
    assert "11111" == matches(tools("a", "transfer_to_b"), "a", handed)


def test_where_arguments_were_not_recorded_there_is_no_score() -> None:
    results = scores(A_B, replace(tool_call("a"), arguments=None), "b")

    assert {(score.reason, score.explanation) for score in results.values()} == snapshot(
        {("content_not_captured", "the arguments of 'a' in turn 1 were not recorded")}
    )


def test_what_only_a_judge_could_compare_has_no_score() -> None:
    expected = {"calls": [{"tool_name": "a", "parameters": {"q": "x"}, "match": {"q": "judge"}}]}

    (explanation,) = {
        (score.reason, score.explanation) for score in scores(expected, tool_call("a", {"q": "y"})).values()
    }

    assert explanation == snapshot(("no_data", "the case leaves 'q' of 'a' to a judge, whom this metric does not ask"))


def test_each_turn_is_compared_by_itself_and_all_have_to_match() -> None:
    expected = case(None, {"query": "one", "tools": tools("a")}, {"query": "two", "tools": tools("b", "c")})
    right = conversation(turn("one", "x", tool_call("a", {})), turn("two", "y", tool_call("b", {}), tool_call("c", {})))
    invalid = conversation(turn("one", "x", tool_call("b", {})), turn("two", "y", tool_call("c", {})))

    first, second = (scores_of(Calls(), subject(actual, expected)) for actual in (right, invalid))

    assert [1.0] * 8 == [first[name].value for name in (*MATCHES, *SHARES)]
    assert [0.0] * 5 + [0.5, 1 / 3, 0.4] == [second[name].value for name in (*MATCHES, *SHARES)]
    assert second["exact"].explanation == snapshot(
        "turn 1: not made as expected: a, not expected so: b; turn 2: not made as expected: b"
    )


def test_what_one_expectation_asks_for_is_no_extra_call_to_another() -> None:
    expected = case(tools("z"), {"query": "one", "tools": tools("a")})
    actual = conversation(turn("one", "x", tool_call("a", {}), tool_call("z", {})))

    assert [1.0] * 8 == [score.value for score in scores_of(Calls(), subject(actual, expected)).values()]


def test_a_call_too_many_for_its_turn_and_for_the_whole_is_one_call() -> None:
    expected = case(tools("z"), {"query": "one", "tools": tools("a")})
    actual = conversation(turn("one", "x", *(tool_call(name, {}) for name in "azx")))

    results = scores_of(Calls(), subject(actual, expected))

    assert [pytest.approx(2 / 3), 1.0, pytest.approx(0.8)] == [results[name].value for name in SHARES]
    assert {"required": 2, "made": 3, "right": 2} == results["precision"].details


def test_the_explanation_is_that_of_the_matching_alternative() -> None:
    expected = case(None, {"query": "one", "tools": tools("a", "b", alternatives=[tools("b", "a")])})
    actual = conversation(turn("one", "x", tool_call("b", {}), tool_call("a", {})))

    results = scores_of(Calls(), subject(actual, expected))

    assert (results["exact"].value, results["exact"].explanation) == snapshot(
        (1.0, "every expected call was made, and no other")
    )


def test_a_turn_that_never_came_is_missing_once_the_conversation_has_ended() -> None:
    expected = case(None, {"query": "one", "tools": tools("a")}, {"query": "two", "tools": tools("b")})
    ended = conversation(turn("one", "x", tool_call("a", {})), closed_by="end_mark")
    quiet = conversation(turn("one", "x", tool_call("a", {})), closed_by="idle")

    first, second = (scores_of(Calls(), subject(actual, expected))["exact"] for actual in (ended, quiet))

    assert (first.value, first.explanation) == snapshot((0.0, "a turn that never came: not made as expected: b"))
    assert (None, "incomplete") == (second.value, second.reason)


def test_the_sentence_of_an_order_names_both() -> None:
    results = scores(A_B, *"bxa")

    assert results["in_order"].explanation == snapshot(
        "made in another order: b, x, a; expected: a, b; not expected so: x"
    )
    assert "not expected so: x" == results["any_order"].explanation


def test_the_order_is_found_where_the_nearest_call_is_the_wrong_one() -> None:
    """Search first, book, search again: expected are book, and then a search."""
    assert "01111" == matches(tools("b", "a"), *"aba")


# Compared with the compatible mode.


def agentest(mode: Any, expected: Sequence[Any], actual: Iterable[Any]) -> bool:
    required = tuple(item if isinstance(item, CallAssertion) else CallAssertion(name=item) for item in expected)
    calls = [item if isinstance(item, MadeToolCall) else MadeToolCall(name=item) for item in actual]
    return match_trajectory(calls, TrajectoryAssertions(match_mode=mode, expected=required)).matched


def names_only(names: str) -> dict[str, Any]:
    return {"calls": [{"tool_name": name, "ignore_extra_parameters": True} for name in names]}


@given(expected=st.text("ab", max_size=4), actual=st.text("abx", max_size=5))
def test_by_names_it_is_agentests_in_strict_and_within_and_any_order_is_its_contains(
    expected: str, actual: str
) -> None:
    ours = law(names_only(expected), actual)

    assert [agentest(mode, expected, actual) for mode in ("strict", "contains", "within")] == [
        ours[name].value == 1.0 for name in ("exact", "any_order", "within")
    ]


def test_agentest_pairs_greedily_and_the_default_as_many_as_it_can() -> None:
    """The first expectation takes the one call that the second needs."""
    calls = [MadeToolCall(name="a", args={"x": 1}), MadeToolCall(name="a", args={"x": 2})]
    theirs = [CallAssertion(name="a"), CallAssertion(name="a", mode="exact", args={"x": 1})]
    ours = {
        "calls": [
            {"tool_name": "a", "ignore_extra_parameters": True},
            {"tool_name": "a", "parameters": {"x": 1}},
        ]
    }

    assert agentest("contains", theirs, calls) is False
    assert 1.0 == scores(ours, *(tool_call("a", dict(call.args)) for call in calls))["any_order"].value


def test_agentest_counts_calls_in_contains_and_the_default_takes_them_as_a_set() -> None:
    assert agentest("contains", "aa", "a") is False
    assert 1.0 == scores(A_A, "a")["contains"].value


def test_agentest_takes_parallel_calls_in_the_order_of_the_record() -> None:
    assert agentest("strict", "ab", "ba") is False
    assert 1.0 == scores(A_B, *(tool_call(name, {}, step=1) for name in "ba"))["exact"].value


def test_agentest_counts_failed_calls() -> None:
    """It knows no errors: a call that was tried again is one too many."""
    assert agentest("strict", "ab", "aab") is False
    assert 1.0 == scores(A_B, tool_call("a", {}, error="no"), "a", "b")["exact"].value


# Laws.


@st.composite
def paths(draw: st.DrawFn) -> Path:
    """Return actual calls of two tools, one of which may be free, and expected ones that fit some of those of their tool."""
    names = draw(st.text("ab", max_size=4))
    free = draw(st.sampled_from(["", "a"]))
    steps = sorted(draw(st.lists(st.integers(1, 4), min_size=len(names), max_size=len(names))))
    calls = st.tuples(st.integers(1, 3), st.booleans(), st.sampled_from("ab"), st.frozensets(st.integers(0, 3)))
    return Path(
        expected_calls=tuple(
            ExpectedCall(
                group=group, required=required, fits=frozenset(at for at in fits if names[at : at + 1] == name)
            )
            for group, required, name, fits in draw(st.lists(calls, max_size=4))
        ),
        steps=tuple((0, step) for step in steps),
        free=frozenset(at for at, name in enumerate(names) if name in free),
    )


def all_pairings(path: Path) -> Iterable[dict[int, int]]:
    """Yield every one-to-one choice of actual calls for expected ones."""
    options = [[None, *sorted(call.fits)] for call in path.expected_calls]
    for choice in product(*options):
        selected = [actual for actual in choice if actual is not None]
        if len(selected) == len(set(selected)):
            yield {index: actual for index, actual in enumerate(choice) if actual is not None}


def stands_in_order(path: Path, pairs: dict[int, int]) -> bool:
    required = [
        (path.expected_calls[index].group, path.steps[actual])
        for index, actual in pairs.items()
        if path.expected_calls[index].required
    ]
    total = len(required) == path.required
    return total and all(item[1] <= other[1] for item, other in permutations(required, 2) if item[0] < other[0])


@given(path=paths())
def test_pairs_and_orders_are_those_that_trying_everything_finds(path: Path) -> None:
    pairings = list(all_pairings(path))
    most = max(sum(path.expected_calls[index].required for index in pairs) for pairs in pairings)
    ordered = [pairs for pairs in pairings if stands_in_order(path, pairs)]

    results = most_pairs(path)

    assert most == sum(path.expected_calls[index].required for index in results)
    assert all(actual in path.expected_calls[index].fits for index, actual in results.items())
    assert len(set(results.values())) == len(results)
    assert bool(ordered) == is_in_order(path)
    needed = set(range(len(path.steps))) - path.free
    assert any(needed <= set(pairs.values()) for pairs in ordered) == is_exact(path)


def test_neither_the_first_calls_in_order_nor_the_last_need_be_the_right_ones() -> None:
    """The calls 1 to 3 have to be expected ones: the first takes 2, the others 3 and 1, which belongs to the response of 2."""
    expected = ((1, {0, 2, 3}), (3, {0, 2, 3}), (3, {1, 4}))
    path = Path(
        expected_calls=tuple(
            ExpectedCall(group=group, required=True, fits=frozenset(fits)) for group, fits in expected
        ),
        steps=((0, 1), (0, 2), (0, 2), (0, 3), (0, 5)),
        free=frozenset({0, 4}),
    )

    assert is_exact(path)


@given(expected=st.text("abc", max_size=4), actual=st.text("abcx", max_size=5))
def test_each_match_is_weaker_than_the_one_before_it(expected: str, actual: str) -> None:
    results = {
        name: 1.0 if score.value is None else score.value for name, score in law(tools(*expected), actual).items()
    }

    assert results["exact"] <= results["in_order"] <= results["any_order"] <= results["contains"]
    assert results["exact"] <= results["within"]
    assert (results["any_order"] == 1.0) == (results["recall"] == 1.0)
    assert (results["exact"] == 1.0) <= (results["f1"] == 1.0)


@given(expected=st.text("abc", min_size=1, max_size=4), actual=st.text("abcx", max_size=4))
def test_a_further_call_that_nothing_expects_raises_nothing(expected: str, actual: str) -> None:
    before, after = law(tools(*expected), actual), law(tools(*expected), actual + "y")

    assert all((after[name].value or 0.0) <= (before[name].value or 0.0) for name in before)


def test_hundreds_of_calls_alike_take_no_longer_than_their_number() -> None:
    assert "11111" == matches(tools(*"ab" * 150), *"ab" * 150)
    assert "00111" == matches(tools(*"ab" * 150), *"ba" * 150)
