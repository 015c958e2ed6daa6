"""The calls of a scope sorted out under one expectation: paired, missing, extra, errored, forbidden."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from otel_agentic.scoring.align import Pair, pair_calls
from otel_agentic.scoring.opinions import NO_OPINIONS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from otel_agentic.config import ScoringSettings
    from otel_agentic.scoring.compiled import CompiledCall, CompiledExpectation
    from otel_agentic.scoring.made import MadeCall
    from otel_agentic.scoring.model import Dimension
    from otel_agentic.scoring.opinions import Opinions
    from otel_agentic.truth.model import Case, Effect, ExtraRule


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRules:
    """How tools are judged for one case: the settings, with what the case overrides.

    `effects` are tables of tool name or glob, the case's first. `weights` need not sum to 1.
    """

    threshold: float
    weights: Mapping[Dimension, float]
    effects: tuple[Mapping[str, Effect], ...]
    count_errors: bool
    numbers_as_text: bool

    @classmethod
    def of(cls, case: Case, settings: ScoringSettings) -> ToolRules:
        """Return the rules of a case."""
        return cls(
            threshold=settings.tool_threshold if case.tool_threshold is None else case.tool_threshold,
            weights=settings.tool_weights if case.tool_weights is None else case.tool_weights,
            effects=(case.effects, settings.effects),
            count_errors=settings.count_errors,
            numbers_as_text=settings.numbers_as_text,
        )


class SortedCalls(NamedTuple):
    """The calls of a scope sorted out under one expectation.

    `made` are the calls that count, in order; `errored` those that answered with an error. `pairs` are those of required
    calls in order of the made ones; `excused` are the made optional calls, `extra` the places in `made` of the calls
    left over, each with what its being extra means. `forbidden` are places too. `unasked` counts the extra calls that
    are not allowed; `trespassed`: a call was made that is forbidden, by name or for being extra. `captured`: arguments and
    results of all calls that weigh were recorded; allowed extras weigh nothing.

    A named tuple: one is made for every turn, at a third of the time that a frozen dataclass takes.
    """

    expectation: CompiledExpectation
    made: Sequence[MadeCall]
    errored: Sequence[MadeCall]
    pairs: Sequence[Pair]
    excused: Sequence[Pair] = ()
    extra: Sequence[tuple[int, ExtraRule]] = ()
    forbidden: Sequence[int] = ()
    unasked: int = 0
    trespassed: bool = False
    captured: bool = True

    def missing(self) -> list[CompiledCall]:
        """Return the required calls that were not made, in their order."""
        if len(self.pairs) == self.expectation.required:
            return []
        there = {pair.expected.index for pair in self.pairs}
        return [one for one in self.expectation.calls if one.required and one.index not in there]


def sort_calls(
    expectation: CompiledExpectation, calls: Sequence[MadeCall], opinions: Opinions = NO_OPINIONS
) -> SortedCalls:
    """Return the calls of a scope, in order of their place, sorted out under an expectation.

    Calls of kind `tool` count at any depth; a transfer or an agent used as a tool only where the expectation names it. A
    call that answered with an error was not made, unless the rules count it.
    """
    plain = _all_plain(calls)
    made, errored = (calls, ()) if plain else _counted(expectation, calls)
    pairs = _one_to_one(expectation, made, opinions)
    if pairs is None:
        pairs = _pairs(expectation, made, opinions)
    if plain and len(pairs) == len(made) and expectation.required_only:
        return SortedCalls(expectation, made, errored, pairs)
    return _with_extra(expectation, made, errored, pairs, plain=plain)


def _with_extra(
    expectation: CompiledExpectation,
    made: Sequence[MadeCall],
    errored: Sequence[MadeCall],
    pairs: Sequence[Pair],
    *,
    plain: bool,
) -> SortedCalls:
    paired = {pair.place for pair in pairs}
    extra = [(place, expectation.extra_rule(one.call.name)) for place, one in enumerate(made) if place not in paired]
    forbidden = _forbidden(expectation, made)
    return SortedCalls(
        expectation,
        made,
        errored,
        pairs=[pair for pair in pairs if pair.expected.required],
        excused=[pair for pair in pairs if not pair.expected.required],
        extra=extra,
        forbidden=forbidden,
        unasked=sum([rule != "allow" for _, rule in extra]),
        trespassed=bool(forbidden) or "forbid" in [rule for _, rule in extra],
        captured=plain or _captured(made, extra),
    )


def _all_plain(calls: Sequence[MadeCall]) -> bool:
    """Return whether all are calls of tools that worked, and of which everything was recorded: most are."""
    for one in calls:
        call = one.call
        if call.kind != "tool" or call.error is not None or call.arguments is None or not call.result_captured:
            return False
    return True


def _counted(
    expectation: CompiledExpectation, calls: Sequence[MadeCall]
) -> tuple[Sequence[MadeCall], Sequence[MadeCall]]:
    """Return the calls that were made, and those that answered with an error."""
    counted = [one for one in calls if one.call.kind == "tool" or _names(expectation, one.call.name)]
    errored = [one for one in counted if one.call.error is not None]
    if expectation.rules.count_errors:
        return counted, errored
    return [one for one in counted if one.call.error is None], errored


def _captured(made: Sequence[MadeCall], extra: Sequence[tuple[int, ExtraRule]]) -> bool:
    allowed = {place for place, rule in extra if rule == "allow"}
    return all(
        one.call.arguments is not None and (one.call.result_captured or one.call.error is not None)
        for place, one in enumerate(made)
        if place not in allowed
    )


def _names(expectation: CompiledExpectation, tool_name: str) -> bool:
    forbidden_by = expectation.forbidden_by
    return tool_name in expectation.named or (forbidden_by is not None and forbidden_by(tool_name) is not None)


def _one_to_one(expectation: CompiledExpectation, made: Sequence[MadeCall], opinions: Opinions) -> list[Pair] | None:
    """Return the pairs, in order of the made calls, where no name that is expected repeats; None where one does."""
    alone = expectation.alone
    if alone is None:
        return None
    pairs: list[Pair] = []
    names = set()
    for place, one in enumerate(made):
        name = one.call.name
        if name in alone:
            if name in names:
                return None
            names.add(name)
            expected = alone[name]
            agreement = expected.parameters.agreement(one, opinions)
            if expected.required or agreement.full:
                pairs.append(Pair(place, expected, agreement))
    return pairs


def _pairs(expectation: CompiledExpectation, made: Sequence[MadeCall], opinions: Opinions) -> list[Pair]:
    """Return the pairs, in order of the made calls, whatever repeats."""
    places: dict[str, list[int]] = {}
    for place, one in enumerate(made):
        if one.call.name in expectation.named:
            places.setdefault(one.call.name, []).append(place)
    pairs: list[Pair] = []
    for name, those in places.items():
        pairs += pair_calls(expectation.named[name], made, those, opinions)
    return sorted(pairs)


def _forbidden(expectation: CompiledExpectation, made: Sequence[MadeCall]) -> Sequence[int]:
    forbidden_by = expectation.forbidden_by
    return [place for place, one in enumerate(made) if forbidden_by(one.call.name)] if forbidden_by else ()
