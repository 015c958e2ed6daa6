"""A monitor sees conversations one after the other, in portions of any size."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_agentic.config import Objective
from otel_agentic.stats.sequential import BlockEvidence, ChangeDetector, Evidence, log_e_path
from otel_agentic.windows import GroupKey
from otel_agentic.windows.objectives import NO_CASE, Finals, Monitor

if TYPE_CHECKING:
    from otel_agentic.config.quality import Block

KEY = GroupKey(agent="clerk", environment="production")
NINE = Objective(target=0.9)


def finals(rows: list[tuple[int, bool]], first_ns: int = 0) -> Finals:
    """Return (case, correct) rows as results, a nanosecond apart."""
    return Finals(
        ended_ns=first_ns + np.arange(len(rows), dtype=np.int64),
        correct=np.array([correct for _, correct in rows], dtype=np.bool_),
        case=np.array([case for case, _ in rows], dtype=np.int64),
    )


def monitor(rows: list[tuple[int, bool]], objective: Objective = NINE) -> Monitor:
    return Monitor.of(KEY, objective).then(finals(rows))


def figures_of(of: Monitor) -> dict[str, Any]:
    return {
        "n": of.n,
        "c": of.c,
        "log_e": pytest.approx(of.evidence.log_e),
        "largest": pytest.approx(of.evidence.log_largest),
        "value": pytest.approx(of.change_value),
        "cases": of.cases.tolist(),
        "alarmed": of.alarmed_ns,
        "changed": of.changed_ns,
        "changes": of.changes,
    }


ROWS = st.lists(st.tuples(st.sampled_from([NO_CASE, 3, 7, 11]), st.booleans()), max_size=60)


@given(ROWS, st.integers(0, 60), st.sampled_from(["pooled", "per_case"]))
def test_portions_make_no_difference(rows: list[tuple[int, bool]], cut: int, method: str) -> None:
    objective = Objective.model_validate({"target": 0.9, "method": method, "target_run_length": 30})
    at_once_monitor = monitor(rows, objective)
    parts = monitor(rows[:cut], objective).then(finals(rows[cut:], min(cut, len(rows))))
    assert figures_of(at_once_monitor) == figures_of(parts)


def test_pooled_evidence_looks_at_no_case() -> None:
    rows = [(3, True), (7, False), (NO_CASE, False)]
    assert log_e_path([True, False, False], 0.9)[-1] == monitor(rows).evidence.log_e


def test_per_case_evidence_has_a_part_for_each_case_and_one_for_all_without() -> None:
    rows = [(11, True), (3, False), (NO_CASE, False), (3, False), (NO_CASE, True)]
    watched = monitor(rows, Objective(target=0.9, method="per_case"))
    _, path = Evidence.none().then([0, 1, 2, 1, 2], [correct for _, correct in rows], 0.9)
    assert [11, 3, NO_CASE] == watched.cases.tolist()
    assert path[-1] == watched.evidence.log_e


def test_the_alarm_is_the_first_conversation_to_reach_it_and_stays() -> None:
    rows = [(NO_CASE, True)] * 5 + [(NO_CASE, False)] * 8 + [(NO_CASE, True)] * 300
    path = log_e_path([correct for _, correct in rows], 0.9)
    first = int(np.flatnonzero(path >= math.log(20))[0])
    watched = monitor(rows)
    assert first == watched.alarmed_ns
    assert first == watched.then(finals([(NO_CASE, False)] * 5, 1_000)).alarmed_ns
    assert watched.e_value < 20


def test_pass_pow_k_is_held_against_the_kth_root() -> None:
    objective = Objective(k=3, target=0.7)
    rows = [(NO_CASE, False), (NO_CASE, True)]
    assert log_e_path([False, True], 0.7 ** (1 / 3))[-1] == monitor(rows, objective).evidence.log_e
    assert 3 == monitor(rows, objective).point.k


def test_a_change_is_found_after_a_long_good_time_and_found_again() -> None:
    rows = [(NO_CASE, True)] * 500 + [(NO_CASE, False)] * 30
    objective = Objective(target=0.9, target_run_length=200)
    _, alarms = ChangeDetector.of(0.9, 200).watch(ChangeDetector.of(0.9, 200).start(), [correct for _, correct in rows])
    watched = monitor(rows, objective)
    assert 500 < alarms[0] < 510
    assert (len(alarms), alarms[-1]) == (watched.changes, watched.changed_ns)


def test_nothing_new_changes_nothing() -> None:
    watched = monitor([(NO_CASE, False)])
    assert watched is watched.then(finals([]))


def test_a_new_monitor_says_nothing_either_way() -> None:
    fresh = Monitor.of(KEY, NINE)
    assert (0, 0, 1.0, None, None) == (fresh.n, fresh.c, fresh.e_value, fresh.alarmed_ns, fresh.changed_ns)


HOURS = 3_600 * 10**9
BLOCKED = Objective(target=0.9)


def visits(*rows: tuple[float, bool, int, int]) -> Finals:
    """Return conversations of (hours, correct, user, session)."""
    ended, correct, user, session = zip(*rows, strict=True)
    return Finals(
        ended_ns=np.array([int(hour * HOURS) for hour in ended]),
        correct=np.array(correct),
        case=np.full(len(rows), NO_CASE),
        user=np.array(user, np.uint64),
        session=np.array(session, np.uint64),
    )


MIXED = visits(
    (0.1, True, 7, 1), (0.2, True, 8, 2), (0.3, False, 7, 3), (0.9, True, 0, 4), (1.1, False, 0, 4), (1.2, True, 0, 0),
    (1.3, False, 0, 0), (1.35, True, 8, 9), (3.0, True, 7, 1),
)  # fmt: skip


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        # A pause of 1.15 hours ends the first run of user 8, and one of 2.7 hours that of user 7.
        ("auto", [[0, 2], [1], [3, 4], [5, 6], [7], [8]]),
        ("user", [[0, 2], [1], [3], [4, 5, 6], [7], [8]]),
        ("session", [[0], [1], [2], [3, 4], [5, 6], [7], [8]]),
        ("hour", [[0, 1, 2, 3], [4, 5, 6, 7], [8]]),
    ],
)
def test_a_block_is_a_run_of_a_user_or_session_or_an_hour(block: Block, expected: list[list[int]]) -> None:
    number, _ = MIXED.blocks(block)
    blocks = [np.flatnonzero(number == value).tolist() for value in np.unique(number)]
    assert expected == sorted(blocks)


def test_a_user_and_a_session_of_equal_hash_are_two() -> None:
    number, _ = visits((0.1, True, 5, 0), (0.2, True, 0, 5)).blocks("auto")
    assert number[0] != number[1]


@pytest.mark.parametrize("block", ["auto", "user", "session", "hour"])
def test_a_block_counts_once_and_when_it_is_closed(block: Block) -> None:
    monitor = Monitor.of(GroupKey(), BLOCKED, block).then(MIXED, until_ns=int(1.25 * HOURS))
    at_once_monitor = Monitor.of(GroupKey(), BLOCKED, block).then(MIXED)

    assert 0 < monitor.n + monitor.waiting.correct.size
    assert monitor.n + monitor.waiting.correct.size == at_once_monitor.n == 9
    assert at_once_monitor.blocks == len(set(MIXED.blocks(block)[0].tolist()))
    rates = {"hour": [3 / 4, 2 / 4, 1.0]}.get(block)
    if rates:
        assert at_once_monitor.evidence.log_e == pytest.approx(BlockEvidence.none(0.9).then(rates, 0.9)[0].log_e)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.tuples(st.floats(0, 9), st.booleans(), st.integers(0, 3), st.integers(0, 2)), min_size=1, max_size=40
    ).map(lambda rows: sorted(rows, key=lambda row: row[0])),
    st.lists(st.floats(0, 12), max_size=5).map(sorted),
    st.sampled_from(["auto", "user", "session", "hour"]),
)
def test_blocks_are_the_same_however_often_one_looks(
    rows: list[tuple[float, bool, int, int]], looks: list[float], block: Block
) -> None:
    finals, monitor, newest_ns = visits(*rows), Monitor.of(GroupKey(), BLOCKED, block), -1
    for until_ns in [int(look * HOURS) for look in looks] + [10**15]:
        monitor = monitor.then(finals.where((finals.ended_ns > newest_ns) & (finals.ended_ns <= until_ns)), until_ns)
        newest_ns = max(newest_ns, until_ns)
    at_once = Monitor.of(GroupKey(), BLOCKED, block).then(finals, 10**15)

    figures = [(item.n, item.c, item.blocks, item.alarmed_ns, item.changes) for item in (monitor, at_once)]
    assert figures[0] == figures[1]
    assert monitor.evidence.log_e == pytest.approx(at_once.evidence.log_e)
    assert monitor.change_value == pytest.approx(at_once.change_value)
    assert not monitor.waiting.correct.size


def test_by_case_each_conversation_counts() -> None:
    monitor = Monitor.of(GroupKey(), Objective(target=0.9, method="per_case"), "hour").then(MIXED, 0)
    assert (monitor.block, monitor.n, monitor.blocks) == ("none", 9, 9)
