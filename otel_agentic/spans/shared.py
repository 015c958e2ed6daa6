"""The size limit of a resource: it is written to the row of each of its spans, so one request could fill a disk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections import Counter

    from otel_agentic.spans.limits import Limits

CUT_SHARED: Final = "resource attributes that its many spans have no room for cut"

#: Bytes that a resource may always take: more than any benign one, measured on the resources of SDKs and clouds.
_ALWAYS_BYTES: Final = 8 * 1024
#: Bytes of the quotes, colon and comma around an attribute, and of a number or boolean.
_FRAME_BYTES: Final = 6
_SCALAR_BYTES: Final = 24


def shared(attributes: dict[str, Any], records: int, limits: Limits, altered: Counter[str]) -> dict[str, Any]:
    """Return the attributes of a resource that `records` spans or log records share, without those that do not fit.

    Together, all rows may take as much as the largest request, and one row at least 8 KiB. Attributes are kept in their order
    as far as they fit.
    """
    room = max(_ALWAYS_BYTES, limits.max_request_bytes // max(records, 1))
    if size_of(attributes) <= room:
        return attributes
    fitting: dict[str, Any] = {}
    for key, value in attributes.items():
        size = size_of({key: value})
        if size <= room:
            fitting[key] = value
            room -= size
    altered[CUT_SHARED] += len(attributes) - len(fitting)
    return fitting


def size_of(value: object) -> int:
    """Return the approximate size of a plain value as JSON, in bytes."""
    if isinstance(value, str):
        return len(value) if value.isascii() else len(value.encode())
    if isinstance(value, bytes):
        return len(value) * 4 // 3
    if isinstance(value, dict):
        return sum(size_of(key) + size_of(item) + _FRAME_BYTES for key, item in value.items())
    if isinstance(value, list):
        return sum(map(size_of, value), len(value))
    return _SCALAR_BYTES
