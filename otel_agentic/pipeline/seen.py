"""Counts of the spans and log records received since the collector started."""

from __future__ import annotations

import threading
from typing import Any

from otel_agentic.spans.ports import Receipt


class ReceivedCounts:
    """Counts received spans and log records by result. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._receipt = Receipt()
        self._late_spans = 0

    def add(self, receipt: Receipt) -> None:
        """Add the receipt of a batch."""
        with self._lock:
            self._receipt += receipt

    def add_late(self, spans: int) -> None:
        """Add spans that arrived after their conversation had closed."""
        with self._lock:
            self._late_spans += spans

    def to_json(self) -> dict[str, Any]:
        """Return the counts as JSON: `reasons` of rejected and ignored items, `altered` values inside stored ones."""
        with self._lock:
            receipt, late = self._receipt, self._late_spans
        counts = {
            "stored": receipt.accepted,
            "duplicate": receipt.duplicate,
            "rejected": receipt.rejected,
            "ignored": receipt.ignored,
            "late": late,
        }
        return {"received": counts, "reasons": dict(receipt.reasons), "altered": dict(receipt.altered)}
