"""The counts of the database at one end equal those of all results counted one by one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from otel_agentic.store.results import results_for
from otel_agentic.store.windows import count_windows
from otel_agentic.windows import ScoredConversation, parse_windows, results_of, roll, window_table
from tests.builders import save_results
from tests.windows.rolled import ESTIMATORS, PLAIN, SECOND, SETTINGS, Figures, conversations, figures_of

if TYPE_CHECKING:
    from otel_agentic.store import Store

WIDTHS = ["5s", "17s", "n3", "n1"]


def insert_results(store: Store, scored: Sequence[ScoredConversation]) -> None:
    store.write(lambda con: save_results(con, scored))


def ticked(store: Store, widths: Sequence[str], ends: Sequence[int], tags: Sequence[str] = ()) -> list[Figures]:
    with store.read() as con:
        tallies = count_windows(con, parse_windows(widths), ends, tags)
    table = window_table(tallies, estimators=ESTIMATORS, settings=SETTINGS, k=SETTINGS.k)
    return [figures_of(point) for point in table.points()]


def loaded(store: Store, widths: Sequence[str], ends: Sequence[int], tags: Sequence[str] = ()) -> list[Figures]:
    with store.read() as con:
        results = results_for(con, parse_windows(widths), ends, tags)
    table = roll(results, widths, ends, estimators=ESTIMATORS, settings=SETTINGS, k=SETTINGS.k)
    return [figures_of(point) for point in table.points()]


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    conversations(weights=(1.0, 2.0, 10.0)),
    st.permutations(WIDTHS),
    st.lists(st.integers(0, 80), min_size=1, max_size=3),
    st.sampled_from([(), ("v*", "new")]),
)
def test_counted_in_sql_loaded_into_columns_or_taken_one_by_one_windows_say_the_same(
    store: Store, scored: list[ScoredConversation], widths: list[str], seconds: list[int], tags: tuple[str, ...]
) -> None:
    ends = sorted({second * SECOND for second in seconds})
    insert_results(store, scored)
    table = roll(results_of(scored, tags), widths, ends, estimators=ESTIMATORS, settings=SETTINGS, k=SETTINGS.k)

    expected = [figures_of(point) for point in table.points()]

    assert expected == loaded(store, widths, ends, tags)
    assert expected == ticked(store, widths, ends, tags)


def test_an_empty_store_has_no_points(store: Store) -> None:
    assert ([], []) == (ticked(store, WIDTHS, [SECOND]), loaded(store, WIDTHS, [SECOND]))


@pytest.mark.parametrize("tags", [(), ("'); DROP TABLE results; --",), ("*",)])
def test_untrusted_strings_are_values_and_nothing_else(store: Store, tags: tuple[str, ...]) -> None:
    name = "'); DROP TABLE results; --"
    insert_results(store, [replace(PLAIN, agent=name, case_id=name, dataset=name, tags=(name,))])

    table = ticked(store, ["1s"], [0], tags)

    assert [None, *(name for _ in tags)] == [key.tag for _, _, key, *_ in table]  # type: ignore[attr-defined]  # a group key
    assert {name} == {key.agent for _, _, key, *_ in table}  # type: ignore[attr-defined]  # the same


def test_a_conversation_that_ends_after_the_window_is_in_none(store: Store) -> None:
    insert_results(store, [replace(PLAIN, ended_ns=5 * SECOND)])

    assert [] == ticked(store, ["10s", "n3"], [5 * SECOND - 1])
    assert 2 == len(ticked(store, ["10s", "n3"], [5 * SECOND]))


def test_of_conversations_that_ended_together_the_later_ids_are_the_newest(store: Store) -> None:
    insert_results(
        store, [replace(PLAIN, conversation_id=str(n), outcome="pass" if n > 1 else "fail") for n in (2, 0, 3, 1)]
    )

    for ends in ([0], [SECOND]):  # at their own end, and where they come from before the period
        assert [(2, 2)] == [(n, c) for _, _, _, n, c, *_ in ticked(store, ["n2"], ends)]
        assert [(2, 2)] == [(n, c) for _, _, _, n, c, *_ in loaded(store, ["n2"], ends)]
