"""The laws of tool correctness, checked against random expectations and calls."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from otel_agentic.scoring import ActualCall, Scope, ToolScore, score_tools
from tests.scoring.drawn import (
    BYTES,
    RULES,
    THOROUGH,
    WEIGHTS,
    Call,
    Choices,
    actual_calls,
    call_of,
    expectation,
    scored,
)

#: Each law holds of many small random inputs: 60 in the fast profile, 1,000 in the thorough one.
LAWS = settings(max_examples=60 if settings().max_examples < THOROUGH else 1000)
#: Modes under which a value agrees with itself, by what values they take.
SELF_AGREEING = ("exact", "unordered", "casefold", "any", "ignore", "judge", "contains")


def not_above(after: float | None, before: float | None) -> bool:
    return after is None or before is None or after <= before + 1e-9


def identical(choices: Choices, calls: list[Call]) -> list[ActualCall]:
    """Return the expected calls as made: groups in their order, within one in any; optional calls at times."""
    groups: dict[int, list[Call]] = defaultdict(list)
    for index, call in enumerate(calls):
        if call["required"] or choices.below(2):
            groups[call.get("step", index + 1)].append(call)
    return actual_calls(
        (call["tool_name"], call["parameters"], position)
        for position, step in enumerate(sorted(groups), start=1)
        for call in choices.shuffled(groups[step])
    )


def pairs_of(score: ToolScore) -> set[tuple[int, tuple[int, int, int]]]:
    """Return which expected call is paired with which made one, optional calls too."""
    assert score.calls is not None
    recorded = score.calls.actual
    return {
        (pair.expected.index, recorded[pair.actual_index].location)
        for pair in (*score.calls.pairs, *score.calls.excused)
    }


@given(BYTES)
@LAWS
def test_identical_calls_score_1_in_every_applicable_dimension_even_if_names_repeat(data: bytes) -> None:
    choices = Choices(data)
    calls = [
        {**call, "match": {key: choices.of(*SELF_AGREEING) for key in call["parameters"] if choices.below(3) == 0}}
        for call in choices.expected(6)
    ]
    flag = choices.of(None, True)
    actual = [replace(item, call=replace(item.call, used_flag=flag)) for item in identical(choices, calls)]
    manner, invalid = choices.manner(), expectation([{"tool_name": "z"}])
    for expected in (expectation(calls, **manner), expectation([{"tool_name": "z"}], expectation(calls, **manner))):
        result = scored(expected, actual)
        assert {value for value in result.dimensions.values() if value is not None} <= {1.0}
        assert (result.outcome, result.overall, result.faults) == ("pass", 1.0, ())
    assert scored(invalid, actual).outcome == "fail"


@given(BYTES)
@LAWS
def test_step_offsets_change_nothing(data: bytes) -> None:
    choices = Choices(data)
    calls, recorded, manner = choices.expected(), choices.actual(), choices.manner()
    offset, apart = choices.below(50), choices.below(3) + 1
    steps = [{**call, "step": call.get("step", index)} for index, call in enumerate(calls, start=1)]
    moved = [{**call, "step": call["step"] * apart + offset} for call in steps]
    later = [(name, arguments, step * apart + offset) for name, arguments, step in recorded]
    plain = scored(expectation(calls, **manner), actual_calls(recorded))
    for expected, shifted in ((steps, recorded), (moved, recorded), (calls, later), (moved, later)):
        other = scored(expectation(expected, **manner), actual_calls(shifted))
        assert other.dimensions == plain.dimensions
        assert (other.overall, other.outcome) == (plain.overall, plain.outcome)


@given(BYTES)
@LAWS
def test_key_order_changes_nothing(data: bytes) -> None:
    choices = Choices(data)
    calls, recorded, manner = choices.expected(), choices.actual(), choices.manner()
    calls += [{"tool_name": "a", "parameters": {"p": {"x": 1, "y": {"b": 2, "c": [1]}}}}]
    recorded += [("a", {"p": {"y": {"c": [1], "b": choices.below(3)}, "x": 1}}, 9)]
    turned = [{**call, "parameters": dict(reversed(call["parameters"].items()))} for call in calls]
    other = [(name, dict(reversed(arguments.items())), step) for name, arguments, step in recorded]
    first = scored(expectation(calls, **manner), actual_calls(recorded))
    assert scored(expectation(turned, **manner), actual_calls(other)) == first
    assert scored(expectation(turned, **manner), actual_calls(other)).explanation == first.explanation


@given(BYTES)
@LAWS
def test_without_an_order_the_order_of_calls_changes_nothing(data: bytes) -> None:
    choices = Choices(data)
    calls, recorded, manner = choices.expected(), choices.actual(), {**choices.manner(), "order": "any"}
    again = expectation(choices.expected(), **{**choices.manner(), "order": "any"})
    first = scored(expectation(calls, again, **manner), actual_calls(recorded))
    listed, shuffled = choices.shuffled(calls), actual_calls(choices.shuffled(recorded))
    other = scored(expectation(listed, again, **manner), shuffled)
    assert other.dimensions == first.dimensions
    assert (other.overall, other.outcome) == (first.overall, first.outcome)
    kinds = [[fault.kind for fault in result.faults if fault.kind != "wrong_parameters"] for result in (first, other)]
    assert kinds[0] == kinds[1]


@given(BYTES)
@LAWS
def test_adding_a_call_whose_name_stands_in_no_expectation_never_raises_a_score(data: bytes) -> None:
    choices = Choices(data)
    expected = expectation(choices.expected(), **choices.manner())
    several = expected.model_copy(update={"alternatives": (expectation(choices.expected(), **choices.manner()),)})
    calls, untrusted = actual_calls(choices.actual()), choices.parameters()
    more = [*calls, ActualCall(turn_index=0, call=call_of("stranger", untrusted, step=choices.below(6), position=9))]
    before, after = scored(expected, calls), scored(expected, more)
    assert all(not_above(after.dimensions[name], before.dimensions[name]) for name in before.dimensions)
    assert not_above(after.overall, before.overall)
    assert not_above(scored(several, more).overall, scored(several, calls).overall)


@given(BYTES)
@LAWS
def test_deleting_a_paired_call_never_raises_a_score_while_the_other_pairs_hold(data: bytes) -> None:
    choices = Choices(data)
    requested, recorded = choices.expected(), choices.actual()
    # A call that is surely paired: the last one of the expected, as it is expected.
    requested.append({"tool_name": choices.of("a", "d"), "parameters": choices.parameters(), "required": True})
    recorded.append((requested[-1]["tool_name"], requested[-1]["parameters"], 9))
    expected, calls = expectation(requested, **choices.manner()), actual_calls(recorded)
    before = scored(expected, calls)
    index, position = choices.of(*sorted(pairs_of(before)))
    after = scored(expected, [item for item in calls if item.location != position])
    assume(pairs_of(after) == pairs_of(before) - {(index, position)})
    assert not_above(after.dimensions["selection"], before.dimensions["selection"])
    assert not_above(after.dimensions["parameters"], before.dimensions["parameters"])
    last = position[:2] == max(item.step for item in calls)
    if expected.order == "relative" or last:
        # Of order `exact` the ranks of the others must hold as well: they do where nothing comes after.
        assert not_above(after.dimensions["sequence"], before.dimensions["sequence"])


def test_deleting_a_call_that_was_made_too_often_raises_selection_for_another_takes_its_place() -> None:
    expected, (first, other) = expectation([{"tool_name": "a"}]), actual_calls([("a", {}, 1), ("a", {}, 2)])
    assert scored(expected, [first, other]).dimensions["selection"] == 0.5
    assert scored(expected, [other]).dimensions["selection"] == 1.0


def test_deleting_a_call_may_raise_an_exact_sequence_for_ranks_close_up() -> None:
    expected = expectation([{"tool_name": name} for name in "abc"], order="exact")
    calls = actual_calls([("c", {}, 1), ("a", {}, 2), ("b", {}, 3)])
    assert scored(expected, calls).dimensions["sequence"] == 0.0
    assert scored(expected, calls[1:]).dimensions["sequence"] == 2 / 3


@given(BYTES, st.floats(min_value=1e-300, max_value=1e300))
@LAWS
def test_scaling_weights_changes_nothing(data: bytes, factor: float) -> None:
    choices = Choices(data)
    weights = {name: float(choices.below(4)) for name in WEIGHTS}
    assume(any(weights.values()))
    expected = expectation(choices.expected(), expectation(choices.expected()), **choices.manner())
    calls = actual_calls(choices.actual())
    first = scored(expected, calls, replace(RULES, weights=weights))
    scaled = {name: weight * factor for name, weight in weights.items()}
    other = scored(expected, calls, replace(RULES, weights=scaled))
    assert (other.outcome, other.reason) == (first.outcome, first.reason)
    assert other.overall == first.overall or abs((other.overall or 0) - (first.overall or 0)) < 1e-12


JSON = st.recursive(
    st.sampled_from([None, True, 0, 1, -0.0, 1e400, "", "1", "é"]) | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["", "a", "b"]), inner, max_size=2),
    max_leaves=4,
)


@given(JSON, JSON, st.sampled_from(SELF_AGREEING), st.booleans(), st.sampled_from(["any", "relative", "exact"]))
@LAWS
def test_no_json_input_raises(first: Any, other: Any, mode: str, text: object, order: str) -> None:
    requested: list[Call] = [{"tool_name": "a", "parameters": {"": first}, "match": {"": mode}}, {"tool_name": "b"}]
    expected = expectation(requested, expectation([*requested, *requested]), order=order)
    actual = call_of("a", {"": other, "b": first}, step=1, position=0, result=other)
    later = call_of("b", {"x": other}, step=2, position=1, result=first)
    calls = tuple(ActualCall(turn_index=0, call=call) for call in (actual, later))
    scope = Scope(turn_index=0, calls=calls, answers=((0, f"{first}"),), queries=(f"{other}",), captured=True)
    match = score_tools(expected, scope, replace(RULES, numbers_as_text=bool(text)))
    assert match.outcome in {"pass", "fail"} or (match.reason == "no_data" and mode == "judge")
    assert match.explanation
