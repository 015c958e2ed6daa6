"""Retraction of a stated fact by the same text: "42, or maybe 43", "it is 42. Actually, it is 43".

Another value of the same kind is common in a right answer ("20 / 4 = 5", "$327 of the $1,000"). It is a contradiction only if
both compete: joined by "or", introduced as a correction, or stated of the same subject.
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
#: Subjects that refer back to the question; a missing subject ("= 43") does as well.
_POINTING: Final = frozenset({"", "it", "this", "that", "answer", "result", "which", "there", "he", "she", "they"})
_LOOK_BACK: Final = 60
#: Maximum number of facts compared, so that a text of a million numbers costs no more than a long one.
_MAX_COMPARED: Final = 32


def contradicted(text: str, statements: Iterable[Fact], expected: Fact, others: Iterable[Fact]) -> bool:
    """Return whether another value of the same kind competes with the expected one.

    Args:
        text: the judged text.
        statements: the facts of the text that equal the expected one and are asserted.
        expected: the expected fact.
        others: other facts that the text asserts, without those of the query: repeating them asserts nothing.
    """
    rivals = list(islice((fact for fact in others if rival_facts(fact, expected)), _MAX_COMPARED))
    return any(_competes(text, statement, rival) for statement in islice(statements, _MAX_COMPARED) for rival in rivals)


def _competes(text: str, statement: Fact, rival: Fact) -> bool:
    between = text[min(statement.end, rival.end) : max(statement.start, rival.start)]
    if _CHOICE.fullmatch(between):
        return True
    if rival.start > statement.start and _CORRECTION.search(between):
        return True
    stated = _subject(text, rival)
    if stated is None:
        return False
    own = _subject(text, statement)
    if stated in _POINTING:
        return rival.start > statement.start
    # "20 / 4 = 5": a chain of results ends with the answer; earlier results are intermediate.
    return own == stated


def _subject(text: str, fact: Fact) -> str | None:
    """Return the word that a fact is stated of, "" if it is missing, or None if the fact is not stated of anything."""
    match = _STATED.search(text[max(0, fact.start - _LOOK_BACK) : fact.start])
    return None if match is None else (match["subject"] or "").casefold()
