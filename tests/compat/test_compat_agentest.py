from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from otel_agentic.compat.agentest import CallAssertion, MadeToolCall, MatchMode, TrajectoryAssertions, match_trajectory
from otel_agentic.errors import UsageError
from tests.snapshots import raises

names = st.sampled_from("abc")
arguments = st.dictionaries(st.sampled_from("xy"), st.integers(0, 1) | st.booleans() | st.none())
actual_calls = st.lists(st.builds(MadeToolCall, name=names, args=arguments), max_size=5)
modes = st.sampled_from(["exact", "partial", "ignore", None])
assertions = st.lists(st.builds(CallAssertion, name=names, args=st.none() | arguments, mode=modes), max_size=4)


def matched(
    actual: list[MadeToolCall], expected: list[CallAssertion], mode: MatchMode, *forbidden: CallAssertion
) -> bool:
    asserted = TrajectoryAssertions(match_mode=mode, expected=tuple(expected), forbidden=forbidden)
    return match_trajectory(actual, asserted).matched


@given(actual=actual_calls, expected=assertions)
def test_unordered_implies_contains_and_within(actual: list[MadeToolCall], expected: list[CallAssertion]) -> None:
    if matched(actual, expected, "unordered"):
        assert matched(actual, expected, "contains")
        assert matched(actual, expected, "within")


@given(actual=actual_calls)
def test_calls_that_are_asserted_exactly_match_in_every_mode(actual: list[MadeToolCall]) -> None:
    expected = [CallAssertion(name=call.name, args=call.args, mode="exact") for call in actual]
    assert all(matched(actual, expected, mode) for mode in ("strict", "unordered", "contains", "within"))


@given(actual=actual_calls, expected=assertions, extra=names)
def test_a_forbidden_call_fails_although_the_rest_matches(
    actual: list[MadeToolCall], expected: list[CallAssertion], extra: str
) -> None:
    assert not matched([*actual, MadeToolCall(name=extra)], expected, "contains", CallAssertion(name=extra))


def test_an_unknown_match_mode_is_refused() -> None:
    mode: Any = "superset"
    with raises(UsageError, snapshot("allowed: strict, unordered, contains, within")):
        matched([], [], mode)


class TestFaultsOfAgentest:
    """The smallest example of each fault; `docs/compat.md` lists the most consequential ones."""

    def test_arguments_are_ignored_unless_a_mode_is_named(self) -> None:
        actual = [MadeToolCall(name="pay", args={"amount": 900})]
        assert matched(actual, [CallAssertion(name="pay", args={"amount": 9})], "strict")

    def test_the_first_expectation_takes_the_call_that_another_needs(self) -> None:
        actual = [MadeToolCall(name="pay", args={"amount": 9}), MadeToolCall(name="pay", args={"amount": 1})]
        any_pay, nine = CallAssertion(name="pay"), CallAssertion(name="pay", args={"amount": 9}, mode="exact")
        assert not matched(actual, [any_pay, nine], "unordered")
        assert matched(actual, [nine, any_pay], "unordered")

    def test_within_lets_an_expected_call_be_made_any_number_of_times(self) -> None:
        assert matched([MadeToolCall(name="pay")] * 9, [CallAssertion(name="pay")], "within")

    def test_nothing_expected_is_contained_in_anything(self) -> None:
        assert matched([MadeToolCall(name="delete_all")], [], "contains")
