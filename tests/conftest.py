"""Fixtures and settings of all tests: the folder of shared data, fast new stores and clients, the profiles of hypothesis."""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import certifi
import pytest
from hypothesis import HealthCheck, settings

from otel_agentic.config import StoreSettings
from otel_agentic.store.maintenance import empty_store
from tests.shared import SHARED, why_absent
from tests.snapshots import Text

if TYPE_CHECKING:
    from tests.once_per_run import OncePerRun

#: What several folders share: stores, and folders filled once per run; and the collection of doctests.
pytest_plugins = ("tests.collection", "tests.once_per_run", "tests.stores", "tests.demo_run")

# No deadlines and no health check of slow data, because the machine may be busy. Few examples keep the fast suite fast;
# `make test-slow` runs every property with many more.
settings.register_profile("fast", deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=30)
# In CI each run uses the same examples, so that a failure is caused by the change.
settings.register_profile("ci", settings.get_profile("fast"), derandomize=True, database=None)
settings.register_profile("thorough", settings.get_profile("fast"), max_examples=200)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "fast"))
# Without compiled files, each process that a test starts compiles all its imports: half a second and more.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# A background job of a shell ignores SIGINT, and so would each process that a test starts and interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# A worker that ends has sent its results: to free all tests one by one would take seconds. Handlers that are
# registered later run before.
if "PYTEST_XDIST_WORKER" in os.environ:
    atexit.register(os._exit, 0)
# Until all tests are collected: hardly any object of the collection is freed.
gc.disable()


@pytest.fixture(scope="session")
def shared_dir() -> Path:
    """Return the folder of shared data; skip if it is absent."""
    reason = why_absent(SHARED)
    if reason:
        pytest.skip(reason)
    return SHARED


@pytest.fixture(scope="session", autouse=True)
def _one_cache(once_per_run: OncePerRun) -> Iterator[None]:
    """Keep the empty store of which new stores are copies in a cache of this run, also for processes that tests start."""

    def fill(folder: Path) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("XDG_CACHE_HOME", str(folder))
            assert empty_store.place_empty_store(folder / "t.duckdb", StoreSettings())

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(once_per_run("cache", fill)))
        yield


@pytest.fixture(scope="session", autouse=True)
def _copied_bytes() -> Iterator[None]:
    """Copy the bytes of the empty store in this process: DuckDB takes 60 ms of CPU time to copy its tables.

    The copies accept the log of each other, so tests never exchange logs; tests/store/test_store_empty.py copies as users do.
    """

    def copied(content: bytes, folder: Path) -> Path:
        draft = folder / "store.duckdb"
        draft.write_bytes(content)
        return draft

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(empty_store, "_copied", copied)
        yield


@pytest.fixture(scope="session", autouse=True)
def _single_root_certificate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Give each TLS context one root certificate, also in processes that tests start: loading all takes 20 ms or more.

    No test needs the others. The variables win over `certifi`, and over the paths that OpenSSL was built with.
    """
    end = "-----END CERTIFICATE-----\n"
    path = tmp_path_factory.mktemp("certificates") / "one.pem"
    path.write_text(Path(certifi.where()).read_text("utf-8").partition(end)[0] + end, "utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSL_CERT_FILE", str(path))
        patch.delenv("SSL_CERT_DIR", raising=False)
        yield


@pytest.fixture
def without_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """Create the schema in each new store of a test."""
    monkeypatch.setenv("XDG_CACHE_HOME", os.devnull)


def pytest_collection_finish() -> None:
    """Collect garbage less often, and not among the tests: one collection over ten thousand takes half a second."""
    gc.freeze()
    atexit.register(gc.unfreeze)  # modules that count their objects at the end complain about those that remain
    gc.set_threshold(5000, 10, 50)
    gc.enable()


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Name bytes by their argument: their content is unreadable, and compressed bytes contain the time of day."""
    return argname if isinstance(val, bytes) else None


def pytest_assertrepr_compare(op: str, left: object, right: object) -> list[str] | None:
    """Show the text in which a recorded passage does not occur."""
    if isinstance(left, Text) and op == "==":
        return [f"{left!r} == {right!r}", "", "closest to the recorded text in:", *left.text.splitlines()]
    return None
