"""What monitors read: final results of each group in event order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from otel_agentic.store.results import final_results, pending_results, result_digests, result_groups
from otel_agentic.store.table import Table
from otel_agentic.windows import GroupKey
from otel_agentic.windows.objectives import NO_CASE

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from otel_agentic.store import Store

#: Subject, end in ns, environment, conversation, outcome and number of the case; not in event order.
RESULTS = [
    (1, 30, "b", "z", "pass", None),
    (1, 30, "a", "y", "fail", 7),
    (1, 30, "b", "x", "fail", None),
    (2, 20, "a", "w", "pass", 7),
    (1, 10, "a", "v", "pass", 9),
    (1, 20, "a", "u", "not_evaluated", 9),
    (2, 40, "a", "t", "fail", 7),
]


@pytest.fixture
def scored(store: Store) -> Store:
    """A store with results of two groups."""

    def write(con: DuckDBPyConnection) -> None:
        con.execute(
            "INSERT INTO subjects VALUES (1, 'clerk', NULL, 'a', 'shop', 'correct', ''), (2, NULL, '2', '', NULL, 'correct', '')"
        )
        columns = list(zip(*RESULTS, strict=True))
        names = ("subject", "window_time", "environment", "conversation_id", "outcome", "case_no")
        same = {"revision": 1, "evaluation_id": "e", "tags": (), "sample_ratio": 1.0}
        given = dict(zip(names, columns, strict=True))
        given["ended_at"] = given["window_time"]
        Table(con, "results").insert(con, {**given, **{name: [value] * len(RESULTS) for name, value in same.items()}})

    store.write(write)
    return store


def read(store: Store, *, since_ns: int | None = None, until_ns: int = 100) -> dict[int, list[tuple[int, bool, int]]]:
    with store.read() as con:
        finals = final_results(con, [1, 2], since_ns=since_ns, until_ns=until_ns)
    return {
        subject: list(zip(value.ended_ns.tolist(), value.correct.tolist(), value.case.tolist(), strict=True))
        for subject, value in finals.items()
    }


def test_results_stand_in_event_order_and_ties_by_identity(scored: Store) -> None:
    expected = [(10, True, 9), (30, False, 7), (30, False, NO_CASE), (30, True, NO_CASE)]
    assert {1: expected, 2: [(20, True, 7), (40, False, 7)]} == read(scored)


def test_both_bounds_are_inclusive(scored: Store) -> None:
    assert {1: [(10, True, 9)], 2: [(20, True, 7)]} == read(scored, since_ns=10, until_ns=29)
    assert {2: [(20, True, 7)]} == read(scored, since_ns=11, until_ns=20)


def test_nothing_is_asked_for_no_group(scored: Store) -> None:
    with scored.read() as con:
        assert {} == final_results(con, [], since_ns=None, until_ns=100)


@pytest.mark.parametrize("cut_ns", [5, 10, 29, 30, 100])
def test_the_digests_of_portions_make_the_digest_of_the_whole(scored: Store, cut_ns: int) -> None:
    with scored.read() as con:
        early = final_results(con, [1, 2], since_ns=None, until_ns=cut_ns)
        late = final_results(con, [1, 2], since_ns=cut_ns + 1, until_ns=100)
        total = result_digests(con, [1, 2], since_ns=None, until_ns=100)
        assert {} == result_digests(con, [], since_ns=None, until_ns=100)
    parts = {of: [value[of].digest for value in (early, late) if of in value] for of in (1, 2)}
    assert {of: digests[0] ^ (digests[1] if len(digests) > 1 else 0) for of, digests in parts.items()} == total


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE results SET outcome = 'fail' WHERE conversation_id = 'v'",
        "UPDATE results SET case_no = 8 WHERE conversation_id = 'v'",
        "UPDATE results SET window_time = make_timestamp_ns(11) WHERE conversation_id = 'v'",
        "DELETE FROM results WHERE conversation_id = 'v'",
    ],
)
def test_what_counts_of_a_result_changes_the_digest_of_its_group_alone(scored: Store, change: str) -> None:
    with scored.read() as con:
        before = result_digests(con, [1, 2], since_ns=None, until_ns=100)
    scored.write(lambda con: con.execute(change).fetchall())
    with scored.read() as con:
        after = result_digests(con, [1, 2], since_ns=None, until_ns=100)
    assert [1] == [of for of in (1, 2) if before[of] != after[of]]


def test_what_is_beyond_the_watermark_is_pending(scored: Store) -> None:
    with scored.read() as con:
        assert {1: 3, 2: 1} == pending_results(con, 29, None)
        assert {2: 1} == pending_results(con, 29, 31)


def test_groups_have_their_keys(scored: Store) -> None:
    with scored.read() as con:
        groups = result_groups(con)
    assert {
        1: GroupKey(agent="clerk", environment="a", service="shop", criterion="correct", criteria=""),
        2: GroupKey(agent_version="2", environment="", criterion="correct", criteria=""),
    } == groups
