"""The calls of one scope against one expectation, counted for tool call accuracy and F1."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from otel_agentic.scoring.compiled import compiled
from otel_agentic.scoring.sorting import SortedCalls, sort_calls

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_agentic.scoring.compiled import CompiledCall, CompiledExpectation
    from otel_agentic.scoring.made import MadeCall
    from otel_agentic.scoring.sorting import ToolRules
    from otel_agentic.truth.model import ToolExpectation

#: Expectations whose form for F1 is kept.
_KEPT: Final = 1024


class Share(NamedTuple):
    """A share that can be summed over scopes: `part` of `whole`. A whole of 0 is a share of 1: nothing was to be done."""

    part: float
    whole: float

    @property
    def value(self) -> float:
        """The share, in [0, 1].

        >>> Share(1.5, 2.0).value, Share(0.0, 0.0).value
        (0.75, 1.0)
        """
        return self.part / self.whole if self.whole else 1.0

    def plus(self, other: Share) -> Share:
        """Return the share of both scopes together."""
        return Share(self.part + other.part, self.whole + other.whole)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """What the calls of one scope come to under one expectation.

    `missing` and `unasked` are names of calls, `wrong` are (tool, parameter) of calls that were made otherwise. `undecided`
    are parameters, as (tool, parameter), that only a judge could compare.
    """

    in_order: Share
    in_any_order: Share
    equal: Share
    missing: tuple[str, ...] = ()
    unasked: tuple[str, ...] = ()
    wrong: tuple[tuple[str, str], ...] = ()
    undecided: tuple[tuple[str, str], ...] = ()


def count(expectation: ToolExpectation, calls: Sequence[MadeCall], rules: ToolRules) -> list[Counted]:
    """Return what calls come to, under an expectation and under each of its alternatives.

    Args:
        expectation: what is expected.
        calls: of the turn or conversation that it is held against, in order of their place.
        rules: those of the case.
    """
    ready = compiled(expectation, rules)
    return [_counted(one, calls) for one in (ready, *ready.alternatives)]


def _counted(expectation: CompiledExpectation, calls: Sequence[MadeCall]) -> Counted:
    told = SortedCalls.of(sort_calls(expectation, calls))
    extra = [place for place, rule in told.extra if rule != "allow" or place in told.forbidden]
    agreed = sum(pair.agreement.score for pair in told.pairs)
    whole = float(expectation.required + len(extra))
    return Counted(
        in_order=Share(min(agreed, _in_order(expectation, told, extra, agreed)), whole),
        in_any_order=Share(agreed, whole),
        equal=_equal(expectation, told.made),
        missing=_missing(expectation, told),
        unasked=tuple(told.made[place].call.name for place in extra),
        wrong=tuple((pair.expected.name, key) for pair in told.pairs for key in pair.agreement.wrong),
        undecided=tuple(
            (pair.expected.name, key)
            for pair in told.pairs
            if pair.expected.parameters.undecided(told.made[pair.place])
            for key, mode in pair.expected.parameters.modes.items()
            if mode == "judge"
        ),
    )


def _missing(expectation: CompiledExpectation, told: SortedCalls) -> tuple[str, ...]:
    answered = {pair.expected.index for pair in told.pairs}
    return tuple(call.name for call in expectation.calls if call.required and call.index not in answered)


def _in_order(expectation: CompiledExpectation, told: SortedCalls, extra: Sequence[int], agreed: float) -> float:
    """Return the agreement of the expected calls that can be paired without any two crossing, at its best.

    Expected calls of one step, and made calls of one step, have no order among themselves: there the order is taken that
    the free pairing suggests.
    """
    partner = {pair.place: pair.expected for pair in told.pairs}
    place_of = {pair.expected.index: pair.place for pair in told.pairs}
    wanted = sorted(
        (call for call in expectation.calls if call.required),
        key=lambda call: (call.group, place_of.get(call.index, len(told.made)), call.index),
    )
    last = expectation.required + 1

    def made_at(place: int) -> tuple[tuple[int, int], int, int]:
        group = partner[place].group if place in partner else last
        return told.made[place].step, group, place

    places = sorted({*partner, *extra}, key=made_at)
    rank = {place: number for number, place in enumerate(places)}
    came = [rank[place_of[call.index]] for call in wanted if call.index in place_of]
    if came == sorted(came):
        return agreed
    return best_in_order(wanted, [told.made[place] for place in places])


def best_in_order(wanted: Sequence[CompiledCall], made: Sequence[MadeCall]) -> float:
    """Return the greatest sum of agreements over pairs of calls of one name, no two of which cross.

    Ref: S. Needleman, C. Wunsch (1970), A general method applicable to the search for similarities, without gap penalty.
    """
    before = [0.0] * (len(made) + 1)
    for one in wanted:
        places = [place for place, other in enumerate(made) if other.call.name == one.name]
        scores = dict(zip(places, one.parameters.scores([made[place] for place in places]), strict=True))
        now = [0.0]
        for place in range(len(made)):
            now.append(max(now[place], before[place + 1], before[place] + scores.get(place, 0.0)))
        before = now
    return before[-1]


def _equal(expectation: CompiledExpectation, made: Sequence[MadeCall]) -> Share:
    """Return twice the calls made exactly as expected, of all calls expected and made: what F1 is made of."""
    required, optional = _by_need(expectation)
    told = SortedCalls.of(sort_calls(required, _as_tools(made)))
    hits, lacking = len(told.excused), _lacking(required, told)
    left = [told.made[place] for place, _ in told.extra]
    excused = {pair.place for pair in SortedCalls.of(sort_calls(optional, left)).excused}
    wrong = 0
    for place, one in enumerate(left):
        if place in excused:
            continue
        name = one.call.name
        # An extra call that is allowed does no harm; one that stands where another was expected is that call, made wrongly.
        if lacking[name]:
            lacking[name] -= 1
        elif expectation.extra_rule(name) == "allow" and not expectation.forbids(name):
            continue
        wrong += 1
    return Share(2.0 * hits, float(hits + wrong + expectation.required))


def _as_tools(made: Sequence[MadeCall]) -> list[MadeCall]:
    """Return calls that count, whatever each part of the expectation names: transfers and agents as tools that worked."""
    return [
        one
        if one.call.kind == "tool" and one.call.error is None
        else replace(one, call=replace(one.call, kind="tool", error=None))
        for one in made
    ]


def _lacking(required: CompiledExpectation, told: SortedCalls) -> Counter[str]:
    """Return how many expected calls of each name were not made exactly."""
    found = Counter(call.name for call in required.calls)
    found.subtract(pair.expected.name for pair in told.excused)
    return found


class _Same:
    """The same expectation object under the same rules, as a key: models that hold dictionaries have no hash."""

    __slots__ = ("expectation",)

    def __init__(self, expectation: CompiledExpectation) -> None:
        self.expectation = expectation

    def __hash__(self) -> int:
        return id(self.expectation)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.expectation is other.expectation


def _by_need(expectation: CompiledExpectation) -> tuple[CompiledExpectation, CompiledExpectation]:
    """Return the required and the optional calls as expectations of their own.

    All are made optional, for a pairing then takes as many of them as were made exactly as expected, and no others.
    """
    return _divided(_Same(expectation))


@lru_cache(maxsize=_KEPT)
def _divided(same: _Same) -> tuple[CompiledExpectation, CompiledExpectation]:
    given, rules = same.expectation.expectation, same.expectation.rules
    free = [call.model_copy(update={"required": False}) for call in given.calls]
    parts = [
        given.model_copy(
            update={
                "calls": tuple(one for one, call in zip(free, given.calls, strict=True) if call.required == needed),
                "alternatives": (),
                "order": "any",
            }
        )
        for needed in (True, False)
    ]
    return compiled(parts[0], rules), compiled(parts[1], rules)
