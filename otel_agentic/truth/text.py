"""Text as matching sees it: normalised, cut into words, compared."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

#: What may end a sentence without changing what it asks; `%` and the like carry meaning and stay. NFKC has already
#: turned full-width marks and the ellipsis into these.
_FINAL_PUNCTUATION: Final = " .!?。؟،,;:"

#: Scripts written without spaces: each character is a word of its own.
_UNSPACED: Final = "\u0e00-\u0e7f\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_WORD: Final = re.compile(rf"[{_UNSPACED}]|(?:(?![{_UNSPACED}])\w)+")
_UNSPACED_CHARACTER: Final = re.compile(f"[{_UNSPACED}]")


def normalise(text: str) -> str:
    """Return the text in NFKC, case folded, with single spaces and without final punctuation.

    >>> normalise("  Where is  my ORDER?! ")
    'where is my order'
    """
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split()).rstrip(_FINAL_PUNCTUATION)


def words(text: str) -> list[str]:
    """Return the words of a normalised text in order; in scripts without spaces each character is one.

    >>> words(normalise("Don't panic: 東京"))
    ['don', 't', 'panic', '東', '京']
    """
    return _WORD.findall(text)


def similarity(one: str, other: str) -> float:
    """Return the Dice coefficient of the words of two texts as multisets, in [0, 1]; equal texts give 1.

    >>> similarity("cancel my order", "please cancel my order")
    0.8571428571428571
    """
    first, second = normalise(one), normalise(other)
    if first == second:
        return 1.0
    left, right = Counter(words(first)), Counter(words(second))
    total = left.total() + right.total()
    return 2 * (left & right).total() / total if total else 0.0


def says_text(text: str, wanted: str) -> bool:
    """Return whether a normalised text contains another one as whole words.

    >>> says_text("you now know", "no"), says_text("no, you do not", "no")
    (False, True)
    """
    return next(places_of(text, wanted), None) is not None


def places_of(text: str, wanted: str) -> Iterator[tuple[int, int]]:
    """Yield where (start, end) a text contains another one as whole words.

    A neighbour that is a letter or digit makes it another word, except in scripts without spaces.
    """
    start = text.find(wanted) if wanted else -1
    while start >= 0:
        end = start + len(wanted)
        if _apart(text[start - 1 : start], wanted[0]) and _apart(wanted[-1], text[end : end + 1]):
            yield start, end
        start = text.find(wanted, start + 1)


def _apart(left: str, right: str) -> bool:
    """Return whether two neighbouring characters belong to different words ("" is the edge of the text)."""
    if not (left and right and left.isalnum() and right.isalnum()):
        return True
    return bool(_UNSPACED_CHARACTER.match(left) or _UNSPACED_CHARACTER.match(right))
