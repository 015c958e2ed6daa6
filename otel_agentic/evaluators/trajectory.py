"""Trajectory metrics: the agent's actual calls compared with the expected ones, in exact, ordered and unordered matching."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import combinations_with_replacement, groupby, pairwise
from math import comb
from typing import TYPE_CHECKING, Final

from otel_agentic.evaluators.base import MetricScore, WithoutSettings
from otel_agentic.evaluators.catalog import metrics_of
from otel_agentic.evaluators.layers.calls import ExpectedCalls, expected_calls
from otel_agentic.scoring.compile import step_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from otel_agentic.evaluators.base import Metric, Need, Subject
    from otel_agentic.evaluators.layers.calls import SortedScope
    from otel_agentic.evaluators.needs import Missing
    from otel_agentic.scoring.compile import CompiledCall
    from otel_agentic.scoring.model import MadeCall
    from otel_agentic.truth.model import Case, ToolExpectation

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """One turn (`turn_index`), a turn that never came, or the whole conversation: the calls, and how they fit.

    `expected` are the names of the expected calls as listed, `names` the same in order, `made` those of the made calls,
    `forbidden` those of calls that are forbidden; `places` tell made calls apart, also those of two walks.
    """

    where: str
    path: Path
    expected: tuple[str, ...]
    names: tuple[str, ...]
    made: tuple[str, ...]
    places: tuple[tuple[int, int, int], ...]
    forbidden: tuple[str, ...]


def walks_of(subject: Subject) -> list[tuple[Walk, ...]] | Missing:
    """Return the walks of a conversation, of its turns first; or why there are none, as (reason, explanation).

    Each under the expectation that fits best, and then under the others where there are alternatives.
    """
    found = expected_calls(subject)
    if not isinstance(found, ExpectedCalls):
        return found
    lacks = next((missing for scope in found.scopes for missing in _unknown(scope)), None)
    if lacks is not None:
        return lacks
    return [(_walk(found, scope), *_otherwise(subject, number, scope)) for number, scope in enumerate(found.scopes)]


def _otherwise(subject: Subject, number: int, scope: SortedScope) -> Iterator[Walk]:
    """Yield the numbered walk under each alternative, where there are some: which one fits best says nothing of the order."""
    case = subject.case
    assert case is not None  # noqa: S101 — for the types: without a case there are no scopes
    places = [index for index, turn in enumerate(case.turns) if turn.tools is not None]
    place = None if scope.is_whole else places[number]
    tools = case.tools if place is None else case.turns[place].tools
    for one in (tools, *tools.alternatives) if tools is not None and tools.alternatives else ():
        alone = one.model_copy(update={"alternatives": ()})
        found = expected_calls(replace(subject, case=_with_tools(case, place, alone)))
        if isinstance(found, ExpectedCalls) and not any(_unknown(found.scopes[number])):
            yield _walk(found, found.scopes[number])


def _with_tools(case: Case, place: int | None, tools: ToolExpectation) -> Case:
    if place is None:
        return case.model_copy(update={"tools": tools})
    turn = case.turns[place].model_copy(update={"tools": tools})
    return case.model_copy(update={"turns": (*case.turns[:place], turn, *case.turns[place + 1 :])})


def _unknown(scope: SortedScope) -> Iterator[Missing]:
    """Yield why it cannot be told whether a call fits: its arguments are not recorded, or only a judge could tell."""
    for made in scope.calls.made:
        expected = scope.calls.expectation.named.get(made.call.name)
        if expected is None:
            continue
        if made.call.arguments is None:
            yield (
                "content_not_captured",
                f"the arguments of {made.call.name!r} in turn {made.turn_index + 1} were not recorded",
            )
        elif expected.judged:
            asked = next(call for call in expected.calls if call.parameters.judged)
            keys = ", ".join(repr(key) for key, mode in asked.parameters.modes.items() if mode == "judge")
            yield "no_data", f"the case leaves {keys} of {made.call.name!r} to a judge, whom this metric does not ask"


def _walk(found: ExpectedCalls, scope: SortedScope) -> Walk:
    calls = scope.calls
    forbidden = set(calls.forbidden)
    beyond = {made.place for made in scope.beyond}
    extra = dict(calls.extra)
    free = frozenset(
        place
        for place, made in enumerate(calls.made)
        if place not in forbidden
        and made.place not in beyond
        and (place in extra or calls.expectation.extra_rule(made.call.name) == "allow")
    )
    expected = calls.expectation.calls
    return Walk(
        where=_where(scope, several=len(found.scopes) > 1),
        path=Path(
            wanted=tuple(_wanted(call, calls.made) for call in expected),
            steps=tuple(made.step for made in calls.made),
            free=free,
        ),
        expected=tuple(call.name for call in expected),
        names=tuple(
            call.name for call in sorted(expected, key=lambda call: (step_of(call.call, call.index), call.index))
        ),
        made=tuple(made.call.name for made in calls.made),
        places=tuple(made.place for made in calls.made),
        forbidden=tuple(calls.made[place].call.name for place in calls.forbidden),
    )


def _wanted(call: CompiledCall, made: Sequence[MadeCall]) -> Wanted:
    """Return an expected call with the made ones that fit it: the same name, and every parameter as its mode wants it."""
    fits = (place for place, one in enumerate(made) if one.call.name == call.name)
    return Wanted(
        group=step_of(call.call, call.index),
        required=call.required,
        fits=frozenset(place for place in fits if call.parameters.compare(made[place])[0] == 1.0),
    )


def _where(scope: SortedScope, *, several: bool) -> str:
    if scope.is_whole:
        return "the whole conversation: " if several else ""
    if scope.turn_index is None:
        return "a turn that never came: "
    return f"turn {scope.turn_index + 1}: "


EXACT: Final = "agentic.trajectory.exact"
IN_ORDER: Final = "agentic.trajectory.in_order"
ANY_ORDER: Final = "agentic.trajectory.any_order"
CONTAINS: Final = "agentic.trajectory.contains"
WITHIN: Final = "agentic.trajectory.within"
PRECISION: Final = "agentic.trajectory.precision"
RECALL: Final = "agentic.trajectory.recall"
F1: Final = "agentic.trajectory.f1"

_ALL_FIT = "every expected call was made, and no other"


class Calls(WithoutSettings):
    """Were the expected calls made, with their arguments, in their order, and no others."""

    name: str = "trajectory.calls"
    version: str = "1"
    metrics: tuple[Metric, ...] = metrics_of("trajectory.calls")
    needs: frozenset[Need] = frozenset({"turns", "case", "expected_tools"})
    default: bool = True

    def evaluate(self, subject: Subject) -> Iterable[MetricScore]:
        """Return the eight scores of a conversation: a match of the whole takes a match of each turn that expects calls."""
        walks = walks_of(subject)
        if not isinstance(walks, list):
            reason, explanation = walks
            return [MetricScore(name=metric.name, reason=reason, explanation=explanation) for metric in self.metrics]
        best = [ways[0] for ways in walks]
        return [*(_match(name, fits, walks) for name, fits in _FITS.items()), *_shares(best)]


def _match(name: str, fits: Callable[[Walk], bool], walks: Sequence[Sequence[Walk]]) -> MetricScore:
    """Return a score that is 0 or 1: whether each walk fits, under whichever alternative."""
    picked = [next(filter(fits, ways), ways[0]) for ways in walks]
    told = _all_told(picked)
    order = _order_told(picked) if name in {EXACT, IN_ORDER} else ""
    explanation = "; ".join(each for each in (order, told) if each and (each != _ALL_FIT or not order))
    return MetricScore(name=name, value=float(all(map(fits, picked))), explanation=explanation)


def _in_order(walk: Walk) -> bool:
    return not walk.forbidden and is_in_order(walk.path)


def _any_order(walk: Walk) -> bool:
    return not walk.forbidden and _paired(walk, most_pairs(walk.path)) == walk.path.required


def _contains(walk: Walk) -> bool:
    return not walk.forbidden and all(each.fits for each in walk.path.wanted if each.required)


def _paired(walk: Walk, pairs: Mapping[int, int]) -> int:
    return sum(walk.path.wanted[index].required for index in pairs)


def _within(walk: Walk) -> bool:
    fitting = walk.path.free.union(*(each.fits for each in walk.path.wanted))
    return not walk.forbidden and len(fitting) == len(walk.made)


_FITS: Final[Mapping[str, Callable[[Walk], bool]]] = {
    EXACT: lambda walk: is_exact(walk.path),
    IN_ORDER: _in_order,
    ANY_ORDER: _any_order,
    CONTAINS: _contains,
    WITHIN: _within,
}


def _shares(walks: Sequence[Walk]) -> list[MetricScore]:
    """Return precision, recall and F1 over the calls of all walks together."""
    pairs = [most_pairs(walk.path) for walk in walks]
    told = _all_told(walks)
    required = sum(walk.path.required for walk in walks)
    right = sum(map(_paired, walks, pairs))
    counted = right + len(_beside(walks, pairs))
    details = {"required": required, "made": counted, "right": right}

    def share(name: str, part: int, whole: int, nothing: float) -> MetricScore:
        return MetricScore(name=name, value=part / whole if whole else nothing, explanation=told, details=details)

    none_required = MetricScore(name=RECALL, reason="no_data", explanation="the case requires no call")
    return [
        share(PRECISION, right, counted, float(not required)),
        share(RECALL, right, required, 0.0) if required else none_required,
        share(F1, 2 * right, counted + required, 1.0),
    ]


def _beside(walks: Sequence[Walk], pairs: Sequence[Mapping[int, int]]) -> set[tuple[int, int, int]]:
    """Return the places of made calls that count and are not as expected; one of a turn and of the whole counts once."""
    taken = {walk.places[made] for walk, found in zip(walks, pairs, strict=True) for made in found.values()}
    counted = {place for walk in walks for made, place in enumerate(walk.places) if made not in walk.path.free}
    return counted - taken


def _order_told(walks: Sequence[Walk]) -> str:
    """Return where all was made but in another order, in words; empty where that is not what is wrong."""
    return "; ".join(
        f"{walk.where}made in another order: {', '.join(walk.made)}; expected: {', '.join(walk.names)}"
        for walk in walks
        if _any_order(walk) and not _in_order(walk)
    )


def _all_told(walks: Sequence[Walk]) -> str:
    return "; ".join(filter(None, (_told(walk, most_pairs(walk.path)) for walk in walks))) or _ALL_FIT


def _told(walk: Walk, pairs: Mapping[int, int]) -> str:
    """Return what is missing and what is too many in a walk, in words; empty where nothing is."""
    wanted, path = walk.path.wanted, walk.path
    taken = set(pairs.values())
    absent = _names_of(walk, [index for index, each in enumerate(wanted) if each.required and index not in pairs])
    others = Counter(name for place, name in enumerate(walk.made) if place not in taken and place not in path.free)
    parts = [
        f"not made as expected: {_listed(absent)}" if absent else "",
        f"not expected so: {_listed(others)}" if others else "",
        f"forbidden: {_listed(Counter(walk.forbidden))}" if walk.forbidden else "",
    ]
    found = ", ".join(filter(None, parts))
    return f"{walk.where}{found}" if found else ""


def _names_of(walk: Walk, indices: Sequence[int]) -> Counter[str]:
    return Counter(walk.expected[index] for index in indices)


def _listed(names: Counter[str]) -> str:
    return ", ".join(f"{name} ({times} times)" if times > 1 else name for name, times in sorted(names.items()))
