"""Limits on untrusted requests and spans, and cleaning of untrusted values.

64 MiB of protobuf can contain 32 million empty spans of two bytes, each of which would take hundreds of bytes of
memory. A body that is too short to exceed the limit is not examined. In a longer one, positions that look like the
start of a small item are counted first, at several gigabytes per second; the items themselves are counted only if this
estimate exceeds the limit.

Cleaning never raises on data, and every change is counted.

| received | becomes |
|---|---|
| NaN, Infinity | the text `NaN`, `Infinity`, `-Infinity` (one NaN would poison every average over a column) |
| an integer beyond 64 bits | its digits as text |
| NUL, a lone surrogate | U+FFFD |
| text beyond a limit | its beginning, cut between characters; a long text is cut before the word that the limit would split |
| a value nested deeper than 48 levels | None |
| a time of 0, or of the year 2200 and later | unset: a span's other time, an event's span start; 0 if there is no such time |
| an end before the start | the start |
| an enumeration value that OTLP does not define | 0, unset |
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeVar

from otel_agentic.errors import TooLargeError

if TYPE_CHECKING:
    import numpy as np
    from google.protobuf.descriptor import Descriptor

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
    utf8 = text[: max_bytes + 1].encode()
    return text if len(utf8) <= max_bytes else utf8[:max_bytes].decode(errors="ignore")


#: The shortest item: a tag and a length of 0.
_LEAST_BYTES: Final = 2
#: A span or log record takes the memory of this many attribute values (measured: 650 bytes against 80).
RECORD_ITEMS: Final = 8
#: An attribute, two messages in protobuf, takes four braces and commas in JSON.
_MARKS: Final = 2
#: Bodies are scanned in pieces that fit into a processor's cache.
_PIECE_BYTES: Final = 64 * 1024

_WIRE_TYPE: Final = 0b111
_DELIMITED: Final = 2
#: The first printable ASCII character, and the number of bytes from it to the last one.
_PRINTABLE: Final = 32
_PRINTABLES: Final = 96
_MORE: Final = 0x80
_TAG_BITS: Final = 0xFFFFFFFF

#: The fields of a message type: tag -> fields of the message under it, empty for text in a list.
_Fields = dict[int, "_Fields"]


def require_few_items(data: bytes, limits: Limits) -> None:
    """Check that a body, parsed as a traces or as a logs request, contains at most `max_items` messages.

    Bytes that are not protobuf are counted as far as a parser would read them.

    Raises:
        TooLargeError: it contains more.
    """
    most = limits.max_items
    if len(data) <= _LEAST_BYTES * most or _small_items(data) <= most:
        return
    if any(count_messages(data, fields, most) > most for fields in _requests()):
        raise _too_many(most)


def require_few_json_items(data: bytes, limits: Limits) -> None:
    """Check that JSON text contains at most `max_items` items; two braces or commas count as one item.

    Raises:
        TooLargeError: it contains more.
    """
    most = limits.max_items * _MARKS
    if len(data) <= most or _marks_anywhere(data) <= most:
        return
    if _json_marks(data, most) > most:
        raise _too_many(limits.max_items)


def require_few_records(count: int, limits: Limits) -> None:
    """Check that a request of `count` spans or log records is within `max_items`; each counts as eight items.

    Raises:
        TooLargeError: it exceeds the limit.
    """
    most = limits.max_items // RECORD_ITEMS
    if count > most:
        raise TooLargeError(
            f"the request holds {count} spans or log records, more than {most}: send smaller batches, "
            f"or raise receive.max_items ({RECORD_ITEMS} a record)"
        )


def count_messages(data: bytes, fields: _Fields, most: int) -> int:
    """Return how many messages a parser would create from the bytes; counting stops beyond `most`.

    Counting also stops at bytes that a parser would reject. The count is never too low: groups, which OTLP does not use,
    are counted as if their content were part of the enclosing message.
    """
    count, position, end = 0, 0, len(data)
    outer_levels: list[tuple[int, _Fields]] = []
    try:
        while True:
            if position >= end:
                if position > end or not outer_levels:
                    return count
                end, fields = outer_levels.pop()
                continue
            tag, position = _varint(data, position) if data[position] & _MORE else (data[position], position + 1)
            if tag & _WIRE_TYPE != _DELIMITED:
                position = _after_scalar(data, position, tag & _WIRE_TYPE)
                continue
            size, position = _varint(data, position) if data[position] & _MORE else (data[position], position + 1)
            inner_fields = fields.get(tag)
            if inner_fields is None:
                position += size
                continue
            count += 1
            if count > most:
                return count
            outer_levels.append((end, fields))
            end, fields = position + size, inner_fields
    except IndexError:
        return count


def _after_scalar(data: bytes, position: int, wire_type: int) -> int:
    match wire_type:
        case 0:
            return _varint(data, position)[1]
        case 1:
            return position + 8
        case 3 | 4:
            return position
        case 5:
            return position + 4
        case _:
            raise IndexError  # not a wire type: a parser stops here


def _varint(data: bytes, position: int) -> tuple[int, int]:
    """Return a number and its end position; the lower 32 bits are enough for any tag or length that a parser accepts."""
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        if shift < 32:  # noqa: PLR2004 — see above
            value |= (byte & 0x7F) << shift
        shift += 7
        if byte < _MORE:
            return value & _TAG_BITS, position


def _small_items(data: bytes) -> int:
    """Return how many positions look like a message of up to 31 bytes, or of 128 bytes and more.

    Such a position is a byte whose lowest three bits are the wire type of a message, independent of the length of the tag, followed
    by a length that is not a printable character. Text is therefore hardly counted. Messages of 32 to 127 bytes are not
    counted either, but their memory is at most a few times their size.
    """
    import numpy as np  # noqa: PLC0415 — large bodies only

    array = np.frombuffer(data, dtype=np.uint8)
    count = 0
    for start in range(0, len(array) - 1, _PIECE_BYTES):
        lengths = array[start + 1 : start + 1 + _PIECE_BYTES]
        tags = array[start : start + len(lengths)]
        count += int(np.count_nonzero(((tags & _WIRE_TYPE) == _DELIMITED) & (lengths - _PRINTABLE >= _PRINTABLES)))
    return count


def _marks_anywhere(data: bytes) -> int:
    """Return the number of braces, brackets and commas in JSON text, including those inside strings."""
    import numpy as np  # noqa: PLC0415 — large bodies only

    array = np.frombuffer(data, dtype=np.uint8)
    pieces = (array[start : start + _PIECE_BYTES] for start in range(0, len(array), _PIECE_BYTES))
    return sum(int(np.count_nonzero(_is_mark(piece))) for piece in pieces)


def _is_mark(array: np.ndarray[Any, np.dtype[np.uint8]]) -> np.ndarray[Any, np.dtype[np.bool]]:
    is_mark: np.ndarray[Any, np.dtype[np.bool]] = (array == ord("{")) | (array == ord("[")) | (array == ord(","))
    return is_mark


def _json_marks(data: bytes, most: int) -> int:
    """Return the number of braces, brackets and commas outside the strings of JSON text; counting stops beyond `most`."""
    import numpy as np  # noqa: PLC0415 — large bodies only

    count = inside = 0
    for piece in _unescaped(data):
        array = np.frombuffer(piece, dtype=np.uint8)
        if not len(array):
            continue
        in_string = np.bitwise_xor.accumulate((array == ord('"')).view(np.uint8)) ^ inside
        count += int(np.count_nonzero(_is_mark(array) & (in_string == 0)))
        inside = int(in_string[-1])
        if count > most:
            return count
    return count


def _unescaped(data: bytes) -> Iterator[bytes]:
    r"""Yield JSON text in pieces without `\\` and `\"`, so that the remaining quotes delimit strings."""
    start = 0
    while start < len(data):
        end = start + _PIECE_BYTES
        while end < len(data) and data[end - 1] == ord("\\"):
            end += 1  # keep a backslash together with the character that it escapes
        yield data[start:end].replace(b"\\\\", b"").replace(b'\\"', b"")
        start = end


def _too_many(most: int) -> TooLargeError:
    return TooLargeError(
        f"the request holds more than {most} spans, attributes, events and values: send smaller batches, "
        "or raise receive.max_items"
    )


@cache
def _requests() -> tuple[_Fields, ...]:
    """Return the message types that a body may contain, from OTLP's descriptors: later versions may add some."""
    from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (  # noqa: PLC0415 — large bodies only
        ExportLogsServiceRequest,
    )
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (  # noqa: PLC0415 — same
        ExportTraceServiceRequest,
    )

    return tuple(message_fields(kind.DESCRIPTOR, {}) for kind in (ExportTraceServiceRequest, ExportLogsServiceRequest))


def message_fields(descriptor: Descriptor, known: dict[str, _Fields]) -> _Fields:
    """Return the tags of a message type whose items each take memory: messages, and strings in lists."""
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


_Item = TypeVar("_Item")

#: The first integer beyond the signed 64-bit range.
_INT64_END: Final = 2**63
#: The first time that is out of range, 1 January 2200: DuckDB's range ends in 2262, and durations are added to times,
#: such as the idle time of a conversation.
TIME_END_NS: Final = 7_258_118_400 * 10**9
#: The depth to which protobuf itself reads nested AnyValues, so that OTLP/JSON and OTLP/protobuf agree.
MAX_DEPTH: Final = 48

TRACE_ID_HEX: Final = 32
SPAN_ID_HEX: Final = 16

CUT_VALUE: Final = "attribute value beyond max_value_bytes cut"
CUT_NAME: Final = "name beyond max_name_bytes cut"
CUT_ATTRIBUTES: Final = "attributes beyond max_attributes cut"
CUT_EVENTS: Final = "events or links beyond max_events cut"
CUT_DEPTH: Final = "value nested deeper than 48 levels cut"
MENDED_TEXT: Final = "NUL or lone surrogate replaced"
MENDED_NUMBER: Final = "number that is NaN, infinite or beyond 64 bits kept as text"
MENDED_BYTES: Final = "bytesValue that is not base64 kept as text"
MENDED_TYPE: Final = "value of a type that OTLP does not know"
MENDED_TIME: Final = "time of 0, or of the year 2200 and later, taken as unset"
MENDED_ORDER: Final = "end before start set to the start"
MENDED_PARENT: Final = "parent_span_id that is not 8 bytes taken as none"
DROPPED_LINK: Final = "link whose trace or span id is not 16/8 bytes or is all zero dropped"

#: A word of up to this many characters is not split, because half of a key or password cannot be recognised as such.
_WORD: Final = 256
#: Strings of up to this many bytes are names or remarks, in which every character matters.
_SHORT_BYTES: Final = 4096

_HEX: Final = "0123456789abcdefABCDEF"
_REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"


def clean_text(text: str, max_bytes: int, altered: Counter[str], cut_reason: str = CUT_VALUE) -> str:
    r"""Return text that UTF-8 and the store can represent, at most `max_bytes` long.

    >>> from collections import Counter
    >>> clean_text("a\0b", 10, Counter())
    'a\ufffdb'
    """
    if len(text) <= max_bytes and text.isascii() and "\0" not in text:
        return text
    valid_text = _replace_invalid(text)
    if valid_text != text:
        altered[MENDED_TEXT] += 1
    cut = cut_text(valid_text, max_bytes)
    if len(cut) == len(valid_text):
        return cut
    altered[cut_reason] += 1
    return _drop_partial_word(cut) if max_bytes > _SHORT_BYTES and not valid_text[len(cut)].isspace() else cut


def clean_float(value: float, altered: Counter[str]) -> float | str:
    """Return the number, or its OTLP/JSON text if it is not finite.

    >>> from collections import Counter
    >>> clean_float(float("-inf"), Counter())
    '-Infinity'
    """
    if math.isfinite(value):
        return value
    altered[MENDED_NUMBER] += 1
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def clean_int(value: int, altered: Counter[str]) -> int | str:
    """Return the number, or its digits as text if it does not fit into 64 bits."""
    if -_INT64_END <= value < _INT64_END:
        return value
    altered[MENDED_NUMBER] += 1
    try:
        return str(value)
    except ValueError:  # Python refuses to write more than 4,300 decimal digits
        return hex(value)


def clean_bytes(value: bytes, max_bytes: int, altered: Counter[str]) -> bytes:
    """Return the first `max_bytes` of a value."""
    if len(value) <= max_bytes:
        return value
    altered[CUT_VALUE] += 1
    return value[:max_bytes]


def clean_value(value: object, limits: Limits, altered: Counter[str], depth: int = 0) -> Any:
    """Return a plain Python value as OTLP would transfer it, within the limits."""
    if isinstance(value, (str, bytes, bytearray)) or not isinstance(value, (Mapping, Sequence)):
        return _clean_scalar(value, limits, altered)
    if depth >= MAX_DEPTH:
        altered[CUT_DEPTH] += 1
        return None
    if isinstance(value, Mapping):
        pairs = value.items()
        return {clean_name(str(key), limits, altered): clean_value(v, limits, altered, depth + 1) for key, v in pairs}
    return [clean_value(item, limits, altered, depth + 1) for item in value]


def _clean_scalar(value: object, limits: Limits, altered: Counter[str]) -> Any:
    match value:
        case None | bool():
            return value
        case str():
            return clean_text(value, limits.max_value_bytes, altered)
        case int():
            return clean_int(value, altered)
        case float():
            return clean_float(value, altered)
        case bytes() | bytearray():
            return clean_bytes(bytes(value), limits.max_value_bytes, altered)
        case _:
            altered[MENDED_TYPE] += 1
            return f"<{type(value).__name__}>"


def clean_name(name: str, limits: Limits, altered: Counter[str]) -> str:
    """Return a name or an attribute key within the limit for names."""
    return clean_text(name, limits.max_name_bytes, altered, CUT_NAME)


def clean_time(time_ns: int, fallback_ns: int, altered: Counter[str]) -> int:
    """Return a time, or the fallback if it is unset or out of range; 0 if both are.

    >>> from collections import Counter
    >>> clean_time(2**64 - 1, 5, Counter())
    5
    """
    if 0 < time_ns < TIME_END_NS:
        return time_ns
    altered[MENDED_TIME] += 1
    return fallback_ns if 0 < fallback_ns < TIME_END_NS else 0


def clean_times(start_ns: int, end_ns: int, altered: Counter[str]) -> tuple[int, int]:
    """Return start and end of a span, in range and in order.

    >>> from collections import Counter
    >>> clean_times(7, 0, Counter()), clean_times(7, 3, Counter())
    ((7, 7), (7, 7))
    """
    start = clean_time(start_ns, end_ns, altered)
    end = clean_time(end_ns, start, altered)
    if end < start:
        altered[MENDED_ORDER] += 1
        end = start
    return start, end


def clean_enum(value: int, highest: int) -> int:
    """Return the value of an enumeration from 0 to `highest`, or 0 for an unknown value."""
    return value if 0 <= value <= highest else 0


def first_of(items: Sequence[_Item], count: int, reason: str, altered: Counter[str]) -> Sequence[_Item]:
    """Return the first `count` items; the others are counted in `altered` under the reason."""
    surplus = len(items) - count
    if surplus <= 0:
        return items
    altered[reason] += surplus
    return items[:count]


def id_of_bytes(raw: bytes, hex_length: int) -> str:
    """Return an id as lower-case hex text, or the empty text if its length is wrong or it is all zero."""
    return raw.hex() if len(raw) * 2 == hex_length and any(raw) else ""


def id_of_text(text: object, hex_length: int) -> str:
    """Return a hex id in lower case, or the empty text if it is not such an id or all zero.

    >>> id_of_text("00F067AA0BA902B7", 16)
    '00f067aa0ba902b7'
    """
    if not isinstance(text, str) or len(text) != hex_length or text.strip(_HEX) or not text.strip("0"):
        return ""
    return text.lower()


def _drop_partial_word(cut: str) -> str:
    """Return a text up to its last white space or quote, if that is near the end."""
    end = cut[-_WORD:]
    edge = next(
        (position for position in range(len(end), 0, -1) if end[position - 1].isspace() or end[position - 1] in "\"'"),
        0,
    )
    return cut[: len(cut) - len(end) + edge] if edge else cut


def _replace_invalid(text: str) -> str:
    valid_text = text.replace("\0", _REPLACEMENT)
    if valid_text.isascii():
        return valid_text
    try:
        valid_text.encode()
    except UnicodeEncodeError:
        # By way of UTF-16, a pair of surrogates becomes its character, and a lone one the replacement character.
        return valid_text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return valid_text
