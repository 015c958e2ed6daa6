"""Whether the paired calls were made in the expected order."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from otel_agentic.scoring.align import step_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_agentic.scoring.align import Pair
    from otel_agentic.scoring.made import MadeCall
    from otel_agentic.truth.model import ExpectedCall, Order


def in_order(
    expected: Sequence[ExpectedCall], made: Sequence[MadeCall], pairs: Sequence[Pair], order: Order
) -> set[int]:
    """Return which expected calls (by index) were made in their place; of order `any` all that were made.

    `relative`: those of a longest run of made calls whose expected groups never go back. `exact`: those whose rank among
    the paired calls is their group. Calls of one made step count as made in the expected order.
    """
    if order == "any":
        return {pair.expected for pair in pairs}
    groups = _groups(expected)
    walk = sorted(pairs, key=lambda pair: (made[pair.made].step, groups[pair.expected], made[pair.made].place))
    if order == "exact":
        ranks = {step: rank for rank, step in enumerate(sorted({made[pair.made].step for pair in walk}), start=1)}
        return {pair.expected for pair in walk if ranks[made[pair.made].step] == groups[pair.expected]}
    kept = longest_non_decreasing([groups[pair.expected] for pair in walk])
    return {walk[place].expected for place in kept}


def _groups(expected: Sequence[ExpectedCall]) -> dict[int, int]:
    """Return the group 1..G of each required call: steps made dense, equal steps one group."""
    steps = {index: step_of(call, index) for index, call in enumerate(expected) if call.required}
    dense = {step: group for group, step in enumerate(sorted(set(steps.values())), start=1)}
    return {index: dense[step] for index, step in steps.items()}


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
