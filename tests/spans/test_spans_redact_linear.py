"""No text makes redaction slow: twice the text is twice the work, for any content."""

from __future__ import annotations

import itertools
from collections import Counter
from functools import partial

import pytest

from tests.spans.secrets_made_up import ALL, EVERYTHING, redactor
from tests.steps import LINEAR, growth, steps_of

#: Beginnings, halves and edges of what the patterns look for, to be repeated.
ATOMS = [
    *("eyJ", "eyJa.", "sk-", "sk-a", "AKIA", "SG.", "sig=", "0:AA", "xoxb-", "hooks.slack.com/"),
    *("-----BEGIN PRIVATE KEY-----", "-----BEGIN ", "-", "--"),
    *(
        'password="',
        "password='",
        "password: ",
        "password=",
        "password",
        '\\"password\\": \\"',
        "password>",
        "<password>",
    ),
    *("://a:", "http://a:b", "@", "a@", "a@b.", "a.", "."),
    *("4111 ", "4111 1111 1111 1111 ", "4", "DE89 ", "DE89", "+1 ", "(555) ", "555-"),
    *("\\", '\\"', '"', "'", "{", "[", '{"', '["', '{"a":', '["a",', '{"password":"x"},', '["password","'),
    *(
        "bearer ",
        "bearer a",
        "basic ",
        "cookie:",
        "Cookie: a=",
        "authorization: ",
        "token=",
        "token",
        "x-api-key: ",
        "a=b;",
    ),
    *(
        "--password ",
        "--a-",
        "-u a:b",
        "-u ",
        "password%3D",
        "password%253Aa%25",
        "%3A%2F%2Fa%3A",
        "password value=",
        "\x1b[0m",
    ),
    *("%3Dsk-a1", "_", "\\n", "password:\n a1"),
    *("[redacted:", "[redacted:jwt:00000000]", "\\u0073", "A", "a", "_", " ", "\n", "é", "\ud800", "aaaa bbbb-"),
]
OWN = redactor(**ALL, custom={"nested": "(a+)+b", "wide": "(.*a){8}x", "ends": "x*y*z*$w"})


def repeated(atom: str, length: int) -> str:
    return (atom * (length // len(atom) + 1))[:length]


def factor(atom: str, size: int) -> float:
    """Return by which factor the steps of Python grow with twice the text. What RE2 does itself is linear."""
    return growth(lambda length: partial(OWN.text, repeated(atom, length), Counter()), size)


@pytest.mark.parametrize("atom", ATOMS)
def test_hostile_text_takes_linear_time(atom: str) -> None:
    assert factor(atom, 3_000) < LINEAR


@pytest.mark.slow
@pytest.mark.parametrize("atom", ATOMS)
def test_hundred_kilobytes_of_hostile_text_take_linear_time(atom: str) -> None:
    assert factor(atom, 100_000) < LINEAR


@pytest.mark.slow
@pytest.mark.parametrize("pair", list(itertools.combinations(ATOMS, 2))[::17], ids=repr)
def test_hostile_mixtures_take_linear_time(pair: tuple[str, str]) -> None:
    assert factor("".join(pair), 20_000) < LINEAR


def test_a_large_clean_value_is_looked_at_in_passing() -> None:
    text = "some words of prose, 12 of them; " * 130_000

    assert steps_of(lambda: EVERYTHING.text(text, Counter())) < 10_000
