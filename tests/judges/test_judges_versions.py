"""The version of a function is that of its code: the same in every process, another one for other behaviour."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

from otel_agentic.judges.registry import code_version

#: What a set is shown as, and where an object lies, differs from one process to the next.
_MESSAGE = """
from functools import partial
from otel_agentic.judges.registry import code_version

WORDS = frozenset({"never", "later"})

class Least:
    def __init__(self):
        self.words = WORDS
    def __call__(self, text):
        return text in self.words

def held(text):
    return text in {"yes", "no", "maybe"}

def given(text, words=WORDS, least=Least()):
    return text in words

VERSIONS = [code_version(each) for each in (held, given, Least(), partial(given, words=WORDS))]
"""


def elsewhere() -> list[str]:
    """Return the versions that another process gives, in which sets have another order."""
    message = subprocess.run(
        [sys.executable, "-c", f"{_MESSAGE}print(*VERSIONS)"],
        capture_output=True,
        check=True,
        env=os.environ | {"PYTHONHASHSEED": "1"},
    )
    return message.stdout.decode().split()


def retained(function: Callable[[str], bool]) -> Callable[[str], bool]:
    @functools.wraps(function)
    def inner(text: str) -> bool:
        return function(text)

    return inner


def test_it_is_the_same_in_every_process() -> None:
    here: dict[str, Any] = {"__name__": "__main__"}
    exec(_MESSAGE, here)  # noqa: S102 — what the other process runs, too
    assert elsewhere() == here["VERSIONS"]
    assert 4 == len(set(here["VERSIONS"]))


def test_the_order_of_a_set_is_not_in_it() -> None:
    first, other = frozenset((0, 8)), frozenset((8, 0))
    assert repr(first) != repr(other)
    assert code_version(functools.partial(max, first)) == code_version(functools.partial(max, other))


def test_what_a_decorator_stands_before_is_in_it() -> None:
    short, long = retained(lambda text: len(text) < 10), retained(lambda text: len(text) > 10)
    assert code_version(short) != code_version(long)


def test_what_a_function_was_made_with_is_in_it_and_what_it_gathers_is_not() -> None:
    def actual(least: int, recorded: list[str]) -> Callable[[str], bool]:
        def long(text: str) -> bool:
            recorded.append(text)
            return len(text) > least

        return long

    assert code_version(actual(3, [])) == code_version(actual(3, ["seen"])) != code_version(actual(4, []))


def test_a_function_that_calls_itself_has_one() -> None:
    def even(number: int) -> bool:
        return number == 0 or not even(number - 1)

    assert code_version(even) == code_version(even)


def test_objects_and_built_in_functions_have_one() -> None:
    class Least:
        def __init__(self, least: int) -> None:
            self.least = least

        def __call__(self, text: str) -> bool:
            return len(text) >= self.least

    versions: list[Any] = [code_version(item) for item in (Least(1), Least(2), len, str.upper)]
    assert 4 == len(set(versions))
    assert versions[0] == code_version(Least(1))
