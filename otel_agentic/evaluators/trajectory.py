"""Trajectory metrics: actual calls compared with the expected ones, by exact, in-order and any-order matching."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import combinations_with_replacement, groupby, pairwise
from math import comb
from typing import TYPE_CHECKING, Final

from otel_agentic.evaluators.base import (
    BuiltInEvaluator,
    MetricScore,
    Missing,
    Overlap,
    Subject,
    none_of,
    none_of_all,
)
from otel_agentic.evaluators.layers.calls import ExpectedCalls, SortedScope, expected_calls
from otel_agentic.scoring.compile import CompiledCall, step_of

if TYPE_CHECKING:
    from otel_agentic.scoring.scope import ActualCall
    from otel_agentic.truth.model import Case, ToolExpectation

#: Maximum number of ways to divide responses among groups for which all are tried; equal calls multiply the ways.
_MOST_DIVISIONS: Final = 500
#: Number of paths whose pairs are cached: the metrics of one conversation are computed one after the other.
_CACHED: Final = 16
#: Number of conversations whose scores are cached by their walks.
_CACHED_WALKS: Final = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedCall:
    """An expected call: `group` is its position in the order, shared by calls without order.

    `fits` are the indices of the actual calls that match it.
    """

    group: int
    required: bool
    fits: frozenset[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Path:
    """Expected and actual calls.

    `steps` holds, for each actual call in order, the response of the model that requested it; calls of one response
    have no order. `free` are the indices of actual calls that are allowed without being expected.
    """

    expected_calls: tuple[ExpectedCall, ...]
    steps: tuple[tuple[int, int], ...]
    free: frozenset[int] = frozenset()

    @property
    def required(self) -> int:
        """How many calls are required."""
        return sum(call.required for call in self.expected_calls)


@lru_cache(maxsize=_CACHED)
def most_pairs(path: Path) -> Mapping[int, int]:
    """Return a maximum one-to-one pairing, expected -> actual index; required calls are paired before optional ones.

    Ref: H. W. Kuhn, The Hungarian method for the assignment problem, 1955 (augmenting paths).

    >>> either, first = (ExpectedCall(group=1, required=True, fits=frozenset(fits)) for fits in ({0, 1}, {0}))
    >>> most_pairs(Path(expected_calls=(either, first), steps=((0, 1), (0, 2))))
    {0: 1, 1: 0}
    """
    pairs = _Pairs(
        path=path, allowed={index: expected_call.fits for index, expected_call in enumerate(path.expected_calls)}
    )
    for index in sorted(pairs.allowed, key=lambda index: not path.expected_calls[index].required):
        pairs.add(index)
    return pairs.actual_by_expected


@lru_cache(maxsize=_CACHED)
def is_in_order(path: Path) -> bool:
    """Return whether each required call has an actual call of its own, in order, regardless of other calls.

    Expected calls of one group, and actual calls of one response, have no order among themselves.
    """
    return _ordered(path) is not None


def is_exact(path: Path) -> bool:
    """Return whether the required calls occurred in order, and all other calls are free or optional.

    If an actual call fits both a required call and an optional or free one, the earliest pairing in order is tried,
    then the latest, and, for few calls, every way to divide the responses among the groups.
    """
    needed = frozenset(range(len(path.steps))) - path.free
    if len(needed) > len(path.expected_calls) or not needed <= frozenset().union(
        *(expected_call.fits for expected_call in path.expected_calls)
    ):
        return False
    earliest = _ordered(path)
    if earliest is None:
        return False
    if _is_covered(earliest) or any(map(_is_covered, filter(None, (_ordered(_mirrored(path)),)))):
        return True
    return any(map(_is_covered, _divided(path)))


def _is_covered(pairs: _Pairs) -> bool:
    """Return whether the actual calls that are not free can all be paired in addition to the required calls of `pairs`.

    If one pairing covers all required calls, and another one all these actual calls, a single pairing covers both.

    Ref: N. S. Mendelsohn, A. L. Dulmage, Some generalizations of the problem of distinct representatives, 1958.
    """
    path = pairs.path
    allowed = {
        **pairs.allowed,
        **{
            index: expected_call.fits
            for index, expected_call in enumerate(path.expected_calls)
            if not expected_call.required
        },
    }
    needed = [actual for actual in range(len(path.steps)) if actual not in path.free]
    partners = {actual: frozenset(index for index, fits in allowed.items() if actual in fits) for actual in needed}
    reverse = _Pairs(path=Path(expected_calls=(), steps=()), allowed=partners)
    return all(map(reverse.add, needed))


def _mirrored(path: Path) -> Path:
    """Return the path with its calls in reverse order."""
    last = len(path.steps) - 1
    expected = (
        replace(
            expected_call, group=-expected_call.group, fits=frozenset(last - actual for actual in expected_call.fits)
        )
        for expected_call in path.expected_calls
    )
    return Path(
        expected_calls=tuple(expected), steps=path.steps[::-1], free=frozenset(last - actual for actual in path.free)
    )


def _divided(path: Path) -> Iterator[_Pairs]:
    """Yield pairings of all required calls, one for each choice of the last response of every group except the last."""
    responses = _responses(path)
    groups = sorted({expected_call.group for expected_call in path.expected_calls if expected_call.required})
    boundaries = max(len(groups) - 1, 0)
    if comb(max(len(responses) + boundaries - 1, 0), boundaries) > _MOST_DIVISIONS:
        return
    for last_responses in combinations_with_replacement(range(len(responses)), boundaries):
        bounds = dict(zip(groups, pairwise((0, *last_responses, len(responses) - 1)), strict=False))
        pairs = _Pairs(path=path)
        for index, expected_call in enumerate(path.expected_calls):
            if expected_call.required:
                first, last = bounds[expected_call.group]
                pairs.allowed[index] = expected_call.fits & frozenset().union(*responses[first : last + 1])
        if all(map(pairs.add, list(pairs.allowed))):
            yield pairs


def _responses(path: Path) -> list[frozenset[int]]:
    """Return the actual calls of each response of the model, in order."""
    return [frozenset(group) for _, group in groupby(range(len(path.steps)), key=lambda actual: path.steps[actual])]


def _ordered(path: Path) -> _Pairs | None:
    """Return a pairing of all required calls in order, or None without one.

    Each group gets as few responses as suffice, starting with the last response of the previous group: more would leave
    fewer for the groups after it.
    """
    responses = _responses(path)
    pairs, first = _Pairs(path=path), 0
    groups = sorted({expected_call.group for expected_call in path.expected_calls if expected_call.required})
    for group in groups:
        members = [
            index
            for index, expected_call in enumerate(path.expected_calls)
            if expected_call.required and expected_call.group == group
        ]
        within: frozenset[int] = frozenset()
        for last in range(first, len(responses)):
            within |= responses[last]
            pairs.allowed |= {index: path.expected_calls[index].fits & within for index in members}
            if all(map(pairs.add, members)):
                first = last
                break
        else:
            return None
        if group == groups[-1]:  # the last group may use all remaining responses
            within = within.union(*responses[first:])
            pairs.allowed |= {index: path.expected_calls[index].fits & within for index in members}
    return pairs


@dataclass(slots=True, kw_only=True)
class _Pairs:
    """A pairing under construction; `allowed` maps each expected call to its possible actual calls."""

    path: Path
    allowed: dict[int, frozenset[int]] = field(default_factory=dict)
    expected_by_actual: dict[int, int] = field(default_factory=dict)
    actual_by_expected: dict[int, int] = field(default_factory=dict)

    def add(self, index: int) -> bool:
        """Pair an expected call, assigning other partners to others if necessary; return whether that is possible."""
        return index in self.actual_by_expected or self._add(index, set())

    def _add(self, index: int, visited: set[int]) -> bool:
        candidates = sorted(self.allowed[index] - visited, key=lambda actual: (actual in self.path.free, actual))
        unpaired = next((actual for actual in candidates if actual not in self.expected_by_actual), None)
        if unpaired is not None:
            self._pair(index, unpaired)
            return True
        for candidate in candidates:
            if candidate not in visited:
                visited.add(candidate)
                if self._add(self.expected_by_actual[candidate], visited):
                    self._pair(index, candidate)
                    return True
        return False

    def _pair(self, index: int, actual: int) -> None:
        self.actual_by_expected[index] = actual
        self.expected_by_actual[actual] = index


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """The calls of one turn, of a turn that never came, or of the whole conversation, and how they fit.

    `where` is a prefix for explanations. `expected` are the names of the expected calls as listed, `names` the same
    names in the expected order, `actual` the names of the actual calls, and `forbidden` those of actual calls that are
    forbidden. `identities` identify actual calls across walks.
    """

    where: str
    path: Path
    expected: tuple[str, ...]
    names: tuple[str, ...]
    actual: tuple[str, ...]
    identities: tuple[tuple[int, int, int], ...]
    forbidden: tuple[str, ...]


def walks_of(subject: Subject) -> list[tuple[Walk, ...]] | Missing:
    """Return the walks of a conversation, those of its turns first, or the reason why they are unknown.

    Each tuple starts with the walk under the alternative that fits best, followed by the walks under every alternative.
    """
    expected = expected_calls(subject)
    if not isinstance(expected, ExpectedCalls):
        return expected
    missing = next((missing for scope in expected.scopes for missing in _unknown_fits(scope)), None)
    if missing is not None:
        return missing
    return [
        (_walk(expected, scope), *_alternative_walks(subject, number, scope))
        for number, scope in enumerate(expected.scopes)
    ]


def _alternative_walks(subject: Subject, number: int, scope: SortedScope) -> Iterator[Walk]:
    """Yield the walk of a scope under each alternative, if there are any: the best fit ignores the order."""
    case = subject.case
    assert case is not None  # noqa: S101 — for the type checker: without a case there are no scopes
    indices = [index for index, turn in enumerate(case.turns) if turn.tools is not None]
    position = None if scope.is_whole else indices[number]
    tools = case.tools if position is None else case.turns[position].tools
    for alternative in (tools, *tools.alternatives) if tools is not None and tools.alternatives else ():
        single_alternative = alternative.model_copy(update={"alternatives": ()})
        expected = expected_calls(replace(subject, case=_with_tools(case, position, single_alternative)))
        if isinstance(expected, ExpectedCalls) and not any(_unknown_fits(expected.scopes[number])):
            yield _walk(expected, expected.scopes[number])


def _with_tools(case: Case, index: int | None, tools: ToolExpectation) -> Case:
    if index is None:
        return case.model_copy(update={"tools": tools})
    turn = case.turns[index].model_copy(update={"tools": tools})
    return case.model_copy(update={"turns": (*case.turns[:index], turn, *case.turns[index + 1 :])})


def _unknown_fits(scope: SortedScope) -> Iterator[Missing]:
    """Yield the reasons why it is unknown whether a call fits: unrecorded arguments, or a parameter left to a judge."""
    for actual in scope.calls.actual:
        expected = scope.calls.expectation.named.get(actual.call.name)
        if expected is None:
            continue
        if actual.call.arguments is None:
            yield (
                "content_not_captured",
                f"the arguments of {actual.call.name!r} in turn {actual.turn_index + 1} were not recorded",
            )
        elif expected.may_ask_judge:
            judged_call = next(call for call in expected.calls if call.parameters.may_ask_judge)
            keys = ", ".join(repr(key) for key, mode in judged_call.parameters.modes.items() if mode == "judge")
            yield "no_data", f"the case leaves {keys} of {actual.call.name!r} to a judge, whom this metric does not ask"


def _walk(expected_scopes: ExpectedCalls, scope: SortedScope) -> Walk:
    calls = scope.calls
    forbidden = set(calls.forbidden)
    beyond = {actual.location for actual in scope.beyond}
    extra = dict(calls.extra)
    free = frozenset(
        index
        for index, actual in enumerate(calls.actual)
        if index not in forbidden
        and actual.location not in beyond
        and (index in extra or calls.expectation.extra_rule(actual.call.name) == "allow")
    )
    expected = calls.expectation.calls
    return Walk(
        where=_where(scope, several=len(expected_scopes.scopes) > 1),
        path=Path(
            expected_calls=tuple(_expected_call(call, calls.actual) for call in expected),
            steps=tuple(actual.step for actual in calls.actual),
            free=free,
        ),
        expected=tuple(call.name for call in expected),
        names=tuple(
            call.name for call in sorted(expected, key=lambda call: (step_of(call.call, call.index), call.index))
        ),
        actual=tuple(actual.call.name for actual in calls.actual),
        identities=tuple(actual.location for actual in calls.actual),
        forbidden=tuple(calls.actual[index].call.name for index in calls.forbidden),
    )


def _expected_call(call: CompiledCall, actual: Sequence[ActualCall]) -> ExpectedCall:
    """Return an expected call with the actual calls that match its name and, by their match modes, its parameters."""
    same_name = (index for index, actual_call in enumerate(actual) if actual_call.call.name == call.name)
    return ExpectedCall(
        group=step_of(call.call, call.index),
        required=call.required,
        fits=frozenset(index for index in same_name if call.parameters.compare(actual[index])[0] == 1.0),
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


class Calls(BuiltInEvaluator):
    """Whether the expected calls occurred, with their arguments, in their order, and no others."""

    name = "trajectory.calls"
    needs = frozenset({"turns", "case", "expected_tools"})

    def evaluate(self, subject: Subject) -> Iterable[MetricScore]:
        """Return the eight scores of a conversation; it matches only if each turn with expected calls matches."""
        walks = walks_of(subject)
        if not isinstance(walks, list):
            return none_of_all(self.metrics, *walks)
        return _scores_of(tuple(walks))


@lru_cache(maxsize=_CACHED_WALKS)
def _scores_of(walks: Sequence[Sequence[Walk]]) -> Sequence[MetricScore]:
    """Return the scores of walks; cached, because most conversations of an agent walk as earlier ones did."""
    best = [alternatives[0] for alternatives in walks]
    return (*(_match(name, fits, walks) for name, fits in _FITS.items()), *_shares(best))


def _match(name: str, fits: Callable[[Walk], bool], walks: Sequence[Sequence[Walk]]) -> MetricScore:
    """Return a score of 0 or 1: whether each walk fits, under any alternative."""
    best_walks = [next(filter(fits, alternatives), alternatives[0]) for alternatives in walks]
    texts = _walks_text(best_walks)
    order = _order_text(best_walks) if name in {EXACT, IN_ORDER} else ""
    explanation = "; ".join(text for text in (order, texts) if text and (text != _ALL_FIT or not order))
    return MetricScore(name=name, value=float(all(map(fits, best_walks))), explanation=explanation)


def _in_order(walk: Walk) -> bool:
    return not walk.forbidden and is_in_order(walk.path)


def _any_order(walk: Walk) -> bool:
    return not walk.forbidden and _paired(walk, most_pairs(walk.path)) == walk.path.required


def _contains(walk: Walk) -> bool:
    return not walk.forbidden and all(
        expected_call.fits for expected_call in walk.path.expected_calls if expected_call.required
    )


def _paired(walk: Walk, pairs: Mapping[int, int]) -> int:
    return sum(walk.path.expected_calls[index].required for index in pairs)


def _within(walk: Walk) -> bool:
    fitting = walk.path.free.union(*(expected_call.fits for expected_call in walk.path.expected_calls))
    return not walk.forbidden and len(fitting) == len(walk.actual)


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
    explanation = _walks_text(walks)
    required = sum(walk.path.required for walk in walks)
    right = sum(map(_paired, walks, pairs))
    counted = right + len(_unmatched(walks, pairs))
    details = {"required": required, "made": counted, "right": right}

    overlap = Overlap(common=right, actual=counted, expected=required)
    values = {
        PRECISION: overlap.precision(empty=float(not required)),
        RECALL: overlap.recall(empty=None),
        F1: overlap.f1(empty=1.0),
    }
    return [
        none_of(name, "no_data", "the case requires no call")
        if value is None
        else MetricScore(name=name, value=value, explanation=explanation, details=details)
        for name, value in values.items()
    ]


def _unmatched(walks: Sequence[Walk], pairs: Sequence[Mapping[int, int]]) -> set[tuple[int, int, int]]:
    """Return the identities of counted actual calls without a match, each once even if several walks contain it."""
    used = {walk.identities[actual] for walk, pairing in zip(walks, pairs, strict=True) for actual in pairing.values()}
    counted = {
        identity for walk in walks for actual, identity in enumerate(walk.identities) if actual not in walk.path.free
    }
    return counted - used


def _order_text(walks: Sequence[Walk]) -> str:
    """Return a sentence if all calls occurred, but in another order, else an empty text."""
    return "; ".join(
        f"{walk.where}made in another order: {', '.join(walk.actual)}; expected: {', '.join(walk.names)}"
        for walk in walks
        if _any_order(walk) and not _in_order(walk)
    )


def _walks_text(walks: Sequence[Walk]) -> str:
    return "; ".join(filter(None, (_walk_text(walk, most_pairs(walk.path)) for walk in walks))) or _ALL_FIT


def _walk_text(walk: Walk, pairs: Mapping[int, int]) -> str:
    """Return a sentence on missing and additional calls of a walk, or an empty text."""
    expected, path = walk.path.expected_calls, walk.path
    used = set(pairs.values())
    absent = _names_of(
        walk, [index for index, expected_call in enumerate(expected) if expected_call.required and index not in pairs]
    )
    others = Counter(name for index, name in enumerate(walk.actual) if index not in used and index not in path.free)
    parts = [
        f"not made as expected: {_listed(absent)}" if absent else "",
        f"not expected so: {_listed(others)}" if others else "",
        f"forbidden: {_listed(Counter(walk.forbidden))}" if walk.forbidden else "",
    ]
    text = ", ".join(filter(None, parts))
    return f"{walk.where}{text}" if text else ""


def _names_of(walk: Walk, indices: Sequence[int]) -> Counter[str]:
    return Counter(walk.expected[index] for index in indices)


def _listed(names: Counter[str]) -> str:
    return ", ".join(f"{name} ({times} times)" if times > 1 else name for name, times in sorted(names.items()))
