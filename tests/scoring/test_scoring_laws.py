"""The laws of tool correctness, held against random expectations and calls."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st

from otel_agentic.conversations.model import ToolCall
from otel_agentic.scoring import MadeCall, Scope, ToolRules, ToolScore, score_tools
from otel_agentic.truth import ToolExpectation

if TYPE_CHECKING:
    import random

NAMES = st.sampled_from(["a", "b", "c"])
VALUES = st.sampled_from([0, 1, "x", None, [1, 2]])
PARAMETERS = st.dictionaries(st.sampled_from(["p", "q"]), VALUES, max_size=2)
CALLS = st.lists(
    st.fixed_dictionaries(
        {
            "tool_name": NAMES,
            "parameters": PARAMETERS,
            "required": st.booleans(),
            "ignore_extra_parameters": st.booleans(),
        }
    ),
    max_size=4,
)
EXPECTATIONS = st.fixed_dictionaries(
    {
        "calls": CALLS,
        "order": st.sampled_from(["any", "relative", "exact"]),
        "extra_calls": st.sampled_from(["allow", "penalize", "forbid"]),
    }
)
MADE = st.lists(st.tuples(NAMES, PARAMETERS), max_size=5)
RULES = ToolRules(
    threshold=1.0,
    weights={"selection": 0.25, "parameters": 0.25, "sequence": 0.25, "utilization": 0.25},
    effects=(),
    count_errors=False,
    numbers_as_text=False,
)


def call_of(name: str, arguments: dict[str, Any], step: int) -> MadeCall:
    call = ToolCall(
        name=name,
        kind="tool",
        step=step,
        position=step,
        arguments=arguments,
        result=None,
        result_captured=True,
        error=None,
        call_id=None,
        trace_id="t",
        span_id=None,
        parent_span_id=None,
        agent_name=None,
        source="span",
    )
    return MadeCall(turn_index=0, call=call)


def calls_of(made: list[tuple[str, dict[str, Any]]]) -> list[MadeCall]:
    return [call_of(name, arguments, step) for step, (name, arguments) in enumerate(made, start=1)]


def expectation_of(fields: dict[str, Any]) -> ToolExpectation:
    return ToolExpectation.model_validate_json(json.dumps(fields))


def score(fields: dict[str, Any], calls: list[MadeCall], rules: ToolRules = RULES) -> ToolScore:
    ordered = tuple(sorted(calls, key=lambda made: made.place))
    scope = Scope(turn_index=0, calls=ordered, answers=((0, "done"),), queries=("go",), captured=True)
    return score_tools(expectation_of(fields), scope, rules)


def not_above(after: float | None, before: float | None) -> bool:
    return after is None or before is None or after <= before + 1e-9


@given(EXPECTATIONS)
@settings(max_examples=150)
def test_identical_calls_score_1_in_every_applicable_dimension_whatever_repeats(fields: dict[str, Any]) -> None:
    made = [(call["tool_name"], call["parameters"]) for call in fields["calls"]]
    found = score(fields, calls_of(made))
    assert {value for value in found.dimensions.values() if value is not None} <= {1.0}
    assert found.outcome == "pass"


@given(EXPECTATIONS, MADE, st.integers(min_value=0, max_value=50))
@settings(max_examples=100)
def test_step_offsets_change_nothing(
    fields: dict[str, Any], made: list[tuple[str, dict[str, Any]]], offset: int
) -> None:
    shifted = [call_of(name, arguments, step + offset) for step, (name, arguments) in enumerate(made, start=1)]
    steps = [{**call, "step": place + 1} for place, call in enumerate(fields["calls"])]
    moved = [{**call, "step": place + 1 + offset} for place, call in enumerate(fields["calls"])]
    plain = score({**fields, "calls": steps}, calls_of(made))
    for other in (score({**fields, "calls": moved}, shifted), score(fields, shifted)):
        assert other.dimensions == plain.dimensions
        assert (other.overall, other.outcome) == (plain.overall, plain.outcome)


@given(EXPECTATIONS, MADE)
@settings(max_examples=100)
def test_key_order_changes_nothing(fields: dict[str, Any], made: list[tuple[str, dict[str, Any]]]) -> None:
    turned = [{**call, "parameters": dict(reversed(call["parameters"].items()))} for call in fields["calls"]]
    other = [(name, dict(reversed(arguments.items()))) for name, arguments in made]
    assert score({**fields, "calls": turned}, calls_of(other)) == score(fields, calls_of(made))


@given(EXPECTATIONS, MADE, st.randoms(use_true_random=False))
@settings(max_examples=150)
def test_without_an_order_the_order_of_calls_changes_nothing(
    fields: dict[str, Any], made: list[tuple[str, dict[str, Any]]], shuffler: random.Random
) -> None:
    fields = {**fields, "order": "any"}
    shuffled, listed = list(made), list(fields["calls"])
    shuffler.shuffle(shuffled)
    shuffler.shuffle(listed)
    one, other = score(fields, calls_of(made)), score({**fields, "calls": listed}, calls_of(shuffled))
    assert other.dimensions == one.dimensions
    assert (other.overall, other.outcome) == (one.overall, one.outcome)
    assert sorted(fault.kind for fault in other.faults if fault.kind != "wrong_parameters") == sorted(
        fault.kind for fault in one.faults if fault.kind != "wrong_parameters"
    )


@given(EXPECTATIONS, st.lists(EXPECTATIONS, max_size=2), MADE, PARAMETERS, st.integers(min_value=0, max_value=6))
@settings(max_examples=200)
def test_adding_a_call_whose_name_stands_in_no_expectation_never_raises_a_score(
    fields: dict[str, Any],
    alternatives: list[dict[str, Any]],
    made: list[tuple[str, dict[str, Any]]],
    arguments: dict[str, Any],
    step: int,
) -> None:
    calls = calls_of(made)
    more = [*calls, call_of("stranger", arguments, step)]
    before, after = score(fields, calls), score(fields, more)
    assert all(not_above(after.dimensions[name], before.dimensions[name]) for name in before.dimensions)
    assert not_above(after.overall, before.overall)
    several = {**fields, "alternatives": alternatives}
    assert not_above(score(several, more).overall, score(several, calls).overall)


@given(EXPECTATIONS, NAMES, MADE, st.data())
@settings(max_examples=150)
def test_deleting_a_paired_call_never_raises_selection_or_parameters(
    fields: dict[str, Any], name: str, extra: list[tuple[str, dict[str, Any]]], data: st.DataObject
) -> None:
    calls = [{"tool_name": name, "parameters": {"p": 1}}, *fields["calls"]]
    required = [call["tool_name"] for call in calls if call.get("required", True)]
    # At most as many calls of the name as are required: past that, deleting one only takes an extra call away.
    count = data.draw(st.integers(min_value=1, max_value=required.count(name)))
    made = [(name, data.draw(PARAMETERS)) for _ in range(count)] + [one for one in extra if one[0] != name]
    gone = data.draw(st.integers(min_value=0, max_value=count - 1))
    there = calls_of(made)
    wanted = {**fields, "calls": calls}
    before, after = score(wanted, there), score(wanted, there[:gone] + there[gone + 1 :])
    assert not_above(after.dimensions["selection"], before.dimensions["selection"])
    assert not_above(after.dimensions["parameters"], before.dimensions["parameters"])


@given(st.permutations(range(5)), st.integers(min_value=1, max_value=5), st.data())
@settings(max_examples=100)
def test_deleting_a_call_never_raises_a_relative_sequence_while_the_pairing_holds(
    order: list[int], count: int, data: st.DataObject
) -> None:
    # One name each, so that the pairing of the calls that stay cannot change.
    fields = {"calls": [{"tool_name": f"n{place}"} for place in range(5)], "order": "relative"}
    there = calls_of([(f"n{place}", {}) for place in order[:count]])
    gone = data.draw(st.integers(min_value=0, max_value=count - 1))
    before, after = score(fields, there), score(fields, there[:gone] + there[gone + 1 :])
    assert not_above(after.dimensions["sequence"], before.dimensions["sequence"])


@given(EXPECTATIONS, MADE, st.floats(min_value=1e-300, max_value=1e300))
@settings(max_examples=100)
def test_scaling_weights_changes_nothing(
    fields: dict[str, Any], made: list[tuple[str, dict[str, Any]]], factor: float
) -> None:
    scaled = replace(RULES, weights={name: weight * factor for name, weight in RULES.weights.items()})
    one, other = score(fields, calls_of(made)), score(fields, calls_of(made), scaled)
    assert other.outcome == one.outcome
    assert other.overall == one.overall or abs((other.overall or 0) - (one.overall or 0)) < 1e-12


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(st.text(max_size=2), JSON, max_size=3), JSON, st.text(max_size=40))
@settings(max_examples=150)
def test_no_json_input_raises(arguments: dict[str, Any], result: Any, answer: str) -> None:
    made = call_of("a", arguments, 1)
    made = replace(made, call=replace(made.call, result=result))
    later = call_of("b", {"x": result}, 2)
    wanted = expectation_of(
        {"calls": [{"tool_name": "a", "parameters": {"": 1}}, {"tool_name": "b"}], "order": "exact"}
    )
    scope = Scope(turn_index=0, calls=(made, later), answers=((0, answer),), queries=(answer,), captured=True)
    assert score_tools(wanted, scope, RULES).outcome in {"pass", "fail"}
