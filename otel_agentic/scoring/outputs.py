"""Whether an expected output was said: numbers, dates and times by value, texts as words; case and separators ignored.

An answer that is JSON says what its keys and values say, with their escapes decoded.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.dialects.values import parsed
from otel_agentic.judges.dates import Day, TimeOfDay
from otel_agentic.judges.facts import extract
from otel_agentic.judges.quantities import Quantity
from otel_agentic.scoring.parts import Part, failed, not_evaluated, passed
from otel_agentic.truth.text import normalise, says_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from otel_agentic.conversations.model import Turn
    from otel_agentic.judges.facts import Facts

_THOUSANDS: Final = re.compile(r"(?<=\d)[,'\u2019\u00a0\u202f\u2009](?=\d{3}(?!\d))")
#: Digits grouped as in any country, perhaps with cents: 1.286, 1 286,50, 1,23,456.
_GROUPED: Final = re.compile(
    r"(?<![\w.,\u2212-])\d{1,3}(?P<mark>[ .,'\u2019])(?:\d{2,3}(?P=mark)){0,6}\d{3}(?:[.,]\d{1,2})?(?!\w|[.,]\d)"
)
_CENTS: Final = re.compile(r"[.,](\d{1,2})$")
#: Digits stand beside letters without a space in scripts that have none.
_BESIDE_DIGITS: Final = re.compile(r"(?<=[\u3040-\u30ff\u3400-\u9fff])(?=\d)|(?<=\d)(?=[\u3040-\u30ff\u3400-\u9fff])")

#: JSON in a fence, as models write it.
_FENCE: Final = re.compile(r"^\s*```(?:json)?\s*\n(.*?)\n?\s*```\s*$", re.DOTALL)
#: A line break or tab as JSON and programs write it; before a small letter only behind a number. In a path it begins a name.
_ESCAPE: Final = re.compile(r"\\+[nrt](?![a-z])|(?<=\d)\\+[nrt]")
_WINDOWS_PATH: Final = re.compile(r"(?:^|[\s\"'(=])(?:[A-Za-z]:\\|\\\\\w)")
#: So often JSON text is read that stands inside of JSON text.
_MOST_ENCODED: Final = 3


@dataclass(frozen=True, kw_only=True)
class _Answer:
    """An answer, read once for all outputs that are looked for in it."""

    raw: str

    @cached_property
    def plain(self) -> str:
        """The normalised text without thousands separators."""
        return _plain(self.raw)

    @cached_property
    def facts(self) -> Facts:
        """What it says, by value."""
        return extract(_spaced(self.raw))

    @cached_property
    def grouped(self) -> frozenset[float]:
        """The numbers whose digits are grouped, whatever the mark between the groups."""
        return frozenset(_ungrouped(found.group()) for found in _GROUPED.finditer(_spaced(self.raw)))

    def says(self, output: str | float) -> bool:
        """Return whether it says a text or number."""
        wanted = _fact(output)
        if isinstance(wanted, Quantity):
            bare = wanted.dimension is None and wanted.value in self.grouped
            return bare or any(isinstance(fact, Quantity) and fact.same_as(wanted) for fact in self.facts.all)
        return says_text(self.plain, _plain(str(output))) or (wanted is not None and self.facts.holds(wanted))


def says(answer: str, output: str | float) -> bool:
    """Return whether an answer says a text or number.

    >>> says("The total is $23,553.", "23553"), says("Flight HAT136, gate 4", 136), says("I know.", "no")
    (True, False, False)
    """
    return any(reading.says(output) for reading in _readings(answer))


def missing_outputs(turns: Sequence[Turn], outputs: Sequence[str | float]) -> tuple[str, ...]:
    """Return the outputs that no answer says, as texts."""
    answers = [turn.answer for turn in turns if turn.answer is not None] if outputs else []
    readings = [reading for answer in answers for reading in _readings(answer)]
    return tuple(str(output) for output in outputs if not any(reading.says(output) for reading in readings))


def outputs_part(turns: Sequence[Turn], missing: Sequence[str]) -> Part:
    """Return the outcome of a conversation's expected outputs."""
    if not missing:
        return passed("every expected output was said")
    told = f"expected output {', '.join(repr(output) for output in missing)} was said in no answer"
    if any(turn.answer is None and not turn.answer_captured for turn in turns):
        return not_evaluated("content_not_captured", f"{told} that was captured")
    return failed("output_not_said", told)


def _fact(output: str | float) -> Quantity | Day | TimeOfDay | None:
    """Return the number, date or time that the whole output is, None where it is a text."""
    if not isinstance(output, str):
        return Quantity(value=_float(output), dimension=None, factor=1.0, decimals=0, start=0, end=0)
    facts = extract(_spaced(output))
    alone = len(facts.all) == 1 and not normalise(facts.rest)
    only = facts.all[0] if alone else None
    if isinstance(only, Quantity):
        return None if only.worded else only
    return only if isinstance(only, (Day, TimeOfDay)) else None


def _float(number: float) -> float:
    try:
        return float(number)
    except OverflowError:  # an integer of more than 308 digits
        return math.inf


def _ungrouped(text: str) -> float:
    cents = _CENTS.search(text)
    whole = text[: cents.start()] if cents else text
    return float(f"{re.sub(r'[^0-9]', '', whole)}.{cents[1] if cents else 0}")


def _readings(answer: str) -> list[_Answer]:
    """Return an answer as it is, and with its escapes decoded where it has some."""
    decoded = _decoded(answer)
    return [_Answer(raw=text) for text in (answer, decoded) if text is not None]


def _decoded(text: str) -> str | None:
    """Return an answer without escapes: the keys and values of JSON on a line each, else its text with spaces for them."""
    fenced = _FENCE.match(text)
    found = parsed(fenced.group(1) if fenced else text)
    if not isinstance(found, str) or found != text:
        return "\n".join(_texts_in(found, _MOST_ENCODED))
    if _ESCAPE.search(text) is None or _WINDOWS_PATH.search(text) is not None:
        return None
    return _ESCAPE.sub(" ", text)


def _texts_in(value: Any, encoded: int) -> Iterator[str]:
    """Yield the keys and values of JSON as texts.

    Args:
        value: the parsed JSON; never deeper than `parsed` lets through.
        encoded: how often JSON text inside of a text is read.
    """
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield key
            yield from _texts_in(item, encoded)
    elif isinstance(value, list):
        for item in value:
            yield from _texts_in(item, encoded)
    elif isinstance(value, str):
        inner = parsed(value) if encoded else value
        if isinstance(inner, str) and inner == value:
            yield _ESCAPE.sub(" ", value) if _WINDOWS_PATH.search(value) is None else value
        else:
            yield from _texts_in(inner, encoded - 1)
    elif value is not None:
        yield str(value)


def _spaced(text: str) -> str:
    return _BESIDE_DIGITS.sub(" ", unicodedata.normalize("NFKC", text))


def _plain(text: str) -> str:
    return normalise(_THOUSANDS.sub("", text))
