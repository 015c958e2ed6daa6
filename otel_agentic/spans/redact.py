"""Takes secrets out of texts and values before anything is written.

A text that is JSON is read as data, so that escapes hide nothing and names of fields count; any other text is searched as
it stands. All of it takes time linear in the length of the text: patterns are RE2's, JSON is read once a level, and
JSON text inside JSON text is followed to a fixed depth.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.spans import redact_json
from otel_agentic.spans.redact_checks import is_sentence
from otel_agentic.spans.redact_json import Bare, Pairs
from otel_agentic.spans.redact_marks import MARK, MARK_START, is_empty, mark_of
from otel_agentic.spans.redact_names import Strength, is_directory, is_schema, looks_secret, strength_of
from otel_agentic.spans.redact_re2 import Glance, Patterns
from otel_agentic.spans.redact_rule import CREDENTIAL, CUSTOM, joined
from otel_agentic.spans.redact_rules import naming_hint
from otel_agentic.spans.redact_search import Search, readable

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Iterable, Iterator

    from otel_agentic.spans.redact_rule import Rule

#: JSON text inside JSON text is read this many times; what is nested deeper is searched as it stands.
_TEXT_DEPTH: Final = 8
#: What was taken out may have hidden the edge of something else: what is left is searched again, so often at most.
_ROUNDS: Final = 4
#: No built-in rule takes less.
_SHORTEST: Final = 6
#: Letters, digits and the marks inside keys, written as escapes: only reading the JSON tells what they say.
_ESCAPED: Final = r"\\u00(?:2[bBdDeEfF]|3[0-9aA]|[4-6][0-9a-fA-F]|7[0-9aAeE])"
#: A number of fewer digits under a credential's name is a count.
_SECRET_DIGITS: Final = 4
_SCHEME: Final = re.compile(r"(?:bearer|basic|token|negotiate|digest|apikey)\s+(?=\S+$)", re.IGNORECASE)
#: Where a list of settings or headers says what its `value` is; services of AWS write both with a capital.
_NAMING: Final = ("name", "key", "field", "header", "Name", "Key")
_VALUES: Final = frozenset({"value", "Value"})
_SAYS: Final = _VALUES.union(_NAMING)
#: JSON text of more characters is split into its values first, and only those with a finding are read.
_SPLIT: Final = 2048
_OPTION: Final = re.compile(r"--[A-Za-z0-9][A-Za-z0-9_-]*")
#: Values of fields that count where they are numbers of so many digits.
_NUMBERS: Final = {"pin": re.compile(r"[0-9]{4,8}"), "card": re.compile(r"[0-9]{3,4}")}
#: Personal data without separators, which only the name of its field tells from other numbers.
_NUMBER_FIELDS: Final = {
    "phone": re.compile(r"(?:phone|mobile|cell|fax|whatsapp|tel)(?:[-_ ]?(?:number|no))?$", re.IGNORECASE),
    "ssn": re.compile(r"(?:ssn|social[-_ ]?security(?:[-_ ]?(?:number|no))?)$", re.IGNORECASE),
}
_PLAIN_NUMBERS: Final = {"phone": re.compile(r"[0-9]{7,15}"), "ssn": re.compile(r"[0-9]{9}")}


class Redactor:
    """Takes out what some rules find, and leaves a mark under a key. Thread-safe: it holds no state."""

    def __init__(self, rules: Iterable[Rule], key: Callable[[], bytes], kept: Sequence[str] = ()) -> None:
        """Prepare the rules.

        Args:
            rules: what to take; their order means nothing.
            key: gives what marks are made with, 32 bytes; called only once there is something to take.
            kept: names of fields, or globs, that hold no credentials whatever they are called.

        Raises:
            ValueError: RE2 does not take a pattern.
        """
        self.rules = tuple(rules)
        self._key = key
        self._kept = tuple(kept)
        self._search = Search(self.rules, self._kept)
        own = [rule for rule in self.rules if rule.group == CUSTOM]
        self._names = any(rule.named for rule in self.rules)
        self._first, self._sure, self._near, self._personal, self._numbers_first, self._numbers_near = _glances(
            self.rules, [naming_hint()] if self._names else []
        )
        self._own = Patterns([rule.pattern for rule in own])
        self._numbers = {
            rule.kind: place
            for place, rule in enumerate(self.rules)
            if rule.kind in _NUMBER_FIELDS and rule.group != CUSTOM
        }
        #: Somebody's own patterns may find what is written in escapes, or is a single character.
        self.own = bool(own)
        self._shortest = 1 if self.own else _SHORTEST

    def glance(self, text: bytes) -> bool:
        """Return whether there could be anything to take in a text, or in JSON text made of it: one pass over nearly all."""
        return (
            (self._first(text) and (self._sure(text) or self._near(text)))
            or self._personal(text)
            or (self._numbers_first(text) and self._numbers_near(text))
        )

    def text(self, text: str, taken: Counter[str], depth: int = 0) -> str:
        """Return the text with marks for what is taken out; the very same object where that is nothing.

        Args:
            text: any text.
            taken: counts what is taken out, by reason.
            depth: how many JSON texts this one is nested in.
        """
        if len(text) < self._shortest:
            return text
        if not self.glance(text.encode("utf-8", "replace")) and not (self.own and self._may_hold_own(text)):
            return text
        if redact_json.looks_like_json(text) and depth < _TEXT_DEPTH:
            read = self._json(text, taken, depth)
            if read is not None:
                return read
        return "".join(self._pieces(text, taken, _ROUNDS))

    def value(self, value: Any, taken: Counter[str], depth: int = 0, strength: Strength | None = None) -> Any:
        """Return a plain Python value with everything taken out of it; the very same object where that is nothing.

        Args:
            value: text, number, bytes, list or map of any depth.
            taken: counts what is taken out, by reason.
            depth: how many JSON texts this one is nested in.
            strength: what the name of the field that holds it says.
        """
        if type(value) is str:  # nearly all are: asking for everything else first would cost more than the search
            return self._text(value, taken, depth, strength)
        match value:
            case Pairs():
                pairs = self._pairs(value, taken, depth, strength)
                return value if pairs is None else Pairs(pairs)
            case Mapping():
                pairs = self._pairs(tuple(value.items()), taken, depth, strength)
                return value if pairs is None else dict(pairs)
            case list() | tuple():
                items = [self.value(item, taken, depth, strength) for item in value]
                if self._names:
                    self._options(value, items, taken, depth)
                return value if all(map(_is, items, value)) else items
        return self._scalar(value, taken, strength)

    def _may_hold_own(self, text: str) -> bool:
        """Return whether a pattern of one's own could find something; escapes hide from it what JSON text says."""
        return bool(self._own.matching(readable(text))) or ("\\" in text and redact_json.looks_like_json(text))

    def takes_field(self, name: str) -> bool:
        """Return whether the value of a field of that name is taken, whatever it is."""
        return self._names and strength_of(name, self._kept) == "strong"

    def _json(self, text: str, taken: Counter[str], depth: int) -> str | None:
        """Return JSON text with everything taken out of it, None where it is no JSON, or nested too deeply."""
        counted = taken.copy()
        try:
            if len(text) > _SPLIT and not self.own and (split := self._split(text, counted, depth)) is not None:
                taken.update(counted - taken)
                return split
            before = redact_json.parse(text)
            after = self.value(before, counted, depth + 1)
        except (ValueError, RecursionError):
            return None
        taken.update(counted - taken)
        return text if after is before else redact_json.rewritten(text, before, after)

    def _split(self, text: str, taken: Counter[str], depth: int) -> str | None:
        """Return JSON text with everything taken out of it, reading only values with a finding; None where all must be read.

        A long history is a list of messages, of which one or two may hold something.

        Raises:
            ValueError: it is not JSON.
            RecursionError: it is nested too deeply.
        """
        if not text.lstrip().startswith(("[", "{")):
            return None
        values = redact_json.values_of(text)
        for key, start, _ in values:
            if key is None and text[start] not in "[{":
                return None  # the option of a command stands before its value
            if key is not None and (key in _SAYS or self.glance(key.encode("utf-8", "replace")) or self._strength(key)):
                return None
        pieces: list[str] = []
        done = 0
        for _, start, end in values:
            value = text[start:end]
            if self.glance(value.encode("utf-8", "replace")):
                found = self._json(value, taken, depth)
                if found is None:
                    return None
                pieces += (text[done:start], found)
                done = end
        found = "".join((*pieces, text[done:]))
        return text if found == text else found

    def _strength(self, name: str) -> Strength | None:
        return strength_of(name, self._kept) if self._names else None

    def _options(self, value: Sequence[Any], items: list[Any], taken: Counter[str], depth: int) -> None:
        """Take out arguments of a command that follow an option for a credential."""
        for place, (option, argument) in enumerate(itertools.pairwise(value), 1):
            if (
                type(option) is str
                and type(argument) is str
                and _OPTION.fullmatch(option)
                and not argument.startswith("-")
                and (strength := strength_of(option, self._kept))
            ):
                items[place] = self._field(argument, taken, depth, strength)

    def _numbered(self, key: str, value: Any, taken: Counter[str]) -> Any:
        """Return personal data that is a number without separators, which the name of its field tells from other numbers."""
        written = value if isinstance(value, str) else str(value) if type(value) is int else ""
        for kind, place in self._numbers.items():
            if _NUMBER_FIELDS[kind].search(key) and _PLAIN_NUMBERS[kind].fullmatch(written):
                return self._mark(self.rules[place], written, taken)
        return value

    def _pairs(
        self, pairs: Sequence[tuple[str, Any]], taken: Counter[str], depth: int, outer: Strength | None
    ) -> list[tuple[str, Any]] | None:
        """Return the keys and values of a map with everything taken out, None where that is nothing."""
        inherited, told = self._told(pairs, outer) if self._names else (None, None)
        changed = []
        for key, value in pairs:
            strength = inherited
            if self._names:
                strength = strength_of(str(key), self._kept) or (told if key in _VALUES else None) or inherited
                strength = None if strength and is_directory(str(key), value) else strength
                if strength == "cookie" and not isinstance(value, str):  # each by its name
                    strength = "strong"
            if self._numbers and (numbered := self._numbered(str(key), value, taken)) is not value:
                changed.append((key, numbered))
                continue
            changed.append((self.value(key, taken, depth), self.value(value, taken, depth, strength)))
        same = all(new[0] is old[0] and new[1] is old[1] for new, old in zip(changed, pairs, strict=True))
        return None if same else changed

    def _told(
        self, pairs: Sequence[tuple[str, Any]], outer: Strength | None
    ) -> tuple[Strength | None, Strength | None]:
        """Return what the values of a map are by the name of the map, and what `value` is by a name beside it."""
        keys = dict(pairs)
        if keys.keys().isdisjoint(_VALUES):  # a schema has none
            return (None if outer is not None and is_schema(list(keys), keys.get("type")) else outer), None
        names = (keys[key] for key in _NAMING if isinstance(keys.get(key), str))
        return outer, next((found for name in names if (found := strength_of(name, self._kept))), None)

    def _field(self, value: str, taken: Counter[str], depth: int, strength: Strength) -> str:
        """Return the value of a credential's field, taken whole but for the scheme of an authorization."""
        scheme = _SCHEME.match(value)
        start = scheme.end() if scheme else 0
        secret = value[start:]
        if is_empty(value) or is_empty(secret):
            return value
        if not scheme and not _is_credential(secret, strength):
            return self.text(value, taken, depth)
        region = next(iter(self._search.regions(secret)), None)
        if region is not None and (region.start, region.end) == (0, len(secret)):
            return value[:start] + self._mark(self.rules[region.place], secret, taken)
        taken[f"{CREDENTIAL} redacted: {CREDENTIAL}"] += 1
        return value[:start] + mark_of(CREDENTIAL, secret, self._key())

    def _text(self, value: str, taken: Counter[str], depth: int, strength: Strength | None) -> str:
        return self.text(value, taken, depth) if strength is None else self._field(value, taken, depth, strength)

    def _scalar(self, value: Any, taken: Counter[str], strength: Strength | None) -> Any:
        match value:
            case None | bool():
                return value
            case Bare():
                return self._number(value, value, taken, strength)
            case str():  # of a class of its own, such as an enumeration
                plain = str.__str__(value)
                found = self._text(plain, taken, 0, strength)
                return value if found is plain else found
            case int() | float():
                return self._number(value, str(value), taken, strength)
            case bytes():
                return self._bytes(value, taken, strength)
        return value

    def _number(self, value: Any, written: str, taken: Counter[str], strength: Strength | None) -> Any:
        """Return a whole number as a text, where it is a secret; one with a fraction is none."""
        digits = written.removesuffix(".0")
        if not digits.removeprefix("-").isdigit():
            return value
        if (strength == "strong" and len(digits) >= _SECRET_DIGITS) or strength in _NUMBERS:
            return self._field(digits, taken, 0, strength)
        found = self.text(digits, taken)
        return value if found is digits else found

    def _bytes(self, value: bytes, taken: Counter[str], strength: Strength | None) -> bytes:
        try:
            text, code = value.decode(), "utf-8"
        except UnicodeDecodeError:
            text, code = value.decode("latin-1"), "latin-1"
        found = self._text(text, taken, 0, strength)
        return value if found is text else found.encode(code)

    def _pieces(self, text: str, taken: Counter[str], rounds: int) -> Iterator[str]:
        """Yield the text in pieces: what stays, marks that were there already, and new ones."""
        done = 0
        for mark in MARK.finditer(text) if MARK_START in text else ():
            yield from self._searched(text[done : mark.start()], taken, rounds)
            yield mark[0]
            done = mark.end()
        yield from self._searched(text[done:], taken, rounds)

    def _searched(self, text: str, taken: Counter[str], rounds: int) -> Iterator[str]:
        regions = self._search.regions(text) if rounds and len(text) >= self._shortest else []
        done = 0
        for region in regions:
            yield from self._searched(text[done : region.start], taken, rounds - 1)
            done = region.end
            yield self._mark(self.rules[region.place], text[region.start : done], taken)
        yield from self._searched(text[done:], taken, rounds - 1) if done else (text,)

    def _mark(self, rule: Rule, value: str, taken: Counter[str]) -> str:
        taken[f"{rule.group} redacted: {rule.kind}"] += 1
        return mark_of(rule.kind, rule.same(value), self._key())


def _glances(rules: Sequence[Rule], more: Sequence[str]) -> tuple[Glance, ...]:
    """Return what finds every text worth a look.

    That are one for all credentials, two that are to confirm it (for most rules, and for words near values), and the same
    for personal data: numbers would fill an automaton that they share with words.
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
    """Return the hints of most rules, and both hints of those that need something near."""
    return (
        [hint for rule in rules if not rule.close for hint in rule.hints],
        [hint for rule in rules if rule.close for hint in rule.hints],
        [rule.close for rule in rules if rule.close],
    )


def _is_credential(value: str, strength: Strength) -> bool:
    """Return whether a value is a credential in a field whose name says so, more or less."""
    if strength in _NUMBERS:
        return _NUMBERS[strength].fullmatch(value.strip()) is not None
    if strength == "strong":
        return not is_sentence(value)
    if MARK_START in value:
        return False
    return looks_secret(value) or (strength == "cookie" and "=" in value)


def _is(one: object, other: object) -> bool:
    return one is other
