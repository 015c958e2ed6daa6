"""Steps of work are counted: quadratic work is told from linear work without a clock."""

from __future__ import annotations

from functools import partial

from tests.steps import LINEAR, growth


def each(size: int) -> int:
    return sum(number for number in range(size))


def each_pair(size: int) -> int:
    return sum(one for one in range(size) for _ in range(size))


def test_the_growth_of_linear_and_of_quadratic_work() -> None:
    assert growth(lambda size: partial(each, size), 100) < LINEAR
    assert growth(lambda size: partial(each_pair, size), 100) > 3.5
