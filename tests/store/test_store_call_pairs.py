"""`call_pairs` holds the pairs that were scored, and agrees with the faults and the counts of the same scores."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from random import Random
from typing import TYPE_CHECKING, Any, Final

import pytest

from otel_agentic.truth import parse_cases
from tests.evaluators.failing import subjects
from tests.store.store_queries import rows
from tests.store.test_store_state_changes_law import save, talk

if TYPE_CHECKING:
    from otel_agentic.conversations.model import Conversation
    from otel_agentic.evaluators.base import Subject
    from otel_agentic.scoring.model import ToolScore
    from otel_agentic.store import Store
    from otel_agentic.truth.model import Case, ToolExpectation

SIZE: Final = 90
#: The fault of the calls of a status.
FAULTS: Final = {"missing": "missing", "spurious": "spurious", "forbidden": "forbidden", "errored": "errored"}


@pytest.fixture(params=[1, pytest.param(2, marks=pytest.mark.slow)])
def random(request: pytest.FixtureRequest) -> Random:
    return Random(request.param)  # noqa: S311 — no secret


@pytest.fixture
def talks(random: Random) -> list[tuple[dict[str, Any], Conversation]]:
    """Conversations with repeated tools, alternatives, forbidden calls and errors, and their cases."""
    return [talk(random, number) for number in range(SIZE)]


@pytest.fixture
def cases(talks: list[tuple[dict[str, Any], Conversation]]) -> list[Case]:
    return list(parse_cases("d.jsonl", "\n".join(json.dumps(case) for case, _ in talks)).require())


@pytest.fixture
def about(store: Store, talks: list[tuple[dict[str, Any], Conversation]]) -> list[Subject]:
    """The conversations and their scores, as stored."""
    records = [case for case, _ in talks]
    scored = subjects(records, [item for _, item in talks], {}, criteria=("annotated",))
    save(store, records, scored)
    return scored


def records(store: Store, sql: str) -> list[dict[str, Any]]:
    names = [name for name, *_ in rows(store, f"DESCRIBE {sql}")]
    return [dict(zip(names, row, strict=True)) for row in rows(store, sql)]


def test_faults_agree_with_the_pairs(store: Store, about: list[Subject]) -> None:
    pairs, faults = records(store, "FROM call_pairs"), records(store, "FROM tool_faults")
    for status, fault in FAULTS.items():
        of_pairs = Counter(
            (pair["conversation_id"], pair["tool_name"], pair["actual_position"], pair["expected_index"])
            for pair in pairs
            if pair["status"] == status
        )
        assert of_pairs
        assert of_pairs == Counter(
            (row["conversation_id"], row["tool_name"], row["actual_position"], row["expected_index"])
            for row in faults
            if row["fault"] == fault
        )
    # The parameters of a call are not compared where its score hides that dimension.
    location = ("conversation_id", "actual_turn_index", "actual_position", "expected_index")
    paired = [pair for pair in pairs if pair["status"] == "paired"]
    hidden = {tuple(pair[name] for name in location) for pair in paired if pair["agreement"] is None}
    for fault, faulty in (
        ("wrong_parameters", [pair for pair in paired if pair["agreement"] is not None and pair["agreement"] < 1]),
        ("wrong_order", [pair for pair in paired if pair["in_order"] is False]),
    ):
        of_faults = {
            (row["conversation_id"], row["turn_index"], row["actual_position"], row["expected_index"])
            for row in faults
            if row["fault"] == fault
        }
        assert faulty
        assert {tuple(pair[name] for name in location) for pair in faulty} == (
            of_faults - hidden if fault == "wrong_parameters" else of_faults
        )


def test_counts_are_sums_of_the_pairs(store: Store, about: list[Subject]) -> None:
    by_tool: dict[tuple[Any, ...], list[dict[str, Any]]] = defaultdict(list)
    for pair in records(store, "FROM call_pairs"):
        by_tool[pair["conversation_id"], pair["turn_index"], pair["tool_name"]].append(pair)
    counts = records(store, "FROM tool_counts")
    for count in counts:
        pairs = by_tool.pop((count["conversation_id"], count["turn_index"], count["tool_name"]))
        number = Counter(pair["status"] for pair in pairs)
        assert number["paired"] + number["missing"] == count["expected"]
        assert (number["paired"], number["errored"]) == (count["paired"], count["errored"])
        assert number.total() - number["missing"] - number["optional"] - number["errored"] == count["actual"]
        assert number["spurious"] <= count["unexpected"] <= number["spurious"] + number["forbidden"]
        agreement = sum(pair["agreement"] or 0 for pair in pairs if pair["status"] == "paired")
        assert agreement == pytest.approx(count["parameters"])
        assert sum(pair["in_order"] is True for pair in pairs) == count["in_order"]
        used = [pair["used"] for pair in pairs if pair["used"] is not None]
        assert (sum(used), len(used)) == (pytest.approx(count["used"]), count["known"])
    assert counts
    assert not by_tool


def test_stored_pairs_are_those_that_were_scored(store: Store, about: list[Subject], cases: list[Case]) -> None:
    stored: dict[tuple[Any, ...], list[dict[str, Any]]] = defaultdict(list)
    for pair in records(store, "FROM call_pairs"):
        stored[pair["conversation_id"], pair["turn_index"]].append(pair)
    alternatives, calls_of_others = 0, 0
    for item, case in zip(about, cases, strict=True):
        assert item.score is not None
        for score in item.score.tools:
            if score.calls is None:
                continue
            pairs = stored.pop((item.score.conversation_id, score.turn_index), [])
            assert expected_pairs(score) == {
                (pair["expected_index"], pair["actual_turn_index"], pair["actual_position"])
                for pair in pairs
                if pair["status"] in {"paired", "excused"}
            }
            aligned = {turn.turn_index: turn.case_turn_index for turn in item.score.turns}
            expected = case.tools
            if score.turn_index is not None:
                expected = case.turns[aligned[score.turn_index] or 0].tools
            assert expected is not None
            alternatives += check_expected_calls(expected, pairs)
            covered = [
                (turn.index, call.position)
                for turn in item.conversation.turns
                for call in turn.calls
                if call.kind == "tool" and score.turn_index in {None, turn.index}
            ]
            located = Counter((pair["actual_turn_index"], pair["actual_position"]) for pair in pairs)
            others = [other for other in item.score.tools if other is not score and other.calls is not None]
            elsewhere = {(turn, position) for other in others for _, turn, position in expected_pairs(other)}
            # A call that another expectation expects has a row only there.
            assert all(located[call] == 1 or (located[call] == 0 and call in elsewhere) for call in covered)
            calls_of_others += sum(located[call] == 0 for call in covered)
    assert not stored
    assert alternatives
    assert calls_of_others


def expected_pairs(score: ToolScore) -> set[tuple[int, int, int]]:
    assert score.calls is not None
    actual = score.calls.actual
    return {
        (pair.expected.index, actual[pair.actual_index].turn_index, actual[pair.actual_index].call.position)
        for pair in (*score.calls.pairs, *score.calls.excused)
    }


def check_expected_calls(expected: ToolExpectation, pairs: list[dict[str, Any]]) -> int:
    """Check that each call of the expectation that counted has one row, and return whether that is an alternative."""
    if not pairs:  # an alternative without calls, and no actual call
        return 0
    alternative = pairs[0]["alternative"]
    counted = expected if alternative is None else expected.alternatives[alternative]
    of_pairs = {pair["expected_index"]: pair for pair in pairs if pair["expected_index"] is not None}
    assert len(of_pairs) == sum(pair["expected_index"] is not None for pair in pairs)
    assert [call.tool_name for call in counted.calls] == [of_pairs[index]["tool_name"] for index in sorted(of_pairs)]
    required = [call.required for call in counted.calls]
    assert required == [of_pairs[index]["status"] in {"paired", "missing"} for index in sorted(of_pairs)]
    return alternative is not None


def test_another_score_replaces_the_pairs(
    store: Store, talks: list[tuple[dict[str, Any], Conversation]], about: list[Subject]
) -> None:
    before = rows(store, "FROM call_pairs ORDER BY ALL")
    save(store, [case for case, _ in talks], about)
    assert before == rows(store, "FROM call_pairs ORDER BY ALL")
