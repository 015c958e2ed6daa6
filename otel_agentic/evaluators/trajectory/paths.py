"""The made calls of a conversation beside those that its case expects, with which fits which."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from otel_agentic.evaluators.layers.scopes import ExpectedCalls, expected_calls
from otel_agentic.evaluators.trajectory.pairing import Path, Wanted
from otel_agentic.scoring.compiled import step_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from otel_agentic.evaluators.base import Subject
    from otel_agentic.evaluators.layers.scopes import SortedScope
    from otel_agentic.evaluators.needs import Missing
    from otel_agentic.scoring.compiled import CompiledCall
    from otel_agentic.scoring.made import MadeCall
    from otel_agentic.truth.model import Case, ToolExpectation


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
