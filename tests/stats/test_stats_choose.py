"""Which k is allowed, and which estimators are shown."""

from __future__ import annotations

import pytest

from otel_agentic.config import StatsSettings
from otel_agentic.errors import UsageError
from otel_agentic.stats import default_among, headline_estimator, pooled_estimator, shown_estimators, validate_k


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
    ("given", "headline", "displayed"),
    [
        ({}, "bayesian", ("bayesian", "per_case")),
        ({"mode": "frequentist"}, "plugin", ("plugin", "per_case")),
        ({"estimator": "unbiased"}, "unbiased", ("unbiased", "per_case")),
        ({"estimator": "per_case"}, "per_case", ("bayesian", "per_case")),
        ({"estimator": "hierarchical"}, "hierarchical", ("bayesian", "per_case", "hierarchical")),
        ({"estimator": "acme", "mode": "frequentist"}, "acme", ("plugin", "per_case", "acme")),
    ],
)
def test_estimators_are_those_of_the_settings(given: dict[str, str], headline: str, displayed: tuple[str, ...]) -> None:
    settings = StatsSettings.model_validate(given)
    assert headline == headline_estimator(settings)
    assert displayed == shown_estimators(settings)
    assert displayed[0] == pooled_estimator(settings)


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
