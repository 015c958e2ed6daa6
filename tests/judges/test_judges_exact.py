from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from otel_agentic import judges
from otel_agentic.config import JudgeSettings
from otel_agentic.judges import ExactJudge, Judge, Question, Verdict
from otel_agentic.judges.exact import compare
from otel_agentic.plugins import get
from tests.snapshots import ending
from tests.steps import LINEAR, growth

THRESHOLD = 0.7


def question(expected: str, answer: str, query: str = "", threshold: float = THRESHOLD) -> Question:
    return Question(query=query, expected=expected, answer=answer, threshold=threshold)


def scored(expected: str, answer: str, query: str = "", threshold: float = THRESHOLD) -> Verdict:
    (verdict,) = ExactJudge().judge([question(expected, answer, query, threshold)])
    assert isinstance(verdict, Verdict)
    return verdict


def passes(expected: str, answer: str, query: str = "") -> bool:
    verdict = scored(expected, answer, query)
    return verdict.score >= THRESHOLD and not verdict.unsure


RIGHT = [
    ("Paris", "The capital is Paris."),
    ("Paris", "It isn't London, it's Paris."),
    ("42", "The answer is 42."),
    ("42", "The answer is 42, not 43."),
    ("5 km", "5000 m"),
    ("1,000", "1000"),
    ("$1,234.50", "1234.5 USD"),
    ("1.234,50 €", "It costs €1,234.50."),
    ("2024-05-20", "It leaves on May 20th, 2024."),
    ("yes", "Yes, you can."),
    ("No", "You cannot cancel it."),
    ("The order ships on Monday and costs $20", "Your order costs $20 and ships on Monday."),
    ("You can cancel within 24 hours.", "You can cancel within 24 hours. After that you cannot cancel."),
    ("three", "There are 3 apples."),
    ("3 apples", "There are three apples in the basket."),
    ("$327", "Your refund is $327. The remaining balance is $1,000."),
    ("HAT136", "You are booked on flight hat136."),
    ("50%", "0.5"),
    ("10:30 PM", "at 22:30"),
    ("Zürich: 11.5 °C, cloudy", "It is 11.5 degrees and cloudy in Zürich."),
    ("Your refund of $50 was issued to card_44", "I have refunded $50 to card_44."),
    ("Water boils at 100 degrees Celsius.", "At sea level water boils at 100 °C."),
    ("not available", "The room is not available."),
    ("1.5 million", "1,500,000"),
    ("東京", "首都は東京です。"),
    ("1989", "The wall fell in November 1989."),
    ("2 hours and 30 minutes", "It takes 150 minutes."),
    ("Version 3.2.1", "It is fixed in v3.2.1, the version of May."),
    ("+1 800 555 0199", "Call (800) 555-0199."),
    ("$4.2 million", "It was $4.2M."),
    ("40 nights", "There are forty nights."),
    ("yes", "No problem! Yes, you can."),
    ("Das Paket kommt am 3. Mai 2025.", "Das Paket kommt am 03.05.2025."),
    ('{"city": "Oslo", "degrees": 4}', '```json\n{"degrees": 4.0, "city": "Oslo"}\n```'),
    ("Basic costs $10 and Pro costs $25.", "Pro costs $25 and Basic costs $10."),
    ("9 am", "We used to open at 8 am; now we open at 9 am."),
    ("1. Use the $500 certificate.", "Use the $500 certificate."),
    ("The mushroom is poisonous.", "No, do not eat it: this mushroom is poisonous."),
]

INCORRECT = [
    ("Paris", "The capital is not Paris."),
    ("Paris", "It isn't Paris, it's London."),
    ("Paris", "It is either Paris or London."),
    ("Paris", "Paris, or maybe London."),
    ("Paris", "I don't know whether it is Paris."),
    ("42", "The answer is 43."),
    ("42", "It is either 42 or 43."),
    ("42", "It is 42. Actually, it is 43."),
    ("42", "The tool said 42, the answer is 41."),
    ("5 km", "5 miles"),
    ("18 °C", "18 °F"),
    ("-5", "It is 5."),
    ("2024-05-20", "It leaves on May 21st, 2024."),
    ("yes", "No, you can't."),
    ("The order ships on Monday and costs $20", "Your order costs $25 and ships on Monday."),
    ("You can cancel within 24 hours.", "You cannot cancel within 24 hours."),
    ("HAT136", "You are booked on flight HAT163."),
    ("Your refund of $50 was issued to card_44", "I have refunded $50 to card_45."),
    ("10:30 PM", "at 10:30 am"),
    ("available", "The room is not available."),
    ("cat", "concatenate"),
    ("Monday", "Tuesday"),
    ("x", ""),
    ("Basic costs $10 and Pro costs $25.", "Pro costs $10 and Basic costs $25."),
    ("8 am", "We used to open at 8 am; now we open at 9 am."),
    ("42", "I don't know. Perhaps 42?"),
    ("Canberra", "Many think it is Canberra, but it is Sydney."),
    ("9.9 is larger.", "9.11 is larger than 9.9."),
    ("Room Oslo", "The meeting was moved from room Oslo to room Bergen."),
    ("Your order has been shipped.", "Your order has not been shipped yet."),
    ("The flight is $120 more expensive.", "The flight is $120 cheaper."),
    ("signed on 1 February 2023", "signed in February 2023"),
    ("/var/log/app/error.log", "It is /var/log/error.log."),
    ("+1 800 555 0199", "Call (800) 555-0190."),
    ("Version 3.2.1", "It is fixed in version 3.1.2."),
    ("Das Hotel ist ausgebucht.", "Das Hotel ist nicht ausgebucht."),
    ("Oui", "Non, le magasin est fermé."),
    ('{"city": "Oslo", "degrees": 4}', '{"city": "Oslo", "degrees": 5}'),
    ("You can add it, and I cannot remove it.", "You cannot add it, and I cannot remove it."),
    ("There are 2 bags.", "There are 3 bags."),
]


@pytest.mark.parametrize(("expected", "answer"), RIGHT)
def test_a_right_answer_passes(expected: str, answer: str) -> None:
    assert passes(expected, answer)


@pytest.mark.parametrize(("expected", "answer"), INCORRECT)
def test_a_wrong_answer_fails(expected: str, answer: str) -> None:
    assert not passes(expected, answer)


def test_numbers_on_the_way_to_the_answer_do_not_contradict_it() -> None:
    assert passes("5", "(12.5 + 7.5) / 4 = 20 / 4 = 5", "What is (12.5 + 7.5) / 4?")


def test_an_answer_need_not_repeat_the_query() -> None:
    expected, answer = "It will be delivered on May 20.", "Expected: 20 May, between 8:00 and 12:00."
    assert scored(expected, answer, "When will it be delivered?").score > 0.5
    assert not passes(expected, "Expected: 21 May, between 8:00 and 12:00.", "When will it be delivered?")


@pytest.mark.parametrize(
    ("expected", "answer", "passed"),
    [
        ("We do not ship to Norway.", "Norway is not among the countries we ship to.", True),
        ("We do not ship to Norway.", "Yes, we do.", False),
        ("Yes", "We ship to Norway.", True),
        ("No", "I am afraid that is impossible.", False),
        ("No", "I am afraid that is not possible.", True),
        ("Yes", "Bananas are yellow.", False),
    ],
)
def test_an_answer_to_a_yes_or_no_question_says_it_of_what_was_asked(
    expected: str, answer: str, *, passed: bool
) -> None:
    assert passes(expected, answer, "Do you ship to Norway?") is passed


def test_an_answer_that_only_repeats_the_question_fails() -> None:
    assert compare(
        question("The Ritz is in Paris", "Is the Ritz in Paris?", "Is the Ritz in Paris?")
    ).reasoning == snapshot("the answer only repeats the question")


def test_what_a_question_asks_of_the_past_is_not_set_aside() -> None:
    assert passes("8 am", "We used to open at 8 am.", "When did you use to open, previously?")


def test_a_long_answer_is_read_from_its_beginning_and_the_reasoning_says_so() -> None:
    long = "word " * 20_000 + "42"
    (verdict,) = ExactJudge().judge([question("42", long)])
    assert isinstance(verdict, Verdict)
    assert verdict.score < THRESHOLD
    assert ending(verdict.reasoning) == snapshot("(of 100,002 characters the first 50,000 were read)")
    assert compare(question(long, long)).score == 1.0


@given(st.integers(-10_000, 10_000), st.integers(-10_000, 10_000))
def test_another_number_never_passes_and_the_same_one_always_does(right: int, other: int) -> None:
    assert passes(f"The total is {right:,}.", f"In total that makes {right}.", "What is the total?")
    if right != other:
        assert not passes(f"The total is {right:,}.", f"The total is {other}.", "What is the total?")


@pytest.mark.parametrize("threshold", [0.3, 0.7, 0.95])
def test_a_missing_number_stays_below_any_threshold_however_alike_the_words(threshold: float) -> None:
    expected, answer = "the flight to Rome on Monday costs $20", "the flight to Rome on Monday costs $25"
    assert scored(expected, answer, threshold=threshold).score < threshold


@given(st.text(max_size=60), st.text(max_size=60))
def test_any_two_texts_get_a_score_between_0_and_1_and_equal_ones_1(expected: str, answer: str) -> None:
    for first, other in ((expected, answer), (expected, expected)):
        result = compare(question(first, other))
        assert 0.0 <= result.score <= 1.0
        assert result.reasoning
        assert compare(question(first, other)) == result


@pytest.mark.parametrize(
    "part",
    [
        "1",
        "a1_",
        "1,",
        "not ",
        "May 1 ",
        " ",
        "1:",
        "$",
        "x or ",
        "is ",
        "1.1.",
        "-",
        "42 ",
        "1 234 ",
        "+1 ",
        "than 4 ",
        "3. ",
        "twenty-",
        "moved from ",
        "```json\n",
        "[{",
        "/a",
        "i don't know ",
    ],
)
@pytest.mark.parametrize(("size", "longest"), [(1_000, 10_000), pytest.param(2_000, 100_000, marks=pytest.mark.slow)])
def test_a_hostile_answer_is_compared_in_linear_time(part: str, size: int, longest: int) -> None:
    def prepared(size: int) -> Callable[[], object]:
        return partial(compare, question("is 42 or x", part * (size // len(part)) + " 42"))

    assert growth(prepared, size) < LINEAR
    assert prepared(longest)()


def test_the_judge_is_a_plug_in_and_gives_one_verdict_a_question_in_order() -> None:
    plugin = get("judges", "exact").load()
    judge: Judge = plugin.from_settings(JudgeSettings())
    assert isinstance(judge, ExactJudge)
    assert isinstance(judge, Judge)
    verdicts = judge.judge([question("a", "a"), question("a", "b")])
    assert [verdict.score > THRESHOLD for verdict in verdicts if isinstance(verdict, Verdict)] == [True, False]


def test_the_public_names_of_judges_are_sorted_and_there() -> None:
    assert judges.__all__ == sorted(judges.__all__)
    assert all(hasattr(judges, name) for name in judges.__all__)
