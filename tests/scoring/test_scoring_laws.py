"""The laws of tool correctness, held against random expectations and calls."""

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
    WEIGHTS,
    Call,
    Choices,
    call_of,
    expectation,
    made_of,
    scored,
)

LAWS = settings(max_examples=5 * settings().max_examples)
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
    return made_of(
        (call["tool_name"], call["parameters"], place)
        for place, step in enumerate(sorted(groups), start=1)
        for call in choices.shuffled(groups[step])
    )


def pairs_of(score: ToolScore) -> set[tuple[int, tuple[int, int, int]]]:
    """Return which expected call is paired with which made one, optional calls too."""
    assert score.calls is not None
    made = score.calls.actual
    return {(pair.expected.index, made[pair.place].place) for pair in (*score.calls.pairs, *score.calls.excused)}


@given(BYTES)
@LAWS
def test_identical_calls_score_1_in_every_applicable_dimension_whatever_repeats(data: bytes) -> None:
    choices = Choices(data)
    calls = [
        {**call, "match": {key: choices.of(*SELF_AGREEING) for key in call["parameters"] if choices.below(3) == 0}}
        for call in choices.expected(6)
    ]
    flag = choices.of(None, True)
    made = [replace(one, call=replace(one.call, used_flag=flag)) for one in identical(choices, calls)]
    manner, wrong = choices.manner(), expectation([{"tool_name": "z"}])
    for expected in (expectation(calls, **manner), expectation([{"tool_name": "z"}], expectation(calls, **manner))):
        found = scored(expected, made)
        assert {value for value in found.dimensions.values() if value is not None} <= {1.0}
        assert (found.outcome, found.overall, found.faults) == ("pass", 1.0, ())
    assert scored(wrong, made).outcome == "fail"


@given(BYTES)
@LAWS
def test_step_offsets_change_nothing(data: bytes) -> None:
    choices = Choices(data)
    calls, made, manner = choices.expected(), choices.made(), choices.manner()
    offset, apart = choices.below(50), choices.below(3) + 1
    steps = [{**call, "step": call.get("step", place)} for place, call in enumerate(calls, start=1)]
    moved = [{**call, "step": call["step"] * apart + offset} for call in steps]
    later = [(name, arguments, step * apart + offset) for name, arguments, step in made]
    plain = scored(expectation(calls, **manner), made_of(made))
    for expected, shifted in ((steps, made), (moved, made), (calls, later), (moved, later)):
        other = scored(expectation(expected, **manner), made_of(shifted))
        assert other.dimensions == plain.dimensions
        assert (other.overall, other.outcome) == (plain.overall, plain.outcome)


@given(BYTES)
@LAWS
def test_key_order_changes_nothing(data: bytes) -> None:
    choices = Choices(data)
    calls, made, manner = choices.expected(), choices.made(), choices.manner()
    calls += [{"tool_name": "a", "parameters": {"p": {"x": 1, "y": {"b": 2, "c": [1]}}}}]
    made += [("a", {"p": {"y": {"c": [1], "b": choices.below(3)}, "x": 1}}, 9)]
    turned = [{**call, "parameters": dict(reversed(call["parameters"].items()))} for call in calls]
    other = [(name, dict(reversed(arguments.items())), step) for name, arguments, step in made]
    one = scored(expectation(calls, **manner), made_of(made))
    assert scored(expectation(turned, **manner), made_of(other)) == one
    assert scored(expectation(turned, **manner), made_of(other)).explanation == one.explanation


@given(BYTES)
@LAWS
def test_without_an_order_the_order_of_calls_changes_nothing(data: bytes) -> None:
    choices = Choices(data)
    calls, made, manner = choices.expected(), choices.made(), {**choices.manner(), "order": "any"}
    again = expectation(choices.expected(), **{**choices.manner(), "order": "any"})
    one = scored(expectation(calls, again, **manner), made_of(made))
    listed, shuffled = choices.shuffled(calls), made_of(choices.shuffled(made))
    other = scored(expectation(listed, again, **manner), shuffled)
    assert other.dimensions == one.dimensions
    assert (other.overall, other.outcome) == (one.overall, one.outcome)
    kinds = [[fault.kind for fault in found.faults if fault.kind != "wrong_parameters"] for found in (one, other)]
    assert kinds[0] == kinds[1]


@given(BYTES)
@LAWS
def test_adding_a_call_whose_name_stands_in_no_expectation_never_raises_a_score(data: bytes) -> None:
    choices = Choices(data)
    expected = expectation(choices.expected(), **choices.manner())
    several = expected.model_copy(update={"alternatives": (expectation(choices.expected(), **choices.manner()),)})
    calls, stranger = made_of(choices.made()), choices.parameters()
    more = [*calls, ActualCall(turn_index=0, call=call_of("stranger", stranger, step=choices.below(6), position=9))]
    before, after = scored(expected, calls), scored(expected, more)
    assert all(not_above(after.dimensions[name], before.dimensions[name]) for name in before.dimensions)
    assert not_above(after.overall, before.overall)
    assert not_above(scored(several, more).overall, scored(several, calls).overall)


@given(BYTES)
@LAWS
def test_deleting_a_paired_call_never_raises_a_score_while_the_other_pairs_hold(data: bytes) -> None:
    choices = Choices(data)
    wanted, made = choices.expected(), choices.made()
    # A call that is surely paired: the last one of the expected, as it is expected.
    wanted.append({"tool_name": choices.of("a", "d"), "parameters": choices.parameters(), "required": True})
    made.append((wanted[-1]["tool_name"], wanted[-1]["parameters"], 9))
    expected, calls = expectation(wanted, **choices.manner()), made_of(made)
    before = scored(expected, calls)
    index, place = choices.of(*sorted(pairs_of(before)))
    after = scored(expected, [one for one in calls if one.place != place])
    assume(pairs_of(after) == pairs_of(before) - {(index, place)})
    assert not_above(after.dimensions["selection"], before.dimensions["selection"])
    assert not_above(after.dimensions["parameters"], before.dimensions["parameters"])
    last = place[:2] == max(one.step for one in calls)
    if expected.order == "relative" or last:
        # Of order `exact` the ranks of the others must hold as well: they do where nothing comes after.
        assert not_above(after.dimensions["sequence"], before.dimensions["sequence"])


def test_deleting_a_call_that_was_made_too_often_raises_selection_for_another_takes_its_place() -> None:
    expected, (one, other) = expectation([{"tool_name": "a"}]), made_of([("a", {}, 1), ("a", {}, 2)])
    assert scored(expected, [one, other]).dimensions["selection"] == 0.5
    assert scored(expected, [other]).dimensions["selection"] == 1.0


def test_deleting_a_call_may_raise_an_exact_sequence_for_ranks_close_up() -> None:
    expected = expectation([{"tool_name": name} for name in "abc"], order="exact")
    calls = made_of([("c", {}, 1), ("a", {}, 2), ("b", {}, 3)])
    assert scored(expected, calls).dimensions["sequence"] == 0.0
    assert scored(expected, calls[1:]).dimensions["sequence"] == 2 / 3


@given(BYTES, st.floats(min_value=1e-300, max_value=1e300))
@LAWS
def test_scaling_weights_changes_nothing(data: bytes, factor: float) -> None:
    choices = Choices(data)
    weights = {name: float(choices.below(4)) for name in WEIGHTS}
    assume(any(weights.values()))
    expected = expectation(choices.expected(), expectation(choices.expected()), **choices.manner())
    calls = made_of(choices.made())
    one = scored(expected, calls, replace(RULES, weights=weights))
    scaled = {name: weight * factor for name, weight in weights.items()}
    other = scored(expected, calls, replace(RULES, weights=scaled))
    assert (other.outcome, other.reason) == (one.outcome, one.reason)
    assert other.overall == one.overall or abs((other.overall or 0) - (one.overall or 0)) < 1e-12


JSON = st.recursive(
    st.sampled_from([None, True, 0, 1, -0.0, 1e400, "", "1", "é"]) | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["", "a", "b"]), inner, max_size=2),
    max_leaves=4,
)


@given(JSON, JSON, st.sampled_from(SELF_AGREEING), st.booleans(), st.sampled_from(["any", "relative", "exact"]))
@LAWS
def test_no_json_input_raises(one: Any, other: Any, mode: str, text: object, order: str) -> None:
    wanted: list[Call] = [{"tool_name": "a", "parameters": {"": one}, "match": {"": mode}}, {"tool_name": "b"}]
    expected = expectation(wanted, expectation([*wanted, *wanted]), order=order)
    made = call_of("a", {"": other, "b": one}, step=1, position=0, result=other)
    later = call_of("b", {"x": other}, step=2, position=1, result=one)
    calls = tuple(ActualCall(turn_index=0, call=call) for call in (made, later))
    scope = Scope(turn_index=0, calls=calls, answers=((0, f"{one}"),), queries=(f"{other}",), captured=True)
    found = score_tools(expected, scope, replace(RULES, numbers_as_text=bool(text)))
    assert found.outcome in {"pass", "fail"} or (found.reason == "no_data" and mode == "judge")
    assert found.explanation
