"""Redaction of received spans, log records, resources and scopes.

Nearly all spans contain nothing to redact. A batch is therefore written as JSON text and searched in one pass; only if that
matches are smaller groups searched, and texts read one by one. A span without a match is passed on as it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeVar

import orjson

from otel_agentic.spans.model import LogRecord, Resource, Scope, Span, SpanBatch
from otel_agentic.spans.redact import Redactor
from otel_agentic.spans.redact_rules import rules_of

if TYPE_CHECKING:
    from otel_agentic.config import RedactionSettings

_Item = TypeVar("_Item", Span, LogRecord)
_Part = TypeVar("_Part")

#: Items with a possible match among them are searched again in this many groups.
_PARTS: Final = 16
#: Fields that are not searched: the decoders have checked that they are hexadecimal digits.
_IDS: Final = frozenset({"trace_id", "span_id", "parent_span_id"})


class BatchRedactor(Redactor):
    """Redacts spans and log records. Thread-safe: it has no state."""

    @classmethod
    def from_settings(cls, settings: RedactionSettings, key: Callable[[], bytes]) -> BatchRedactor:
        """Return a redactor with the rules of the settings.

        Raises:
            ValueError: RE2 does not accept a pattern of the settings; loaded settings have been checked for that.
        """
        return cls(rules_of(settings), key, settings.keep_fields)

    def batch(self, batch: SpanBatch) -> SpanBatch:
        """Return the redacted batch, with redactions counted in `altered`; the same object if nothing is redacted."""
        if not self.rules:
            return batch
        counts: Counter[str] = Counter()
        shared: dict[int, Resource | Scope] = {}
        spans = self._items(batch.spans, _content_of_span, shared, counts)
        logs = self._items(batch.logs, _content_of_log, shared, counts)
        if not counts:
            return batch
        return replace(batch, spans=spans, logs=logs, altered=Counter(batch.altered) + counts)

    def _items(
        self,
        items: Sequence[_Item],
        content_of: Callable[[_Item], object],
        shared: dict[int, Resource | Scope],
        counts: Counter[str],
    ) -> tuple[_Item, ...]:
        for part in {id(part): part for item in items for part in (item.resource, item.scope)}.values():
            if id(part) not in shared and self._may_hold(part):
                shared[id(part)] = self._part(part, counts)
        cleaned = self._cleaned(items, content_of, counts)
        return tuple([_with_shared(item, shared) for item in cleaned] if shared else cleaned)

    def _cleaned(
        self, items: Sequence[_Item], content_of: Callable[[_Item], object], counts: Counter[str]
    ) -> Sequence[_Item]:
        """Return redacted items: all are searched at once, then in smaller and smaller groups if there is a match."""
        if not items or not self._may_hold([content_of(item) for item in items]):
            return items
        if len(items) == 1:
            return [self._part(items[0], counts)]
        step = -(-len(items) // _PARTS)
        groups = (items[start : start + step] for start in range(0, len(items), step))
        return [item for group in groups for item in self._cleaned(group, content_of, counts)]

    def _part(self, part: _Part, counts: Counter[str]) -> _Part:
        """Return a span, log record, event, link, resource or scope with its content redacted."""
        changes = {}
        kind: Any = type(part)
        for name in _text_fields(kind):
            old = getattr(part, name)
            if isinstance(old, tuple):  # events and links
                parts = tuple(self._part(item, counts) for item in old)
                new: Any = old if all(item is other for item, other in zip(parts, old, strict=True)) else parts
            else:
                new = self.value(old, counts)
            if new is not old:
                changes[name] = new
        return replace(part, **changes) if changes else part  # type: ignore[type-var] # every part is a dataclass

    def _may_hold(self, content: object) -> bool:
        """Return whether some content may contain something to redact; always true with patterns from the settings.

        Escapes could hide text from those patterns.
        """
        if self.own:
            return True
        try:
            return self.glance(orjson.dumps(content, default=_plain))
        except TypeError:  # values that JSON cannot represent are searched one by one
            return True


def _with_shared(item: _Item, cleaned: Mapping[int, Any]) -> _Item:
    """Return an item with its redacted resource and scope."""
    resource = cleaned.get(id(item.resource), item.resource)
    scope = cleaned.get(id(item.scope), item.scope)
    same = resource is item.resource and scope is item.scope
    return item if same else replace(item, resource=resource, scope=scope)


@cache
def _text_fields(kind: type[Any]) -> tuple[str, ...]:
    """Return the names of the fields of a record that hold text or values."""
    others = {*_IDS, "resource", "scope", "kind", "status"}
    return tuple(field.name for field in fields(kind) if field.name not in others and not field.name.endswith("_ns"))


def _content_of_span(span: Span) -> object:
    return (span.name, span.status_message, span.attributes, span.events, span.links)


def _content_of_log(log: LogRecord) -> object:
    return (log.event_name, log.body, log.attributes)


def _plain(value: object) -> object:
    if isinstance(value, bytes):
        return value.decode("latin-1")
    return dict(value) if isinstance(value, Mapping) else str(value)
