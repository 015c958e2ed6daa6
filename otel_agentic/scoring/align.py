"""Which made call answers which expected call: an optimal one-to-one pairing, by name.

In this order: as many required calls as possible, the greatest agreement of their arguments, the most optional calls
that agree in full, ranks among the calls of the name as close as possible, the earlier call. So nothing depends on the
order of a list or on a hash seed.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.optimize import linear_sum_assignment

from otel_agentic.scoring.compare import Agreement, compare_arguments

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_agentic.scoring.made import MadeCall
    from otel_agentic.truth.model import ExpectedCall

#: Agreements are fractions; over their common denominator, up to this one, they compare exactly.
_MAX_DENOMINATOR: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """An expected call and the made call that answers it, by their places in the given sequences."""

    expected: int
    made: int
    agreement: Agreement


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairing:
    """Pairs of required calls and excused optional calls, the required calls without one, the made calls left over."""

    required: tuple[Pair, ...]
    excused: tuple[Pair, ...]
    missing: tuple[int, ...]
    extra: tuple[int, ...]


def pair_calls(expected: Sequence[ExpectedCall], made: Sequence[MadeCall], *, numbers_as_text: bool) -> Pairing:
    """Return the optimal pairing of expected and made calls.

    Args:
        expected: the calls of an expectation.
        made: the made calls in order of their place.
        numbers_as_text: whether "5" matches 5.
    """
    wanted, there = _by_name(expected, made)
    pairs: list[Pair] = []
    for name, rows in wanted.items():
        columns = there.get(name)
        if columns:
            pairs += _pair_name(expected, made, rows, columns, numbers_as_text=numbers_as_text)
    pairs.sort(key=lambda pair: pair.expected)
    taken_expected, taken_made = {pair.expected for pair in pairs}, {pair.made for pair in pairs}
    return Pairing(
        required=tuple(pair for pair in pairs if expected[pair.expected].required),
        excused=tuple(pair for pair in pairs if not expected[pair.expected].required),
        missing=tuple(i for i, call in enumerate(expected) if call.required and i not in taken_expected),
        extra=tuple(i for i in range(len(made)) if i not in taken_made),
    )


def step_of(expected: ExpectedCall, index: int) -> int:
    """Return the step of an expected call: its own, else its 1-based place in the list."""
    return index + 1 if expected.step is None else expected.step


def _by_name(
    expected: Sequence[ExpectedCall], made: Sequence[MadeCall]
) -> tuple[dict[str, list[int]], dict[str, list[int]]]:
    wanted: dict[str, list[int]] = defaultdict(list)
    there: dict[str, list[int]] = defaultdict(list)
    for index in sorted(range(len(expected)), key=lambda i: (step_of(expected[i], i), i)):
        wanted[expected[index].tool_name].append(index)
    for index, call in enumerate(made):
        there[call.call.name].append(index)
    return wanted, there


def _pair_name(
    expected: Sequence[ExpectedCall],
    made: Sequence[MadeCall],
    rows: list[int],
    columns: list[int],
    *,
    numbers_as_text: bool,
) -> list[Pair]:
    """Return the pairs of one name; `rows` and `columns` are in order of rank."""
    agreements = [
        [compare_arguments(expected[i], made[j].call.arguments, numbers_as_text=numbers_as_text) for j in columns]
        for i in rows
    ]
    required = [expected[i].required for i in rows]
    if len(rows) == len(columns) == 1:
        chosen = [(0, 0)]
    else:
        row_places, column_places = linear_sum_assignment(_values(agreements, required), maximize=True)
        chosen = list(zip(row_places.tolist(), column_places.tolist(), strict=True))
    return [
        Pair(expected=rows[r], made=columns[c], agreement=agreements[r][c])
        for r, c in chosen
        # An optional call is excused only in full; a solver without a better use pairs it all the same.
        if required[r] or agreements[r][c].full
    ]


def _values(
    agreements: list[list[Agreement]], required: list[bool]
) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Return what each pair is worth: the goals as digits of one whole number, the most important first.

    float64 holds such numbers exactly up to 2^53, enough for some 50 calls of one name with 10 parameters each; past
    that only the last digits, the ties, blur.
    """
    n, m = len(agreements), len(agreements[0])
    denominator = min(_MAX_DENOMINATOR, math.lcm(*(a.total or 1 for row in agreements for a in row)))
    earlier = n * m + 1
    closer = earlier * n * max(n, m) ** 2 + earlier
    excused = closer * (n + 1)
    values = np.zeros((n, m))
    for r, row in enumerate(agreements):
        for c, agreement in enumerate(row):
            if required[r]:
                values[r, c] = excused * (1 + round(denominator * _share(agreement)))
            elif agreement.full:
                values[r, c] = closer
            else:
                continue
            # The square keeps pairs from crossing where a sum of distances would not care.
            values[r, c] -= earlier * (r - c) ** 2 + c
    return values


def _share(agreement: Agreement) -> float:
    return agreement.score if agreement.captured else 0.0
