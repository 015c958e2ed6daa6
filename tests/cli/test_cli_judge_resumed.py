"""`evaluate` with a model as the judge, killed or interrupted on the way: no answer that is known is paid for again."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from inline_snapshot import snapshot

from tests.cli.running import COMMAND, Ran, done, environment, run, wait_until
from tests.cli.small import NOON_NS, SECOND_NS, conversation, write_cases, write_spans
from tests.judges.openai_server import OpenAIServer, ServerReply, obliging
from tests.snapshots import ending, passage

_COUNT: Final = 20
_AT_ONCE: Final = 4
_WITH_JUDGE: Final = ("--cases", "cases.jsonl", "--judge", "langchain:openai:scripted")


@pytest.fixture
def db(tmp_path: Path) -> Path:
    """A store of conversations with an answer each, and the case that they are compared with."""
    result = tmp_path / "t.duckdb"
    output = [
        conversation(f"c{number}", answer=f"On day {number}.", start_ns=NOON_NS + number * SECOND_NS)
        for number in range(_COUNT)
    ]
    case = {"case_id": "when", "turns": [{"query": "Where is my order?", "answer": "On Monday."}]}
    write_cases(tmp_path / "cases.jsonl", [case])
    done("ingest", write_spans(tmp_path / "spans.jsonl", output), "--db", result)
    return result


class Server:
    """A model that can hang, or be slow."""

    def __init__(self) -> None:
        self.says: Callable[[dict[str, Any], int], ServerReply] = lambda request, _: obliging(request)
        self.openai = OpenAIServer(self._play)

    def _play(self, request: dict[str, Any], number: int) -> ServerReply:
        return self.says(request, number)

    @property
    def request_count(self) -> int:
        return len(self.openai.requests)

    def env(self) -> dict[str, str]:
        options = {"base_url": self.openai.base_url, "api_key": "none"}
        return {
            "OTEL_AGENTIC_JUDGE__MODEL_OPTIONS": json.dumps(options),
            "OTEL_AGENTIC_JUDGE__CONCURRENCY": str(_AT_ONCE),
            "OTEL_AGENTIC_JUDGE__SANITY_CHECK": "false",
        }

    def evaluate(self, db: Path) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*COMMAND, "evaluate", "--db", str(db), *_WITH_JUDGE],
            env=environment(self.env()),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run_here(self, db: Path, *options: str, command: str = "evaluate") -> Ran:
        """Run a command that evaluates in this process."""
        with pytest.MonkeyPatch.context() as patch:
            for name, value in self.env().items():
                patch.setenv(name, value)
            return run(command, "--db", db, *_WITH_JUDGE, *options)

    def evaluated(self, db: Path) -> dict[str, Any]:
        ran = self.run_here(db, "--format", "json")
        assert ran.code == 0, ran.err
        result: dict[str, Any] = ran.json
        return result


@pytest.fixture
def server() -> Iterator[Server]:
    result = Server()
    with result.openai:
        yield result


@pytest.mark.slow  # test_judges_server.py kills a run more often
def test_after_a_kill_only_what_was_under_way_is_asked_again(db: Path, server: Server) -> None:
    server.says = lambda request, number: obliging(request) if number < 10 else ServerReply(hangs=True)
    killed = server.evaluate(db)
    wait_until(lambda: server.request_count == 10 + _AT_ONCE or killed.poll() is not None)
    time.sleep(1)  # the verdicts that came are on their way to the disk
    killed.kill()
    killed.communicate()

    server.says = lambda request, _: obliging(request)
    again = server.evaluated(db)

    assert _COUNT + _AT_ONCE == server.request_count
    assert (10, _COUNT - 10) == (again["judge"]["cached"], again["judge"]["calls"])
    assert {"pass": _COUNT} == again["outcomes"]


def test_after_ctrl_c_every_answer_is_judged_exactly_once(
    db: Path, server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    def interrupts_once(request: dict[str, Any], number: int) -> ServerReply:
        if number == 6:
            os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.1)
        return obliging(request)

    server.says = interrupts_once
    stopped = server.run_here(db)
    requests = server.request_count
    again = server.evaluated(db)

    assert (130, True) == (stopped.code, requests < _COUNT)
    assert passage(stopped.out) == snapshot("stopped: verdicts so far are kept; run the same command to continue")
    assert caplog.messages[-1] == snapshot(
        "stopping: pending answers of the judge are awaited and stored; press Ctrl-C again to stop at once"
    )
    assert _COUNT == server.request_count
    assert _COUNT - requests == again["scored"]


@pytest.mark.slow  # the test above interrupts a run in this process
def test_ctrl_c_stops_a_process_that_waits_for_the_judge(db: Path, server: Server) -> None:
    def takes_its_time(request: dict[str, Any], _: int) -> ServerReply:
        time.sleep(0.1)
        return obliging(request)

    server.says = takes_its_time
    stopped = server.evaluate(db)
    wait_until(lambda: server.request_count >= 6 or stopped.poll() is not None)
    stopped.send_signal(signal.SIGINT)
    out, err = stopped.communicate(timeout=60)

    assert (130, True) == (stopped.returncode, server.request_count < _COUNT)
    assert passage(out) == snapshot("stopped: verdicts so far are kept; run the same command to continue")
    # On a busy machine a line about waiting may come before it.
    assert ending(err) == snapshot(
        "stopping: pending answers of the judge are awaited and stored; press Ctrl-C again to stop at once\n"
    )


def test_a_run_says_what_it_will_cost_and_an_expensive_one_is_not_started_without_consent(
    db: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_AGENTIC_JUDGE__CONFIRM_CALLS", str(_COUNT - 1))
    refused = server.run_here(db)
    assert (2, 0) == (refused.code, server.request_count)
    assert re.search(
        rf"judge langchain needs about {_COUNT} calls and [\d,]+ tokens, more than judge.confirm_calls {_COUNT - 1}; pass --yes",
        " ".join(refused.err.split()),
    )
    assert [] == done("query", "SELECT * FROM cases", "--db", db, "--format", "json").json

    backfilled = server.run_here(db, command="backfill")
    assert (2, 0) == (backfilled.code, server.request_count)

    assert 0 == server.run_here(db, "--yes").code
    assert _COUNT == server.request_count

    again = server.run_here(db, "--force")  # every verdict is cached: nothing to pay, nothing to ask
    assert (0, "") == (again.code, again.err)
    assert _COUNT == server.request_count
