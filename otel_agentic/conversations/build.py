"""Spans -> linked segments: the steps of this package before assembly."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from otel_agentic.conversations.closing import idle_limit_ns
from otel_agentic.conversations.link import Linked, link
from otel_agentic.conversations.segments import Segment, segments_of
from otel_agentic.conversations.tree import build_tree

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from otel_agentic.config import ConversationSettings
    from otel_agentic.dialects.detect import Reader
    from otel_agentic.spans.model import LogRecord, Span


def read_segments(spans: Iterable[Span], logs: Iterable[LogRecord], reader: Reader) -> list[Segment]:
    """Return the conversation segments of all traces among the spans, sorted by trace id."""
    by_trace: dict[str, list[Span]] = defaultdict(list)
    for span in spans:
        by_trace[span.trace_id].append(span)
    by_span: dict[tuple[str, str], list[LogRecord]] = defaultdict(list)
    for log in logs:
        by_span[log.trace_id, log.span_id].append(log)
    for records in by_span.values():
        records.sort(key=_log_order)
    segments: list[Segment] = []
    for trace_id in sorted(by_trace):
        segments += segments_of(build_tree(reader.read_all(by_trace[trace_id], by_span)))
    return segments


def link_segments(segments: Sequence[Segment], settings: ConversationSettings) -> list[Linked]:
    """Return the conversations that consist of the segments."""
    return link(segments, idle_ns=idle_limit_ns(settings, has_id=False))


def _log_order(log: LogRecord) -> tuple[int, int, str]:
    """Return the sort key of a span's log records: time, message index, content (equal times are common)."""
    index = log.attributes.get("gen_ai.message.index")
    return (log.time_ns, index if isinstance(index, int) else 0, repr((log.event_name, log.body)))
