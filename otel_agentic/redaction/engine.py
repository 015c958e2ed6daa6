"""Removes secrets from texts and values before anything is written.

A text that is JSON is read as data, so that escapes hide nothing and field names are considered; any other text is searched
as it is. Unchanged parts of JSON text stay as they were written. Redaction takes time linear in the length of the text: patterns
are RE2's, JSON is read once per level, and JSON text inside JSON text is followed to a fixed depth.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import re2  # type: ignore[import-untyped] # the package ships no types

from otel_agentic.redaction.checks import is_sentence
from otel_agentic.redaction.fields import (
    MARK,
    MARK_START,
    Strength,
    cells,
    is_directory,
    is_empty,
    is_schema,
    looks_secret,
    mark_of,
    strength_of,
)
from otel_agentic.redaction.rules import CREDENTIAL, CUSTOM, joined, naming_hint

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Iterable, Iterator

    from otel_agentic.redaction.rules import Rule

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
    """Return keys and scalars in the order in which they are written."""
    scalars: list[Any] = []
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Pairs):
            for key, item in reversed(part):
                waiting += (item, key)
        elif isinstance(part, list):
            waiting += reversed(part)
        else:
            scalars.append(part)
    return scalars


def _literal(text: str) -> str:
    written = json.dumps(text, ensure_ascii=False)
    # A lone surrogate can only be written as an escape.
    return written if written.isprintable() or _encodes(written) else json.dumps(text)


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


#: JSON text inside JSON text is read this many times; deeper text is searched without being parsed.
_TEXT_DEPTH: Final = 8
#: A removed secret may have hidden the edge of another one: the remaining text is searched again, at most this often.
_ROUNDS: Final = 4
#: The length of the shortest text that a built-in rule redacts.
_SHORTEST: Final = 6
#: Letters, digits and the characters inside keys, written as escapes: their meaning is known only after the JSON is read.
_ESCAPED: Final = r"\\u00(?:2[bBdDeEfF]|3[0-9aA]|[4-6][0-9a-fA-F]|7[0-9aAeE])"
#: A number with fewer digits in a field named like a credential is a count.
_SECRET_DIGITS: Final = 4
_SCHEME: Final = re.compile(r"(?:bearer|basic|token|negotiate|digest|apikey)\s+(?=\S+$)", re.IGNORECASE)
#: The keys under which a list of settings or headers names its `value`; AWS services capitalise both.
_NAMING: Final = ("name", "key", "field", "header", "Name", "Key")
_VALUES: Final = frozenset({"value", "Value"})
_NAMING_OR_VALUE: Final = _VALUES.union(_NAMING)
#: Longer JSON text, in characters, is split into its values first, and only values with a possible match are read.
_SPLIT: Final = 2048
_OPTION: Final = re.compile(r"--[A-Za-z0-9][A-Za-z0-9_-]*")
#: The values that are secret in fields of short numbers.
_NUMBERS: Final = {"pin": re.compile(r"[0-9]{4,8}"), "card": re.compile(r"[0-9]{3,4}")}
#: The field names that distinguish personal data without separators from other numbers.
_NUMBER_FIELDS: Final = {
    "phone": re.compile(r"(?:phone|mobile|cell|fax|whatsapp|tel)(?:[-_ ]?(?:number|no))?$", re.IGNORECASE),
    "ssn": re.compile(r"(?:ssn|social[-_ ]?security(?:[-_ ]?(?:number|no))?)$", re.IGNORECASE),
}
_PLAIN_NUMBERS: Final = {"phone": re.compile(r"[0-9]{7,15}"), "ssn": re.compile(r"[0-9]{9}")}


class Redactor:
    """Replaces the matches of rules by marks. Thread-safe: it has no state."""

    def __init__(self, rules: Iterable[Rule], key: Callable[[], bytes], keep_fields: Sequence[str] = ()) -> None:
        """Prepare the rules.

        Args:
            rules: the rules, in any order.
            key: returns the key of the marks, 32 bytes; called only when there is something to redact.
            keep_fields: field names, or globs, that hold no credentials in spite of their names.

        Raises:
            ValueError: RE2 does not accept a pattern.
        """
        self.rules = tuple(rules)
        self._key = key
        self._keep_fields = tuple(keep_fields)
        self._search = _search(self.rules, self._keep_fields)
        own = [rule for rule in self.rules if rule.group == CUSTOM]
        self._names = any(rule.named for rule in self.rules)
        self._first, self._sure, self._near, self._personal, self._numbers_first, self._numbers_near = _glances(
            self.rules, (naming_hint(),) if self._names else ()
        )
        self._own = Patterns([rule.pattern for rule in own])
        self._numbers = {
            rule.kind: index
            for index, rule in enumerate(self.rules)
            if rule.kind in _NUMBER_FIELDS and rule.group != CUSTOM
        }
        #: Patterns from the settings may match escaped text, or a single character.
        self.own = bool(own)
        self._shortest = 1 if self.own else _SHORTEST

    def glance(self, text: bytes) -> bool:
        """Return whether a text, or JSON text made of it, may contain something to redact; mostly in one pass."""
        return (
            (self._first(text) and (self._sure(text) or self._near(text)))
            or self._personal(text)
            or (self._numbers_first(text) and self._numbers_near(text))
        )

    def text(self, text: str, counts: Counter[str], depth: int = 0) -> str:
        """Return the text with its secrets replaced by marks; the same object if nothing is redacted.

        Args:
            text: any text.
            counts: counts the redactions, by reason.
            depth: how many JSON texts this one is nested in.
        """
        if len(text) < self._shortest:
            return text
        if not self.glance(text.encode("utf-8", "replace")) and not (self.own and self._may_hold_own(text)):
            return text
        if looks_like_json(text) and depth < _TEXT_DEPTH:
            redacted = self._json(text, counts, depth)
            if redacted is not None:
                return redacted
        return "".join(self._pieces(text, counts, _ROUNDS))

    def value(self, value: Any, counts: Counter[str], depth: int = 0, strength: Strength | None = None) -> Any:
        """Return a plain Python value with its secrets replaced by marks; the same object if nothing is redacted.

        Args:
            value: text, number, bytes, list or map of any depth.
            counts: counts the redactions, by reason.
            depth: how many JSON texts this one is nested in.
            strength: how strongly the name of its field indicates a credential.
        """
        if type(value) is str:  # nearly all are: testing for the other types first would cost more than the search
            return self._text(value, counts, depth, strength)
        match value:
            case Pairs():
                pairs = self._pairs(value, counts, depth, strength)
                return value if pairs is None else Pairs(pairs)
            case Mapping():
                pairs = self._pairs(tuple(value.items()), counts, depth, strength)
                return value if pairs is None else dict(pairs)
            case list() | tuple():
                items = [self.value(item, counts, depth, strength) for item in value]
                if self._names:
                    self._options(value, items, counts, depth)
                return value if all(map(_is, items, value)) else items
        return self._scalar(value, counts, strength)

    def _may_hold_own(self, text: str) -> bool:
        """Return whether a pattern from the settings may match, possibly only after JSON escapes are decoded."""
        return bool(self._own.matching(readable(text))) or ("\\" in text and looks_like_json(text))

    def redacts_field(self, name: str) -> bool:
        """Return whether every value of a field with this name is redacted."""
        return self._names and strength_of(name, self._keep_fields) == "strong"

    def _json(self, text: str, counts: Counter[str], depth: int) -> str | None:
        """Return JSON text with its secrets replaced by marks, or None if it is not JSON, or nested too deeply."""
        counted = counts.copy()
        try:
            if len(text) > _SPLIT and not self.own and (split := self._split(text, counted, depth)) is not None:
                counts.update(counted - counts)
                return split
            before = parse(text)
            after = self.value(before, counted, depth + 1)
        except (ValueError, RecursionError):
            return None
        counts.update(counted - counts)
        return text if after is before else rewritten(text, before, after)

    def _split(self, text: str, counts: Counter[str], depth: int) -> str | None:
        """Return JSON text with its secrets replaced, reading only values with a possible match; None if all must be read.

        A long history is a list of messages, of which only one or two may contain a secret.

        Raises:
            ValueError: it is not JSON.
            RecursionError: it is nested too deeply.
        """
        if not text.lstrip().startswith(("[", "{")):
            return None
        values = values_of(text)
        for key, start, _ in values:
            if key is None and text[start] not in "[{":
                return None  # may be an option of a command, followed by its value
            if key is not None and (
                key in _NAMING_OR_VALUE or self.glance(key.encode("utf-8", "replace")) or self._strength(key)
            ):
                return None
        pieces: list[str] = []
        done = 0
        for _, start, end in values:
            value = text[start:end]
            if self.glance(value.encode("utf-8", "replace")):
                redacted = self._json(value, counts, depth)
                if redacted is None:
                    return None
                pieces += (text[done:start], redacted)
                done = end
        redacted = "".join((*pieces, text[done:]))
        return text if redacted == text else redacted

    def _strength(self, name: str) -> Strength | None:
        return strength_of(name, self._keep_fields) if self._names else None

    def _options(self, value: Sequence[Any], items: list[Any], counts: Counter[str], depth: int) -> None:
        """Redact arguments of a command that follow an option for a credential."""
        for index, (option, argument) in enumerate(itertools.pairwise(value), 1):
            if (
                type(option) is str
                and type(argument) is str
                and _OPTION.fullmatch(option)
                and not argument.startswith("-")
                and (strength := strength_of(option, self._keep_fields))
            ):
                items[index] = self._field(argument, counts, depth, strength)

    def _numbered(self, key: str, value: Any, counts: Counter[str]) -> Any:
        """Return a number without separators, redacted if the name of its field shows that it is personal data."""
        written = value if isinstance(value, str) else str(value) if type(value) is int else ""
        for kind, index in self._numbers.items():
            if _NUMBER_FIELDS[kind].search(key) and _PLAIN_NUMBERS[kind].fullmatch(written):
                return self._mark(self.rules[index], written, counts)
        return value

    def _pairs(
        self, pairs: Sequence[tuple[str, Any]], counts: Counter[str], depth: int, outer: Strength | None
    ) -> list[tuple[str, Any]] | None:
        """Return the keys and values of a map with secrets replaced by marks, or None if nothing is redacted."""
        inherited, named = self._strengths(pairs, outer) if self._names else (None, None)
        changed = []
        for key, value in pairs:
            strength = inherited
            if self._names:
                strength = strength_of(str(key), self._keep_fields) or (named if key in _VALUES else None) or inherited
                strength = None if strength and is_directory(str(key), value) else strength
                if strength == "cookie" and not isinstance(value, str):  # cookies by name
                    strength = "strong"
            if self._numbers and (numbered := self._numbered(str(key), value, counts)) is not value:
                changed.append((key, numbered))
                continue
            changed.append((self.value(key, counts, depth), self.value(value, counts, depth, strength)))
        same = all(new[0] is old[0] and new[1] is old[1] for new, old in zip(changed, pairs, strict=True))
        return None if same else changed

    def _strengths(
        self, pairs: Sequence[tuple[str, Any]], outer: Strength | None
    ) -> tuple[Strength | None, Strength | None]:
        """Return the strength that values inherit from the map's own name, and that of `value` by a name next to it."""
        keys = dict(pairs)
        if keys.keys().isdisjoint(_VALUES):  # a schema has none
            return (None if outer is not None and is_schema(list(keys), keys.get("type")) else outer), None
        names = (keys[key] for key in _NAMING if isinstance(keys.get(key), str))
        return outer, next((strength for name in names if (strength := strength_of(name, self._keep_fields))), None)

    def _field(self, value: str, counts: Counter[str], depth: int, strength: Strength) -> str:
        """Return the value of a credential's field, redacted except for the scheme of an authorization header."""
        scheme = _SCHEME.match(value)
        start = scheme.end() if scheme else 0
        secret = value[start:]
        if is_empty(value) or is_empty(secret):
            return value
        if not scheme and not _is_credential(secret, strength):
            return self.text(value, counts, depth)
        region = next(iter(self._search.regions(secret)), None)
        if region is not None and (region.start, region.end) == (0, len(secret)):
            return value[:start] + self._mark(self.rules[region.rule], secret, counts)
        counts[f"{CREDENTIAL} redacted: {CREDENTIAL}"] += 1
        return value[:start] + mark_of(CREDENTIAL, secret, self._key())

    def _text(self, value: str, counts: Counter[str], depth: int, strength: Strength | None) -> str:
        return self.text(value, counts, depth) if strength is None else self._field(value, counts, depth, strength)

    def _scalar(self, value: Any, counts: Counter[str], strength: Strength | None) -> Any:
        match value:
            case None | bool():
                return value
            case Bare():
                return self._number(value, value, counts, strength)
            case str():  # a subclass, such as an enumeration
                plain = str.__str__(value)
                redacted = self._text(plain, counts, 0, strength)
                return value if redacted is plain else redacted
            case int() | float():
                return self._number(value, str(value), counts, strength)
            case bytes():
                return self._bytes(value, counts, strength)
        return value

    def _number(self, value: Any, written: str, counts: Counter[str], strength: Strength | None) -> Any:
        """Return a number; an integer that is a secret is returned as a mark. Numbers with a fraction are never secrets."""
        digits = written.removesuffix(".0")
        if not digits.removeprefix("-").isdigit():
            return value
        if (strength == "strong" and len(digits) >= _SECRET_DIGITS) or strength in _NUMBERS:
            return self._field(digits, counts, 0, strength)
        redacted = self.text(digits, counts)
        return value if redacted is digits else redacted

    def _bytes(self, value: bytes, counts: Counter[str], strength: Strength | None) -> bytes:
        try:
            text, code = value.decode(), "utf-8"
        except UnicodeDecodeError:
            text, code = value.decode("latin-1"), "latin-1"
        redacted = self._text(text, counts, 0, strength)
        return value if redacted is text else redacted.encode(code)

    def _pieces(self, text: str, counts: Counter[str], rounds: int) -> Iterator[str]:
        """Yield the text in pieces: unchanged text, existing marks, and new marks."""
        done = 0
        for mark in MARK.finditer(text) if MARK_START in text else ():
            yield from self._searched(text[done : mark.start()], counts, rounds)
            yield mark[0]
            done = mark.end()
        yield from self._searched(text[done:], counts, rounds)

    def _searched(self, text: str, counts: Counter[str], rounds: int) -> Iterator[str]:
        regions = self._search.regions(text) if rounds and len(text) >= self._shortest else []
        done = 0
        for region in regions:
            yield from self._searched(text[done : region.start], counts, rounds - 1)
            done = region.end
            yield self._mark(self.rules[region.rule], text[region.start : done], counts)
        yield from self._searched(text[done:], counts, rounds - 1) if done else (text,)

    def _mark(self, rule: Rule, value: str, counts: Counter[str]) -> str:
        counts[f"{rule.group} redacted: {rule.kind}"] += 1
        return mark_of(rule.kind, rule.same(value), self._key())


@lru_cache(maxsize=8)  # compiling takes most of the time of opening a small store, and a process may open several
def _search(rules: tuple[Rule, ...], keep_fields: tuple[str, ...]) -> Search:
    return Search(rules, keep_fields)


@lru_cache(maxsize=8)
def _glances(rules: tuple[Rule, ...], more: tuple[str, ...]) -> tuple[Glance, ...]:
    """Return the pre-filters that match every text in which a rule could match.

    There is one pre-filter for all credentials and two that confirm it (for most rules, and for words near values); the same
    for personal data, because numbers would fill an automaton that they share with words.
    """
    credentials = [rule for rule in rules if rule.group == CREDENTIAL]
    personal = [rule for rule in rules if rule.group not in {CREDENTIAL, CUSTOM}]
    sure, near, close = _hints(credentials)
    plain, numbers, spoken = _hints(personal)
    sure += [*more, *([_ESCAPED] if credentials or personal else [])]
    return tuple(
        Glance(joined(hints) if hints else None) for hints in ([*sure, *near], sure, close, plain, numbers, spoken)
    )


def _hints(rules: Sequence[Rule]) -> tuple[list[str], list[str], list[str]]:
    """Return the hints of most rules, and both hints of the rules that need a word near the value."""
    return (
        [hint for rule in rules if not rule.close for hint in rule.hints],
        [hint for rule in rules if rule.close for hint in rule.hints],
        [rule.close for rule in rules if rule.close],
    )


def _is_credential(value: str, strength: Strength) -> bool:
    """Return whether a value is a credential, in a field whose name suggests it to some degree."""
    if strength in _NUMBERS:
        return _NUMBERS[strength].fullmatch(value.strip()) is not None
    if strength == "strong":
        return not is_sentence(value)
    if MARK_START in value:
        return False
    return looks_secret(value) or (strength == "cookie" and "=" in value)


def _is(value: object, other: object) -> bool:
    return value is other
