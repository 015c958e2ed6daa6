"""Inputs of `otel_agentic.evaluate`: spans, conversations, records, cases and labels in every accepted form."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Protocol, TypeAlias, cast, runtime_checkable

import orjson
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from otel_agentic import plugins
from otel_agentic.conversations import assemble, link_segments, read_segments
from otel_agentic.conversations.model import (
    CallKind,
    ClosedBy,
    Conversation,
    ConversationId,
    ToolCall,
    Turn,
)
from otel_agentic.dialects import Reader
from otel_agentic.errors import BadInputError, CaseError, UsageError
from otel_agentic.evaluation.case_files import read_file, require
from otel_agentic.regular_files import open_regular, read_regular
from otel_agentic.reports.conversations import ns_of_iso
from otel_agentic.spans import Limits, LogRecord, Span, SpanBatch, decode_document, decode_traces
from otel_agentic.truth import Case, Label
from otel_agentic.truth.formats import read_document
from otel_agentic.truth.load import read_labels as read_label_file

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

    from otel_agentic.config import ScoringSettings, Settings
    from otel_agentic.truth.formats import Document

    #: One conversation, spans of conversations, or a file that contains either.
    ConversationLike: TypeAlias = (
        "Conversation | Mapping[str, Any] | str | os.PathLike[str] | Span | LogRecord | SpanBatch | FinishedSpan"
    )

    CaseLike = Case | Mapping[str, Any] | str | os.PathLike[str]
    #: A verdict, a reward, or a case id with or without a verdict or reward.
    LabelLike = bool | float | str | Label | Mapping[str, Any] | None

_LogKey = tuple[str, str, int, str, str]


@dataclass(slots=True, kw_only=True)
class SpanBuffer:
    """Spans and log records without duplicates: the first one with an id is kept, as in a store.

    `problems` are sentences about input that could not be read or rebuilt.
    """

    problems: list[str] = field(default_factory=list)
    _spans: dict[tuple[str, str], Span] = field(default_factory=dict)
    _logs: dict[_LogKey, LogRecord] = field(default_factory=dict)

    def add(self, batch: SpanBatch) -> None:
        """Add a batch."""
        for span in batch.spans:
            self._spans.setdefault((span.trace_id, span.span_id), span)
        for log in batch.logs:
            self._logs.setdefault((log.trace_id, log.span_id, log.time_ns, log.event_name, repr(log.body)), log)
        self.problems += [f"{count:,} spans or log records: {reason}" for reason, count in batch.rejected.items()]

    def add_files(self, paths: Sequence[Path], settings: Settings) -> None:
        """Add OTLP files in every form that `ingest` reads, and folders of them.

        Raises:
            BadInputError: a path does not exist or is not a file.
        """
        files = plugins.get("collectors", "files").load().from_settings(settings)
        for chunk in files.read([str(path) for path in paths]):
            if chunk.problem is None:
                self.add(chunk.batch)
            else:
                self.problems.append(chunk.problem)

    def conversations(self, settings: Settings) -> Iterator[Conversation]:
        """Yield the conversations of all spans, closed by the end of the input.

        Raises:
            ConfigError: the settings name an unknown dialect or meaning.
        """
        reader = Reader.from_settings(settings.conversations, settings.dialects)
        segments = read_segments(self._spans.values(), self._logs.values(), reader)
        for segment_group in link_segments(segments, settings.conversations):
            try:
                yield assemble(segment_group, settings.conversations, closed_by="end_of_input")
            except Exception as error:  # noqa: BLE001 — reported; an unexpected error must not hide the other conversations
                self.problems.append(
                    f"conversation {segment_group.conversation_id!r} cannot be rebuilt ({type(error).__name__}: {error}); "
                    "please report it"
                )


_MAX_CHARACTERS: Final = 80
#: Allowed values of a field by the type of pydantic's error; other errors keep pydantic's message.
_ALLOWED: Final = {
    "string_type": "a text",
    "string_too_short": "a text that is not empty",
    "bool_type": "true or false",
    "int_type": "a whole number",
    "greater_than_equal": "a whole number from 1",
    "tuple_type": "a list",
    "dict_type": "an object",
    "model_type": "an object",
    "value_error": "an ISO 8601 time, such as 2026-05-29T12:00:00Z",
}


def _time(value: Any) -> int:
    return ns_of_iso(value) if isinstance(value, str) else value


#: A time as ISO 8601 text; 0 if it is unknown.
Time = Annotated[int, BeforeValidator(_time)]


class _Record(BaseModel):
    # Strict, without extra fields: a misspelt key would silently lose calls or answers.
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class CallRecord(_Record):
    """A tool call; without a `step`, it follows the previous call."""

    name: Annotated[str, Field(min_length=1)]
    kind: CallKind = "tool"
    arguments: dict[str, Any] | None = None
    result: Any = None
    result_captured: bool | None = None
    step: Annotated[int, Field(ge=1)] | None = None
    error: str | None = None
    call_id: str | None = None
    span_id: str | None = None
    parent_span_id: str | None = None
    agent_name: str | None = None
    used: bool | None = None


class TurnRecord(_Record):
    """One query, its tool calls, and the answer; turns are numbered by their position in the list, `index` is ignored.

    A missing answer counts as not recorded, unless `answer_captured` is true: then the agent gave no answer.
    """

    index: int | None = None
    query: str | None = None
    query_captured: bool | None = None
    answer: str | None = None
    answer_captured: bool | None = None
    trace_id: str = ""
    span_id: str = ""
    error: str | None = None
    tools: Annotated[tuple[CallRecord, ...], Field(strict=False)] = ()


class ConversationRecord(_Record):
    """A conversation: a line of `conversations export`, or a shorter record written by hand.

    Only `conversation_id` and `turns` are required; absent fields are unknown. `outcome` and `reason` of an export
    belong to an earlier evaluation and are ignored.
    """

    conversation_id: Annotated[str, Field(min_length=1)]
    turns: Annotated[tuple[TurnRecord, ...], Field(strict=False)]
    environment: str | None = None
    revision: Annotated[int, Field(ge=1)] = 1
    agent_name: str | None = None
    agent_version: str | None = None
    service: str | None = None
    started_at: Time = 0
    ended_at: Time = 0
    closed_by: ClosedBy | None = "end_of_input"
    verdict: bool | None = None
    case_id: str | None = None
    outcome: str | None = None
    reason: str | None = None
    slices: Annotated[tuple[str, ...], Field(strict=False)] = ()


def conversation_of(record: Mapping[str, Any], location: str) -> Conversation:
    """Return the conversation of a record.

    Args:
        record: a record with the shape of a line of `conversations export`.
        location: the file and line, or index, of the record, for messages.

    Raises:
        BadInputError: the record is malformed; the message has location, field and allowed values.

    >>> record = {"conversation_id": "1", "turns": [{"query": "2+2?", "answer": "4"}]}
    >>> turn = conversation_of(record, "conversations:1").turns[0]
    >>> turn.answer, turn.answer_captured
    ('4', True)
    """
    try:
        read = ConversationRecord.model_validate(record)
    except ValidationError as error:
        raise BadInputError("\n".join(f"{location}: {problem}" for problem in _problems(error))) from error
    return Conversation(
        environment=read.environment or "",
        conversation_id=ConversationId(read.conversation_id),
        revision=read.revision,
        agent_name=read.agent_name,
        agent_version=read.agent_version,
        service=read.service,
        started_ns=read.started_at,
        ended_ns=read.ended_at,
        closed_by=read.closed_by,
        link_method="explicit",
        case_id=read.case_id,
        verdict=read.verdict,
        turns=tuple(_turn(turn, index, read) for index, turn in enumerate(read.turns)),
        slices=read.slices,
    )


def _turn(turn: TurnRecord, index: int, conversation: ConversationRecord) -> Turn:
    return Turn(
        index=index,
        query=turn.query,
        query_captured=_captured(turn.query, turn.query_captured),
        answer=turn.answer,
        answer_captured=_captured(turn.answer, turn.answer_captured),
        error=turn.error,
        calls=tuple(_calls(turn)),
        trace_id=turn.trace_id,
        span_id=turn.span_id,
        started_ns=conversation.started_at,
        ended_ns=conversation.ended_at,
    )


def _calls(turn: TurnRecord) -> Iterator[ToolCall]:
    step = 0
    for position, call in enumerate(turn.tools):
        step = step + 1 if call.step is None else call.step
        yield ToolCall(
            name=call.name,
            kind=call.kind,
            step=step,
            position=position,
            arguments=call.arguments,
            result=call.result,
            result_captured=_captured(call.result, call.result_captured),
            error=call.error,
            call_id=call.call_id,
            trace_id=turn.trace_id,
            span_id=call.span_id,
            parent_span_id=call.parent_span_id,
            agent_name=call.agent_name,
            source="message",
            used_flag=call.used,
        )


def _captured(value: Any, flag: bool | None) -> bool:  # noqa: FBT001 — a field of the record
    return value is not None or flag is True


def _problems(error: ValidationError) -> Iterator[str]:
    for detail in error.errors(include_url=False):
        path = ".".join(str(part) for part in detail["loc"])
        yield f"{path}: {_sentence(detail)}" if path else _sentence(detail)


def _sentence(detail: ErrorDetails) -> str:
    text = repr(detail["input"])
    value = text if len(text) <= _MAX_CHARACTERS else f"{text[: _MAX_CHARACTERS - 1]}…"
    if detail["type"] == "missing":
        return "missing; it is required here"
    if detail["type"] == "extra_forbidden":
        return f"unknown field, found {value}; allowed: {', '.join(_allowed_at(detail['loc']))}"
    allowed_values = _ALLOWED.get(detail["type"]) or detail["msg"].removeprefix("Input should be ")
    return f"found {value}; allowed: {allowed_values}"


def _allowed_at(path: Sequence[str | int]) -> list[str]:
    record = CallRecord if "tools" in path[:-1] else TurnRecord if "turns" in path[:-1] else ConversationRecord
    return sorted(record.model_fields)


@runtime_checkable
class FinishedSpan(Protocol):
    """A finished span of the OpenTelemetry SDK, as exporters receive it."""

    @property
    def instrumentation_scope(self) -> Any:
        """The instrumentation scope that recorded it."""
        ...

    def get_span_context(self) -> Any:
        """Return the span context with its ids."""
        ...


ALLOWED: Final = (
    "a Conversation, a record in the shape of a line of `conversations export`, a record or file of Fair Forge or RAGAS, a "
    "record with `input`, `output` and perhaps `expected`, a pandas data frame of records, finished spans, a store, or the "
    "path of a file of exported conversations, of OTLP or of a store"
)
#: Names of fields in rows of other tools, and in those of RAGAS.
_SYNONYMS: Final = {
    "input": "user_input",
    "query": "user_input",
    "output": "response",
    "answer": "response",
    "expected": "reference",
}
#: The mark of a DuckDB file, after its checksum.
_DUCKDB_MARK, _DUCKDB_OFFSET = b"DUCK", 8
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
    if hasattr(conversations, "to_dict") and hasattr(conversations, "columns"):
        conversations = _frame_records(conversations)
    inputs = cast("Iterable[ConversationLike]", [conversations] if is_single else conversations)
    for index, conversation in enumerate(inputs):
        reader.add(conversation, "conversations" if is_single else f"conversations[{index}]")
    return reader.inputs()


@dataclass(slots=True, kw_only=True)
class _InputReader:
    """Groups inputs by type and reads them at the end, because records of other tools, and spans, are read together."""

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
        elif {_SYNONYMS.get(name, name) for name in record} >= {"user_input", "response"}:
            self.foreign.append({_SYNONYMS.get(name, name): value for name, value in record.items()})
        else:
            self.foreign.append(record)

    def _add_file(self, path: Path) -> None:
        if _is_store(path):
            self._add_store(path)
            return
        if path.is_dir() or _is_otlp(path):
            self.spans.add_files([path], self.settings)
            return
        records = _exported_records(path)
        if records is None:
            self.documents.append(read_file(path))
        else:
            self.conversations += [conversation_of(record, f"{path}:{line}") for line, record in records]

    def _add_store(self, path: Path) -> None:
        """Add the conversations and the cases of a store, or of the collector that holds it."""
        from otel_agentic.commands import open_client  # noqa: PLC0415 — few callers pass a store

        store = self.settings.store.model_copy(update={"db": path})
        client = open_client(self.settings.model_copy(update={"store": store}), server=None)
        with closing(client):
            for number, record in enumerate(client.stream("conversations_export"), start=1):
                self.conversations.append(conversation_of(record, f"{path}:{number}"))
            with suppress(BadInputError):  # a store may have no cases
                cases = client.call("truth_export")
                text = "".join(f"{orjson.dumps(case).decode()}\n" for case in cases)
                self.documents.append(read_document(str(path), text))

    def inputs(self) -> Inputs:
        """Return the content of all inputs."""
        if self.finished:
            self.spans.add(_batch_of(self.finished, Limits.from_settings(self.settings.receive)))
        if self.foreign:
            text = "".join(f"{orjson.dumps(dict(record)).decode()}\n" for record in self.foreign)
            self.documents.append(read_document("conversations", text))
        require(self.documents)
        rebuilt = tuple(self.spans.conversations(self.settings))
        from_documents = chain.from_iterable(document.conversations for document in self.documents)
        return Inputs(
            conversations=tuple(_distinct([*self.conversations, *from_documents, *rebuilt])),
            cases=tuple(chain.from_iterable(document.cases for document in self.documents)),
            problems=tuple(self.spans.problems),
        )


def _frame_records(frame: Any) -> list[dict[str, Any]]:
    """Return the rows of a data frame as records without the cells that are missing."""
    return [
        {str(name): value for name, value in record.items() if value is not None and value == value}  # noqa: PLR0124 — NaN differs from itself
        for record in frame.to_dict("records")
    ]


def _is_store(path: Path) -> bool:
    """Return whether a file is a DuckDB file, by its mark, because a store may have any name."""
    try:
        with path.open("rb") as file:
            return file.read(_DUCKDB_OFFSET + len(_DUCKDB_MARK))[_DUCKDB_OFFSET:] == _DUCKDB_MARK
    except OSError:
        return False  # the reader of the file reports the error


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
    """Return the numbered records of a JSON document that is a conversation or a list of conversations, else None."""
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
    conversations_by_key: dict[tuple[str, str], Conversation] = {}
    for conversation in conversations:
        first = conversations_by_key.setdefault(conversation.key, conversation)
        if first is conversation:
            yield conversation
        elif first != conversation:
            raise BadInputError(
                f"conversation {str(conversation.conversation_id)!r} occurs twice with different content; "
                "use a different id for each attempt"
            )


_CASES: Final = "a Case, a record of one, or the path of a file of cases"
_LABEL: Final = 'True, False, "pass", "fail", a reward (a number), or {"case_id": …, "verdict" or "reward": …} with any of these keys'
_VERDICTS: Final = {"pass": True, "fail": False}
_KEYS: Final = frozenset({"case_id", "verdict", "reward"})


def read_cases(cases: CaseLike | Iterable[CaseLike] | None) -> list[Case]:
    """Return the cases of objects, records and files.

    Raises:
        UsageError: an item has a type that is not allowed.
        CaseError: a record or file is malformed; the message lists all problems.
    """
    if cases is None:
        return []
    inputs = (
        [cases] if isinstance(cases, Case | Mapping | str | os.PathLike) or not isinstance(cases, Iterable) else cases
    )
    objects: list[Case] = []
    records: list[Mapping[str, Any]] = []
    documents = []
    for index, case_input in enumerate(inputs):
        match case_input:
            case Case():
                objects.append(case_input)
            case Mapping():
                records.append(case_input)
            case str() | os.PathLike():
                documents.append(read_file(Path(case_input)))
            case _:
                raise UsageError(f"cases[{index}]: a {type(case_input).__name__}; allowed: {_CASES}")
    if records:
        documents.append(read_document("cases", "".join(map(_line, records))))
    return [*objects, *(case for document in require(documents) for case in document.cases)]


def _line(record: Mapping[str, Any]) -> str:
    complete_record = {"dataset": "default", **record} if "case_id" in record else dict(record)
    try:
        return f"{orjson.dumps(complete_record).decode()}\n"
    except TypeError as error:
        raise CaseError(f"cases: {record.get('case_id', 'a record')!r} is not JSON: {error}") from error


def read_labels(
    labels: Mapping[str, LabelLike] | str | os.PathLike[str] | None, settings: ScoringSettings
) -> Mapping[str, Label]:
    """Return labels by conversation id, from a mapping or a CSV file.

    Raises:
        UsageError: a label is invalid; the message names the conversation.
        CaseError: a file is malformed; the message lists all problems.
    """
    if labels is None:
        return {}
    if isinstance(labels, str | os.PathLike):
        return read_label_file(Path(labels), reward_threshold=settings.reward_threshold).require()
    if not isinstance(labels, Mapping):
        raise UsageError(f"labels: a {type(labels).__name__}; allowed: a mapping of conversation ids, or a CSV file")
    return {str(name): _label(str(name), value, settings.reward_threshold) for name, value in labels.items()}


def _label(name: str, value: LabelLike, threshold: float) -> Label:
    if isinstance(value, Label):
        return replace(value, conversation_id=name)
    case_id, verdict = None, value
    if isinstance(value, Mapping):
        if set(value) - _KEYS or {"verdict", "reward"} <= set(value):
            raise _invalid_label(name, value)
        case_id, verdict = value.get("case_id"), value.get("verdict", value.get("reward"))
    if case_id is not None and not isinstance(case_id, str):
        raise _invalid_label(name, value)
    return Label(conversation_id=name, case_id=case_id, verdict=_verdict(name, verdict, threshold), line=0)


def _verdict(name: str, value: Any, threshold: float) -> bool | None:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in _VERDICTS:
        return _VERDICTS[value.lower()]
    if isinstance(value, int | float) and value == value:  # noqa: PLR0124 — not NaN
        return value >= threshold
    raise _invalid_label(name, value)


def _invalid_label(name: str, value: Any) -> UsageError:
    return UsageError(f"labels[{name!r}]: found {value!r}; allowed: {_LABEL}")
