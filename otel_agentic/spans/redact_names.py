"""Which fields hold credentials, by their names: in attributes, in maps, in JSON text, in headers and settings.

A name counts by its end: `db_password`, `X-Api-Key` and `http.request.header.cookie` do, `password_length`,
`max_tokens` and `cookie_consent` do not. The words are those of `redaction_rules.toml`.
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

#: `strong`: every value is taken. `weak`: a value is taken where it looks generated. `cookie`: where it is a pair or looks
#: generated. `pin` and `card`: where it is a number of a few digits.
Strength = Literal["strong", "weak", "cookie", "pin", "card"]

#: A name is judged by its end; attribute names of other programs may be a megabyte long.
_READ: Final = 80
_SCHEMA_KEYS: Final = ("$ref", "anyOf", "oneOf", "allOf", "properties", "enum")
_SCHEMA_TYPES: Final = frozenset({"string", "number", "integer", "boolean", "object", "array", "null"})
_LONG: Final = 16
_DIRECTORY: Final = re.compile(r"[/~\\]|[A-Za-z]:[\\/]")


@cache
def rule_data() -> dict[str, Any]:
    """Return the content of `redaction_rules.toml`."""
    return tomllib.loads(resources.files("otel_agentic.spans").joinpath("redaction_rules.toml").read_text("utf-8"))


@cache
def fragments() -> dict[str, str]:
    """Return the parts of patterns of named fields: alternatives of names, and what may stand between name and value."""
    names = rule_data()["names"]
    nouns = f"(?:{'|'.join(names['keys'])})[-_. ]?key|(?:{'|'.join(names['tokens'])})[-_. ]?token"
    strong = (
        f"(?:(?:{'|'.join(names['strong'])}|{nouns})s?(?:{'|'.join(names['endings'])})?|{'|'.join(names['headers'])})"
    )
    alternatives = {name: f"(?:{'|'.join(names[name])})" for name in ("words", "weak", "pins", "cards", "positions")}
    return {"strong": strong, **alternatives, **rule_data()["fragments"]}


class _Names(NamedTuple):
    """Compiled patterns of the ends of names."""

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
def strength_of(name: str, kept: Sequence[str] = ()) -> Strength | None:
    """Return whether a name is a credential's, None where it is not, or where one of the globs `kept` fits it.

    >>> strength_of("db_password"), strength_of("X-Api-Key"), strength_of("token"), strength_of("max_tokens")
    ('strong', 'strong', 'weak', None)
    """
    end = name[-_READ:].strip()
    if any(fnmatchcase(name.lower(), glob.lower()) for glob in kept):
        return None
    names = _names()
    found: tuple[tuple[Strength | None, tuple[re.Pattern[str], ...]], ...] = (
        ("pin", (names.pin,)),
        ("card", (names.card,)),
        ("strong", (names.strong, names.words)),
        ("cookie", (names.cookie,)),
        (None, (names.position,)),
        ("weak", (names.weak, names.weak_alone, names.session)),
    )
    return next((strength for strength, patterns in found if any(one.search(end) for one in patterns)), None)


def looks_secret(value: str, least: int = _LONG) -> bool:
    """Return whether a text could be a generated secret: one word of some length with letters and digits.

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
        kind: its value under `type`.
    """
    kinds = kind if isinstance(kind, list) and kind else [kind]
    if all(isinstance(one, str) and one in _SCHEMA_TYPES for one in kinds):
        return True
    return any(key in keys for key in _SCHEMA_KEYS)


def is_directory(name: str, value: object) -> bool:
    """Return whether a field called `pwd` names the working directory, as shells do, and not a password."""
    return name[-3:].lower() == "pwd" and isinstance(value, str) and _DIRECTORY.match(value) is not None
