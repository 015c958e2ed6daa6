"""The smallest number where a condition holds, for many conditions at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_agentic.stats.rates import smallest_for_each

if TYPE_CHECKING:
    import numpy.typing as npt


@settings(deadline=None)
@given(st.lists(st.integers(1, 300), max_size=6), st.integers(1, 250))
def test_doubling_and_bisection_find_the_first_that_holds_for_each(firsts: list[int], most: int) -> None:
    thresholds = np.array(firsts, dtype=np.int64)
    expected = [first if first <= most else 0 for first in firsts]
    result = smallest_for_each(lambda which, numbers: numbers >= thresholds[which], len(firsts), most)
    assert expected == result.tolist()


def test_it_evaluates_some_two_logarithms_times_for_any_number_of_conditions() -> None:
    firsts, calls = np.arange(1, 100_001, 97), 0

    def holds(which: npt.NDArray[np.int64], numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        nonlocal calls
        calls += 1
        return np.asarray(numbers >= firsts[which])

    assert firsts.tolist() == smallest_for_each(holds, len(firsts), 100_000).tolist()
    assert calls <= 34
