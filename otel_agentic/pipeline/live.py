"""A running collector: ways in, store, assembler, scores, windows, telemetry and the admin address, joined."""

from __future__ import annotations

import logging
import os
import threading
import time
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from otel_agentic import plugins
from otel_agentic.errors import OverloadedError, StoreError
from otel_agentic.net import Credentials, Hosts, ServerTls, TlsFiles, Tokens, parse_address
from otel_agentic.pipeline.assembler import Assembler
from otel_agentic.pipeline.commands import READING, Commands, call
from otel_agentic.pipeline.drain import Drain
from otel_agentic.pipeline.engine import Engine
from otel_agentic.pipeline.health import Phase, vitals_of, why_not_ready
from otel_agentic.pipeline.livescoring import LiveScoring
from otel_agentic.pipeline.monitoring import Monitoring
from otel_agentic.pipeline.retaining import Retaining
from otel_agentic.pipeline.seen import Seen
from otel_agentic.pipeline.serverfile import LiveServer, process_mark, remove_server_file, write_server_file
from otel_agentic.pipeline.telling import Telling
from otel_agentic.pipeline.windowing import Windowing
from otel_agentic.server import AdminServer, CommandPool, build_app
from otel_agentic.store.conversations import window_times
from otel_agentic.telemetry import Telemetry

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from collections.abc import Set as AbstractSet
    from concurrent.futures import Future

    from otel_agentic.config import Settings
    from otel_agentic.pipeline.rebuild import Key, Rebuilt
    from otel_agentic.spans import Collector, Receipt, SpanBatch
    from otel_agentic.store.selection import Scored
    from otel_agentic.telemetry import Vitals

_log = logging.getLogger(__name__)
DEFAULT_COLLECTORS: Final = ("otlp_grpc", "otlp_http")
#: A stop takes ten seconds at most (`Drain`): of these so many for what works on spans, and for each thing after it.
_WORK_S, _GRACE_S = 5.0, 2.0
#: Traces and conversations that could not be rebuilt and are named, the newest.
_SHOWN_PROBLEMS: Final = 20


class LiveCollector:
    """Everything that `otel-agentic serve` runs, from `start` to `stop`."""

    def __init__(self, settings: Settings, collectors: Sequence[str] = DEFAULT_COLLECTORS) -> None:
        """Open the store and prepare the rest; nothing listens yet.

        Raises:
            StoreError: the file cannot be used.
            PluginError: a collector or the judge is not installed or does not load.
        """
        self.settings = settings
        self._collectors: list[Collector] = [
            plugins.get("collectors", name).load().from_settings(settings) for name in collectors
        ]
        self.engine = Engine(settings, create=True, upgrade=True, collecting=True)
        try:
            _ = self.engine.evaluating.judge  # one that is not there, or lacks a key, is told at once
            self.telemetry = Telemetry.from_settings(self.engine.emit, run_id=uuid4().hex, trigger="online")
            self._telling = Telling(self.engine, self.telemetry)
            self.windowing = Windowing(self.engine, self.telemetry, self._telling.shown)
            self.monitoring = Monitoring(self.engine, self.telemetry)
            self.retaining = Retaining(self.engine)
        except BaseException:
            self.engine.close()
            raise
        self.assembler = Assembler(self.engine, self._rebuilt)
        self.scoring = LiveScoring(self.engine, self._emit)
        self._seen = Seen()
        self.telemetry.watch(self._vitals)
        self.engine.store.time_commits(self.telemetry.record_commit)
        self.engine.rebuilder.frozen = self._late
        self._commands = CommandPool(settings.admin.command_slots)
        self._query_slots = threading.BoundedSemaphore(settings.admin.query_slots)
        self._admin: AdminServer | None = None
        self._started: list[Collector] = []
        self._phase: Phase = "starting"
        self._live: LiveServer | None = None

    def start(self) -> LiveServer:
        """Listen; return the addresses.

        Raises:
            UsageError: an address is taken or not allowed; whatever listened already is stopped again.
        """
        try:
            self._admin = self._admin_server()
            for collector in self._collectors:
                collector.start(self)
                self._started.append(collector)
            self.scoring.start()
            self.assembler.start()
            self.windowing.start()
            self.monitoring.start()
            self.retaining.start()
            self.engine.store.snapshots.start()
            self._admin.start()
            self._live = live = self._addresses(self._admin.url)
            write_server_file(self.settings.store.db, live)
        except BaseException:
            self.stop()
            raise
        self._phase = "running"
        return live

    def stop(self) -> bool:
        """Refuse new spans, finish and write what was accepted, send the last telemetry, release everything.

        Returns:
            False where something did not end in time and still runs on a thread of its own. Everything acknowledged is in
            the file; the process must be ended by `os._exit`, see `Store.close`.
        """
        was_ready = self._phase == "running"
        self._phase = "stopping"  # what is under way is finished; new requests are told to come back
        self.engine.stopping.set()
        self.engine.store.user_queries.end_all("the collector is stopping")
        self.engine.store.snapshots.close()
        drain = Drain()
        drain.together({"rebuilding and scoring": self._stop_working}, _WORK_S)
        stops = {collector.name: partial(collector.stop, _GRACE_S) for collector in self._started}
        drain.together(stops, _GRACE_S)
        self._started.clear()
        self.engine.store.user_queries.end_all("the collector is stopping")  # those that had just been let in
        last: dict[str, Callable[[], object]] = {"telemetry": partial(self.telemetry.shutdown, _GRACE_S)}
        if self._admin is not None:
            last["the admin address"] = self._admin.stop
        drain.together(last, _GRACE_S)
        released = self.engine.close()
        if was_ready:
            remove_server_file(self.settings.store.db)
        return released and not drain.left_behind and not self._commands.running

    def _stop_working(self) -> None:
        """End what works on stored spans, in the order in which one hands on to the next."""
        self.assembler.stop()
        self.scoring.stop(_GRACE_S)
        self.windowing.stop()
        self.monitoring.stop()
        self.retaining.stop()

    def accept(self, batch: SpanBatch) -> Receipt:
        """Store a batch and count it; see `Sink.accept`."""
        return self.submit(batch).result()

    def submit(self, batch: SpanBatch) -> Future[Receipt]:
        """Begin to store a batch, and count it once it is stored; see `Submits.submit`."""
        if self._phase == "stopping":
            raise OverloadedError("the collector is stopping; send this again when it is up")
        began = time.monotonic()
        receipt = self.engine.store.submit(self.retaining.admitted(batch))
        self.engine.pressure.arrived()
        receipt.add_done_callback(partial(self._stored, began))
        return receipt

    def _stored(self, began: float, stored: Future[Receipt]) -> None:
        """Take notice of a batch that was stored, or was not, on the thread that did it."""
        self.engine.pressure.answered(time.monotonic() - began)
        if stored.exception() is None:
            self._seen.received(stored.result())
            self.telemetry.record_receipt(stored.result())

    def run(self, name: str, arguments: Mapping[str, Any], gone: Callable[[], bool] = lambda: False) -> Any:
        """Run a command on the live store; see `commands`. Once nobody waits for it (`gone`), a query is ended."""
        if self._phase == "stopping":
            raise OverloadedError("the collector is stopping; ask again when it is up")
        commands = Commands(self.engine, scored=self._emit)
        commands.gone = gone
        if name in {"evaluate", "judge_calibrate", "failures_merged"}:
            with self.scoring.lock:  # one at a time: two would score the same conversation, or ask the judge twice
                told = call(commands, name, arguments)
            self._telling.calibrated()
            return told
        if name == "backfill":
            return self._backfill(arguments)
        if name == "query":
            return self._query(commands, arguments)
        if name == "store_import_end":
            told = call(commands, name, arguments)
            self.assembler.arrived(self.engine.rebuilder.pending())
            self.windowing.wake()
            return told
        if name == "live":
            return {**self._arrived(commands), "collector": self._state()}
        return call(commands, name, arguments)

    def _arrived(self, commands: Commands) -> dict[str, Any]:
        """Return what the command `live` tells of the store; nothing while that cannot be asked: the rest is told then."""
        try:
            found: dict[str, Any] = call(commands, "live", {})
        except StoreError as error:
            return {"store_error": str(error)}
        return found

    def _backfill(self, arguments: Mapping[str, Any]) -> Any:
        """Run a backfill beside what is live: its scores go into windows, and into no counter."""
        commands = Commands(
            self.engine,
            scored=lambda scored, _: self._restate({item.conversation.key for item in scored}),
        )
        commands.locks = (self.scoring.lock, self.windowing.lock)
        return call(commands, "backfill", arguments)

    def _query(self, commands: Commands, arguments: Mapping[str, Any]) -> Any:
        if not self._query_slots.acquire(blocking=False):
            slots = self.settings.admin.query_slots
            raise OverloadedError(
                f"{slots} queries are running already (admin.query_slots); try again when one is done"
            )
        try:
            return call(commands, "query", arguments)
        finally:
            self._query_slots.release()

    def metrics(self, accept: str = "") -> tuple[str, bytes]:
        """Return `/metrics`; with exemplars where the header `accept` asks for OpenMetrics."""
        return self.telemetry.render(accept)

    @property
    def ready(self) -> bool:
        """Whether spans are taken: not while it starts or stops, the store cannot be written, or its queue is full."""
        return why_not_ready(self._phase, self.engine) is None

    def refused(self, transport: str, status: str) -> None:
        """Count a request that a way in refused as a whole; see `CountsRefusals`."""
        self.telemetry.record_refusal(transport, status)

    def _vitals(self) -> Vitals:
        return vitals_of(
            self._phase, self.engine, assembler=self.assembler, scoring=self.scoring, retaining=self.retaining
        )

    def health(self) -> dict[str, Any]:
        """Return the collector's state."""
        return {
            "ready": self.ready,
            "db": str(self.settings.store.db),
            "open_conversations": self.assembler.open_count,
            "telemetry": list(self.telemetry.enabled),
            "judge": asdict(self.engine.evaluating.breaker.state),
        }

    def _state(self) -> dict[str, Any]:
        """Return what only this process knows: its health and addresses, what it saw, what went wrong."""
        addresses = asdict(self._live) if self._live is not None else {}
        failed = list(self.engine.rebuilder.not_rebuilt.values())
        problems = [*self.engine.reader.faults, *(one.message for one in failed[-_SHOWN_PROBLEMS:])]
        if len(failed) > _SHOWN_PROBLEMS:
            problems.append(f"{len(failed):,} traces and conversations in all cannot be rebuilt: table not_rebuilt")
        vitals = asdict(self._vitals())
        return {
            **self.health(),
            **vitals,
            **addresses,
            **self._seen.told(),
            "problems": problems,
            "not_rebuilt": len(failed),
        }

    def _rebuilt(self, rebuilt: Rebuilt) -> None:
        """Take notice of what was rebuilt, on the assembler's thread; the scores are made on another."""
        self._seen.late(rebuilt.late_spans)
        self._telling.rebuilt(rebuilt, self.assembler.open_count)
        self.scoring.wake()
        if changed := rebuilt.vanished | {saved.key for saved in rebuilt.saved if saved.revision > 1}:
            self._restate(changed)

    def _late(self, spans: int) -> None:
        """Count spans that came late for conversations which were removed since."""
        self._seen.late(spans)
        self.telemetry.record_late(spans)

    def _emit(self, scored: Sequence[Scored], restated: AbstractSet[Key]) -> None:
        self.windowing.wake()
        self._telling.scored(scored, restated)
        self._restate({(item.score.environment, item.score.conversation_id) for item in scored})

    def _restate(self, keys: AbstractSet[Key]) -> None:
        """Have the windows computed anew that hold the conversations, or held an earlier revision of them."""
        self.windowing.wake()
        if not self.settings.slo.objectives:
            return
        with self.engine.store.read() as con:
            times_ns = window_times(con, keys)
        self.monitoring.changed(times_ns)

    def _admin_server(self) -> AdminServer:
        admin, insecure = self.settings.admin, self.settings.receive.insecure
        credentials = Credentials(
            {
                "ingest": Tokens("receive.token", self.settings.receive.token, self.settings.receive.token_file),
                "query": Tokens("admin.query_token", admin.query_token, admin.query_token_file),
                "admin": Tokens("admin.token", admin.token, admin.token_file),
            }
        )
        files = TlsFiles.of("admin", admin.tls_cert_file, admin.tls_key_file, admin.tls_client_ca_file)
        tls = None if files is None else ServerTls(files)
        hosts = Hosts(parse_address(admin.address), admin.allowed_hosts)
        app = build_app(self, credentials=credentials, hosts=hosts, pool=self._commands, reading=READING)
        guarded = credentials.guards("query", "admin")
        return AdminServer(app, admin.address, guarded=guarded, insecure=insecure, tls=tls)

    def _addresses(self, admin: str) -> LiveServer:
        endpoints = {collector.name: collector.endpoint for collector in self._started}
        return LiveServer(
            pid=os.getpid(),
            admin=admin,
            http=endpoints.get("otlp_http"),
            grpc=endpoints.get("otlp_grpc"),
            started_at=datetime.now(UTC).isoformat(),
            process=process_mark(os.getpid()),
        )
