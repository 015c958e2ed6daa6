"""User-supplied patterns: regular expressions compiled by RE2, and globs.

RE2 matches any text in linear time and bounded memory, so a pattern from the settings cannot stall the collector.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final

_SHOWN_CHARACTERS: Final = 80
#: Constructs of other engines that RE2 does not support, by their prefix.
_UNSUPPORTED: Final = {
    "(?=": "look-ahead", "(?!": "look-ahead", "(?<=": "look-behind", "(?<!": "look-behind", "(?>": "atomic groups", "(?P=": "backreferences",
    "(?(": "conditions", "\\1": "backreferences", "\\2": "backreferences", "\\k": "backreferences", "\\Z": "\\Z (write \\z)",
}  # fmt: skip
_HINT: Final = "RE2 syntax is as in Python, without look-around, backreferences and more than 1,000 repetitions"
#: A part of a glob: any text, any single character (`?` or a class), or a literal character.
_PART: Final = re.compile(r"\*|\?|\[!?\]?[^\]]*\]|.", re.DOTALL)


class OwnPattern:
    """A compiled regular expression of a user."""

    def __init__(self, pattern: str, *, ignore_case: bool = False) -> None:
        """Compile a pattern.

        Raises:
            ValueError: RE2 rejects the pattern; the message contains the reason.
        """
        import re2  # type: ignore[import-untyped] # noqa: PLC0415 — needed only for users' patterns; it ships no types

        options = re2.Options()
        options.log_errors, options.case_sensitive = False, not ignore_case
        try:
            self._compiled: Any = re2.compile(pattern, options)
        except re2.error as error:
            reason = error.args[0]
            raise ValueError(
                _why(pattern, reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason))
            ) from error

    def search(self, text: str) -> bool:
        """Return whether the pattern matches somewhere in a text."""
        return self._compiled.search(_encodable(text)) is not None

    def fullmatch(self, text: str) -> bool:
        """Return whether the pattern matches a whole text."""
        return self._compiled.fullmatch(_encodable(text)) is not None


@lru_cache(maxsize=1024)
def own_pattern(pattern: str, *, ignore_case: bool = False) -> OwnPattern:
    """Return a compiled pattern.

    Raises:
        ValueError: RE2 rejects the pattern; the message contains pattern and reason.
    """
    try:
        return OwnPattern(pattern, ignore_case=ignore_case)
    except ValueError as error:
        excerpt = pattern if len(pattern) <= _SHOWN_CHARACTERS else f"{pattern[:_SHOWN_CHARACTERS]}…"
        raise ValueError(f"{excerpt!r} cannot be used: {error}; {_HINT}") from None


def refusal_of(pattern: str) -> str | None:
    r"""Return the reason why a pattern cannot be used for redaction: RE2 rejects it, or it matches the empty text; else None.

    >>> refusal_of(r"\bK-[0-9]{6}\b"), refusal_of("a*")
    (None, "'a*' cannot be used: it matches the empty text, and so everywhere")
    """
    try:
        matches_empty = own_pattern(pattern).search("")
    except ValueError as error:
        return str(error)
    return f"{pattern!r} cannot be used: it matches the empty text, and so everywhere" if matches_empty else None


def _why(pattern: str, reason: str) -> str:
    """Return RE2's message, and the unsupported constructs in the pattern."""
    unsupported = dict.fromkeys(name for start, name in _UNSUPPORTED.items() if start in pattern)
    return (
        f"{reason[:_SHOWN_CHARACTERS]} (RE2 does not support {', '.join(unsupported)})"
        if unsupported
        else reason[:_SHOWN_CHARACTERS]
    )


def _encodable(text: str) -> str:
    """Return a text that can be encoded as UTF-8: JSON escapes may contain lone surrogates."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def globs_overlap(first: str, other: str) -> bool:
    """Return whether a name can match both globs; a class such as `[ab]` counts as any character.

    >>> globs_overlap("support-*", "*-eu"), globs_overlap("support-*", "sales"), globs_overlap("*", "sales")
    (True, False, True)
    """
    parts, other_parts = _PART.findall(first), _PART.findall(other)
    row = _reach([True, *[False] * len(other_parts)], None, other_parts)
    for part in parts:
        row = _reach(row, part, other_parts)
    return row[-1]


def _reach(before: list[bool], part: str | None, other_parts: list[str]) -> list[bool]:
    """Return which prefixes of the other glob match this one up to `part`; None means up to its start."""
    if part is None:
        row = [True]
        for other_part in other_parts:
            row.append(row[-1] and other_part == "*")
        return row
    row = [before[0] and part == "*"]
    for index, other_part in enumerate(other_parts):
        free = "*" in {part, other_part}
        skips = free and (before[index + 1] or row[index])
        row.append(skips or (before[index] and (free or _fits(part, other_part))))
    return row


def _fits(part: str, other_part: str) -> bool:
    return part == other_part or any(glob_part == "?" or len(glob_part) > 1 for glob_part in (part, other_part))
