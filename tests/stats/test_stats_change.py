"""The change detector against direct sums, enumeration and the e-process, and what it promises."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_agentic.errors import UsageError
from otel_agentic.stats.sequential import ChangeDetector, log_e_value

OUTCOMES = st.lists(st.booleans(), max_size=120)
RATES = st.sampled_from([0.05, 0.5, 0.9, 0.999, 0.9999999])


def by_steps(detector: ChangeDetector, outcomes: list[bool]) -> tuple[list[float], list[int]]:
    """Take one conversation after the other."""
    values, alarms = detector.start(), []
    for position, correct in enumerate(outcomes):
        values = detector.step(values, correct)
        if detector.value(values) >= detector.target_run_length:
            alarms.append(position)
            values = detector.start()
    return values.tolist(), alarms


@given(st.lists(st.booleans(), max_size=12), RATES)
def test_it_sums_the_likelihood_ratios_from_every_start(outcomes: list[bool], p0: float) -> None:
    detector = ChangeDetector.of(p0, 1e300)
    expected = 0.0
    for q, weight in zip(detector.rates.tolist(), detector.weights.tolist(), strict=True):
        ratios = [q / p0 if correct else (1 - q) / (1 - p0) for correct in outcomes]
        expected += weight * sum(math.prod(ratios[start:]) for start in range(len(ratios)))
    values, _ = by_steps(detector, outcomes)
    assert float(detector.value(np.array(values))) == pytest.approx(expected, rel=1e-6)


@given(st.lists(st.booleans(), min_size=1, max_size=60), st.floats(0.3, 0.98))
def test_it_sums_the_e_values_from_every_start(outcomes: list[bool], p0: float) -> None:
    detector = ChangeDetector.of(p0, 1e300)
    suffixes = [outcomes[start:] for start in range(len(outcomes))]
    expected = sum(math.exp(log_e_value(len(suffix), sum(suffix), p0)) for suffix in suffixes)
    values, _ = by_steps(detector, outcomes)
    assert float(detector.value(np.array(values))) == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize("p0", [0.3, 0.9])
def test_its_value_is_the_number_of_conversations_on_average_at_the_promised_rate_and_less_above(p0: float) -> None:
    streams = np.array(list(product([False, True], repeat=10)))
    detector = ChangeDetector.of(p0, 1e300)
    values = np.zeros((len(streams), detector.rates.size))
    for look in range(10):
        values = detector.step(values, streams[:, look])
    for rate, most in ((p0, 10.0), ((1 + p0) / 2, 10.0)):
        mean = float(np.prod(np.where(streams, rate, 1 - rate), axis=1) @ detector.value(values))
        assert mean <= most + 1e-9
        assert mean == pytest.approx(10.0) if rate == p0 else mean < 10.0


@given(OUTCOMES, RATES, st.sampled_from([5.0, 50.0, 1e9]))
def test_a_stretch_is_watched_as_by_single_steps(outcomes: list[bool], p0: float, target: float) -> None:
    detector = ChangeDetector.of(p0, target)
    values, alarms = detector.watch(detector.start(), outcomes)
    expected, expected_alarms = by_steps(detector, outcomes)
    assert expected_alarms == alarms
    assert values.tolist() == pytest.approx(expected, rel=1e-9)


@given(OUTCOMES, st.integers(0, 120))
def test_it_goes_on_where_it_stopped(outcomes: list[bool], cut: int) -> None:
    detector = ChangeDetector.of(0.8, 50)
    complete, alarms = detector.watch(detector.start(), outcomes)
    first, early = detector.watch(detector.start(), outcomes[:cut])
    both, late = detector.watch(first, outcomes[cut:])
    assert alarms == [*early, *(position + cut for position in late)]
    assert both.tolist() == pytest.approx(complete.tolist(), rel=1e-9)


def test_a_long_stream_is_watched_without_overflow() -> None:
    outcomes = np.random.default_rng(5).random(10_000) < 0.85
    for p0 in (0.001, 0.9, 0.9999999):
        detector = ChangeDetector.of(p0, 1_000)
        values, alarms = detector.watch(detector.start(), outcomes)
        assert by_steps(detector, outcomes.tolist())[1] == alarms
        assert np.isfinite(values).all()


def test_many_streams_alarm_first_where_each_alone_does() -> None:
    streams = np.random.default_rng(6).random((50, 300)) < 0.75
    detector = ChangeDetector.of(0.9, 100)
    alone = [detector.watch(detector.start(), stream)[1] for stream in streams]
    assert [alarms[0] + 1 if alarms else 0 for alarms in alone] == detector.run_lengths(streams).tolist()


@pytest.mark.parametrize("rate", [0.90, 0.95])
def test_false_alarms_are_as_far_apart_as_promised(rate: float) -> None:
    target, looks = 200, 6_000
    lengths = ChangeDetector.of(0.90, target).run_lengths(np.random.default_rng(7).random((300, looks)) < rate)
    assert float(np.where(lengths == 0, looks, lengths).mean()) >= target


@pytest.mark.slow
@pytest.mark.parametrize("p0", [0.70, 0.90, 0.97])
def test_the_mean_run_length_of_good_streams_is_the_target_or_more(p0: float) -> None:
    target, looks = 1_000, 20_000
    lengths = ChangeDetector.of(p0, target).run_lengths(np.random.default_rng(8).random((2_000, looks)) < p0)
    # A stream without an alarm counts as if it came at the end: that only shortens the mean.
    assert float(np.where(lengths == 0, looks, lengths).mean()) >= target


def test_a_fall_after_a_thousand_good_conversations_is_found_quickly() -> None:
    rng = np.random.default_rng(9)
    streams = np.concatenate((rng.random((300, 1_000)) < 0.95, rng.random((300, 1_000)) < 0.80), axis=1)
    lengths = ChangeDetector.of(0.90, 1_000).run_lengths(streams)
    delays = lengths[(lengths == 0) | (lengths > 1_000)] - 1_000
    assert delays.size > 280
    assert 0 < float(np.median(delays)) <= 100


@pytest.mark.parametrize(("p0", "target"), [(0.0, 10.0), (1.0, 10.0), (0.9, 0.5)])
def test_a_detector_that_cannot_be_is_refused(p0: float, target: float) -> None:
    with pytest.raises(UsageError, match="target_run_length"):
        ChangeDetector.of(p0, target)
