"""Content words of a text, stemmed, and the similarity of two texts by their words."""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from otel_agentic.truth.values import normalise, words

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Weights of an expected fact, relative to a word, and of a word that the query already contains.
_FACT_WEIGHT: Final = 2.0
_ASKED_WEIGHT: Final = 0.25
#: Weight of precision: an answer may contain more than was expected.
_PRECISION_SHARE: Final = 0.1


def word_set(text: str) -> frozenset[str]:
    """Return the words of a space-separated list.

    >>> sorted(word_set("yes no"))
    ['no', 'yes']
    """
    return frozenset(text.split())


#: Words without content, in English, German, French and Spanish; negations are compared separately.
FILLERS: Final = (
    word_set(
        "a an the is are was were be been being it its this that these those of to in on at for and or with by from as i you "
        "your we our they their he she his her me my us them there here will would can could do does did have has had please "
        "so just very per out then also now not no nor cannot ca wo "
        "take takes took cost costs get gets got"
    )
    | word_set(
        "der die das den dem des ein eine einen einem einer ist sind war waren wird werden ihr ihre ihren ihnen sie ich wir "
        "unser es zu zum zur von vom mit für auf im am um und oder haben hat bitte nicht"
    )
    | word_set(
        "le la les un une est sont était votre vos vous je nous notre il elle de du au aux en et ou pour par avec dans sur ce "
        "cette qui que à ont avez ne pas"
    )
    | word_set("el los las uno son era su sus usted yo nosotros lo del al y o por para con se ha han está están")
)
#: Longer words are rare, and their stems are not cached.
_REMEMBERED_CHARACTERS: Final = 30
#: Contractions: "it's", "you'll", "don't".
_CONTRACTED: Final = re.compile(r"(?<=\w)(?:n['\u2019]t|['\u2019](?:s|ll|re|ve|d|m))\b", re.IGNORECASE)
#: Endings that do not change the meaning; four letters remain, so that short names are not cut.
_ENDINGS: Final = re.compile(r"(?<=\w{3})(?:ing|ed|es|s)$")
_LONG_ENDINGS: Final = re.compile(r"(?<=\w{4})(?:ations?|ments?|ally|al|ly|e|y)$")
#: Without "sat" and "sun", which are words.
_WEEKDAYS: Final = {
    "mon": "monday",
    "tue": "tuesday",
    "tues": "tuesday",
    "wed": "wednesday",
    "thu": "thursday",
    "thur": "thursday",
    "thurs": "thursday",
    "fri": "friday",
}


def stems(text: str) -> Counter[str]:
    """Return the content words of a text without their endings.

    >>> sorted(stems("It's approved: the deliveries were cancelled on Tue."))
    ['approv', 'cancell', 'deliveri', 'tuesda']
    """
    return Counter(stem(word) for word in words(normalise(_CONTRACTED.sub("", text))) if word not in FILLERS)


def stem(word: str) -> str:
    """Return a word without its ending.

    >>> stem("successful") == stem("successfully"), stem("approval") == stem("approved"), stem("Maria") == stem("Mario")
    (True, True, False)
    """
    return _stem_remembered(word) if len(word) <= _REMEMBERED_CHARACTERS else _stem(word)


def _stem(word: str) -> str:
    plain = _WEEKDAYS.get(word, word)
    return _LONG_ENDINGS.sub("", _ENDINGS.sub("", plain))


_stem_remembered = lru_cache(maxsize=50_000)(_stem)


def similarity(
    expected: Counter[str], answer: Counter[str], query: Counter[str], *, facts: Sequence[tuple[bool, bool]] = ()
) -> float:
    """Return the share of the expected words and facts that an answer contains, in [0, 1], slightly reduced for additions.

    A fact weighs more than a word. Words of the query weigh little: an answer need not repeat the question.

    Args:
        expected: content words of the expected text, outside its facts.
        answer: content words of the answer.
        query: content words of the query.
        facts: for each expected fact, whether the answer states it and whether the query does.

    >>> similarity(stems("it boils at sea level"), stems("it boils"), Counter())
    0.3333333333333333
    """
    held = total = 0.0
    for word, count in expected.items():
        weight = _ASKED_WEIGHT if word in query else 1.0
        total += weight * count
        held += weight * min(count, answer[word])
    for stated, in_query in facts:
        weight = _FACT_WEIGHT * (_ASKED_WEIGHT if in_query else 1.0)
        total += weight
        held += weight * stated
    if not total:
        return 0.0
    shared, answered = (expected & answer).total() + sum(stated for stated, _ in facts), answer.total() + len(facts)
    precision = min(1.0, shared / answered) if answered else 0.0
    return held / total * (1 - _PRECISION_SHARE + _PRECISION_SHARE * precision)
