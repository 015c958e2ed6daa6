"""What a pattern alone cannot tell: check digits, headers that decode, bodies that are there.

Each function gets the text that a pattern found and returns the part of it that is to be taken, "" for none.
"""

from __future__ import annotations

import base64
import binascii
import itertools
import re
from typing import Final

import orjson

from otel_agentic.spans.redact_marks import is_empty
from otel_agentic.spans.redact_names import looks_secret

_BODY: Final = re.compile(r"[A-Za-z0-9+/=]{24}")
_PLAIN_LETTERS: Final = 20
_HEADER_SHOWN: Final = 4096
_SHORT_SECRET: Final = 6
_SHORTEST_WORD: Final = 4
_DIGITS: Final = 2
_SESSION: Final = 12
_AWS_SECRET: Final = 40
#: One character in so many changes its case in generated text; in joined words fewer do.
_CASE_CHANGES: Final = 5
#: What ends a word of prose, and is no part of a secret.
_TRAILING: Final = ",;.:)]}"
_SPECIAL_INSIDE: Final = re.compile(r"\w[@#$%^&*+~!]+\w")
#: Words with digits that are no secrets.
_TECHNICAL: Final = re.compile(
    r"(?i:base(?:32|58|64)|sha-?[0-9]|md5|utf-?(?:8|16)|oauth|[hre]s(?:256|384|512)|aes|s3\b|ec2|k8s|x509|v[0-9]+(?:\.|$)|http|ipv[46]|"
    r"python|bcrypt|argon2|pbkdf2|p256|ed25519|rsa|tls|[0-9]+(?:st|nd|rd|th|px|ms|[skmg]b|-\w+)$|[0-9.]+$|[0-9]{4}-[0-9]{2}-[0-9]{2})"
)
#: `' + x + '`: what stands between the quotes of two strings of a program.
_JOINED_CODE: Final = re.compile(r"\s*(?:[+.]\s|\+\w|[,)\]}]|\s*(?:if|else|in|and|or|is|not)\s)")
_CALL: Final = re.compile(
    r"[&*!]?\$?[A-Za-z_][\w$]*!?(?:(?:\.|\?\.|->|::)\$?[A-Za-z_][\w$]*)*\s*[\[(]|\$[({]|%[({]|<%|@\{|lambda\b"
)
_CHAIN: Final = re.compile(r"[&*!]?\$?[A-Za-z_][\w$]*(?:(?:\.|\?\.|->|::)\$?[A-Za-z_][\w$]*)+[;,)\]}]*")
#: A part of a dotted name; generated text has digits between its letters.
_WORDY: Final = re.compile(r"\$?_*[A-Za-z]+(?:_[A-Za-z0-9]+)*[0-9]{0,2}_*")
_CONSTANT: Final = re.compile(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+[;,)\]}]*")
_IDENTIFIER: Final = re.compile(r"_*[A-Za-z]+(?:_[A-Za-z]+)*_*[;,)\]}]*")
_JOINED_WORDS: Final = re.compile(r"[A-Za-z]_+[A-Za-z]|[a-z][A-Z]|^_|[;,)\]}]$")
_NAMES_A_SECRET: Final = re.compile(r"pass|pwd|secret|token|key|cred|auth|cookie|hash", re.IGNORECASE)
#: What programs call values.
_CODE_WORDS: Final = frozenset(
    [
        "await",
        "new",
        "not",
        "lambda",
        "self",
        "this",
        "request",
        "response",
        "req",
        "res",
        "input",
        "output",
        "value",
        "val",
        "result",
        "data",
        "body",
        "user",
        "default",
        "env",
        "config",
        "args",
        "argv",
        "params",
        "options",
        "settings",
        "encoded",
        "decoded",
        "decrypted",
        "encrypted",
        "plaintext",
        "raw",
        "text",
        "temp",
        "tmp",
        "current",
        "old",
        "row",
        "item",
        "field",
        "form",
        "payload",
        "content",
        "undefined",
        "random",
        "optional",
        "final",
        "any",
        "bytes",
        "crypto",
        "uuid",
        "getpass",
        "prompt",
        "read",
    ]
)
_SENTENCE_WORDS: Final = frozenset(
    [
        "a",
        "an",
        "the",
        "is",
        "are",
        "be",
        "must",
        "should",
        "may",
        "can",
        "cannot",
        "not",
        "and",
        "or",
        "of",
        "to",
        "for",
        "in",
        "on",
        "at",
        "with",
        "from",
        "your",
        "you",
        "my",
        "it",
        "this",
        "that",
        "has",
        "have",
        "was",
        "were",
        "if",
        "please",
        "enter",
        "invalid",
        "incorrect",
        "required",
        "wrong",
        "missing",
        "least",
        "characters",
    ]
)
_SENTENCE: Final = 3


def whole(value: str) -> str:
    """Return all of it."""
    return value


def generated(value: str) -> str:
    """Return a key; "" for a chain of words and numbers such as `sk-learn-for-complete-beginners-2024`."""
    parts = re.split(r"[-_.~:/=|$]", value)
    mixed = any(len(part) >= _SHORT_SECRET and looks_secret(part, _SHORT_SECRET) for part in parts)
    letters = any(len(part) >= _PLAIN_LETTERS and _is_random_case(part) for part in parts)
    return value if mixed or letters or random_case(value) else ""


def random_case(value: str) -> str:
    """Return text of generated characters; "" for a word, a run of one character, or a number."""
    return value if _is_random_case(value) and any(map(str.isdigit, value)) else ""


def mixed(value: str) -> str:
    """Return text with letters and at least two digits; "" for words joined by signs."""
    digits = sum(map(str.isdigit, value))
    return generated(value) if digits >= _DIGITS and any(map(str.isalpha, value)) else ""


def exactly_40(value: str) -> str:
    """Return the secret of an AWS access key: 40 characters of Base64; "" for a hash in hexadecimal digits."""
    return value if len(value) == _AWS_SECRET and random_case(value) else ""


def percent(value: str) -> str:
    """Return a token with an escape of a URL in it; "" for Base64 data, which has none."""
    return value if "%" in value else ""


def discord(value: str) -> str:
    """Return a token whose first part is the number of an account in Base64."""
    head = value.split(".", 1)[0]
    try:
        return value if base64.urlsafe_b64decode(head + "=" * (-len(head) % 4)).isdigit() else ""
    except (ValueError, binascii.Error):
        return ""


def session(value: str) -> str:
    """Return a generated session id."""
    trimmed = value.rstrip(".")
    return trimmed if looks_secret(trimmed, _SESSION) or len(trimmed) >= 2 * _SESSION else ""


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


def after_equals(value: str) -> str:
    """Return what is set by `password=…`; "" for a placeholder."""
    return "" if is_empty(value) else value


def quoted(value: str) -> str:
    """Return what stands in quotes; "" for a placeholder, a sentence, and what is between the quotes of two pieces of code."""
    return "" if is_empty(value) or _JOINED_CODE.match(value) or is_sentence(value) else value


def assigned(value: str) -> str:
    """Return what follows `password=` without quotes; "" for a placeholder and for an expression of a program."""
    return "" if is_empty(value) or is_empty(value.rstrip(_TRAILING)) or is_expression(value) else value


def after_colon(value: str) -> str:
    """Return what follows `password: …` where it looks like a secret: prose goes on with a word."""
    trimmed = value.rstrip(_TRAILING)
    if len(trimmed) < _SHORT_SECRET or is_empty(trimmed) or is_expression(value):
        return ""
    special = _SPECIAL_INSIDE.search(trimmed) is not None and any(map(str.isalpha, trimmed))
    return trimmed if looks_secret(trimmed, _SHORT_SECRET) or special or trimmed.isdigit() else ""


def only_word(value: str) -> str:
    """Return the only word behind a name; "" for a placeholder, an expression, and a number, which may be a count."""
    trimmed = value.rstrip(",;")
    if trimmed != value or len(trimmed) < _SHORTEST_WORD or value.isdigit() or value.endswith((":", ".", "?")):
        return ""
    return "" if is_empty(value) or is_expression(value) else value


def prose(value: str) -> str:
    """Return a word of a sentence that can hardly be one of a language."""
    trimmed = value.rstrip(_TRAILING + "!?*_")
    if len(trimmed) < _SHORT_SECRET or is_empty(trimmed) or is_expression(value) or _TECHNICAL.match(trimmed):
        return ""
    special = _SPECIAL_INSIDE.search(trimmed) is not None
    return trimmed if looks_secret(trimmed, _SHORT_SECRET) or (special and any(map(str.isalpha, trimmed))) else ""


def cookies(value: str) -> str:
    """Return pairs of cookies; "" for an expression of a program."""
    return "" if is_empty(value) or is_expression(value.partition("=")[2]) or is_expression(value) else value


def weak(value: str) -> str:
    """Return what follows `token=…` where it looks like a generated secret."""
    return value if looks_secret(value) and not is_empty(value) and not is_expression(value) else ""


def is_expression(value: str) -> bool:
    """Return whether a text without blanks is part of a program that computes a value, instead of the value.

    >>> [is_expression(text) for text in ("os.environ[", "req.body.password;", "getpass(", "DB_PASSWORD", "hunter22", "a1B.c2D")]
    [True, True, True, True, False, False]
    """
    if _CALL.match(value) or _CONSTANT.fullmatch(value):
        return True
    if _CHAIN.fullmatch(value):
        return all(_WORDY.fullmatch(part) for part in re.split(r"\?\.|\.|->|::", value.rstrip(";,)]}").lstrip("&*!")))
    if not _IDENTIFIER.fullmatch(value):
        return False
    if any(map(str.isupper, value)) and _is_random_case(value.rstrip(";,)]}")):
        return False
    return bool(_JOINED_WORDS.search(value) or _NAMES_A_SECRET.search(value)) or value.lower() in _CODE_WORDS


def is_sentence(value: str) -> bool:
    """Return whether a text is a sentence about a secret: a label, a rule, an error.

    >>> is_sentence("Password must be at least 8 characters"), is_sentence("correct horse battery staple")
    (True, False)
    """
    words = [word.strip(".,:;!?'\"").lower() for word in value.split()]
    if len(words) < _SENTENCE or any(looks_secret(word, _SHORT_SECRET) for word in words):
        return False
    return len([word for word in words if word in _SENTENCE_WORDS]) >= _DIGITS


def _is_random_case(text: str) -> bool:
    """Return whether the case of letters changes as often as in generated text."""
    changes = sum(one.isupper() != other.isupper() for one, other in itertools.pairwise(filter(str.isalpha, text)))
    return changes * _CASE_CHANGES >= len(text)
