"""SIGTERM: acknowledged spans are stored, new requests are refused with a retry, and nothing that hangs delays the stop."""

from __future__ import annotations

import json
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans

from otel_agentic.live.collector import LiveCollector
from otel_agentic.testing import NOON_NS, SECOND_NS
from tests.builders import rows
from tests.crash.outcome import lost_or_doubled
from tests.crash.sending import acknowledged, conversation, sending
from tests.judges.openai_server import OpenAIServer, ServerReply, obliging
from tests.live.otlp_export import readable
from tests.live.running_collector import eventually, running
from tests.live.test_live_judge_breaker import CASES, CLOSED, SCORED, settings_of, tell

if TYPE_CHECKING:
    from tests.crash.conftest import MakeServer
    from tests.crash.serving import Server

#: A query of hours.
LONG = "SELECT count(*) FROM range(100000000000) numbers(i) WHERE md5(i::VARCHAR) = 'x'"
#: Windows of a year, one a minute.
BACKFILL = {
    "since_ns": NOON_NS,
    "until_ns": NOON_NS + 365 * 86_400 * SECOND_NS,
    "windows": ["1h"],
    "step_ns": 60 * SECOND_NS,
}
#: A stop takes ten seconds at most. Twice that fails a deadlock also where nine tests share two processors.
STOP_S, PATIENCE_S = 10.0, 40.0


@pytest.fixture
def black_hole() -> Iterator[str]:
    """A telemetry backend that accepts connections and never answers."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))

        def take() -> None:
            while True:
                try:
                    stack.enter_context(listener.accept()[0])
                except OSError:
                    return

        threading.Thread(target=take, daemon=True).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)


class HangingJudge(OpenAIServer):
    """A model's server that accepts requests and does not answer until it is well."""

    def __init__(self) -> None:
        self.received, self.well = threading.Event(), threading.Event()
        super().__init__(self._say)

    def _say(self, request: dict[str, Any], _: int) -> ServerReply:
        self.received.set()
        return obliging(request) if self.well.is_set() else ServerReply(hangs=True)


@pytest.fixture
def hanging_judge() -> Iterator[HangingJudge]:
    with HangingJudge() as server:
        yield server


class Poster(threading.Thread):
    """Sends one request after the other, each on a connection of its own, and counts how it was answered."""

    def __init__(self, server: Server, first: int) -> None:
        super().__init__(daemon=True)
        self._url = f"http://{server.http}/v1/traces"
        self._first = first
        self.ending = threading.Event()
        self.answers: Counter[str] = Counter()

    def run(self) -> None:
        number = 0
        while not self.ending.is_set():
            number += 1
            body = encode_spans(
                [readable(span) for span in conversation(self._first, number).spans]
            ).SerializeToString()
            self.answers[self._answer(body)] += 1

    def _answer(self, body: bytes) -> str:
        headers = {"content-type": "application/x-protobuf", "connection": "close"}
        try:
            response = httpx.post(self._url, content=body, headers=headers, timeout=30, trust_env=False)
        except httpx.ConnectError:
            self.ending.wait(0.02)
            return "not there"
        except httpx.HTTPError as error:
            return type(error).__name__
        return f"{response.status_code}, try again" if "retry-after" in response.headers else str(response.status_code)


def stop(server: Server, signals: int = 1) -> float:
    """Stop a collector; return how long it took, s."""
    began = time.monotonic()
    for _ in range(signals):
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.1)
    server.process.send_signal(signal.SIGINT if signals > 1 else 0)
    assert 0 == server.process.wait(PATIENCE_S), server.log
    return time.monotonic() - began


def test_sigterm_under_load_loses_nothing_and_answers_no_request_with_an_error_that_drops_it(
    make_server: MakeServer,
) -> None:
    server = make_server()
    server.start()
    posters = [Poster(server, 100 + number) for number in range(3)]
    with sending(f"http://{server.http}", server.grpc) as senders:
        for poster in posters:
            poster.start()
        eventually(lambda: all(sender.acknowledged for sender in senders), expected=True)
        eventually(lambda: all(poster.answers["200"] for poster in posters), expected=True)
        stop(server, signals=3)
        for poster in posters:
            poster.ending.set()
            poster.join(60)
    answers = sum((poster.answers for poster in posters), Counter[str]())

    assert [] == lost_or_doubled(server.db, acknowledged(senders))
    assert all(sender.acknowledged for sender in senders)
    # A connection that the system took just before the listener closed is reset, unread: that is retried as well.
    assert {"200", "503, try again", "not there", "ReadError", "RemoteProtocolError", "WriteError"} >= set(answers), (
        answers
    )
    assert "Traceback" not in server.log


def test_a_hanging_judge_holds_up_no_stop_and_what_it_was_asked_is_judged_once_at_the_next_start(
    tmp_path: Path, hanging_judge: HangingJudge
) -> None:
    settings = settings_of(tmp_path / "t.duckdb", hanging_judge, timeout_s=3600)
    live = LiveCollector(settings)
    live.run("truth_import", {"cases": CASES})
    tell(live.start(), range(3))
    eventually(lambda: rows(live.engine, CLOSED), [(3,)])
    assert hanging_judge.received.wait(60)
    live.stop()  # waiting for the judge would take an hour

    hanging_judge.well.set()
    hanging_judge.requests.clear()
    with running(settings) as (again, _):
        eventually(lambda: rows(again.engine, SCORED), [("pass", 3)])
    assert 3 == len(hanging_judge.requests)


@pytest.mark.slow
def test_a_stop_takes_at_most_ten_seconds_with_anything_hanging(
    make_server: MakeServer, black_hole: str, hanging_judge: HangingJudge, cases: Path
) -> None:
    assert STOP_S > hung_stop(make_server, black_hole, hanging_judge, cases)


def hung_stop(make_server: MakeServer, black_hole: str, judge: HangingJudge, cases: Path) -> float:
    """Return how long a collector takes to stop, s, with a hanging backend and judge, a query of hours, and a backfill."""
    server = make_server(
        *("--emit", black_hole, "--judge", "langchain:openai:small", "--cases", str(cases)),
        JUDGE__MODEL_OPTIONS=json.dumps({"base_url": judge.base_url, "api_key": "none"}),
    )
    server.start()
    with sending(f"http://{server.http}", server.grpc) as senders:
        time.sleep(0.5)
    statuses: list[int] = []
    requests = [
        threading.Thread(target=lambda name=name, given=given: statuses.append(_ask(server, name, given)), daemon=True)
        for name, given in (
            ("query", {"sql": LONG}),
            ("backfill", BACKFILL),
        )
    ]
    for thread in requests:
        thread.start()
    time.sleep(0.5)
    assert judge.received.wait(60)
    took_s = stop(server)
    for thread in requests:
        thread.join(PATIENCE_S)

    assert [] == lost_or_doubled(server.db, acknowledged(senders))
    return took_s


def _ask(server: Server, name: str, given: dict[str, object]) -> int:
    try:
        return httpx.post(
            f"http://{server.admin}/v1/commands/{name}", json=given, timeout=PATIENCE_S, trust_env=False
        ).status_code
    except httpx.HTTPError:
        return 0
