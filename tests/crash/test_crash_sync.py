"""An acknowledgement follows the moment at which the disk has the span: watched from outside, by strace."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.store.store_queries import run_python

STORING = """
import os, sys
from pathlib import Path
from otel_agentic.config import ConversationSettings, StoreSettings
from otel_agentic.dialects import Reader
from otel_agentic.store import Store
from otel_agentic.testing import batch, span

with Store(StoreSettings(db=Path(sys.argv[1])), Reader.from_settings(ConversationSettings())) as store:
    for number in range(5):
        os.write(2, b"<sending>")
        store.accept(batch(span(f"s{number}")))
        os.write(2, b"<acknowledged>")
    os._exit(0)
"""
#: Stores five batches after a line of input, each again until it is stored; then prints the numbers of spans and names.
FAILING = """
import sys, time
from pathlib import Path
from otel_agentic.config import ConversationSettings, StoreSettings
from otel_agentic.dialects import Reader
from otel_agentic.errors import StoreError
from otel_agentic.store import Store
from otel_agentic.testing import batch, span

settings = StoreSettings(db=Path(sys.argv[1]), reopen_s=0.05)
with Store(settings, Reader.from_settings(ConversationSettings())) as store:
    print("ready")
    input()
    for number in range(5):
        while True:
            try:
                store.accept(batch(span(f"s{number}")))
                break
            except StoreError as error:
                print("refused", error)
                time.sleep(0.05)
    with store.read() as con:
        print("stored", *con.execute("SELECT count(*), count(DISTINCT name) FROM spans").fetchall()[0])
"""


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed: system calls cannot be watched")
def test_a_batch_is_acknowledged_after_the_log_that_holds_it_was_synced(tmp_path: Path) -> None:
    trace_file = tmp_path / "calls"
    done = subprocess.run(
        ["strace", "-f", "-e", "trace=openat,write,pwrite64,fsync,fdatasync", "-s", "20", "-o", trace_file,
         sys.executable, "-c", STORING, tmp_path / "t.duckdb"],
        check=False, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    if "ptrace" in done.stderr or not trace_file.exists():
        pytest.skip(f"strace may not watch here: {done.stderr.strip()}")
    calls = trace_file.read_text()

    rounds = calls.split("<sending>")[1:]
    assert 5 == len(rounds)
    for calls_of_round in rounds:
        before = calls_of_round.split("<acknowledged>")[0]
        written = re.findall(r"\bwrite\((\d+), ", before)
        synced = re.findall(r"\b(?:fdatasync|fsync)\((\d+)", before)
        log = [file for file in written if file in synced]
        assert log, before
        assert before.rindex(f"write({log[-1]}, ") < before.rindex(f"sync({log[-1]}")


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed: calls cannot be made to fail")
def test_a_sync_that_fails_acknowledges_nothing_and_the_file_is_opened_again(tmp_path: Path) -> None:
    with run_python(FAILING, tmp_path / "t.duckdb", stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert "ready" == process.stdout.readline().strip()
        strace = ["strace", "-f", "-qq", "-e", "trace=fdatasync", "-e", "inject=fdatasync:error=EIO:when=2"]
        with subprocess.Popen(
            [*strace, "-o", tmp_path / "calls", "-p", str(process.pid)], stderr=subprocess.PIPE, text=True
        ) as tracer:
            time.sleep(1.0)
            if tracer.poll() is not None:
                process.kill()
                pytest.skip("strace may not watch here")
            output, _ = process.communicate("go\n", timeout=60)

    assert "EIO" in (tmp_path / "calls").read_text()
    assert "refused" in output
    assert "stored 5 5" in output.splitlines()
