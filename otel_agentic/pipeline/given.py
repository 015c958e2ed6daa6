"""Conversations as arguments of `evaluate`: objects, records, spans, files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, cast, runtime_checkable

import orjson

from otel_agentic.conversations.model import Conversation
from otel_agentic.errors import BadInputError, UsageError
from otel_agentic.pipeline.in_memory import SpanBuffer
from otel_agentic.pipeline.records import conversation_of
from otel_agentic.pipeline.truthfiles import read_file, require
from otel_agentic.regular_files import open_regular, read_regular
from otel_agentic.spans import Limits, LogRecord, Span, SpanBatch, decode_document, decode_traces
from otel_agentic.truth.formats import read_document

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from otel_agentic.config import Settings
    from otel_agentic.truth import Case
    from otel_agentic.truth.formats import Document


@runtime_checkable
class FinishedSpan(Protocol):
    """A finished span of the OpenTelemetry SDK, as exporters receive it."""

    @property
    def instrumentation_scope(self) -> Any:
        """The instrumentation scope that recorded it."""
        ...

    def get_span_context(self) -> Any:
        """Return its ids."""
        ...


if TYPE_CHECKING:
    #: One conversation, spans of conversations, or a file of these.
    ConversationLike = (
        Conversation | Mapping[str, Any] | str | os.PathLike[str] | Span | LogRecord | SpanBatch | FinishedSpan
    )

ALLOWED: Final = (
    "a Conversation, a record in the shape of a line of `conversations export`, a record or file of Fair Forge or RAGAS, "
    "finished spans, or the path of a file of exported conversations or of OTLP"
)
#: A JSON file is OTLP if its first bytes contain one of these keys.
_SNIFFED_BYTES: Final = 65_536
_OTLP_KEYS: Final = ("resourceSpans", "resource_spans", "resourceLogs", "resource_logs")
_RECORD_KEYS: Final = ("conversation_id", "turns")


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """The conversations, the cases that their documents contain, and sentences about input that could not be read."""

    conversations: tuple[Conversation, ...]
    cases: tuple[Case, ...]
    problems: tuple[str, ...]


def read_conversations(conversations: ConversationLike | Iterable[ConversationLike], settings: Settings) -> Inputs:
    """Return the conversations of objects, records and files in their order; those rebuilt from spans come last.

    Raises:
        UsageError: an item has a type that is not allowed.
        BadInputError: a record or file is malformed, or two different conversations have the same id; the message names it.
    """
    reader = _InputReader(settings=settings)
    is_single = isinstance(
        conversations, str | os.PathLike | Mapping | Conversation | Span | LogRecord | SpanBatch
    ) or not isinstance(conversations, Iterable)
    items = cast("Iterable[ConversationLike]", [conversations] if is_single else conversations)
    for index, item in enumerate(items):
        reader.add(item, "conversations" if is_single else f"conversations[{index}]")
    return reader.inputs()


@dataclass(slots=True, kw_only=True)
class _InputReader:
    """Sorts items by type, and reads them at the end: records of other tools, and spans, are read together."""

    settings: Settings
    conversations: list[Conversation] = field(default_factory=list)
    foreign: list[Mapping[str, Any]] = field(default_factory=list)
    documents: list[Document] = field(default_factory=list)
    finished: list[FinishedSpan] = field(default_factory=list)
    spans: SpanBuffer = field(default_factory=SpanBuffer)

    def add(self, item: Any, location: str) -> None:
        match item:
            case Conversation():
                self.conversations.append(item)
            case str() | os.PathLike():
                self._add_file(Path(item))
            case SpanBatch():
                self.spans.add(item)
            case Span():
                self.spans.add(SpanBatch(spans=(item,)))
            case LogRecord():
                self.spans.add(SpanBatch(logs=(item,)))
            case Mapping():
                self._add_record(item, location)
            case FinishedSpan():
                self.finished.append(item)
            case _:
                raise UsageError(f"{location}: found a value of type {type(item).__name__}; allowed: {ALLOWED}")

    def _add_record(self, record: Mapping[str, Any], location: str) -> None:
        if any(key in record for key in _OTLP_KEYS):
            limits = Limits.from_settings(self.settings.receive)
            self.spans.add(decode_document(orjson.dumps(dict(record)), limits))
        elif _is_conversation(record) or not record:
            self.conversations.append(conversation_of(record, location))
        else:
            self.foreign.append(record)

    def _add_file(self, path: Path) -> None:
        if path.is_dir() or _is_otlp(path):
            self.spans.add_files([path], self.settings)
            return
        records = _exported_records(path)
        if records is None:
            self.documents.append(read_file(path))
        else:
            self.conversations += [conversation_of(record, f"{path}:{line}") for line, record in records]

    def inputs(self) -> Inputs:
        """Return the content of all items."""
        if self.finished:
            self.spans.add(_batch_of(self.finished, Limits.from_settings(self.settings.receive)))
        if self.foreign:
            text = "".join(f"{orjson.dumps(dict(record)).decode()}\n" for record in self.foreign)
            self.documents.append(read_document("conversations", text))
        require(self.documents)
        rebuilt = tuple(self.spans.conversations(self.settings))
        documented = chain.from_iterable(document.conversations for document in self.documents)
        return Inputs(
            conversations=tuple(_distinct([*self.conversations, *documented, *rebuilt])),
            cases=tuple(chain.from_iterable(document.cases for document in self.documents)),
            problems=tuple(self.spans.problems),
        )


def _is_conversation(record: Mapping[str, Any]) -> bool:
    return any(key in record for key in _RECORD_KEYS)


def _is_otlp(path: Path) -> bool:
    """Return whether a file is OTLP: JSON with an OTLP key, or a binary format."""
    try:
        with open_regular(path) as file:
            start = file.read(_SNIFFED_BYTES).removeprefix(b"\xef\xbb\xbf").lstrip()
    except OSError as error:
        raise UsageError(f"conversations file {path}: {error.strerror}; give a readable file") from error
    # Parquet, CSV and YAML contain cases, not conversations: `read_file` reports the error.
    if start.startswith(b"PAR1") or path.suffix.lower() in {".csv", ".yaml", ".yml"}:
        return False
    return start[:1] not in {b"{", b"["} or any(f'"{key}"'.encode() in start for key in _OTLP_KEYS)


def _exported_records(path: Path) -> Sequence[tuple[int, Mapping[str, Any]]] | None:
    """Return line and record of each exported conversation in a file, or None if it contains something else."""
    content = read_regular(path).removeprefix(b"\xef\xbb\xbf")
    lines = [(number, line) for number, line in enumerate(content.split(b"\n"), start=1) if line.strip()]
    if not lines or not _is_conversation_line(lines[0][1]):
        return _exported_document(content)
    return [(number, _parsed(line, f"{path}:{number}")) for number, line in lines]


def _exported_document(content: bytes) -> Sequence[tuple[int, Mapping[str, Any]]] | None:
    """Return the records of a JSON document that is a conversation or a list of them, with their numbers."""
    try:
        document = orjson.loads(content)
    except orjson.JSONDecodeError:
        return None
    records = document if isinstance(document, list) else [document]
    if not any(isinstance(record, dict) and _is_conversation(record) for record in records):
        return None
    return list(enumerate(records, start=1))


def _is_conversation_line(line: bytes) -> bool:
    try:
        record = orjson.loads(line)
    except orjson.JSONDecodeError:
        return False
    return isinstance(record, dict) and _is_conversation(record)


def _parsed(line: bytes, location: str) -> Mapping[str, Any]:
    try:
        return cast("Mapping[str, Any]", orjson.loads(line))
    except orjson.JSONDecodeError as error:
        raise BadInputError(
            f"{location}: not JSON: {error}; each line must be one conversation as a JSON object"
        ) from error


def _batch_of(spans: Sequence[FinishedSpan], limits: Limits) -> SpanBatch:
    """Return finished spans of the OpenTelemetry SDK as if they had been received over OTLP."""
    from opentelemetry.exporter.otlp.proto.common.trace_encoder import (  # noqa: PLC0415 — needed for spans of this process only
        encode_spans,
    )

    return decode_traces(encode_spans(cast("Any", spans)).SerializeToString(), limits)


def _distinct(conversations: Iterable[Conversation]) -> Iterator[Conversation]:
    """Yield each conversation once.

    Raises:
        BadInputError: two different conversations have the same id.
    """
    known: dict[tuple[str, str], Conversation] = {}
    for conversation in conversations:
        first = known.setdefault(conversation.key, conversation)
        if first is conversation:
            yield conversation
        elif first != conversation:
            raise BadInputError(
                f"conversation {str(conversation.conversation_id)!r} occurs twice with different content; "
                "use a different id for each attempt"
            )
