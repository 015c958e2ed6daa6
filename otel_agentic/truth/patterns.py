"""Regular expressions from strangers: compiled once, matched within a time limit."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import regex

#: A pattern that needs longer is taken for one that does not match: backtracking must not stop an evaluation.
MATCH_TIMEOUT_S: Final = 0.1


@lru_cache(maxsize=1024)
def compile_pattern(pattern: str) -> regex.Pattern[str]:
    """Return the compiled pattern.

    Raises:
        ValueError: the pattern is not a regular expression; says why and where.
    """
    try:
        return regex.compile(pattern)
    except (regex.error, RecursionError, OverflowError) as error:
        raise ValueError(f"{pattern!r} is not a regular expression: {error}") from error


def matches_fully(pattern: str, text: str) -> bool:
    """Return whether the whole text matches; False as well past `MATCH_TIMEOUT_S`.

    >>> matches_fully("[A-Z]{3}", "JFK"), matches_fully("[A-Z]{3}", "JFK1")
    (True, False)
    """
    try:
        return compile_pattern(pattern).fullmatch(text, timeout=MATCH_TIMEOUT_S) is not None
    except TimeoutError:
        return False


def occurs(pattern: str, text: str) -> bool:
    """Return whether the pattern matches somewhere in the text; False as well past `MATCH_TIMEOUT_S`.

    >>> occurs("[0-9]", "gate B7")
    True
    """
    try:
        return compile_pattern(pattern).search(text, timeout=MATCH_TIMEOUT_S) is not None
    except TimeoutError:
        return False
