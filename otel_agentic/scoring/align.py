"""Which made call answers which expected call: an optimal one-to-one pairing, by name.

In this order: as many required calls as possible, the greatest agreement of their arguments, the most optional calls
that agree in full, ranks among the calls of the name as close as possible, the earlier call. Calls of one step share a
rank. So nothing depends on the order of a list or on a hash seed.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

from otel_agentic.scoring.compare import Agreement

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_agentic.scoring.compiled import CompiledCall
    from otel_agentic.scoring.made import MadeCall
    from otel_agentic.scoring.opinions import Opinions

#: Agreements are fractions; over their common denominator, up to this one, they compare exactly.
_MAX_DENOMINATOR: Final = 1_000_000


class Pair(NamedTuple):
    """An expected call and the place, among the made calls, of the one that answers it.

    A named tuple: one is made for every pair of calls, at a third of the time that a frozen dataclass takes.
    """

    place: int
    expected: CompiledCall
    agreement: Agreement


def pair_calls(
    expected: Sequence[CompiledCall], made: Sequence[MadeCall], places: Sequence[int], opinions: Opinions
) -> list[Pair]:
    """Return the optimal pairing of the calls of one name, in no order; an optional call is paired only in full.

    Args:
        expected: the expected calls of the name, ranked.
        made: all made calls, in order of their place.
        places: which of them have the name.
        opinions: of a judge, on parameters.
    """
    chosen = _in_turn(expected, made, places, opinions) or _optimal(expected, made, places, opinions)
    # A solver without a better use pairs an optional call that does not agree all the same.
    return [pair for pair in chosen if pair.expected.required or pair.agreement.full]


def _in_turn(
    expected: Sequence[CompiledCall], made: Sequence[MadeCall], places: Sequence[int], opinions: Opinions
) -> list[Pair]:
    """Return the calls paired one after the other where that is plainly optimal, else nothing.

    It is where all agree in full, and ranks cannot be closer: no two of the made calls share a step, or order is nothing.
    """
    first = places[: len(expected)]
    if len(first) < len(expected):
        return []
    if any(one.rank for one in expected) and len({made[place].step for place in first}) < len(first):
        return []
    pairs: list[Pair] = []
    for one, place in zip(expected, first, strict=True):
        agreement = one.parameters.agreement(made[place], opinions)
        if agreement.undecided or not agreement.full:
            return []
        pairs.append(Pair(place, one, agreement))
    return pairs


def _optimal(
    expected: Sequence[CompiledCall], made: Sequence[MadeCall], places: Sequence[int], opinions: Opinions
) -> list[Pair]:
    from scipy.optimize import linear_sum_assignment  # noqa: PLC0415 — slow to import, and few names repeat

    agreements = [[one.parameters.agreement(made[place], opinions) for place in places] for one in expected]
    steps = [made[place].step for place in places]
    values = _values(expected, agreements, [steps.index(step) for step in steps])
    rows, columns = linear_sum_assignment(values, maximize=True)
    return [
        Pair(places[column], expected[row], agreements[row][column])
        for row, column in zip(rows.tolist(), columns.tolist(), strict=True)
    ]


def _values(
    expected: Sequence[CompiledCall], agreements: Sequence[Sequence[Agreement]], ranks: Sequence[int]
) -> list[list[float]]:
    """Return what each pair is worth: the goals as digits of one whole number, the most important first.

    The solver counts in float64, which holds such numbers exactly up to 2^53: enough for some 30 calls of one name with
    10 parameters each; past that only the last digits, the ties, blur.
    """
    n, m = len(expected), len(ranks)
    flat = [agreement for row in agreements for agreement in row]
    denominator = min(_MAX_DENOMINATOR, math.lcm(*(agreement.total or 1 for agreement in flat)))
    # Each digit is worth more than all digits below it can be over n pairs.
    closer = n * (3 * m * m + m) + 1
    excused = closer * (n * max(n, m) ** 2 + 1)
    decided = excused * (n + 1)
    agreeing = decided * (n * max(agreement.undecided for agreement in flat) + 1)

    def value(row: int, column: int) -> int:
        one, agreement, apart = expected[row], agreements[row][column], column - row
        if one.required:
            worth = agreeing * (1 + round(denominator * _share(agreement))) - decided * agreement.undecided
        elif agreement.full:
            worth = excused
        else:
            return 0
        # Squares keep pairs from crossing where a sum of distances would not care; of two as far, the earlier call.
        return worth - closer * (one.rank - ranks[column]) ** 2 - (3 * apart * apart + apart)

    return [[float(value(row, column)) for column in range(m)] for row in range(n)]


def _share(agreement: Agreement) -> float:
    return agreement.score if agreement.captured else 0.0
