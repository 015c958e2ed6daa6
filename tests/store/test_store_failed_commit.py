"""A COMMIT or ROLLBACK that fails: what became of it is asked of the file, so nothing is stored twice and nothing hangs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import duckdb
import pytest
from inline_snapshot import snapshot

from otel_agentic.errors import StoreUnusableError
from otel_agentic.store.connection import open_database
from otel_agentic.testing import batch, span
from tests.snapshots import raises
from tests.store.store_queries import value
from tests.store.test_store_reopening import eventually

if TYPE_CHECKING:
    from otel_agentic.store import Store
    from tests.store.conftest import OpenStore

NO_MEMORY = duckdb.OutOfMemoryException("Out of Memory Error: failed to offload data block of size 256.0 KiB")
TWO = batch(span("a", span_id="1"), span("a", span_id="2"))


class Failing:
    """A connection to a real file that fails once at one statement, before or after it was carried out."""

    def __init__(self, con: duckdb.DuckDBPyConnection, faults: dict[str, str]) -> None:
        self._con = con
        self._faults = faults

    def __getattr__(self, name: str) -> Any:
        return getattr(self._con, name)

    def cursor(self) -> Failing:
        return Failing(self._con.cursor(), self._faults)

    def execute(self, sql: str, *given: Any) -> Any:
        when = self._faults.pop(sql, None)
        if when != "before":
            result = self._con.execute(sql, *given)
        if when is not None:
            raise NO_MEMORY
        return result


@pytest.fixture
def faults(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The faults of all connections that stores open from now on: a statement -> `before` or `after` it is carried out."""
    planted: dict[str, str] = {}
    monkeypatch.setattr(
        "otel_agentic.store.store.open_database",
        lambda *given, **named: Failing(open_database(*given, **named), planted),
    )
    return planted


@contextmanager
def refused_once(store: Store) -> Iterator[None]:
    """Expect that what the block stores is refused in words that have its sender come again, and that the file recovers."""
    with raises(StoreUnusableError, snapshot("failed and is being opened again: Out of Memory")):
        yield
    eventually(lambda: value(store, "SELECT 1"))


@pytest.mark.parametrize(("when", "is_new"), [("after", 0), ("before", 2)])
def test_what_a_failed_commit_stored_is_not_stored_twice(
    open_store: OpenStore, faults: dict[str, str], when: str, is_new: int
) -> None:
    store = open_store()
    faults["COMMIT"] = when
    with refused_once(store):
        store.accept(TWO)

    again = eventually(lambda: store.accept(TWO))

    assert (is_new, 2 - is_new) == (again.accepted, again.duplicate)
    assert 2 == value(store, "SELECT count(*) FROM spans")
    assert 1 == store.state.reopened


def test_a_failed_rollback_does_not_stop_all_later_writes(open_store: OpenStore, faults: dict[str, str]) -> None:
    store = open_store()
    faults["ROLLBACK"] = "before"

    def fail(_con: object) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        store.write(fail)

    assert 2 == eventually(lambda: store.accept(TWO)).accepted
    assert 1 == store.state.reopened


def test_readiness_tells_of_a_failed_commit_until_one_succeeds(open_store: OpenStore, faults: dict[str, str]) -> None:
    store = open_store()
    faults["COMMIT"] = "before"
    with refused_once(store):
        store.accept(TWO)
    assert "Out of Memory" in str(store.state.problem)

    eventually(lambda: store.accept(TWO))

    assert store.state.problem is None
