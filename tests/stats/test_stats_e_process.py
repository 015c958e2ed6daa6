"""The e-process against numeric integration, enumeration, closed forms, and what it promises."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import beta, binom

from otel_agentic.errors import UsageError
from otel_agentic.stats.sequential import (
    LARGEST,
    LEAST,
    PRIOR,
    Evidence,
    e_value,
    first_alarm,
    log_e_path,
    log_e_value,
    promised_rate,
)

RATES = st.floats(0.05, 0.99)
PRIORS = st.sampled_from([PRIOR, (1.0, 1.0), (0.5, 0.5), (9.0, 2.0)])


@st.composite
def counts(draw: st.DrawFn, most: int = 200) -> tuple[int, int]:
    n = draw(st.integers(0, most))
    return n, draw(st.integers(0, n))


@given(counts(), RATES, PRIORS)
def test_it_is_the_likelihood_ratio_averaged_over_the_truncated_beta(
    pair: tuple[int, int], p0: float, prior: tuple[float, float]
) -> None:
    n, c = pair

    def weighed_ratio(p: float) -> float:
        return float(beta.pdf(p, *prior)) * math.exp(
            c * (math.log(p) - math.log(p0)) + (n - c) * (math.log1p(-p) - math.log1p(-p0))
        )

    peak = min(max(c / n, 1e-3), p0) if n else p0 / 2
    pieces = [
        quad(weighed_ratio, *ends, limit=200, epsabs=0.0, epsrel=1e-9)[0]
        for ends in ((0.0, peak), (peak, p0))
        if ends[0] < ends[1]
    ]
    expected = sum(pieces) / beta.cdf(p0, *prior)
    assert math.exp(log_e_value(n, c, p0, prior)) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("n", [0, 1, 3, 12])
def test_it_is_a_fair_game_at_the_promised_rate_and_a_losing_one_above(n: int) -> None:
    c = np.arange(n + 1)
    for p0 in (0.3, 0.9):
        e = np.exp(log_e_value(n, c, p0))
        assert float(binom.pmf(c, n, p0) @ e) == pytest.approx(1.0)
        assert float(binom.pmf(c, n, (1 + p0) / 2) @ e) <= 1.0 + 1e-12


@given(counts(1_000_000), RATES, PRIORS)
def test_the_next_conversation_changes_nothing_on_average(
    pair: tuple[int, int], p0: float, prior: tuple[float, float]
) -> None:
    n, c = pair
    after = np.logaddexp(
        math.log(p0) + log_e_value(n + 1, c + 1, p0, prior), math.log1p(-p0) + log_e_value(n + 1, c, p0, prior)
    )
    assert float(after) == pytest.approx(float(log_e_value(n, c, p0, prior)), rel=1e-9, abs=1e-8)


@given(st.integers(0, 1_000_000), RATES)
def test_it_neither_under_nor_overflows_where_all_are_correct_or_none_is(n: int, p0: float) -> None:
    none = (1.0, 1.0)
    assert float(log_e_value(n, n, p0, none)) == pytest.approx(-math.log(n + 1), rel=1e-9, abs=1e-8)
    share = math.log(-math.expm1((n + 1) * math.log1p(-p0)))
    expected = share - math.log(n + 1) - math.log(p0) - n * math.log1p(-p0)
    assert float(log_e_value(n, 0, p0, none)) == pytest.approx(expected, rel=1e-9, abs=1e-8)


def test_no_more_than_alpha_of_all_streams_ever_alarm_at_the_promised_rate() -> None:
    streams = np.array(list(product([False, True], repeat=12)))
    for p0, alpha in ((0.5, 0.3), (0.8, 0.2), (0.9, 0.05)):
        weight = np.prod(np.where(streams, p0, 1 - p0), axis=1)
        alarmed = first_alarm(log_e_path(streams, p0), alpha) > 0
        assert 0 < float(weight[alarmed].sum()) <= alpha


@pytest.mark.parametrize("rate", [0.90, 0.95])
def test_of_streams_of_two_thousand_looks_at_most_one_in_twenty_alarms(rate: float) -> None:
    streams = np.random.default_rng(20260301).random((400, 2_000)) < rate
    assert int((first_alarm(log_e_path(streams, 0.90), 0.05) > 0).sum()) <= 20


def test_a_rate_of_80_percent_where_90_are_promised_is_found_within_130_conversations_by_half() -> None:
    streams = np.random.default_rng(20260302).random((300, 2_000)) < 0.80
    result = first_alarm(log_e_path(streams, 0.90), 0.05)
    assert int((result == 0).sum()) == 0
    assert float(np.median(result)) <= 130


def test_streams_are_looked_at_together_as_one_by_one() -> None:
    streams = np.random.default_rng(3).random((5, 40)) < 0.7
    p0 = np.array([[0.5], [0.6], [0.7], [0.8], [0.9]])
    alone = [log_e_path(stream, float(rate)) for stream, (rate,) in zip(streams, p0, strict=True)]
    assert np.array_equal(np.array(alone), log_e_path(streams, p0))


def test_an_alarm_is_the_first_look_at_which_the_value_is_reached() -> None:
    log_e = np.log([[1.0, 19.9, 20.0, 1.0], [1.0, 1.0, 1.0, 1.0]])
    assert [3, 0] == first_alarm(log_e, 0.05).tolist()


def test_a_stream_without_a_look_has_no_alarm() -> None:
    assert 0 == int(first_alarm(np.zeros(0), 0.05))


@pytest.mark.parametrize(
    ("n", "c", "p0", "prior", "named"),
    [
        (3, 4, 0.9, PRIOR, "correct"),
        (3, -1, 0.9, PRIOR, "correct"),
        (3, 2, 1.0, PRIOR, "p0"),
        (3, 2, 0.0, PRIOR, "p0"),
        (3, 2, 0.9, (0.0, 1.0), "prior"),
    ],
)
def test_what_cannot_be_is_refused(n: int, c: int, p0: float, prior: tuple[float, float], named: str) -> None:
    with pytest.raises(UsageError, match=named):
        log_e_value(n, c, p0, prior)


def test_an_e_value_is_reported_within_bounds() -> None:
    assert [LEAST, 1.0, LARGEST] == [e_value(item) for item in (-5_000.0, 0.0, 5_000.0)]


@given(st.integers(1, 50), st.floats(0.01, 0.99))
def test_the_promised_rate_to_the_power_of_k_is_the_target(k: int, target: float) -> None:
    assert promised_rate(k, target) ** k == pytest.approx(target)


def shared_wealth(cases: Sequence[int], outcomes: Sequence[bool], p0: float) -> list[float]:
    """A fund, kept by hand: each case bets its own part; a case that joins gets the same share of all there is."""
    wealth: dict[int, float] = {}
    tallies: dict[int, tuple[int, int]] = {}
    path = []
    for case, correct in zip(cases, outcomes, strict=True):
        if case not in wealth:
            total, size = sum(wealth.values()) or 1.0, len(wealth)
            wealth = {name: item * size / (size + 1) for name, item in wealth.items()} | {case: total / (size + 1)}
            tallies[case] = (0, 0)
        n, c = tallies[case]
        tallies[case] = (n + 1, c + correct)
        wealth[case] *= math.exp(float(log_e_value(*tallies[case], p0) - log_e_value(n, c, p0)))
        path.append(sum(wealth.values()))
    return path


def in_order_of_joining(cases: Sequence[int]) -> list[int]:
    position = {case: number for number, case in enumerate(dict.fromkeys(cases))}
    return [position[case] for case in cases]


STREAMS = st.lists(st.tuples(st.integers(0, 4), st.booleans()), max_size=40)


@given(STREAMS, RATES)
def test_cases_share_the_wealth_in_equal_parts_as_they_join(stream: list[tuple[int, bool]], p0: float) -> None:
    cases, outcomes = in_order_of_joining([case for case, _ in stream]), [correct for _, correct in stream]
    _, path = Evidence.none().then(cases, outcomes, p0)
    assert np.exp(path).tolist() == pytest.approx(shared_wealth(cases, outcomes, p0), rel=1e-9)


def test_cases_that_join_in_any_order_make_a_fair_game_too() -> None:
    streams = list(product([False, True], repeat=10))
    for cases in ([0, 1, 2, 0, 1, 2, 0, 1, 2, 3], [0, 0, 0, 0, 0, 0, 1, 1, 1, 2]):
        p0, alpha = 0.8, 0.2
        weight = np.array([math.prod(p0 if item else 1 - p0 for item in stream) for stream in streams])
        paths = np.array([Evidence.none().then(cases, stream, p0)[1] for stream in streams])
        assert float(weight @ np.exp(paths[:, -1])) == pytest.approx(1.0)
        assert float(weight[first_alarm(paths, alpha) > 0].sum()) <= alpha


@given(STREAMS, st.integers(0, 40), RATES)
def test_evidence_goes_on_where_it_stopped(stream: list[tuple[int, bool]], cut: int, p0: float) -> None:
    cases, outcomes = in_order_of_joining([case for case, _ in stream]), [correct for _, correct in stream]
    complete, path = Evidence.none().then(cases, outcomes, p0)
    first, early = Evidence.none().then(cases[:cut], outcomes[:cut], p0)
    both, late = first.then(cases[cut:], outcomes[cut:], p0)
    assert np.concatenate((early, late)).tolist() == pytest.approx(path.tolist())
    assert (complete.n.tolist(), complete.c.tolist()) == (both.n.tolist(), both.c.tolist())
    assert (complete.log_e, complete.log_largest) == pytest.approx((both.log_e, both.log_largest))
    assert complete.log_largest == pytest.approx(max([0.0, *path.tolist()]))


def test_one_case_is_pooled() -> None:
    outcomes = (np.random.default_rng(4).random(300) < 0.8).tolist()
    after, path = Evidence.none().then([0] * 300, outcomes, 0.9)
    assert np.array_equal(log_e_path(outcomes, 0.9), path)
    assert (300, sum(outcomes)) == (int(after.n.sum()), int(after.c.sum()))
