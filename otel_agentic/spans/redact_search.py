"""Which parts of a text the rules take: all of them asked at once, and those that overlap taken together."""

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
#: A field's name is read back so far, in characters.
_NAME_READ: Final = 64


class Region(NamedTuple):
    """A part of a text that is taken, and the place of the rule that names it.

    In their natural order those come first that begin first; of these the longest, and the most specific.
    """

    start: int
    minus_end: int
    generic: bool
    kind: str
    place: int

    @property
    def end(self) -> int:
        """Where it ends."""
        return -self.minus_end


class Search:
    """Finds what some rules take. Thread-safe."""

    def __init__(self, rules: Sequence[Rule], kept: Sequence[str]) -> None:
        """Prepare the rules; `kept` are names of fields that hold no credentials.

        Raises:
            ValueError: RE2 does not take a pattern.
        """
        self._rules = rules
        self._kept = tuple(kept)
        #: Compiled when a text matches them first: most never are.
        self._each: list[Pattern | None] = [None] * len(rules)
        # Hints tell which rules to ask, a few automata of rules that are alike: a common one would have too many states.
        alike: dict[tuple[object, ...], list[int]] = {}
        for place, rule in enumerate(rules):
            if rule.hints:
                alike.setdefault((bool(rule.close), rule.named or rule.columns, rule.group), []).append(place)
        self._hints = [
            (places, Patterns([rules[place].close or joined(rules[place].hints) for place in places], as_bytes=True))
            for places in alike.values()
        ]
        self._unhinted = [place for place, rule in enumerate(rules) if not rule.hints]
        self._patterns = Patterns([rules[place].pattern for place in self._unhinted])

    def regions(self, text: str) -> list[Region]:
        """Return what is taken of a text, left to right; no two overlap."""
        read = readable(text)
        found = []
        for place in self._candidates(read):
            rule = self._rules[place]
            pattern = self._each[place] = self._each[place] or Pattern(rule.pattern)
            for hit in pattern.hits(read):
                if rule.columns:
                    parts = cells(text, hit.start, hit.end, self._kept)
                elif rule.named and self._is_kept(text, hit):
                    continue
                else:
                    part = rule.check(text[hit.start : hit.end])
                    parts = [(hit.start, hit.start + len(part))] if part else []
                found += [Region(start, -end, rule.generic, rule.kind, place) for start, end in parts]
        return merged(found)

    def _candidates(self, text: str) -> Iterator[int]:
        """Yield the positions of the rules that could find something in a text."""
        encoded = text.encode()
        for places, hints in self._hints:
            for found in hints.matching(encoded):
                yield places[found]
        for found in self._patterns.matching(text):
            yield self._unhinted[found]

    def _is_kept(self, text: str, hit: Hit) -> bool:
        """Return whether the name before a value is no credential's after all, read whole."""
        start, end = hit.name
        begins = _NAME_END.search(text[max(0, start - _NAME_READ) : start])
        name = (begins[0] if begins else "") + text[start:end]
        return strength_of(name, self._kept) is None or is_directory(name, text[hit.start : hit.end])


def merged(regions: Sequence[Region]) -> list[Region]:
    """Return regions that cover all and do not overlap; where some do, the first and longest names the kind.

    >>> merged([Region(3, -9, False, "b", 1), Region(0, -5, True, "a", 0)])
    [Region(start=0, minus_end=-9, generic=True, kind='a', place=0)]
    """
    found: list[Region] = []
    for region in sorted(regions):
        if found and region.start < found[-1].end:
            found[-1] = found[-1]._replace(minus_end=min(found[-1].minus_end, region.minus_end))
        else:
            found.append(region)
    return found


def readable(text: str) -> str:
    """Return a text of the same length that UTF-8 can hold: JSON escapes may bring lone surrogates."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text
