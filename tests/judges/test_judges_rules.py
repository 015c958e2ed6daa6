"""The rules of the exact judge one by one: assertions, opposites, swapped values, JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from otel_agentic.judges.exact.facts import Identifier, Quantity, covers_fact, extract, quantities, with_whole_durations
from otel_agentic.judges.exact.judge import json_agreement
from otel_agentic.judges.exact.negation import (
    Manner,
    asserts,
    flips,
    leading,
    misplaced,
    opposed,
    similarity,
    stem,
    stems,
)
from otel_agentic.judges.registry import FunctionJudge

if TYPE_CHECKING:
    from otel_agentic.judges import Question

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="`"), max_size=5)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-1000, 1000) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("text", "stated", "stands"),
    [
        ("We open at 9 am.", "9 am", True),
        ("Formerly 8 am, now 9 am.", "8 am", False),
        ("It was moved from Oslo to Bergen.", "Oslo", False),
        ("It was moved from Oslo to Bergen.", "Bergen", True),
        ("A train from Oslo to Bergen.", "Oslo", True),
        ("Larger than 9.9", "9.9", False),
        ("I am not sure, it might be 42.", "42", False),
        ("I am not sure about the price. The gate is B12.", "B12", True),
        ("Perhaps you know it: 42.", "42", True),
        ("It is not 42", "42", False),
    ],
)
def test_a_text_asserts_what_it_says_of_now_and_knows(text: str, stated: str, *, stands: bool) -> None:
    start = text.index(stated)
    assert asserts(text, start, start + len(stated), Manner()) is stands


@pytest.mark.parametrize(
    ("first", "other", "opposite"),
    [
        ("The order was shipped.", "The order was not shipped.", True),
        ("Expenses above $500 need approval.", "Expenses below $500 need approval.", True),
        ("The server is not up.", "The server is down.", False),
        ("The server is up.", "The server is up.", False),
        ("The server is up.", "Bananas are not yellow.", False),
        ("I cannot add it and cannot look it up.", "I can add it and cannot look it up.", True),
    ],
)
def test_sentences_about_the_same_are_opposed_by_one_denial_or_one_opposite(
    first: str, other: str, *, opposite: bool
) -> None:
    assert opposed(first, other) is opposite
    assert opposed(other, first) is opposite


@given(st.text(max_size=40))
def test_nothing_is_opposed_to_itself(text: str) -> None:
    assert not opposed(text, text)
    assert not flips(text, text)


@pytest.mark.parametrize(
    ("text", "stated"),
    [
        ("yes, sure", True),
        ("nein, leider", False),
        ("no problem, done", None),
        ("the gate is b12", None),
        ("oui", True),
    ],
)
def test_a_yes_or_a_no_is_read_in_the_first_word(text: str, stated: bool | None) -> None:  # noqa: FBT001 — test data
    assert leading(text) is stated


@pytest.mark.parametrize(
    ("answer", "swapped"),
    [
        ("Pro costs $10 and Basic costs $25.", True),
        ("Basic costs $10, Pro $25.", False),
        ("| Basic | $10 |\n| Pro | $25 |", False),
        ("| Basic | $25 |\n| Pro | $10 |", True),
        ("$10 and $25", False),
    ],
)
def test_values_are_swapped_if_each_is_next_to_the_name_of_the_other(answer: str, *, swapped: bool) -> None:
    expected = "Basic costs $10 and Pro costs $25."
    result = misplaced(expected, extract(expected).all, answer, extract(answer))
    assert (result is not None) is swapped


@pytest.mark.parametrize(
    ("text", "hours"),
    [("2 hours and 30 minutes", 2.5), ("2h 30m", 2.5), ("1 h, 15 min", 1.25), ("2 Stunden und 30 Minuten", 2.5)],
)
def test_neighbouring_parts_of_a_duration_are_one(text: str, hours: float) -> None:
    (result,) = with_whole_durations(text, extract(text)).all
    assert isinstance(result, Quantity)
    assert hours == result.value


@pytest.mark.parametrize(
    "text", ["2 hours to Oslo and then 30 minutes", "30 minutes 2 hours", "5 km 30 m", "2 h 90 min"]
)
def test_what_are_no_parts_of_one_duration_stay_apart(text: str) -> None:
    assert 2 == len(with_whole_durations(text, extract(text)).all)


@given(JSON, JSON)
@example({"```": None}, "```\n")
def test_json_agrees_fully_with_itself_alone(first: object, other: object) -> None:
    message, same = json.dumps([first]), json.dumps([first], indent=2)
    assert 1.0 == json_agreement(message, f"Here it is:\n```json\n{same}\n```")
    if json.dumps(first, sort_keys=True) != json.dumps(other, sort_keys=True):
        agreement = json_agreement(message, json.dumps([other]))
        assert agreement is not None
        assert 0.0 <= agreement < 1.0


@pytest.mark.parametrize("answer", ["Oslo", "{not json", "[1, 2", "[" * 2000 + "]" * 2000, "4"])
def test_what_is_no_json_is_judged_as_text(answer: str) -> None:
    assert json_agreement('{"city": "Oslo"}', answer) is None


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("#W2378156", ["w2378156"]),
        ("see /etc/hosts or ~/.config/x", ["/etc/hosts", "~/.config/x"]),
        ("https://a.example/b?c=1.", ["https://a.example/b?c=1"]),
        ("v3.2.1 and 10.0.0.1", ["3.2.1", "10.0.0.1"]),
        ("1.234.567 people", []),
        ("+49 30 123456", ["tel:930123456"]),
        ("and/or 24/7 a/b", []),
    ],
)
def test_paths_versions_and_telephone_numbers_are_right_or_wrong_as_a_whole(text: str, result: list[str]) -> None:
    assert result == [fact.value for fact in extract(text).all if isinstance(fact, Identifier)]


def test_the_number_of_an_entry_in_a_list_is_no_fact() -> None:
    assert [] == list(extract("1. Red\n2) Blue\n 3. Green").all)
    assert 1 == len(extract("3. Mai 2025").all)
    assert [42.0] == [fact.value for fact in extract("42. That is it").all if isinstance(fact, Quantity)] + [
        fact.value for fact in extract("42").all if isinstance(fact, Quantity)
    ]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("twenty-five", 25.0), ("two and a half hours", 2.5), ("three hundred", 300.0), ("two million", 2e6),
        ("drei Tage", 3.0), ("$4.2M", 4.2e6), ("1.234.567", 1_234_567.0),
    ],
)  # fmt: skip
def test_numbers_in_words_and_with_scales_are_read_by_value(text: str, value: float) -> None:
    (result,) = quantities(text)
    assert value == result.value


def test_a_date_says_its_year_and_its_month_but_not_the_other_way_round() -> None:
    (date,), (month,), (year,) = (extract(text).all for text in ("1 February 2023", "February 2023", "2023"))
    assert covers_fact(date, month)
    assert covers_fact(date, year)
    assert not covers_fact(month, date)
    assert not covers_fact(year, date)


@given(st.lists(st.sampled_from("ship order Monday Oslo cancelled refund quickly Maria Mario".split()), max_size=6))  # noqa: SIM905 — a list of words
def test_similarity_is_1_for_the_same_words_and_never_grows_by_leaving_some_out(stated: list[str]) -> None:
    full, query = stems(" ".join(stated)), stems("order")
    assert (1.0 if full else 0.0) == pytest.approx(similarity(full, full, query))
    for index in range(len(stated)):
        part = stems(" ".join(stated[:index] + stated[index + 1 :]))
        assert similarity(full, part, query) <= similarity(full, full, query) + 1e-12


def test_names_that_differ_in_their_ending_stay_apart() -> None:
    assert len({stem(name) for name in ("maria", "mario", "marie")}) == 3
    assert stem("christian") != stem("christine")


def test_the_version_of_a_function_is_that_of_its_code_and_plain_values() -> None:
    def actual(limit: float) -> FunctionJudge:
        recorded: list[str] = []

        def noting(question: Question) -> bool:
            recorded.append(question.answer)
            return question.threshold > limit

        return FunctionJudge(noting)

    assert actual(1.0).version == actual(1.0).version
    assert actual(1.0).version != actual(2.0).version
    assert FunctionJudge(lambda _: 1.0).version != FunctionJudge(lambda _: 0.0).version
