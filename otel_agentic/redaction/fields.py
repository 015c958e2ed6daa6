"""Marks for redacted values, and the field and column names that indicate credentials.

A mark is `[redacted:<kind>:<hmac8>]`, with eight hexadecimal digits of an HMAC under the store's key. Equal values have
equal marks, so that marks can be compared; without the key, a mark cannot be compared with guessed card numbers.

The end of a field's name decides whether it is a credential: `db_password`, `X-Api-Key` and `http.request.header.cookie` match,
`password_length`, `max_tokens` and `cookie_consent` do not. The words are in `rules.toml`.
"""

from __future__ import annotations

import hmac
import re
import tomllib
from collections.abc import Sequence
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from importlib import resources
from typing import Any, Final, Literal, NamedTuple

#: Kinds are part of marks, so they must not contain the end of a mark.
KIND: Final = re.compile(r"[a-z0-9_-]{1,40}")
MARK: Final = re.compile(r"\[redacted:[a-z0-9_-]{1,40}:[0-9a-f]{8}\]")
#: The substring of every mark; testing for it avoids a regular expression.
MARK_START: Final = "[redacted:"

#: Values that are not secrets: marks of other programs, placeholders in examples, words of schemas, booleans.
_EMPTY: Final = re.compile(
    r"\s*(?:__REDACTED__|\[REDACTED\]|\[Scrubbed due to [^\]]*\]|<elided>|readacted|[*•.…]+|[xX]{3,}|<[^<>]*>|"
    r"\$(?:[A-Za-z_.]+|[A-Z_][A-Z0-9_]*|\{[A-Za-z_][\w.:-]*\})|\{\{?[^{}]*\}\}?|%(?:[A-Za-z_]*|[A-Z0-9_]+)%?|"
    r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*_(?:KEY|TOKEN|SECRET|PASSWORD|PASS|PWD)(?:_[A-Z0-9]+)?|(?i:your)[-_ ][A-Za-z _-]{1,40}|(?i:|null|none|nil|undefined|unset|empty|true|false|yes|no|on|off|required|optional|hidden|redacted|"
    r"str|string|text|bool|boolean|int|integer|float|number|object|array|list|dict|map|any))\s*"
)
#: Longer values are not placeholders.
_EMPTY_CHARACTERS: Final = 200


def mark_of(kind: str, value: str, key: bytes) -> str:
    """Return the mark of a value.

    >>> mark_of("jwt", "eyJ", b"k") == mark_of("jwt", "eyJ", b"k") != mark_of("jwt", "eyK", b"k")
    True
    """
    return f"[redacted:{kind}:{hmac.digest(key, value.encode('utf-8', 'surrogatepass'), 'sha256')[:4].hex()}]"


def is_empty(value: str) -> bool:
    """Return whether a value contains no secret: blank, a placeholder, a word of a schema, a mark of any program.

    >>> is_empty("[REDACTED]"), is_empty("string"), is_empty("[redacted:jwt:00c0ffee]"), is_empty("hunter2")
    (True, True, True, False)
    """
    if len(value) > _EMPTY_CHARACTERS:
        return False
    return _EMPTY.fullmatch(value) is not None or MARK.fullmatch(value.strip()) is not None


#: `strong`: every value is redacted. `weak`: a value is redacted if it looks generated. `cookie`: if it is a pair or looks
#: generated. `pin` and `card`: if it is a number of a few digits.
Strength = Literal["strong", "weak", "cookie", "pin", "card"]

#: Only the end of a name is examined; attribute names of other programs may be a megabyte long.
_READ: Final = 80
_SCHEMA_KEYS: Final = ("$ref", "anyOf", "oneOf", "allOf", "properties", "enum")
_SCHEMA_TYPES: Final = frozenset({"string", "number", "integer", "boolean", "object", "array", "null"})
_LONG: Final = 16
_DIRECTORY: Final = re.compile(r"[/~\\]|[A-Za-z]:[\\/]")


@cache
def rule_data() -> dict[str, Any]:
    """Return the content of `rules.toml`."""
    return tomllib.loads(resources.files("otel_agentic.redaction").joinpath("rules.toml").read_text("utf-8"))


@cache
def fragments() -> dict[str, str]:
    """Return the fragments of patterns for named fields: alternatives of names, and separators of name and value."""
    names = rule_data()["names"]
    nouns = f"(?:{'|'.join(names['keys'])})[-_. ]?key|(?:{'|'.join(names['tokens'])})[-_. ]?token"
    strong = (
        f"(?:(?:{'|'.join(names['strong'])}|{nouns})s?(?:{'|'.join(names['endings'])})?|{'|'.join(names['headers'])})"
    )
    alternatives = {name: f"(?:{'|'.join(names[name])})" for name in ("words", "weak", "pins", "cards", "positions")}
    return {"strong": strong, **alternatives, **rule_data()["fragments"]}


class _Names(NamedTuple):
    """Compiled patterns for the ends of names."""

    strong: re.Pattern[str]
    words: re.Pattern[str]
    cookie: re.Pattern[str]
    pin: re.Pattern[str]
    card: re.Pattern[str]
    position: re.Pattern[str]
    weak: re.Pattern[str]
    weak_alone: re.Pattern[str]
    session: re.Pattern[str]


@cache
def _names() -> _Names:
    parts = fragments()
    weak = parts["weak"]
    separator = r"(?:^|[^A-Za-z0-9])"
    return _Names(
        strong=re.compile(f"{parts['strong']}$", re.IGNORECASE),
        words=re.compile(f"{separator}{parts['words']}$", re.IGNORECASE),
        cookie=re.compile(r"cookies?$", re.IGNORECASE),
        pin=re.compile(f"{separator}{parts['pins']}$", re.IGNORECASE),
        card=re.compile(f"{separator}{parts['cards']}$", re.IGNORECASE),
        position=re.compile(f"{parts['positions']}[-_. ]?token$", re.IGNORECASE),
        weak=re.compile(rf"(?<![a-z]){weak}$|(?<=[a-z0-9])(?:Token|Auth|Authorization)$|[-_.](?i:{weak})$"),
        weak_alone=re.compile(f"^{weak}$", re.IGNORECASE),
        session=re.compile(f"{separator}(?:{'|'.join(rule_data()['names']['sessions'])})$"),
    )


@lru_cache(maxsize=8192)
def strength_of(name: str, keep_fields: Sequence[str] = ()) -> Strength | None:
    """Return how strongly a name indicates a credential, or None if it does not, or matches a glob of `keep_fields`.

    >>> strength_of("db_password"), strength_of("X-Api-Key"), strength_of("token"), strength_of("max_tokens")
    ('strong', 'strong', 'weak', None)
    """
    end = name[-_READ:].strip()
    if any(fnmatchcase(name.lower(), glob.lower()) for glob in keep_fields):
        return None
    names = _names()
    patterns_by_strength: tuple[tuple[Strength | None, tuple[re.Pattern[str], ...]], ...] = (
        ("pin", (names.pin,)),
        ("card", (names.card,)),
        ("strong", (names.strong, names.words)),
        ("cookie", (names.cookie,)),
        (None, (names.position,)),
        ("weak", (names.weak, names.weak_alone, names.session)),
    )
    return next(
        (strength for strength, patterns in patterns_by_strength if any(pattern.search(end) for pattern in patterns)),
        None,
    )


def looks_secret(value: str, least: int = _LONG) -> bool:
    """Return whether a text may be a generated secret: one word of some length with letters and digits.

    >>> looks_secret("Zm9vYmFyMTIzNDU2"), looks_secret("approved"), looks_secret("two words 1")
    (True, False, False)
    """
    if len(value) < least or any(map(str.isspace, value)):
        return False
    return any(map(str.isdigit, value)) and any(map(str.isalpha, value))


def is_schema(keys: Sequence[str], kind: object) -> bool:
    """Return whether a map describes a parameter instead of holding a value: the JSON schema of a tool.

    Args:
        keys: the keys of the map.
        kind: the value of its key `type`.
    """
    kinds = kind if isinstance(kind, list) and kind else [kind]
    if all(isinstance(name, str) and name in _SCHEMA_TYPES for name in kinds):
        return True
    return any(key in keys for key in _SCHEMA_KEYS)


def is_directory(name: str, value: object) -> bool:
    """Return whether a field called `pwd` names the working directory, as shells do, and not a password."""
    return name[-3:].lower() == "pwd" and isinstance(value, str) and _DIRECTORY.match(value) is not None


_SEPARATORS: Final = ("|", "\t", ";", ",")
#: A cell, quoted or not, without the separator that ends it.
_CELLS: Final = {
    separator: re.compile(rf'(?:[ ]*"(?P<quoted>(?:[^"\n]|"")*)"[ ]*|(?P<plain>[^{re.escape(separator)}\n]*))')
    for separator in _SEPARATORS
}
_NAME: Final = re.compile(r"[\w .()/-]{1,40}")
_MARKUP: Final = "*`_ \r"
_RULE: Final = re.compile(r"[|: -]+")
_COLUMNS: Final = 2
#: Longer names mean a line of prose with commas instead of column names.
_WORDS_A_NAME: Final = 4


def cells(text: str, start: int, end: int, keep_fields: Sequence[str] = ()) -> list[tuple[int, int]]:
    """Return the positions (start, end) of the credentials in the rows under a line of names.

    Args:
        text: the complete text.
        start: the start of the line of names.
        end: the end of that line.
        keep_fields: names of fields that hold no credentials.
    """
    header = text[start:end]
    separator = next((character for character in _SEPARATORS if character in header), None)
    if separator is None:
        return []
    names = [header[first:last].strip(_MARKUP) for first, last in _split(header, 0, separator)]
    column_names = names[1:-1] if separator == "|" else names
    if len(column_names) + (separator == "|") < _COLUMNS or not all(column_names):
        return []
    if any(name and (not _NAME.fullmatch(name) or len(name.split()) > _WORDS_A_NAME) for name in names):
        return []
    secret = {column: name for column, name in enumerate(names) if strength_of(name, keep_fields) == "strong"}
    spans = []
    position = end + 1
    if separator == "|" and not _RULE.fullmatch(text[position:].partition("\n")[0].strip()):
        return []  # a row of a table, not its header
    while secret and position < len(text):
        line_end = text.find("\n", position)
        line_end = len(text) if line_end < 0 else line_end
        row = _split(text[position:line_end], position, separator)
        if len(row) != len(names):
            break
        if not _RULE.fullmatch(text[position:line_end].strip()):
            spans += [
                position_of_value
                for column, name in secret.items()
                if (position_of_value := _value(text, *row[column], name))
            ]
        position = line_end + 1
    return spans


def _split(line: str, offset: int, separator: str) -> list[tuple[int, int]]:
    """Return the positions of the cells of a line, without their quotes."""
    spans = []
    position = 0
    while position <= len(line):
        cell = _CELLS[separator].match(line, position)
        if cell is None:
            break
        group = "quoted" if cell["quoted"] is not None else "plain"
        if group == "quoted" and line[cell.end() : cell.end() + 1] not in {"", separator, "\r"}:
            return []
        spans.append((offset + cell.start(group), offset + cell.end(group)))
        position = cell.end() + 1
    return spans


def _value(text: str, start: int, end: int, name: str) -> tuple[int, int] | None:
    """Return the position of a value without Markdown characters around it, or None if it is not a secret."""
    cell = text[start:end]
    value = cell.strip(_MARKUP)
    if not value or is_empty(value) or MARK_START in value or is_directory(name, value):
        return None
    start += cell.index(value)
    return start, start + len(value)
