"""A typed interface to RE2, which matches untrusted patterns on untrusted text in linear time.

google-re2 has no type hints; it is imported only here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import re2  # type: ignore[import-untyped] # the package ships no types

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: Memory for the automata of one pattern, in bytes.
_MEMORY: Final = 16 << 20
_ANYWHERE: Final = re2._Anchor.UNANCHORED  # noqa: SLF001 — the enumeration has no public name


class Hit(NamedTuple):
    """The position of a match: of its group `value`, or of all of it; and of its group `name`, (-1, -1) without such a group."""

    start: int
    end: int
    name: tuple[int, int]


class Pattern:
    """A compiled pattern.

    Raises:
        ValueError: RE2 does not accept it; contains the reason.
    """

    def __init__(self, pattern: str) -> None:
        self._pattern = _compiled(pattern)
        groups = self._pattern.groupindex
        self._value, self._name = groups.get("value", 0), groups.get("name", 0)

    def hits(self, text: str) -> Iterator[Hit]:
        """Yield the non-empty, non-overlapping matches, left to right."""
        # With bytes, RE2 does not have to count characters; in ASCII text the positions are the same.
        for match in self._pattern.finditer(text.encode() if text.isascii() else text):
            start, end = match.span(self._value)
            if start < end:
                yield Hit(start, end, match.span(self._name) if self._name else (-1, -1))


class Patterns:
    """A set of patterns that are matched at once."""

    def __init__(self, patterns: Sequence[str], *, as_bytes: bool = False) -> None:
        """Compile the patterns.

        Args:
            patterns: the patterns.
            as_bytes: texts will be bytes, and each byte counts as a character.
        """
        options = _options()
        if as_bytes:
            options.encoding = options.Encoding.LATIN1
        self._set = re2.Set.SearchSet(options)
        for pattern in patterns:
            self._set.Add(pattern.encode() if as_bytes else pattern)
        if patterns:
            self._set.Compile()
        self._size = len(patterns)

    def matching(self, text: str | bytes) -> Sequence[int]:
        """Return the indices of the patterns that match anywhere in the text."""
        return self._set.Match(text) or () if self._size else ()


class Glance:
    """Tests whether a pattern matches bytes, in one pass and as fast as possible. Text beyond ASCII counts as bytes."""

    def __init__(self, pattern: str | None) -> None:
        options = _options()
        options.encoding, options.never_capture = options.Encoding.LATIN1, True
        # Not `search`: its overhead is as large as the match of a small span.
        self._match = re2.compile(pattern.encode(), options)._regexp.Match if pattern else None  # noqa: SLF001

    def __call__(self, text: bytes) -> bool:
        """Return whether it matches."""
        return self._match is not None and self._match(_ANYWHERE, text, 0, len(text))[0][0] >= 0


def _options() -> Any:
    options = re2.Options()
    options.log_errors, options.max_mem = False, _MEMORY
    return options


def _compiled(pattern: str) -> Any:
    try:
        return re2.compile(pattern, _options())
    except re2.error as error:
        reason = error.args[0]
        raise ValueError(reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)) from error
