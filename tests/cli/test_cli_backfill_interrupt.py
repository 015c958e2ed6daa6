"""Ctrl-C ends a backfill after the current part; the same command continues it."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from tests.cli.running import COMMAND, done, environment, wait_until
from tests.cli.small import NOON_NS, conversation, write_spans
from tests.snapshots import passage

HOUR_NS = 3_600 * 10**9


@pytest.mark.slow
@pytest.mark.parametrize("executor", [(), ("--executor", "local", "--workers", "2")], ids=["alone", "workers"])
def test_the_first_ctrl_c_ends_it_well_and_leaves_no_process(tmp_path: Path, executor: tuple[str, ...]) -> None:
    spans = [conversation(f"c-{number}", start_ns=NOON_NS + number * HOUR_NS) for number in range(400)]
    db = tmp_path / "t.duckdb"
    done("ingest", "--db", db, write_spans(tmp_path / "spans.jsonl", spans))
    options = ("--db", str(db), "--window", "7d", "--window", "24h", "--step", "1m", *executor)

    ran = subprocess.Popen(
        [*COMMAND, "backfill", *options],
        env=environment(),
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
        text=True,
    )
    wait_until(lambda: db.with_name("t.duckdb.wal").exists())  # it has begun to write
    os.killpg(ran.pid, signal.SIGINT)
    output, err = ran.communicate(timeout=120)

    assert 130 == ran.returncode
    assert passage(output) == snapshot("stopped: results so far are kept; run the same command to continue")
    assert err.splitlines() == snapshot(
        ["stopping: pending answers of the judge are awaited and stored; press Ctrl-C again to stop at once"]
    )
    wait_until(lambda: not alive(ran.pid))
    assert "of table windows added or updated" in done("backfill", *options).out


def alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
