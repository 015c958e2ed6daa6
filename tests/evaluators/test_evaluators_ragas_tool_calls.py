"""Tool call accuracy and F1: numbers worked out by hand, and where they differ from RAGAS's own."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from otel_agentic.evaluators.ragas import ToolCalls
from otel_agentic.testing import conversation, tool_call, turn
from otel_agentic.truth import Case
from tests.evaluators.ragas_subjects import scores_of, subject
from tests.snapshots import exactly, passage

Called = tuple[str, dict[str, Any]]


def expected(*calls: Called | dict[str, Any], **more: Any) -> dict[str, Any]:
    explanation = [call if isinstance(call, dict) else {"tool_name": call[0], "parameters": call[1]} for call in calls]
    return {"calls": explanation, **more}


def case(tools: dict[str, Any] | None = None, **fields: Any) -> Case:
    return Case.model_validate(
        {"case_id": "c", "turns": [{"query": "go"}], **({"tools": tools} if tools else {}), **fields}
    )


def values(tools: dict[str, Any], *actual: Called) -> tuple[float | None, ...]:
    """Return strict accuracy, unordered accuracy and F1 of calls that were made one after the other."""
    calls = [tool_call(name, arguments) for name, arguments in actual]
    scores = scores_of(ToolCalls(), subject(conversation(turn("go", "done", *calls)), case(tools)))
    return tuple(scores[name].value for name in NAMES)


NAMES = ("tool_call_accuracy", "tool_call_accuracy_unordered", "tool_call_f1")
SEARCH: Called = ("search", {"q": "hotel", "n": 3})
BOOK: Called = ("book", {"name": "Ritz", "time": "20:00"})
LOG: Called = ("log", {})


@pytest.mark.parametrize(
    ("actual", "worked_out"),
    [
        ((SEARCH, BOOK), (1.0, 1.0, 1.0)),
        # One call beyond the two: 2 of 2 + 1; F1 of precision 2/3 and recall 1.
        ((SEARCH, BOOK, LOG), (2 / 3, 2 / 3, 0.8)),
        # Without crossing, one of two can be paired; in any order both. F1 knows no order.
        ((BOOK, SEARCH), (0.5, 1.0, 1.0)),
        # One of two arguments of the second call: (1 + 1/2) / 2; one of two calls is exactly right.
        ((SEARCH, ("book", {"name": "Ritz", "time": "21:00"})), (0.75, 0.75, 0.5)),
        # An unexpected argument: 2 of 3 keys agree.
        ((SEARCH, ("book", {**BOOK[1], "pay": True})), ((1 + 2 / 3) / 2, (1 + 2 / 3) / 2, 0.5)),
        ((SEARCH,), (0.5, 0.5, 2 / 3)),
        ((), (0.0, 0.0, 0.0)),
        # A retry is a call beyond the expected ones.
        ((SEARCH, SEARCH, BOOK), (2 / 3, 2 / 3, 0.8)),
        ((LOG,), (0.0, 0.0, 0.0)),
    ],
)
def test_each_fault_costs_its_share(actual: tuple[Called, ...], worked_out: tuple[float, ...]) -> None:
    assert pytest.approx(worked_out) == values(expected(SEARCH, BOOK, order="relative"), *actual)


def test_arguments_compare_as_the_case_says() -> None:
    loose = {
        "tool_name": "search",
        "parameters": {"q": "HOTEL", "n": 5},
        "match": {"q": "casefold", "n": {"mode": "number", "tolerance": 2}},
    }
    assert (1.0, 1.0, 1.0) == values(expected(loose), SEARCH)
    assert (1.0, 1.0, 1.0) == values(expected(("pay", {"sum": 5})), ("pay", {"sum": 5.0}))
    assert (0.0, 0.0, 0.0) == values(expected(("pay", {"sum": 1})), ("pay", {"sum": True}))
    free = {"tool_name": "book", "parameters": {"name": "Ritz"}, "ignore_extra_parameters": True}
    assert (1.0, 1.0, 1.0) == values(expected(free), BOOK)


def test_calls_that_a_case_allows_or_excuses_cost_nothing() -> None:
    optional = {"tool_name": "log", "parameters": {}, "required": False}
    by_effect = {"extra_calls": {"read": "allow", "write": "forbid"}}
    reading = case(expected(SEARCH, **by_effect), effects={"log": "read"})
    actual = conversation(turn("go", "done", tool_call(*LOG), tool_call(*SEARCH)))

    assert (1.0, 1.0, 1.0) == values(expected(SEARCH, extra_calls="allow"), LOG, SEARCH, LOG)
    assert (1.0, 1.0, 1.0) == values(expected(optional, SEARCH), LOG, SEARCH)
    assert (1.0, 1.0, 1.0) == values(expected(optional, SEARCH), SEARCH)
    # The second call is excused no more.
    assert (0.5, 0.5, 2 / 3) == values(expected(optional, SEARCH), LOG, LOG, SEARCH)
    assert [1.0, 1.0, 1.0] == [score.value for score in scores_of(ToolCalls(), subject(actual, reading)).values()]
    # A call that is forbidden by name is never allowed.
    assert (0.5, 0.5, 2 / 3) == values(expected(SEARCH, extra_calls="allow", forbidden=["log"]), SEARCH, LOG)


def test_a_call_made_wrongly_is_no_allowed_extra_call() -> None:
    invalid: Called = ("search", {"q": "hotel", "n": 4})
    assert (0.5, 0.5, 0.0) == values(expected(SEARCH, extra_calls="allow"), invalid)
    # Of two calls expected and two made one is right: not two thirds, as if the wrong one had not been made.
    assert (0.75, 0.75, 0.5) == values(expected(SEARCH, BOOK, extra_calls="allow"), invalid, BOOK, LOG)


def test_the_best_of_the_alternatives_counts() -> None:
    tools = expected(SEARCH, alternatives=[expected(BOOK), expected(SEARCH, BOOK)])
    assert (1.0, 1.0, 1.0) == values(tools, BOOK)
    assert (1.0, 1.0, 1.0) == values(tools, SEARCH, BOOK)


def test_equal_calls_are_paired_by_their_arguments_and_not_by_their_place() -> None:
    tools = expected(("a", {"x": 1, "y": 1}), ("a", {"x": 2, "y": 2}))
    # In any order the second one agrees with the first in full; in order each agrees in nothing but one by one.
    assert (0.5, 1.0, 1.0) == values(tools, ("a", {"x": 2, "y": 2}), ("a", {"x": 1, "y": 1}))
    # Paired for agreement, 1 + 1/2 of two; no pairing by sorted arguments finds that.
    assert (0.75, 0.75, 0.5) == values(tools, ("a", {"x": 1, "y": 2}), ("a", {"x": 2, "y": 2}))


def test_strict_order_takes_the_best_pairing_that_does_not_cross() -> None:
    tools = expected(("a", {"x": 1, "y": 1}), ("a", {"x": 2, "y": 1}), order="exact")
    # Crosswise both agree in full; in order each agrees in y alone.
    assert (0.5, 1.0, 1.0) == values(tools, ("a", {"x": 2, "y": 1}), ("a", {"x": 1, "y": 1}))


def test_calls_of_one_step_have_no_order_on_either_side() -> None:
    together = expected(
        {"tool_name": "a", "parameters": {}, "step": 1}, {"tool_name": "b", "parameters": {}, "step": 1}
    )
    assert (1.0, 1.0, 1.0) == values(together, ("b", {}), ("a", {}))

    actual = conversation(turn("go", "done", tool_call("b", {}, step=1), tool_call("a", {}, step=1)))
    scores = scores_of(ToolCalls(), subject(actual, case(expected(("a", {}), ("b", {}), order="exact"))))
    assert 1.0 == scores["tool_call_accuracy"].value


def test_calls_are_sets_no_more_and_any_json_value_is_an_argument() -> None:
    pay: Called = ("pay", {"ids": [1, {"k": 2}]})
    # Made five times where it is expected once: precision 1/5, recall 1.
    assert pytest.approx((1 / 5, 1 / 5, 1 / 3)) == values(expected(pay), *[pay] * 5)
    assert (1.0, 1.0, 1.0) == values(expected(pay, pay), pay, pay)


def test_nothing_expected_and_nothing_made_is_perfect() -> None:
    assert (1.0, 1.0, 1.0) == values(expected())
    assert (0.0, 0.0, 0.0) == values(expected(), LOG)
    assert (1.0, 1.0, 1.0) == values(expected(extra_calls="allow"), LOG)


def test_a_call_that_answered_with_an_error_was_not_made_unless_the_settings_count_it() -> None:
    actual = conversation(turn("go", "done", tool_call(*SEARCH, error="timeout"), tool_call(*SEARCH)))
    plain, counted = (
        scores_of(ToolCalls(), subject(actual, case(expected(SEARCH)), count_errors=count)) for count in (False, True)
    )
    assert (1.0, 0.5) == (plain["tool_call_accuracy"].value, counted["tool_call_accuracy"].value)
    assert (1.0, 2 / 3) == (plain["tool_call_f1"].value, counted["tool_call_f1"].value)


def test_a_transfer_counts_where_it_is_expected() -> None:
    moved = conversation(turn("go", "done", tool_call("to_sales", {}, kind="transfer")))
    required, unnamed = (
        scores_of(ToolCalls(), subject(moved, case(tools))) for tools in (expected(("to_sales", {})), expected())
    )
    assert {1.0} == {score.value for score in (*required.values(), *unnamed.values())}


def test_calls_expected_of_a_turn_are_looked_for_in_that_turn() -> None:
    turns = [{"query": "find one", "tools": expected(SEARCH)}, {"query": "book it", "tools": expected(BOOK)}]
    required = Case.model_validate({"case_id": "c", "turns": turns})
    right = conversation(turn("find one", "ok", tool_call(*SEARCH)), turn("book it", "ok", tool_call(*BOOK)))
    early = conversation(turn("find one", "ok", tool_call(*SEARCH), tool_call(*BOOK)), turn("book it", "ok"))

    assert {1.0} == {score.value for score in scores_of(ToolCalls(), subject(right, required)).values()}
    # Turn 1: one of one, one beyond; turn 2: none of one. Together 1 of 3.
    assert [1 / 3, 1 / 3, 0.5] == [score.value for score in scores_of(ToolCalls(), subject(early, required)).values()]


def test_what_is_wrong_is_named() -> None:
    invalid: Called = ("book", {"name": "Ritz", "time": "21:00"})
    tools = expected(SEARCH, BOOK, ("pay", {}), order="relative")
    calls = [tool_call(name, arguments) for name, arguments in (invalid, LOG, LOG, SEARCH)]
    scores = scores_of(ToolCalls(), subject(conversation(turn("go", "done", *calls)), case(tools)))
    explanation = "not made: pay; not asked for: log (2 times); other arguments: book(time)"

    assert exactly(scores["tool_call_accuracy"].explanation, explanation=explanation) == snapshot(
        "<explanation>; not in the expected order"
    )
    assert explanation == scores["tool_call_accuracy_unordered"].explanation


def abstained(results: dict[str, Any]) -> set[tuple[str | None, float | None]]:
    return {(score.reason, score.value) for score in results.values()}


def test_without_what_it_needs_it_abstains_and_never_scores_0() -> None:
    actual = conversation(turn("go", "done", tool_call(*SEARCH)))
    bare = conversation(turn("go", "done", replace(tool_call("search"), arguments=None)))
    silent = conversation(turn("go", None, query_captured=False, answer_captured=False))

    assert {("unmatched", None)} == abstained(scores_of(ToolCalls(), subject(actual, None)))
    assert {("no_data", None)} == abstained(scores_of(ToolCalls(), subject(actual, case())))
    assert {("content_not_captured", None)} == abstained(scores_of(ToolCalls(), subject(bare, case(expected(SEARCH)))))
    assert {("content_not_captured", None)} == abstained(
        scores_of(ToolCalls(), subject(silent, case(expected(SEARCH))))
    )
    assert {("empty", None)} == abstained(
        scores_of(ToolCalls(), subject(replace(actual, turns=()), case(expected(SEARCH))))
    )


def test_a_turn_that_may_still_come_is_awaited_and_one_that_never_came_is_missing() -> None:
    turns = [{"query": "find one", "tools": expected(SEARCH)}, {"query": "book it", "tools": expected(BOOK)}]
    required = Case.model_validate({"case_id": "c", "turns": turns})
    quiet, ended = (
        conversation(turn("find one", "ok", tool_call(*SEARCH)), closed_by=closed) for closed in ("idle", "end_mark")
    )
    assert {("incomplete", None)} == abstained(scores_of(ToolCalls(), subject(quiet, required)))
    scores = scores_of(ToolCalls(), subject(ended, required))
    assert [0.5, 0.5, 2 / 3] == [score.value for score in scores.values()]
    assert "not made: book" == scores["tool_call_f1"].explanation


def test_a_parameter_that_only_a_judge_can_compare_leaves_no_score() -> None:
    tools = expected({"tool_name": "search", "parameters": {"q": "inn", "n": 3}, "match": {"q": "judge"}})
    scores = scores_of(ToolCalls(), subject(conversation(turn("go", "done", tool_call(*SEARCH))), case(tools)))
    assert {("no_data", None)} == abstained(scores)
    assert passage(scores["tool_call_f1"].explanation) == snapshot("parameter q of search is for a judge to compare")


_CALLS = st.lists(
    st.tuples(st.sampled_from("abc"), st.dictionaries(st.sampled_from("xy"), st.integers(0, 1), max_size=2)), max_size=5
)


@given(_CALLS, _CALLS)
def test_the_laws_hold(required: list[Called], actual: list[Called]) -> None:
    strict, unordered, f1 = values(expected(*required), *actual)
    assert strict is not None
    assert unordered is not None
    assert f1 is not None
    assert 0.0 <= strict <= unordered <= 1.0
    assert 0.0 <= f1 <= 1.0
    assert values(expected(*required), *required) == (1.0, 1.0, 1.0)
    # An unexpected call never raises a score.
    more = values(expected(*required), *actual, ("stranger", {}))
    assert all(
        after is not None and after <= before + 1e-12
        for after, before in zip(more, (strict, unordered, f1), strict=True)
    )


@given(_CALLS, _CALLS)
def test_f1_is_that_of_the_calls_as_multisets(required: list[Called], actual: list[Called]) -> None:
    """Counted independently: with exact arguments, equal calls are equal texts."""
    left, hits = [repr((name, sorted(args.items()))) for name, args in required], 0
    for name, args in actual:
        text = repr((name, sorted(args.items())))
        if text in left:
            left.remove(text)
            hits += 1
    worked_out = Fraction(2 * hits, len(required) + len(actual)) if required or actual else Fraction(1)
    assert pytest.approx(float(worked_out)) == values(expected(*required), *actual)[2]
