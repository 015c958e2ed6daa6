"""What a pattern alone cannot tell: check digits, headers that decode, bodies that are there.

Each function gets the text that a pattern found and returns the part of it that is to be taken, "" for none.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import Final

import orjson

from otel_agentic.spans.redact_marks import is_empty
from otel_agentic.spans.redact_names import looks_secret

_BODY: Final = re.compile(r"[A-Za-z0-9+/=]{24}")
_PLAIN_LETTERS: Final = 20
_IBAN_SHORTEST: Final = 15
_HEADER_SHOWN: Final = 4096
_SHORT_SECRET: Final = 6


def whole(value: str) -> str:
    """Return all of it."""
    return value


def generated(value: str) -> str:
    """Return a key; "" for a chain of words and numbers such as `sk-learn-for-complete-beginners-2024`."""
    parts = re.split(r"[-_.]", value)
    mixed = any(len(part) >= _SHORT_SECRET and looks_secret(part, _SHORT_SECRET) for part in parts)
    return value if mixed or len(parts[-1]) >= _PLAIN_LETTERS else ""


def has_digit(value: str) -> str:
    """Return a bearer token; "" for a word of prose."""
    return value if any(map(str.isdigit, value)) else ""


def jwt(value: str) -> str:
    """Return a token whose header is JSON with an algorithm or type."""
    header = value.split(".", 1)[0][:_HEADER_SHOWN]
    try:
        read = orjson.loads(base64.urlsafe_b64decode(header + "=" * (-len(header) % 4)))
    except (ValueError, binascii.Error):
        return ""
    token = value.rstrip(".")  # the end of a sentence
    return token if isinstance(read, dict) and not read.keys().isdisjoint({"alg", "typ", "enc", "kid"}) else ""


def private_key(value: str) -> str:
    """Return a key that has an end, or a body before it was cut; "" where only its first line is mentioned."""
    rest = value.partition("KEY")[2]
    return value if "-----END" in rest or _BODY.search(rest) else ""


def basic(value: str) -> str:
    """Return what decodes to `user:password`."""
    try:
        text = base64.b64decode(value + "=" * (-len(value) % 4), validate=True).decode()
    except (ValueError, binascii.Error):
        return ""
    return value if ":" in text and text.isprintable() else ""


def card(value: str) -> str:
    """Return a number whose last digit is Luhn's check digit.

    >>> card("4111 1111 1111 1111"), card("4111 1111 1111 1112")
    ('4111 1111 1111 1111', '')
    """
    digits = [int(character) for character in reversed(value) if character.isdigit()]
    doubled = (sum(divmod(2 * digit, 10)) for digit in digits[1::2])
    return value if (sum(digits[::2]) + sum(doubled)) % 10 == 0 and any(digits[1:]) else ""


def iban(value: str) -> str:
    """Return the longest beginning, up to a blank or the end, whose ISO 7064 check digits are right.

    >>> iban("DE89 3704 0044 0532 0130 00 EUR")
    'DE89 3704 0044 0532 0130 00'
    """
    ends = [len(value), *(place for place in range(len(value) - 1, 0, -1) if value[place] == " ")]
    return next((value[:end] for end in ends if _mod_97(value[:end].replace(" ", "")) == 1), "")


def _mod_97(compact: str) -> int:
    if len(compact) < _IBAN_SHORTEST:
        return 0
    return int("".join(str(int(character, 36)) for character in compact[4:] + compact[:4])) % 97


def after_equals(value: str) -> str:
    """Return what is set by `password=…`; "" for a placeholder."""
    return "" if is_empty(value) else value


def after_colon(value: str) -> str:
    """Return what follows `password: …` where it looks like a secret: prose goes on with a word."""
    trimmed = value.rstrip(",;.)]}")
    return trimmed if looks_secret(trimmed, _SHORT_SECRET) and not is_empty(trimmed) else ""


def weak(value: str) -> str:
    """Return what follows `token=…` where it looks like a generated secret."""
    return value if looks_secret(value) and not is_empty(value) else ""


def digits_of(value: str) -> str:
    """Return the digits of a number, however it is written: equal numbers get equal marks."""
    return "".join(character for character in value if character.isdigit())


def compact(value: str) -> str:
    """Return the letters and digits, capital."""
    return "".join(value.split()).upper()


def folded(value: str) -> str:
    """Return the text without regard to capitals."""
    return value.casefold()
