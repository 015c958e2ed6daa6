"""The counts of a decoder."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from otel_agentic.spans.model import SpanBatch

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from otel_agentic.spans.model import LogRecord, Span


@dataclass(slots=True, kw_only=True)
class Tally:
    """Counts by reason: items that cannot be stored, items that are ignored, and altered details of stored items.

    `size_bytes` is the size of the input.
    """

    rejected: Counter[str] = field(default_factory=Counter)
    ignored: Counter[str] = field(default_factory=Counter)
    altered: Counter[str] = field(default_factory=Counter)
    size_bytes: int = 0

    def batch(self, *, spans: Sequence[Span] = (), logs: Sequence[LogRecord] = ()) -> SpanBatch:
        """Return the decoded items with the counts."""
        return SpanBatch(
            spans=tuple(spans),
            logs=tuple(logs),
            rejected=dict(self.rejected),
            ignored=dict(self.ignored),
            altered=dict(self.altered),
            size_bytes=self.size_bytes,
        )


def merge_batches(batches: Iterable[SpanBatch]) -> SpanBatch:
    """Return one batch with the items of all batches, in order, and the sums of their counts."""
    tally = Tally()
    spans: list[Span] = []
    logs: list[LogRecord] = []
    for batch in batches:
        spans += batch.spans
        logs += batch.logs
        tally.rejected.update(batch.rejected)
        tally.ignored.update(batch.ignored)
        tally.altered.update(batch.altered)
        tally.size_bytes += batch.size_bytes
    return tally.batch(spans=spans, logs=logs)
