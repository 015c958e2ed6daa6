"""Where an answer states another value than a result holds, although the result names it by a key of its own."""

from __future__ import annotations

from contextlib import suppress
from datetime import date
from itertools import combinations
from typing import TYPE_CHECKING, Final

from otel_agentic.judges.dates import Day
from otel_agentic.judges.quantities import Quantity, rounds_to
from otel_agentic.scoring.claims import agrees, claim_of
from otel_agentic.scoring.results import bare, key_text
from otel_agentic.scoring.use import Evidence, Use
from otel_agentic.truth.text import words

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from otel_agentic.judges.facts import Fact
    from otel_agentic.scoring.claims import Claim
    from otel_agentic.scoring.made import MadeCall
    from otel_agentic.scoring.results import ResultValue
    from otel_agentic.scoring.said import SaidText
    from otel_agentic.scoring.texts import Texts

#: Numbers that a stated one may have been worked out from, and calls whose results are looked at.
_MAX_OPERANDS: Final = 40
_MAX_OTHERS: Final = 50


def stated_otherwise(values: Sequence[ResultValue], made: MadeCall, texts: Texts) -> Use | None:
    """Return the use of a result whose keys the turn's own answer speaks of, None where it speaks of none.

    Score 1 where the value stated for a key is the result's, 0 where it is another that nothing known explains.
    """
    answer = next((said for turn, said in texts.answers if turn == made.turn_index), None)
    if answer is None:
        return None
    spoken_of = list(_spoken_of(values, answer))
    known_words = _known_words(values, made, texts) if spoken_of else frozenset()
    for name, value in spoken_of:
        claim = claim_of(answer, name, known_words)
        use = None if claim is None else _weighed(claim, value, values, made, texts)
        if use is not None:
            return use
    return None


def _spoken_of(values: Sequence[ResultValue], answer: SaidText) -> Iterator[tuple[str, ResultValue]]:
    """Yield the values that have a key of their own which may stand in an answer, each with the key as words."""
    for value in values:
        name = key_text(value.key) if value.alone and value.fact is not None else None
        if name is not None and name.split()[0] in answer.vocabulary:
            yield name, value


def _weighed(
    claim: Claim, value: ResultValue, values: Sequence[ResultValue], made: MadeCall, texts: Texts
) -> Use | None:
    known, stated = value.fact, claim.fact
    shown = Evidence(key=value.key, value=value.value, found=claim.text, turn_index=made.turn_index)
    if isinstance(known, Quantity) and isinstance(stated, Quantity) and rounds_to(known.value, stated):
        brought_in = any(_speaks_of(text, stated) for text in texts.brought_in(made, made.turn_index))
        return None if brought_in else Use(score=1.0, how="answer", shown=shown)
    if known is None or agrees(known, stated, about=claim.about) or _is_next_day(value, stated):
        return None
    if _is_explained(claim, values, made, texts) or _is_altered(known, claim):
        return None
    return Use(score=0.0, how="contradiction", shown=shown)


def _is_explained(claim: Claim, values: Sequence[ResultValue], made: MadeCall, texts: Texts) -> bool:
    """Return whether the stated value is known from anywhere, or can be worked out from what is."""
    stated = claim.fact
    if any(agrees(fact, stated, about=claim.about) for fact in _facts(values) if type(fact) is type(stated)):
        return True
    brought_in = texts.brought_in(made, made.turn_index)
    if any(_speaks_of(text, stated) for text in (*brought_in, *texts.earlier)):
        return True
    for other, _ in zip(texts.others(made), range(_MAX_OTHERS), strict=False):
        result = texts.result_of(other)
        known = any(agrees(fact, stated) for fact in _facts(result.values) if type(fact) is type(stated))
        if known or not result.complete or _speaks_of(texts.given_to(other), stated):
            return True
    return isinstance(stated, Quantity) and _is_worked_out(stated, values, brought_in)


def _is_next_day(value: ResultValue, stated: Fact) -> bool:
    """Return whether a day is next to that of a timestamp, which it may be in another time zone."""
    known = value.fact
    if not (isinstance(known, Day) and isinstance(stated, Day) and ":" in value.plain):
        return False
    return any(abs(one - other) <= 1 for one in _ordinals(known, stated) for other in _ordinals(stated, known))


def _ordinals(day: Day, other: Day) -> Iterator[int]:
    """Yield the days that a date may be, numbered; one that names no year is of the other one's."""
    years = {year for year, _, _ in other.readings if year is not None}
    for year, month, number in day.readings:
        for known_year in years if year is None else {year}:
            with suppress(ValueError):
                yield date(known_year, month, number or 1).toordinal()


def _is_altered(known: Fact, claim: Claim) -> bool:
    """Return whether the known value and another number of the sentence make the stated one."""
    stated = claim.fact
    if not (isinstance(known, Quantity) and isinstance(stated, Quantity)):
        return False
    made = (number for beside in claim.beside for number in _combined(known.value, beside.value))
    return any(agrees(bare(number), stated) for number in made)


def _facts(values: Sequence[ResultValue]) -> Iterator[Fact]:
    return (value.fact for value in values if value.fact is not None)


def _speaks_of(text: SaidText, stated: Fact) -> bool:
    return any(agrees(fact, stated) for fact in text.facts.all if type(fact) is type(stated))


def _is_worked_out(stated: Quantity, values: Sequence[ResultValue], brought_in: Sequence[SaidText]) -> bool:
    """Return whether two known numbers make the stated one: sum, difference, product, quotient, or share in percent."""
    own = [fact.value for fact in _facts(values) if isinstance(fact, Quantity)]
    given = [number.value for text in brought_in for number in text.quantities]
    operands = [*own[:_MAX_OPERANDS], *given[:_MAX_OPERANDS]]
    made = (number for one, other in combinations(operands, 2) for number in _combined(one, other))
    return any(agrees(bare(number), stated) for number in (*made, sum(own)))


def _combined(one: float, other: float) -> Iterator[float]:
    yield from (one + other, one - other, other - one, one * other)
    yield from (one * other / 100, one * (1 - other / 100), other * (1 - one / 100))
    if one and other:
        yield from (one / other, other / one)


def _known_words(values: Sequence[ResultValue], made: MadeCall, texts: Texts) -> frozenset[str]:
    """Return the words that name what a call was about."""
    named = {word for value in values if isinstance(value.value, str) for word in words(value.plain)}
    return texts.given_to(made).vocabulary | named
