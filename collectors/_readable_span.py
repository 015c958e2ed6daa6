"""`ReadableSpan` of the OpenTelemetry SDK -> `Span`, as if it had come by OTLP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_agentic.spans import Resource, Scope, SpanBatch, SpanEvent, SpanLink
from otel_agentic.spans.records import OWN_SCOPE, OWN_TELEMETRY, build_span
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
from otel_agentic.spans.tally import Tally

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterable, Mapping

    from opentelemetry.sdk.resources import Resource as SdkResource
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope
    from opentelemetry.trace import SpanContext

    from otel_agentic.spans import Limits, Span


class SpanReader:
    """Reads batches of finished spans; spans of one resource and scope share these, as in an OTLP block."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits

    def read(self, spans: Iterable[ReadableSpan]) -> SpanBatch:
        """Return the spans as a batch."""
        tally = Tally()
        resources: dict[int, Resource] = {}
        scopes: dict[int, Scope] = {}
        kept = []
        for raw in spans:
            sdk_scope = raw.instrumentation_scope
            if sdk_scope is not None and sdk_scope.name == OWN_SCOPE:
                tally.ignored[OWN_TELEMETRY] += 1
                continue
            # The batch holds the SDK's objects, so their identity stays theirs while it is read.
            resource = resources.get(id(raw.resource)) or self._resource(raw.resource, tally)
            scope = scopes.get(id(sdk_scope)) or self._scope(sdk_scope, tally)
            resources[id(raw.resource)], scopes[id(sdk_scope)] = resource, scope
            kept.append(self._span(raw, resource, scope, tally))
        return tally.batch(spans=[span for span in kept if span is not None])

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
