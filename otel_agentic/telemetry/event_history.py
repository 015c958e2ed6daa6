"""Evaluation events of the past, sent over OTLP with their own timestamps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import (
    InMemoryLogRecordExporter,
    LogRecordExportResult,
    SimpleLogRecordProcessor,
)

from otel_agentic.telemetry import names
from otel_agentic.telemetry.delivery import calm
from otel_agentic.telemetry.events import EvaluationEvents, EventOptions
from otel_agentic.telemetry.identity import own_resource, own_version
from otel_agentic.telemetry.sinks import build_exporters

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from opentelemetry.sdk._logs import ReadableLogRecord

    from otel_agentic.config import EmitSettings
    from otel_agentic.conversations.model import Conversation
    from otel_agentic.scoring.model import ConversationScore
    from otel_agentic.telemetry.results import Evaluator

#: Events that wait, and that a request holds, about; a few kilobytes each.
_EVENTS_PER_REQUEST: Final = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class SentEvents:
    """How many events a backend took, and how many it did not; `problem` is the last reason that it gave."""

    sent: int = 0
    lost: int = 0
    problem: str | None = None


class EventHistory:
    """Sends the events of scores at once, and waits for the answer: nothing is dropped for want of room.

    A backend that refuses a request is not asked again: one that takes no logs would make each request wait in vain.
    """

    def __init__(self, emit: EmitSettings, endpoint: str, *, run_id: str) -> None:
        """Prepare; nothing is sent yet.

        Args:
            emit: transport, headers, TLS, limits, explanations, instance id.
            endpoint: the backend, http(s)://host:port.
            run_id: stands on every event, with `backfill` as trigger.

        Raises:
            ConfigError: the endpoint is not http(s)://host:port, or a TLS file cannot be used.
        """
        self._exporters = build_exporters(emit, endpoint, partly={"logs": self._partly})
        self._waiting = InMemoryLogRecordExporter()  # type: ignore[no-untyped-call]  # the SDK leaves it without types
        provider = LoggerProvider(resource=own_resource(emit.instance_id), shutdown_on_exit=False)
        provider.add_log_record_processor(SimpleLogRecordProcessor(self._waiting))
        options = EventOptions(run_id=run_id, trigger="backfill", explanations=emit.explanations)
        self._events = EvaluationEvents(provider.get_logger(names.SCOPE, own_version(), names.SCHEMA_URL), options)
        self._refused = False
        self._sent = self._lost = 0
        self._problem: str | None = None

    @property
    def told(self) -> SentEvents:
        """What became of all events so far."""
        return SentEvents(sent=self._sent, lost=self._lost, problem=self._problem)

    def send(self, judged: Iterable[tuple[Conversation, ConversationScore, Evaluator]]) -> None:
        """Send the events of some scored conversations, each with the end of what was judged as its time. Never raises."""
        for conversation, score, evaluator in judged:
            self._events.emit(conversation, score, evaluator)
            if len(self._waiting.get_finished_logs()) >= _EVENTS_PER_REQUEST:
                self._flush()
        self._flush()

    def close(self) -> None:
        """Close the connection."""
        with calm():
            self._exporters.metrics.shutdown()
            self._exporters.logs.shutdown()  # type: ignore[no-untyped-call]  # the SDK leaves this one without types

    def _flush(self) -> None:
        waiting = self._waiting.get_finished_logs()
        self._waiting.clear()
        for start in range(0, len(waiting), _EVENTS_PER_REQUEST):
            records = waiting[start : start + _EVENTS_PER_REQUEST]
            if self._refused or not self._exported(records):
                self._refused = True
                self._lost += len(records)
            else:
                self._sent += len(records)

    def _exported(self, records: Sequence[ReadableLogRecord]) -> bool:
        with calm() as heard:
            try:
                taken = self._exporters.logs.export(records) is LogRecordExportResult.SUCCESS
            except Exception as error:  # noqa: BLE001 — events lost are told; windows are not to be lost with them
                heard.append(f"{type(error).__name__}: {error}")
                taken = False
        if not taken:
            self._problem = heard[0] if heard else "no reason given"
        return taken

    def _partly(self, rejected: int, why: str) -> None:
        self._sent -= rejected
        self._lost += rejected
        self._problem = why or "no reason given"
