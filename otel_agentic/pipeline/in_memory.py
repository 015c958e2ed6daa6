"""Spans -> conversations without a store: from files, OTLP documents, or spans of this process."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from otel_agentic import plugins
from otel_agentic.conversations import assemble, link_segments, read_segments
from otel_agentic.dialects import Reader

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from otel_agentic.config import Settings
    from otel_agentic.conversations.model import Conversation
    from otel_agentic.spans import LogRecord, Span, SpanBatch

_LogKey = tuple[str, str, int, str, str]


@dataclass(slots=True, kw_only=True)
class SpanBuffer:
    """Spans and log records without duplicates: of equal ids the first is kept, as in a store.

    `problems` are sentences about input that could not be read or rebuilt.
    """

    problems: list[str] = field(default_factory=list)
    _spans: dict[tuple[str, str], Span] = field(default_factory=dict)
    _logs: dict[_LogKey, LogRecord] = field(default_factory=dict)

    def add(self, batch: SpanBatch) -> None:
        """Add a batch."""
        for span in batch.spans:
            self._spans.setdefault((span.trace_id, span.span_id), span)
        for log in batch.logs:
            self._logs.setdefault((log.trace_id, log.span_id, log.time_ns, log.event_name, repr(log.body)), log)
        self.problems += [f"{count:,} spans or log records: {reason}" for reason, count in batch.rejected.items()]

    def add_files(self, paths: Sequence[Path], settings: Settings) -> None:
        """Add OTLP files in every form that `ingest` reads, and folders of them.

        Raises:
            BadInputError: a path does not exist or is not a file.
        """
        files = plugins.get("collectors", "files").load().from_settings(settings)
        for chunk in files.read([str(path) for path in paths]):
            if chunk.problem is None:
                self.add(chunk.batch)
            else:
                self.problems.append(chunk.problem)

    def conversations(self, settings: Settings) -> Iterator[Conversation]:
        """Yield the conversations of all spans, closed by the end of the input.

        Raises:
            ConfigError: the settings name an unknown dialect or meaning.
        """
        reader = Reader.from_settings(settings.conversations, settings.dialects)
        segments = read_segments(self._spans.values(), self._logs.values(), reader)
        for linked in link_segments(segments, settings.conversations):
            try:
                yield assemble(linked, settings.conversations, closed_by="end_of_input")
            except Exception as error:  # noqa: BLE001 — reported; an unexpected error must not hide the other conversations
                self.problems.append(
                    f"conversation {linked.conversation_id!r} cannot be rebuilt ({type(error).__name__}: {error}); "
                    "please report it"
                )
