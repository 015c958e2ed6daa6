"""Spans -> conversations without a store: of files, of OTLP documents, of the spans of this very process."""

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
class Gathered:
    """Spans and log records as they come in, each once: of equal ids the first to arrive counts, as in a store.

    `problems` are sentences about what could not be read or rebuilt.
    """

    problems: list[str] = field(default_factory=list)
    _spans: dict[tuple[str, str], Span] = field(default_factory=dict)
    _logs: dict[_LogKey, LogRecord] = field(default_factory=dict)

    def take(self, batch: SpanBatch) -> None:
        """Take a batch."""
        for span in batch.spans:
            self._spans.setdefault((span.trace_id, span.span_id), span)
        for log in batch.logs:
            self._logs.setdefault((log.trace_id, log.span_id, log.time_ns, log.event_name, repr(log.body)), log)
        self.problems += [f"{count:,} spans or log records: {reason}" for reason, count in batch.rejected.items()]

    def take_files(self, paths: Sequence[Path], settings: Settings) -> None:
        """Take files of OTLP, in every form that `ingest` reads, and folders of them.

        Raises:
            BadInputError: a path does not exist or is no file.
        """
        files = plugins.get("collectors", "files").load().from_settings(settings)
        for chunk in files.read([str(path) for path in paths]):
            if chunk.problem is None:
                self.take(chunk.batch)
            else:
                self.problems.append(chunk.problem)

    def conversations(self, settings: Settings) -> Iterator[Conversation]:
        """Yield the conversations that all of it comes to, ended: nothing more will come.

        Raises:
            ConfigError: the settings name a dialect or a meaning that is not there.
        """
        reader = Reader.from_settings(settings.conversations, settings.dialects)
        segments = read_segments(self._spans.values(), self._logs.values(), reader)
        for linked in link_segments(segments, settings.conversations):
            try:
                yield assemble(linked, settings.conversations, closed_by="end_of_input")
            except Exception as error:  # noqa: BLE001 — told; what nobody foresaw must not hide the other conversations
                self.problems.append(
                    f"conversation {linked.conversation_id!r} cannot be rebuilt ({type(error).__name__}: {error}); "
                    "please report it"
                )
