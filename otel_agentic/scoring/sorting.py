"""The calls of a scope sorted out under one expectation: which count, which are paired, which are left over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from otel_agentic.scoring.align import Pair, pair_calls
from otel_agentic.scoring.compiled import CompiledCall, CompiledExpectation
from otel_agentic.scoring.made import MadeCall
from otel_agentic.scoring.opinions import NO_OPINIONS

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

    from otel_agentic.config import ScoringSettings
    from otel_agentic.conversations.model import ToolCall
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


#: The calls that count, in order; the pairs of expected calls, optional ones too, in order of the made ones; the places of
#: the calls left over, and of those whose arguments or results were not recorded; the calls that answered with an error.
#: A plain tuple: one is made for every turn. `SortedCalls` tells the same with names.
RawCalls: TypeAlias = tuple[
    CompiledExpectation, Sequence[MadeCall], list[Pair], Sequence[int], Sequence[int], Sequence[MadeCall]
]


class Agreement(NamedTuple):
    """How far the parameters of a made call agree, in [0, 1], and which do not."""

    score: float
    wrong: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedCall:
    """An expected call and the place, among the made calls, of the one that answers it."""

    place: int
    expected: CompiledCall
    agreement: Agreement

    @classmethod
    def of(cls, pair: Pair) -> PairedCall:
        """Return a pair with names."""
        place, expected, score, wrong = pair
        return cls(place=place, expected=expected, agreement=Agreement(score, tuple(wrong)))


@dataclass(frozen=True, slots=True, kw_only=True)
class SortedCalls:
    """The calls of a scope sorted out under one expectation.

    `made` are the calls that count, in order; `errored` those that answered with an error. `pairs` are those of required
    calls, `excused` those of optional ones, in order of the made calls. `extra` are the places in `made` of the calls left
    over, each with what its being extra means, `forbidden` those of calls that are forbidden by name.
    """

    expectation: CompiledExpectation
    made: Sequence[MadeCall]
    errored: Sequence[MadeCall]
    pairs: Sequence[PairedCall]
    excused: Sequence[PairedCall]
    extra: Sequence[tuple[int, ExtraRule]]
    forbidden: Sequence[int]

    @classmethod
    def of(cls, raw: RawCalls) -> SortedCalls:
        """Return sorted calls with names."""
        expectation, made, pairs, extra, _, errored = raw
        return cls(
            expectation=expectation,
            made=made,
            errored=errored,
            pairs=[PairedCall.of(pair) for pair in pairs if pair[1].required],
            excused=[PairedCall.of(pair) for pair in pairs if not pair[1].required],
            extra=[(place, expectation.extra_rule(made[place].call.name)) for place in extra],
            forbidden=[place for place, one in enumerate(made) if expectation.forbids(one.call.name)],
        )


def sort_calls(  # noqa: C901 — one pass for every turn: each function more is a tenth of its time
    expectation: CompiledExpectation, calls: Sequence[MadeCall], opinions: Opinions = NO_OPINIONS
) -> RawCalls:
    """Return the calls of a scope, in order of their place, sorted out under an expectation.

    Calls of kind `tool` count at any depth; a transfer or an agent used as a tool only where the expectation names it. A
    call that answered with an error was not made, unless the rules count it.
    """
    named = expectation.named
    made = calls
    errored: Sequence[MadeCall] = ()
    unrecorded: Sequence[int] = ()
    places: dict[str, list[int]] = {}
    extra: list[int] = []
    for place, one in enumerate(calls):
        call = one.call
        if call.error is not None or call.kind != "tool" or call.arguments is None or not call.result_captured:
            # Most turns have no such call, and are read in this one pass.
            made, errored, unrecorded = _counted(expectation, calls)
            places, extra = _places(named, made)
            break
        name = call.name
        if name in places:
            places[name].append(place)
        elif name in named:
            places[name] = [place]
        else:
            extra.append(place)
    pairs: list[Pair] = []
    repeated = False
    for name, those in places.items():
        expected = named[name]
        only = expected.only
        if only is None or len(those) > 1:
            pairs += pair_calls(expected, made, those, opinions)
            repeated = True
            continue
        place, parameters = those[0], only.parameters
        if made[place].call.arguments == parameters.alike:
            pairs.append((place, only, 1.0, ()))
            continue
        score, wrong = parameters.compare(made[place], opinions)
        if score == 1.0 or only.required:
            pairs.append((place, only, score, wrong))
    if len(pairs) + len(extra) < len(made):
        paired = {pair[0] for pair in pairs}
        extra = [place for place in range(len(made)) if place not in paired]
    if repeated:
        pairs.sort()
    return expectation, made, pairs, extra, unrecorded, errored


def _counted(
    expectation: CompiledExpectation, calls: Sequence[MadeCall]
) -> tuple[Sequence[MadeCall], Sequence[MadeCall], Sequence[int]]:
    """Return the calls that were made, those that answered with an error, and places of those not wholly recorded."""
    counted = [one for one in calls if one.call.kind == "tool" or _names(expectation, one.call.name)]
    errored = [one for one in counted if one.call.error is not None]
    made = counted if expectation.rules.count_errors else [one for one in counted if one.call.error is None]
    return made, errored, [place for place, one in enumerate(made) if not _is_recorded(one.call)]


def _places(named: Container[str], made: Sequence[MadeCall]) -> tuple[dict[str, list[int]], list[int]]:
    """Return where the calls of each expected name are, and where the others."""
    places: dict[str, list[int]] = {}
    for place, one in enumerate(made):
        if one.call.name in named:
            places.setdefault(one.call.name, []).append(place)
    return places, [place for place, one in enumerate(made) if one.call.name not in named]


def _names(expectation: CompiledExpectation, tool_name: str) -> bool:
    return tool_name in expectation.named or expectation.forbids(tool_name)


def _is_recorded(call: ToolCall) -> bool:
    return call.arguments is not None and (call.result_captured or call.error is not None)
