"""Expected and made calls that fit each other: as many pairs as there can be, and whether they can stand in order."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import combinations_with_replacement, groupby, pairwise
from math import comb
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

#: Where there are more ways to divide responses among groups than this, they are not tried: calls alike make ever more.
_MOST_DIVISIONS: Final = 500
#: Paths of which the pairs are kept: the metrics of one conversation are computed one after the other.
_KEPT: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """An expected call: `group` is its place in the order, equal ones stand together; `fits` are the made calls that it fits."""

    group: int
    required: bool
    fits: frozenset[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Path:
    """Expected calls beside made ones.

    `steps` tells, for each made call in order, which response of the model asked for it; calls of one response have no
    order. `free` are the made calls that may be there without being expected.
    """

    wanted: tuple[Wanted, ...]
    steps: tuple[tuple[int, int], ...]
    free: frozenset[int] = frozenset()

    @property
    def required(self) -> int:
        """How many calls are required."""
        return sum(each.required for each in self.wanted)


@lru_cache(maxsize=_KEPT)
def most_pairs(path: Path) -> Mapping[int, int]:
    """Return expected -> made, one to one, as many as there can be: required calls first, then optional ones.

    Ref: H. W. Kuhn, The Hungarian method for the assignment problem, 1955 (augmenting paths).

    >>> either, first = (Wanted(group=1, required=True, fits=frozenset(fits)) for fits in ({0, 1}, {0}))
    >>> most_pairs(Path(wanted=(either, first), steps=((0, 1), (0, 2))))
    {0: 1, 1: 0}
    """
    pairs = _Pairs(path=path, allowed={index: each.fits for index, each in enumerate(path.wanted)})
    for index in sorted(pairs.allowed, key=lambda index: not path.wanted[index].required):
        pairs.add(index)
    return pairs.made_by_wanted


@lru_cache(maxsize=_KEPT)
def is_in_order(path: Path) -> bool:
    """Return whether each required call has a made call of its own, in order, whatever else was made.

    Expected calls of one group, and made calls of one response, have no order among themselves.
    """
    return _ordered(path) is not None


def is_exact(path: Path) -> bool:
    """Return whether the required calls were made in order, and nothing else but free and optional calls.

    Where one made call could stand for a required one and for an optional or free one alike, the first required calls in
    order are tried, and the last, and of calls few enough every way to divide the responses among the groups.
    """
    needed = frozenset(range(len(path.steps))) - path.free
    if len(needed) > len(path.wanted) or not needed <= frozenset().union(*(each.fits for each in path.wanted)):
        return False
    first = _ordered(path)
    if first is None:
        return False
    if _is_covered(first) or any(map(_is_covered, filter(None, (_ordered(_mirrored(path)),)))):
        return True
    return any(map(_is_covered, _divided(path)))


def _is_covered(pairs: _Pairs) -> bool:
    path = pairs.path
    pairs.allowed |= {index: each.fits for index, each in enumerate(path.wanted) if not each.required}
    return all(pairs.cover(made) for made in range(len(path.steps)) if made not in path.free)


def _mirrored(path: Path) -> Path:
    """Return the same calls from the last to the first."""
    last = len(path.steps) - 1
    wanted = (
        replace(each, group=-each.group, fits=frozenset(last - made for made in each.fits)) for each in path.wanted
    )
    return Path(wanted=tuple(wanted), steps=path.steps[::-1], free=frozenset(last - made for made in path.free))


def _divided(path: Path) -> Iterator[_Pairs]:
    """Yield pairs of all required calls, each time with another last response for each group but the last."""
    responses = _responses(path)
    groups = sorted({each.group for each in path.wanted if each.required})
    between = max(len(groups) - 1, 0)
    if comb(max(len(responses) + between - 1, 0), between) > _MOST_DIVISIONS:
        return
    for lasts in combinations_with_replacement(range(len(responses)), between):
        bounds = dict(zip(groups, pairwise((0, *lasts, len(responses) - 1)), strict=False))
        pairs = _Pairs(path=path)
        for index, each in enumerate(path.wanted):
            if each.required:
                first, last = bounds[each.group]
                pairs.allowed[index] = each.fits & frozenset().union(*responses[first : last + 1])
        if all(map(pairs.add, list(pairs.allowed))):
            yield pairs


def _responses(path: Path) -> list[frozenset[int]]:
    """Return the made calls of each response of the model, in order."""
    return [frozenset(those) for _, those in groupby(range(len(path.steps)), key=lambda made: path.steps[made])]


def _ordered(path: Path) -> _Pairs | None:
    """Return pairs of all required calls in order, None where there are none.

    Group by group, each gets the responses from the last one of the group before it on, as few as will do: had it more, the
    groups after it would have fewer.
    """
    responses = _responses(path)
    pairs, first = _Pairs(path=path), 0
    groups = sorted({each.group for each in path.wanted if each.required})
    for group in groups:
        members = [index for index, each in enumerate(path.wanted) if each.required and each.group == group]
        within: frozenset[int] = frozenset()
        for last in range(first, len(responses)):
            within |= responses[last]
            pairs.allowed |= {index: path.wanted[index].fits & within for index in members}
            if all(map(pairs.add, members)):
                first = last
                break
        else:
            return None
        if group == groups[-1]:  # nobody comes after it: it may have what is left
            within = within.union(*responses[first:])
            pairs.allowed |= {index: path.wanted[index].fits & within for index in members}
    return pairs


@dataclass(slots=True, kw_only=True)
class _Pairs:
    """Pairs while they are being made; `allowed` are the made calls that an expected one may have."""

    path: Path
    allowed: dict[int, frozenset[int]] = field(default_factory=dict)
    wanted_by_made: dict[int, int] = field(default_factory=dict)
    made_by_wanted: dict[int, int] = field(default_factory=dict)

    def add(self, index: int) -> bool:
        """Give an expected call a made one, if need be by giving others another; return whether that can be done."""
        return index in self.made_by_wanted or self._add(index, set())

    def _add(self, index: int, seen: set[int]) -> bool:
        options = sorted(self.allowed[index] - seen, key=lambda made: (made in self.path.free, made))
        untaken = next((made for made in options if made not in self.wanted_by_made), None)
        if untaken is not None:
            self._pair(index, untaken)
            return True
        for made in options:
            if made not in seen:
                seen.add(made)
                if self._add(self.wanted_by_made[made], seen):
                    self._pair(index, made)
                    return True
        return False

    def cover(self, made: int) -> bool:
        """Give a made call an expected one; whoever loses its own for that is free, or gets another."""
        return made in self.wanted_by_made or self._cover(made, set())

    def _cover(self, made: int, seen: set[int]) -> bool:
        for index in sorted(index for index, allowed in self.allowed.items() if made in allowed and index not in seen):
            seen.add(index)
            loser = self.made_by_wanted.get(index)
            if loser is not None and loser not in self.path.free and not self._cover(loser, seen):
                continue
            if loser is not None and self.wanted_by_made.get(loser) == index:
                del self.wanted_by_made[loser]
            self._pair(index, made)
            return True
        return False

    def _pair(self, index: int, made: int) -> None:
        self.made_by_wanted[index] = made
        self.wanted_by_made[made] = index
