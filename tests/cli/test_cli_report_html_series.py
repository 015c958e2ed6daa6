"""Where a line over time breaks, and how it is thinned: nothing is drawn where there is no data, and no extreme is lost."""

from __future__ import annotations

from typing import Final

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from otel_agentic.render.html.series import Series, breaks
from otel_agentic.results.charts import HistoryRow
from otel_agentic.stats.thinning import thinned
from tests.cli.partial import partial
from tests.cli.pictured import HOUR_NS, history, window

_DAY_NS: Final = 24 * HOUR_NS


def _ends(*hours: float) -> np.ndarray:
    return np.array([hour * HOUR_NS for hour in hours], dtype=np.int64)


def _series(*hours: int, **other: object) -> Series:
    return Series.of(partial(HistoryRow, history([window(hour, 0.5, **other) for hour in hours])), _DAY_NS)


def test_a_line_breaks_where_steps_are_left_out() -> None:
    assert [False, False, False, True, False, False] == breaks(_ends(1, 2, 3, 6, 7, 8), _DAY_NS).tolist()


def test_a_line_breaks_where_windows_do_not_meet_although_all_steps_are_as_long() -> None:
    assert [False, True, True] == breaks(_ends(0, 48, 96), _DAY_NS).tolist()
    assert [False, False, False] == breaks(_ends(0, 24, 48), _DAY_NS).tolist()


def test_a_line_does_not_break_where_a_coarse_history_turns_into_fine_steps() -> None:
    coarse, fine = np.arange(0, 48, 1.0), np.arange(48, 50, 1 / 12)

    assert not breaks(_ends(*coarse, *fine), _DAY_NS).any()


def test_windows_of_counts_break_by_their_steps_alone() -> None:
    assert [False, False, False] == breaks(_ends(0, 48, 96), None).tolist()


def test_points_are_in_one_piece_each_and_a_lone_one_is_a_piece() -> None:
    pieces = [piece.tolist() for piece in _series(0, 1, 2, 20, 40, 41).segments()]

    assert [[0, 1, 2], [3], [4, 5]] == pieces


def test_an_estimate_that_is_undefined_breaks_its_own_line_only() -> None:
    rows = [window(0, 0.5), window(1, None), window(2, 0.5), window(3, 0.6)]
    series = Series.of(partial(HistoryRow, history(rows)), _DAY_NS)

    assert [[0], [2, 3]] == [piece.tolist() for piece in series.segments("pass_pow_k")]
    assert [[0, 1, 2, 3]] == [piece.tolist() for piece in series.segments()]


def test_runs_of_a_tier_end_where_it_changes_and_where_there_is_no_data() -> None:
    rows = [
        window(hour, 0.9, tier=tier) for hour, tier in ((0, "ready"), (1, "ready"), (2, "not_ready"), (30, "not_ready"))
    ]
    series = Series.of(partial(HistoryRow, history(rows)), _DAY_NS)

    assert [(0, 2, "ready"), (2, 2, "not_ready"), (3, 3, "not_ready")] == list(series.tier_runs())


_COLUMNS = arrays.arrays(
    np.float64,
    st.tuples(st.integers(1, 300), st.integers(1, 3)),
    elements=st.one_of(st.floats(0, 1), st.just(np.nan)),
)


@given(_COLUMNS, st.integers(8, 60))
def test_thinning_keeps_ends_and_extremes_in_order(columns: np.ndarray, most: int) -> None:
    indices = thinned(columns, most)

    assert sorted(set(indices.tolist())) == indices.tolist()
    assert {0, len(columns) - 1} <= set(indices.tolist())
    for column in columns.T:
        known = column[~np.isnan(column)]
        if len(known):
            assert (known.min(), known.max()) == (np.nanmin(column[indices]), np.nanmax(column[indices]))


@given(_COLUMNS, st.integers(8, 60))
def test_thinning_leaves_about_as_many_as_are_wanted(columns: np.ndarray, most: int) -> None:
    assert len(thinned(columns, most)) <= max(most, 2 + 2 * columns.shape[1])


def test_few_points_are_all_kept() -> None:
    assert list(range(50)) == thinned(np.zeros((50, 3)), 50).tolist()
