"""The pairing of actual with expected calls, compared with an enumeration of all pairings."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import permutations, product
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings

from otel_agentic.scoring.align import sort_calls
from otel_agentic.scoring.compile import compiled
from tests.scoring.drawn import BYTES, RULES, Call, CallSpec, Choices, actual_calls, expectation, scored

if TYPE_CHECKING:
    from otel_agentic.scoring import ActualCall
    from otel_agentic.truth import ExpectedCall, ToolExpectation

#: Expected index -> position of the actual call.
Pairing = dict[int, int]


def agreement(expected: ExpectedCall, actual: ActualCall) -> Fraction:
    """Return equal keys over all keys, the slow and plain way; values here are numbers that are neither 0 nor 1."""
    given = actual.call.arguments or {}
    keys = set(expected.parameters) | (set() if expected.ignore_extra_parameters else set(given))
    equal = sum(key in given and expected.parameters.get(key) == given[key] for key in keys & set(expected.parameters))
    return Fraction(equal, len(keys)) if keys else Fraction(1)


def all_pairings(expected: Sequence[ExpectedCall], actual: Sequence[ActualCall]) -> Iterator[Pairing]:
    """Yield every pairing in which an optional call is paired in full or not at all."""
    choices = [
        [None, *(position for position, item in enumerate(actual) if call.required or agreement(call, item) == 1)]
        for call in expected
    ]
    for indices in product(*choices):
        selected = [position for position in indices if position is not None]
        if len(set(selected)) == len(selected):
            yield {index: position for index, position in enumerate(indices) if position is not None}


def worth(requested: ToolExpectation, actual: Sequence[ActualCall], pairing: Pairing) -> tuple[int, Fraction, int, int]:
    """Return the worth of a pairing: required pairs, their agreement, excused pairs, closeness of ranks."""
    expected = requested.calls
    required = [(index, position) for index, position in pairing.items() if expected[index].required]
    steps = [0 if requested.order == "any" else (call.step or index + 1) for index, call in enumerate(expected)]
    made_steps = [item.step for item in actual]
    # Under an order calls of one step share the rank of the first; without one the earlier calls are the closer ones.
    columns = list(range(len(actual))) if len(set(steps)) == 1 else [made_steps.index(step) for step in made_steps]
    apart = sum(
        (sum(item < steps[index] for item in steps) - columns[position]) ** 2 for index, position in pairing.items()
    )
    agreed = sum((agreement(expected[index], actual[position]) for index, position in required), Fraction(0))
    return len(required), agreed, len(pairing) - len(required), -apart


def result(expected: ToolExpectation, actual: Sequence[ActualCall]) -> Pairing:
    _, _, pairs, *_ = sort_calls(compiled(expected, RULES), actual)
    return {pair[1].index: pair[0] for pair in pairs}


def drawn(choices: Choices, most: int, *, optional: bool) -> tuple[ToolExpectation, list[ActualCall]]:
    def parameters() -> dict[str, Any]:
        return {key: choices.below(3) + 2 for key in "pqr" if choices.below(3)}

    count = choices.below(most) + 1
    expected: list[Call] = [
        {
            "tool_name": "a",
            "parameters": parameters(),
            "required": not optional or choices.below(3) > 0,
            "ignore_extra_parameters": choices.below(4) == 0,
            "step": choices.below(3) + 1,
        }
        for _ in range(count)
    ]
    actual: list[CallSpec] = []
    step = 1
    for index in range(choices.below(most + 1)):
        # As expected at times, for agreement in full is rare among random calls.
        as_expected = index < count and choices.below(2)
        actual.append(("a", expected[index]["parameters"] if as_expected else parameters(), step))
        step += choices.below(3) > 0
    return expectation(expected, order=choices.of("any", "relative")), actual_calls(actual)


@given(BYTES)
@settings(max_examples=10 * settings().max_examples)
def test_no_pairing_of_up_to_four_calls_is_better(data: bytes) -> None:
    expected, actual = drawn(Choices(data), 4, optional=True)
    best = max(worth(expected, actual, pairing) for pairing in all_pairings(expected.calls, actual))
    assert worth(expected, actual, result(expected, actual)) == best


@given(BYTES)
def test_no_pairing_of_six_calls_is_better(data: bytes) -> None:
    expected, actual = drawn(Choices(data), 6, optional=False)
    count = len(expected.calls)
    if count > len(actual):
        best = max(
            worth(expected, actual, {index: position for position, index in enumerate(rows)})
            for rows in permutations(range(count), len(actual))
        )
    else:
        best = max(
            worth(expected, actual, dict(enumerate(indices))) for indices in permutations(range(len(actual)), count)
        )
    assert worth(expected, actual, result(expected, actual)) == best


@given(BYTES)
def test_the_list_order_of_expected_calls_changes_no_score_where_steps_are_given(data: bytes) -> None:
    choices = Choices(data)
    expected, actual = drawn(choices, 5, optional=True)
    listed = expected.model_copy(update={"calls": tuple(choices.shuffled(expected.calls))})
    first, other = scored(expected, actual), scored(listed, actual)
    assert (other.dimensions, other.overall, other.outcome) == (first.dimensions, first.overall, first.outcome)


def test_three_hundred_calls_of_one_name_are_paired() -> None:
    expected = expectation({"tool_name": "a", "parameters": {"x": index}} for index in range(300))
    actual = actual_calls(("a", {"x": 299 - index}, index + 1) for index in range(300))
    assert scored(expected, actual).overall == 1.0


SCRIPT = """
import json
from tests.scoring.drawn import Choices, expectation, actual_calls, scored
from random import Random

random = Random(7)
for _ in range(60):
    choices = Choices(random.randbytes(90))
    calls, made, manner = choices.expected(6), choices.actual(7), choices.manner()
    found = scored(expectation(calls, expectation(choices.expected(3)), **manner), actual_calls(made))
    print(json.dumps([found.outcome, found.overall, dict(found.dimensions), found.explanation]))
"""


@pytest.mark.slow
def test_no_score_depends_on_the_hash_seed() -> None:
    message = {
        subprocess.run(
            [sys.executable, "-c", SCRIPT], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout
        for seed in ("0", "1", "2", "3")
    }
    assert len(message) == 1
    assert len({json.loads(line)[1] for line in message.pop().splitlines()}) > 5


def test_a_solver_is_imported_only_where_a_name_repeats() -> None:
    script = (
        "import sys; from tests.scoring.drawn import expectation, actual_calls, scored\n"
        "calls = [{'tool_name': 'a'}, {'tool_name': 'b'}]\n"
        "made = [('a', {}, 1), ('b', {}, 2)]\n"
        "print(scored(expectation(calls), actual_calls(made)).overall, 'scipy' in sys.modules, 'numpy' in sys.modules)\n"
    )
    message = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert message.split() == ["1.0", "False", "False"]
