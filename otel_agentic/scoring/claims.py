"""Whether an answer states another value for a key of a result: "total price is $330" where the result says 327.

To call a result unused is to call the agent wrong, so everything that leaves another reading open is no claim: a key
that could mean something else, a condition, a question, another time, an unclear unit, a number that can be worked out from
those known.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from otel_agentic.judges.dates import Day, TimeOfDay
from otel_agentic.judges.facts import Identifier, extract
from otel_agentic.judges.quantities import Quantity
from otel_agentic.scoring.units import readings
from otel_agentic.truth.text import places_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from otel_agentic.judges.facts import Fact
    from otel_agentic.scoring.said import SaidText


def _set_of(words: str) -> frozenset[str]:
    return frozenset(words.split())


#: Between a key and the value that is stated for it; marks of Markdown may stand anywhere.
_MARKS: Final = r"[\s*_`|]*"
_LINK: Final = re.compile(
    rf"{_MARKS}(?:is|was|are|of|:|=|at|=>|->)?{_MARKS}(?P<hedge>(?:now|currently|only|just|exactly|still|set to|"
    rf"(?P<about>about|around|approximately|approx|roughly|nearly|almost|some|~))?){_MARKS}(?P<denied>not{_MARKS}\S+{_MARKS},?{_MARKS}but{_MARKS})?"
)
_STRONG: Final = re.compile(r"[*`]+")
_LINK_CHARACTERS: Final = 60
_VALUE_CHARACTERS: Final = 40
#: Words before a key that leave it what it is; any other ("base price", "return date") makes it another one.
_BEFORE: Final = _set_of(
    "a an the is are was and or with of for in on at to has have its it your my our his her their this that "
    "current so then here overall exact final"
)
_WORD_BEFORE: Final = re.compile(r"(?:^|[\s*_`(\"'])([^\W\d_][\w'\u2019-]*)[ *_`(\"']*$")
#: Words behind a value that leave it a value of the key; of a key that may count anything, any other is what is counted.
_BEHIND: Final = _set_of(
    "per for and with in on at total today now so which but or to of a an the is was if after before including "
    "plus each right currently tonight tomorrow yesterday as from by until degrees left"
)
_WORD_BEHIND: Final = re.compile(r"[ *_`)\"']*([^\W\d_][\w'-]*)")
_GENERIC: Final = _set_of(
    "total amount number count value result results size order quantity length points level limit index page "
    "version year status code item items rate sum type name date time"
)
_CONDITION: Final = re.compile(
    r"\b(?:if|whether|unless|when|once|would|could|should|might|may|suppose|example|e\.g|yesterday|tomorrow|tonight|earlier|"
    r"previous(?:ly)?|former(?:ly)?|original(?:ly)?|initially|after|you (?:said|told|mentioned|thought))\b"
)
#: What makes a value behind a key another one than that of the result: "$118 after the discount", "$240 for two".
_ALTERED: Final = re.compile(
    r"\b(?:after|before|incl(?:uding|udes|usive)?|excl(?:uding|udes|usive)?|plus|minus|less|without|rounded|yesterday|"
    r"tomorrow|tonight|original(?:ly)?|for (?:two|three|four|five|six|both|all))\b"
)
_CLAUSE_END: Final = re.compile(r"[!?;]|\.(?:\s|$)")
#: Behind a value: the rest of a range, of a sum, or of a number whose digits are grouped in an unknown way.
_GOES_ON: Final = re.compile(r"\s*(?:[-\u2013+*/=\u00d7]|to\b|or\b|and\b)\s*[$\u20ac\u00a3]?\d|[\s.,'\u2019]\d")
_CLAUSE_CHARACTERS: Final = 160
_ALTERED_CHARACTERS: Final = 60
#: Digits between two separators of thousands.
_GROUP: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What a text states for a key.

    `text` is how; `about` whether only roughly. `beside` are the other numbers of the sentence: "$330 with the $3 fee".
    """

    fact: Fact
    text: str
    about: bool
    beside: tuple[Quantity, ...] = ()


def claim_of(said: SaidText, name: str, known_words: frozenset[str]) -> Claim | None:
    """Return the one value that a text states for a key, None where it states none, or several.

    Args:
        said: the text.
        name: the key as words.
        known_words: words of the call and its result: before the key they name what it is a key of.
    """
    found = list(_claims(said, name, known_words))
    first = found[0] if found else None
    if first is None or any(not _same(first.fact, other.fact) for other in found):
        return None
    return first


def _same(one: Fact, other: Fact) -> bool:
    return type(one) is type(other) and agrees(one, other)


def _claims(said: SaidText, name: str, known_words: frozenset[str]) -> Iterator[Claim]:
    # A normalised text has lost the mark that ends it.
    plain = f"{said.plain}?" if said.raw.rstrip().endswith("?") else said.plain
    for start, end in places_of(plain, name):
        if not _means_the_key(plain, start, known_words):
            continue
        link = _LINK.match(plain, end, end + _LINK_CHARACTERS)
        behind = link.end() if link else end
        facts = extract(plain[behind : behind + _VALUE_CHARACTERS]).all
        if not facts or facts[0].start > 0:
            continue
        stop = behind + facts[0].end
        if not _is_open(plain, start, stop) and (name not in _GENERIC or _ends_there(plain, stop)):
            told, beside = _STRONG.sub("", plain[start:stop]), tuple(_numbers_beside(plain, start, stop))
            yield Claim(fact=facts[0], text=told, about=bool(link and link["about"]), beside=beside)


def _means_the_key(plain: str, start: int, known_words: frozenset[str]) -> bool:
    word = _WORD_BEFORE.search(plain[max(0, start - _VALUE_CHARACTERS) : start])
    if word is None or word[1] in _BEFORE:
        return True
    owner = re.sub(r"['\u2019]s$", "", word[1])
    return owner in known_words


def _is_open(plain: str, start: int, stop: int) -> bool:
    """Return whether a sentence supposes what stands there, asks for it, alters it, or has not said all of it."""
    before, behind = _sentence(plain, start, stop)
    return (
        behind.endswith("?")
        or bool(_CONDITION.search(before))
        or bool(_ALTERED.search(behind[:_ALTERED_CHARACTERS]))
        or bool(_GOES_ON.match(plain, stop))
    )


def _sentence(plain: str, start: int, stop: int) -> tuple[str, str]:
    """Return what a sentence says before and behind a place in it, with the mark that ends it."""
    before = _CLAUSE_END.split(plain[max(0, start - _CLAUSE_CHARACTERS) : start])[-1]
    end = _CLAUSE_END.search(plain, stop, stop + _CLAUSE_CHARACTERS)
    return before, plain[stop : end.end() if end else stop + _CLAUSE_CHARACTERS].rstrip()


def _numbers_beside(plain: str, start: int, stop: int) -> Iterator[Quantity]:
    for part in _sentence(plain, start, stop):
        yield from (fact for fact in extract(part).all if isinstance(fact, Quantity))


def _ends_there(plain: str, stop: int) -> bool:
    word = _WORD_BEHIND.match(plain, stop)
    return word is None or word[1] in _BEHIND


def agrees(known: Fact, stated: Fact, *, about: bool = False) -> bool:
    """Return whether a stated value may be a known one; where the two cannot be compared it may.

    >>> from otel_agentic.judges.quantities import quantities
    >>> known, *stated = quantities("90 1.5 hours 90% 95")
    >>> [agrees(known, one) for one in stated]
    [True, True, False]
    """
    if isinstance(known, Quantity) and isinstance(stated, Quantity):
        return any(_near(number, stated, about=about) for number in readings(known, stated))
    if isinstance(known, Identifier) and isinstance(stated, Identifier):
        one, other = (re.sub(r"[^a-z0-9]", "", fact.value) for fact in (known, stated))
        return one in other or other in one
    if isinstance(known, Day) and isinstance(stated, Day):
        return known.same_as(stated)
    if isinstance(known, TimeOfDay) and isinstance(stated, TimeOfDay):
        # Whole hours apart may be another time zone.
        return (known.minutes - stated.minutes) % 60 == 0
    return type(known) is not type(stated)


def _near(number: float, stated: Quantity, *, about: bool) -> bool:
    shown = 0.5 * 10.0**-stated.decimals
    if about or stated.worded:
        shown = max(shown, 0.1 * abs(number))
    if abs(stated.value) >= 10_000:  # noqa: PLR2004 — large numbers are said in round figures
        shown = max(shown, 0.05 * abs(number))
    if stated.decimals == 1 and stated.value * 2 % 1 == 0:
        # Ratings are said in halves.
        shown = max(shown, 0.25)
    # A sign may be said in words: "overdrawn". 1.234 may be 1,234 in another country.
    readings_of = (stated.value, stated.value * 1000) if stated.decimals == _GROUP else (stated.value,)
    return any(abs(abs(number) - abs(value)) <= shown * (1 + 1e-9) for value in readings_of)
