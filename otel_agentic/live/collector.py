"""The running collector, which connects receivers, store, assembler, scoring, windows, telemetry and admin address."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Container, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import ExitStack
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from otel_agentic import plugins
from otel_agentic.commands.registry import Commands, registered
from otel_agentic.console import Console, Tail
from otel_agentic.engine.engine import Engine, EngineListener
from otel_agentic.errors import OverloadedError, StoreError
from otel_agentic.evaluation.scope import NO_CASES
from otel_agentic.live.assembler import Assembler
from otel_agentic.live.loops import Drain, RetentionLoop, ScoringLoop, WindowLoop
from otel_agentic.live.reporting import EventReporter, MonitorLoop, Phase, ReceivedCounts, vitals_of, why_not_ready
from otel_agentic.net import Credentials, Hosts, ServerTls, TlsFiles, Tokens, admin_tokens, parse_address
from otel_agentic.net.server_file import LiveServer, process_mark, remove_server_file, write_server_file
from otel_agentic.net.tickets import remove_secret, secret_of
from otel_agentic.server import AdminServer, CommandPool, build_app
from otel_agentic.store.conversations import window_times
from otel_agentic.telemetry import Telemetry

if TYPE_CHECKING:
    from concurrent.futures import Future

    from otel_agentic.config import Settings
    from otel_agentic.engine.rebuild import RebuildResult
    from otel_agentic.engine.workers import WorkerPool
    from otel_agentic.evaluation.batch import ScoredBatch
    from otel_agentic.judges import JudgeFailure, Verdict
    from otel_agentic.live.notifications import NotificationLoop
    from otel_agentic.spans import Collector, Receipt, SpanBatch
    from otel_agentic.store.spans import Inserted
    from otel_agentic.store.table import Key
    from otel_agentic.telemetry import Observer, Vitals

_log = logging.getLogger(__name__)
DEFAULT_COLLECTORS: Final = ("otlp_grpc", "otlp_http")
#: Commands that score conversations, or ask a judge.
_SCORING: Final = frozenset(
    {
        "evaluate",
        "failures_merged",
        "feedback",
        "judge_calibrate",
        "judge_drift",
        "judge_freeze",
        "label",
        "truth_save",
    }
)
#: Time limits within a shutdown of at most ten seconds (`Drain`): of the loops that process spans, and of each later
#: step.
_WORK_S, _GRACE_S = 5.0, 2.0
#: Maximum number of services whose first spans are logged.
_MAX_SERVICES: Final = 100
#: Maximum number of traces and conversations that are listed because they could not be rebuilt, the newest of them.
_SHOWN_PROBLEMS: Final = 20


class LiveCollector(EngineListener):
    """Everything that `otel-agentic serve` runs, from `start` to `stop`."""

    def __init__(
        self, settings: Settings, collectors: Sequence[str] = DEFAULT_COLLECTORS, workers: WorkerPool | None = None
    ) -> None:
        """Open the store and construct the parts. No address is bound before `start`.

        Args:
            settings: all settings.
            collectors: names of the installed collectors that receive spans.
            workers: processes that score under load; a program must allow that they import its main module.

        Raises:
            StoreError: the file cannot be used.
            PluginError: a collector or the judge is not installed or does not load.
        """
        self.settings = settings
        self._collectors: list[Collector] = [
            plugins.get("collectors", name).load().from_settings(settings) for name in collectors
        ]
        self.engine = Engine(settings, create=True, upgrade=True, collecting=True, listener=self, workers=workers)
        try:
            _ = (
                self.engine.runner.judge
            )  # fails now rather than at the first conversation if it is missing or lacks a key
            self.telemetry = Telemetry.from_settings(self.engine.emit, run_id=uuid4().hex, trigger="online")
            self._reporter = EventReporter(self.engine, self.telemetry)
            self.window_loop = WindowLoop(self.engine, self.telemetry, self._reporter.report_gauges)
            self.notification_loops = self._notification_loops()
            self.monitor_loop = MonitorLoop(self.engine, self.telemetry, self._wake_notifications)
            self.retention_loop = RetentionLoop(self.engine)
        except BaseException:
            self.engine.close()
            raise
        self._tail = Tail(self.engine.runner.provisional_scores)
        self.assembler = Assembler(self.engine, self._rebuilt)
        self.scoring_loop = ScoringLoop(self.engine, self._emit)
        self._received = ReceivedCounts()
        #: Services whose first spans were logged.
        self._services: set[str] = set()
        self.engine.store.listen_to_spans(self._log_new_service)
        self.telemetry.watch(self._vitals)
        self._commands = CommandPool(settings.admin.command_slots)
        self._query_slots = threading.BoundedSemaphore(settings.admin.query_slots)
        self._admin: AdminServer | None = None
        self._started: list[Collector] = []
        self._phase: Phase = "starting"
        self._live: LiveServer | None = None

    def start(self) -> LiveServer:
        """Start listening and return the addresses.

        Raises:
            UsageError: an address is in use or not allowed; parts that were already started are stopped again.
        """
        try:
            self._admin = self._admin_server()
            for collector in self._collectors:
                collector.start(self)
                self._started.append(collector)
            self.scoring_loop.start()
            self.assembler.start()
            self.window_loop.start()
            self.monitor_loop.start()
            for notifications in self.notification_loops:
                notifications.start()
            self.retention_loop.start()
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
        """Refuse new spans, finish and store the accepted ones, send the last telemetry, and release all resources.

        Returns:
            False if a part did not stop in time and still runs on its own thread. The process must then be ended by
            `os._exit`, see `Store.close`; everything acknowledged is in the file.
        """
        was_ready = self._phase == "running"
        self._phase = "stopping"  # running requests are finished; new ones are asked to retry later
        self.engine.stopping.set()
        self._tail.close()
        self.engine.store.user_queries.end_all("the collector is stopping")
        self.engine.store.snapshots.close()
        drain = Drain()
        drain.stop_all({"rebuilding and scoring": self._stop_loops}, _WORK_S)
        stops = {collector.name: partial(collector.stop, _GRACE_S) for collector in self._started}
        drain.stop_all(stops, _GRACE_S)
        self._started.clear()
        self.engine.store.user_queries.end_all("the collector is stopping")  # those admitted meanwhile
        final_stops: dict[str, Callable[[], object]] = {"telemetry": partial(self.telemetry.shutdown, _GRACE_S)}
        if self._admin is not None:
            final_stops["the admin address"] = self._admin.stop
        drain.stop_all(final_stops, _GRACE_S)
        released = self.engine.close()
        if was_ready:
            remove_server_file(self.settings.store.db)
            remove_secret(self.settings.store.db)
        return released and not drain.left_behind and not self._commands.running

    def _stop_loops(self) -> None:
        """Stop the loops that process stored spans, in the order of the data flow."""
        self.assembler.stop()
        self.scoring_loop.stop(_GRACE_S)
        self.window_loop.stop()
        self.monitor_loop.stop()
        for notifications in self.notification_loops:
            notifications.stop()
        self.retention_loop.stop()

    def accept(self, batch: SpanBatch) -> Receipt:
        """Store a batch and count it; see `Sink.accept`."""
        return self.submit(batch).result()

    def submit(self, batch: SpanBatch) -> Future[Receipt]:
        """Start storing a batch, and count it once it is stored; see `Submits.submit`."""
        if self._phase == "stopping":
            raise OverloadedError("the collector is stopping; retry after the restart")
        began = time.monotonic()
        receipt = self.engine.store.submit(self.retention_loop.without_expired(batch))
        self.engine.pressure.arrived()
        receipt.add_done_callback(partial(self._stored, began))
        return receipt

    def _stored(self, began: float, stored: Future[Receipt]) -> None:
        """Record the result of a stored or failed batch, on the thread that stored it."""
        self.engine.pressure.answered(time.monotonic() - began)
        if stored.exception() is None:
            self._received.add(stored.result())
            self.telemetry.record_receipt(stored.result())

    def _log_new_service(self, inserted: Inserted) -> None:
        """Log the first spans of a service after a commit, so that a person sees that they arrive."""
        for span in inserted.spans[:1]:  # a request is rarely of more than one service, and commits must be fast
            service = span.resource.attributes.get("service.name")
            if isinstance(service, str) and service not in self._services and len(self._services) < _MAX_SERVICES:
                self._services.add(service)
                _log.info("first spans of service %r", service)

    def run(self, name: str, arguments: Mapping[str, Any], disconnected: Callable[[], bool] = lambda: False) -> Any:
        """Run a command on the live store; see `commands`. A query ends early once `disconnected` returns True."""
        if self._phase == "stopping":
            raise OverloadedError("the collector is stopping; retry after the restart")
        commands = Commands(self.engine, scored=self._emit, is_disconnected=disconnected)
        if name in _SCORING:
            with self.scoring_loop.lock:  # concurrent runs would score the same conversation, or ask the judge twice
                result = commands.call(name, arguments)
            self._reporter.report_agreement()
            return result
        if name == "backfill":
            return self._backfill(arguments)
        if name == "query":
            return self._query(commands, arguments)
        if name == "store_import_end":
            result = commands.call(name, arguments)
            self.assembler.arrived(self.engine.rebuilder.pending())
            self.window_loop.wake()
            return result
        if name in {"collector", "live"}:
            state = self._state()
            return state if name == "collector" else {**self._store_state(commands), "collector": state}
        with ExitStack() as stack:
            if name == "store_erase" and not arguments.get("dry_run"):
                stack.callback(self._tail.clear)
                # No loop may write rows that it read before. A long export is waited for first, so that it stops no loop.
                for lock in (self.engine.retention_lock, self.assembler.lock, self.scoring_loop.lock):
                    stack.enter_context(lock)
            return commands.call(name, arguments)

    def _store_state(self, commands: Commands) -> dict[str, Any]:
        """Return the state of the store for the command `live`; only the error if the store cannot be used."""
        try:
            result: dict[str, Any] = commands.call("live", {})
        except StoreError as error:
            return {"store_error": str(error)}
        return result

    def _backfill(self, arguments: Mapping[str, Any]) -> Any:
        """Run a backfill alongside the live loops; its scores count in windows, but not in counters."""
        commands = Commands(
            self.engine,
            scored=lambda scored, _: self._restate({item.conversation.key for item in scored}),
            locks=(self.scoring_loop.lock, self.window_loop.lock),
        )
        return commands.call("backfill", arguments)

    def _query(self, commands: Commands, arguments: Mapping[str, Any]) -> Any:
        if not self._query_slots.acquire(blocking=False):
            slots = self.settings.admin.query_slots
            raise OverloadedError(
                f"{slots} queries are running already (admin.query_slots); try again when one is done"
            )
        try:
            return commands.call("query", arguments)
        finally:
            self._query_slots.release()

    def metrics(self, accept: str = "") -> tuple[str, bytes]:
        """Return `/metrics`, with exemplars if the header `accept` requests OpenMetrics."""
        return self.telemetry.render(accept)

    @property
    def ready(self) -> bool:
        """Whether spans are accepted: the collector runs, the store is writable and its queue is not full."""
        return why_not_ready(self._phase, self.engine) is None

    def refused(self, transport: str, status: str) -> None:
        """Count a request that a receiver rejected as a whole; see `CountsRefusals`."""
        self.telemetry.record_refusal(transport, status)

    def _vitals(self) -> Vitals:
        return vitals_of(
            self._phase,
            self.engine,
            unbuilt=self.assembler.backlog(),
            scoring=self.scoring_loop,
            retaining=self.retention_loop,
        )

    def health(self) -> dict[str, Any]:
        """Return the collector's state."""
        return {
            "ready": self.ready,
            "db": str(self.settings.store.db),
            "open_conversations": self.assembler.open_count,
            "telemetry": list(self.telemetry.enabled),
            "judge": asdict(self.engine.runner.breaker.state),
        }

    def _state(self) -> dict[str, Any]:
        """Return the state that only this process knows: health, addresses, received counts, and problems."""
        addresses = asdict(self._live) if self._live is not None else {}
        failed = list(self.engine.rebuilder.not_rebuilt.values())
        problems = [*self.engine.reader.faults, *(failure.message for failure in failed[-_SHOWN_PROBLEMS:])]
        if not self.engine.runner.truth().index:
            problems.append(NO_CASES)
        if len(failed) > _SHOWN_PROBLEMS:
            problems.append(f"{len(failed):,} traces and conversations cannot be rebuilt; see the table not_rebuilt")
        vitals = asdict(self._vitals())
        return {
            **self.health(),
            **vitals,
            **addresses,
            **self._received.to_json(),
            "problems": problems,
            "not_rebuilt": len(failed),
        }

    def _rebuilt(self, rebuilt: RebuildResult) -> None:
        """Report a rebuild. Runs on the assembler's thread; scoring runs on another."""
        self._received.add_late(rebuilt.late_spans)
        self._reporter.report_rebuild(rebuilt, self.assembler.open_count)
        self.scoring_loop.closed(saved.ended_ns for saved in rebuilt.saved if saved.closed_by is not None)
        self._tail.quiet(rebuilt.saved)
        if changed := rebuilt.vanished | {saved.key for saved in rebuilt.saved if saved.revision > 1}:
            self._restate(changed)

    def committed(self, duration_s: float) -> None:
        """Record the duration of a commit of spans."""
        self.telemetry.record_commit(duration_s)

    def late_spans(self, count: int) -> None:
        """Count spans that arrived after their conversation was removed; see `EngineListener`."""
        self._received.add_late(count)
        self.telemetry.record_late(count)

    def judge_answered(self, answer: Verdict | JudgeFailure) -> None:
        """Record an answer of the judge; see `EvaluationListener`."""
        self._reporter.report_answer(answer)

    @property
    def observer(self) -> Observer:
        """What workers collect for the telemetry; see `EvaluationListener`."""
        return self.telemetry.observer

    def metrics_stored(self, batch: ScoredBatch, restated: Container[tuple[str, str, str]]) -> None:
        """Record metric scores; see `EvaluationListener`."""
        self._reporter.report_metrics(batch, restated)

    def _emit(self, scored: ScoredBatch, restated: AbstractSet[Key]) -> None:
        self.window_loop.wake()
        self._reporter.report_scores(scored, restated)
        self._tail.scored(scored)
        self._restate(frozenset(scored.rows.keys))

    def _restate(self, keys: AbstractSet[Key]) -> None:
        """Trigger the recomputation of windows that contain the conversations or earlier revisions of them."""
        self.window_loop.wake()
        if not self.settings.slo.objectives:
            return
        with self.engine.store.read() as con:
            times_ns = window_times(con, keys)
        self.monitor_loop.changed(times_ns)

    def _admin_server(self) -> AdminServer:
        admin, insecure = self.settings.admin, self.settings.receive.insecure
        credentials = Credentials(
            {
                "ingest": Tokens("receive.token", self.settings.receive.token, self.settings.receive.token_file),
                **admin_tokens(admin),
            }
        )
        files = TlsFiles.of("admin", admin.tls_cert_file, admin.tls_key_file, admin.tls_client_ca_file)
        tls = None if files is None else ServerTls(files)
        hosts = Hosts(parse_address(admin.address), admin.allowed_hosts)
        roles = {name: command.role for name, command in registered().items()}
        console = self._console(credentials, hosts) if admin.console else None
        app = build_app(
            self,
            credentials=credentials,
            hosts=hosts,
            pool=self._commands,
            roles=roles,
            pages=console.routes() if console is not None else (),
            not_found=console.not_found if console is not None else None,
        )
        guarded = credentials.guards("feedback", "query", "review", "admin")
        return AdminServer(app, admin.address, guarded=guarded, insecure=insecure, tls=tls)

    def _console(self, credentials: Credentials, hosts: Hosts) -> Console:
        secret = secret_of(self.settings.store.db)
        return Console(
            self.run,
            changes=lambda: self.engine.store.commits - self.window_loop.commits_by_time,
            size=self._store_bytes,
            load=lambda: self.engine.store.known_ids.since([]),
            pool=self._commands,
            credentials=credentials,
            hosts=hosts,
            secret=secret,
            tail=self._tail if self._collectors else None,
        )

    def _store_bytes(self) -> int:
        db = self.settings.store.db
        return db.stat().st_size if db.exists() else 0

    def _console_url(self) -> str:
        return self.settings.notify.console_url or (self._admin.url if self._admin is not None else "")

    def _notification_loops(self) -> list[NotificationLoop]:
        if not self.settings.notify.targets:
            return []
        from otel_agentic.live.notifications import NotificationLoop  # noqa: PLC0415 — httpx is slow to import

        return [NotificationLoop(self.engine, target, self._console_url) for target in self.settings.notify.targets]

    def _wake_notifications(self) -> None:
        for notifications in self.notification_loops:
            notifications.wake()

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
