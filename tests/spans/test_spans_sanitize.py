from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_agentic.spans.sanitize import (
    CUT_DEPTH,
    CUT_VALUE,
    MENDED_NUMBER,
    MENDED_TEXT,
    MENDED_TIME,
    TIME_END_NS,
    clean_enum,
    clean_int,
    clean_text,
    clean_times,
    clean_value,
    cut_text,
    first_of,
    id_of_bytes,
    id_of_text,
)

if TYPE_CHECKING:
    from otel_agentic.spans import Limits


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=40), st.integers(0, 60))
def test_a_cut_text_is_a_beginning_that_fits_and_one_character_more_would_not(text: str, max_bytes: int) -> None:
    cut = cut_text(text, max_bytes)
    assert text.startswith(cut)
    assert len(cut.encode()) <= max_bytes
    assert cut == text or len(text[: len(cut) + 1].encode()) > max_bytes


@given(st.text(max_size=40), st.integers(0, 60))
def test_cleaned_text_is_always_utf_8_without_nul_and_within_the_limit(text: str, max_bytes: int) -> None:
    cleaned = clean_text(text, max_bytes, Counter())
    assert "\0" not in cleaned
    assert len(cleaned.encode()) <= max_bytes


def test_a_pair_of_surrogates_becomes_its_character_and_a_lone_one_the_replacement() -> None:
    altered: Counter[str] = Counter()
    assert clean_text("\ud83d\ude00 \ud83d", 100, altered) == "\U0001f600 \ufffd"
    assert altered == {MENDED_TEXT: 1}


def test_a_text_that_is_mended_and_cut_is_counted_under_both_reasons() -> None:
    altered: Counter[str] = Counter()
    assert clean_text("a\0bcd", 5, altered) == "a\ufffdb"
    assert altered == {MENDED_TEXT: 1, CUT_VALUE: 1}


@pytest.mark.parametrize(
    "secret", ["postgres://bob:" + "hunter22@db", "token=abcdefgh" + "12345678zz", "sk-" + "a1" * 16]
)
def test_a_limit_that_falls_into_a_secret_leaves_no_half_of_it(secret: str) -> None:
    for remaining in range(1, len(secret)):
        text = "word " * 2000 + secret + " and more" * 9
        cut = clean_text(text, 10_000 + remaining, Counter())
        assert "word " * 2000 == cut


def test_a_long_word_is_cut_and_so_is_a_text_that_ends_with_its_word() -> None:
    assert "a" * 5000 == clean_text("a" * 6000, 5000, Counter())
    assert "b " + "a" * 4998 == clean_text("b " + "a" * 6000, 5000, Counter())
    assert "one two" * 700 == clean_text("one two" * 700 + " three", 4900, Counter())


def test_an_integer_of_ten_thousand_digits_becomes_text() -> None:
    assert str(clean_int(2**63, Counter())) == "9223372036854775808"
    assert str(clean_int(10**10_000, Counter())).startswith("0x")


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (5, 9, (5, 9)),
        (9, 5, (9, 9)),
        (0, 9, (9, 9)),
        (9, 0, (9, 9)),
        (9, 2**64 - 1, (9, 9)),
        (2**64 - 1, 9, (9, 9)),
        (0, 2**63, (0, 0)),
    ],
)
def test_times_end_up_in_range_and_in_order(start: int, end: int, expected: tuple[int, int]) -> None:
    assert clean_times(start, end, Counter()) == expected


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))
def test_any_two_times_fit_into_64_bits_and_are_ordered(start: int, end: int) -> None:
    first, last = clean_times(start, end, Counter())
    assert 0 <= first <= last < TIME_END_NS


def test_unset_times_are_counted() -> None:
    altered: Counter[str] = Counter()
    clean_times(0, 9, altered)
    assert altered == {MENDED_TIME: 1}


@pytest.mark.parametrize(
    "text", ["", "0" * 16, "xyz", "0" * 15 + "g", "1" * 17, "\N{FULLWIDTH DIGIT ONE}" * 16, None, 7, " " * 16]
)
def test_what_is_no_span_id_reads_as_empty(text: object) -> None:
    assert id_of_text(text, 16) == ""


def test_an_id_of_bytes_needs_its_length_and_one_bit() -> None:
    assert id_of_bytes(bytes(7) + b"\1", 16) == "0000000000000001"
    assert id_of_bytes(bytes(8), 16) == ""
    assert id_of_bytes(b"\1" * 9, 16) == ""


def test_an_unknown_enumeration_value_is_the_unset_one() -> None:
    assert [clean_enum(value, 5) for value in (-1, 0, 5, 6)] == [0, 0, 5, 0]


def test_surplus_items_are_counted() -> None:
    altered: Counter[str] = Counter()
    assert first_of([1, 2, 3], 2, "cut", altered) == [1, 2]
    assert altered == {"cut": 1}


def test_values_of_the_sdk_become_plain_lists_and_dicts(limits: Limits) -> None:
    altered: Counter[str] = Counter()
    value = {"a": (1, 2.5, None, b"x", math.nan), "b": True, "c": object()}
    assert clean_value(value, limits, altered) == {"a": [1, 2.5, None, b"x", "NaN"], "b": True, "c": "<object>"}
    assert altered[MENDED_NUMBER] == 1


def test_bytes_and_texts_are_cut_to_the_limit(limits: Limits) -> None:
    small = replace(limits, max_value_bytes=2)
    assert clean_value([b"abc", "abc"], small, Counter()) == [b"ab", "ab"]


def test_a_value_deeper_than_48_levels_is_cut_and_counted(limits: Limits) -> None:
    altered: Counter[str] = Counter()
    nested: list[Any] = []
    for _ in range(60):
        nested = [nested]
    depth, value = 0, clean_value(nested, limits, altered)
    while value:
        depth, value = depth + 1, value[0]
    assert depth == 48
    assert altered == {CUT_DEPTH: 1}
