"""Whether the paired calls were made in the expected order."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_agentic.scoring.align import Pair
    from otel_agentic.scoring.compiled import CompiledCall
    from otel_agentic.scoring.made import MadeCall
    from otel_agentic.truth.model import Order


class Misplaced(NamedTuple):
    """A made call, by its place among them, that was made out of order: `belongs` says where, `came` where it came.

    Of order `exact` both are numbers, counted in groups from 1. Of `relative`, `belongs` is "after" or "before" and the
    name of a call that was made in its place, `came` is None.
    """

    place: int
    expected: CompiledCall
    belongs: str | int
    came: int | None


def misplaced(made: Sequence[MadeCall], pairs: Sequence[Pair], order: Order) -> list[Misplaced]:
    """Return the pairs of required calls whose call was made out of its place, in the order in which they were made.

    Of order `relative`: those outside a longest run of made calls whose expected groups never go back. Of `exact`: those
    whose rank among the paired calls is not their group. Calls of one made step count as made in the expected order.

    Args:
        made: the made calls, in order of their place.
        pairs: of required calls, in order of the made ones.
        order: that of the expectation.
    """
    if order == "any" or not pairs:
        return []
    return _out_of_rank(made, pairs) if order == "exact" else _outside_longest_run(made, pairs)


def _out_of_rank(made: Sequence[MadeCall], pairs: Sequence[Pair]) -> list[Misplaced]:
    found: list[Misplaced] = []
    rank, turn_index, step = 0, -1, -1
    for place, expected, _, _ in pairs:
        one = made[place]
        if one.call.step != step or one.turn_index != turn_index:
            rank, turn_index, step = rank + 1, one.turn_index, one.call.step
        if rank != expected.group:
            found.append(Misplaced(place, expected, expected.group, rank))
    return found


def _outside_longest_run(made: Sequence[MadeCall], pairs: Sequence[Pair]) -> list[Misplaced]:
    walk: list[tuple[int, int, int, int, CompiledCall]] = []
    for place, expected, _, _ in pairs:
        one = made[place]
        walk.append((one.turn_index, one.call.step, expected.group, place, expected))
    walk.sort()
    kept = longest_non_decreasing([one[2] for one in walk])
    there = set(kept)
    around = [one[4] for one in walk]
    found = [
        Misplaced(one[3], one[4], _belongs(around, kept, index), None)
        for index, one in enumerate(walk)
        if index not in there
    ]
    return sorted(found)


def _belongs(walk: Sequence[CompiledCall], kept: Sequence[int], index: int) -> str:
    """Return beside which call of the run a call belongs that was made on its wrong side.

    There is one, or the run were longer; of several it is the one that it belongs next to.
    """
    group = walk[index].group
    before = [walk[other].name for other in kept if other < index and walk[other].group > group]
    after = [walk[other].name for other in kept if other > index and walk[other].group < group]
    return f"before {before[0]}" if before else f"after {after[-1]}"


def longest_non_decreasing(values: Sequence[int]) -> list[int]:
    """Return the places of a longest non-decreasing subsequence.

    Ref: C. Schensted (1961), Longest increasing and decreasing subsequences, with ties allowed.

    >>> longest_non_decreasing([3, 1, 2, 2, 1])
    [1, 2, 3]
    """
    tails: list[int] = []
    tail_places: list[int] = []
    before: list[int] = []
    for place, value in enumerate(values):
        length = bisect_right(tails, value)
        before.append(tail_places[length - 1] if length else -1)
        if length == len(tails):
            tails.append(value)
            tail_places.append(place)
        else:
            tails[length], tail_places[length] = value, place
    kept: list[int] = []
    place = tail_places[-1] if tail_places else -1
    while place >= 0:
        kept.append(place)
        place = before[place]
    return kept[::-1]
