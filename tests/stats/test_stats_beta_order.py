"""The probability that one Beta variable lies below another, against sums, integration and sampling by other means."""

from __future__ import annotations

import itertools
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats
from scipy.special import betaln

from otel_agentic.stats.rates import BetaPosterior, probability_below

Parameters = tuple[float, float]

PAIRS: list[tuple[Parameters, Parameters]] = [
    ((8.5, 3.25), (9.75, 2.5)),
    ((0.5, 0.5), (3.3, 9.1)),
    ((0.5, 10.5), (0.5, 20.5)),
    ((1000.5, 10.2), (30.1, 1.4)),
    ((5000.3, 200.7), (5050.2, 150.1)),
    ((1.01, 50.2), (1.2, 900.3)),
    ((2.0, 146.5), (131.5, 527.0)),
]
#: Both parameters of the grid take these values.
_VALUES = (0.01, 0.5, 2.0, 146.5, 1e6)
GRID: list[Parameters] = [(a, b) for a in _VALUES for b in _VALUES]


def posterior(parameters: Parameters) -> BetaPosterior:
    return BetaPosterior(a=parameters[0], b=parameters[1])


def by_quadrature(x: Parameters, y: Parameters) -> float:
    """Return P(X < Y) as the integral of density times distribution, split where both curves stand."""
    splits = sorted({stats.beta.ppf(q, *curve) for curve in (x, y) for q in (1e-9, 0.01, 0.5, 0.99, 1 - 1e-9)})

    def density(at: float) -> float:
        return float(stats.beta.pdf(at, *y) * stats.beta.cdf(at, *x))

    edges = [0.0, *splits, 1.0]
    return float(
        sum(integrate.quad(density, low, high, epsabs=1e-13, limit=300)[0] for low, high in itertools.pairwise(edges))
    )


@pytest.mark.parametrize(("x", "y"), PAIRS)
def test_any_parameters_give_the_integral(x: Parameters, y: Parameters) -> None:
    assert by_quadrature(x, y) == pytest.approx(probability_below(posterior(x), posterior(y)), abs=1e-9)


def by_sum(x: Parameters, y: Parameters) -> float:
    """Return P(X < Y) where the first parameter of Y is a whole number: a sum of positive terms.

    Ref: Thompson 1933, "On the likelihood that one unknown probability exceeds another in view of the evidence of two
    samples".
    """
    term = np.arange(int(y[0]), dtype=np.float64)
    logs = betaln(x[0] + term, x[1] + y[1]) - np.log(y[1] + term) - betaln(1.0 + term, y[1]) - betaln(*x)
    return float(np.sum(np.exp(logs)))


@cache
def ordered(x: Parameters, y: Parameters) -> float:
    return probability_below(posterior(x), posterior(y))


@pytest.mark.parametrize("x", GRID)
def test_parameters_from_a_hundredth_to_a_million_agree_with_the_sum_and_with_their_mirror_image(x: Parameters) -> None:
    for y in GRID:
        below, above = ordered(x, y), ordered(y, x)
        assert below + above == pytest.approx(1.0, abs=1e-10), y
        if y[0] == 2.0:
            assert below == pytest.approx(by_sum(x, y), abs=1e-8), y


@pytest.mark.parametrize("x", [(0.5, 0.5), (2.0, 146.5), (1e6, 2.0), (1e6, 1e6)])
def test_more_successes_never_lower_it_and_more_failures_never_raise_it(x: Parameters) -> None:
    steps = (0.01, 0.5, 2.0, 146.5, 1e4, 1e6)
    for other in steps:
        by_successes = [probability_below(posterior(x), posterior((a, other))) for a in steps]
        by_failures = [probability_below(posterior(x), posterior((other, b))) for b in steps]
        assert np.all(np.diff(by_successes) >= -1e-12), other
        assert np.all(np.diff(by_failures) <= 1e-12), other


def test_drawn_variables_agree_with_it() -> None:
    rng = np.random.default_rng(7)
    drawn = rng.beta(24.0, 2.0, 400_000) < rng.beta(14.0, 12.0, 400_000)

    result = probability_below(posterior((24.0, 2.0)), posterior((14.0, 12.0)))

    assert float(drawn.mean()) == pytest.approx(result, abs=4 * (result / 400_000) ** 0.5)


curves = st.tuples(st.floats(0.5, 1e6), st.floats(0.5, 1e6))


@given(curves, curves)
def test_one_of_the_two_is_the_lower_one(x: Parameters, y: Parameters) -> None:
    below, above = probability_below(posterior(x), posterior(y)), probability_below(posterior(y), posterior(x))

    assert below + above == pytest.approx(1.0, abs=1e-8)


@given(curves, curves)
def test_it_does_not_matter_whether_successes_or_failures_are_counted(x: Parameters, y: Parameters) -> None:
    mirrored = probability_below(posterior((y[1], y[0])), posterior((x[1], x[0])))

    assert probability_below(posterior(x), posterior(y)) == pytest.approx(mirrored, abs=1e-8)
