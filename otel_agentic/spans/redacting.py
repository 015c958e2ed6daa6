"""Redaction with the rules of the settings and one key, counting the redactions."""

from __future__ import annotations

import secrets
import threading
from collections import Counter
from dataclasses import fields, is_dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeVar

from otel_agentic.config import RedactionSettings
from otel_agentic.spans.redact_batch import BatchRedactor

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_agentic.spans.model import SpanBatch

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
