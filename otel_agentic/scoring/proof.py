"""Where a value of a result is found again: said in an answer, or given to a later call."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.judges.quantities import Quantity
from otel_agentic.scoring.results import key_text
from otel_agentic.scoring.said import SaidText
from otel_agentic.scoring.texts import MAX_ARGUMENTS
from otel_agentic.scoring.units import other_units
from otel_agentic.scoring.use import Evidence
from otel_agentic.truth.text import normalise
from otel_agentic.truth.values import leaves

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_agentic.scoring.made import MadeCall
    from otel_agentic.scoring.results import ResultValue
    from otel_agentic.scoring.texts import Texts

#: Among so few values any tells; among many, a number must have more digits than those that turn up by chance.
FEW_VALUES: Final = 3
_MANY_VALUES: Final = 50
_SMALL: Final = 10
_LARGE: Final = 100
_TELLING_CHARACTERS: Final = 4
_NAMES_ONE: Final = re.compile(r"(?:^|_)(?:id|number|code|key|ref)$|(?:Id|ID|Number|Code|Key|Ref)$")
#: What is said whatever a call answered.
_EMPTY: Final = frozenset((
    "ok", "okay", "yes", "no", "true", "false", "done", "none", "null",
    "nothing", "error", "success", "successful", "successfully", "completed", "result", "text",
))  # fmt: skip


def in_later_call(
    values: Sequence[ResultValue], made: MadeCall, later: Sequence[MadeCall], texts: Texts
) -> Evidence | None:
    """Return a value of a result that a later call was given, None where there is none."""
    telling = [value for value in values if tells(value, max(len(values), FEW_VALUES + 1))]
    for call in later:
        given, known = texts.given_to(call), texts.brought_in(made, call.turn_index)
        for value in telling:
            place = _argument_with(value, call) if find_new(value, given, known) is not None else None
            if place is not None:
                return _evidence(value, place[1], call.turn_index, call=call, argument=place[0])
        same = _same_name(values, call, known)
        if same is not None:
            return same
    return None


def _same_name(values: Sequence[ResultValue], call: MadeCall, known: Sequence[SaidText]) -> Evidence | None:
    """Return an id that an argument of its own name was given: there even a small number is no chance."""
    given = call.call.arguments or {}
    for value in values:
        argument = given.get(value.key) if value.alone and _NAMES_ONE.search(value.key) else None
        if type(argument) is type(value.value) and argument == value.value and not _is_in(value, known):
            return _evidence(value, str(argument), call.turn_index, call=call, argument=value.key)
    return None


def in_answers(values: Sequence[ResultValue], made: MadeCall, texts: Texts, *, strong: bool) -> Evidence | None:
    """Return a value of a result that an answer says, None where there is none.

    Args:
        values: the values of the result.
        made: the call.
        texts: what was said.
        strong: look for numbers, dates, identifiers and phrases; else for names and single words.
    """
    few = len(values) <= FEW_VALUES
    telling = [value for value in values if is_strong(value) == strong and tells(value, len(values))]
    for turn_index, answer in texts.answers_after(made) if telling else ():
        known = texts.brought_in(made, turn_index)
        chance: Evidence | None = None
        for value in telling:
            found = find_new(value, answer, known, few=few)
            if found is None:
                continue
            evidence = _evidence(value, found, turn_index)
            if few or not value.is_common or _says_key(answer, value):
                return evidence
            # One common word may be chance, two different ones are not.
            if chance is not None and chance.value != value.value:
                return chance
            chance = evidence
    return None


def _says_key(answer: SaidText, value: ResultValue) -> bool:
    name = key_text(value.key)
    return name is not None and answer.place_of_words(name) is not None


def _evidence(value: ResultValue, found: str, turn_index: int, **place: Any) -> Evidence:
    return Evidence(key=value.key, value=value.value, found=found, turn_index=turn_index, **place)


def find_new(value: ResultValue, said: SaidText, known: Sequence[SaidText], *, few: bool = False) -> str | None:
    """Return the words around a value where a text says it first, None where it does not."""
    if value.is_prose:
        shared = (phrase for phrase in value.phrases if phrase in said.phrases)
        return next((phrase for phrase in shared if not any(phrase in text.phrases for text in known)), None)
    found = find(value, said, few=few)
    return None if found is None or _is_in(value, known) else found


def find(value: ResultValue, said: SaidText, *, few: bool) -> str | None:
    """Return the words around a value where a text says it, None where it does not."""
    if isinstance(value.value, str):
        place = said.place_of_words(value.plain)
        if place is not None:
            return said.around_words(value.value, place)
    if value.fact is None:
        return None
    fact = (
        _find_number(value.fact, said, few=few) if isinstance(value.fact, Quantity) else said.place_of_fact(value.fact)
    )
    return None if fact is None else said.around(fact)


def _is_in(value: ResultValue, known: Sequence[SaidText]) -> bool:
    return any(find(value, text, few=True) is not None for text in known)


def _find_number(number: Quantity, said: SaidText, *, few: bool) -> Quantity | None:
    found = said.place_of_number(number)
    for reading in other_units(number) if found is None else ():
        found = found or said.place_of_number(reading, spelled=True)
    # Of many numbers one rounds to any small one.
    return found if found is None or few or not _is_small(found.value) else None


def is_strong(value: ResultValue) -> bool:
    """Return whether saying a value can hardly be chance: a number, date, code or sentence, rather than a word."""
    return value.fact is not None or value.is_prose


def tells(value: ResultValue, count: int) -> bool:
    """Return whether a value is rare enough to prove anything, given how many values its result has."""
    few = count <= FEW_VALUES
    fact = value.fact
    if isinstance(fact, Quantity):
        if count > _MANY_VALUES:
            return abs(fact.value) >= _LARGE or len(f"{abs(fact.value):g}".strip("0.").replace(".", "")) > 2  # noqa: PLR2004
        return (few and not value.told) or not _is_small(fact.value)
    if fact is not None:
        return True
    return value.plain not in _EMPTY and len(value.plain) >= (2 if few else _TELLING_CHARACTERS)


def _is_small(number: float) -> bool:
    return abs(number) < _SMALL and number % 1 == 0


def _argument_with(value: ResultValue, call: MadeCall) -> tuple[str, str] | None:
    """Return the argument that a value is in, and the words around it: a common word must be the whole of it."""
    for name, argument in leaves(call.call.arguments or {}, limit=MAX_ARGUMENTS):
        text = str(argument)
        if value.is_common:
            found = text if normalise(text) == value.plain else None
        else:
            found = find_new(value, SaidText.of(text), ())
        if found is not None:
            return name, found
    return None
