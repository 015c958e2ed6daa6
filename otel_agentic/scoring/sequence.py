"""Whether the paired calls were made in the expected order."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_agentic.scoring.align import Pair
    from otel_agentic.scoring.made import MadeCall
    from otel_agentic.truth.model import Order


class Misplaced(NamedTuple):
    """A paired call that was made out of its place: `belongs` says where it belongs, `came` where it came.

    Of order `exact` both are numbers, counted in groups from 1. Of `relative`, `belongs` is "after" or "before" and the
    name of a call that was made in its place, `came` is None.
    """

    pair: Pair
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
    rank, last = 0, None
    for pair in pairs:
        step = made[pair.place].step
        rank += step != last
        last = step
        if rank != pair.expected.group:
            found.append(Misplaced(pair, pair.expected.group, rank))
    return found


def _outside_longest_run(made: Sequence[MadeCall], pairs: Sequence[Pair]) -> list[Misplaced]:
    groups = [pair.expected.group for pair in pairs]
    if groups == sorted(groups):
        return []
    walk = sorted(pairs, key=lambda pair: (made[pair.place].step, pair.expected.group, pair.place))
    kept = longest_non_decreasing([pair.expected.group for pair in walk])
    there = set(kept)
    found = [
        Misplaced(pair, _belongs(walk, kept, index), None) for index, pair in enumerate(walk) if index not in there
    ]
    return sorted(found, key=lambda one: one.pair.place)


def _belongs(walk: Sequence[Pair], kept: Sequence[int], index: int) -> str:
    """Return the nearest call of the run on whose wrong side a call was made: there is one, or the run were longer."""
    group = walk[index].expected.group
    for other in sorted(kept, key=lambda other: abs(other - index)):
        if other < index and walk[other].expected.group > group:
            return f"before {walk[other].expected.name}"
        if other > index and walk[other].expected.group < group:
            return f"after {walk[other].expected.name}"
    raise AssertionError("a call outside a longest run contradicts one inside it")


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
        tails[length : length + 1] = [value]
        tail_places[length : length + 1] = [place]
    kept: list[int] = []
    place = tail_places[-1] if tail_places else -1
    while place >= 0:
        kept.append(place)
        place = before[place]
    return kept[::-1]
