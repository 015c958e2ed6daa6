"""Regular expressions of users: compiled by RE2, which reads any text in linear time and bounded memory."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

_SHOWN_CHARACTERS: Final = 80
#: What other engines have and RE2 has not, by how it begins.
_UNSUPPORTED: Final = {
    "(?=": "look-ahead", "(?!": "look-ahead", "(?<=": "look-behind", "(?<!": "look-behind", "(?>": "atomic groups", "(?P=": "backreferences",
    "(?(": "conditions", "\\1": "backreferences", "\\2": "backreferences", "\\k": "backreferences", "\\Z": "\\Z (write \\z)",
}  # fmt: skip
_HINT: Final = "RE2 syntax is as in Python, without look-around, backreferences and more than 1,000 repetitions"


class OwnPattern:
    """A compiled regular expression of a user."""

    def __init__(self, pattern: str, *, ignore_case: bool = False) -> None:
        """Compile a pattern.

        Raises:
            ValueError: RE2 does not take it; says why.
        """
        import re2  # type: ignore[import-untyped] # noqa: PLC0415 — only who writes patterns needs it; it ships no types

        options = re2.Options()
        options.log_errors, options.case_sensitive = False, not ignore_case
        try:
            self._compiled: Any = re2.compile(pattern, options)
        except re2.error as error:
            said = error.args[0]
            raise ValueError(
                _why(pattern, said.decode(errors="replace") if isinstance(said, bytes) else str(said))
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
        ValueError: RE2 does not take it; names the pattern and says why.
    """
    try:
        return OwnPattern(pattern, ignore_case=ignore_case)
    except ValueError as error:
        shown = pattern if len(pattern) <= _SHOWN_CHARACTERS else f"{pattern[:_SHOWN_CHARACTERS]}…"
        raise ValueError(f"{shown!r} cannot be used: {error}; {_HINT}") from None


def refusal_of(pattern: str) -> str | None:
    r"""Return why a pattern cannot be used for redaction: RE2 does not take it, or it matches the empty text; None for a good one.

    >>> refusal_of(r"\bK-[0-9]{6}\b"), refusal_of("a*")
    (None, "'a*' cannot be used: it matches the empty text, and so everywhere")
    """
    try:
        found = own_pattern(pattern).search("")
    except ValueError as error:
        return str(error)
    return f"{pattern!r} cannot be used: it matches the empty text, and so everywhere" if found else None


def _why(pattern: str, said: str) -> str:
    """Return RE2's message, and what of the pattern it does not support."""
    missing = dict.fromkeys(name for start, name in _UNSUPPORTED.items() if start in pattern)
    return (
        f"{said[:_SHOWN_CHARACTERS]} (RE2 does not support {', '.join(missing)})"
        if missing
        else said[:_SHOWN_CHARACTERS]
    )


def _encodable(text: str) -> str:
    """Return a text that UTF-8 can hold: escapes of JSON may bring lone surrogates."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
