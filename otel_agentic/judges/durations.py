"""Durations of several parts, put together: "2 hours and 30 minutes" and "2h 30m" are 150 minutes."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from otel_agentic.judges.quantities import Quantity

if TYPE_CHECKING:
    from otel_agentic.judges.facts import Fact, Facts

_JOINED: Final = re.compile(r"\s*(?:,|and|und|et|y)?\s*", re.IGNORECASE)
_HOUR_S: Final = 3600.0
_MINUTE_S: Final = 60.0
_MAX_BETWEEN: Final = 8


def with_whole_durations(text: str, facts: Facts) -> Facts:
    """Return the facts of a text where neighbouring parts of one duration are one fact, in the unit of the first.

    >>> from otel_agentic.judges.facts import extract
    >>> [found.value for found in with_whole_durations("2h 30m", extract("2h 30m")).found]
    [2.5]
    """
    found: list[Fact] = []
    for fact in facts.found:
        joined = _joined(text, found[-1], fact) if found else None
        if joined is None:
            found.append(fact)
        else:
            found[-1] = joined
    return replace(facts, found=tuple(found))


def _joined(text: str, one: Fact, other: Fact) -> Quantity | None:
    """Return two facts as one duration, None where they are not parts of one."""
    if not (isinstance(one, Quantity) and isinstance(other, Quantity) and one.dimension == "time"):
        return None
    gap = text[one.end : other.start]
    factor = _part_s(text, one, other)
    if factor is None or len(gap) > _MAX_BETWEEN or not _JOINED.fullmatch(gap):
        return None
    if factor >= one.factor or other.value * factor >= one.factor:
        return None
    return replace(one, value=one.value + other.value * factor / one.factor, end=other.end)


def _part_s(text: str, one: Quantity, other: Quantity) -> float | None:
    """Return the seconds in the unit of the second part; after hours, "30m" means minutes and not metres."""
    if other.dimension == "time":
        return other.factor
    metres = other.dimension == "length" and text[other.start : other.end].rstrip().lower().endswith("m")
    return _MINUTE_S if metres and other.factor == 1.0 and one.factor == _HOUR_S else None
