"""Spans of the same process, without a network: a span processor for the OpenTelemetry SDK."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from opentelemetry import context as otel_context
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
from opentelemetry.sdk.trace import Span as SdkSpan

from otel_agentic.config import ReceiveSettings
from otel_agentic.errors import OverloadedError, StoreError, UsageError
from otel_agentic.spans import Limits, Receipt, Resource, Scope, Sink, Span, SpanBatch, SpanEvent, SpanLink
from otel_agentic.spans.model import OWN_SCOPE, OWN_TELEMETRY, Tally, build_span
from otel_agentic.spans.sanitize import (
    CUT_ATTRIBUTES,
    CUT_EVENTS,
    DROPPED_LINK,
    SPAN_ID_HEX,
    TRACE_ID_HEX,
    clean_name,
    clean_time,
    clean_value,
    first_of,
    id_of_text,
)

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.resources import Resource as SdkResource
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope
    from opentelemetry.trace import SpanContext


class SpanReader:
    """Reads batches of finished spans; spans with the same resource and scope share them, as in an OTLP block."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits

    def read(self, spans: Iterable[ReadableSpan]) -> SpanBatch:
        """Return the spans as a batch."""
        tally = Tally()
        resources: dict[int, Resource] = {}
        scopes: dict[int, Scope] = {}
        spans_read = []
        for raw in spans:
            sdk_scope = raw.instrumentation_scope
            if sdk_scope is not None and sdk_scope.name == OWN_SCOPE:
                tally.ignored[OWN_TELEMETRY] += 1
                continue
            # The batch references the SDK's objects, so their ids stay unique while it is read.
            resource = resources.get(id(raw.resource)) or self._resource(raw.resource, tally)
            scope = scopes.get(id(sdk_scope)) or self._scope(sdk_scope, tally)
            resources[id(raw.resource)], scopes[id(sdk_scope)] = resource, scope
            spans_read.append(self._span(raw, resource, scope, tally))
        return tally.batch(spans=[span for span in spans_read if span is not None])

    def _span(self, raw: ReadableSpan, resource: Resource, scope: Scope, tally: Tally) -> Span | None:
        trace_id, span_id = _ids(raw.context)
        start_ns = raw.start_time or 0
        return build_span(
            trace_id=trace_id,
            span_id=span_id,
            parent_span_id=_ids(raw.parent)[1] if raw.parent is not None else None,
            name=raw.name,
            kind=raw.kind.value + 1,  # the API counts kinds from 0, OTLP from 1
            start_ns=start_ns,
            end_ns=raw.end_time or 0,
            status=raw.status.status_code.value,
            status_message=raw.status.description or "",
            attributes=self._attributes(raw.attributes, tally.altered),
            events=self._events(raw, start_ns, tally),
            links=self._links(raw, tally),
            resource=resource,
            scope=scope,
            limits=self._limits,
            tally=tally,
        )

    def _events(self, raw: ReadableSpan, start_ns: int, tally: Tally) -> tuple[SpanEvent, ...]:
        return tuple(
            SpanEvent(
                name=clean_name(event.name, self._limits, tally.altered),
                time_ns=clean_time(event.timestamp, start_ns, tally.altered),
                attributes=self._attributes(event.attributes, tally.altered),
            )
            for event in first_of(raw.events, self._limits.max_events, CUT_EVENTS, tally.altered)
        )

    def _links(self, raw: ReadableSpan, tally: Tally) -> tuple[SpanLink, ...]:
        links = []
        for link in first_of(raw.links, self._limits.max_events, CUT_EVENTS, tally.altered):
            trace_id, span_id = _ids(link.context)
            if trace_id and span_id:
                attributes = self._attributes(link.attributes, tally.altered)
                links.append(SpanLink(trace_id=trace_id, span_id=span_id, attributes=attributes))
            else:
                tally.altered[DROPPED_LINK] += 1
        return tuple(links)

    def _resource(self, raw: SdkResource, tally: Tally) -> Resource:
        attributes = self._attributes(raw.attributes, tally.altered)
        return Resource(attributes=attributes, schema_url=raw.schema_url or "")

    def _scope(self, raw: InstrumentationScope | None, tally: Tally) -> Scope:
        if raw is None:
            return Scope()
        attributes = self._attributes(raw.attributes, tally.altered)
        name = clean_name(raw.name, self._limits, tally.altered)
        return Scope(name=name, version=raw.version or "", attributes=attributes, schema_url=raw.schema_url or "")

    def _attributes(self, raw: Mapping[str, Any] | None, altered: Counter[str]) -> dict[str, Any]:
        pairs = first_of(list((raw or {}).items()), self._limits.max_attributes, CUT_ATTRIBUTES, altered)
        return {
            clean_name(str(key), self._limits, altered): clean_value(value, self._limits, altered)
            for key, value in pairs
        }


def _ids(context: SpanContext | None) -> tuple[str, str]:
    if context is None:
        return "", ""
    trace_id, span_id = f"{context.trace_id:0{TRACE_ID_HEX}x}", f"{context.span_id:0{SPAN_ID_HEX}x}"
    return id_of_text(trace_id, TRACE_ID_HEX), id_of_text(span_id, SPAN_ID_HEX)


#: Instrumentations record nothing while this key is set, so that the sink's own work creates no spans.
_SUPPRESS: Final = otel_context._SUPPRESS_INSTRUMENTATION_KEY  # noqa: SLF001 — the key has no public name

_BATCH_SPANS: Final = 512
_BATCH_WAIT_S: Final = 0.2
_QUEUE_SPANS: Final = 8_192
#: The longest time that the end of a span waits for room in the queue before the span is dropped and counted.
_ROOM_WAIT_S: Final = 0.1
_RETRY_WAITS_S: Final = (0.1, 0.2, 0.4, 0.8, 1.6)
_SHUTDOWN_S: Final = 30.0

_logger = logging.getLogger(__name__)


class AgenticSpanProcessor(SpanProcessor):
    """Passes the finished spans of this process to a sink, in batches on a separate thread.

    Nothing is dropped silently: if the queue is full, the end of a span waits for 100 ms; then the span is counted in
    `dropped`, and the first drop is logged. The same applies to a batch that the sink refuses in all attempts.

    Args:
        sink: the destination of batches, for example the pipeline.
        limits: the limits of a span; the default settings if not given.
        queue_spans: finished spans that may wait.

    Example:
        ```
        provider = TracerProvider()
        provider.add_span_processor(AgenticSpanProcessor(sink))
        trace.set_tracer_provider(provider)
        ...                       # run the agent
        provider.force_flush()    # True: the sink holds every span that ended before
        provider.shutdown()
        ```
    """

    def __init__(self, sink: Sink, *, limits: Limits | None = None, queue_spans: int = _QUEUE_SPANS) -> None:
        if not isinstance(sink, Sink):
            raise UsageError(
                f"AgenticSpanProcessor({sink!r}): pass a sink; a DuckDB file has "
                f"`otel_agentic.open({str(sink)!r}, create=True).sink`"
            )
        self._sink = sink
        self._reader = SpanReader(limits or Limits.from_settings(ReceiveSettings()))
        self._queue_spans = queue_spans
        self._queue: deque[ReadableSpan] = deque()
        self._changed = threading.Condition()
        self._queued = 0  # spans ever put in the queue; `_done` of these are delivered or dropped
        self._done = 0
        self._dropped = 0
        self._flushing = 0
        self._stopping = False
        self._worker = threading.Thread(target=self._work, name="otel-agentic-spans", daemon=True)
        self._worker.start()

    @property
    def dropped(self) -> int:
        """Spans that did not fit into the queue or that the sink refused in all attempts."""
        return self._dropped

    def on_start(self, span: SdkSpan, parent_context: Context | None = None) -> None:
        """Do nothing: only finished spans count."""

    def on_end(self, span: ReadableSpan) -> None:
        """Queue a finished span; waits at most 100 ms for room."""
        if span.context is None or not span.context.trace_flags.sampled:
            return
        with self._changed:
            room = self._changed.wait_for(self._has_room, _ROOM_WAIT_S)
            if not room or self._stopping:
                self._drop(1, "the processor is shut down" if self._stopping else "the queue is full")
                return
            self._queue.append(span)
            self._queued += 1
            if len(self._queue) in (1, _BATCH_SPANS):  # the worker waits for a span, or for a full batch
                self._changed.notify_all()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Return whether the sink acknowledged in time every span that ended before; False if one was dropped."""
        with self._changed:
            goal, dropped_before = self._queued, self._dropped
            self._flushing += 1
            self._changed.notify_all()
            try:
                is_delivered = self._changed.wait_for(lambda: self._done >= goal, timeout_millis / 1000)
            finally:
                self._flushing -= 1
            return is_delivered and self._dropped == dropped_before

    def shutdown(self) -> None:
        """Deliver the queued spans, for at most 30 s, and end the thread. Spans that end later are dropped and counted."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        self._worker.join(_SHUTDOWN_S)

    def _has_room(self) -> bool:
        return self._stopping or len(self._queue) < self._queue_spans

    def _drop(self, count: int, reason: str) -> None:
        if not self._dropped:
            _logger.warning("dropping finished spans, %s; later ones are only counted (`dropped`)", reason)
        self._dropped += count

    def _work(self) -> None:
        otel_context.attach(otel_context.set_value(_SUPPRESS, value=True))
        while batch := self._next_batch():
            reason = self._deliver(batch)
            with self._changed:
                self._done += len(batch)
                if reason:
                    self._drop(len(batch), reason)
                self._changed.notify_all()

    def _next_batch(self) -> list[ReadableSpan]:
        """Wait for 512 spans, 200 ms or a flush, and return up to 512 spans; an empty list at shutdown."""
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._stopping)
            self._changed.wait_for(self._is_due, _BATCH_WAIT_S)
            batch = [self._queue.popleft() for _ in range(min(len(self._queue), _BATCH_SPANS))]
            self._changed.notify_all()
            return batch

    def _is_due(self) -> bool:
        return len(self._queue) >= _BATCH_SPANS or self._stopping or self._flushing > 0

    def _deliver(self, spans: list[ReadableSpan]) -> str:
        """Return the reason why the batch was dropped; empty if the sink accepted it."""
        refusal = ""
        for wait_s in (0.0, *_RETRY_WAITS_S):
            time.sleep(wait_s)
            try:
                self._accept(spans)
            except (OverloadedError, StoreError) as error:
                refusal = f"the sink refused them: {error}"
            except Exception as error:
                # The traced program must not be affected by any error of a sink.
                _logger.exception("unforeseen error of the sink")
                return f"the sink failed: {type(error).__name__}"
            else:
                return ""
        return refusal

    def _accept(self, spans: list[ReadableSpan]) -> Receipt:
        return self._sink.accept(self._reader.read(spans))
