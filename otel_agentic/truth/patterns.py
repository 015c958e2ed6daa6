"""Regular expressions of cases: compiled once by RE2, matched in linear time on any text."""

from __future__ import annotations

from otel_agentic.config.own_patterns import OwnPattern, own_pattern


def compile_pattern(pattern: str) -> OwnPattern:
    """Return the compiled pattern.

    Raises:
        ValueError: RE2 does not support it; names the pattern and the reason.
    """
    return own_pattern(pattern)


def matches_fully(pattern: str, text: str) -> bool:
    """Return whether the whole text matches.

    >>> matches_fully("[A-Z]{3}", "JFK"), matches_fully("[A-Z]{3}", "JFK1")
    (True, False)
    """
    return own_pattern(pattern).fullmatch(text)


def occurs(pattern: str, text: str) -> bool:
    """Return whether the pattern matches somewhere in the text.

    >>> occurs("[0-9]", "gate B7")
    True
    """
    return own_pattern(pattern).search(text)
