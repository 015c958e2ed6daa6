"""Redaction of received spans, log records, resources and scopes, with counts of the redactions.

Nearly all spans contain nothing to redact. A batch is therefore written as JSON text and searched in one pass; only if that
matches are smaller groups searched, and texts read one by one. A span without a match is passed on as it is.
"""

from __future__ import annotations

import secrets
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import cache
from typing import Any, Final, TypeVar

import orjson

from otel_agentic.config import RedactionSettings
from otel_agentic.redaction.engine import Redactor
from otel_agentic.redaction.rules import rules_of
from otel_agentic.spans.model import LogRecord, Resource, Scope, Span, SpanBatch

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


_Record = TypeVar("_Record")
KEY_BYTES: Final = 32


class CountingRedactor:
    """Redacts everything that is about to be written or shown, and counts the redactions. Thread-safe.

    Methods that need the key may raise `StoreUnusableError` if it has to be created and cannot be.
    """

    def __init__(self, settings: RedactionSettings | None = None, key: Callable[[], bytes] | None = None) -> None:
        """Prepare the rules.

        Args:
            settings: the rules to apply; None applies the defaults, that is credentials.
            key: returns the key of the marks, 32 bytes; None creates a key that is lost with this object.
        """
        self._redactor = BatchRedactor.from_settings(settings or RedactionSettings(), key or cache(_random_key))
        self._counts: Counter[str] = Counter()
        self._counts_lock = threading.Lock()

    def batch(self, batch: SpanBatch) -> SpanBatch:
        """Return the batch as it may be written, with redactions counted in `altered`."""
        clean = self._redactor.batch(batch)
        if clean is not batch:
            self._count(Counter(clean.altered) - Counter(batch.altered))
        return clean

    def value(self, value: Any) -> Any:
        """Return a plain Python value as it may be written, the same object if nothing is redacted."""
        counts: Counter[str] = Counter()
        clean = self._redactor.value(value, counts)
        if counts:
            self._count(counts)
        return clean

    def record(self, record: _Record) -> _Record:
        """Return a dataclass of plain values and nested dataclasses as it may be shown; see `value`."""
        changes = {}
        for field in fields(record):  # type: ignore[arg-type] # a dataclass
            old = getattr(record, field.name)
            new = self._records(old) if isinstance(old, tuple) else self.value(old)
            if new is not old:
                changes[field.name] = new
        return replace(record, **changes) if changes else record  # type: ignore[type-var] # a dataclass

    def redacts_field(self, name: str) -> bool:
        """Return whether every value of a field with this name is redacted."""
        return self._redactor.redacts_field(name)

    @property
    def counts(self) -> dict[str, int]:
        """The redactions so far, by reason."""
        with self._counts_lock:
            return dict(self._counts)

    def _records(self, old: tuple[Any, ...]) -> tuple[Any, ...]:
        new = tuple(self.record(item) if is_dataclass(item) else self.value(item) for item in old)
        return old if all(item is other for item, other in zip(new, old, strict=True)) else new

    def _count(self, counts: Counter[str]) -> None:
        with self._counts_lock:
            self._counts += counts


def _random_key() -> bytes:
    return secrets.token_bytes(KEY_BYTES)
