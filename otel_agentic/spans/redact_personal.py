"""What a pattern alone cannot tell of personal data: check digits, lengths, prefixes that exist.

Each check gets the text that a pattern found and returns the part of it that is taken, "" for none. Those at the end return
what makes two values equal.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Final

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
        "png",
        "jpg",
        "jpeg",
        "gif",
        "svg",
        "webp",
        "ico",
        "css",
        "scss",
        "js",
        "mjs",
        "ts",
        "tsx",
        "jsx",
        "py",
        "rb",
        "go",
        "rs",
        "json",
        "yaml",
        "yml",
        "html",
        "xml",
        "md",
        "txt",
    ]
)
_SSN: Final = re.compile(r"(?:000|666)|[0-9]{3}00|[0-9]{5}0000")
_NOBODYS: Final = frozenset({"0.0.0.0", "255.255.255.255"})  # noqa: S104 — not bound to
_GROUPS: Final = 4


def card(value: str) -> str:
    """Return a number whose last digit is Luhn's check digit.

    >>> card("4111 1111 1111 1111"), card("4111 1111 1111 1112")
    ('4111 1111 1111 1111', '')
    """
    digits = [int(character) for character in reversed(value) if character.isdigit()]
    doubled = (sum(divmod(2 * digit, 10)) for digit in digits[1::2])
    return value if (sum(digits[::2]) + sum(doubled)) % 10 == 0 and any(digits[1:]) else ""


def iban(value: str) -> str:
    """Return the part of the length of its country, where its ISO 7064 check digits are right.

    >>> iban("DE89 3704 0044 0532 0130 00 EUR")
    'DE89 3704 0044 0532 0130 00'
    """
    length = _IBAN_LENGTHS.get(value[:2].upper(), 0)
    ends = [place + 1 for place, character in enumerate(value) if character.isalnum()]
    if not length or len(ends) < length:
        return ""
    text = value[: ends[length - 1]]
    followed = value[len(text) : len(text) + 1]
    plain = compact(text)
    number = int("".join(str(int(character, 36)) for character in plain[4:] + plain[:4]))
    return text if number % 97 == 1 and not followed.isalnum() else ""


def international_phone(value: str) -> str:
    """Return a number that begins with the code of a country and has a length that numbers have."""
    digits = phone_digits(value)
    if len(digits) not in _INTERNATIONAL or not _COUNTRIES.match(digits):
        return ""
    return value if digits[0] != "1" or len(digits) == _NORTH_AMERICA else ""


def national_phone(value: str) -> str:
    """Return a number with a leading zero of a length that numbers have, and no date."""
    return value if len(digits_of(value)) in _NATIONAL and not _DATE.match(value) else ""


def spoken_phone(value: str) -> str:
    """Return a number without separators that begins as numbers do in North America, India, or where they begin with a zero."""
    return value if _SPOKEN.fullmatch(value) else ""


def email(value: str) -> str:
    """Return an address; "" for the name of a file such as `logo@2x.png`, and for the user of a repository's host."""
    return "" if value.rpartition(".")[2].lower() in _FILES or value.startswith("git@") else value


def ssn(value: str) -> str:
    """Return a number whose three parts have all been assigned."""
    return "" if _SSN.match(digits_of(value)) else value


def ip(value: str) -> str:
    """Return an address that is not of this machine, of no machine, or of all."""
    text = value.rstrip(":") if not value.endswith("::") else value
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return ""
    short = address.version != _GROUPS and (text.count(":") < _GROUPS - 1 or not any(map(str.isdigit, text)))
    return "" if short or address.is_loopback or address.is_unspecified or text in _NOBODYS else text


def digits_of(value: str) -> str:
    """Return the digits of a number, however it is written: equal numbers get equal marks."""
    return "".join(character for character in value if character.isdigit())


def phone_digits(value: str) -> str:
    """Return the digits of a telephone number, without the zeros that stand for a plus."""
    return digits_of(value).removeprefix("00")


def compact(value: str) -> str:
    """Return the letters and digits, capital."""
    return "".join(filter(str.isalnum, value)).upper()


def folded(value: str) -> str:
    """Return the text without regard to capitals, the @ as it is."""
    return value.replace("%40", "@").casefold()
