"""Redaction of what arrives: spans, log records, their resources and scopes.

Nearly all spans hold nothing to take. A batch of them is written as JSON text and looked at in one pass; only where that
finds something are smaller groups looked at, and texts read one by one. A span without a finding is passed on as it is.
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

#: Spans with a finding among them are looked at again in so many groups.
_PARTS: Final = 16
#: Ids are hexadecimal digits that the decoders have checked.
_IDS: Final = frozenset({"trace_id", "span_id", "parent_span_id"})


class BatchRedactor(Redactor):
    """Takes out what some rules find in spans and log records. Thread-safe: it holds no state."""

    @classmethod
    def from_settings(cls, settings: RedactionSettings, key: Callable[[], bytes]) -> BatchRedactor:
        """Return what takes out what the settings say.

        Raises:
            ValueError: RE2 does not take a pattern of one's own; settings that were loaded have been checked for that.
        """
        return cls(rules_of(settings), key, settings.keep_fields)

    def batch(self, batch: SpanBatch) -> SpanBatch:
        """Return the batch with everything taken out, counted in `altered`; the same object where that is nothing."""
        if not self.rules:
            return batch
        taken: Counter[str] = Counter()
        shared: dict[int, Resource | Scope] = {}
        spans = self._items(batch.spans, _said_by_span, shared, taken)
        logs = self._items(batch.logs, _said_by_log, shared, taken)
        if not taken:
            return batch
        return replace(batch, spans=spans, logs=logs, altered=Counter(batch.altered) + taken)

    def _items(
        self,
        items: Sequence[_Item],
        said: Callable[[_Item], object],
        shared: dict[int, Resource | Scope],
        taken: Counter[str],
    ) -> tuple[_Item, ...]:
        for part in {id(part): part for item in items for part in (item.resource, item.scope)}.values():
            if id(part) not in shared and self._may_hold(part):
                shared[id(part)] = self._part(part, taken)
        cleaned = self._cleaned(items, said, taken)
        return tuple([_with_shared(item, shared) for item in cleaned] if shared else cleaned)

    def _cleaned(self, items: Sequence[_Item], said: Callable[[_Item], object], taken: Counter[str]) -> Sequence[_Item]:
        """Return items cleaned: looked at all at once, and in smaller and smaller groups where there is something."""
        if not items or not self._may_hold([said(item) for item in items]):
            return items
        if len(items) == 1:
            return [self._part(items[0], taken)]
        step = -(-len(items) // _PARTS)
        groups = (items[start : start + step] for start in range(0, len(items), step))
        return [item for group in groups for item in self._cleaned(group, said, taken)]

    def _part(self, part: _Part, taken: Counter[str]) -> _Part:
        """Return a span, log record, event, link, resource or scope with everything taken out of what it says."""
        changes = {}
        kind: Any = type(part)
        for name in _text_fields(kind):
            old = getattr(part, name)
            if isinstance(old, tuple):  # events and links
                parts = tuple(self._part(one, taken) for one in old)
                new: Any = old if all(one is other for one, other in zip(parts, old, strict=True)) else parts
            else:
                new = self.value(old, taken)
            if new is not old:
                changes[name] = new
        return replace(part, **changes) if changes else part  # type: ignore[type-var] # every part is a dataclass

    def _may_hold(self, said: object) -> bool:
        """Return whether there could be anything to take. A pattern of one's own is not asked: escapes would hide it."""
        if self.own:
            return True
        try:
            return self.glance(orjson.dumps(said, default=_plain))
        except TypeError:  # what JSON cannot hold is looked at value by value
            return True


def _with_shared(item: _Item, cleaned: Mapping[int, Any]) -> _Item:
    """Return an item with its resource and scope as they were cleaned."""
    resource = cleaned.get(id(item.resource), item.resource)
    scope = cleaned.get(id(item.scope), item.scope)
    same = resource is item.resource and scope is item.scope
    return item if same else replace(item, resource=resource, scope=scope)


@cache
def _text_fields(kind: type[Any]) -> tuple[str, ...]:
    """Return the fields of a record that hold text or values."""
    apart = {*_IDS, "resource", "scope", "kind", "status"}
    return tuple(field.name for field in fields(kind) if field.name not in apart and not field.name.endswith("_ns"))


def _said_by_span(span: Span) -> object:
    return (span.name, span.status_message, span.attributes, span.events, span.links)


def _said_by_log(log: LogRecord) -> object:
    return (log.event_name, log.body, log.attributes)


def _plain(value: object) -> object:
    if isinstance(value, bytes):
        return value.decode("latin-1")
    return dict(value) if isinstance(value, Mapping) else str(value)
