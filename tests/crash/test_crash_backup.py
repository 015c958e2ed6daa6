"""Backups of a collector under load: nothing acknowledged is missing, and no sender notices."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pytest

from tests.cli.running import run_process
from tests.crash.sending import acknowledged, sending

if TYPE_CHECKING:
    from tests.crash.conftest import MakeServer


@pytest.mark.slow
def test_a_backup_under_load_holds_every_span_that_was_acknowledged_before(
    make_server: MakeServer, tmp_path: Path
) -> None:
    live = make_server(STORE__CHECKPOINT_THRESHOLD_MB=1)
    live.start()
    with sending(f"http://{live.http}", live.grpc) as senders:
        for number in range(5):
            time.sleep(2)
            before = acknowledged(senders)
            backup = tmp_path / f"b{number}.duckdb"
            ran = run_process("store", "backup", backup, "--server", f"http://{live.admin}")
            assert 0 == ran.code, ran.err
            with duckdb.connect(str(backup), read_only=True) as con:
                restored = {name for (name,) in con.execute("SELECT DISTINCT trace_id FROM spans").fetchall()}
            assert set(before) <= restored
        assert 0 == sum(sender.refused for sender in senders)
        assert len(set(before)) > 20

    other = tmp_path / "other.duckdb"
    assert 0 == run_process("store", "restore", backup, "--db", other).code
    assert 0 == run_process("report", "--db", other).code
