"""No text makes redaction slow: twice the text is twice the time, whatever it says."""

from __future__ import annotations

import itertools
import time
from collections import Counter

import pytest

from tests.spans.secrets_made_up import ALL, EVERYTHING, redactor

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
#: The least time worth a ratio, seconds of CPU.
FLOOR_S = 0.02


def seconds(text: str) -> float:
    """Return the CPU time of a search, the better of two."""
    taken = []
    for _ in range(2):
        start = time.process_time()
        OWN.text(text, Counter())
        taken.append(time.process_time() - start)
    return min(taken)


def repeated(atom: str, length: int) -> str:
    return (atom * (length // len(atom) + 1))[:length]


def check(atom: str, short: int, bound_s: float) -> None:
    """Assert that twice the text takes no more than three times the time, noise of the machine aside."""
    for _ in range(5):
        once, twice = seconds(repeated(atom, short)), seconds(repeated(atom, 2 * short))
        assert twice < bound_s
        if twice <= 3 * max(once, FLOOR_S):
            return
    pytest.fail(f"{atom!r}: {once:.3f} s for {short} characters, {twice:.3f} s for twice as many")


@pytest.mark.parametrize("atom", ATOMS)
def test_hostile_text_takes_linear_time(atom: str) -> None:
    check(atom, 25_000, bound_s=20.0)


@pytest.mark.slow
@pytest.mark.parametrize("atom", ATOMS)
def test_hundred_kilobytes_of_hostile_text_take_linear_time(atom: str) -> None:
    check(atom, 100_000, bound_s=30.0)


@pytest.mark.slow
@pytest.mark.parametrize("pair", list(itertools.combinations(ATOMS, 2))[::17], ids=repr)
def test_hostile_mixtures_take_linear_time(pair: tuple[str, str]) -> None:
    check("".join(pair), 50_000, bound_s=30.0)


def test_a_large_clean_value_is_looked_at_in_passing() -> None:
    start = time.process_time()
    EVERYTHING.text("some words of prose, 12 of them; " * 130_000, Counter())
    assert time.process_time() - start < 2.0
