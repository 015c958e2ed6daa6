"""Negation of a span of text: "it is not Paris", "Paris is wrong", "it isn't London but Paris".

Covers English, and simple negations in German, French and Spanish; texts in other languages are read as affirmative.
"""

from __future__ import annotations

import re
from typing import Final

#: Maximum distance of a negation before a fact, in words and in characters.
_REACH_WORDS: Final = 5
_REACH_CHARACTERS: Final = 120

_NEGATORS: Final = (
    r"not|no|never|neither|nor|none|nobody|nothing|without|cannot|can't|won't|unable|unsure|doubt|"
    r"(?:is|are|was|were|do|does|did|has|have|had|would|could|should|must|need)n['\u2019]?t|incorrect|wrong|false|"
    r"nicht|kein(?:e[nrms]?)?|niemals|pas|jamais|aucune?|nunca|jamás|ning[uú]na?"
)
#: Phrases that contain a negator but deny nothing.
_IDIOMS: Final = re.compile(
    r"\b(?:no (?:problem|worries|doubt)|not only|why not|without (?:a )?doubt|wrong with|nicht nur|pas de souci)\b",
    re.IGNORECASE,
)
_NEGATOR: Final = re.compile(rf"(?<!\w)(?:{_NEGATORS})(?!\w)", re.IGNORECASE)
_DENIED_AFTER: Final = re.compile(
    r"\s*(?:is|was|are|were|would be|'s)?\s*(?:n['\u2019]t|not|never|wrong|incorrect|false)\b(?!\s+only)", re.IGNORECASE
)
#: The boundary between statements. A point inside a number has no space behind it.
_CLAUSE_END: Final = re.compile(
    r"[;!?\n,]|[.:](?:\s|$)|\s[-\u2013\u2014]\s|\b(?:but|however|instead|rather|sondern|mais|sino|pero)\b",
    re.IGNORECASE,
)
_SENTENCE_END: Final = re.compile(r"(?<=[.!?])\s+|\n+")


def denied_at(text: str, start: int, end: int) -> bool:
    """Return whether `text[start:end]` is denied in its own clause.

    >>> text = "It is not Paris but London."
    >>> denied_at(text, 10, 15), denied_at(text, 20, 26)
    (True, False)
    """
    near = " ".join(without_idioms(clause_before(text, start)).split()[-_REACH_WORDS:])
    return bool(_NEGATOR.search(near)) or bool(_DENIED_AFTER.match(text[end : end + 40]))


def clause_before(text: str, start: int) -> str:
    """Return the part of the clause before a position.

    >>> clause_before("No, do not eat it: this is poisonous.", 27)
    'this is '
    """
    before = text[max(0, start - _REACH_CHARACTERS) : start]
    ends = [edge.end() for edge in _CLAUSE_END.finditer(before)]
    return before[ends[-1] :] if ends else before


def has_denial(text: str) -> bool:
    """Return whether a text denies anything.

    >>> has_denial("You cannot cancel."), has_denial("No problem, you can cancel.")
    (True, False)
    """
    return denials(text) > 0


def denials(text: str) -> int:
    """Return the number of negating words in a text.

    >>> denials("I cannot add it, and I cannot look it up.")
    2
    """
    return sum(1 for _ in _NEGATOR.finditer(without_idioms(text)))


def sentences(text: str) -> list[str]:
    """Return the sentences of a text, without the empty ones.

    >>> sentences("It costs $1.50. Really!")
    ['It costs $1.50.', 'Really!']
    """
    return [part for part in _SENTENCE_END.split(text) if part.strip()]


def without_idioms(text: str) -> str:
    """Return the text with idioms that look like a negation blanked out, same length.

    >>> without_idioms("No problem, done.")
    '          , done.'
    """
    return _IDIOMS.sub(lambda match: " " * len(match.group()), text)
