"""Text for matching: normalised, split into words, compared."""

from __future__ import annotations

import unicodedata
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import regex

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

#: Punctuation that may end a sentence without changing its meaning; `%` and the like are significant. NFKC has already
#: converted full-width marks and the ellipsis into these. The last ones end sentences in Urdu, the languages of India,
#: Armenian, Burmese, Amharic and Khmer.
_FINAL_PUNCTUATION: Final = " .!?。؟،,;:" + "".join(map(chr, (0x06D4, 0x0964, 0x0965, 0x0589, 0x104B, 0x1362, 0x17D4)))

#: Scripts written without spaces: each character is a word.
_UNSPACED: Final = "\u0e00-\u0e7f\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
#: Not `re`: its words break at combining marks, which would split Hindi words into letters.
_WORD: Final = regex.compile(rf"[{_UNSPACED}]|[^\W{_UNSPACED}]+")
_UNSPACED_CHARACTER: Final = regex.compile(f"[{_UNSPACED}]")
#: These marks select how an emoji is drawn, and are part of no word.
_VARIATION_SELECTORS: Final = frozenset("\ufe0e\ufe0f")


def normalise(text: str) -> str:
    """Return the text in NFKC, case folded, with single spaces and without final punctuation.

    >>> normalise("  Where is  my ORDER?! ")
    'where is my order'
    """
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split()).rstrip(_FINAL_PUNCTUATION)


def words(text: str) -> list[str]:
    """Return the words of a normalised text in order; in scripts without spaces each character is a word.

    >>> words(normalise("Don't panic: 東京"))
    ['don', 't', 'panic', '東', '京']
    """
    return _WORD.findall(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bag:
    """A text prepared for comparison with many others: normalised, its words with their counts, and their number."""

    text: str
    counts: Mapping[str, int]
    size: int

    @classmethod
    def of(cls, text: str) -> Bag:
        """Return the bag of a raw text."""
        plain = normalise(text)
        tokens = words(plain)
        return cls(text=plain, counts=Counter(tokens), size=len(tokens))

    def similarity(self, other: Bag) -> float:
        """Return the Dice coefficient of the words of two texts as multisets, in [0, 1]; equal texts give 1."""
        if self.text == other.text:
            return 1.0
        total = self.size + other.size
        few, many = sorted((self.counts, other.counts), key=len)
        # Not Counter's own `&`: it creates a Counter, which costs twice as much.
        shared = sum([min(count, many[word]) for word, count in few.items() if word in many])
        return 2 * shared / total if total else 0.0


def similarity(first: str, second: str) -> float:
    """Return the similarity of two texts by their words, see `Bag.similarity`.

    >>> similarity("cancel my order", "please cancel my order")
    0.8571428571428571
    """
    return Bag.of(first).similarity(Bag.of(second))


def says_text(text: str, part: str) -> bool:
    """Return whether a normalised text contains another one as whole words.

    >>> says_text("you now know", "no"), says_text("no, you do not", "no")
    (False, True)
    """
    return next(places_of(text, part), None) is not None


def places_of(text: str, part: str) -> Iterator[tuple[int, int]]:
    """Yield the spans (start, end) where a text contains another one as whole words.

    Adjacent letters or digits make it another word, except in scripts without spaces.
    """
    start = text.find(part) if part else -1
    while start >= 0:
        end = start + len(part)
        if _apart(text[start - 1 : start], part[0]) and _apart(part[-1], text[end : end + 1]):
            yield start, end
        start = text.find(part, start + 1)


def _apart(left: str, right: str) -> bool:
    """Return whether two neighbouring characters belong to different words ("" is the edge of the text)."""
    if not (left and right and _in_word(left) and _in_word(right)):
        return True
    return bool(_UNSPACED_CHARACTER.match(left) or _UNSPACED_CHARACTER.match(right))


def _in_word(character: str) -> bool:
    """Return whether a character is a letter, a digit, or a combining mark."""
    if character.isalnum():
        return True
    return unicodedata.category(character) in {"Mn", "Mc"} and character not in _VARIATION_SELECTORS
