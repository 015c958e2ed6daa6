"""How much of a sequence stands in the order of another one: the longest common subsequence, where parts may be unordered."""

from __future__ import annotations

from collections import Counter
from itertools import accumulate
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Names of a sequence that are looked at: the time grows with the square of them.
MAX_LENGTH: Final = 200


def in_order(names: Sequence[str], groups: Sequence[Sequence[str]]) -> int:
    """Return the length of the longest common subsequence of some names and some groups of names, one after the other.

    The names of a group may come in any order among themselves; with groups of one name each it is the plain longest common
    subsequence, with a single group the size of the intersection as multisets. Only the first `MAX_LENGTH` names, and names
    of groups, are looked at.

    Ref: R. Wagner, M. Fischer (1974), The string-to-string correction problem.

    >>> in_order(["a", "c", "b"], [["a"], ["b"], ["c"]]), in_order(["a", "c", "b"], [["a"], ["b", "c"]])
    (2, 3)
    >>> in_order([], [["a"]]), in_order(["a", "a"], [["a"]])
    (0, 1)
    """
    names, left = names[:MAX_LENGTH], MAX_LENGTH
    best = [0] * (len(names) + 1)  # best[p]: what the groups so far have in common with the first p names
    for group in groups:
        kept = group[:left]
        left -= len(kept)
        best = _with_one(names, kept[0], best) if len(kept) == 1 else _with_several(names, kept, best)
    return best[-1]


def common(names: Sequence[str], others: Sequence[str]) -> int:
    """Return how many names two sequences have in common, as multisets.

    >>> common(["a", "a", "b"], ["a", "b", "b"])
    2
    """
    return (Counter(names) & Counter(others)).total()


def _with_one(names: Sequence[str], wanted: str, before: Sequence[int]) -> list[int]:
    best = [before[0]]
    for place, name in enumerate(names):
        best.append(max(before[place + 1], best[place], before[place] + (name == wanted)))
    return best


def _with_several(names: Sequence[str], wanted: Sequence[str], before: Sequence[int]) -> list[int]:
    best = list(before)
    for start, found in enumerate(before):
        left, size = Counter(wanted), 0
        for place in range(start, len(names)):
            if left[names[place]] > 0:
                left[names[place]] -= 1
                size += 1
                best[place + 1] = max(best[place + 1], found + size)
                if size == len(wanted):
                    break
    return list(accumulate(best, max))
