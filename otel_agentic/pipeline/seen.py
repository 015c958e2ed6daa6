"""What a running collector has received since it started."""

from __future__ import annotations

import threading
from typing import Any

from otel_agentic.spans.ports import Receipt


class Seen:
    """Counts what became of spans and log records. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._receipt = Receipt()
        self._late_spans = 0

    def received(self, receipt: Receipt) -> None:
        """Count what became of a batch."""
        with self._lock:
            self._receipt += receipt

    def late(self, spans: int) -> None:
        """Count spans that came after their conversation had closed."""
        with self._lock:
            self._late_spans += spans

    def told(self) -> dict[str, Any]:
        """Return the counts as JSON can say them: `reasons` of the rejected and ignored, `altered` inside what is kept."""
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
