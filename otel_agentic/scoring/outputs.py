"""Whether an expected output was said: numbers by value, texts as words, case and thousands separators ignored."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from otel_agentic.judges.facts import extract
from otel_agentic.judges.quantities import Quantity
from otel_agentic.scoring.parts import Part, failed, not_evaluated, passed
from otel_agentic.truth.text import normalise, says_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_agentic.conversations.model import Turn

_THOUSANDS: Final = re.compile(r"(?<=\d)[,'\u2019\u00a0\u202f\u2009](?=\d{3}(?!\d))")


def says(answer: str, output: str | float) -> bool:
    """Return whether an answer says a text or number.

    >>> says("The total is $23,553.", "23553"), says("Flight HAT136, gate 4", 136), says("I know.", "no")
    (True, False, False)
    """
    wanted = _number(output)
    if wanted is None:
        return says_text(_plain(answer), _plain(str(output)))
    return any(isinstance(fact, Quantity) and fact.same_as(wanted) for fact in extract(answer).found)


def missing_outputs(turns: Sequence[Turn], outputs: Sequence[str | float]) -> tuple[str, ...]:
    """Return the outputs that no answer says, as texts."""
    answers = [turn.answer for turn in turns if turn.answer is not None]
    return tuple(str(output) for output in outputs if not any(says(answer, output) for answer in answers))


def outputs_part(turns: Sequence[Turn], missing: Sequence[str]) -> Part:
    """Return the outcome of a conversation's expected outputs."""
    if not missing:
        return passed("every expected output was said")
    told = f"expected output {', '.join(repr(output) for output in missing)} was said in no answer"
    if any(turn.answer is None and not turn.answer_captured for turn in turns):
        return not_evaluated("content_not_captured", f"{told} that was captured")
    return failed("output_not_said", told)


def _number(output: str | float) -> Quantity | None:
    """Return the number that the whole output is, None where it is a text."""
    if not isinstance(output, str):
        return Quantity(value=float(output), dimension=None, factor=1.0, decimals=0, start=0, end=0)
    facts = extract(output)
    alone = len(facts.found) == 1 and not normalise(facts.rest)
    only = facts.found[0] if alone else None
    return only if isinstance(only, Quantity) and not only.worded else None


def _plain(text: str) -> str:
    return normalise(_THOUSANDS.sub("", text))
