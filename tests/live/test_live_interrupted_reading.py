"""A trace that is read or rebuilt while the store is opened again is not left out: it is taken up when the store is back."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from otel_agentic.testing import speak_genai
from tests.builders import ask_hotel, rows
from tests.live.otlp_export import export, just_now
from tests.live.running_collector import OPEN, eventually, live_settings, running
from tests.store.test_store_reopening import fill, kill

LONG = "SELECT count(*) FROM range(100000000000) numbers(i) WHERE md5(i::VARCHAR) = 'x'"
READ = "SELECT conversation_id FROM conversations WHERE NOT superseded"


@pytest.mark.parametrize("step", ["_read_chunk", "_rebuild_part"])
def test_what_is_interrupted_to_open_the_store_again_is_taken_up_after_it(tmp_path: Path, step: str) -> None:
    with running(live_settings(tmp_path / "t.duckdb", **OPEN, store={"reopen_s": 0.1})) as (live, addresses):
        fill(live.engine.store)
        eventually(live.engine.rebuilder.pending, [])
        eventually(live.assembler.backlog, {"read": 0, "rebuild": 0})
        rebuilder, began = live.engine.rebuilder, threading.Event()
        original = getattr(rebuilder, step)

        def slow(*given: Any) -> Any:
            if not began.is_set():
                began.set()
                with live.engine.store.read() as con:
                    con.execute(LONG)  # as long as a large trace takes, and longer
            return original(*given)

        setattr(rebuilder, step, slow)
        export(addresses, speak_genai(ask_hotel("c"), start_ns=just_now()).spans)
        assert began.wait(10)
        kill(live.engine.store)

        eventually(lambda: live.engine.store.problem, None)
        eventually(lambda: ("c",) in rows(live.engine, READ), expected=True, timeout_s=5)
        assert [] == list(rebuilder.not_rebuilt)
