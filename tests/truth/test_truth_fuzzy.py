"""Similar queries: what is a match, what is not, held against a comparison with every case."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rapidfuzz.distance import Indel

from otel_agentic.config import ScoringSettings
from otel_agentic.testing import conversation, turn
from otel_agentic.truth import Case, CaseIndex, CaseTurn
from otel_agentic.truth.fuzzy import FuzzyIndex, FuzzyRule, joined

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_agentic.truth import Match

RULE = FuzzyRule(threshold=0.92, margin=0.05)
REFUND = "I would like a refund for my order, please"
CANCEL = "I would like to cancel my order, please"


def case(case_id: str, *queries: str | None, **fields: Any) -> Case:
    return Case(case_id=case_id, turns=tuple(CaseTurn(query=query) for query in queries), **fields)


def matched(cases: Sequence[Case], *queries: str | None, rule: FuzzyRule | None = RULE, agent: str = "a") -> Match:
    made = conversation(*(turn(query) for query in queries), agent_name=agent)
    return CaseIndex(cases, rule).match(made)


def test_similar_queries_are_a_match_only_where_the_settings_ask_for_it() -> None:
    said, cases = "I would like a refund for my ordr please", [case("refund", REFUND)]

    found = matched(cases, said)
    assert ("fuzzy", ("refund",), None) == (found.method, found.candidates, found.reason)
    assert found.confidence == pytest.approx(Indel.normalized_similarity(joined([REFUND]), joined([said])))
    assert "unmatched" == matched(cases, said, rule=None).reason
    assert None is FuzzyRule.of(ScoringSettings())
    asked = ScoringSettings(fuzzy=True, fuzzy_threshold=0.9, fuzzy_margin=0.1)
    assert FuzzyRule(threshold=0.9, margin=0.1) == FuzzyRule.of(asked)


def test_a_pasted_document_is_like_no_other() -> None:
    short, long = "please read " * 800, "please read " * 900

    assert "fuzzy" == matched([case("read", short)], f"{short} it").method
    assert "unmatched" == matched([case("read", long)], f"{long} it").reason
    assert "exact_queries" == matched([case("read", long)], long).method


def test_what_is_below_the_threshold_is_unmatched() -> None:
    assert "unmatched" == matched([case("refund", REFUND)], "a refund for my order").reason
    assert "unmatched" == matched([case("refund", REFUND)], CANCEL).reason


def test_two_within_the_margin_are_ambiguous_and_listed() -> None:
    near = [case("b", f"{REFUND} now"), case("a", f"{REFUND} then")]
    found = matched(near, f"{REFUND} thn")

    assert ("ambiguous", ("a", "b"), None) == (found.reason, found.candidates, found.method)


def test_the_best_must_be_ahead_of_one_below_the_threshold_too() -> None:
    said = "my parcel with the green lamp has not arrived yet x"
    cases = [case("lamp", said.removesuffix(" x")), case("armchair", said.replace("lamp", "armchair"))]

    assert ("lamp",) == matched(cases, said).candidates
    assert ("armchair", "lamp") == matched(cases, said, rule=FuzzyRule(threshold=0.95, margin=0.2)).candidates
    assert "unmatched" == matched(cases[1:], said, rule=FuzzyRule(threshold=0.95, margin=0.2)).reason


@pytest.mark.parametrize("said", ["cancel order B2 for me please", "cancel order A11 for me please"])
def test_a_number_that_differs_is_another_case_however_alike_the_rest(said: str) -> None:
    cases = [case("a1", "Cancel order A1 for me, please")]

    assert "unmatched" == matched(cases, said, rule=FuzzyRule(threshold=0.5, margin=0.0)).reason
    assert ("a1",) == matched(cases, "cancel ordr A1 for me please").candidates


@pytest.mark.parametrize(
    ("queries", "fits"),
    [
        ((REFUND, "It never came to my house", "Yes please, to my card"), True),
        (("Hi!", REFUND, "It never came to my house", "Yes please, to my card"), True),
        ((f"{REFUND}. It never came to my house", "Yes please, to my card"), True),
        ((REFUND, "Yes please, to my card"), False),
        ((REFUND, None, "Yes please, to my card"), False),
        (("Yes please, to my card", "It never came to my house", REFUND), False),
        ((None, None, None), False),
    ],
)
def test_all_queries_count_by_their_length(queries: tuple[str | None, ...], *, fits: bool) -> None:
    index = FuzzyIndex([case("x", REFUND, "It never came to my house", "Yes please, to my card")], RULE)

    assert fits == bool(index.fitting(queries, None)[0])


def test_the_words_in_another_order_are_another_question() -> None:
    cases = [case("there", "a flight from Rome to Paris")]

    assert "unmatched" == matched(cases, "a flight from Paris to Rome").reason


def test_a_stronger_method_that_is_ambiguous_is_not_overruled() -> None:
    cases = [case("a", "Hi", REFUND), case("b", "Hi", CANCEL)]
    found = matched(cases, "Hi", "I would like a refund for my ordr please")

    assert ("ambiguous", ("a", "b")) == (found.reason, found.candidates)


def test_cases_of_other_agents_neither_match_nor_compete() -> None:
    cases = [case("ours", REFUND, agent="a"), case("theirs", f"{REFUND} ", agent="b")]
    said = "I would like a refund for my ordr please"

    assert ("ours",) == matched(cases, said, agent="a").candidates
    assert "unmatched" == matched(cases, said, agent="c").reason


TEXTS = st.none() | st.lists(st.sampled_from(["book", "boot", "a seat", "A1", "to", "東京"]), max_size=4).map(" ".join)
QUERIES = st.lists(TEXTS, max_size=3)
RULES = st.builds(
    FuzzyRule, threshold=st.sampled_from([0.0, 0.6, 0.92, 1.0]), margin=st.sampled_from([0.0, 0.05, 0.3, 1.0])
)


@given(cases=st.lists(QUERIES, max_size=6), queries=QUERIES, rule=RULES)
def test_the_index_finds_what_a_look_at_every_case_finds(
    cases: list[list[str | None]], queries: list[str | None], rule: FuzzyRule
) -> None:
    made = [case(str(place), *given_) for place, given_ in enumerate(cases)]
    found, best = FuzzyIndex(made, rule).fitting(queries, None)

    names, similarity = _fitting(made, queries, rule)
    assert names == {one.case_id for one in found}
    assert best == pytest.approx(similarity)


def _fitting(cases: list[Case], queries: Sequence[str | None], rule: FuzzyRule) -> tuple[set[str], float]:
    text = joined(queries)
    scores = {
        one.case_id: Indel.normalized_similarity(text, other)
        for one in cases
        if (other := joined(turn.query for turn in one.turns)) and text and _figures(other) == _figures(text)
    }
    best = max(scores.values(), default=-1.0)
    if best < rule.threshold - 1e-9:
        return set(), 0.0
    return {name for name, score in scores.items() if best - score < rule.margin - 1e-9 or score == best}, best


def _figures(text: str) -> set[str]:
    return {word for word in text.split() if any(map(str.isdigit, word))}
