"""Opposite statements: one text denies the other's claim, or uses "below" where the other uses "above"."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Final

from otel_agentic.judges.negation import denials, has_denial, sentences, without_idioms
from otel_agentic.judges.wording import stems, word_set
from otel_agentic.truth.text import normalise, words

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator

_YES: Final = word_set("yes yeah yep correct indeed sure certainly absolutely definitely true right ja oui sí")
_NO: Final = word_set("no nope never false incorrect wrong nein non")
#: Pairs of words that cannot both be true of the same thing.
_OPPOSITES: Final = (
    ("above over exceeding", "below under"),
    ("more", "less fewer"),
    ("before", "after"),
    ("cheaper", "expensive dearer"),
    ("higher", "lower"),
    ("larger bigger greater", "smaller"),
    ("longer", "shorter"),
    ("faster", "slower"),
    ("increase increases increased rose risen grew", "decrease decreases decreased fell fallen dropped shrank"),
    ("minimum least", "maximum most"),
    ("first", "last"),
    ("earliest", "latest"),
    ("open opens opened", "closed closes"),
    ("up", "down"),
    ("available", "unavailable"),
    ("possible", "impossible"),
    ("eligible", "ineligible"),
    ("included", "excluded"),
    ("passed succeeded successful", "failed unsuccessful"),
    ("accepted approved allowed permitted", "rejected declined denied forbidden prohibited"),
    ("enabled", "disabled"),
    ("with", "without"),
    ("free", "occupied"),
    ("left", "right"),
    ("safe", "dangerous unsafe"),
)
_OPPOSITE: Final[dict[str, frozenset[str]]] = {
    word: word_set(others) for pair in _OPPOSITES for own, others in (pair, pair[::-1]) for word in own.split()
}
#: Characters in which the first word of a text is searched.
_LEADING_CHARACTERS: Final = 200
#: Maximum number of sentences compared, so that a long text costs no more than a page.
_MAX_SENTENCES: Final = 100
#: From this share of common words on, two sentences are equal except for a word or two.
_SAME_WORDS: Final = 0.9


def leading(text: str) -> bool | None:
    """Return True or False if a normalised text begins with a yes or a no, otherwise None.

    >>> leading("yes, you can"), leading("no problem, done"), leading("maybe")
    (True, None, None)
    """
    first = next(iter(words(without_idioms(text[:_LEADING_CHARACTERS]))), "")
    return True if first in _YES else False if first in _NO else None


def opposed(expected: str, answer: str) -> bool:
    """Return whether an expected sentence and the answer's most similar one contradict each other.

    >>> opposed("Your order has been shipped.", "Your order has not been shipped yet.")
    True
    >>> opposed("The server is not up.", "The server is down.")
    False
    """
    candidates = list(_sentences(answer))
    for sentence, own in _sentences(expected):
        shared, other, words_of_other = max(
            (((own & shared_stems).total(), other, shared_stems.total()) for other, shared_stems in candidates),
            key=itemgetter(0),
            default=(0, "", 0),
        )
        if 2 * shared >= own.total() > 0 and flips(sentence, other):
            return True
        # With several negations in a sentence, a difference of one is significant only if the other words are the same.
        if shared >= _SAME_WORDS * max(own.total(), words_of_other) > 0 and (denials(sentence) - denials(other)) % 2:
            return True
    return False


def flips(first: str, second: str) -> bool:
    """Return whether one of two sentences about the same thing denies the other.

    A denied opposite agrees: "not up" is "down".
    """
    return (has_denial(first) != has_denial(second)) != _has_opposite(first, second)


def _has_opposite(first: str, second: str) -> bool:
    own, others = set(words(normalise(first))), set(words(normalise(second)))
    return any(_OPPOSITE.get(word, frozenset()) & (others - own) for word in own - others)


def _sentences(text: str) -> Iterator[tuple[str, Counter[str]]]:
    for sentence in sentences(text)[:_MAX_SENTENCES]:
        yield sentence, stems(sentence)
