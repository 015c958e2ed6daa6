"""Field names that indicate credentials: in attributes, maps, JSON text, headers and settings.

The end of a name decides: `db_password`, `X-Api-Key` and `http.request.header.cookie` match, `password_length`,
`max_tokens` and `cookie_consent` do not. The words are in `rules.toml`.
"""

from __future__ import annotations

import re
import tomllib
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from importlib import resources
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

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
    apart = r"(?:^|[^A-Za-z0-9])"
    return _Names(
        strong=re.compile(f"{parts['strong']}$", re.IGNORECASE),
        words=re.compile(f"{apart}{parts['words']}$", re.IGNORECASE),
        cookie=re.compile(r"cookies?$", re.IGNORECASE),
        pin=re.compile(f"{apart}{parts['pins']}$", re.IGNORECASE),
        card=re.compile(f"{apart}{parts['cards']}$", re.IGNORECASE),
        position=re.compile(f"{parts['positions']}[-_. ]?token$", re.IGNORECASE),
        weak=re.compile(rf"(?<![a-z]){weak}$|(?<=[a-z0-9])(?:Token|Auth|Authorization)$|[-_.](?i:{weak})$"),
        weak_alone=re.compile(f"^{weak}$", re.IGNORECASE),
        session=re.compile(f"{apart}(?:{'|'.join(rule_data()['names']['sessions'])})$"),
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
