"""Whether an answer gives the expected values to the wrong things: "Pro costs $10 and Basic costs $25".

Each expected value has owners: the words of its clause that stand beside no other expected value. It is misplaced where the
answer names an owner of another value beside it, and none of its own.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from otel_agentic.judges.facts import rival_facts
from otel_agentic.judges.wording import stems

if TYPE_CHECKING:
    from collections.abc import Sequence
    from collections.abc import Set as AbstractSet

    from otel_agentic.judges.facts import Fact, Facts

_CLAUSE_EDGE: Final = re.compile(r"[,;\n]|[.!?](?:\s|$)|\b(?:and|und|et|while|whereas|but)\b", re.IGNORECASE)
_REACH_CHARACTERS: Final = 120
#: Values held against each other, so that a text of a million numbers costs no more than a page.
_MAX_VALUES: Final = 16


def misplaced(expected: str, wanted: Sequence[Fact], answer: str, facts: Facts) -> Fact | None:
    """Return the first expected value that the answer gives to another value's owner, None where there is none.

    >>> from otel_agentic.judges.facts import extract
    >>> expected, answer = "Basic costs $10 and Pro costs $25.", "Pro costs $10 and Basic costs $25."
    >>> misplaced(expected, extract(expected).found, answer, extract(answer)).value
    10.0
    """
    if len(wanted) < 2 or len(wanted) > _MAX_VALUES:  # noqa: PLR2004 — a value alone cannot be swapped
        return None
    owners = _owners(expected, wanted)
    for place, fact in enumerate(wanted):
        foreign = [
            names for other, names in enumerate(owners) if other != place and rival_facts(wanted[other], fact) and names
        ]
        said = [clause_stems(answer, found) for found in list(facts.like(fact))[:_MAX_VALUES]]
        if foreign and owners[place] and said and all(_is_foreign(words, owners[place], foreign) for words in said):
            return fact
    return None


def _owners(text: str, wanted: Sequence[Fact]) -> list[AbstractSet[str]]:
    beside = [clause_stems(text, fact) for fact in wanted]
    return [
        own - {word for other, words in enumerate(beside) if other != place for word in words}
        for place, own in enumerate(beside)
    ]


def _is_foreign(said: AbstractSet[str], own: AbstractSet[str], foreign: Sequence[AbstractSet[str]]) -> bool:
    return not said & own and any(said & names for names in foreign)


def clause_stems(text: str, fact: Fact) -> AbstractSet[str]:
    """Return the telling words of the clause that holds a value."""
    before, after = (
        text[max(0, fact.start - _REACH_CHARACTERS) : fact.start],
        text[fact.end : fact.end + _REACH_CHARACTERS],
    )
    edges = [found.end() for found in _CLAUSE_EDGE.finditer(before)]
    edge = _CLAUSE_EDGE.search(after)
    return stems(before[edges[-1] if edges else 0 :] + " " + after[: edge.start() if edge else None]).keys()
