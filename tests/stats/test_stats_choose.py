"""Which k is allowed, and which estimator is shown first."""

from __future__ import annotations

import pytest

from otel_agentic.config import StatsSettings
from otel_agentic.errors import UsageError
from otel_agentic.stats import Attempts, CaseCount, default_among, default_estimator, validate_k


def cases_of(*sizes: int) -> Attempts:
    return Attempts(cases=tuple(CaseCount(case_id=str(i), n=n, c=0) for i, n in enumerate(sizes)))


def test_k_is_sorted_and_without_repeats() -> None:
    assert validate_k([5, 3, 1, 3]) == (1, 3, 5)


@pytest.mark.parametrize("bad", [0, -3, 1.5, "3", None, True])
def test_a_k_that_is_not_a_whole_number_from_1_is_refused_by_name(bad: object) -> None:
    with pytest.raises(UsageError, match=f"k={bad!r}"):
        validate_k([1, bad])


def test_no_k_at_all_is_refused() -> None:
    with pytest.raises(UsageError, match="empty"):
        validate_k([])


@pytest.mark.parametrize(
    ("sizes", "mode", "expected"),
    [
        ((5, 5, 5), "bayesian", "per_case"),
        ((1, 5, 9), "bayesian", "per_case"),
        ((4, 4, 9), "bayesian", "bayesian"),
        ((1, 1, 1), "frequentist", "plugin"),
        ((), "bayesian", "bayesian"),
        ((), "frequentist", "plugin"),
    ],
)
def test_per_case_is_shown_first_where_the_median_case_has_k_attempts(
    sizes: tuple[int, ...], mode: str, expected: str
) -> None:
    settings = StatsSettings.model_validate({"mode": mode})
    assert expected == default_estimator(cases_of(*sizes), [1, 3, 5], settings)


def test_a_set_estimator_wins_over_the_data() -> None:
    assert default_estimator(cases_of(9, 9), [1], StatsSettings(estimator="unbiased")) == "unbiased"


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["plugin", "per_case"], "per_case"),
        (["plugin", "bayesian"], "bayesian"),
        (["unbiased", "plugin"], "unbiased"),
        ([], "per_case"),
    ],
)
def test_the_nearest_given_estimator_stands_in(names: list[str], expected: str) -> None:
    assert expected == default_among(names, "per_case", StatsSettings())
