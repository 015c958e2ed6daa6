"""Redaction in force: the rules of the settings under one key, and what was taken so far."""

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


class Redacting:
    """Takes secrets out of everything that is about to be written, or shown. Thread-safe.

    What takes the key may raise `StoreUnusableError`, where it has to be made and cannot be.
    """

    def __init__(self, settings: RedactionSettings | None = None, key: Callable[[], bytes] | None = None) -> None:
        """Prepare the rules.

        Args:
            settings: what to take; None takes the defaults, that is credentials.
            key: gives what marks are made with, 32 bytes; None makes one that ends with this object.
        """
        self._redactor = BatchRedactor.from_settings(settings or RedactionSettings(), key or cache(_random_key))
        self._taken: Counter[str] = Counter()
        self._counting = threading.Lock()

    def batch(self, batch: SpanBatch) -> SpanBatch:
        """Return the batch as it may be written, what was taken counted in `altered`."""
        clean = self._redactor.batch(batch)
        if clean is not batch:
            self._count(Counter(clean.altered) - Counter(batch.altered))
        return clean

    def value(self, value: Any) -> Any:
        """Return a plain Python value as it may be written, the same object where nothing is taken."""
        taken: Counter[str] = Counter()
        clean = self._redactor.value(value, taken)
        if taken:
            self._count(taken)
        return clean

    def record(self, record: _Record) -> _Record:
        """Return a dataclass of plain values and of such records as it may be shown, the same object as above."""
        changes = {}
        for field in fields(record):  # type: ignore[arg-type] # a dataclass
            old = getattr(record, field.name)
            new = self._records(old) if isinstance(old, tuple) else self.value(old)
            if new is not old:
                changes[field.name] = new
        return replace(record, **changes) if changes else record  # type: ignore[type-var] # a dataclass

    def takes_field(self, name: str) -> bool:
        """Return whether the value of a field of that name is taken, whatever it is."""
        return self._redactor.takes_field(name)

    @property
    def taken(self) -> dict[str, int]:
        """What was taken so far, by reason."""
        with self._counting:
            return dict(self._taken)

    def _records(self, old: tuple[Any, ...]) -> tuple[Any, ...]:
        new = tuple(self.record(one) if is_dataclass(one) else self.value(one) for one in old)
        return old if all(one is other for one, other in zip(new, old, strict=True)) else new

    def _count(self, taken: Counter[str]) -> None:
        with self._counting:
            self._taken += taken


def _random_key() -> bytes:
    return secrets.token_bytes(KEY_BYTES)
