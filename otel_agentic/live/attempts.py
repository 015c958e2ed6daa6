"""Runs the program of an agent, receives its spans meanwhile, and ends and scores its conversations when it exits.

With cases, the program runs K times per case. Each of these attempts is one process: an exit code other than 0, a time-out,
or an exit without a conversation is a failed attempt (`agent_error`), never a missing one.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import quote

from otel_agentic import plugins
from otel_agentic.commands.ingest import rebuild_pending
from otel_agentic.config import ReceiveSettings
from otel_agentic.dialects.frameworks import content_variables
from otel_agentic.engine.engine import Engine
from otel_agentic.errors import UsageError
from otel_agentic.evaluation.run import EvaluationRequest
from otel_agentic.spans import Receipt, Resource, Scope, Span, SpanBatch
from otel_agentic.spans.model import SpanKind, StatusCode
from otel_agentic.store.conversations import load_conversations
from otel_agentic.store.links import conversations_of
from otel_agentic.truth.formats.base import record_of

if TYPE_CHECKING:
    from concurrent.futures import Future

    from otel_agentic.config import Settings
    from otel_agentic.conversations.model import Conversation
    from otel_agentic.spans import Collector
    from otel_agentic.store.table import Scored
    from otel_agentic.truth import Case

Protocol = Literal["http/protobuf", "grpc"]
CASE_ID: Final = "agentic.case.id"
ATTEMPT_ID: Final = "agentic.attempt.id"
_FREE_PORT: Final = "127.0.0.1:0"
_COLLECTORS: Final[Mapping[Protocol, str]] = {"http/protobuf": "otlp_http", "grpc": "otlp_grpc"}
#: Time for a program to react to SIGTERM before it is killed, and for a receiver to finish its requests, seconds.
_GRACE_S: Final = 5.0
#: Interval between checks whether a program and its children have ended, seconds.
_POLL_S: Final = 0.05
#: Windows has no SIGKILL, and ends a process at once at SIGTERM.
_KILL: Final = getattr(signal, "SIGKILL", signal.SIGTERM)
#: Maximum length of the end of a program's output in a message.
_MAX_OUTPUT: Final = 500
_SCOPE: Final = Scope(name="otel_agentic.run")


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One run of the program; `case` is None if the program chooses its queries. `number` is 1-based among `count`."""

    attempt_id: str
    number: int = 1
    count: int = 1
    case: Case | None = None

    @property
    def attributes(self) -> dict[str, str]:
        """The resource attributes of its spans."""
        return {} if self.case is None else {CASE_ID: self.case.case_id, ATTEMPT_ID: self.attempt_id}


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptResult:
    """The end of an attempt: the exit code (None after a time-out), its error if it failed, and its scored conversations."""

    attempt: Attempt
    exit_code: int | None
    error: str | None
    spans: int
    scored: tuple[Scored, ...]


def attempts_of(cases: Sequence[Case], k: int | None) -> list[Attempt]:
    """Return the attempts: each case once, then each case again, until every case has k; one without a case if k is None.

    Raises:
        UsageError: there is no case, or a case has no query.
    """
    run_id = os.urandom(4).hex()
    if k is None:
        return [Attempt(attempt_id=run_id)]
    reviewed = [case for case in cases if case.reviewed]
    if not reviewed:
        raise UsageError("--k: no cases to attempt; give --cases FILE, or set truth.cases in the settings")
    return [
        Attempt(attempt_id=f"{run_id}-{number}", number=number, count=k, case=case)
        for number, case in product(range(1, k + 1), reviewed)
    ]


@dataclass(slots=True)
class _Arrived:
    """The arrivals of an attempt: the number of spans, and the root span of each trace, None if it did not arrive."""

    spans: int = 0
    roots: dict[str, str | None] = field(default_factory=dict)


class AttemptReceiver:
    """Stores the spans that arrive, with the resource attributes of the current attempt; see `Submits`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._attributes: Mapping[str, str] = {}
        self._arrived = _Arrived()

    def begin(self, attempt: Attempt) -> None:
        """Assign the spans that arrive from now on to an attempt."""
        with self._lock:
            self._attributes, self._arrived = attempt.attributes, _Arrived()

    @property
    def arrived(self) -> _Arrived:
        """The arrivals of the current attempt."""
        return self._arrived

    def accept(self, batch: SpanBatch) -> Receipt:
        """Store a batch; see `Sink.accept`."""
        return self.submit(batch).result()

    def submit(self, batch: SpanBatch) -> Future[Receipt]:
        """Start storing a batch; see `Submits.submit`."""
        with self._lock:
            arrived, attributes = self._arrived, self._attributes
            arrived.spans += len(batch.spans)
            for span in batch.spans:
                root = span.span_id if span.parent_span_id is None else None
                arrived.roots[span.trace_id] = arrived.roots.get(span.trace_id) or root
        return self._engine.store.submit(_with_attributes(batch, attributes))


def _with_attributes(batch: SpanBatch, attributes: Mapping[str, str]) -> SpanBatch:
    """Return the batch with attributes added to each resource that lacks them, because not every SDK reads its environment."""
    resources: dict[int, Resource] = {}

    def completed(resource: Resource) -> Resource:
        if id(resource) not in resources:
            resources[id(resource)] = replace(resource, attributes={**attributes, **resource.attributes})
        return resources[id(resource)]

    if not attributes:
        return batch
    return replace(
        batch,
        spans=tuple(replace(span, resource=completed(span.resource)) for span in batch.spans),
        logs=tuple(replace(log, resource=completed(log.resource)) for log in batch.logs),
    )


@dataclass(slots=True)
class _Lane:
    """A receiver on its own port, to which one program at a time sends its spans."""

    receiver: AttemptReceiver
    endpoint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ended:
    """An attempt whose program has ended and whose conversations are not scored yet."""

    attempt: Attempt
    exit_code: int | None
    error: str | None
    arrived: _Arrived


class AttemptRunner:
    """Runs attempts against receivers on free ports of this machine, up to `jobs` of them at the same time.

    Conversations are rebuilt and scored in the order of the attempts, as soon as the program of an attempt and those of all earlier
    attempts have ended, so that the results do not depend on the number of jobs.
    """

    def __init__(
        self,
        engine: Engine,
        command: Sequence[str],
        *,
        protocol: Protocol = "http/protobuf",
        timeout_s: float | None,
        jobs: int = 1,
    ) -> None:
        """Create a runner; see `running_attempts`, which also starts the receivers."""
        self._engine = engine
        self._command = tuple(command)
        self._protocol = protocol
        self._timeout_s = timeout_s
        self._jobs = jobs
        self._lanes: list[_Lane] = []
        self._free: SimpleQueue[_Lane] = SimpleQueue()
        #: The running programs, and whether no further program may start.
        self._running: set[subprocess.Popen[bytes]] = set()
        self._stopped = False
        self._lock = threading.Lock()
        self._latest: Conversation | None = None
        #: Failed attempts without a conversation, until another one shows which agent it is.
        self._unattributed: list[AttemptResult] = []

    @property
    def endpoint(self) -> str:
        """The address to which the program sends its spans; with several jobs, the address of the first."""
        return self._lanes[0].endpoint

    @contextmanager
    def receiving(self) -> Iterator[None]:
        """Run the receivers until the block ends."""
        settings = self._engine.settings.model_copy(
            update={"receive": ReceiveSettings(grpc=_FREE_PORT, http=_FREE_PORT)}
        )
        source = plugins.get("collectors", _COLLECTORS[self._protocol]).load()
        with ExitStack() as stack:
            for _ in range(self._jobs):
                collector: Collector = source.from_settings(settings)
                receiver = AttemptReceiver(self._engine)
                collector.start(receiver)
                stack.callback(collector.stop, _GRACE_S)
                self._lanes.append(_Lane(receiver, collector.endpoint))
                self._free.put(self._lanes[-1])
            yield

    def run(self, attempts: Sequence[Attempt]) -> Iterator[AttemptResult]:
        """Run attempts and yield their results; those that cannot be attributed to an agent yet are yielded last.

        If the caller stops or is interrupted, all programs are ended.
        """
        rebuild_pending(self._engine, lambda *_: None)  # what an interrupted run left
        with ThreadPoolExecutor(self._jobs, thread_name_prefix="attempt") as pool:
            try:
                for future in [pool.submit(self._run, attempt) for attempt in attempts]:
                    result = self._scored(future.result())
                    if result.scored or result.attempt.case is None:
                        yield result
                    else:
                        self._unattributed.append(result)
                    if self._latest is not None:
                        yield from self._attributed()
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                self._stop()
                raise
        yield from self._attributed()

    def _stop(self) -> None:
        """End all programs, concurrently, and start no others."""
        with self._lock:
            self._stopped = True
            running = list(self._running)
        with ThreadPoolExecutor(max(1, len(running))) as pool:
            list(pool.map(_end, running))

    def _run(self, attempt: Attempt) -> _Ended:
        lane = self._free.get()
        try:
            lane.receiver.begin(attempt)
            exit_code, error = self._execute(attempt, lane.endpoint)
            arrived = lane.receiver.arrived
            self._store_marks(attempt, arrived, error if attempt.case is not None else None)
            return _Ended(attempt=attempt, exit_code=exit_code, error=error, arrived=arrived)
        finally:
            self._free.put(lane)

    def _scored(self, ended: _Ended) -> AttemptResult:
        scored = self._score_pending(ended.arrived.roots)
        return AttemptResult(
            attempt=ended.attempt,
            exit_code=ended.exit_code,
            error=ended.error,
            spans=ended.arrived.spans,
            scored=scored,
        )

    def _attributed(self) -> Iterator[AttemptResult]:
        """Store the failed attempts without a conversation as conversations of the agent, and yield them."""
        for result in self._unattributed:
            error = result.error or ("no spans arrived" if not result.spans else "its spans contain no agent run")
            span = self._failed_run(result.attempt, error)
            batch = SpanBatch(spans=(span,))
            self._engine.store.accept(_with_attributes(batch, result.attempt.attributes))
            yield replace(result, error=error, scored=self._score_pending({span.trace_id}))
        self._unattributed.clear()

    def _store_marks(self, attempt: Attempt, arrived: _Arrived, error: str | None) -> None:
        """Store a span in each trace of the attempt that marks the end of its conversation."""
        now_ns = self._engine.clock()
        marks = tuple(
            _span(
                "end of the run",
                trace_id=trace_id,
                parent_span_id=root,
                time_ns=now_ns,
                attributes={"agentic.conversation.end": True},
                error=error,
                resource=Resource(attributes=attempt.attributes),
            )
            for trace_id, root in list(arrived.roots.items())  # late spans may add to it
        )
        if marks:
            self._engine.store.accept(SpanBatch(spans=marks))

    def _failed_run(self, attempt: Attempt, error: str) -> Span:
        """Return the span of an agent run that failed before it recorded anything."""
        latest, case = self._latest, attempt.case
        resource = {
            "service.name": latest.service if latest else Path(self._command[0]).name,
            "service.version": latest.agent_version if latest else None,
            "deployment.environment.name": latest.environment if latest else None,
        }
        query = case.turns[0].query if case is not None and case.turns else None
        message = [{"role": "user", "parts": [{"type": "text", "content": query}]}]
        attributes = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": latest.agent_name if latest else None,
            "gen_ai.input.messages": None if query is None else json.dumps(message),
            "agentic.conversation.end": True,
        }
        return _span(
            "invoke_agent",
            trace_id=os.urandom(16).hex(),
            parent_span_id=None,
            time_ns=self._engine.clock(),
            attributes={name: value for name, value in attributes.items() if value is not None},
            error=error,
            resource=Resource(attributes={name: value for name, value in resource.items() if value}),
        )

    def _score_pending(self, own: Iterable[str]) -> tuple[Scored, ...]:
        """Rebuild, close and score the conversations of traces, and return those with a turn.

        Other traces are left alone, because the programs that send them may still run.
        """
        own = frozenset(own)
        rebuilt = rebuild_pending(self._engine, lambda *_: None, traces=own)
        keys = [saved.key for saved in rebuilt.saved if saved.turn_count]
        if not keys:
            return ()
        with self._engine.store.read() as con:
            self._latest = max(load_conversations(con, keys), key=lambda conversation: conversation.ended_ns)
            own_keys = conversations_of(con, own, self._engine.store.known_ids)
        runner = self._engine.runner
        scored: list[Scored] = []
        runner.evaluate(
            runner.truth(),
            EvaluationRequest(keys=keys, chosen=runner.chosen),
            lambda some, _: scored.extend(some),
            self._engine.stopping.is_set,
        )
        # Conversations of earlier attempts are among them if the new ones changed their number, such as `1#2`.
        return tuple(
            item for item in scored if (item.conversation.environment, item.conversation.conversation_id) in own_keys
        )

    def _execute(self, attempt: Attempt, endpoint: str) -> tuple[int | None, str | None]:
        """Run the program; return its exit code (None after a time-out), and why it failed.

        Raises:
            UsageError: the program cannot be started.
        """
        command = [_substituted(argument, attempt.case) for argument in self._command]
        alone = attempt.case is None
        with TemporaryFile() as output:
            process = self._started(
                command,
                env=self._environment(attempt, endpoint),
                stdin=None if alone else subprocess.DEVNULL,
                stdout=None if alone else output,
                stderr=None if alone else subprocess.STDOUT,
                start_new_session=not alone,  # so that a time-out ends its children, too
            )
            try:
                code = process.wait(self._timeout_s)
            except subprocess.TimeoutExpired:
                _end(process)
                return None, f"timed out after {self._timeout_s:g} s{_last_line(output)}"
            finally:
                with self._lock:
                    self._running.discard(process)
            return code, None if code == 0 else f"{_exit_text(code)}{_last_line(output)}"

    def _started(self, command: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
        with self._lock:
            if self._stopped:
                raise CancelledError
            try:
                process = subprocess.Popen(command, **options)  # noqa: S603 — the user's own command
            except OSError as error:
                raise UsageError(f"{command[0]}: {error.strerror}; give a program after --") from error
            self._running.add(process)
            return process

    def _environment(self, attempt: Attempt, endpoint: str) -> dict[str, str]:
        """Return the variables of the program: those of this process, with telemetry sent to the receivers."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_EXPORTER_OTLP_")}
        attributes = inherited.get("OTEL_RESOURCE_ATTRIBUTES")
        own = [f"{name}={quote(value, safe='')}" for name, value in attempt.attributes.items()]
        environment = {
            **content_variables(inherited),
            "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint,
            "OTEL_EXPORTER_OTLP_PROTOCOL": self._protocol,
            "OTEL_TRACES_EXPORTER": "otlp",
            "OTEL_LOGS_EXPORTER": "otlp",
            "OTEL_METRICS_EXPORTER": "none",
            "OTEL_RESOURCE_ATTRIBUTES": ",".join([*([attributes] if attributes else []), *own]),
        }
        if attempt.case is not None:
            environment["OTEL_AGENTIC_CASE"] = json.dumps(record_of(attempt.case), ensure_ascii=False)
        return environment


@contextmanager
def running_attempts(
    settings: Settings, command: Sequence[str], *, protocol: Protocol, timeout_s: float | None, jobs: int = 1
) -> Iterator[tuple[Engine, AttemptRunner]]:
    """Open the store, create it if it is missing, and start the receivers; all of it ends with the block.

    Raises:
        StoreError: the file cannot be used.
    """
    with orderly_end(), Engine(settings, create=True, upgrade=True) as engine:
        runner = AttemptRunner(engine, command, protocol=protocol, timeout_s=timeout_s, jobs=jobs)
        with runner.receiving():
            yield engine, runner


@contextmanager
def orderly_end() -> Iterator[None]:
    """Turn a SIGTERM into `SystemExit`, so that this process ends its own processes before it exits."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _substituted(argument: str, case: Case | None) -> str:
    query = case.turns[0].query if case is not None and case.turns else None
    return argument if query is None else argument.replace("{query}", query)


def _span(
    name: str,
    *,
    trace_id: str,
    parent_span_id: str | None,
    time_ns: int,
    attributes: Mapping[str, Any],
    error: str | None,
    resource: Resource,
) -> Span:
    return Span(
        trace_id=trace_id,
        span_id=os.urandom(8).hex(),
        parent_span_id=parent_span_id,
        name=name,
        kind=SpanKind.INTERNAL,
        start_ns=time_ns,
        end_ns=time_ns,
        status=StatusCode.UNSET if error is None else StatusCode.ERROR,
        status_message=error or "",
        attributes=attributes,
        events=(),
        links=(),
        resource=resource,
        scope=_SCOPE,
    )


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ask a program to end, with its children if it leads a process group of its own, and kill those that do not end."""
    with suppress(ProcessLookupError):
        has_group = hasattr(os, "killpg") and os.getpgid(process.pid) == process.pid
        send = partial(os.killpg, process.pid) if has_group else process.send_signal
        send(signal.SIGTERM)
        deadline_s = time.monotonic() + _GRACE_S
        while time.monotonic() < deadline_s:
            if process.poll() is not None:
                if not has_group:
                    return
                os.killpg(process.pid, 0)  # fails once no child is left
            time.sleep(_POLL_S)
        send(_KILL)
    process.wait()


def _exit_text(code: int) -> str:
    return f"exit code {code}" if code > 0 else f"ended by signal {signal.Signals(-code).name}"


def _last_line(output: Any) -> str:
    """Return the last line of a program's output as the end of a message; empty without output."""
    output.seek(0, os.SEEK_END)
    output.seek(max(0, output.tell() - _MAX_OUTPUT))
    lines = output.read().decode(errors="replace").strip().splitlines()
    return f": {lines[-1].strip()}" if lines else ""
