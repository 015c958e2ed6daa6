"""Bets on blocks: as those on conversations where blocks are single, and seldom wrong where conversations are correlated."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.claims import alarms_in_outages, alarms_in_runs
from otel_agentic.stats.sequential import BlockEvidence, log_e_path, runs


def test_bets_on_single_conversations_find_what_bets_on_outcomes_find() -> None:
    outcomes = np.random.default_rng(3).random(3_000) < 0.8
    _, blocked = BlockEvidence.none(0.9).then(outcomes, 0.9)
    by_outcome = log_e_path(outcomes, 0.9)
    assert np.abs(blocked - by_outcome)[100:].max() < 0.05 * by_outcome[100:].max()


def test_a_bet_expects_no_gain_where_the_promise_is_just_kept() -> None:
    """Of a block of mean 0 or 1 with probability .1 and .9, and of one that is always .9."""
    start = BlockEvidence.none(0.9)
    ends = [np.exp(start.then([mean], 0.9)[0].log_e) for mean in (0.0, 1.0, 0.9)]
    assert 0.1 * ends[0] + 0.9 * ends[1] == pytest.approx(1.0)
    assert ends[2] == pytest.approx(1.0)


def test_portions_of_blocks_make_no_difference() -> None:
    averages = np.random.default_rng(4).random(50)
    complete, path = BlockEvidence.none(0.7).then(averages, 0.7)
    first, single = BlockEvidence.none(0.7).then(averages[:20], 0.7)
    second, other = first.then(averages[20:], 0.7)
    assert path == pytest.approx(np.concatenate((single, other)))
    assert (second.log_e, second.log_largest) == pytest.approx((complete.log_e, complete.log_largest))
    assert complete.then([], 0.7)[0] is complete


def test_runs_end_by_a_pause() -> None:
    assert len(set(runs([1, 1, 1, 1], [0, 5, 10, 16], 5).tolist())) == 2
    assert runs([], [], 5).tolist() == []


@pytest.mark.parametrize("run", [3, 10, 50])
def test_users_in_runs_seldom_alarm_falsely(run: int) -> None:
    single, blocked = alarms_in_runs(run, 0.9, kappa=2.0, number=60)
    assert (np.array(blocked) > 0).mean() <= 0.15
    assert (np.array(single) > 0).sum() > (np.array(blocked) > 0).sum()


@pytest.mark.slow
@pytest.mark.parametrize("kappa", [0.5, 2.0, 10.0])
@pytest.mark.parametrize("run", [1, 3, 10, 50])
def test_false_alarms_of_blocks_are_at_most_six_percent(run: int, kappa: float) -> None:
    _, blocked = alarms_in_runs(run, 0.9, kappa=kappa, number=400)
    assert (np.array(blocked) > 0).mean() <= 0.06 + 3 * (0.05 * 0.95 / 400) ** 0.5


@pytest.mark.slow
def test_false_alarms_of_hours_in_outages_are_at_most_six_percent() -> None:
    _, blocked = alarms_in_outages(number=400)
    assert (np.array(blocked) > 0).mean() <= 0.06 + 3 * (0.05 * 0.95 / 400) ** 0.5
