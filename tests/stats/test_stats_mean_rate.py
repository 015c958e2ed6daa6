"""Evidence about the mean rate over cases: against slow computations, and its validity by simulation."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import partial

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.special import betaln

from benchmarks.claims import boundary, first_claim, streams
from otel_agentic.stats.tiers import READY_RATE, alternatives, mean_evidence

FloatArray = npt.NDArray[np.float64]
KINDS = st.dictionaries(
    st.integers(1, 12).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))),
    st.integers(1, 9),
    min_size=1,
    max_size=5,
).map(lambda result: tuple((n, c, many) for (n, c), many in sorted(result.items())))


def mean_excess(share: FloatArray, away: FloatArray, tilt: float) -> float:
    """Return by how much the mean of a tilted distribution is above the promised one."""
    return float((share / (1.0 + tilt * away)) @ away)


def slow_largest(kinds: tuple[tuple[int, int, int], ...], p0: float) -> float:
    """Return the largest log-likelihood over distributions on a fine grid of rates whose mean is p0 or less.

    By expectation and maximisation: what a rate is responsible for, tilted so that the mean is kept.
    """
    rates = np.unique(np.concatenate((np.linspace(0.0, 1.0, 81), [c / n for n, c, _ in kinds])))
    n, c, cases = (np.array(item)[:, np.newaxis] for item in zip(*kinds, strict=True))
    likelihood = rates**c * (1.0 - rates) ** (n - c)
    mass = np.full(rates.size, 1.0 / rates.size)
    away = rates - p0
    for _ in range(3_000):
        share = mass * (likelihood.T @ (cases[:, 0] / (likelihood @ mass))) / cases.sum()
        tilt = 0.0
        if share @ away > 0:
            most = (1.0 - 1e-12) / p0
            excess = partial(mean_excess, share, away)
            tilt = float(brentq(excess, 0.0, most)) if excess(most) < 0 else most
        mass = share / (1.0 + tilt * away)
        mass[0] += max(0.0, 1.0 - mass.sum())  # a rate of 0 may be impossible for all cases and still keep the mean
    return float((cases[:, 0] * np.log(likelihood @ mass)).sum())


def slow_numerator(kinds: tuple[tuple[int, int, int], ...], p0: float) -> float:
    bets = alternatives(p0)
    item = [
        prior + sum(many * (betaln(a + c, b + n - c) - betaln(a, b)) for n, c, many in kinds)
        for prior, a, b in zip(bets.log_prior, bets.a, bets.b, strict=False)
    ]
    return float(np.logaddexp.reduce(item))


@pytest.mark.parametrize("p0", [*(pytest.param(rate, marks=pytest.mark.slow) for rate in (0.5, 0.7)), READY_RATE])
@pytest.mark.parametrize(
    "kinds",
    [
        ((1, 0, 3), (1, 1, 9)),
        ((4, 4, 12), (5, 0, 1)),
        ((2, 1, 4), (7, 6, 5), (12, 12, 9)),
        ((3, 0, 2), (3, 2, 2), (9, 9, 7), (12, 5, 1)),
        ((20, 17, 3), (20, 19, 8), (20, 20, 11)),
    ],
)
def test_the_e_value_is_the_bets_over_the_likeliest_distribution(
    kinds: tuple[tuple[int, int, int], ...], p0: float
) -> None:
    slow = slow_numerator(kinds, p0) - slow_largest(kinds, p0)

    assert mean_evidence(kinds, p0, "above").log_e == pytest.approx(slow, abs=0.02)


def test_cases_of_one_attempt_are_plain_coins() -> None:
    """With one attempt a case only the mean matters: the denominator is the likelihood at p0 where c / n is above it."""
    kinds = ((1, 0, 10), (1, 1, 190))
    exact = 190 * math.log(READY_RATE) + 10 * math.log(1 - READY_RATE)

    assert mean_evidence(kinds, READY_RATE, "above").log_e == pytest.approx(
        slow_numerator(kinds, READY_RATE) - exact, abs=2e-3
    )


def test_cases_that_all_pass_may_be_a_lucky_draw_of_as_many_as_there_are() -> None:
    """However often each was tried: a share 1 - p0 of cases that never pass explains K cases with probability p0^K."""
    for n in (1, 50, 5_000):
        evidence = mean_evidence(((n, n, 20),), 0.9, "above")
        assert evidence.log_e <= -20 * math.log(0.9) + 1e-9


@given(KINDS)
@settings(max_examples=30, deadline=None)
def test_above_and_below_are_mirror_images(kinds: tuple[tuple[int, int, int], ...]) -> None:
    flipped = tuple(sorted((n, n - c, many) for n, c, many in kinds))
    below = mean_evidence(kinds, float(Fraction(3, 4)), "below").log_e
    assert below == pytest.approx(mean_evidence(flipped, 0.25, "above").log_e, abs=2e-3)


@given(KINDS)
@settings(max_examples=30, deadline=None)
def test_the_quick_bound_is_one_and_more_cases_scale_it(kinds: tuple[tuple[int, int, int], ...]) -> None:
    evidence = mean_evidence(kinds, 0.7, "above")
    for factor in (1.0, 3.0, 1000.0):
        assert evidence.grown(factor) <= evidence.most(factor) + 1e-6 * factor
    tripled = mean_evidence(tuple((n, c, 3 * many) for n, c, many in kinds), 0.7, "above")
    assert tripled.log_e == pytest.approx(evidence.grown(3.0), abs=5e-3)


def test_no_cases_are_no_evidence() -> None:
    assert mean_evidence((), 0.9, "above").log_e == pytest.approx(0.0)


def test_many_attempts_of_one_case_neither_over_nor_underflow() -> None:
    evidence = mean_evidence(((100_000, 99_000, 1), (100_000, 0, 1)), 0.4, "above")
    assert math.isfinite(evidence.log_e)
    assert evidence.log_e < 0


@pytest.mark.parametrize("sizes", ["equal", "zipf", "1/rank"])
@pytest.mark.parametrize("cases", [10, pytest.param(50, marks=pytest.mark.slow)])
def test_claims_at_the_boundary_are_rare_however_often_one_looks(cases: int, sizes: str) -> None:
    for side in ("above", "below"):
        once, ever = boundary(cases, sizes, 2.0, side, looks=300, number=60)  # type: ignore[arg-type]  # a literal
        assert (once <= 0.05, ever <= 0.10) == (True, True), (side, once, ever)


@pytest.mark.parametrize("side", ["above", "below"])
def test_claims_are_no_more_frequent_where_cases_are_no_beta(side: str) -> None:
    """One case in five never passes, the others seven times of eight: a mean of .70, which a Beta takes for less."""
    claimed = 0
    rng = np.random.default_rng(7)
    for _ in range(40):
        rates = np.where(rng.random(200) < 0.2, 0.0, 0.875)
        kinds, many = np.unique(rng.binomial(20, rates), return_counts=True)
        counts = tuple((20, c, number) for c, number in zip(kinds.tolist(), many.tolist(), strict=True))
        claimed += mean_evidence(counts, 0.7, side).log_e >= math.log(20)
    assert claimed <= 3


def test_true_claims_are_found() -> None:
    result = [
        first_claim(stream, READY_RATE, "above") for stream in streams(None, "equal", 0.97, 0.0, looks=400, number=40)
    ]
    assert sum(0 < stream for stream in result) >= 38


@pytest.mark.slow
@pytest.mark.parametrize("kappa", [0.5, 2.0, 10.0])
@pytest.mark.parametrize("sizes", ["equal", "zipf", "1/rank"])
@pytest.mark.parametrize("cases", [5, 10, 50, 200])
def test_claims_at_the_boundary_keep_their_level(cases: int, sizes: str, kappa: float) -> None:
    """At most 3 % at one look and 5 % ever, and three standard errors of 400 streams."""
    error = 3 * math.sqrt(0.05 * 0.95 / 400)
    for side in ("above", "below"):
        once, ever = boundary(cases, sizes, kappa, side, looks=500, number=400)  # type: ignore[arg-type]  # a literal
        assert (once <= 0.03 + error, ever <= 0.05 + error) == (True, True), (side, once, ever)
