"""Files: OTLP/JSON lines, one JSON document, protobuf (delimited or single), gzip or zstd of these, directories, stdin."""

from __future__ import annotations

import io
import os
import re
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, Literal, NoReturn

from collectors._http import GZIP_MAGIC, ZSTD_MAGIC, Gunzip, Identity, Inflater, Unzstd
from otel_agentic import regular_files
from otel_agentic.errors import BadInputError, DecodeError, TooLargeError
from otel_agentic.spans import Limits, SpanBatch, decode_document, decode_message, merge_batches

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

    from otel_agentic.config import Settings

_READ_BYTES: Final = 256 * 1024
_SKIP_BYTES: Final = 1024 * 1024
#: The window of the zstd command line at its highest ordinary levels.
_FILE_WINDOW_BYTES: Final = 128 * 1024 * 1024


class InflatedFile(io.RawIOBase):
    """A file that is decompressed on reading; its first bytes decide between gzip, zstd and no compression."""

    def __init__(self, raw: BinaryIO) -> None:
        super().__init__()
        self._raw = raw
        self._pieces = self._inflate()
        self._ahead = b""
        self._at = 0  # the position in `_ahead` of the next byte: removing returned bytes would copy the rest each time
        self.bytes_read = 0  # of the file itself, for progress

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        """Fill the buffer; 0 is the end.

        Raises:
            DecodeError: the compressed bytes are damaged or truncated.
        """
        if self._at == len(self._ahead):
            self._ahead, self._at = next(self._pieces, b""), 0
        view = memoryview(buffer).cast("B")
        count = min(len(view), len(self._ahead) - self._at)
        view[:count] = memoryview(self._ahead)[self._at : self._at + count]
        self._at += count
        return count

    def sample(self, count: int) -> bytes:
        """Return the next `count` bytes, fewer at the end, without consuming them.

        Raises:
            DecodeError: the compressed bytes are damaged or truncated.
        """
        ahead = self._ahead[self._at :]
        pieces, size = [ahead], len(ahead)
        while size < count and (piece := next(self._pieces, b"")):
            pieces.append(piece)
            size += len(piece)
        self._ahead, self._at = b"".join(pieces), 0
        return self._ahead[:count]

    def _inflate(self) -> Iterator[bytes]:
        data = self._raw.read(len(ZSTD_MAGIC))
        opened = _inflater(data)
        while data:
            self.bytes_read += len(data)
            yield from (piece for piece in opened.feed(data) if piece)
            data = self._raw.read(_READ_BYTES)
        opened.finish()


def read_line(source: BinaryIO, max_bytes: int) -> bytes | None:
    """Return the next line with its line end, or empty bytes at the end of the file.

    A line longer than `max_bytes` is skipped without storing it; the result is None.
    """
    line = source.readline(max_bytes + 1)
    if len(line) <= max_bytes or line.endswith(b"\n"):
        return line
    while line and not line.endswith(b"\n"):
        line = source.readline(_SKIP_BYTES)
    return None


def read_varint(source: BinaryIO) -> int | None:
    """Return the length prefix of a delimited message; None at the end of the file, -1 if it is not a varint."""
    value = 0
    for shift in range(0, 64, 7):
        byte = source.read(1)
        if not byte:
            return -1 if shift else None
        value |= (byte[0] & 0x7F) << shift
        if byte[0] < 0x80:  # noqa: PLR2004 — the continuation bit
            return value
    return -1


def _inflater(head: bytes) -> Inflater:
    if head.startswith(GZIP_MAGIC):
        return Gunzip()
    return Unzstd(_FILE_WINDOW_BYTES) if head.startswith(ZSTD_MAGIC) else Identity()


Kind = Literal["lines", "document", "protobuf", "other text"]

MALFORMED_LINE: Final = "malformed line"
MALFORMED_MESSAGE: Final = "malformed message"
LINE_TOO_LARGE: Final = "line beyond max_request_bytes"
#: A small line or message whose content would take too much memory.
TOO_MANY_ITEMS: Final = "line or message beyond max_items"
DAMAGED_REST: Final = "damaged rest of a file"
#: A file in a directory that is not OTLP: a note, an index, a picture.
NOT_OTLP_FILE: Final = "file in a directory that is not OTLP"

_SAMPLE_BYTES: Final = 64 * 1024
#: A file of zeros is a file of empty messages: a gigabyte of them takes hours to read, and is a megabyte of gzip.
_MOST_EMPTY: Final = 1000
_BOM: Final = b"\xef\xbb\xbf"
#: Bytes that JSON text never contains unescaped, and that are common in protobuf's tags, lengths and ids.
_CONTROL: Final = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]")
#: Matches a line that leaves a container open, followed by one that does not begin a new request.
_OPEN_LINE: Final = re.compile(rb"[^\n]*[{\[,:][ \t\r]*\n\s*[^\s{]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One line, document or message of `size_bytes`; `line` is None in binary files."""

    line: int | None
    batch: SpanBatch
    size_bytes: int = 0
    problem: str | None = None


def read_items(opened: InflatedFile, *, label: str, named: bool, limits: Limits) -> Iterator[Item]:
    """Yield the items of the file; a damaged part is an item with a problem, and reading continues if possible.

    Args:
        opened: the file, decompressed while it is read.
        label: the name of the file in problems.
        named: whether the user named this file; otherwise a file that is not OTLP is only counted.
        limits: the limits of one line or message.
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
    r"""Return the kind of a (decompressed) file by its first bytes.

    >>> sniff(b'{"resourceSpans": []}\n'), sniff(b'{\n "resourceSpans": []}'), sniff(b"\n\x10\x0a\x02")
    ('lines', 'document', 'protobuf')
    """
    text = sample.removeprefix(_BOM).lstrip()
    # A JSON line with a stray control byte still begins like one; protobuf never begins with these two bytes.
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
            raise DecodeError(f"{empty} consecutive empty messages: this is not length-delimited protobuf")
        data = source.read(length) if 0 <= length <= limits.max_request_bytes else b""
        item = _message(data, length, f"{label}: message {number}", limits)
        yield item
        if item.problem and (number == 1 or len(data) != length):
            return  # not delimited protobuf, or the framing is lost


def _message(data: bytes, length: int, label: str, limits: Limits) -> Item:
    if len(data) != length:
        message = f"truncated, longer than {limits.max_request_bytes} bytes, or not length-delimited protobuf"
        return Item(line=None, batch=SpanBatch(rejected={MALFORMED_MESSAGE: 1}), problem=f"{label}: {message}")
    try:
        return Item(line=None, batch=decode_message(data, limits), size_bytes=length)
    except BadInputError as error:
        reason = TOO_MANY_ITEMS if isinstance(error, TooLargeError) else MALFORMED_MESSAGE
        return Item(line=None, batch=SpanBatch(rejected={reason: 1}), problem=f"{label}: {error}")


def _single_message(opened: InflatedFile, limits: Limits) -> SpanBatch | None:
    # A request begins with the tag of its first field, which is also the length of a ten-byte message: try both.
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


STDIN: Final = "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class InputFile:
    """A file to read. `named` is False for a file found in a directory, which may be of any kind, or not OTLP."""

    path: str
    named: bool
    size_bytes: int | None


def find_files(paths: Iterable[str | os.PathLike[str]]) -> list[InputFile]:
    """Return the files that the paths name; directories are walked in sorted order.

    A walk skips hidden entries and links to directories. `-` is standard input, of unknown size.
    Other kinds of files (pipes, devices) are refused, because reading one could block forever.

    Raises:
        BadInputError: a path does not exist, or is neither a regular file nor a directory; names it.
    """
    return [file for path in paths for file in _find(os.fspath(path))]


def open_regular(path: str) -> BinaryIO:
    """Return a regular file opened for reading.

    Raises:
        BadInputError: it cannot be opened, or is not a regular file; names it.
    """
    try:
        return regular_files.open_regular(path)
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from error


def _find(path: str) -> Iterator[InputFile]:
    if path == STDIN:
        yield InputFile(path=STDIN, named=True, size_bytes=None)
        return
    try:
        entry = os.stat(path)  # noqa: PTH116 — a path may be bytes-free text that Path would normalise
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from error
    if stat.S_ISDIR(entry.st_mode):
        yield from _walk(path)
        return
    try:
        regular_files.require_regular(entry.st_mode, path)
    except OSError as error:
        raise _unreadable(path, error) from error
    yield InputFile(path=path, named=True, size_bytes=entry.st_size)


def _walk(directory: str) -> Iterator[InputFile]:
    files: list[Path] = []
    for folder, folders, names in os.walk(directory, onerror=_raise):
        folders[:] = [name for name in folders if not name.startswith(".")]
        files += [Path(folder, name) for name in names if not name.startswith(".")]
    for path in sorted(files):
        yield InputFile(path=str(path), named=False, size_bytes=_size(path))


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0  # removed in the meantime, or a broken link: opening it will report this


def _raise(error: OSError) -> NoReturn:
    raise _unreadable(str(error.filename), error) from error


def _unreadable(path: str, error: OSError | ValueError) -> BadInputError:
    reason = error.strerror if isinstance(error, OSError) else str(error)
    return BadInputError(f"{path}: {reason}; use an existing file, a directory, or - for standard input")


#: Lines are combined up to this many spans and log records, or bytes, because a commit for each line would be slow.
_CHUNK_RECORDS: Final = 2_000
_CHUNK_BYTES: Final = 16 * 1024 * 1024
_STDIN_LABEL: Final = "<stdin>"
_UNREADABLE: Final = "unreadable file in a directory"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChunk:
    """A part of a file, decoded.

    `line` is the number of its first line, from 1; None in binary files. `problem` describes an unreadable part with its location
    (`traces.jsonl:17: not JSON: …`); the batch then counts it as rejected and contains nothing else. `bytes_read` counts the
    compressed bytes of all files so far; `total_bytes` is its final value, None if standard input is among the files.
    """

    path: str
    line: int | None
    batch: SpanBatch
    problem: str | None
    bytes_read: int
    total_bytes: int | None


class FileReader:
    """Reads files of any OTLP format, recognised by content."""

    name = "files"

    def __init__(self, limits: Limits, *, stdin: BinaryIO | None = None) -> None:
        self._limits = limits
        self._stdin = stdin

    @classmethod
    def from_settings(cls, settings: Settings) -> FileReader:
        """Return a reader with the limits of the `receive` section."""
        return cls(Limits.from_settings(settings.receive))

    def read(self, paths: Iterable[str | os.PathLike[str]]) -> Iterator[FileChunk]:
        """Yield the chunks of all files; damaged parts are chunks with a problem, and reading continues.

        Directories are read recursively in sorted order, without hidden entries and linked directories; `-` is
        standard input. All paths are looked up before the first file is read.

        Raises:
            BadInputError: a path is missing, or is neither a regular file nor a directory; names it.
        """
        files = find_files(paths)
        sizes = [file.size_bytes for file in files]
        total = None if None in sizes else sum(size or 0 for size in sizes)
        done = 0
        for file in files:
            for chunk in self._read_file(file):
                yield replace(chunk, bytes_read=done + chunk.bytes_read, total_bytes=total)
            done += file.size_bytes or 0

    def _read_file(self, file: InputFile) -> Iterator[FileChunk]:
        try:
            raw = self._open(file)
        except BadInputError as error:
            if file.named:
                raise
            item = Item(line=None, batch=SpanBatch(rejected={_UNREADABLE: 1}), problem=str(error))
            yield _chunk(file, item, 0)
            return
        with raw as source:
            opened = InflatedFile(source)
            for item in _group_items(read_items(opened, label=_label(file), named=file.named, limits=self._limits)):
                yield _chunk(file, item, opened.bytes_read)

    def _open(self, file: InputFile) -> AbstractContextManager[BinaryIO]:
        if file.path == STDIN:
            return nullcontext(self._stdin or sys.stdin.buffer)  # not ours to close
        return open_regular(file.path)


def _group_items(items: Iterator[Item]) -> Iterator[Item]:
    """Yield consecutive items without a problem as one item."""
    pending: list[Item] = []
    records = size_bytes = 0
    for item in items:
        if item.problem is None:
            pending.append(item)
            records += len(item.batch.spans) + len(item.batch.logs)
            size_bytes += item.size_bytes
        if pending and (item.problem is not None or records >= _CHUNK_RECORDS or size_bytes >= _CHUNK_BYTES):
            yield _merge_items(pending)
            pending, records, size_bytes = [], 0, 0
        if item.problem is not None:
            yield item
    if pending:
        yield _merge_items(pending)


def _merge_items(items: list[Item]) -> Item:
    return Item(line=items[0].line, batch=merge_batches(item.batch for item in items))


def _chunk(file: InputFile, item: Item, bytes_read: int) -> FileChunk:
    return FileChunk(
        path=_label(file),
        line=item.line,
        batch=item.batch,
        problem=item.problem,
        bytes_read=bytes_read,
        total_bytes=None,
    )


def _label(file: InputFile) -> str:
    return _STDIN_LABEL if file.path == STDIN else file.path
