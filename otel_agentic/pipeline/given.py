"""Conversations as people hand them to `evaluate`: objects, records, spans, files."""

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
from otel_agentic.pipeline.in_memory import Gathered
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
    """A span of the OpenTelemetry SDK that has ended, as an exporter gets it."""

    @property
    def instrumentation_scope(self) -> Any:
        """Who wrote it."""
        ...

    def get_span_context(self) -> Any:
        """Return its ids."""
        ...


if TYPE_CHECKING:
    #: One conversation, spans of some, or a file of them.
    ConversationLike = (
        Conversation | Mapping[str, Any] | str | os.PathLike[str] | Span | LogRecord | SpanBatch | FinishedSpan
    )

ALLOWED: Final = (
    "a Conversation, a record in the shape of a line of `conversations export`, a record or file of Fair Forge or RAGAS, "
    "finished spans, or the path of a file of exported conversations or of OTLP"
)
#: A file that begins so much like JSON, and names one of these, is OTLP.
_SNIFFED_BYTES: Final = 65_536
_OTLP_KEYS: Final = ("resourceSpans", "resource_spans", "resourceLogs", "resource_logs")
_RECORD_KEYS: Final = ("conversation_id", "turns")


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What was handed over: conversations, the cases that came with them, and what could not be read."""

    conversations: tuple[Conversation, ...]
    cases: tuple[Case, ...]
    problems: tuple[str, ...]


def read_conversations(given: ConversationLike | Iterable[ConversationLike], settings: Settings) -> Given:
    """Return the conversations of whatever holds them, in their order; those of spans come last.

    Raises:
        UsageError: something is none of what is allowed.
        BadInputError: a record or file breaks its format, or two conversations have one id; names it.
    """
    reading = _Reading(settings=settings)
    one = isinstance(given, str | os.PathLike | Mapping | Conversation | Span | LogRecord | SpanBatch)
    one = one or not isinstance(given, Iterable)
    items = cast("Iterable[ConversationLike]", [given] if one else given)
    for place, item in enumerate(items):
        reading.take(item, "conversations" if one else f"conversations[{place}]")
    return reading.given()


@dataclass(slots=True, kw_only=True)
class _Reading:
    """Takes one thing after the other, and sorts out what it is."""

    settings: Settings
    told: list[Conversation] = field(default_factory=list)
    foreign: list[Mapping[str, Any]] = field(default_factory=list)
    documents: list[Document] = field(default_factory=list)
    finished: list[FinishedSpan] = field(default_factory=list)
    gathered: Gathered = field(default_factory=Gathered)

    def take(self, item: Any, place: str) -> None:
        match item:
            case Conversation():
                self.told.append(item)
            case str() | os.PathLike():
                self._take_file(Path(item))
            case SpanBatch():
                self.gathered.take(item)
            case Span():
                self.gathered.take(SpanBatch(spans=(item,)))
            case LogRecord():
                self.gathered.take(SpanBatch(logs=(item,)))
            case Mapping():
                self._take_record(item, place)
            case FinishedSpan():
                self.finished.append(item)
            case _:
                raise UsageError(f"{place}: found a value of type {type(item).__name__}; allowed: {ALLOWED}")

    def _take_record(self, record: Mapping[str, Any], place: str) -> None:
        if any(key in record for key in _OTLP_KEYS):
            limits = Limits.from_settings(self.settings.receive)
            self.gathered.take(decode_document(orjson.dumps(dict(record)), limits))
        elif _is_told(record) or not record:
            self.told.append(conversation_of(record, place))
        else:
            self.foreign.append(record)

    def _take_file(self, path: Path) -> None:
        if path.is_dir() or _is_otlp(path):
            self.gathered.take_files([path], self.settings)
            return
        records = _told_records(path)
        if records is None:
            self.documents.append(read_file(path))
        else:
            self.told += [conversation_of(record, f"{path}:{line}") for line, record in records]

    def given(self) -> Given:
        """Return all that was taken."""
        if self.finished:
            self.gathered.take(_batch_of(self.finished, Limits.from_settings(self.settings.receive)))
        if self.foreign:
            text = "".join(f"{orjson.dumps(dict(record)).decode()}\n" for record in self.foreign)
            self.documents.append(read_document("conversations", text))
        require(self.documents)
        rebuilt = tuple(self.gathered.conversations(self.settings))
        documented = chain.from_iterable(document.conversations for document in self.documents)
        return Given(
            conversations=tuple(_distinct([*self.told, *documented, *rebuilt])),
            cases=tuple(chain.from_iterable(document.cases for document in self.documents)),
            problems=tuple(self.gathered.problems),
        )


def _is_told(record: Mapping[str, Any]) -> bool:
    return any(key in record for key in _RECORD_KEYS)


def _is_otlp(path: Path) -> bool:
    """Return whether a file is OTLP: JSON that says so, or no JSON at all."""
    try:
        with open_regular(path) as file:
            begins = file.read(_SNIFFED_BYTES).removeprefix(b"\xef\xbb\xbf").lstrip()
    except OSError as error:
        raise UsageError(f"conversations file {path}: {error.strerror}; give a readable file") from error
    # Parquet and CSV hold no conversations, but cases: `read_file` says what is wrong with them.
    if begins.startswith(b"PAR1") or path.suffix.lower() in {".csv", ".yaml", ".yml"}:
        return False
    return begins[:1] not in {b"{", b"["} or any(f'"{key}"'.encode() in begins for key in _OTLP_KEYS)


def _told_records(path: Path) -> Sequence[tuple[int, Mapping[str, Any]]] | None:
    """Return line and record of each exported conversation in a file, None where it is a file of something else."""
    content = read_regular(path).removeprefix(b"\xef\xbb\xbf")
    lines = [(number, line) for number, line in enumerate(content.split(b"\n"), start=1) if line.strip()]
    if not lines or not _reads_told(lines[0][1]):
        return _told_list(content)
    return [(number, _parsed(line, f"{path}:{number}")) for number, line in lines]


def _told_list(content: bytes) -> Sequence[tuple[int, Mapping[str, Any]]] | None:
    """Return the records of a JSON document, or list of them, that tells conversations."""
    try:
        document = orjson.loads(content)
    except orjson.JSONDecodeError:
        return None
    records = document if isinstance(document, list) else [document]
    told = [record for record in records if isinstance(record, dict) and _is_told(record)]
    return [(number, record) for number, record in enumerate(records, start=1)] if told else None


def _reads_told(line: bytes) -> bool:
    try:
        record = orjson.loads(line)
    except orjson.JSONDecodeError:
        return False
    return isinstance(record, dict) and _is_told(record)


def _parsed(line: bytes, place: str) -> Mapping[str, Any]:
    try:
        return cast("Mapping[str, Any]", orjson.loads(line))
    except orjson.JSONDecodeError as error:
        raise BadInputError(f"{place}: not JSON: {error}; a line holds one conversation as a JSON object") from error


def _batch_of(spans: Sequence[FinishedSpan], limits: Limits) -> SpanBatch:
    """Return the finished spans of the OpenTelemetry SDK, as if they had come by OTLP."""
    from opentelemetry.exporter.otlp.proto.common.trace_encoder import (  # noqa: PLC0415 — only spans of this process need it
        encode_spans,
    )

    return decode_traces(encode_spans(cast("Any", spans)).SerializeToString(), limits)


def _distinct(conversations: Iterable[Conversation]) -> Iterator[Conversation]:
    """Yield each conversation once.

    Raises:
        BadInputError: two that differ have one id.
    """
    known: dict[tuple[str, str], Conversation] = {}
    for one in conversations:
        first = known.setdefault(one.key, one)
        if first is one:
            yield one
        elif first != one:
            raise BadInputError(
                f"conversation {str(one.conversation_id)!r} is given twice with different content; give each attempt an "
                "id of its own"
            )
