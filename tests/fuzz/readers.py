"""Everything that reads untrusted input, each as a function of bytes: an unexpected exception is a finding."""

from __future__ import annotations

import io
import logging
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from collectors._http import ENCODINGS, inflate
from collectors.files import FileReader
from otel_agentic.config import ReceiveSettings, StoreSettings, load_settings
from otel_agentic.errors import BadInputError, ConfigError, QueryError
from otel_agentic.spans import (
    Limits,
    SpanBatch,
    decode_document,
    decode_logs,
    decode_logs_json,
    decode_message,
    decode_traces,
    decode_traces_json,
)
from otel_agentic.spans.sanitize import TIME_END_NS
from otel_agentic.store import Store
from otel_agentic.store.queries.sql import check_statement
from otel_agentic.store.table import json_text
from otel_agentic.truth import parse_labels
from otel_agentic.truth.formats import read_document
from tests.dialects.reading import READER
from tests.fuzz import live

if TYPE_CHECKING:
    Reader = Callable[[bytes], None]

#: Small, so that inputs of a few kilobytes reach every limit.
LIMITS: Final = Limits(
    max_request_bytes=1 << 20, max_items=400, max_attributes=8, max_value_bytes=64, max_name_bytes=16, max_events=4
)
_FILE_KINDS: Final = (".jsonl", ".json", ".yaml", ".csv")


def require_sound(batch: SpanBatch) -> None:
    """Fail unless the store can hold the batch: text is UTF-8 without NUL, times fit."""
    for span in batch.spans:
        assert (32, 16) == (len(span.trace_id), len(span.span_id))
        assert 0 <= span.start_ns <= span.end_ns < TIME_END_NS
        assert len(span.attributes) <= LIMITS.max_attributes
        message = [span.name, span.status_message, span.attributes, span.resource.attributes, span.scope.name]
        _require_text(
            [*message, *(event.attributes for event in span.events), *(link.attributes for link in span.links)]
        )
    for log in batch.logs:
        assert 0 <= log.time_ns < TIME_END_NS
        _require_text([log.event_name, log.body, log.attributes])


def _require_text(message: list[Any]) -> None:
    assert "\\u0000" not in json_text(message).replace("\\\\", "")


@contextmanager
def protobuf() -> Iterator[Reader]:
    """Yield the reader of OTLP/protobuf: as traces, as logs, as a message of a file."""
    yield partial(_decode, (decode_traces, decode_logs, decode_message))


@contextmanager
def json() -> Iterator[Reader]:
    """Yield the reader of OTLP/JSON."""
    yield partial(_decode, (decode_traces_json, decode_logs_json, decode_document))


def _decode(decoders: tuple[Callable[[bytes, Limits], SpanBatch], ...], data: bytes) -> None:
    for decode in decoders:
        try:
            require_sound(decode(data, LIMITS))
        except BadInputError:
            continue


@contextmanager
def file() -> Iterator[Reader]:
    """Yield the reader of files: lines, documents, delimited protobuf, gzip and zstd of these."""

    def item(data: bytes) -> None:
        for chunk in FileReader(LIMITS, stdin=io.BytesIO(data)).read(["-"]):
            require_sound(chunk.batch)

    yield item


@contextmanager
def inflating() -> Iterator[Reader]:
    """Yield the decompression of request bodies, the encoding chosen by the first byte."""

    def item(data: bytes) -> None:
        encoding = ENCODINGS[data[0] % len(ENCODINGS)] if data else "gzip"
        held: list[int] = []
        try:
            opened = inflate(data[1:], encoding, LIMITS.max_request_bytes, held.append)
        except BadInputError:
            assert sum(held) <= LIMITS.max_request_bytes
            return
        assert len(opened) <= max(LIMITS.max_request_bytes, len(data))

    yield item


@contextmanager
def cases() -> Iterator[Reader]:
    """Yield the reader of case files, the kind chosen by the first byte."""

    def item(data: bytes) -> None:
        kind = _FILE_KINDS[data[0] % len(_FILE_KINDS)] if data else ".json"
        read_document(f"cases{kind}", data[1:].decode(errors="replace"))

    yield item


@contextmanager
def labels() -> Iterator[Reader]:
    """Yield the reader of label files."""

    def item(data: bytes) -> None:
        parse_labels("labels.csv", data.decode(errors="replace"))

    yield item


@contextmanager
def config() -> Iterator[Reader]:
    """Yield the reader of settings files."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "otel-agentic.toml")

        def item(data: bytes) -> None:
            path.write_bytes(data)
            try:
                load_settings(path)
            except ConfigError:
                return

        yield item


@contextmanager
def query() -> Iterator[Reader]:
    """Yield the guard before SQL of people, on a store without rows."""
    with tempfile.TemporaryDirectory() as folder:
        store = Store(StoreSettings(db=Path(folder, "t.duckdb")), READER)

        def item(data: bytes) -> None:
            with store.connection() as con:
                try:
                    check_statement(con, data.decode(errors="replace"))
                except QueryError:
                    return

        try:
            yield item
        finally:
            store.close()


@contextmanager
def _watched(serving: Callable[[ReceiveSettings, live.Sink], Any]) -> Iterator[Reader]:
    """Yield what a live receiver is sent; an error that it logs or a thread that dies is a finding."""
    result: list[str] = []
    handler = _Finding(result)
    logging.getLogger().addHandler(handler)
    hook, threading.excepthook = threading.excepthook, lambda args: result.append(repr(args))
    settings = ReceiveSettings(http="127.0.0.1:0", grpc="127.0.0.1:0", max_request_bytes=LIMITS.max_request_bytes)
    try:
        with serving(settings, live.Sink(require_sound)) as send:

            def item(data: bytes) -> None:
                send(data)
                assert [] == result

            yield item
    finally:
        threading.excepthook = hook
        logging.getLogger().removeHandler(handler)


class _Finding(logging.Handler):
    def __init__(self, result: list[str]) -> None:
        super().__init__(logging.ERROR)
        self._findings = result

    def emit(self, record: logging.LogRecord) -> None:
        self._findings.append(self.format(record))


#: Each reader by the name that the fuzzer knows it by.
READERS: Final[dict[str, Callable[[], AbstractContextManager[Reader]]]] = {
    "protobuf": protobuf,
    "json": json,
    "file": file,
    "inflate": inflating,
    "http": partial(_watched, live.http),
    "grpc": partial(_watched, live.grpc),
    "query": query,
    "cases": cases,
    "labels": labels,
    "config": config,
}
