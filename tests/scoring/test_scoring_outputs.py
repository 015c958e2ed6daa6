"""An expected output is recognised in any notation that people use, and never by chance."""

from __future__ import annotations

import json

import pytest

from otel_agentic.scoring.parts import contains


@pytest.mark.parametrize(
    ("answer", "output"),
    [
        ("The total is 23 553 USD.", "23553"),
        ("Gesamt: 23.553,00 \u20ac", "23553"),
        ("Gesamt: 1.286 \u20ac", 1286),
        ("Cela co\u00fbte 1\u202f286,50 \u20ac", 1286.5),
        ("Es kostet 12'500 CHF", 12500),
        ("Your total is \u20b91,23,456", 123456),
        ("\u5408\u8a08\u306f12,345\u5186\u3067\u3059", 12345),
        ("Your total is \uff11\uff12\uff13", 123),
        ("That is $1.2 million", 1_200_000),
        ("You fly on May 20, 2024.", "2024-05-20"),
        ("Sie fliegen am 20.05.2024.", "2024-05-20"),
        ("It leaves at 16:30.", "4:30 PM"),
        ("Ihre STRASSE", "stra\u00dfe"),
        ("half of it is 0.5", 0.5),
    ],
)
def test_numbers_dates_and_times_are_recognised_by_value(answer: str, output: str | float) -> None:
    assert contains(answer, output)


@pytest.mark.parametrize(
    ("answer", "output"),
    [
        ("Flight HAT136", 136),
        ("I know.", "no"),
        ("It is -1,234.", 1234),
        ("It costs 327 \u20ac.", "$327"),
        ("You fly on May 21, 2024.", "2024-05-20"),
        ("Rooms 12, 345 and 6", 12345),
        ("There are 10 digits.", 10**400),
    ],
)
def test_a_text_that_only_looks_similar_is_not_recognised(answer: str, output: str | float) -> None:
    assert not contains(answer, output)


_MESSAGE = "You get 1628 back.\nThank you for 12 stays.\n7"


@pytest.mark.parametrize(
    "answer",
    [
        json.dumps({"answer": _MESSAGE, "done": True}),
        json.dumps([{"parts": [_MESSAGE]}]),
        json.dumps(_MESSAGE),
        json.dumps(json.dumps({"answer": _MESSAGE})),
        json.dumps({"content": json.dumps({"answer": _MESSAGE})}),
        f"```json\n{json.dumps({'answer': _MESSAGE})}\n```",
        f"Result: {json.dumps({'answer': _MESSAGE})[:-2]}",  # cut, so that it is JSON no more
    ],
)
def test_an_answer_in_json_says_what_its_texts_say(answer: str) -> None:
    assert [True, True, True, True, False] == [contains(answer, output) for output in ("1628", 12, 7, "Thank you", 628)]


@pytest.mark.parametrize(
    ("answer", "output"),
    [
        (r"C:\n1628\t12 is gone", "1628"),
        (r"C:\n1628\t12 is gone", 12),
        (r"see dir\new", "ew"),
        ('{"a": "b\\\\u0031628"}', 1628),
    ],
)
def test_a_path_or_a_text_with_backslashes_says_no_number_by_chance(answer: str, output: str | float) -> None:
    assert not contains(answer, output)


def test_numbers_among_the_values_of_json_are_recognised() -> None:
    assert contains('{"refund": 1628, "fees": [12.50]}', "1628")
    assert contains('{"refund": 1628, "fees": [12.50]}', 12.5)
    assert not contains('{"refund": 1628}', 16)


def test_long_rows_of_digits_are_read_in_linear_time() -> None:
    assert not contains("12 " * 20_000 + "x", 1234)
