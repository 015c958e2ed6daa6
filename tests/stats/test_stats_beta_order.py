"""The probability that one Beta variable lies below another, against integration and sampling by other means."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

from otel_agentic.stats.beta import BetaPosterior
from otel_agentic.stats.beta_order import integrated, probability_below

Parameters = tuple[float, float]

PAIRS: list[tuple[Parameters, Parameters]] = [
    ((8.5, 3.25), (9.75, 2.5)),
    ((0.5, 0.5), (3.3, 9.1)),
    ((0.5, 10.5), (0.5, 20.5)),
    ((1000.5, 10.2), (30.1, 1.4)),
    ((5000.3, 200.7), (5050.2, 150.1)),
    ((1.01, 50.2), (1.2, 900.3)),
]


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


@pytest.mark.parametrize(
    ("x", "y"),
    [((3.0, 2.5), (4.0, 1.5)), ((2.5, 3.0), (4.5, 1.5)), ((40.0, 60.0), (55.0, 45.0)), ((1.0, 9.0), (2.0, 3.0))],
)
def test_the_sum_for_whole_parameters_agrees_with_the_quadrature(x: Parameters, y: Parameters) -> None:
    assert integrated(posterior(x), posterior(y)) == pytest.approx(
        probability_below(posterior(x), posterior(y)), abs=1e-11
    )


def test_drawn_variables_agree_with_it() -> None:
    rng = np.random.default_rng(7)
    drawn = rng.beta(24.0, 2.0, 400_000) < rng.beta(14.0, 12.0, 400_000)

    found = probability_below(posterior((24.0, 2.0)), posterior((14.0, 12.0)))

    assert float(drawn.mean()) == pytest.approx(found, abs=4 * (found / 400_000) ** 0.5)


curves = st.tuples(st.floats(0.5, 3000.0), st.floats(0.5, 3000.0))


@given(curves, curves)
def test_one_of_the_two_is_the_lower_one(x: Parameters, y: Parameters) -> None:
    below, above = probability_below(posterior(x), posterior(y)), probability_below(posterior(y), posterior(x))

    assert below + above == pytest.approx(1.0, abs=1e-8)


@given(curves, curves)
def test_it_does_not_matter_whether_successes_or_failures_are_counted(x: Parameters, y: Parameters) -> None:
    mirrored = probability_below(posterior((y[1], y[0])), posterior((x[1], x[0])))

    assert probability_below(posterior(x), posterior(y)) == pytest.approx(mirrored, abs=1e-8)
