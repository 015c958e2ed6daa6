"""Spans as the columns of the table `spans`: numpy arrays, built column by column."""

from __future__ import annotations

import zlib
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import orjson

from otel_agentic.store.table import json_text, object_array, time_array

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from otel_agentic.dialects.detect import Reader
    from otel_agentic.spans.model import Resource, Scope, Span
    from otel_agentic.store.table import Array

#: Work is divided into this many parts by a stable hash of an id.
BUCKETS: Final = 1024
_ENVIRONMENT_KEYS: Final = ("deployment.environment.name", "deployment.environment")
_PROMOTED: Final = {
    "operation": ("gen_ai.operation.name", "openinference.span.kind"),
    "conversation_id": ("gen_ai.conversation.id", "session.id"),
    "agent_name": ("gen_ai.agent.name", "agent.name"),
    "tool_name": ("gen_ai.tool.name", "tool.name"),
    "model": ("gen_ai.response.model", "gen_ai.request.model", "llm.model_name"),
}
_IDENTITY: Final = attrgetter("trace_id", "span_id", "parent_span_id", "name", "status_message")
_NUMBERS: Final = attrgetter("kind", "status", "start_ns", "end_ns")
_CONTENT: Final = attrgetter("attributes", "events", "links", "resource", "scope")
_TEXT_OR_NONE: Final = {str, type(None)}


def span_columns(spans: Sequence[Span], reader: Reader, now_ns: int) -> dict[str, Array]:
    """Return the columns of at least one span; null is represented by None in an array of objects."""
    trace_ids, span_ids, parents, names, messages = zip(*map(_IDENTITY, spans), strict=True)
    kinds, statuses, starts_ns, ends_ns = zip(*map(_NUMBERS, spans), strict=True)
    attributes, events, links, resources, scopes = zip(*map(_CONTENT, spans), strict=True)
    services, environments, resource_texts = _columns_of(resources, _of_resource)
    scope_names, versions = _columns_of(scopes, _of_scope)
    texts: dict[str, Sequence[str | None]] = {
        "trace_id": trace_ids,
        "span_id": span_ids,
        "parent_span_id": parents,
        "name": names,
        "status_message": [message or None for message in messages],
        "service": services,
        "environment": environments,
        "scope": scope_names,
        "scope_version": versions,
        "dialect": [reader.dialect_of(span)[0].name for span in spans],
        **{column: _promoted(attributes, keys) for column, keys in _PROMOTED.items()},
        "attributes": [json_text(values) for values in attributes],
        "events": [json_text([_event(event) for event in items]) if items else None for items in events],
        "links": [json_text([_link(link) for link in items]) if items else None for items in links],
        "resource": resource_texts,
    }
    return {
        **{column: object_array(values) for column, values in texts.items()},
        "kind": np.array(kinds, dtype=np.uint8),
        "status": np.array(statuses, dtype=np.uint8),
        "start_time": time_array(starts_ns),
        "end_time": time_array(ends_ns),
        "bucket": np.array([bucket_of(trace_id) for trace_id in trace_ids], dtype=np.uint16),
        "received_at": time_array([now_ns] * len(spans)),
    }


def bucket_of(identity: str) -> int:
    """Return a stable number from 0 to 1023 for an id: the same in every process and release."""
    return zlib.crc32(identity.encode()) % BUCKETS


def environment_of(resource: Resource) -> str:
    """Return the deployment environment of a resource, empty if it has none."""
    return next((str(resource.attributes[key]) for key in _ENVIRONMENT_KEYS if resource.attributes.get(key)), "")


def _columns_of(
    items: Sequence[Any], read: Callable[[Any], tuple[str | None, ...]]
) -> Iterator[tuple[str | None, ...]]:
    """Return columns computed from each item; a batch shares few resources and scopes, so each is read once."""
    values = {key: read(item) for key, item in {id(item): item for item in items}.items()}
    return zip(*[values[id(item)] for item in items], strict=True)


def _of_resource(resource: Resource) -> tuple[str | None, ...]:
    return _text(resource.attributes.get("service.name")), environment_of(resource), json_text(resource.attributes)


def _of_scope(scope: Scope) -> tuple[str | None, ...]:
    return scope.name, scope.version or None


def _promoted(attributes: Sequence[Mapping[str, Any]], keys: Sequence[str]) -> Sequence[str | None]:
    """Return a column with the first of the attributes `keys` that each span has."""
    values = [item.get(keys[0]) for item in attributes]
    for key in keys[1:]:
        if None in values:
            values = [item.get(key) if value is None else value for item, value in zip(attributes, values, strict=True)]
    return values if _TEXT_OR_NONE.issuperset(map(type, values)) else [_text(value) for value in values]


def _event(event: Any) -> dict[str, Any]:
    return {"name": event.name, "time_ns": event.time_ns, "attributes": event.attributes}


def _link(link: Any) -> dict[str, Any]:
    return {"trace_id": link.trace_id, "span_id": link.span_id, "attributes": link.attributes}


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return orjson.dumps(value, default=str).decode()
