from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_agentic.judges.exact.facts import Quantity, days, extract, quantities, rounds_to, same_fact, times


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1,234.56", [(1234.56, None)]),
        ("1.234,56 EUR", [(1234.56, "eur")]),
        ("1'234 and 1\u202f234", [(1234.0, None), (1234.0, None)]),
        ("-$5, $-5, -5 °C", [(-5.0, "usd"), (-5.0, "usd"), (-5.0, "celsius")]),
        ("10-5", [(10.0, None), (5.0, None)]),
        ("1,2,3", [(1.0, None), (2.0, None), (3.0, None)]),
        ("3,50", [(3.5, None)]),
        ("$1.2k and 3 million", [(1200.0, "usd"), (3_000_000.0, None)]),
        ("5km, 24h, 3-day, 20th", [(5.0, "length"), (24.0, "time"), (3.0, "time"), (20.0, None)]),
        ("3 nights", [(3.0, None)]),
        ("two bags", [(2.0, None)]),
        ("none", []),
    ],
)
def test_numbers_are_read_by_value_with_their_unit(text: str, expected: list[tuple[float, str | None]]) -> None:
    assert [(result.value, result.dimension) for result in quantities(text)] == expected


@given(st.integers(min_value=0, max_value=10**12), st.sampled_from([",", "'", "\u202f"]))
def test_a_number_is_itself_with_any_thousands_separator(number: int, separator: str) -> None:
    (result,) = quantities(f"total: {number:,}".replace(",", separator))
    assert result.value == number


@pytest.mark.parametrize(
    ("item", "other", "same"),
    [
        ("5 km", "5000 m", True),
        ("5 km", "5", True),
        ("5 km", "5 kg", False),
        ("5 %", "0.05", True),
        ("5 %", "5", True),
        ("1 year", "12 months", True),
        ("$5", "5 EUR", False),
    ],
)
def test_units_of_one_dimension_convert(item: str, other: str, *, same: bool) -> None:
    (first,), (second,) = quantities(item), quantities(other)
    assert first.same_as(second) is same
    assert second.same_as(first) is same


def test_a_stated_number_may_be_rounded_to_the_decimals_it_shows() -> None:
    (stated,) = quantities("11.5")
    assert rounds_to(11.4567, stated)
    assert not rounds_to(11.6, stated)


@pytest.mark.parametrize(
    "text", ["2024-05-20", "20 May 2024", "May 20th, 2024", "20th of May", "5/20/2024", "20.05.2024"]
)
def test_a_date_is_the_same_in_every_notation(text: str) -> None:
    (result,) = extract(text).all
    (expected,) = days("2024-05-20")
    assert same_fact(result, expected)


def test_a_date_of_another_day_or_year_differs() -> None:
    (expected,) = days("2024-05-20")
    assert not any(day.same_as(expected) for text in ("2024-05-21", "May 20, 2025", "June 20") for day in days(text))


def test_a_time_without_am_or_pm_fits_both() -> None:
    (late,), (early,), (bare,) = times("10:30 pm"), times("10:30 am"), times("10:30")
    assert (bare.same_as(late), bare.same_as(early), late.same_as(early)) == (True, True, False)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("HAT069", ["hat069"]),
        ("mia_li_3668 and a@b.org", ["mia_li_3668", "a@b.org"]),
        ("5km at 10am on the 20th, $1.2k, 1e6", []),
        ("plain words", []),
    ],
)
def test_identifiers_are_words_that_mix_letters_with_digits(text: str, expected: list[str]) -> None:
    assert [
        fact.value for fact in extract(text).all if not isinstance(fact, Quantity) and hasattr(fact, "value")
    ] == expected


@given(st.text(alphabet="1a,.:-/ $May_", max_size=40))
def test_facts_never_overlap_and_the_rest_keeps_its_length(text: str) -> None:
    facts = extract(text)
    assert len(facts.rest) == len(text)
    assert all(first.end <= other.start for first, other in zip(facts.all, facts.all[1:], strict=False))
