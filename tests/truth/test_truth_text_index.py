"""Matching by what users said: what is a match, what contradicts it, and that no other case has a say in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from otel_agentic.config import MatchingSettings, load_settings
from otel_agentic.errors import ConfigError
from otel_agentic.testing import conversation, turn
from otel_agentic.truth import Case, CaseIndex, CaseTurn
from otel_agentic.truth.sentences import Spoken, contradict
from tests.snapshots import raises

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_agentic.truth import Match

REFUND = (
    "Hello, I ordered a green lamp last week and it arrived broken.",
    "My order number is LM-4471 and my name is Anna Keller.",
    "I would like a refund to my credit card, please.",
)
REWORDED = (
    "Hi there! The green lamp I bought from you came broken.",
    "Sure, it's order LM-4471.",
    "Could I get a refund? To the credit card.",
)
CHANGE = (
    "I need to change my subscription to the yearly plan.",
    "The account is anna77.",
    "Yes, charge the same card.",
)
PARCEL = ("Where is my parcel?", "The tracking number is ZX90812.")


def case(case_id: str, *queries: str | None, **fields: Any) -> Case:
    return Case(case_id=case_id, turns=tuple(CaseTurn(query=query) for query in queries), **fields)


CASES = [case("refund", *REFUND), case("change", *CHANGE), case("parcel", *PARCEL)]


def matched(cases: Sequence[Case], *queries: str | None, text: Any = "auto", agent: str = "a") -> Match:
    made = conversation(*(turn(query, "Done.") for query in queries), agent_name=agent)
    return CaseIndex(cases, MatchingSettings(text=text)).match(made)


def test_other_words_are_matched_suggested_or_ignored_as_the_settings_say() -> None:
    found = matched(CASES, *REWORDED)
    assert ("text", ("refund",), None, None) == (found.method, found.candidates, found.reason, found.suggestion)
    assert found.confidence is not None
    assert 0.85 <= found.confidence < 1.0

    suggested = matched(CASES, *REWORDED, text="suggest")
    assert (None, "unmatched") == (suggested.case, suggested.reason)
    assert suggested.suggestion is not None
    assert ("refund", found.confidence) == (suggested.suggestion.case.case_id, suggested.suggestion.confidence)
    assert None is matched(CASES, *REWORDED, text="off").suggestion
    assert "suggest" == MatchingSettings().text


def test_equal_queries_are_no_match_by_text() -> None:
    assert "exact_queries" == matched(CASES, *REFUND).method


@pytest.mark.parametrize(
    "changed",
    [
        (REWORDED[0], "Sure, it's order LM-4472.", REWORDED[2]),
        (REFUND[0], REFUND[1].replace("4471", "4417"), "A refund to my credit card would be fine."),
        (REFUND[0], f"{REFUND[1]} Thanks.", REFUND[2].replace("would", "would not")),
        (REFUND[0], f"{REFUND[1]} Thanks.", REFUND[2].replace("a refund", "no refund")),
        (REFUND[0], REFUND[1].replace("Keller", "Meyer"), f"Thanks. {REFUND[2]}"),
        ("What is the capital of France?", "And of Spain?"),
        ("Hello!", "Yes, please.", "Thank you."),
        (None, None),
    ],
    ids=["another id", "swapped digits", "not", "no", "another name", "another topic", "nothing said", "not captured"],
)
def test_what_contradicts_a_case_or_shares_little_is_no_match(changed: tuple[str | None, ...]) -> None:
    found = matched(CASES, *changed)
    assert (None, None) == (found.case, found.suggestion)


@pytest.mark.parametrize(
    ("said", "fits"),
    [
        ("Wheer is my order?", True),
        ("where is my order, please", True),
        ("When is my order?", False),
        ("Where is my parcel?", False),
        ("Where is not my order?", False),
    ],
)
def test_of_short_texts_only_spelling_and_politeness_may_differ(said: str, *, fits: bool) -> None:
    assert fits == (matched([case("where", "Where is my order?")], said).method == "text")


@pytest.mark.parametrize(
    "said",
    [
        "i want to fly from boston to oslo tomorrow morning",
        "i want to fly from rome to boston tomorrow morning",
        "I want to fly from Boston to Paris tomorrow morning",
    ],
)
def test_a_request_with_another_word_in_it_is_another_request(said: str) -> None:
    assert None is matched([case("rome", "i want to fly from boston to rome tomorrow morning!")], said).case


def test_cases_of_the_same_text_are_told_apart_by_nothing() -> None:
    twins = [case("one", *REFUND), case("two", *REFUND)]
    assert None is matched(twins, *REWORDED).case


def test_a_case_of_another_agent_neither_matches_nor_competes() -> None:
    cases = [case("ours", *REFUND, agent="a"), case("theirs", *REFUND, agent="b")]
    assert ("ours",) == matched(cases, *REWORDED, agent="a").candidates
    assert "unmatched" == matched(cases, *REWORDED, agent="c").reason


def test_a_stronger_method_that_is_ambiguous_is_not_overruled() -> None:
    found = matched([case("a", REFUND[0], "In Rome"), case("b", REFUND[0], "In Oslo")], REFUND[0])
    assert ("ambiguous", ("a", "b"), None) == (found.reason, found.candidates, found.suggestion)


def test_a_renamed_setting_names_the_new_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_AGENTIC_SCORING__FUZZY", "true")
    with raises(
        ConfigError,
        snapshot(
            'setting scoring.fuzzy was replaced (from flags or OTEL_AGENTIC_*); set matching.text to "auto" (true) or "off" (false)'
        ),
    ):
        load_settings()


WORDS = st.lists(
    st.sampled_from(["lamp", "broken", "refund", "order", "LM-4471", "17", "card", "yearly", "plan", "not", "please"]),
    max_size=8,
).map(" ".join)
TEXTS = st.lists(WORDS, min_size=1, max_size=3)
UNRELATED = case("unrelated", "Tell stories about wizards, dragons and castles", "Longer ones with singing mermaids")


@given(collection=st.lists(TEXTS, max_size=4), queries=TEXTS, shuffled=st.randoms(use_true_random=False))
def test_the_order_of_the_cases_does_not_matter(collection: list[list[str]], queries: list[str], shuffled: Any) -> None:
    cases = [case(str(place), *said) for place, said in enumerate(collection)]
    expected = matched(cases, *queries)
    shuffled.shuffle(cases)
    found = matched(cases, *queries)
    assert (expected.candidates, expected.method) == (found.candidates, found.method)


@given(collection=st.lists(TEXTS, max_size=4), queries=TEXTS)
def test_an_unrelated_case_is_never_the_match(collection: list[list[str]], queries: list[str]) -> None:
    cases = [case(str(place), *said) for place, said in enumerate(collection)]
    assert "unrelated" not in matched([*cases, UNRELATED], *queries).candidates


@given(text=TEXTS, place=st.integers(0, 200))
def test_a_text_with_another_digit_or_a_negation_contradicts_itself(text: list[str], place: int) -> None:
    said = [f"{query} for order LM-4471 and seat 17 today" for query in text]
    other = [query.replace("17", "18") for query in said]
    negated = [f"{said[0]} not", *said[1:]]
    words = said[0].split(" ")
    words.insert(place % len(words), "never")
    assert not contradict(Spoken.of(said), Spoken.of(said))
    for changed in (other, negated, [" ".join(words), *said[1:]]):
        assert (
            contradict(Spoken.of(changed), Spoken.of(said)) or Spoken.of(said).sentences == Spoken.of(changed).sentences
        )
