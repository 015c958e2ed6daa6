"""Durations of several parts, joined: "2 hours and 30 minutes" and "2h 30m" are 150 minutes."""

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
    """Return the facts of a text with neighbouring parts of one duration joined into one fact, in the unit of the first part.

    >>> from otel_agentic.judges.facts import extract
    >>> [duration.value for duration in with_whole_durations("2h 30m", extract("2h 30m")).all]
    [2.5]
    """
    joined: list[Fact] = []
    for fact in facts.all:
        duration = _duration(text, joined[-1], fact) if joined else None
        if duration is None:
            joined.append(fact)
        else:
            joined[-1] = duration
    return replace(facts, all=tuple(joined))


def _duration(text: str, first: Fact, second: Fact) -> Quantity | None:
    """Return two facts as one duration, or None if they are not parts of one."""
    if not (isinstance(first, Quantity) and isinstance(second, Quantity) and first.dimension == "time"):
        return None
    gap = text[first.end : second.start]
    factor = _part_s(text, first, second)
    if factor is None or len(gap) > _MAX_BETWEEN or not _JOINED.fullmatch(gap):
        return None
    if factor >= first.factor or second.value * factor >= first.factor:
        return None
    return replace(first, value=first.value + second.value * factor / first.factor, end=second.end)


def _part_s(text: str, first: Quantity, second: Quantity) -> float | None:
    """Return the seconds in the unit of the second part; after hours, "30m" means minutes and not metres."""
    if second.dimension == "time":
        return second.factor
    metres = second.dimension == "length" and text[second.start : second.end].rstrip().lower().endswith("m")
    return _MINUTE_S if metres and second.factor == 1.0 and first.factor == _HOUR_S else None
