"""Stores of some days of conversations, made once per run; each test gets a copy."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from tests.builders import fill_days, run_backfill

if TYPE_CHECKING:
    from otel_agentic.engine.engine import Engine
    from tests.stores import CopyOf, PreparedStore


@pytest.fixture
def days(copy_of: CopyOf, prepared_store: PreparedStore) -> Engine:
    """An engine with the conversations of `fill_days`, which no backfill has looked at."""
    return copy_of(prepared_store(fill_days))


def backfill_days(engine: Engine) -> None:
    """Store the conversations of `fill_days` and backfill them."""
    fill_days(engine)
    run_backfill(engine)


@pytest.fixture
def backfilled(copy_of: CopyOf, prepared_store: PreparedStore) -> Engine:
    """An engine with the same conversations, backfilled."""
    return copy_of(prepared_store(backfill_days))


class DaysOf(Protocol):
    """Opens an engine with the first conversations of `fill_days`."""

    def __call__(self, count: int, **sections: dict[str, Any]) -> Engine: ...


@pytest.fixture
def days_of(copy_of: CopyOf, prepared_store: PreparedStore) -> DaysOf:
    return lambda count, **sections: copy_of(prepared_store(partial(fill_days, count=count)), **sections)
