"""The marks that replace redacted values, and placeholders that are not secrets.

A mark is `[redacted:<kind>:<hmac8>]`, with eight hexadecimal digits of an HMAC under the store's key. Equal values give equal
marks, so that marks can be compared; without the key, card numbers cannot be tried against a mark.
"""

from __future__ import annotations

import hmac
import re
from typing import Final

#: Kinds are part of marks, so they must not contain the end of a mark.
KIND: Final = re.compile(r"[a-z0-9_-]{1,40}")
MARK: Final = re.compile(r"\[redacted:[a-z0-9_-]{1,40}:[0-9a-f]{8}\]")
#: A text without it has no mark; testing for it avoids a regular expression.
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
