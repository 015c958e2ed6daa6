"""How much memory a body could take: a bound on the messages, lists and values in it, before anything is parsed.

64 MiB of protobuf may hold 32 million empty spans of two bytes, and each would take some hundred bytes of memory. A body that
is too short to hold more than the limit is not looked at. In a longer one the places that look like the beginning of a small
item are counted, some gigabytes a second; only where these are over the limit are the items themselves.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.errors import TooLargeError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    from google.protobuf.descriptor import Descriptor

    from otel_agentic.spans.limits import Limits

#: The shortest item: a tag and a length of 0.
_LEAST_BYTES: Final = 2
#: A span or log record takes the memory of this many attribute values (measured: 650 bytes against 80).
RECORD_ITEMS: Final = 8
#: An attribute, two messages in protobuf, takes four braces and commas in JSON.
_MARKS: Final = 2
#: Looked at in pieces that a processor's cache holds.
_PIECE_BYTES: Final = 64 * 1024

_WIRE_TYPE: Final = 0b111
_DELIMITED: Final = 2
#: The first printable character of ASCII, and how many bytes there are from it to the last.
_PRINTABLE: Final = 32
_PRINTABLES: Final = 96
_MORE: Final = 0x80
_TAG_BITS: Final = 0xFFFFFFFF

#: The messages of one kind: tag -> fields of the message there, empty for text that a list holds.
_Fields = dict[int, "_Fields"]


def require_few_items(data: bytes, limits: Limits) -> None:
    """Return nothing if the body, read as a traces or as a logs request, holds at most `max_items` messages.

    Bytes that are no protobuf are counted as far as a parser would read them.

    Raises:
        TooLargeError: it holds more.
    """
    most = limits.max_items
    if len(data) <= _LEAST_BYTES * most or _small_items(data) <= most:
        return
    if any(count_messages(data, fields, most) > most for fields in _requests()):
        raise _too_many(most)


def require_few_json_items(data: bytes, limits: Limits) -> None:
    """Return nothing if JSON text holds at most `max_items` objects, lists and values, two braces or commas being one.

    Raises:
        TooLargeError: it holds more.
    """
    most = limits.max_items * _MARKS
    if len(data) <= most or _marks_anywhere(data) <= most:
        return
    if _json_marks(data, most) > most:
        raise _too_many(limits.max_items)


def require_few_records(count: int, limits: Limits) -> None:
    """Return nothing if a request of so many spans or log records is within `max_items`; each counts as eight.

    Raises:
        TooLargeError: it is not.
    """
    most = limits.max_items // RECORD_ITEMS
    if count > most:
        raise TooLargeError(
            f"the request holds {count} spans or log records, more than {most}: send smaller batches, "
            f"or raise receive.max_items ({RECORD_ITEMS} a record)"
        )


def count_messages(data: bytes, fields: _Fields, most: int) -> int:
    """Return how many messages a parser would make of the bytes; counting ends beyond `most`.

    Bytes at which a parser would give up end the count too. It is never less than what the parser makes: groups, which
    OTLP does not have, are counted as if their content stood in their place.
    """
    found, at, end = 0, 0, len(data)
    above: list[tuple[int, _Fields]] = []
    try:
        while True:
            if at >= end:
                if at > end or not above:
                    return found
                end, fields = above.pop()
                continue
            tag, at = _varint(data, at) if data[at] & _MORE else (data[at], at + 1)
            if tag & _WIRE_TYPE != _DELIMITED:
                at = _after_scalar(data, at, tag & _WIRE_TYPE)
                continue
            size, at = _varint(data, at) if data[at] & _MORE else (data[at], at + 1)
            below = fields.get(tag)
            if below is None:
                at += size
                continue
            found += 1
            if found > most:
                return found
            above.append((end, fields))
            end, fields = at + size, below
    except IndexError:
        return found


def _after_scalar(data: bytes, at: int, wire_type: int) -> int:
    match wire_type:
        case 0:
            return _varint(data, at)[1]
        case 1:
            return at + 8
        case 3 | 4:
            return at
        case 5:
            return at + 4
        case _:
            raise IndexError  # no wire type: a parser gives up here


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a number and where it ends; its lower 32 bits suffice for any tag or length that a parser takes."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        if shift < 32:  # noqa: PLR2004 — see above
            value |= (byte & 0x7F) << shift
        shift += 7
        if byte < _MORE:
            return value & _TAG_BITS, at


def _small_items(data: bytes) -> int:
    """Return how many places look like a message of up to 31 bytes, or of 128 and more.

    Those are a byte with the wire type of a message in its lowest three bits, however long the tag is written, and then a
    length that is no printable character. So hardly any text is counted; neither are messages of 32 to 127 bytes, but
    what they take is no more than some times their size.
    """
    import numpy as np  # noqa: PLC0415 — large bodies only

    array = np.frombuffer(data, dtype=np.uint8)
    found = 0
    for start in range(0, len(array) - 1, _PIECE_BYTES):
        lengths = array[start + 1 : start + 1 + _PIECE_BYTES]
        tags = array[start : start + len(lengths)]
        found += int(np.count_nonzero(((tags & _WIRE_TYPE) == _DELIMITED) & (lengths - _PRINTABLE >= _PRINTABLES)))
    return found


def _marks_anywhere(data: bytes) -> int:
    """Return how many braces, brackets and commas stand in JSON text, those inside of strings too."""
    import numpy as np  # noqa: PLC0415 — large bodies only

    array = np.frombuffer(data, dtype=np.uint8)
    pieces = (array[start : start + _PIECE_BYTES] for start in range(0, len(array), _PIECE_BYTES))
    return sum(int(np.count_nonzero(_is_mark(piece))) for piece in pieces)


def _is_mark(array: np.ndarray[Any, np.dtype[np.uint8]]) -> np.ndarray[Any, np.dtype[np.bool]]:
    marked: np.ndarray[Any, np.dtype[np.bool]] = (array == ord("{")) | (array == ord("[")) | (array == ord(","))
    return marked


def _json_marks(data: bytes, most: int) -> int:
    """Return how many braces, brackets and commas stand outside the strings of JSON text; counting ends beyond `most`."""
    import numpy as np  # noqa: PLC0415 — large bodies only

    found = inside = 0
    for piece in _unescaped(data):
        array = np.frombuffer(piece, dtype=np.uint8)
        if not len(array):
            continue
        quoted = np.bitwise_xor.accumulate((array == ord('"')).view(np.uint8)) ^ inside
        found += int(np.count_nonzero(_is_mark(array) & (quoted == 0)))
        inside = int(quoted[-1])
        if found > most:
            return found
    return found


def _unescaped(data: bytes) -> Iterator[bytes]:
    r"""Yield JSON text in pieces without `\\` and `\"`: the quotes that are left begin and end strings."""
    start = 0
    while start < len(data):
        end = start + _PIECE_BYTES
        while end < len(data) and data[end - 1] == ord("\\"):
            end += 1  # a backslash stays with what it escapes
        yield data[start:end].replace(b"\\\\", b"").replace(b'\\"', b"")
        start = end


def _too_many(most: int) -> TooLargeError:
    return TooLargeError(
        f"the request holds more than {most} spans, attributes, events and values: send smaller batches, "
        "or raise receive.max_items"
    )


@cache
def _requests() -> tuple[_Fields, ...]:
    """Return the messages that a body may hold, from OTLP's own descriptors: a later OTLP may have more."""
    from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (  # noqa: PLC0415 — large bodies only
        ExportLogsServiceRequest,
    )
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (  # noqa: PLC0415 — same
        ExportTraceServiceRequest,
    )

    return tuple(message_fields(kind.DESCRIPTOR, {}) for kind in (ExportTraceServiceRequest, ExportLogsServiceRequest))


def message_fields(descriptor: Descriptor, known: dict[str, _Fields]) -> _Fields:
    """Return the tags of a message under which memory is taken for each item: messages, and text in lists."""
    if descriptor.full_name in known:
        return known[descriptor.full_name]
    fields = known[descriptor.full_name] = {}
    for field in descriptor.fields:
        tag = field.number << 3 | _DELIMITED
        if field.message_type is not None:
            fields[tag] = message_fields(field.message_type, known)
        elif field.is_repeated:
            fields[tag] = {}
    return fields
