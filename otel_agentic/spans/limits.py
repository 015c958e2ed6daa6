"""Limits on untrusted requests and spans."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from otel_agentic.config import ReceiveSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The largest request and span that are accepted; a larger request is refused, a larger span is cut and counted.

    `max_request_bytes` is measured after decompression; `max_items` bounds the messages and values of one request (see
    `items`). `max_value_bytes` and `max_name_bytes` are bytes of UTF-8. `max_attributes` applies to each attribute list (span,
    event, link, scope, resource, log record), `max_events` to the events and to the links of a span.
    """

    max_request_bytes: int
    max_items: int
    max_attributes: int
    max_value_bytes: int
    max_name_bytes: int
    max_events: int

    @classmethod
    def from_settings(cls, settings: ReceiveSettings) -> Limits:
        """Return the limits of the `receive` section."""
        return cls(
            max_request_bytes=settings.max_request_bytes,
            max_items=settings.max_items,
            max_attributes=settings.max_attributes,
            max_value_bytes=settings.max_value_bytes,
            max_name_bytes=settings.max_name_bytes,
            max_events=settings.max_events,
        )


def cut_text(text: str, max_bytes: int) -> str:
    """Return the longest prefix of `text` that takes at most `max_bytes` of UTF-8; no character is split.

    >>> cut_text("Zürich", 2)
    'Z'
    """
    if len(text) * 4 <= max_bytes:
        return text
    # A character takes at least one byte: slicing first keeps the copy small for a text of many megabytes.
    encoded = text[: max_bytes + 1].encode()
    return text if len(encoded) <= max_bytes else encoded[:max_bytes].decode(errors="ignore")
