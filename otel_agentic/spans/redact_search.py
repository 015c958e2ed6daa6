"""Finds the parts of a text that rules redact: all rules are applied at once, and overlapping matches are merged."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from otel_agentic.spans.redact_columns import cells
from otel_agentic.spans.redact_names import is_directory, strength_of
from otel_agentic.spans.redact_re2 import Pattern, Patterns
from otel_agentic.spans.redact_rule import joined

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from otel_agentic.spans.redact_re2 import Hit
    from otel_agentic.spans.redact_rule import Rule

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
        #: Compiled on the first possible match of a rule: most never are.
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
        searched = readable(text)
        regions = []
        for index in self._candidates(searched):
            rule = self._rules[index]
            pattern = self._compiled[index] = self._compiled[index] or Pattern(rule.pattern)
            for hit in pattern.hits(searched):
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
        encoded = text.encode()
        for indices, hints in self._hints:
            for position in hints.matching(encoded):
                yield indices[position]
        for position in self._patterns.matching(text):
            yield self._unhinted[position]

    def _is_excluded(self, text: str, hit: Hit) -> bool:
        """Return whether the complete name before a value is not that of a credential after all."""
        start, end = hit.name
        begins = _NAME_END.search(text[max(0, start - _NAME_READ) : start])
        name = (begins[0] if begins else "") + text[start:end]
        return strength_of(name, self._keep_fields) is None or is_directory(name, text[hit.start : hit.end])


def merged(regions: Sequence[Region]) -> list[Region]:
    """Return non-overlapping regions that cover all; of overlapping regions, the first and longest names the kind.

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
