"""Regular expressions from strangers: compiled once, bounded in memory, matched within a time limit."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

import regex

#: A pattern that needs longer is taken for one that does not match: backtracking must not stop an evaluation.
MATCH_TIMEOUT_S: Final = 0.1
#: Parts of a pattern, each as often as it must repeat: a compiled one takes some 300 bytes, so `a{100000000}` takes 30 GB.
MAX_PARTS: Final = 10_000

_SHOWN_CHARACTERS: Final = 80
#: An escape, a set, a repetition (its least count is group 1), or any other character.
_TOKEN: Final = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\{(\d+)(?:,\d*)?\}|.", re.DOTALL)


@lru_cache(maxsize=1024)
def compile_pattern(pattern: str) -> regex.Pattern[str]:
    """Return the compiled pattern.

    Raises:
        ValueError: the pattern is not a regular expression, or takes too much memory; says why and where.
    """
    if parts_of(pattern) > MAX_PARTS:
        raise ValueError(f"{_shown(pattern)} has more than {MAX_PARTS:,} parts, counting repetitions; shorten it")
    try:
        return regex.compile(pattern)
    except (regex.error, RecursionError, OverflowError) as error:
        raise ValueError(f"{_shown(pattern)} is not a regular expression: {error}") from error


def parts_of(pattern: str) -> int:
    r"""Return how many parts a pattern has, each as often as it must repeat.

    >>> parts_of("[A-Z]{3}-(ab{2}){4}"), parts_of("a*b{0,9}"), parts_of(r"\{9}")
    (16, 2, 3)
    """
    sizes, last = [0], 0
    for token in _TOKEN.finditer(pattern):
        if token[1] is not None:
            times = max(1, int(token[1][:9]))
            sizes[-1] += last * (times - 1)
            last *= times
        elif token[0] == "(":
            sizes.append(0)
            last = 0
        elif token[0] == ")" and len(sizes) > 1:
            last = sizes.pop()
            sizes[-1] += last
        elif token[0] not in {"*", "+", "?", "|"}:
            last = 1
            sizes[-1] += 1
    return sum(sizes)


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


def _shown(pattern: str) -> str:
    return repr(pattern if len(pattern) <= _SHOWN_CHARACTERS else f"{pattern[:_SHOWN_CHARACTERS]}…")
