"""RE2 with types: strangers' patterns and strangers' texts, in linear time.

google-re2 has no type hints; it is named here alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import re2  # type: ignore[import-untyped] # the package ships no types

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: Automata of one pattern, bytes.
_MEMORY: Final = 16 << 20
_ANYWHERE: Final = re2._Anchor.UNANCHORED  # noqa: SLF001 — the enumeration has no public name


class Hit(NamedTuple):
    """Where a pattern matched: the part `value`, or all where it has no such part; and the part `name`, (-1, -1) for none."""

    start: int
    end: int
    name: tuple[int, int]


class Pattern:
    """A compiled pattern.

    Raises:
        ValueError: RE2 does not take it; says why.
    """

    def __init__(self, pattern: str) -> None:
        self._pattern = _compiled(pattern)
        groups = self._pattern.groupindex
        self._value, self._name = groups.get("value", 0), groups.get("name", 0)

    def hits(self, text: str) -> Iterator[Hit]:
        """Yield the places where it matches something, left to right, none within another."""
        # Bytes spare it to count characters; in text of one byte a character the places are the same.
        for match in self._pattern.finditer(text.encode() if text.isascii() else text):
            start, end = match.span(self._value)
            if start < end:
                yield Hit(start, end, match.span(self._name) if self._name else (-1, -1))


class Patterns:
    """Some patterns, asked all at once."""

    def __init__(self, patterns: Sequence[str], *, as_bytes: bool = False) -> None:
        """Compile them.

        Args:
            patterns: each of them.
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
        """Return which of them match somewhere in the text, by place."""
        return self._set.Match(text) or () if self._size else ()


class Glance:
    """Whether a pattern matches bytes: one pass, as quick as it gets. Text beyond ASCII counts as bytes."""

    def __init__(self, pattern: str | None) -> None:
        options = _options()
        options.encoding, options.never_capture = options.Encoding.LATIN1, True
        # Not its `search`: that costs as much again as the match of a small span.
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
        said = error.args[0]
        raise ValueError(said.decode(errors="replace") if isinstance(said, bytes) else str(said)) from error
