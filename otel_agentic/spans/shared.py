"""How much of a resource is kept: its text stands in the row of each of its spans, so one request could fill a disk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections import Counter

    from otel_agentic.spans.limits import Limits

CUT_SHARED: Final = "resource attributes that its many spans have no room for cut"

#: What a resource may always hold, bytes: more than any that is not made to harm, measured on those of SDKs and clouds.
_ALWAYS_BYTES: Final = 8 * 1024
#: Quotes, colon and comma around an attribute; a number or a truth value.
_FRAME_BYTES: Final = 6
_SCALAR_BYTES: Final = 24


def shared(attributes: dict[str, Any], records: int, limits: Limits, altered: Counter[str]) -> dict[str, Any]:
    """Return the attributes of a resource that so many spans or log records share, those cut that find no room.

    In all rows together there is room for as much as the largest request, in one for 8 KiB at least. Attributes are kept in
    their order as far as they fit.
    """
    room = max(_ALWAYS_BYTES, limits.max_request_bytes // max(records, 1))
    if size_of(attributes) <= room:
        return attributes
    kept: dict[str, Any] = {}
    for key, value in attributes.items():
        size = size_of({key: value})
        if size <= room:
            kept[key] = value
            room -= size
    altered[CUT_SHARED] += len(attributes) - len(kept)
    return kept


def size_of(value: object) -> int:
    """Return about how many bytes of JSON a plain value takes."""
    if isinstance(value, str):
        return len(value) if value.isascii() else len(value.encode())
    if isinstance(value, bytes):
        return len(value) * 4 // 3
    if isinstance(value, dict):
        return sum(size_of(key) + size_of(item) + _FRAME_BYTES for key, item in value.items())
    if isinstance(value, list):
        return sum(map(size_of, value), len(value))
    return _SCALAR_BYTES
