"""Checks that confirm a match of a redaction rule: check digits, headers that decode, prefixes that exist.

Each check takes the text that a pattern matched and returns the part of it to redact, "" for none. The functions at the
end normalise a value, so that equal values get equal marks.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
import itertools
import re
from typing import Final

import orjson

from otel_agentic.redaction.fields import is_empty, looks_secret

_BODY: Final = re.compile(r"[A-Za-z0-9+/=]{24}")
_PLAIN_LETTERS: Final = 20
_HEADER_SHOWN: Final = 4096
_SHORT_SECRET: Final = 6
_SHORTEST_WORD: Final = 4
_DIGITS: Final = 2
_SESSION: Final = 12
_AWS_SECRET: Final = 40
#: In generated text, one character in five changes its case; in joined words fewer do.
_CASE_CHANGES: Final = 5
#: Characters that end a word of prose and are not part of a secret.
_TRAILING: Final = ",;.:)]}"
_SPECIAL_INSIDE: Final = re.compile(r"\w[@#$%^&*+~!]+\w")
#: Words with digits that are not secrets.
_TECHNICAL: Final = re.compile(
    r"(?i:base(?:32|58|64)|sha-?[0-9]|md5|utf-?(?:8|16)|oauth|[hre]s(?:256|384|512)|aes|s3\b|ec2|k8s|x509|v[0-9]+(?:\.|$)|http|ipv[46]|"
    r"python|bcrypt|argon2|pbkdf2|p256|ed25519|rsa|tls|[0-9]+(?:st|nd|rd|th|px|ms|[skmg]b|-\w+)$|[0-9.]+$|[0-9]{4}-[0-9]{2}-[0-9]{2})"
)
#: `' + x + '`: code between the quotes of two strings of a program.
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
#: Names that programs use for values.
_CODE_WORDS: Final = frozenset(
    [
        "await", "new", "not", "lambda", "self", "this", "request", "response", "req", "res", "input", "output",
        "value", "val", "result", "data", "body", "user", "default", "env", "config", "args", "argv", "params",
        "options", "settings", "encoded", "decoded", "decrypted", "encrypted", "plaintext", "raw", "text", "temp",
        "tmp", "current", "old", "row", "item", "field", "form", "payload", "content", "undefined", "random",
        "optional", "final", "any", "bytes", "crypto", "uuid", "getpass", "prompt", "read",
    ]
)  # fmt: skip
_SENTENCE_WORDS: Final = frozenset(
    [
        "a", "an", "the", "is", "are", "be", "must", "should", "may", "can", "cannot", "not", "and", "or", "of",
        "to", "for", "in", "on", "at", "with", "from", "your", "you", "my", "it", "this", "that", "has", "have",
        "was", "were", "if", "please", "enter", "invalid", "incorrect", "required", "wrong", "missing", "least",
        "characters",
    ]
)  # fmt: skip
_SENTENCE: Final = 3
_IBAN_LENGTHS: Final = {
    country: length
    for length, countries in {
        15: "NO", 16: "BE", 18: "DK FI FO FK GL NL SD", 19: "MK SI", 20: "AT BA EE KZ LT LU MN XK", 21: "CH HR LI LV",
        22: "BG BH CR DE GB GE IE ME RS VA", 23: "AE GI IL IQ OM SO TL", 24: "AD CZ ES MD PK RO SA SE SK TN VG",
        25: "LY PT ST", 26: "IS TR", 27: "BI DJ FR GR IT MC MR SM", 28: "AL AZ BY CY DO GT HU LB NI PL SV", 29: "BR EG PS QA UA",
        30: "JO KW MU YE", 31: "MT SC", 32: "LC", 33: "RU",
    }.items()
    for country in countries.split()
}  # fmt: skip
#: ITU-T E.164, country codes of one or two digits; those of three begin with a pair that is not among them.
_COUNTRIES: Final = re.compile(
    r"1[2-9]|7|2[07]|3[0-469]|4[013-9]|5[1-8]|6[0-6]|8[1246]|9[0-58]|2[1-69][0-9]|3[578][0-9]|42[0-9]|5[09][0-9]|6[789][0-9]|"
    r"8[0578][0-9]|9[679][0-9]"
)
_NORTH_AMERICA: Final = 11
_INTERNATIONAL: Final = range(8, 16)
_NATIONAL: Final = range(9, 13)
_SPOKEN: Final = re.compile(r"0[1-9][0-9]{8,9}|1?[2-9][0-9]{2}[2-9][0-9]{6}|[6-9][0-9]{9}")
_DATE: Final = re.compile(r"\(?(?:0[1-9]|[12][0-9]|3[01])[./ -](?:0[1-9]|1[0-2])[./ -](?:19|20)[0-9]{2}(?:[^0-9]|$)")
_FILES: Final = frozenset(
    [
        "png", "jpg", "jpeg", "gif", "svg", "webp", "ico", "css", "scss", "js", "mjs", "ts", "tsx", "jsx", "py",
        "rb", "go", "rs", "json", "yaml", "yml", "html", "xml", "md", "txt",
    ]
)  # fmt: skip
_SSN: Final = re.compile(r"(?:000|666)|[0-9]{3}00|[0-9]{5}0000")
_SPECIAL_ADDRESSES: Final = frozenset({"0.0.0.0", "255.255.255.255"})  # noqa: S104 — not bound to
_GROUPS: Final = 4


def unchecked(value: str) -> str:
    """Return the complete match."""
    return value


def generated(value: str) -> str:
    """Return a key; "" for a sequence of words and numbers such as `sk-learn-for-complete-beginners-2024`."""
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
    session_id = value.rstrip(".")
    return session_id if looks_secret(session_id, _SESSION) or len(session_id) >= 2 * _SESSION else ""


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
    """Return a key that has an end, or a body before it was cut; "" if only its first line is mentioned."""
    body = value.partition("KEY")[2]
    return value if "-----END" in body or _BODY.search(body) else ""


def basic(value: str) -> str:
    """Return text that decodes to `user:password`."""
    try:
        text = base64.b64decode(value + "=" * (-len(value) % 4), validate=True).decode()
    except (ValueError, binascii.Error):
        return ""
    return value if ":" in text and text.isprintable() else ""


def after_equals(value: str) -> str:
    """Return the value set by `password=…`; "" for a placeholder."""
    return "" if is_empty(value) else value


def quoted(value: str) -> str:
    """Return the text in quotes; "" for a placeholder, a sentence, and code between the quotes of two strings."""
    return "" if is_empty(value) or _JOINED_CODE.match(value) or is_sentence(value) else value


def assigned(value: str) -> str:
    """Return the value after `password=` without quotes; "" for a placeholder and for an expression of a program."""
    return "" if is_empty(value) or is_empty(value.rstrip(_TRAILING)) or is_expression(value) else value


def after_colon(value: str) -> str:
    """Return the value after `password: ` if it looks like a secret; in prose, an ordinary word follows."""
    candidate = value.rstrip(_TRAILING)
    if len(candidate) < _SHORT_SECRET or is_empty(candidate) or is_expression(value):
        return ""
    special = _SPECIAL_INSIDE.search(candidate) is not None and any(map(str.isalpha, candidate))
    return candidate if looks_secret(candidate, _SHORT_SECRET) or special or candidate.isdigit() else ""


def only_word(value: str) -> str:
    """Return the single word after a name; "" for a placeholder, an expression, and a number, which may be a count."""
    candidate = value.rstrip(",;")
    if candidate != value or len(candidate) < _SHORTEST_WORD or value.isdigit() or value.endswith((":", ".", "?")):
        return ""
    return "" if is_empty(value) or is_expression(value) else value


def prose(value: str) -> str:
    """Return a word in a sentence that is unlikely to be a word of a language."""
    candidate = value.rstrip(_TRAILING + "!?*_")
    if len(candidate) < _SHORT_SECRET or is_empty(candidate) or is_expression(value) or _TECHNICAL.match(candidate):
        return ""
    special = _SPECIAL_INSIDE.search(candidate) is not None
    return candidate if looks_secret(candidate, _SHORT_SECRET) or (special and any(map(str.isalpha, candidate))) else ""


def cookies(value: str) -> str:
    """Return pairs of cookies; "" for an expression of a program."""
    return "" if is_empty(value) or is_expression(value.partition("=")[2]) or is_expression(value) else value


def weak(value: str) -> str:
    """Return the value after `token=` if it looks like a generated secret."""
    return value if looks_secret(value) and not is_empty(value) and not is_expression(value) else ""


def is_expression(value: str) -> bool:
    """Return whether a text without white space is program code that computes a value, instead of the value.

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
    """Return whether letters change their case as often as in generated text."""
    letters = filter(str.isalpha, text)
    changes = sum(letter.isupper() != following.isupper() for letter, following in itertools.pairwise(letters))
    return changes * _CASE_CHANGES >= len(text)


def card(value: str) -> str:
    """Return a number whose last digit is Luhn's check digit.

    >>> card("4111 1111 1111 1111"), card("4111 1111 1111 1112")
    ('4111 1111 1111 1111', '')
    """
    digits = [int(character) for character in reversed(value) if character.isdigit()]
    doubled_digits = (sum(divmod(2 * digit, 10)) for digit in digits[1::2])
    return value if (sum(digits[::2]) + sum(doubled_digits)) % 10 == 0 and any(digits[1:]) else ""


def iban(value: str) -> str:
    """Return the part with the length of its country, if its ISO 7064 check digits are right.

    >>> iban("DE89 3704 0044 0532 0130 00 EUR")
    'DE89 3704 0044 0532 0130 00'
    """
    length = _IBAN_LENGTHS.get(value[:2].upper(), 0)
    ends = [index + 1 for index, character in enumerate(value) if character.isalnum()]
    if not length or len(ends) < length:
        return ""
    text = value[: ends[length - 1]]
    next_character = value[len(text) : len(text) + 1]
    compact_iban = compact(text)
    number = int("".join(str(int(character, 36)) for character in compact_iban[4:] + compact_iban[:4]))
    return text if number % 97 == 1 and not next_character.isalnum() else ""


def international_phone(value: str) -> str:
    """Return a number that begins with a country code and has a valid length."""
    digits = phone_digits(value)
    if len(digits) not in _INTERNATIONAL or not _COUNTRIES.match(digits):
        return ""
    return value if digits[0] != "1" or len(digits) == _NORTH_AMERICA else ""


def national_phone(value: str) -> str:
    """Return a number with a leading zero and a valid length; "" for a date."""
    return value if len(digits_of(value)) in _NATIONAL and not _DATE.match(value) else ""


def spoken_phone(value: str) -> str:
    """Return a number without separators that begins like numbers in North America, in India, or with a zero."""
    return value if _SPOKEN.fullmatch(value) else ""


def email(value: str) -> str:
    """Return an address; "" for the name of a file such as `logo@2x.png`, and for the user of a repository's host."""
    return "" if value.rpartition(".")[2].lower() in _FILES or value.startswith("git@") else value


def ssn(value: str) -> str:
    """Return a number whose three parts are all assigned."""
    return "" if _SSN.match(digits_of(value)) else value


def ip(value: str) -> str:
    """Return an address that is not a loopback, unspecified or broadcast address."""
    text = value.rstrip(":") if not value.endswith("::") else value
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return ""
    short = address.version != _GROUPS and (text.count(":") < _GROUPS - 1 or not any(map(str.isdigit, text)))
    return "" if short or address.is_loopback or address.is_unspecified or text in _SPECIAL_ADDRESSES else text


def digits_of(value: str) -> str:
    """Return the digits of a number, without its separators."""
    return "".join(character for character in value if character.isdigit())


def phone_digits(value: str) -> str:
    """Return the digits of a telephone number, without the leading zeros that replace a plus."""
    return digits_of(value).removeprefix("00")


def compact(value: str) -> str:
    """Return the letters and digits in upper case."""
    return "".join(filter(str.isalnum, value)).upper()


def folded(value: str) -> str:
    """Return the case-folded text, with the URL escape of @ decoded."""
    return value.replace("%40", "@").casefold()
