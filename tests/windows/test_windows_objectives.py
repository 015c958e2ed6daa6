"""A monitor sees conversations one after the other, whatever the portions they come in."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_agentic.config import Objective
from otel_agentic.stats.change import ChangeDetector
from otel_agentic.stats.evidence import Evidence
from otel_agentic.stats.sequential import log_e_path
from otel_agentic.windows import GroupKey
from otel_agentic.windows.objectives import NO_CASE, Finals, Monitor

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


def said(of: Monitor) -> dict[str, Any]:
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
    whole = monitor(rows, objective)
    parts = monitor(rows[:cut], objective).then(finals(rows[cut:], min(cut, len(rows))))
    assert said(whole) == said(parts)


def test_pooled_evidence_looks_at_no_case() -> None:
    rows = [(3, True), (7, False), (NO_CASE, False)]
    assert log_e_path([True, False, False], 0.9)[-1] == monitor(rows).evidence.log_e


def test_per_case_evidence_has_a_part_for_each_case_and_one_for_all_without() -> None:
    rows = [(11, True), (3, False), (NO_CASE, False), (3, False), (NO_CASE, True)]
    seen = monitor(rows, Objective(target=0.9, method="per_case"))
    _, path = Evidence.none().then([0, 1, 2, 1, 2], [correct for _, correct in rows], 0.9)
    assert [11, 3, NO_CASE] == seen.cases.tolist()
    assert path[-1] == seen.evidence.log_e


def test_the_alarm_is_the_first_conversation_to_reach_it_and_stays() -> None:
    rows = [(NO_CASE, True)] * 5 + [(NO_CASE, False)] * 8 + [(NO_CASE, True)] * 300
    path = log_e_path([correct for _, correct in rows], 0.9)
    first = int(np.flatnonzero(path >= math.log(20))[0])
    seen = monitor(rows)
    assert first == seen.alarmed_ns
    assert first == seen.then(finals([(NO_CASE, False)] * 5, 1_000)).alarmed_ns
    assert seen.e_value < 20


def test_pass_pow_k_is_held_against_the_kth_root() -> None:
    objective = Objective(k=3, target=0.7)
    rows = [(NO_CASE, False), (NO_CASE, True)]
    assert log_e_path([False, True], 0.7 ** (1 / 3))[-1] == monitor(rows, objective).evidence.log_e
    assert 3 == monitor(rows, objective).point.k


def test_a_change_is_found_after_a_long_good_time_and_found_again() -> None:
    rows = [(NO_CASE, True)] * 500 + [(NO_CASE, False)] * 30
    objective = Objective(target=0.9, target_run_length=200)
    _, alarms = ChangeDetector.of(0.9, 200).watch(ChangeDetector.of(0.9, 200).start(), [correct for _, correct in rows])
    seen = monitor(rows, objective)
    assert 500 < alarms[0] < 510
    assert (len(alarms), alarms[-1]) == (seen.changes, seen.changed_ns)


def test_nothing_new_changes_nothing() -> None:
    seen = monitor([(NO_CASE, False)])
    assert seen is seen.then(finals([]))


def test_a_new_monitor_says_nothing_either_way() -> None:
    fresh = Monitor.of(KEY, NINE)
    assert (0, 0, 1.0, None, None) == (fresh.n, fresh.c, fresh.e_value, fresh.alarmed_ns, fresh.changed_ns)
