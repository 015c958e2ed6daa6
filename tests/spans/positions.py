"""Every position in a span or log record that can hold text."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from otel_agentic.spans import Resource, Scope, SpanBatch, SpanEvent, SpanLink
from otel_agentic.testing import batch, log_record, span

POSITIONS: dict[str, Callable[[Any], SpanBatch]] = {
    "name": lambda text: batch(replace(span(), name=str(text))),
    "status message": lambda text: batch(replace(span(), status_message=str(text))),
    "attribute": lambda text: batch(span(attributes={"a": text})),
    "attribute key": lambda text: batch(span(attributes={str(text): 1})),
    "list": lambda text: batch(span(attributes={"a": ["x", text]})),
    "map": lambda text: batch(span(attributes={"a": {"b": [{"c": text}]}})),
    "map key": lambda text: batch(span(attributes={"a": {str(text): True}})),
    "bytes": lambda text: batch(span(attributes={"a": str(text).encode()})),
    "json text": lambda text: batch(span(attributes={"a": json.dumps({"b": [text]})})),
    "json in json": lambda text: batch(span(attributes={"a": json.dumps({"b": json.dumps([text])})})),
    "event name": lambda text: batch(replace(span(), events=(SpanEvent(name=str(text), time_ns=1),))),
    "event attribute": lambda text: batch(
        replace(span(), events=(SpanEvent(name="e", time_ns=1, attributes={"a": text}),))
    ),
    "link attribute": lambda text: batch(
        replace(span(), links=(SpanLink(trace_id="1" * 32, span_id="2" * 16, attributes={"a": text}),))
    ),
    "resource attribute": lambda text: batch(replace(span(), resource=Resource(attributes={"a": text}))),
    "resource schema": lambda text: batch(replace(span(), resource=Resource(schema_url=f"https://x/{text}"))),
    "scope name": lambda text: batch(replace(span(), scope=Scope(name=str(text)))),
    "scope attribute": lambda text: batch(replace(span(), scope=Scope(name="s", attributes={"a": text}))),
    "log body": lambda text: batch(replace(log_record(span(), "e"), body=text)),
    "log body map": lambda text: batch(replace(log_record(span(), "e"), body={"content": [{"text": text}]})),
    "log attribute": lambda text: batch(replace(log_record(span(), "e"), attributes={"a": text})),
    "log event name": lambda text: batch(replace(log_record(span(), "e"), event_name=str(text))),
    "log resource": lambda text: batch(replace(log_record(span(), "e"), resource=Resource(attributes={"a": text}))),
}
