"""Untrusted spans, built from the bytes of a fuzzer, read and rebuilt: any exception is a finding."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Protocol

from otel_agentic.testing import batch, event, log_record
from tests.conversations.rebuilding import conversations
from tests.dialects.hostile import EVENTS, KEYS, SAMPLES, WORDS
from tests.dialects.reading import READER

if TYPE_CHECKING:
    from otel_agentic.spans.model import LogRecord, Span

_SPEAKERS: Final = tuple(sorted(SAMPLES))
#: What JSON and the notation of Python are made of: a fuzzer finds its way through these sooner than through letters.
_TOKENS: Final = (
    "[", "]", "{", "}", "(", ")", "<", ">", ",", ":", "=", '"', "'", "\\", "\\u", "\\x", "null", "None", "true", "1e9",
    "-", ".", "b'", "Call(", "datetime(", *(f'"{text_word}"' for text_word in WORDS), *(f"'{text_word}'" for text_word in WORDS),
)  # fmt: skip
_DEEPEST: Final = 4
_INT_BITS: Final = 80


class Source(Protocol):
    """The interface of a fuzzer; atheris' `FuzzedDataProvider` has it all."""

    def ConsumeIntInRange(self, low: int, high: int) -> int:  # noqa: N802 — the name is atheris'
        """Return a number between the two, both included."""
        ...

    def ConsumeUnicode(self, count: int) -> str:  # noqa: N802 — same
        """Return at most so many characters."""
        ...

    def ConsumeBytes(self, count: int) -> bytes:  # noqa: N802 — same
        """Return at most so many bytes."""
        ...

    def ConsumeFloat(self) -> float:  # noqa: N802 — same
        """Return any number."""
        ...


def attack(source: Source) -> None:
    """Put a fuzzer's values into real spans, events and log records of one convention, read each and rebuild them all."""
    spans = list(SAMPLES[_changed_span(source, _SPEAKERS)])
    logs: list[LogRecord] = []
    for _ in range(source.ConsumeIntInRange(1, 4)):
        at = source.ConsumeIntInRange(0, len(spans) - 1)
        spans[at], log = _attacked(source, spans[at])
        logs.append(log)
    for result in spans:
        dialect, _ = READER.dialect_of(result)
        dialect.read(result, [log for log in logs if log.span_id == result.span_id])
    conversations(batch(*spans, *logs))


def _attacked(source: Source, target: Span) -> tuple[Span, LogRecord]:
    values = {_changed_span(source, KEYS): _value(source, 0) for _ in range(source.ConsumeIntInRange(1, 4))}
    message = event(_changed_span(source, EVENTS), values)
    hostile = replace(
        target,
        attributes={**target.attributes, **values},
        events=(*target.events, message),
        status=source.ConsumeIntInRange(0, 2),
        parent_span_id=target.parent_span_id if source.ConsumeIntInRange(0, 3) else target.span_id,
    )
    return hostile, log_record(hostile, message.name, _value(source, 0), attributes=values)


def _value(source: Source, depth: int) -> Any:  # noqa: PLR0911 — one return a kind of value
    match source.ConsumeIntInRange(0, 9 if depth < _DEEPEST else 5):
        case 0:
            return None
        case 1:
            return source.ConsumeIntInRange(0, 1) == 1
        case 2:
            return source.ConsumeIntInRange(-(2**63), 2**63 - 1) << source.ConsumeIntInRange(0, _INT_BITS)
        case 3:
            return source.ConsumeFloat()
        case 4:
            return source.ConsumeBytes(8)
        case 5:
            return source.ConsumeUnicode(24)
        case 6:
            return "".join(_changed_span(source, _TOKENS) for _ in range(source.ConsumeIntInRange(1, 24)))
        case 7:
            return [_value(source, depth + 1) for _ in range(source.ConsumeIntInRange(0, 3))]
        case 8:
            return {
                _changed_span(source, WORDS): _value(source, depth + 1) for _ in range(source.ConsumeIntInRange(0, 4))
            }
        case _:
            inner = _value(source, depth + 1)
            return repr(inner) if source.ConsumeIntInRange(0, 1) else json.dumps(inner, default=str)


def _changed_span(source: Source, choices: Sequence[str]) -> str:
    return choices[source.ConsumeIntInRange(0, len(choices) - 1)]
