"""Steps of work are counted: quadratic work is distinguished from linear work without a clock."""

from __future__ import annotations

from functools import partial

from tests.steps import LINEAR, growth


def linear(size: int) -> int:
    return sum(number for number in range(size))


def quadratic(size: int) -> int:
    return sum(left for left in range(size) for _ in range(size))


def test_the_growth_of_linear_and_of_quadratic_work() -> None:
    assert growth(lambda size: partial(linear, size), 100) < LINEAR
    assert growth(lambda size: partial(quadratic, size), 100) > 3.5
