"""The calls of a conversation sorted out under all that its case expects, from names and arguments alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from otel_agentic.evaluators.needs import first_missing, without_case
from otel_agentic.scoring.compiled import compiled
from otel_agentic.scoring.made import scope_of
from otel_agentic.scoring.sorting import ToolRules
from otel_agentic.scoring.tools import score_calls
from otel_agentic.scoring.turns import unproven_absence

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from otel_agentic.evaluators.base import Subject
    from otel_agentic.evaluators.needs import Missing
    from otel_agentic.scoring.made import MadeCall, Scope
    from otel_agentic.scoring.sorting import PairedCall, SortedCalls
    from otel_agentic.truth.model import Case, Effect, ToolExpectation


#: Conversations whose sorted calls are kept: the metrics of one are computed one after the other.
_KEPT: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class SortedScope:
    """The calls of one turn (`turn_index`, None for one that never came), or of the whole conversation (`is_whole`).

    `calls` are sorted out under the expectation, or that of its alternatives, which fits best. `beyond` are the made calls
    that neither it nor another expectation of the case asks for or allows, and those that it forbids.
    """

    is_whole: bool
    turn_index: int | None
    calls: SortedCalls
    beyond: tuple[MadeCall, ...]

    @property
    def paired(self) -> tuple[tuple[PairedCall, MadeCall], ...]:
        """Each required call that was made, with the call that answers it, in order of the latter."""
        return tuple((pair, self.calls.made[pair.place]) for pair in self.calls.pairs)

    @property
    def missing(self) -> tuple[tuple[str, Mapping[str, object]], ...]:
        """Name and parameters of each required call that was not made, in the order of the case."""
        there = {pair.expected.index for pair in self.calls.pairs}
        return tuple(
            (call.name, call.call.parameters)
            for call in self.calls.expectation.calls
            if call.required and call.index not in there
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedCalls:
    """All scopes of a conversation: of its turns in the order of the case, of the whole last."""

    scopes: tuple[SortedScope, ...]
    effects: tuple[Mapping[str, Effect], ...]

    @property
    def required(self) -> int:
        """How many calls are required."""
        return sum(scope.calls.expectation.required for scope in self.scopes)

    @property
    def paired(self) -> tuple[tuple[PairedCall, MadeCall], ...]:
        """Each required call that was made, with the call that answers it."""
        return tuple(pair for scope in self.scopes for pair in scope.paired)

    @property
    def missing(self) -> tuple[tuple[str, Mapping[str, object]], ...]:
        """Name and parameters of each required call that was not made."""
        return tuple(call for scope in self.scopes for call in scope.missing)

    @property
    def beyond(self) -> tuple[MadeCall, ...]:
        """The calls that nothing asks for or allows, each once, in order of their place."""
        found = {made.place: made for scope in self.scopes for made in scope.beyond}
        return tuple(made for _, made in sorted(found.items()))


def expected_calls(subject: Subject) -> ExpectedCalls | Missing:
    """Return the calls of a conversation sorted out, or why they cannot be, as (reason, explanation).

    Made is a call of kind `tool` that answered without an error (transfers and agents used as tools only where an
    expectation names them). Calls that are expected of a turn are looked for in that turn, of the conversation anywhere; a
    turn of the case that never came has none.
    """
    return _remembered(_Same(subject))


class _Same:
    """The same subject: it holds dictionaries, and has no hash of its own."""

    __slots__ = ("subject",)

    def __init__(self, subject: Subject) -> None:
        self.subject = subject

    def __hash__(self) -> int:
        return id(self.subject)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.subject is other.subject


@lru_cache(maxsize=_KEPT)
def _remembered(same: _Same) -> ExpectedCalls | Missing:
    subject = same.subject
    lacks = first_missing(subject, ("expected_tools",))
    case = subject.case
    if lacks is not None or case is None:
        return lacks or without_case(subject)
    absent = [str(index + 1) for index in range(len(case.turns)) if index not in subject.aligned.values()]
    awaited = unproven_absence(subject.conversation, subject.settings) if absent else None
    if awaited is not None:
        return awaited[0], f"expected turn {', '.join(absent)} is missing; {awaited[1]}"
    scopes = list(_scopes(subject, case))
    if any(_is_unseen(scope, is_whole=is_whole) for _, scope, is_whole in scopes):
        return "content_not_captured", "no content was recorded, so that calls may be missing from the record"
    rules = ToolRules.of(case, subject.settings)
    found = [(*wanted, _sorted(wanted[0], wanted[1], rules)) for wanted in scopes]
    asked = [_asked_for(calls) for *_, calls in found]
    return ExpectedCalls(
        scopes=tuple(
            _scope(is_whole, scope, _without(_others(asked, number), calls, expectation, scope, rules))
            for number, (expectation, scope, is_whole, calls) in enumerate(found)
        ),
        effects=rules.effects,
    )


def _scope(is_whole: bool, scope: Scope, calls: SortedCalls) -> SortedScope:  # noqa: FBT001 — handed on
    return SortedScope(is_whole=is_whole, turn_index=scope.turn_index, calls=calls, beyond=tuple(_beyond(calls)))


def _scopes(subject: Subject, case: Case) -> Iterator[tuple[ToolExpectation, Scope, bool]]:
    """Yield each expectation of a case with what it is held against, and whether that is the whole conversation."""
    turns = subject.conversation.turns
    came = {subject.aligned[turn.index]: turn for turn in turns if turn.index in subject.aligned}
    for index, wanted in enumerate(case.turns):
        if wanted.tools is not None:
            turn = came.get(index)
            held = () if turn is None else (turn,)
            yield wanted.tools, scope_of(held, turn_index=None if turn is None else turn.index), False
    if case.tools is not None:
        yield case.tools, scope_of(turns, turn_index=None), True


def _is_unseen(scope: Scope, *, is_whole: bool) -> bool:
    """Return whether calls may have been made that nobody recorded; a turn that never came has none."""
    return not (scope.captured or scope.calls) and (is_whole or scope.turn_index is not None)


def _sorted(expectation: ToolExpectation, scope: Scope, rules: ToolRules) -> SortedCalls:
    calls = score_calls(compiled(expectation, rules), scope.calls, turn_index=scope.turn_index).calls
    assert calls is not None  # noqa: S101 — for the types: a score that is made from calls holds them
    return calls


def _without(
    elsewhere: frozenset[tuple[int, int, int]],
    calls: SortedCalls,
    expectation: ToolExpectation,
    scope: Scope,
    rules: ToolRules,
) -> SortedCalls:
    """Return the calls, sorted out anew where other expectations ask for some of the extra ones.

    Anew, for they may have decided which alternative fits best.
    """
    places = {calls.made[place].place for place, _ in calls.extra if place not in calls.forbidden} & elsewhere
    if not places:
        return calls
    kept = tuple(made for made in scope.calls if made.place not in places)
    return _sorted(expectation, replace(scope, calls=kept), rules)


def _asked_for(calls: SortedCalls) -> frozenset[tuple[int, int, int]]:
    return frozenset(calls.made[pair.place].place for pair in (*calls.pairs, *calls.excused))


def _others(asked: Sequence[frozenset[tuple[int, int, int]]], number: int) -> frozenset[tuple[int, int, int]]:
    """Return the places of calls that other expectations than the numbered one ask for."""
    return frozenset().union(*(places for other, places in enumerate(asked) if other != number))


def _beyond(calls: SortedCalls) -> Iterable[MadeCall]:
    rules, forbidden = dict(calls.extra), set(calls.forbidden)
    for place in sorted({*rules, *forbidden}):
        if place in forbidden or rules[place] != "allow":
            yield calls.made[place]
