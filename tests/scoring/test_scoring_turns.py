"""Turns are aligned in order, by their queries: realistic examples, and an enumeration of all alignments."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_agentic.config import ScoringSettings
from otel_agentic.judges import ExactJudge
from otel_agentic.scoring import score_conversation
from otel_agentic.scoring.outcome import PAIR_WORTH, align_turns
from otel_agentic.testing import conversation, turn
from otel_agentic.truth import CaseIndex, parse_cases
from otel_agentic.truth.values import similarity

Queries = list[str | None]

BOOK = "I want to book a flight to Rome"
SEAT = "Please give me a window seat"
PAY = "Can I pay with my gift card?"


@pytest.mark.parametrize(
    ("expected", "actual", "pairs"),
    [
        pytest.param([BOOK, SEAT], [BOOK, SEAT], {0: 0, 1: 1}, id="equal"),
        pytest.param([BOOK, SEAT], ["get me to rome", "by the window"], {0: 0, 1: 1}, id="the same in other words"),
        pytest.param([BOOK, SEAT], ["xyz", "zyx"], {0: 0, 1: 1}, id="nothing in common: by their order"),
        pytest.param([BOOK, SEAT], ["hello", BOOK, SEAT], {1: 0, 2: 1}, id="a greeting"),
        pytest.param([BOOK, SEAT], [BOOK, SEAT, "thanks, bye"], {0: 0, 1: 1}, id="thanks"),
        pytest.param([BOOK, SEAT, PAY], [BOOK, PAY], {0: 0, 1: 2}, id="the middle one never came"),
        pytest.param([BOOK, SEAT, PAY], [SEAT, PAY], {0: 1, 1: 2}, id="the first one never came"),
        pytest.param(
            [BOOK, SEAT, PAY], ["hello", BOOK, SEAT], {1: 0, 2: 1}, id="shifted: as many, the last never came"
        ),
        pytest.param(
            [BOOK, SEAT, PAY], [SEAT, PAY, "thanks"], {0: 1, 1: 2}, id="shifted: as many, the first never came"
        ),
        pytest.param([BOOK, SEAT], ["hello", BOOK], {1: 0}, id="shifted: two of two"),
        pytest.param(
            [BOOK, SEAT, PAY], [BOOK, "the window would be nice", PAY], {0: 0, 1: 1, 2: 2}, id="between sure ones"
        ),
        pytest.param([BOOK, BOOK], [BOOK], {0: 0}, id="a repeated query came once: the earlier"),
        pytest.param([BOOK], [BOOK, BOOK], {0: 0}, id="asked again: the earlier"),
        pytest.param([BOOK, BOOK], [BOOK, BOOK, BOOK], {0: 0, 1: 1}, id="asked three times: the earlier two"),
        pytest.param([SEAT, BOOK], [BOOK, SEAT], {1: 0}, id="swapped: never against the order"),
        pytest.param([None, PAY], [None, None, PAY], {0: 0, 2: 1}, id="no query is like none"),
        pytest.param([BOOK, PAY], [BOOK, None, PAY], {0: 0, 2: 1}, id="a resumed turn without a query of its own"),
        pytest.param([None, None], [BOOK, SEAT, PAY], {0: 0, 1: 1}, id="not annotated: by their order"),
        pytest.param([BOOK, SEAT], [None, None], {0: 0, 1: 1}, id="not captured: by their order"),
        pytest.param([BOOK], ["something else"], {0: 0}, id="one and one belong together"),
        pytest.param([], [BOOK], {}, id="no case turn"),
        pytest.param([BOOK], [], {}, id="no turn"),
    ],
)
def test_turns_are_aligned_as_a_person_would(expected: Queries, actual: Queries, pairs: dict[int, int]) -> None:
    assert pairs == align_turns(expected, actual)


@pytest.mark.parametrize(
    ("received", "missing"),
    [([SEAT, PAY], BOOK), ([BOOK, PAY], SEAT), ([BOOK, SEAT], PAY), (["hello", BOOK, PAY], SEAT)],
)
def test_the_case_turn_that_never_came_is_the_reported_one(received: list[str], missing: str) -> None:
    turns = [{"query": query, "answer": "Done."} for query in (BOOK, SEAT, PAY)]
    case = parse_cases("d.jsonl", json.dumps({"case_id": "x", "turns": turns})).require()
    actual = conversation(*(turn(query, "Done.") for query in received), case_id="x", closed_by="end_mark")

    score = score_conversation(actual, CaseIndex(case).match(actual), judge=ExactJudge(), settings=ScoringSettings())

    assert ("fail", "missing_turn") == (score.outcome, score.reason)
    assert f"({missing}) never came" in score.explanation


TEXTS = st.none() | st.lists(st.sampled_from(["book", "seat", "pay", "yes"]), max_size=3).map(" ".join)


@given(expected=st.lists(TEXTS, max_size=4), actual=st.lists(TEXTS, max_size=4))
def test_no_other_alignment_is_worth_more(expected: Queries, actual: Queries) -> None:
    result = align_turns(expected, actual)

    assert _best_of_all(expected, actual) == sorted((case, index) for index, case in result.items())


@given(queries=st.lists(TEXTS, max_size=6))
def test_a_conversation_that_says_what_its_case_says_pairs_one_by_one(queries: Queries) -> None:
    respelled = [None if query is None else f" {query.upper()}!" for query in queries]

    assert {index: index for index in range(len(queries))} == align_turns(queries, respelled)


@given(expected=st.lists(TEXTS, max_size=5), actual=st.lists(TEXTS, max_size=5))
def test_pairs_never_cross(expected: Queries, actual: Queries) -> None:
    result = align_turns(expected, actual)

    assert sorted(result) == sorted(result, key=lambda index: result[index])
    assert len(result) == len(set(result.values()))


def _best_of_all(expected: Queries, actual: Queries) -> list[tuple[int, int]]:
    """Return the pairs (case turn, turn) worth the most; among equals the first in the order of `_alignments`."""
    return max(_alignments(expected, actual, 0, 0), key=lambda pairs: round(_worth(expected, actual, pairs), 9))


def _alignments(expected: Queries, actual: Queries, i: int, j: int) -> Iterator[list[tuple[int, int]]]:
    """Yield every alignment from a place on: first those that pair here, then those that leave the turn out."""
    if i == len(expected) or j == len(actual):
        yield []
        return
    for rest in _alignments(expected, actual, i + 1, j + 1):
        yield [(i, j), *rest]
    yield from _alignments(expected, actual, i, j + 1)
    yield from _alignments(expected, actual, i + 1, j)


def _worth(expected: Queries, actual: Queries, pairs: list[tuple[int, int]]) -> float:
    known = ((expected[case], actual[index]) for case, index in pairs)
    alike = sum(similarity(first, other) for first, other in known if first is not None and other is not None)
    return alike + PAIR_WORTH * len(pairs)
