"""Removes secrets from texts, values and received spans before anything is written, and counts the redactions.

JSON text is parsed, so that escapes hide nothing and field names are considered; any other text is searched unchanged.
Redaction takes time linear in the length of the text: patterns are RE2's, JSON is parsed once per level, and JSON text
inside JSON text is followed to a fixed depth.

Nearly all spans contain nothing to redact. A batch is therefore written as JSON text and searched in one pass; only if that
matches are smaller groups searched, and texts read one by one. A span without a match is passed on as it is.
"""

from __future__ import annotations

import itertools
import re
import secrets
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import cache, lru_cache
from typing import Any, Final, TypeVar

import orjson
import re2  # type: ignore[import-untyped] # the package ships no types

from otel_agentic.config import RedactionSettings
from otel_agentic.redaction.checks import is_sentence
from otel_agentic.redaction.fields import (
    MARK,
    MARK_START,
    Strength,
    is_directory,
    is_empty,
    is_schema,
    looks_secret,
    mark_of,
    strength_of,
)
from otel_agentic.redaction.rules import CREDENTIAL, CUSTOM, Rule, joined, naming_hint, rules_of
from otel_agentic.redaction.search import (
    Bare,
    Pairs,
    Patterns,
    Search,
    looks_like_json,
    parse,
    re2_options,
    readable,
    rewritten,
    values_of,
)
from otel_agentic.spans.model import LogRecord, Resource, Scope, Span, SpanBatch

_ANYWHERE: Final = re2._Anchor.UNANCHORED  # noqa: SLF001 — the enumeration has no public name


class Glance:
    """Tests whether a pattern matches bytes, in one pass and as fast as possible.

    Non-ASCII text is matched as bytes.
    """

    def __init__(self, pattern: str | None) -> None:
        options = re2_options()
        options.encoding, options.never_capture = options.Encoding.LATIN1, True
        # Not `search`, whose overhead is as large as the match of a small span.
        self._match = re2.compile(pattern.encode(), options)._regexp.Match if pattern else None  # noqa: SLF001

    def __call__(self, text: bytes) -> bool:
        """Return whether it matches."""
        return self.find(text) >= 0

    def find(self, text: bytes, start: int = 0) -> int:
        """Return the index of the first match at or after `start`, -1 without a match."""
        if self._match is None:
            return -1
        index: int = self._match(_ANYWHERE, text, start, len(text))[0][0]
        return index


#: One search covers all words that begin within the stride. The reach suffices for a word, the text up to a value, and the
#: beginning of the value; the wide reach also where that text consists of characters of several bytes, or of their escapes.
_STRIDE: Final = 256
_REACH: Final = 512
_WIDE_REACH: Final = 1536
#: The escape of a character in JSON text, or in JSON text inside it.
_ESCAPED_CHARACTER: Final = re.compile(rb"\\+u[0-9a-fA-F]{4}")


class NearGlance:
    """Tests whether any rule that needs a word before the value could match.

    A pattern that counts the characters between the two is slow, because RE2 builds a state for nearly every one. So it is used
    only if a value may begin within reach of a word.
    """

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._word = _glance_of([hint for rule in rules for hint in rule.hints])
        self._body = _glance_of([rule.body for rule in rules])
        self._close = _glance_of([rule.close for rule in rules])

    def __call__(self, text: bytes) -> bool:
        """Return whether any of the rules could match."""
        word = self._word.find(text)
        while word >= 0:
            around = text[word : word + _STRIDE + _REACH]
            if b"\\u" in around or not around.isascii():
                around = _ESCAPED_CHARACTER.sub(b"?", text[word : word + _STRIDE + _WIDE_REACH])
            if self._body(around) and self._close(around):
                return True
            word = self._word.find(text, word + _STRIDE) if word + _STRIDE < len(text) else -1
        return False


def _glance_of(hints: Sequence[str]) -> Glance:
    return Glance(joined(hints) if hints else None)


#: JSON text inside JSON text is parsed to this depth; deeper text is searched without being parsed.
_TEXT_DEPTH: Final = 8
#: A removed secret may have hidden the edge of another one, so the remaining text is searched again, at most this
#: often.
_ROUNDS: Final = 4
#: The length of the shortest text that a built-in rule redacts.
_SHORTEST: Final = 6
#: Letters, digits and characters of keys that are escaped, whose meaning is known only after the JSON is parsed.
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
        settings_patterns = [rule for rule in self.rules if rule.group == CUSTOM]
        self._names = any(rule.named for rule in self.rules)
        self._first, self._sure, self._near, self._personal, self._numbers_first, self._numbers_near = _glances(
            self.rules, (naming_hint(),) if self._names else ()
        )
        self._own = Patterns([rule.pattern for rule in settings_patterns])
        self._numbers = {
            rule.kind: index
            for index, rule in enumerate(self.rules)
            if rule.kind in _NUMBER_FIELDS and rule.group != CUSTOM
        }
        #: Patterns from the settings may match escaped text, or a single character.
        self.own = bool(settings_patterns)
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
        if not self.glance(text.encode("utf-8", "replace")) and not (self.own and self._may_match_settings(text)):
            return text
        if looks_like_json(text) and depth < _TEXT_DEPTH:
            redacted_json = self._json(text, counts, depth)
            if redacted_json is not None:
                return redacted_json
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
                return value if all(map(_is_unchanged, items, value)) else items
        return self._scalar(value, counts, strength)

    def _may_match_settings(self, text: str) -> bool:
        """Return whether a pattern from the settings may match, possibly only after JSON escapes are decoded."""
        return bool(self._own.matching(readable(text))) or ("\\" in text and looks_like_json(text))

    def redacts_field(self, name: str) -> bool:
        """Return whether every value of a field with this name is redacted."""
        return self._names and strength_of(name, self._keep_fields) == "strong"

    def _json(self, text: str, counts: Counter[str], depth: int) -> str | None:
        """Return JSON text with its secrets replaced by marks, or None if it is not JSON, or nested too deeply."""
        own_counts = counts.copy()
        try:
            if len(text) > _SPLIT and not self.own and (split := self._split(text, own_counts, depth)) is not None:
                counts.update(own_counts - counts)
                return split
            before = parse(text)
            after = self.value(before, own_counts, depth + 1)
        except (ValueError, RecursionError):
            return None
        counts.update(own_counts - counts)
        return text if after is before else rewritten(text, before, after)

    def _split(self, text: str, counts: Counter[str], depth: int) -> str | None:
        """Return JSON text with its secrets replaced, parsing only possible matches; None if all must be parsed.

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
        digits = value if isinstance(value, str) else str(value) if type(value) is int else ""
        for kind, index in self._numbers.items():
            if _NUMBER_FIELDS[kind].search(key) and _PLAIN_NUMBERS[kind].fullmatch(digits):
                return self._mark(self.rules[index], digits, counts)
        return value

    def _pairs(
        self, pairs: Sequence[tuple[str, Any]], counts: Counter[str], depth: int, outer: Strength | None
    ) -> list[tuple[str, Any]] | None:
        """Return the keys and values of a map with secrets replaced by marks, or None if nothing is redacted."""
        inherited_strength, named_strength = self._strengths(pairs, outer) if self._names else (None, None)
        redacted_pairs = []
        for key, value in pairs:
            strength = inherited_strength
            if self._names:
                strength = (
                    strength_of(str(key), self._keep_fields)
                    or (named_strength if key in _VALUES else None)
                    or inherited_strength
                )
                strength = None if strength and is_directory(str(key), value) else strength
                if strength == "cookie" and not isinstance(value, str):  # cookies by name
                    strength = "strong"
            if self._numbers and (numbered_value := self._numbered(str(key), value, counts)) is not value:
                redacted_pairs.append((key, numbered_value))
                continue
            redacted_pairs.append((self.value(key, counts, depth), self.value(value, counts, depth, strength)))
        is_same = all(new[0] is old[0] and new[1] is old[1] for new, old in zip(redacted_pairs, pairs, strict=True))
        return None if is_same else redacted_pairs

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
def _glances(rules: tuple[Rule, ...], more: tuple[str, ...]) -> tuple[Glance | NearGlance, ...]:
    """Return the pre-filters that match every text in which a rule could match.

    There is one pre-filter for all credentials and two that confirm it (for most rules, and for words near values); the same
    for personal data, because numbers would fill an automaton that they share with words.
    """
    credentials = [rule for rule in rules if rule.group == CREDENTIAL]
    personal = [rule for rule in rules if rule.group not in {CREDENTIAL, CUSTOM}]
    sure, near, _ = _hints(credentials)
    general_hints, numbers, word_hints = _hints(personal)
    sure += [*more, *([_ESCAPED] if credentials or personal else [])]
    return (
        _glance_of([*sure, *near]),
        _glance_of(sure),
        NearGlance([rule for rule in credentials if rule.close]),
        *map(_glance_of, (general_hints, numbers, word_hints)),
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


def _is_unchanged(value: object, other: object) -> bool:
    return value is other


_Item = TypeVar("_Item", Span, LogRecord)
_Part = TypeVar("_Part")

#: If a group of items has a possible match, it is searched again in this many smaller groups.
_PARTS: Final = 16
#: Fields that are not searched: the decoders have checked that they are hexadecimal digits.
_IDS: Final = frozenset({"trace_id", "span_id", "parent_span_id"})


class BatchRedactor(Redactor):
    """Redacts spans and log records. Thread-safe: it has no state."""

    @classmethod
    def from_settings(cls, settings: RedactionSettings, key: Callable[[], bytes]) -> BatchRedactor:
        """Return a redactor with the rules of the settings.

        Raises:
            ValueError: RE2 does not accept a pattern of the settings; loaded settings have been checked for that.
        """
        return cls(rules_of(settings), key, settings.keep_fields)

    def batch(self, batch: SpanBatch) -> SpanBatch:
        """Return the redacted batch, with redactions counted in `altered`; the same object if nothing is redacted."""
        if not self.rules:
            return batch
        counts: Counter[str] = Counter()
        shared: dict[int, Resource | Scope] = {}
        spans = self._items(batch.spans, _content_of_span, shared, counts)
        logs = self._items(batch.logs, _content_of_log, shared, counts)
        if not counts:
            return batch
        return replace(batch, spans=spans, logs=logs, altered=Counter(batch.altered) + counts)

    def _items(
        self,
        items: Sequence[_Item],
        content_of: Callable[[_Item], object],
        shared: dict[int, Resource | Scope],
        counts: Counter[str],
    ) -> tuple[_Item, ...]:
        for part in {id(part): part for item in items for part in (item.resource, item.scope)}.values():
            if id(part) not in shared and self._may_contain_secret(part):
                shared[id(part)] = self._part(part, counts)
        cleaned = self._redact_items(items, content_of, counts)
        return tuple([_with_shared(item, shared) for item in cleaned] if shared else cleaned)

    def _redact_items(
        self, items: Sequence[_Item], content_of: Callable[[_Item], object], counts: Counter[str]
    ) -> Sequence[_Item]:
        """Return the redacted items: all are searched at once, and if there is a match, in ever smaller groups."""
        if not items or not self._may_contain_secret([content_of(item) for item in items]):
            return items
        if len(items) == 1:
            return [self._part(items[0], counts)]
        step = -(-len(items) // _PARTS)
        groups = (items[start : start + step] for start in range(0, len(items), step))
        return [item for group in groups for item in self._redact_items(group, content_of, counts)]

    def _part(self, part: _Part, counts: Counter[str]) -> _Part:
        """Return a span, log record, event, link, resource or scope with its content redacted."""
        changes = {}
        kind: Any = type(part)
        for name in _text_fields(kind):
            old = getattr(part, name)
            if isinstance(old, tuple):  # events and links
                parts = tuple(self._part(item, counts) for item in old)
                new: Any = old if all(item is other for item, other in zip(parts, old, strict=True)) else parts
            else:
                new = self.value(old, counts)
            if new is not old:
                changes[name] = new
        return replace(part, **changes) if changes else part  # type: ignore[type-var] # every part is a dataclass

    def _may_contain_secret(self, content: object) -> bool:
        """Return whether content may contain something to redact; always true if the settings have patterns.

        Escapes could hide text from these patterns.
        """
        if self.own:
            return True
        try:
            return self.glance(orjson.dumps(content, default=_plain))
        except TypeError:  # values that JSON cannot represent are searched one by one
            return True


def _with_shared(item: _Item, cleaned: Mapping[int, Any]) -> _Item:
    """Return an item with its redacted resource and scope."""
    resource = cleaned.get(id(item.resource), item.resource)
    scope = cleaned.get(id(item.scope), item.scope)
    is_unchanged = resource is item.resource and scope is item.scope
    return item if is_unchanged else replace(item, resource=resource, scope=scope)


@cache
def _text_fields(kind: type[Any]) -> tuple[str, ...]:
    """Return the names of the fields of a record that hold text or values."""
    others = {*_IDS, "resource", "scope", "kind", "status"}
    return tuple(field.name for field in fields(kind) if field.name not in others and not field.name.endswith("_ns"))


def _content_of_span(span: Span) -> object:
    return (span.name, span.status_message, span.attributes, span.events, span.links)


def _content_of_log(log: LogRecord) -> object:
    return (log.event_name, log.body, log.attributes)


def _plain(value: object) -> object:
    if isinstance(value, bytes):
        return value.decode("latin-1")
    return dict(value) if isinstance(value, Mapping) else str(value)


_Record = TypeVar("_Record")
KEY_BYTES: Final = 32


class CountingRedactor:
    """Redacts everything that is about to be written or shown, and counts the redactions. Thread-safe.

    Methods that need the key may raise `StoreUnusableError` if the key has to be created and cannot be stored.
    """

    def __init__(self, settings: RedactionSettings | None = None, key: Callable[[], bytes] | None = None) -> None:
        """Prepare the rules.

        Args:
            settings: the rules to apply; None applies the defaults, that is credentials.
            key: returns the key of the marks, 32 bytes; None creates a key that is lost with this object.
        """
        self._redactor = BatchRedactor.from_settings(settings or RedactionSettings(), key or cache(_random_key))
        self._counts: Counter[str] = Counter()
        self._counts_lock = threading.Lock()

    def batch(self, batch: SpanBatch) -> SpanBatch:
        """Return the batch as it may be written, with redactions counted in `altered`."""
        redacted_batch = self._redactor.batch(batch)
        if redacted_batch is not batch:
            self._count(Counter(redacted_batch.altered) - Counter(batch.altered))
        return redacted_batch

    def value(self, value: Any) -> Any:
        """Return a plain Python value as it may be written, the same object if nothing is redacted."""
        counts: Counter[str] = Counter()
        redacted_value = self._redactor.value(value, counts)
        if counts:
            self._count(counts)
        return redacted_value

    def record(self, record: _Record) -> _Record:
        """Return a dataclass of plain values and nested dataclasses as it may be shown; see `value`."""
        changes = {}
        for field in fields(record):  # type: ignore[arg-type] # a dataclass
            old = getattr(record, field.name)
            new = self._records(old) if isinstance(old, tuple) else self.value(old)
            if new is not old:
                changes[field.name] = new
        return replace(record, **changes) if changes else record  # type: ignore[type-var] # a dataclass

    def redacts_field(self, name: str) -> bool:
        """Return whether every value of a field with this name is redacted."""
        return self._redactor.redacts_field(name)

    @property
    def counts(self) -> dict[str, int]:
        """The redactions so far, by reason."""
        with self._counts_lock:
            return dict(self._counts)

    def _records(self, records: tuple[Any, ...]) -> tuple[Any, ...]:
        redacted_records = tuple(
            self.record(record) if is_dataclass(record) else self.value(record) for record in records
        )
        return (
            records
            if all(record is original for record, original in zip(redacted_records, records, strict=True))
            else redacted_records
        )

    def _count(self, counts: Counter[str]) -> None:
        with self._counts_lock:
            self._counts += counts


def _random_key() -> bytes:
    return secrets.token_bytes(KEY_BYTES)
