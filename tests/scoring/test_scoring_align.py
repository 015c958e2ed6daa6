"""Which made call answers which expected one: held against all pairings that there are."""

from __future__ import annotations

import json
import subprocess
import sys
from fractions import Fraction
from itertools import permutations, product
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings

from otel_agentic.scoring.align import sort_calls
from otel_agentic.scoring.compile import compiled
from tests.scoring.drawn import BYTES, RULES, Call, Choices, Made, expectation, made_of, scored

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from otel_agentic.scoring import ActualCall
    from otel_agentic.truth import ExpectedCall, ToolExpectation

#: Expected index -> place of the made call.
Pairing = dict[int, int]


def agreement(expected: ExpectedCall, made: ActualCall) -> Fraction:
    """Return equal keys over all keys, the slow and plain way; values here are numbers that are neither 0 nor 1."""
    given = made.call.arguments or {}
    keys = set(expected.parameters) | (set() if expected.ignore_extra_parameters else set(given))
    equal = sum(key in given and expected.parameters.get(key) == given[key] for key in keys & set(expected.parameters))
    return Fraction(equal, len(keys)) if keys else Fraction(1)


def all_pairings(expected: Sequence[ExpectedCall], made: Sequence[ActualCall]) -> Iterator[Pairing]:
    """Yield every pairing in which an optional call is paired in full or not at all."""
    choices = [
        [None, *(place for place, one in enumerate(made) if call.required or agreement(call, one) == 1)]
        for call in expected
    ]
    for places in product(*choices):
        taken = [place for place in places if place is not None]
        if len(set(taken)) == len(taken):
            yield {index: place for index, place in enumerate(places) if place is not None}


def worth(wanted: ToolExpectation, made: Sequence[ActualCall], pairing: Pairing) -> tuple[int, Fraction, int, int]:
    """Return what a pairing is worth: required pairs, their agreement, excused pairs, closeness of ranks."""
    expected = wanted.calls
    required = [(index, place) for index, place in pairing.items() if expected[index].required]
    steps = [0 if wanted.order == "any" else (call.step or index + 1) for index, call in enumerate(expected)]
    made_steps = [one.step for one in made]
    # Under an order calls of one step share the rank of the first; without one the earlier calls are the closer ones.
    columns = list(range(len(made))) if len(set(steps)) == 1 else [made_steps.index(step) for step in made_steps]
    apart = sum((sum(one < steps[index] for one in steps) - columns[place]) ** 2 for index, place in pairing.items())
    agreed = sum((agreement(expected[index], made[place]) for index, place in required), Fraction(0))
    return len(required), agreed, len(pairing) - len(required), -apart


def found(wanted: ToolExpectation, made: Sequence[ActualCall]) -> Pairing:
    _, _, pairs, *_ = sort_calls(compiled(wanted, RULES), made)
    return {pair[1].index: pair[0] for pair in pairs}


def drawn(choices: Choices, most: int, *, optional: bool) -> tuple[ToolExpectation, list[ActualCall]]:
    def parameters() -> dict[str, Any]:
        return {key: choices.below(3) + 2 for key in "pqr" if choices.below(3)}

    count = choices.below(most) + 1
    wanted: list[Call] = [
        {
            "tool_name": "a",
            "parameters": parameters(),
            "required": not optional or choices.below(3) > 0,
            "ignore_extra_parameters": choices.below(4) == 0,
            "step": choices.below(3) + 1,
        }
        for _ in range(count)
    ]
    made: list[Made] = []
    step = 1
    for place in range(choices.below(most + 1)):
        # As expected at times, for agreement in full is rare among random calls.
        as_expected = place < count and choices.below(2)
        made.append(("a", wanted[place]["parameters"] if as_expected else parameters(), step))
        step += choices.below(3) > 0
    return expectation(wanted, order=choices.of("any", "relative")), made_of(made)


@given(BYTES)
@settings(max_examples=1000)
def test_no_pairing_of_up_to_four_calls_is_better(data: bytes) -> None:
    wanted, made = drawn(Choices(data), 4, optional=True)
    best = max(worth(wanted, made, pairing) for pairing in all_pairings(wanted.calls, made))
    assert worth(wanted, made, found(wanted, made)) == best


@given(BYTES)
@settings(max_examples=60)
def test_no_pairing_of_six_calls_is_better(data: bytes) -> None:
    wanted, made = drawn(Choices(data), 6, optional=False)
    count = len(wanted.calls)
    if count > len(made):
        best = max(
            worth(wanted, made, {index: place for place, index in enumerate(rows)})
            for rows in permutations(range(count), len(made))
        )
    else:
        best = max(worth(wanted, made, dict(enumerate(places))) for places in permutations(range(len(made)), count))
    assert worth(wanted, made, found(wanted, made)) == best


@given(BYTES)
def test_the_list_order_of_expected_calls_changes_no_score_where_steps_are_given(data: bytes) -> None:
    choices = Choices(data)
    wanted, made = drawn(choices, 5, optional=True)
    listed = wanted.model_copy(update={"calls": tuple(choices.shuffled(wanted.calls))})
    one, other = scored(wanted, made), scored(listed, made)
    assert (other.dimensions, other.overall, other.outcome) == (one.dimensions, one.overall, one.outcome)


def test_three_hundred_calls_of_one_name_are_paired() -> None:
    wanted = expectation({"tool_name": "a", "parameters": {"x": place}} for place in range(300))
    made = made_of(("a", {"x": 299 - place}, place + 1) for place in range(300))
    assert scored(wanted, made).overall == 1.0


SCRIPT = """
import json
from tests.scoring.drawn import Choices, expectation, made_of, scored
from random import Random

random = Random(7)
for _ in range(60):
    choices = Choices(random.randbytes(90))
    calls, made, manner = choices.expected(6), choices.made(7), choices.manner()
    found = scored(expectation(calls, expectation(choices.expected(3)), **manner), made_of(made))
    print(json.dumps([found.outcome, found.overall, dict(found.dimensions), found.explanation]))
"""


@pytest.mark.slow
def test_no_score_depends_on_the_hash_seed() -> None:
    told = {
        subprocess.run(
            [sys.executable, "-c", SCRIPT], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout
        for seed in ("0", "1", "2", "3")
    }
    assert len(told) == 1
    assert len({json.loads(line)[1] for line in told.pop().splitlines()}) > 5


def test_a_solver_is_imported_only_where_a_name_repeats() -> None:
    script = (
        "import sys; from tests.scoring.drawn import expectation, made_of, scored\n"
        "calls = [{'tool_name': 'a'}, {'tool_name': 'b'}]\n"
        "made = [('a', {}, 1), ('b', {}, 2)]\n"
        "print(scored(expectation(calls), made_of(made)).overall, 'scipy' in sys.modules, 'numpy' in sys.modules)\n"
    )
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert told.split() == ["1.0", "False", "False"]
