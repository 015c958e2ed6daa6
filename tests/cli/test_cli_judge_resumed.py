"""`evaluate` with a model as the judge, killed or interrupted on the way: no answer that is known is paid for again."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from typing import TYPE_CHECKING, Any, Final

import pytest
from inline_snapshot import snapshot

from tests.cli.running import COMMAND, done, environment, wait_until
from tests.cli.small import NOON_NS, SECOND_NS, conversation, write_cases, write_spans
from tests.judges.openai_server import OpenAIServer, Said, obliging
from tests.snapshots import ending, passage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_COUNT: Final = 20
_AT_ONCE: Final = 4
_JUDGED: Final = ("--cases", "cases.jsonl", "--judge", "langchain:openai:scripted")


@pytest.fixture
def db(tmp_path: Path) -> Path:
    """A store of conversations with an answer each, and the case that they are held against."""
    found = tmp_path / "t.duckdb"
    told = [
        conversation(f"c{number}", answer=f"On day {number}.", start_ns=NOON_NS + number * SECOND_NS)
        for number in range(_COUNT)
    ]
    case = {"case_id": "when", "turns": [{"query": "Where is my order?", "answer": "On Monday."}]}
    write_cases(tmp_path / "cases.jsonl", [case])
    done("ingest", write_spans(tmp_path / "spans.jsonl", told), "--db", found)
    return found


class Server:
    """A model that can be told to hang, or to take its time."""

    def __init__(self) -> None:
        self.says: Callable[[dict[str, Any], int], Said] = lambda request, _: obliging(request)
        self.openai = OpenAIServer(self._play)

    def _play(self, request: dict[str, Any], number: int) -> Said:
        return self.says(request, number)

    @property
    def asked(self) -> int:
        return len(self.openai.requests)

    def env(self) -> dict[str, str]:
        options = {"base_url": self.openai.base_url, "api_key": "none"}
        return {
            "OTEL_AGENTIC_JUDGE__MODEL_OPTIONS": json.dumps(options),
            "OTEL_AGENTIC_JUDGE__CONCURRENCY": str(_AT_ONCE),
        }

    def evaluate(self, db: Path) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*COMMAND, "evaluate", "--db", str(db), *_JUDGED],
            env=environment(self.env()),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def evaluated(self, db: Path) -> dict[str, Any]:
        with pytest.MonkeyPatch.context() as patch:
            for name, value in self.env().items():
                patch.setenv(name, value)
            found: dict[str, Any] = done("evaluate", "--db", db, *_JUDGED, "--format", "json").json
        return found


@pytest.fixture
def server() -> Iterator[Server]:
    found = Server()
    with found.openai:
        yield found


@pytest.mark.slow  # test_judges_server.py kills a run more often
def test_after_a_kill_only_what_was_under_way_is_asked_again(db: Path, server: Server) -> None:
    server.says = lambda request, number: obliging(request) if number < 10 else Said(hangs=True)
    killed = server.evaluate(db)
    wait_until(lambda: server.asked == 10 + _AT_ONCE or killed.poll() is not None)
    time.sleep(1)  # the verdicts that came are on their way to the disk
    killed.kill()
    killed.communicate()

    server.says = lambda request, _: obliging(request)
    again = server.evaluated(db)

    assert _COUNT + _AT_ONCE == server.asked
    assert (10, _COUNT - 10) == (again["judge"]["cached"], again["judge"]["calls"])
    assert {"pass": _COUNT} == again["outcomes"]


def test_after_ctrl_c_every_answer_is_judged_exactly_once(db: Path, server: Server) -> None:
    def takes_its_time(request: dict[str, Any], _: int) -> Said:
        time.sleep(0.1)
        return obliging(request)

    server.says = takes_its_time
    stopped = server.evaluate(db)
    wait_until(lambda: server.asked >= 6 or stopped.poll() is not None)
    stopped.send_signal(signal.SIGINT)
    out, err = stopped.communicate(timeout=60)
    asked = server.asked
    again = server.evaluated(db)

    assert (130, True) == (stopped.returncode, asked < _COUNT)
    assert passage(out) == snapshot("stopped: what was judged is kept; the same command goes on from here")
    # On a busy machine a line about waiting may come before it.
    assert ending(err) == snapshot(
        "stopping: pending answers of the judge are awaited and stored; press Ctrl-C again to stop at once\n"
    )
    assert _COUNT == server.asked
    assert _COUNT - asked == again["scored"]
