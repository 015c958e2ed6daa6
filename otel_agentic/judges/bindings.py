"""Values assigned to the wrong subject: "Pro costs $10 and Basic costs $25".

The owners of an expected value are the words of its clause that occur with no other expected value. It is misplaced if the
answer names an owner of another value with it, and none of its own.
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
#: Maximum number of values compared, so that a text of a million numbers costs no more than a page.
_MAX_VALUES: Final = 16


def misplaced(expected: str, expected_facts: Sequence[Fact], answer: str, facts: Facts) -> Fact | None:
    """Return the first expected value that the answer assigns to another value's owner, or None.

    >>> from otel_agentic.judges.facts import extract
    >>> expected, answer = "Basic costs $10 and Pro costs $25.", "Pro costs $10 and Basic costs $25."
    >>> misplaced(expected, extract(expected).all, answer, extract(answer)).value
    10.0
    """
    if len(expected_facts) < 2 or len(expected_facts) > _MAX_VALUES:  # noqa: PLR2004 — a value alone cannot be swapped
        return None
    owners = _owners(expected, expected_facts)
    for index, fact in enumerate(expected_facts):
        foreign = [
            names
            for other, names in enumerate(owners)
            if other != index and rival_facts(expected_facts[other], fact) and names
        ]
        clauses = [clause_stems(answer, like) for like in list(facts.like(fact))[:_MAX_VALUES]]
        if (
            foreign
            and owners[index]
            and clauses
            and all(_is_foreign(words, owners[index], foreign) for words in clauses)
        ):
            return fact
    return None


def _owners(text: str, expected_facts: Sequence[Fact]) -> list[AbstractSet[str]]:
    clauses = [clause_stems(text, fact) for fact in expected_facts]
    return [
        own - {word for other, words in enumerate(clauses) if other != index for word in words}
        for index, own in enumerate(clauses)
    ]


def _is_foreign(clause: AbstractSet[str], own: AbstractSet[str], foreign: Sequence[AbstractSet[str]]) -> bool:
    return not clause & own and any(clause & names for names in foreign)


def clause_stems(text: str, fact: Fact) -> AbstractSet[str]:
    """Return the content words of the clause that contains a value."""
    before, after = (
        text[max(0, fact.start - _REACH_CHARACTERS) : fact.start],
        text[fact.end : fact.end + _REACH_CHARACTERS],
    )
    edges = [match.end() for match in _CLAUSE_EDGE.finditer(before)]
    edge = _CLAUSE_EDGE.search(after)
    return stems(before[edges[-1] if edges else 0 :] + " " + after[: edge.start() if edge else None]).keys()
