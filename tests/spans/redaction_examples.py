"""Examples of the rules of redaction, generated from the formats that the rules state: no literal looks like a secret."""

from __future__ import annotations

import re
import string
from typing import TYPE_CHECKING

from otel_agentic.redaction.rules import ALPHABETS, Rule, parts_of

if TYPE_CHECKING:
    from random import Random


_CHARACTERS = {
    name: [first for first in string.printable if re.fullmatch(f"[{inside}]", first)]
    for name, inside in ALPHABETS.items()
}

_DIGIT, _EVERY = 2, 5


def generated(text: str, random: Random) -> str:
    """Return a text of a format."""
    pieces = []
    for part in parts_of(text):
        if part.alphabet:
            count = random.randint(part.least, part.most or part.least)
            characters = random.choices(_CHARACTERS[part.alphabet], k=count)
            if "0" in _CHARACTERS[part.alphabet]:  # generated text without a digit is rare, and may be missed
                characters[_DIGIT::_EVERY] = random.choices(string.digits[2:8], k=len(characters[_DIGIT::_EVERY]))
            pieces.append("".join(characters))
        else:
            pieces.append(part.literal)
    return "".join(pieces)


def examples_of(rule: Rule, random: Random) -> list[tuple[str, str]]:
    """Return texts in which a rule finds something, each with the part that is taken."""
    results = []
    for example in rule.examples:
        # The redacted text is between the first brace that is not of JSON or a list, and its counterpart.
        marked = re.search(r"\{(\{SHA\}[^{}]*|[^{}]*)\}", example)
        assert marked is not None, example
        secret = generated(marked[1], random)
        results.append(
            (generated(example[: marked.start()], random) + secret + generated(example[marked.end() :], random), secret)
        )
    return results
