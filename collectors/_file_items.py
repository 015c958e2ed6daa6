"""What one file holds: JSON lines, one JSON document, or protobuf, told apart by content."""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from collectors._file_bytes import read_line, read_varint
from otel_agentic.errors import BadInputError, DecodeError, TooLargeError
from otel_agentic.spans import SpanBatch, decode_document, decode_message

if TYPE_CHECKING:
    from collections.abc import Iterator

    from collectors._file_bytes import InflatedFile
    from otel_agentic.spans import Limits

Kind = Literal["lines", "document", "protobuf", "other text"]

MALFORMED_LINE: Final = "malformed line"
MALFORMED_MESSAGE: Final = "malformed message"
LINE_TOO_LARGE: Final = "line beyond max_request_bytes"
#: What a line or message holds would take too much memory, small as it is.
TOO_MANY_ITEMS: Final = "line or message beyond max_items"
DAMAGED_REST: Final = "damaged rest of a file"
#: A file met in a directory that is something else: a note, an index, a picture.
NOT_OTLP_FILE: Final = "file in a directory that is not OTLP"

_SAMPLE_BYTES: Final = 64 * 1024
#: A file of zeros is a file of messages without content: a gigabyte of them is a megabyte of gzip, and hours of work.
_MOST_EMPTY: Final = 1000
_BOM: Final = b"\xef\xbb\xbf"
#: Bytes that JSON text never holds as they are, and that protobuf's tags, lengths and ids do all the time.
_CONTROL: Final = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]")
#: A line that opens something and leaves it open, followed by one that does not open a new request.
_OPEN_LINE: Final = re.compile(rb"[^\n]*[{\[,:][ \t\r]*\n\s*[^\s{]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One line, document or message of `size_bytes`; `line` is None in binary files."""

    line: int | None
    batch: SpanBatch
    size_bytes: int = 0
    problem: str | None = None


def read_items(opened: InflatedFile, *, label: str, named: bool, limits: Limits) -> Iterator[Item]:
    """Yield what the file holds; damage is an item with a problem, and reading goes on where it can.

    Args:
        opened: the file, decompressed as it is read.
        label: how problems call it.
        named: whether the user asked for this very file; else a file that is not OTLP is only counted.
        limits: what one line or message may hold.
    """
    try:
        kind = _kind(opened, named=named, limits=limits)
        if kind == "other text":
            yield Item(line=None, batch=SpanBatch(ignored={NOT_OTLP_FILE: 1}))
        elif kind == "protobuf":
            yield from _messages(opened, label, limits)
        elif kind == "document":
            yield _document(opened, label, limits)
        else:
            yield from _lines(opened, label, limits)
    except TooLargeError as error:
        yield Item(line=None, batch=SpanBatch(rejected={TOO_MANY_ITEMS: 1}), problem=f"{label}: {error}")
    except (DecodeError, OSError) as error:
        yield Item(line=None, batch=SpanBatch(rejected={DAMAGED_REST: 1}), problem=f"{label}: {error}")


def sniff(sample: bytes) -> Kind:
    r"""Return what the first bytes of a (decompressed) file look like.

    >>> sniff(b'{"resourceSpans": []}\n'), sniff(b'{\n "resourceSpans": []}'), sniff(b"\n\x10\x0a\x02")
    ('lines', 'document', 'protobuf')
    """
    text = sample.removeprefix(_BOM).lstrip()
    # A JSON line with a stray control byte still begins as one; protobuf never begins with these two bytes.
    if _CONTROL.search(sample) and not sample.startswith(b'{"'):
        return "protobuf"
    if not text.startswith(b"{"):
        return "other text"
    return "document" if _OPEN_LINE.match(text) else "lines"


def _kind(opened: InflatedFile, *, named: bool, limits: Limits) -> Kind:
    sample = opened.sample(_SAMPLE_BYTES)
    kind = sniff(sample)
    if named:
        return "lines" if kind == "other text" else kind  # every line that is not JSON will be reported
    if kind == "protobuf" and not _is_protobuf(opened, limits):
        return "other text"
    return kind if sample else "lines"


def _lines(opened: InflatedFile, label: str, limits: Limits) -> Iterator[Item]:
    source = io.BufferedReader(opened, _SAMPLE_BYTES)
    number = 0
    while (line := read_line(source, limits.max_request_bytes)) != b"":
        number += 1
        if line is None:
            problem = f"{label}:{number}: longer than {limits.max_request_bytes} bytes (receive.max_request_bytes)"
            yield Item(line=number, batch=SpanBatch(rejected={LINE_TOO_LARGE: 1}), problem=problem)
        elif text := line.strip():
            yield _line(text, number, label, limits)


def _line(text: bytes, number: int, label: str, limits: Limits) -> Item:
    try:
        return Item(line=number, batch=decode_document(text, limits), size_bytes=len(text))
    except BadInputError as error:
        reason = TOO_MANY_ITEMS if isinstance(error, TooLargeError) else MALFORMED_LINE
        return Item(line=number, batch=SpanBatch(rejected={reason: 1}), problem=f"{label}:{number}: {error}")


def _document(opened: InflatedFile, label: str, limits: Limits) -> Item:
    text = opened.sample(limits.max_request_bytes + 1)
    if len(text) > limits.max_request_bytes:
        problem = f"{label}:1: one JSON document longer than {limits.max_request_bytes} bytes: write a request per line"
        return Item(line=1, batch=SpanBatch(rejected={LINE_TOO_LARGE: 1}), problem=problem)
    return _line(text, 1, label, limits)


def _messages(opened: InflatedFile, label: str, limits: Limits) -> Iterator[Item]:
    single = _single_message(opened, limits)
    if single is not None:
        yield Item(line=None, batch=single)
        return
    source = io.BufferedReader(opened, _SAMPLE_BYTES)
    number = empty = 0
    while (length := read_varint(source)) is not None:
        number += 1
        empty = 0 if length else empty + 1
        if empty > _MOST_EMPTY:
            raise DecodeError(f"{empty} empty messages after each other: this is no length-delimited protobuf")
        data = source.read(length) if 0 <= length <= limits.max_request_bytes else b""
        item = _message(data, length, f"{label}: message {number}", limits)
        yield item
        if item.problem and (number == 1 or len(data) != length):
            return  # never was delimited protobuf, or the frames are lost


def _message(data: bytes, length: int, label: str, limits: Limits) -> Item:
    if len(data) != length:
        told = f"truncated, longer than {limits.max_request_bytes} bytes, or not length-delimited protobuf"
        return Item(line=None, batch=SpanBatch(rejected={MALFORMED_MESSAGE: 1}), problem=f"{label}: {told}")
    try:
        return Item(line=None, batch=decode_message(data, limits), size_bytes=length)
    except BadInputError as error:
        reason = TOO_MANY_ITEMS if isinstance(error, TooLargeError) else MALFORMED_MESSAGE
        return Item(line=None, batch=SpanBatch(rejected={reason: 1}), problem=f"{label}: {error}")


def _single_message(opened: InflatedFile, limits: Limits) -> SpanBatch | None:
    # A request begins with the tag of its first field, which is also the length of a ten-byte message: try it.
    if opened.sample(1) != b"\n":
        return None
    data = opened.sample(limits.max_request_bytes + 1)
    if len(data) > limits.max_request_bytes:
        return None
    try:
        return decode_message(data, limits)
    except DecodeError:
        return None


def _is_protobuf(opened: InflatedFile, limits: Limits) -> bool:
    if _single_message(opened, limits) is not None:
        return True
    source = io.BytesIO(opened.sample(limits.max_request_bytes))
    length = read_varint(source)
    data = source.read(length) if length is not None and length > 0 else b""
    return bool(data) and _message(data, len(data), "", limits).problem is None
