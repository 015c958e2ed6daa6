from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_agentic.stats.model import Estimate
from otel_agentic.telemetry import names
from otel_agentic.telemetry.gauges import observe, select
from otel_agentic.windows.model import GroupKey, WindowPoint
from tests.telemetry.builders import NOON_NS, agents, empty_window_point, estimates, summary, window_point


def _observed(*points: WindowPoint) -> dict[str, list[float]]:
    return {name: [observation.value for observation in observations] for name, observations in observe(points).items()}


def test_an_undefined_estimate_gives_no_point_and_no_bounds() -> None:
    observed = _observed(empty_window_point())
    assert {name for name in observed if name.endswith(".ratio")} == set()


def test_a_point_without_bounds_is_emitted_alone() -> None:
    alone = estimates({1: Estimate(value=0.5)})
    observed = _observed(window_point(estimates={"bayesian": alone}))
    assert observed[names.SUCCESS.name] == [0.5]
    assert {names.SUCCESS_LOWER.name, names.SUCCESS_UPPER.name} & set(observed) == set()


def test_a_defined_zero_is_emitted() -> None:
    zero = estimates({1: Estimate(value=0.0, lower=0.0, upper=0.1)})
    observed = _observed(window_point(n=10, c=0, estimates={"bayesian": zero}))
    assert observed[names.SUCCESS.name] == [0.0]


def test_a_value_that_is_not_finite_gives_no_point() -> None:
    broken = estimates({1: Estimate(value=math.nan, lower=-math.inf, upper=math.inf)})
    observed = _observed(window_point(estimates={"bayesian": broken}, coverage=math.nan))
    assert {name for name in observed if name.endswith(".ratio")} == {names.TOOL_CORRECTNESS.name}


def test_an_estimate_of_k_beyond_the_attempts_is_left_out_and_the_others_stay() -> None:
    partly = estimates({1: Estimate(value=0.5), 3: Estimate(value=None)})
    (observation,) = observe([window_point(estimates={"bayesian": partly})])[names.PASS_AT_K.name]
    assert observation.attributes is not None
    assert (observation.value, observation.attributes[names.K]) == (0.5, 1)


def test_only_the_default_estimator_is_emitted() -> None:
    observations = observe([window_point()])[names.PASS_POW_K.name]
    assert {observation.attributes[names.ESTIMATOR] for observation in observations if observation.attributes} == {
        "bayesian"
    }


def test_a_default_estimator_that_is_missing_gives_no_ratio() -> None:
    assert names.SUCCESS.name not in _observed(window_point(default_estimator="per_case"))


def test_success_is_pass_at_one_and_silent_without_k_one() -> None:
    assert _observed(window_point())[names.SUCCESS.name] == [0.9]
    only_three = estimates({3: Estimate(value=0.5)})
    assert names.SUCCESS.name not in _observed(window_point(estimates={"bayesian": only_three}))


def test_the_newest_point_of_a_group_and_window_counts() -> None:
    old, new = window_point(end_ns=NOON_NS, c=1), window_point(end_ns=NOON_NS + 1, c=7)
    assert select([new, old], 10).points == (new,)


@pytest.mark.parametrize("key", [GroupKey(agent="a", case="case-1"), GroupKey(agent="a", tool="search")])
def test_groups_by_case_or_tool_never_reach_metrics(key: GroupKey) -> None:
    assert select([window_point(key=key)], 10).points == ()


def test_the_group_that_has_been_quiet_longest_is_dropped_first() -> None:
    fresh, quiet = agents(2)
    points = [window_point("24h", key=key) for key in (fresh, quiet)]
    points += [window_point("1h", key=fresh), empty_window_point("1h", key=quiet)]
    selection = select(points, 1)
    assert selection.groups == {fresh}
    assert selection.dropped == {quiet}


def test_of_equally_recent_groups_the_busier_stays() -> None:
    small, big = agents(2)
    assert select([window_point(key=small, n=1, c=1), window_point(key=big, n=50, c=1)], 1).groups == {big}


def test_groups_with_unknown_keys_can_be_ordered() -> None:
    keys = [GroupKey(), GroupKey(agent="a"), GroupKey(service="s"), GroupKey(tag="t", agent_version="1")]
    assert len(select([window_point(key=key) for key in keys], 2).dropped) == 2


_keys = st.builds(GroupKey, agent=st.sampled_from([None, "a", "b", "c"]), tag=st.sampled_from([None, "x", "y"]))
_points = st.lists(
    st.builds(
        lambda key, window, end, n: WindowPoint(
            window=window, width_ns=3600, end_ns=end, summary=summary(key, n=n, c=0)
        ),
        _keys,
        st.sampled_from(["1h", "24h"]),
        st.integers(0, 5),
        st.integers(0, 3),
    ),
    max_size=25,
)


@given(points=_points, cap=st.integers(1, 6))
def test_the_cap_keeps_whole_groups_and_names_the_others(points: list[WindowPoint], cap: int) -> None:
    selection = select(points, cap)
    everyone = {point.summary.key for point in points}
    assert selection.groups | selection.dropped == everyone
    assert selection.groups & selection.dropped == set()
    assert len(selection.groups) == min(cap, len(everyone))
    windows = {(point.summary.key, point.window) for point in points if point.summary.key in selection.groups}
    assert {(point.summary.key, point.window) for point in selection.points} == windows


@given(points=_points, cap=st.integers(1, 6), rng=st.randoms(use_true_random=False))
def test_the_selection_does_not_depend_on_the_order_of_points(points: list[WindowPoint], cap: int, rng: object) -> None:
    shuffled = list(points)
    rng.shuffle(shuffled)  # type: ignore[attr-defined]  # hypothesis gives a random.Random
    assert select(shuffled, cap).groups == select(points, cap).groups
