"""The state of a running collector: the received spans, whether it accepts spans, and how much work is waiting."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from otel_agentic.spans.ports import Receipt
from otel_agentic.telemetry import Vitals

if TYPE_CHECKING:
    from otel_agentic.engine.engine import Engine
    from otel_agentic.live.assembler import Assembler
    from otel_agentic.live.retention_loop import RetentionLoop
    from otel_agentic.live.scoring_loop import ScoringLoop
    from otel_agentic.store.store import StoreState

#: The phases of a collector.
Phase: TypeAlias = Literal["starting", "running", "stopping"]


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


def vitals_of(
    phase: Phase, engine: Engine, *, assembler: Assembler, scoring: ScoringLoop, retaining: RetentionLoop
) -> Vitals:
    """Return the state of a collector. It reads nothing from the database, so it works while the database is unusable."""
    store, breaker = engine.store.state, engine.evaluating.breaker.state
    why_not = _why_not(phase, store)
    return Vitals(
        ready=why_not is None,
        why_not=why_not,
        queued_requests=store.queued_requests,
        queued_spans=store.queued_spans,
        store_open=store.problem is None,
        store_reopened=store.reopened,
        store_bytes=store.data_bytes,
        log_bytes=store.log_bytes,
        backlog={**assembler.backlog(), "score": scoring.waiting},
        background_share=engine.pressure.share,
        breaker_open=breaker.state != "closed",
        breaker_opened=breaker.opened,
        queries=len(engine.store.user_queries),
        retention_problem=retaining.problem,
        retention=retaining.is_enabled,
    )


def why_not_ready(phase: Phase, engine: Engine) -> str | None:
    """Return the reason why spans are not accepted, or None if they are."""
    return _why_not(phase, engine.store.state)


def _why_not(phase: Phase, store: StoreState) -> str | None:
    if phase != "running":
        return f"the collector is {phase}"
    if store.problem is not None:
        return store.problem
    return f"{store.queued_spans} spans wait to be written: the queue is full" if store.full else None
