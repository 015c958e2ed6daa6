"""What background threads log while the store cannot be used: one line each, and quiet until that changes."""

from __future__ import annotations

import logging
import time
from collections import Counter
from pathlib import Path

import pytest

from otel_agentic.errors import BadInputError, StoreBusyError, StoreUnusableError
from otel_agentic.live.loops import LoopErrorLogger
from tests.live.running_collector import OPEN, live_settings, running
from tests.store.test_store_reopening import fill, kill

log = logging.getLogger("otel_agentic.live.of_a_test")
FULL, HELD = StoreUnusableError("the disk is full"), StoreBusyError("process 7 holds it")
OBJECTIVE = {"objectives": [{"target": 0.5}]}
THREADS = {  # of the work that a message names
    "computing gauges": "window loop",
    "computing windows": "window loop",
    "scoring closed conversations": "scoring loop",
    "checking objectives": "monitors",
}
LOGGERS = ("otel_agentic.live.loops", "otel_agentic.live.reporting")


def lines(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str, bool]]:
    return [(record.levelname, record.getMessage(), bool(record.exc_info)) for record in caplog.records]


def test_trouble_of_the_store_is_one_line_until_it_changes_or_is_over(caplog: pytest.LogCaptureFixture) -> None:
    rounds = LoopErrorLogger(log, "computing windows")
    for error in (FULL, FULL, HELD, HELD, FULL):
        rounds.failed(error)
    rounds.ended()
    rounds.failed(FULL)

    full, held = (f"computing windows waits for the store: {text}" for text in (FULL, HELD))
    assert [("WARNING", text, False) for text in (full, held, full, full)] == lines(caplog)


@pytest.mark.parametrize("error", [BadInputError("a case"), ValueError("unforeseen")], ids=["own", "foreign"])
def test_any_other_failure_is_logged_each_time_with_its_traceback(
    caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    rounds = LoopErrorLogger(log, "computing windows")
    for _ in range(2):
        rounds.failed(error)
    assert [("ERROR", "computing windows failed", True)] * 2 == lines(caplog)


def test_a_dead_store_is_logged_by_each_thread_once_and_without_a_traceback(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with running(live_settings(tmp_path / "t.duckdb", **OPEN, slo=OBJECTIVE, store={"reopen_s": 0.1})) as (live, _):
        fill(live.engine.store)
        with live.engine.store.connection():  # a reader that does not let go holds up the opening
            kill(live.engine.store)
            for _ in range(8):
                for waking in (live.window_loop.wake, live.scoring_loop.wake, live.monitor_loop._wake.set):
                    waking()
                time.sleep(0.1)

    reported = [record for record in caplog.records if record.name in LOGGERS]
    assert {*THREADS.values()} == {THREADS[record.getMessage().partition(" waits for ")[0]] for record in reported}
    assert [] == [record.getMessage() for record in reported if record.exc_info]
    assert {1} == set(Counter(record.getMessage() for record in reported).values())
