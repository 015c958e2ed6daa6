"""A span processor that counts what leaves the process, and keeps one span back to send it late."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor

if TYPE_CHECKING:
    from collections.abc import Callable

    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import Span

_FLUSH_MILLIS: Final = 10_000


class Outbox(SpanProcessor):
    """Passes finished spans on; those that `is_late` names wait for `release`.

    This stands for what happens in production: a worker that was cut off from the network for a while.
    """

    def __init__(self, onward: SpanProcessor, is_late: Callable[[ReadableSpan], bool]) -> None:
        self._onward = onward
        self._is_late = is_late
        self._held: list[ReadableSpan] = []
        self.passed = 0

    @property
    def held(self) -> int:
        """Spans that wait."""
        return len(self._held)

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Tell the next processor."""
        self._onward.on_start(span, parent_context)

    def on_end(self, span: ReadableSpan) -> None:
        """Pass the span on, or keep it."""
        if self._is_late(span):
            self._held.append(span)
            return
        self.passed += 1
        self._onward.on_end(span)

    def release(self) -> None:
        """Send what waits."""
        for span in self._held:
            self._onward.on_end(span)
        self._held.clear()
        self.force_flush()

    def force_flush(self, timeout_millis: int = _FLUSH_MILLIS) -> bool:
        """Return whether what was passed on is sent."""
        return self._onward.force_flush(timeout_millis)

    def shutdown(self) -> None:
        """Shut the next processor down."""
        self._onward.shutdown()
