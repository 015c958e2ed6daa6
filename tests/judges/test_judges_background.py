"""The loop in a thread of its own, and its threads for models without an asynchronous client."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from concurrent.futures import CancelledError, wait
from typing import Final

import pytest
from inline_snapshot import snapshot

from otel_agentic.judges.chat_models import Background, DaemonThreads, _of_process, shared
from tests.snapshots import raises

_HANGS: Final = """
import threading
from otel_agentic.config import JudgeSettings
from otel_agentic.judges import LangChainJudge, Question
from tests.judges.models import Bare

class Hangs(Bare):
    def _generate(self, *_, **__):
        threading.Event().wait()

judge = LangChainJudge(Hangs(), JudgeSettings(timeout_s=0.05, tries=1))
print(judge.judge([Question(query="", expected="", answer="", threshold=0.7)])[0].message)
"""


def test_a_model_that_never_returns_does_not_keep_the_process_alive() -> None:
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", _HANGS], capture_output=True, text=True, timeout=60, check=True
    )
    assert (ran.stdout, ran.stderr) == snapshot(("Hangs gave no verdict in one try: no reply within 0.05 s\n", ""))


def test_the_loop_of_a_process_is_one() -> None:
    async def loop() -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    assert shared() is shared()
    assert shared().submit(loop()).result(20) is shared().submit(loop()).result(20)


def test_a_child_that_was_forked_has_a_loop_of_its_own() -> None:
    child = _of_process(-1)  # of a process id that is not ours
    assert child is not shared()
    child.close()


def test_closing_cancels_what_runs_and_takes_nothing_more() -> None:
    background = Background()
    running = background.submit(asyncio.sleep(3600))
    background.close()
    background.close()
    with pytest.raises(CancelledError):
        running.result(20)
    with raises(RuntimeError, snapshot("the loop of the judges is closed")):
        background.submit(asyncio.sleep(0))


def test_threads_are_used_again_and_never_more_than_allowed() -> None:
    pool = DaemonThreads(max_threads=3)
    recorded: set[str] = set()
    barrier = threading.Barrier(3)

    def work() -> None:
        recorded.add(threading.current_thread().name)
        barrier.wait(20)

    wait([pool.submit(work) for _ in range(12)], timeout=30)
    assert 3 == len(recorded)
    pool.shutdown()


def test_an_error_in_a_thread_reaches_who_waits_for_it_and_ends_no_thread() -> None:
    pool = DaemonThreads(max_threads=1)

    def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        pool.submit(fail).result(20)
    assert 7 == pool.submit(lambda: 7).result(20)
    pool.shutdown()
