"""Scores of tools in words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_agentic.scoring.model import BANDS, band_of, banded

SCORES = st.floats(0.0, 1.0)


@pytest.mark.parametrize(
    ("score", "expected"),
    [
        (1.0, "perfect"),
        (0.99, "good"),
        (0.75, "good"),
        (0.74, "moderate"),
        (0.5, "moderate"),
        (0.49, "poor"),
        (0, "poor"),
    ],
)
def test_a_score_has_the_band_of_its_bounds(score: float, expected: str) -> None:
    assert expected == band_of(score)


def test_the_last_bits_of_a_sum_are_forgiven() -> None:
    thirds = sum([1 / 3] * 3) - 2**-53
    assert thirds < 1.0
    assert "perfect" == band_of(thirds)


@given(SCORES, SCORES)
def test_a_better_score_is_never_in_a_worse_band(first: float, other: float) -> None:
    better, worse = max(first, other), min(first, other)
    assert BANDS.index(band_of(better)) <= BANDS.index(band_of(worse))


@given(st.lists(SCORES))
def test_every_score_is_in_one_band(scores: list[float]) -> None:
    result = banded(scores)
    assert list(BANDS) == list(result)
    assert len(scores) == sum(result.values())
