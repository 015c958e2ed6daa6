"""The memory of ids contains only ids of stored spans, and states until when ids are forgotten."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import hypothesis.strategies as st
from hypothesis import given

from otel_agentic.store.spans import RecentIds
from otel_agentic.testing import NOON_NS, SECOND_NS, batch, span
from tests.store.store_queries import value

if TYPE_CHECKING:
    from otel_agentic.spans.model import Span
    from tests.store.conftest import OpenStore

COUNT = "SELECT count(*) FROM spans"


def name(number: int) -> str:
    """Return an id that differs from others in its first or in its last bytes only, zeros included."""
    return f"{number % 7:04x}{0:040x}{number // 7:04x}"


def outcome(store: object, *spans: Span) -> tuple[int, int]:
    receipt = store.accept(batch(*spans))  # type: ignore[attr-defined]
    return (receipt.accepted, receipt.duplicate)


@given(
    limit=st.integers(1, 40),
    portions=st.lists(st.lists(st.integers(0, 300), max_size=12, unique=True), max_size=30),
    requested=st.lists(st.integers(0, 400), max_size=30, unique=True),
)
def test_nothing_is_known_that_was_not_added_and_nothing_unknown_began_after_what_is_forgotten(
    limit: int, portions: list[list[int]], requested: list[int]
) -> None:
    recent = RecentIds(limit)
    began_ns: dict[str, int] = {}
    for at_ns, portion in enumerate(portions):
        recent.add([name(number) for number in portion], at_ns)
        began_ns |= {name(number): at_ns for number in portion}

    names = [name(number) for number in requested]
    known = recent.known(names)

    assert known <= began_ns.keys()
    missed = {span_id for span_id in names if span_id in began_ns} - known
    assert all(began_ns[span_id] <= recent.forgotten_until_ns for span_id in missed)


def test_ids_beyond_the_limit_are_forgotten_by_halves() -> None:
    recent = RecentIds(10)
    for number in range(28):
        recent.add([name(number)], number)

    assert {name(number) for number in range(20, 28)} == recent.known([name(number) for number in range(28)])
    assert 19 == recent.forgotten_until_ns


def test_ids_that_end_in_zeros_are_distinguished() -> None:
    recent = RecentIds(4)
    recent.add(["0a" + "0" * 46], 0)
    recent.add(["0b" + "0" * 46, "0c" + "0" * 46], 0)

    assert set() == recent.known(["0a" + "0" * 45 + "1", "0d" + "0" * 46])
    assert {"0a" + "0" * 46} == recent.known(["0a" + "0" * 46])


def test_a_reopened_file_knows_the_newest_ids_and_asks_itself_about_older_ones(open_store: OpenStore) -> None:
    old = [span(f"s{number}", start_ns=NOON_NS + number) for number in range(6)]
    new = [span(f"s{number}", start_ns=NOON_NS + SECOND_NS + number) for number in range(6, 9)]
    with open_store() as first:
        first.accept(batch(*old))
        first.accept(batch(*new))

    with open_store(recent_ids=3) as again:
        assert (0, 9) == outcome(again, *old, *new)
        later = [replace(item, start_ns=NOON_NS + 60 * SECOND_NS) for item in new]
        assert (0, 3) == outcome(again, *later)
        assert 9 == value(again, COUNT)


def test_spans_added_by_other_work_are_searched_in_the_file_after_forget_ids(open_store: OpenStore) -> None:
    first = span("one", start_ns=NOON_NS)
    with open_store() as store:
        store.accept(batch(first))
        imported = replace(first, span_id="00f067aa0ba902b7")
        store.forget_ids()
        store.write(
            lambda con: con.execute(
                "INSERT INTO spans BY NAME SELECT * REPLACE ($id AS span_id) FROM spans", {"id": imported.span_id}
            )
        )

        assert (0, 2) == outcome(store, first, imported)
        assert 2 == value(store, COUNT)
