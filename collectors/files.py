"""Files: OTLP/JSON lines, one JSON document, protobuf (delimited or single), gzip or zstd of these, directories, stdin."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, BinaryIO, Final

from collectors._file_bytes import InflatedFile
from collectors._file_items import Item, read_items
from collectors._file_paths import STDIN, find_files, open_regular
from otel_agentic.errors import BadInputError
from otel_agentic.spans import Limits, SpanBatch, merge_batches

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator
    from contextlib import AbstractContextManager

    from collectors._file_paths import Found
    from otel_agentic.config import Settings

#: Lines are handed on together up to this many spans and log records, or bytes: one commit each would be slow.
_CHUNK_RECORDS: Final = 2_000
_CHUNK_BYTES: Final = 16 * 1024 * 1024
_STDIN_LABEL: Final = "<stdin>"
_UNREADABLE: Final = "unreadable file in a directory"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChunk:
    """A part of a file, decoded.

    `line` is the number of its first line, from 1; None in binary files. `problem` says what could not be read and
    where (`traces.jsonl:17: not JSON: …`); the batch then counts it as rejected and holds nothing else.
    `bytes_read` counts the bytes of all files so far, still compressed; `total_bytes` is where it will end, None if
    standard input is among them.
    """

    path: str
    line: int | None
    batch: SpanBatch
    problem: str | None
    bytes_read: int
    total_bytes: int | None


class FileReader:
    """Reads files of any kind that OTLP is kept in, recognised by content."""

    name = "files"

    def __init__(self, limits: Limits, *, stdin: BinaryIO | None = None) -> None:
        self._limits = limits
        self._stdin = stdin

    @classmethod
    def from_settings(cls, settings: Settings) -> FileReader:
        """Return a reader with the limits of the `receive` section."""
        return cls(Limits.from_settings(settings.receive))

    def read(self, paths: Iterable[str | os.PathLike[str]]) -> Iterator[FileChunk]:
        """Yield the chunks of all files; damaged parts are chunks with a problem, and reading goes on.

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

    def _read_file(self, file: Found) -> Iterator[FileChunk]:
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
            for item in _grouped(read_items(opened, label=_label(file), named=file.named, limits=self._limits)):
                yield _chunk(file, item, opened.bytes_read)

    def _open(self, file: Found) -> AbstractContextManager[BinaryIO]:
        if file.path == STDIN:
            return nullcontext(self._stdin or sys.stdin.buffer)  # not ours to close
        return open_regular(file.path)


def _grouped(items: Iterator[Item]) -> Iterator[Item]:
    """Yield neighbours without a problem as one item."""
    waiting: list[Item] = []
    records = size_bytes = 0
    for item in items:
        if item.problem is None:
            waiting.append(item)
            records += len(item.batch.spans) + len(item.batch.logs)
            size_bytes += item.size_bytes
        if waiting and (item.problem is not None or records >= _CHUNK_RECORDS or size_bytes >= _CHUNK_BYTES):
            yield _merged(waiting)
            waiting, records, size_bytes = [], 0, 0
        if item.problem is not None:
            yield item
    if waiting:
        yield _merged(waiting)


def _merged(items: list[Item]) -> Item:
    return Item(line=items[0].line, batch=merge_batches(item.batch for item in items))


def _chunk(file: Found, item: Item, bytes_read: int) -> FileChunk:
    return FileChunk(
        path=_label(file),
        line=item.line,
        batch=item.batch,
        problem=item.problem,
        bytes_read=bytes_read,
        total_bytes=None,
    )


def _label(file: Found) -> str:
    return _STDIN_LABEL if file.path == STDIN else file.path
