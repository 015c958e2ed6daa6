"""Whether a text asserts a fact that it mentions: not if it is denied, past, the belief of others, or a guess.

"We used to open at 8 am; now we open at 9 am" mentions two times and asserts one. "The correct number is 14, not 15",
"larger than 9.9" and "I don't know. Perhaps 42?" mention a number without asserting it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from otel_agentic.judges.negation import clause_before, denied_at

#: Markers of the past, or of the belief of others, in the clause before the fact.
_SET_ASIDE: Final = re.compile(
    r"\b(?:used to|formerly|previously|originally|initially|at first|first (?:thought|counted|said|assumed)|no longer|"
    r"(?:many|some|most)(?: people)? (?:think|believe|say|assume)|(?:often|commonly|wrongly) (?:thought|believed|said)|"
    r"contrary to|(?:moved|changed|switched|rescheduled|rebooked|updated|corrected|renamed) from|früher|anciennement|antes)\b",
    re.IGNORECASE,
)
_MOVED_ON: Final = re.compile(r"\bto\b", re.IGNORECASE)
_THAN: Final = re.compile(r"\bthan\s+(?:\w+\s+)?$", re.IGNORECASE)
_IGNORANCE: Final = re.compile(
    r"\b(?:(?:do not|don['\u2019]t) know|no idea|not (?:entirely |quite )?(?:sure|certain)|unsure|cannot say|can['\u2019]t say)\b",
    re.IGNORECASE,
)
_GUESS: Final = re.compile(r"\b(?:perhaps|maybe|possibly|might|could be|may be|guess)\b", re.IGNORECASE)
_SENTENCE_MARK: Final = re.compile(r"[.!?](?:\s|$)|\n")
_SENTENCE_REACH: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """Manners of speaking in question and expected text, which an answer may use as well without retracting a fact."""

    past: bool = False
    than: bool = False

    @classmethod
    def of(cls, *texts: str) -> Manner:
        """Return the manner of several texts together.

        >>> Manner.of("Where was it moved from?", "previously Oslo")
        Manner(past=True, than=False)
        """
        text = "\n".join(texts)
        return cls(past=bool(_SET_ASIDE.search(text)), than=bool(re.search(r"\bthan\b", text, re.IGNORECASE)))


def asserts(text: str, start: int, end: int, manner: Manner) -> bool:
    """Return whether a text asserts `text[start:end]`.

    >>> text = "We used to open at 8 am; now we open at 9 am."
    >>> asserts(text, 19, 23, Manner()), asserts(text, 40, 44, Manner())
    (False, True)
    """
    if denied_at(text, start, end):
        return False
    before = clause_before(text, start)
    if not manner.than and _THAN.search(before):
        return False
    if not manner.past and _is_set_aside(before):
        return False
    return not (_IGNORANCE.search(text) and _is_guess(text, start, end))


def _is_set_aside(before: str) -> bool:
    """Return whether a clause marks the following fact as past or believed; in "moved from A to B" only A."""
    cues = list(_SET_ASIDE.finditer(before))
    if not cues:
        return False
    cue = cues[-1]
    return not (cue.group().lower().endswith("from") and _MOVED_ON.search(before, cue.end()))


def _is_guess(text: str, start: int, end: int) -> bool:
    before, after = text[max(0, start - _SENTENCE_REACH) : start], text[end : end + _SENTENCE_REACH]
    marks = [end.end() for end in _SENTENCE_MARK.finditer(before)]
    mark = _SENTENCE_MARK.search(after)
    if mark is not None and mark.group().startswith("?"):
        return True
    sentence = before[marks[-1] if marks else 0 :] + after[: mark.start() if mark else None]
    return bool(_GUESS.search(sentence))
