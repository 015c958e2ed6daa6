"""Measure the CPU time that a viewer of the live tail adds to a collector at 200 conversations a second.

The stages of a collector process small chats in portions, alternately with and without a viewer, which is another process that
reads the stream over HTTP. A portion is half a second of that traffic: each is followed by one event of the tail, however long the
machine takes for the portion. Windows and telemetry are left out, so that a real collector spends more on each conversation. The CPU
time of the tail itself is measured, too, because it is smaller than the differences between two portions.
"""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Never

from benchmarks.agent_traffic import Workload, small_chats
from benchmarks.cpu_time import timed
from otel_agentic.config import Settings
from otel_agentic.console import Console, Tail
from otel_agentic.console.tail import Viewer
from otel_agentic.engine.engine import Engine
from otel_agentic.engine.workers import tune_interpreter
from otel_agentic.evaluation.run import EvaluationRequest
from otel_agentic.evaluation.scope import TruthFile
from otel_agentic.net import Credentials, Hosts, parse_address
from otel_agentic.net.tickets import new_ticket
from otel_agentic.server import AdminServer, CommandPool, build_app
from otel_agentic.spans import Limits, decode_traces

if TYPE_CHECKING:
    from otel_agentic.store.table import Scored

RATE: Final = 200
#: Events of a viewer in a second.
EVENTS: Final = 2
PAIRS: Final = 8
_SECRET: Final = b"s" * 32
_VIEWER: Final = """
import sys, httpx
url, ticket = sys.argv[1:]
with httpx.Client(base_url=url, headers={"sec-fetch-site": "same-origin"}, timeout=None) as client:
    client.post("/login", data={"ticket": ticket})
    with client.stream("GET", "/tail/events") as answer:
        print(sum(map(len, answer.iter_bytes())))
"""


class Ticks:
    """The clock of the viewers: they send an event when the benchmark asks for it."""

    def __init__(self) -> None:
        #: CPU time of rendering and sending events, seconds.
        self.sending_s = 0.0
        self._began_s: float | None = None
        self._next = asyncio.Event()
        self._ends = False
        self._sent = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    async def wait(self) -> bool:
        """Wait for the next event; return False at the end. The previous event has been sent."""
        if self._began_s is not None:
            self.sending_s += time.thread_time() - self._began_s
        self._loop = asyncio.get_running_loop()
        self._sent.set()
        await self._next.wait()
        self._next.clear()
        self._began_s = None if self._ends else time.thread_time()
        return not self._ends

    def begin(self) -> None:
        """Return when a new viewer has received its first event."""
        self._sent.wait()
        self._ends = False

    def tick(self) -> None:
        """Send an event; return when it has been sent."""
        self._sent.clear()
        self._wake()
        self._sent.wait()

    def end(self) -> None:
        """End the viewer."""
        self._ends = True
        self._sent.clear()
        self._wake()

    def _wake(self) -> None:
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._next.set)


class Nothing:
    """The backend of an admin address without commands."""

    ready = True

    def run(self, name: str, arguments: Mapping[str, Any], disconnected: Callable[[], bool] = lambda: False) -> Never:
        """Refuse a command."""
        raise NotImplementedError(name, arguments, disconnected)

    def metrics(self, accept: str) -> Never:
        """Refuse a scrape."""
        raise NotImplementedError(accept)


class Stages:
    """The stages of a collector, and the time that they spend on the tail."""

    def __init__(self, engine: Engine, tail: Tail) -> None:
        self._engine = engine
        self._tail = tail
        self._limits = Limits.from_settings(engine.settings.receive)
        self.tail_s = 0.0

    def process(self, requests: Sequence[bytes]) -> None:
        """Receive, rebuild, close and score the conversations of some requests."""
        for body in requests:
            self._engine.store.accept(decode_traces(body, self._limits))
        rebuilder, runner = self._engine.rebuilder, self._engine.runner
        rebuilt = rebuilder.rebuild(rebuilder.read(rebuilder.pending()), lambda _: None)
        self._to_tail(lambda: self._tail.quiet(rebuilt.saved))
        closed = rebuilder.close({saved.key for saved in rebuilt.saved}, ())
        self._to_tail(lambda: self._tail.quiet(closed.saved))
        request = EvaluationRequest(keys=runner.never_scored().keys, chosen=runner.chosen)
        runner.evaluate(runner.truth(), request, self._scored)

    def _scored(self, scored: Sequence[Scored], _: object) -> None:
        self._to_tail(lambda: self._tail.scored(scored))

    def _to_tail(self, work: Callable[[], None]) -> None:
        began_s = time.thread_time()
        work()
        self.tail_s += time.thread_time() - began_s


def main() -> None:
    """Measure pairs of seconds, and print the ratios."""
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings.model_validate({"store": {"db": Path(folder) / "b.duckdb"}})
        portions = 2 * (PAIRS + 1) * EVENTS
        workload = small_chats(portions * RATE // EVENTS)
        with Engine(settings, create=True, collecting=True) as engine:
            engine.runner.remember([TruthFile(name="cases.jsonl", text=workload.cases)], [])
            _measure(engine, _portions(workload, portions))


def _portions(workload: Workload, count: int) -> Iterator[list[bytes]]:
    """Yield the requests of each portion."""
    size = len(workload.requests) / count
    for number in range(count):
        yield list(workload.requests[round(number * size) : round((number + 1) * size)])


def _measure(engine: Engine, portions: Iterator[list[bytes]]) -> None:
    now_s = [0.0]
    tail, ticks = Tail(engine.runner.provisional_scores, lambda: now_s[0]), Ticks()
    Viewer.wait = lambda _: ticks.wait()  # type: ignore[method-assign,assignment]  # a benchmark hook
    stages = Stages(engine, tail)
    with _server(tail) as server:

        def second(*, watched: bool) -> tuple[float, float]:
            """Return the CPU time of a second of traffic, and that of the tail."""
            viewer = _viewer(server.url) if watched else None
            if viewer is not None:
                ticks.begin()
            tail_s = ticks.sending_s + stages.tail_s
            with timed() as timer:
                for _ in range(EVENTS):
                    stages.process(next(portions))
                    if watched:
                        ticks.tick()
            tail_s = ticks.sending_s + stages.tail_s - tail_s
            if viewer is not None:
                ticks.end()
                viewer.wait()
            now_s[0] += 60  # rows are not stored any more
            return timer.cpu_s, tail_s

        for watched in (True, False):
            second(watched=watched)  # the first use of each part
        tune_interpreter()
        times_s: dict[bool, list[float]] = {True: [], False: []}
        own_s: list[float] = []
        for pair in range(PAIRS):
            for watched in (True, False) if pair % 2 else (False, True):
                cpu_s, tail_s = second(watched=watched)
                times_s[watched].append(cpu_s)
                if watched:
                    own_s.append(tail_s)
    _show(times_s, own_s)


@contextmanager
def _server(tail: Tail) -> Iterator[AdminServer]:
    backend, pool, address = Nothing(), CommandPool(4), "127.0.0.1:0"
    credentials, hosts = Credentials({}), Hosts(parse_address(address), ())
    console = Console(
        backend.run,
        size=lambda: 0,
        load=lambda: None,
        changes=lambda: 0,
        pool=pool,
        credentials=credentials,
        hosts=hosts,
        secret=_SECRET,
        tail=tail,
    )
    app = build_app(backend, credentials=credentials, hosts=hosts, pool=pool, pages=console.routes())
    server = AdminServer(app, address, guarded=False, insecure=False)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def _viewer(url: str) -> subprocess.Popen[bytes]:
    command = (sys.executable, "-c", _VIEWER, url, new_ticket(_SECRET, "viewer"))
    return subprocess.Popen(command, stdout=subprocess.DEVNULL)  # noqa: S603 — our own command


def _show(times_s: Mapping[bool, Sequence[float]], own_s: Sequence[float]) -> None:
    ratios = [watched / alone for watched, alone in zip(times_s[True], times_s[False], strict=True)]
    alone_s = statistics.mean(times_s[False])
    print(f"{RATE} conversations take {1e3 * alone_s:,.0f} ms of CPU without a viewer")
    quartiles = statistics.quantiles(ratios, n=4)
    print(
        f"  with a viewer {sum(times_s[True]) / sum(times_s[False]):.3f} times as much; "
        f"median of {len(ratios)} pairs {quartiles[1]:.3f}, half of them {quartiles[0]:.3f} to {quartiles[2]:.3f}"
    )
    print(
        f"  the tail itself (to store rows, render and send them): {1e3 * statistics.mean(own_s):.1f} ms, "
        f"{100 * statistics.mean(own_s) / alone_s:.2f} %"
    )


if __name__ == "__main__":
    main()
