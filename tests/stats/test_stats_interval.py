"""Wilson and Clopper-Pearson against scipy's own, and their laws."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest, norm, t

from otel_agentic.errors import UsageError
from otel_agentic.stats import clopper_pearson, quantile, wilson

LEVELS = st.sampled_from([0.8, 0.9, 0.95, 0.99])


@st.composite
def counts(draw: st.DrawFn) -> tuple[int, int]:
    n = draw(st.integers(1, 500))
    return n, draw(st.integers(0, n))


@given(counts(), LEVELS)
def test_wilson_equals_scipys(pair: tuple[int, int], level: float) -> None:
    n, c = pair
    expected = binomtest(c, n).proportion_ci(level, method="wilson")
    actual = wilson(c / n, n, quantile(level))
    assert tuple(actual) == pytest.approx((expected.low, expected.high), abs=1e-9)


@given(counts(), LEVELS)
def test_clopper_pearson_equals_scipys(pair: tuple[int, int], level: float) -> None:
    n, c = pair
    expected = binomtest(c, n).proportion_ci(level, method="exact")
    assert tuple(clopper_pearson(c, n, level)) == pytest.approx((expected.low, expected.high), abs=1e-9)


@settings(deadline=None)
@given(st.floats(0.0, 1.0), st.floats(0.01, 1e6), st.floats(0.1, 100.0))
@example(1.0, 10.0, 1.959963984540054)  # the formula alone ends 1e-16 below 1 here
def test_wilson_holds_its_rate_and_stays_within_0_and_1(p: float, n: float, critical: float) -> None:
    lower, upper = wilson(p, n, critical)
    assert 0.0 <= lower <= p <= upper <= 1.0


def test_quantiles_are_normal_or_students() -> None:
    assert quantile(0.95) == pytest.approx(float(norm.ppf(0.975)))
    assert quantile(0.95, 4) == pytest.approx(float(t.ppf(0.975, 4)))


@pytest.mark.parametrize("level", [0.0, 1.0, 95.0, -0.1])
def test_a_level_outside_0_and_1_is_refused(level: float) -> None:
    with pytest.raises(UsageError, match="level"):
        quantile(level)
    with pytest.raises(UsageError, match="level"):
        clopper_pearson(1, 2, level)


@pytest.mark.parametrize(("c", "n"), [(0, 0), (3, 2), (-1, 2)])
def test_clopper_pearson_refuses_impossible_counts(c: int, n: int) -> None:
    with pytest.raises(UsageError, match="n must be above 0"):
        clopper_pearson(c, n, 0.95)
