"""Whether a text takes back a fact that it states: "42, or maybe 43", "it is 42. Actually, it is 43".

Another value of the same kind is common in a right answer ("20 / 4 = 5", "$327 of the $1,000"). It contradicts only where
it competes for the same place: joined by "or", given as a correction, or stated of the same subject.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING, Final

from otel_agentic.judges.facts import rival_facts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from otel_agentic.judges.facts import Fact

_CHOICE: Final = re.compile(r"\s*,?\s*(?:or|and/or|/)\s+(?:\w+\s+){0,2}", re.IGNORECASE)
_CORRECTION: Final = re.compile(r"\b(?:actually|correction|sorry|wait|i mean|rather|instead)\b", re.IGNORECASE)
_STATED: Final = re.compile(
    r"(?:\b(?P<subject>[^\W\d]\w*)\s+)?(?:=|\b(?:is|are|was|were|be|equals?|comes to|costs?|totals?))\s*"
    r"(?:\b(?:about|exactly|now|only|on|at|in)\s+)?$",
    re.IGNORECASE,
)
#: Subjects that point back to what was asked; with no subject at all ("= 43") it is meant too.
_POINTING: Final = frozenset({"", "it", "this", "that", "answer", "result", "which", "there", "he", "she", "they"})
_LOOK_BACK: Final = 60
#: Places and rivals compared, so that a text of a million numbers costs no more than a long one.
_MAX_COMPARED: Final = 32


def contradicted(text: str, places: Iterable[Fact], expected: Fact, others: Iterable[Fact]) -> bool:
    """Return whether another value of the same kind competes with the expected one.

    Args:
        text: the judged text.
        places: its facts that say what is expected, those that it stands by.
        expected: the fact that should hold.
        others: further facts that it stands by; not those of the query, repeating them states nothing.
    """
    rivals = list(islice((fact for fact in others if rival_facts(fact, expected)), _MAX_COMPARED))
    return any(_competes(text, place, rival) for place in islice(places, _MAX_COMPARED) for rival in rivals)


def _competes(text: str, place: Fact, rival: Fact) -> bool:
    between = text[min(place.end, rival.end) : max(place.start, rival.start)]
    if _CHOICE.fullmatch(between):
        return True
    if rival.start > place.start and _CORRECTION.search(between):
        return True
    stated = _subject(text, rival)
    if stated is None:
        return False
    own = _subject(text, place)
    if stated in _POINTING:
        return rival.start > place.start
    # "20 / 4 = 5": a chain of results ends with the answer, what comes before it was on the way.
    return own == stated


def _subject(text: str, fact: Fact) -> str | None:
    """Return the word that the fact is stated of, "" where there is none, None where it is not stated of anything."""
    found = _STATED.search(text[max(0, fact.start - _LOOK_BACK) : fact.start])
    return None if found is None else (found["subject"] or "").casefold()
