"""The spans of a conversation as rows of a tree with bars over time; attributes are on the page of each span."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from otel_agentic.console.requests import page_url

if TYPE_CHECKING:
    from otel_agentic.results.browsing import SpanRow

_NS_PER_MS: Final = 1_000_000
_ERROR: Final = 2
#: Deeper rows are indented no further.
_MAX_DEPTH: Final = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class WaterfallRow:
    """A span: its level in the tree (1 for a root), and its bar in percent of the whole duration."""

    name: str
    operation: str
    subject: str
    level: int
    x: str
    width: str
    duration: str
    is_error: bool
    error: str | None
    href: str


def waterfall(spans: Sequence[SpanRow]) -> list[WaterfallRow]:
    """Return the rows of spans, each parent before its children. A span whose parent is missing is a root."""
    if not spans:
        return []
    begin_ns = min(span.start_ns for span in spans)
    total_ns = max(1, max(span.end_ns for span in spans) - begin_ns)
    return [_row(span, level, begin_ns, total_ns) for span, level in _in_tree_order(spans)]


def _in_tree_order(spans: Sequence[SpanRow]) -> Iterator[tuple[SpanRow, int]]:
    known = {(span.trace_id, span.span_id) for span in spans}
    children: dict[tuple[str, str | None], list[SpanRow]] = defaultdict(list)
    for span in spans:
        has_parent = (span.trace_id, span.parent_span_id) in known and span.parent_span_id != span.span_id
        children[span.trace_id if has_parent else "", span.parent_span_id if has_parent else None].append(span)
    stack = [(span, 1) for span in reversed(children["", None])]
    while stack:
        span, level = stack.pop()
        yield span, level
        stack += [(child, level + 1) for child in reversed(children[span.trace_id, span.span_id])]


def _row(span: SpanRow, level: int, begin_ns: int, total_ns: int) -> WaterfallRow:
    return WaterfallRow(
        name=span.name,
        operation=span.operation,
        subject=span.subject,
        level=min(level, _MAX_DEPTH),
        x=f"{100 * (span.start_ns - begin_ns) / total_ns:.4g}",
        width=f"{max(0.4, 100 * (span.end_ns - span.start_ns) / total_ns):.4g}",
        duration=_duration(span.end_ns - span.start_ns),
        is_error=span.status == _ERROR,
        error=span.status_message,
        href=page_url("/span", trace_id=span.trace_id, span_id=span.span_id),
    )


def _duration(duration_ns: int) -> str:
    """Return a duration with three digits.

    >>> _duration(1_234_567), _duration(12_345_678_900)
    ('1.23 ms', '12.3 s')
    """
    milliseconds = duration_ns / _NS_PER_MS
    return f"{milliseconds / 1000:.3g} s" if milliseconds >= 1000 else f"{milliseconds:.3g} ms"  # noqa: PLR2004 — ms per s
