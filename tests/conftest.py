"""What every test may use: the folder of shared data, new stores at once, and how hypothesis searches."""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from otel_agentic.store import store
from otel_agentic.store.connection import open_database
from tests.shared import SHARED, why_absent
from tests.snapshots import Text
from tests.template import copying

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# No deadlines and no complaint about slow data: a loaded machine of two cores is not a finding. Few examples a run keep the
# fast suite fast; `make test-slow` runs every property with many more.
settings.register_profile("fast", deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=30)
# CI repeats itself: the same examples in each run, so a red run is caused by the change.
settings.register_profile("ci", settings.get_profile("fast"), derandomize=True, database=None)
settings.register_profile("thorough", settings.get_profile("fast"), max_examples=200)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "fast"))
# Where nothing compiled is kept, each process that a test starts compiles all that it imports: half a second and more.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# The child of a background shell job ignores SIGINT, and so would each process that a test starts and interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# Until all tests are collected: hardly anything that is made for them goes away again.
gc.disable()


@pytest.fixture(scope="session")
def shared_dir() -> Path:
    """Return the folder of shared data; skip where it is absent."""
    reason = why_absent(SHARED)
    if reason:
        pytest.skip(reason)
    return SHARED


@pytest.fixture(scope="session", autouse=True)
def _new_stores_are_copies(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Let new stores of this process be copies of one. Processes that tests start run the migrations, as people's do."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "open_database", copying(tmp_path_factory.mktemp("template")))
        yield


@pytest.fixture
def migrated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the migrations run in each new store of a test."""
    monkeypatch.setattr(store, "open_database", open_database)


def pytest_collection_finish() -> None:
    """Search for garbage less often, and not among the tests: a search takes half a second where ten thousand are in it."""
    gc.freeze()
    atexit.register(gc.unfreeze)  # modules that count their objects at the end complain of those that are left
    gc.set_threshold(5000, 10, 50)
    gc.enable()


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Name bytes by their argument: their content is unreadable, and compressed bytes hold the time of day."""
    return argname if isinstance(val, bytes) else None


def pytest_assertrepr_compare(op: str, left: object, right: object) -> list[str] | None:
    """Show the text in which a recorded passage does not occur."""
    if isinstance(left, Text) and op == "==":
        return [f"{left!r} == {right!r}", "", "closest to the recorded text in:", *left.text.splitlines()]
    return None
