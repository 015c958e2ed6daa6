"""Positions in a text: the matches of patterns and rules, and the values of JSON text.

Patterns are RE2's, so a search takes time linear in the length of the text. JSON text is rewritten in place: unchanged
parts remain byte for byte, including white space.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import re2  # type: ignore[import-untyped] # the package ships no types

from otel_agentic.redaction.fields import (
    cells,
    is_directory,
    strength_of,
)
from otel_agentic.redaction.rules import Rule, joined

#: Memory for the automata of one pattern, in bytes.
_MEMORY: Final = 16 << 20


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
        options = re2_options()
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


def re2_options() -> Any:
    """Return options of RE2 that bound its memory and keep it from writing to standard error."""
    options = re2.Options()
    options.log_errors, options.max_mem = False, _MEMORY
    return options


def _compiled(pattern: str) -> Any:
    try:
        return re2.compile(pattern, re2_options())
    except re2.error as error:
        reason = error.args[0]
        raise ValueError(reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)) from error


_BLANK: Final = re.compile(r"[ \t\n\r]*")
_DECODER: Final = json.JSONDecoder(strict=False)
_START: Final = re.compile(r'\s*[\[{"]')
#: Scalars of valid JSON text: strings, numbers and literals. The text between them is punctuation.
_SCALAR: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[^\s\[\]{},:"]+', re.DOTALL)


class Pairs(list[tuple[str, Any]]):
    """An object of JSON text, as a list of pairs, so that a repeated key does not hide a value."""


class Bare(str):
    """A number of JSON text as it is written, since parsing could change it."""

    __slots__ = ()


def looks_like_json(text: str) -> bool:
    """Return whether a text begins like a container or a string of JSON."""
    return _START.match(text) is not None


def parse(text: str) -> Any:
    """Return the value of JSON text, objects as `Pairs` and numbers as `Bare`.

    Raises:
        ValueError: it is not JSON.
        RecursionError: it is nested too deeply.
    """
    return json.loads(
        text, object_pairs_hook=Pairs, parse_int=Bare, parse_float=Bare, parse_constant=Bare, strict=False
    )


def values_of(text: str) -> list[tuple[str | None, int, int]]:
    """Return the key (None in an array), start and end of each value of a JSON container, in one pass.

    Raises:
        ValueError: it is not JSON, or not a container.
        RecursionError: it is nested too deeply.
    """
    position = _BLANK.match(text).end()  # type: ignore[union-attr] # also matches the empty text
    opening = text[position : position + 1]
    closing = {"[": "]", "{": "}"}.get(opening)
    if closing is None:
        raise ValueError("no container")
    values: list[tuple[str | None, int, int]] = []
    position = _blank_end(text, position + 1)
    while text[position : position + 1] != closing or values:
        key = None
        if closing == "}":
            key, position = _DECODER.raw_decode(text, position)
            position = _blank_end(text, _sign_end(text, _blank_end(text, position), ":"))
        _, end = _DECODER.raw_decode(text, position)
        values.append((key, position, end))
        position = _blank_end(text, end)
        if text[position : position + 1] == closing:
            break
        position = _blank_end(text, _sign_end(text, position, ","))
    if _blank_end(text, position + 1) != len(text):
        raise ValueError("text after the container")
    return values


def _blank_end(text: str, position: int) -> int:
    return _BLANK.match(text, position).end()  # type: ignore[union-attr] # also matches the empty text


def _sign_end(text: str, position: int, sign: str) -> int:
    if text[position : position + 1] != sign:
        raise ValueError(f"no {sign!r} at character {position}")
    return position + 1


def rewritten(text: str, before: Any, after: Any) -> str:
    """Return the text with the scalars that differ replaced.

    Args:
        text: valid JSON text.
        before: the result of `parse`.
        after: the same with some scalars replaced; unchanged scalars are the same objects.
    """
    pieces: list[str] = []
    done = 0
    tokens = _SCALAR.finditer(text)
    for token, old, new in zip(tokens, _scalars(before), _scalars(after), strict=True):
        if new is not old:
            pieces += (text[done : token.start()], _literal(new))
            done = token.end()
    return "".join((*pieces, text[done:]))


def _scalars(value: Any) -> list[Any]:
    """Return keys and scalars in the order of the text."""
    scalars: list[Any] = []
    stack = [value]
    while stack:
        part = stack.pop()
        if isinstance(part, Pairs):
            for key, item in reversed(part):
                stack += (item, key)
        elif isinstance(part, list):
            stack += reversed(part)
        else:
            scalars.append(part)
    return scalars


def _literal(text: str) -> str:
    json_literal = json.dumps(text, ensure_ascii=False)
    # A lone surrogate can only be written as an escape.
    return json_literal if json_literal.isprintable() or _encodes(json_literal) else json.dumps(text)


def _encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


_NAME_END: Final = re.compile(r"[A-Za-z0-9_.-]*\Z")
#: A field's name is read backwards up to this many characters.
_NAME_READ: Final = 64


class Region(NamedTuple):
    """A part of a text to redact, and the index of the rule that names it.

    Regions sort by their start; those with the same start by length, longest first, then the most specific first.
    """

    start: int
    minus_end: int
    generic: bool
    kind: str
    rule: int

    @property
    def end(self) -> int:
        """The position after the last character."""
        return -self.minus_end


class Search:
    """Finds the regions of a text that rules redact. Thread-safe."""

    def __init__(self, rules: Sequence[Rule], keep_fields: Sequence[str]) -> None:
        """Prepare the rules; `keep_fields` are names of fields that hold no credentials.

        Raises:
            ValueError: RE2 does not accept a pattern.
        """
        self._rules = rules
        self._keep_fields = tuple(keep_fields)
        #: Compiled on the first possible match of a rule, because most rules never match.
        self._compiled: list[Pattern | None] = [None] * len(rules)
        # Hints select the rules to apply. Similar rules share an automaton; one for all would have too many states.
        similar: dict[tuple[object, ...], list[int]] = {}
        for index, rule in enumerate(rules):
            if rule.hints:
                similar.setdefault((bool(rule.close), rule.named or rule.columns, rule.group), []).append(index)
        self._hints = [
            (indices, Patterns([rules[index].close or joined(rules[index].hints) for index in indices], as_bytes=True))
            for indices in similar.values()
        ]
        self._unhinted = [index for index, rule in enumerate(rules) if not rule.hints]
        self._patterns = Patterns([rules[index].pattern for index in self._unhinted])

    def regions(self, text: str) -> list[Region]:
        """Return the regions of a text to redact, left to right, without overlaps."""
        search_text = readable(text)
        regions = []
        for index in self._candidates(search_text):
            rule = self._rules[index]
            pattern = self._compiled[index] = self._compiled[index] or Pattern(rule.pattern)
            for hit in pattern.hits(search_text):
                if rule.columns:
                    parts = cells(text, hit.start, hit.end, self._keep_fields)
                elif rule.named and self._is_excluded(text, hit):
                    continue
                else:
                    part = rule.check(text[hit.start : hit.end])
                    parts = [(hit.start, hit.start + len(part))] if part else []
                regions += [Region(start, -end, rule.generic, rule.kind, index) for start, end in parts]
        return merged(regions)

    def _candidates(self, text: str) -> Iterator[int]:
        """Yield the indices of the rules that may match in a text."""
        utf8 = text.encode()
        for indices, hints in self._hints:
            for position in hints.matching(utf8):
                yield indices[position]
        for position in self._patterns.matching(text):
            yield self._unhinted[position]

    def _is_excluded(self, text: str, hit: Hit) -> bool:
        """Return whether the complete name before a value shows that the value is not a credential."""
        start, end = hit.name
        begins = _NAME_END.search(text[max(0, start - _NAME_READ) : start])
        name = (begins[0] if begins else "") + text[start:end]
        return strength_of(name, self._keep_fields) is None or is_directory(name, text[hit.start : hit.end])


def merged(regions: Sequence[Region]) -> list[Region]:
    """Return non-overlapping regions that cover the given ones; the first and longest of them sets the kind.

    >>> merged([Region(3, -9, False, "b", 1), Region(0, -5, True, "a", 0)])
    [Region(start=0, minus_end=-9, generic=True, kind='a', rule=0)]
    """
    disjoint: list[Region] = []
    for region in sorted(regions):
        if disjoint and region.start < disjoint[-1].end:
            disjoint[-1] = disjoint[-1]._replace(minus_end=min(disjoint[-1].minus_end, region.minus_end))
        else:
            disjoint.append(region)
    return disjoint


def readable(text: str) -> str:
    """Return a text of the same length that UTF-8 can encode: JSON escapes may produce lone surrogates."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text
