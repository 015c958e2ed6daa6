"""Which fields hold credentials, told by their names: in attributes, in maps, in JSON text, in headers and settings.

A name counts by its end: `db_password`, `X-Api-Key` and `http.request.header.cookie` do, `password_length`,
`max_tokens` and `cookie_consent` do not.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence

#: `strong`: every value is taken. `weak`: a value is taken where it looks like a secret.
Strength = Literal["strong", "weak"]

_TOKENS: Final = (
    "access|refresh|id|auth|oauth|api|app|bearer|session|security|csrf|xsrf|user|login|bot|deploy|service|sas"
)
_KEYS: Final = (
    "api|app|application|access|secret|private|signing|encryption|master|account|ssh|auth|deploy|service|webhook"
    "|subscription|functions|openai|anthropic|mistral|gemini|groq"
)
#: Regular expressions that RE2 and Python read alike.
STRONG: Final = (
    rf"(?:(?:pass[-_. ]?word|passwort|passwd|pass[-_. ]?phrase|pass[-_. ]?code|pwd|secret|credential|cookie"
    rf"|connection[-_. ]?string|(?:{_KEYS})[-_. ]?key|(?:{_TOKENS})[-_. ]?token)s?"
    # a second one, one of many, or what it consists of: password_2, password_confirmation, API_KEY_PROD, SecretString
    r"(?:[-_]?(?:[0-9]{1,2}|confirm(?:ation)?|prod|dev|staging|live|string|value|hash))?|(?:request\.header\.|proxy[-_])authorization)"
)
WEAK: Final = r"(?:token|auth|authorization|pass|jwt|bearer)"

_STRONG: Final = re.compile(rf"{STRONG}$", re.IGNORECASE)
_WEAK: Final = re.compile(rf"(?<![a-z]){WEAK}$|(?<=[a-z0-9])(?:Token|Auth|Authorization)$|[-_.](?i:{WEAK})$")
_WEAK_FOLDED: Final = re.compile(rf"^{WEAK}$", re.IGNORECASE)
#: Tokens that are places in a list, or words of a model.
_PLACES: Final = re.compile(
    r"(?:page|next|prev|previous|continuation|continue|sync|cursor|resume|delta|cancel|idempotency|cache|"
    r"eos|bos|pad|unk|stop|end|start|special|last|first|new|top|mask|sep|cls)[-_. ]?token$",
    re.IGNORECASE,
)
#: A name is judged by its end; attribute names of strangers may be a megabyte long.
_READ: Final = 80
_SCHEMA_KEYS: Final = ("$ref", "anyOf", "oneOf", "allOf", "properties", "enum")
_SCHEMA_TYPES: Final = frozenset({"string", "number", "integer", "boolean", "object", "array", "null"})
_LONG: Final = 16
_DIRECTORY: Final = re.compile(r"[/~\\]|[A-Za-z]:[\\/]")


@lru_cache(maxsize=8192)
def strength_of(name: str, kept: Sequence[str] = ()) -> Strength | None:
    """Return whether a name is a credential's, None where it is not, or where one of the globs `kept` fits it.

    >>> strength_of("db_password"), strength_of("X-Api-Key"), strength_of("token"), strength_of("max_tokens")
    ('strong', 'strong', 'weak', None)
    """
    end = name[-_READ:].strip()
    if any(fnmatchcase(name.lower(), glob.lower()) for glob in kept):
        return None
    if _STRONG.search(end):
        return "strong"
    if _PLACES.search(end):
        return None
    return "weak" if _WEAK.search(end) or _WEAK_FOLDED.search(end) else None


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
