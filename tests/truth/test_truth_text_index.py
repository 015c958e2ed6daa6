"""Matching by the queries of users: matches, contradictions, and independence from other cases."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from otel_agentic.config import MatchingSettings, load_settings
from otel_agentic.errors import ConfigError
from otel_agentic.testing import conversation, turn
from otel_agentic.truth import Case, CaseIndex, CaseTurn, Match
from otel_agentic.truth.sentences import Spoken, contradict
from tests.snapshots import raises

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
    actual = conversation(*(turn(query, "Done.") for query in queries), agent_name=agent)
    return CaseIndex(cases, MatchingSettings(text=text)).match(actual)


def test_other_words_are_matched_suggested_or_ignored_as_the_settings_say() -> None:
    result = matched(CASES, *REWORDED)
    assert ("text", ("refund",), None, None) == (result.method, result.candidates, result.reason, result.suggestion)
    assert result.confidence is not None
    assert 0.85 <= result.confidence < 1.0

    suggested = matched(CASES, *REWORDED, text="suggest")
    assert (None, "unmatched") == (suggested.case, suggested.reason)
    assert suggested.suggestion is not None
    assert ("refund", result.confidence) == (suggested.suggestion.case.case_id, suggested.suggestion.confidence)
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
    ids=["another id", "swapped digits", "not", "no", "another name", "another topic", "no content", "not captured"],
)
def test_what_contradicts_a_case_or_shares_little_is_no_match(changed: tuple[str | None, ...]) -> None:
    result = matched(CASES, *changed)
    assert (None, None) == (result.case, result.suggestion)


@pytest.mark.parametrize(
    ("stated", "fits"),
    [
        ("Wheer is my order?", True),
        ("where is my order, please", True),
        ("When is my order?", False),
        ("Where is my parcel?", False),
        ("Where is not my order?", False),
    ],
)
def test_of_short_texts_only_spelling_and_politeness_may_differ(stated: str, *, fits: bool) -> None:
    assert fits == (matched([case("where", "Where is my order?")], stated).method == "text")


@pytest.mark.parametrize(
    "stated",
    [
        "i want to fly from boston to oslo tomorrow morning",
        "i want to fly from rome to boston tomorrow morning",
        "I want to fly from Boston to Paris tomorrow morning",
    ],
)
def test_a_request_with_another_word_in_it_is_another_request(stated: str) -> None:
    assert None is matched([case("rome", "i want to fly from boston to rome tomorrow morning!")], stated).case


def test_cases_of_the_same_text_are_indistinguishable() -> None:
    twins = [case("one", *REFUND), case("two", *REFUND)]
    assert None is matched(twins, *REWORDED).case


def test_a_case_of_another_agent_neither_matches_nor_competes() -> None:
    cases = [case("ours", *REFUND, agent="a"), case("theirs", *REFUND, agent="b")]
    assert ("ours",) == matched(cases, *REWORDED, agent="a").candidates
    assert "unmatched" == matched(cases, *REWORDED, agent="c").reason


def test_a_stronger_method_that_is_ambiguous_is_not_overruled() -> None:
    result = matched([case("a", REFUND[0], "In Rome"), case("b", REFUND[0], "In Oslo")], REFUND[0])
    assert ("ambiguous", ("a", "b"), None) == (result.reason, result.candidates, result.suggestion)


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
    cases = [case(str(index), *stated) for index, stated in enumerate(collection)]
    expected = matched(cases, *queries)
    shuffled.shuffle(cases)
    result = matched(cases, *queries)
    assert (expected.candidates, expected.method) == (result.candidates, result.method)


@given(collection=st.lists(TEXTS, max_size=4), queries=TEXTS)
def test_an_unrelated_case_is_never_the_match(collection: list[list[str]], queries: list[str]) -> None:
    cases = [case(str(index), *stated) for index, stated in enumerate(collection)]
    assert "unrelated" not in matched([*cases, UNRELATED], *queries).candidates


@given(text=TEXTS, index=st.integers(0, 200))
def test_a_text_with_another_digit_or_a_negation_contradicts_itself(text: list[str], index: int) -> None:
    # Each text has an order of its own: two that differ in a negation only would be taken for each other.
    stated = [f"{query} for order LM-44{number:02} and seat 17 today" for number, query in enumerate(text)]
    other = [query.replace("17", "18") for query in stated]
    negated = [f"{stated[0]} not", *stated[1:]]
    words = stated[0].split(" ")
    words.insert(index % len(words), "never")
    assert not contradict(Spoken.of(stated), Spoken.of(stated))
    for changed in (other, negated, [" ".join(words), *stated[1:]]):
        assert (
            contradict(Spoken.of(changed), Spoken.of(stated))
            or Spoken.of(stated).sentences == Spoken.of(changed).sentences
        )
