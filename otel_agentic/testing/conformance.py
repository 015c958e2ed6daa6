"""The requirements on every dialect; plug-in authors call `check_dialect` in their own tests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.dialects.base import Dialect, TableDialect
from otel_agentic.dialects.events import AgentEvent, AgentRun, ModelCall, ToolCall
from otel_agentic.dialects.values import attribute_of
from otel_agentic.testing.builders import event, log_record

if TYPE_CHECKING:
    from otel_agentic.spans.model import LogRecord, Span

#: Unexpected values that untrusted senders may send.
HOSTILE: Final[tuple[Any, ...]] = (
    None, "", " ", "null", "[", "{}", "[]", '"', '"x"', '{"a":', "[" * 900 + "]" * 900, "\x00", "9" * 5000, "x" * 100_000,
    True, 0, -1, 2**63 - 1, 1e308, float("nan"), float("inf"), b"", b"\xff\xfe",
    [], {}, [None], [[]], [[[1]]], {"": None}, {"messages": {"messages": []}}, {"type": ["text"]}, {"role": {"a": 1}},
    [{"role": None, "parts": 5}], [{"role": ["user"], "content": {"text": 5}}], [{"parts": [{"type": ["tool_call"]}]}],
    [{"type": "tool_call", "id": 5, "name": "x", "arguments": 5}], [{"tool_calls": 5}], [{"tool_calls": [{"function": []}]}],
    {"lc": 1, "kwargs": {}, "id": 5}, {"content": None, "tool_call_id": None}, [{"toolUse": {}}, {"toolResult": {}}],
)  # fmt: skip


def check_dialect(dialect: Dialect, *samples: Span, content: Sequence[str] = ()) -> None:
    """Check a dialect with spans that it should read.

    It must claim each sample with a reason, return the same event for repeated calls and for any order of the attributes, never
    raise on malicious values, and read a span without recorded content as *not captured*.

    Args:
        dialect: the dialect, from its `from_settings`.
        samples: real spans of the convention, preferably one of each kind.
        content: keys of attributes with content; those of a `TableDialect` are known from its table.

    Raises:
        AssertionError: it violates a rule; names all violations, with the span and attribute.
    """
    keys = frozenset(content) | _table_content(dialect)
    problems = [] if samples else ["no sample span given: nothing was checked"]
    for sample in samples:
        problems += _unclaimed(dialect, sample)
        problems += _undetermined(dialect, sample)
        problems += _raising(dialect, sample)
        problems += _inventing(dialect, sample, keys)
    if problems:
        raise AssertionError(f"dialect {dialect.name!r}: " + "; ".join(problems))


def _unclaimed(dialect: Dialect, sample: Span) -> Iterator[str]:
    if not dialect.claims(sample):
        yield f"does not claim span {sample.name!r}"


def _undetermined(dialect: Dialect, sample: Span) -> Iterator[str]:
    once = dialect.read(sample, ())
    reordered = replace(sample, attributes=dict(reversed(list(sample.attributes.items()))))
    if repr(once) != repr(dialect.read(sample, ())):
        yield f"reads span {sample.name!r} differently when read again"
    if repr(once) != repr(replace(dialect.read(reordered, ()), header=once.header)):
        yield f"reads span {sample.name!r} differently when its attributes are in another order"
    if once.header.span is not sample or once.header.dialect != dialect.name:
        yield f"the event of span {sample.name!r} has a header of another span or dialect"


def _raising(dialect: Dialect, sample: Span) -> Iterator[str]:
    for key in sorted({*sample.attributes, *_table_keys(dialect)}):
        for value in HOSTILE:
            hostile = {**sample.attributes, key: value}
            fault = _fault(dialect, replace(sample, attributes=hostile), ())
            fault = fault or _fault(dialect, sample, (log_record(sample, key, value, attributes={key: value}),))
            fault = fault or _fault(dialect, replace(sample, events=(event(key, {key: value}),)), ())
            if fault:
                yield f"raises on span {sample.name!r} with {key} = {str(value)[:60]!r}: {fault}"


def _fault(dialect: Dialect, sample: Span, logs: Sequence[LogRecord]) -> str | None:
    try:
        dialect.claims(sample)
        dialect.read(sample, logs)
    except Exception as error:  # noqa: BLE001 — any exception is a violation
        return f"{type(error).__name__}: {error}"
    return None


def _inventing(dialect: Dialect, sample: Span, keys: frozenset[str]) -> Iterator[str]:
    without_content = replace(
        sample,
        attributes={key: value for key, value in sample.attributes.items() if not _is_content(key, keys)},
        events=(),
    )
    for name, value in _content_of(dialect.read(without_content, ())).items():
        if value not in (None, False):
            yield f"span {sample.name!r} without content has {name} = {value!r}, expected none"


def _content_of(read: AgentEvent) -> dict[str, Any]:
    if isinstance(read, AgentRun):
        names: tuple[str, ...] = ("query", "answer", "messages_in", "messages_out")
    elif isinstance(read, ModelCall):
        names = ("messages_in", "messages_out")
    elif isinstance(read, ToolCall):
        names = ("arguments", "result", "result_captured")
    else:
        names = ()
    return {name: getattr(read, name) for name in names}


def _is_content(key: str, keys: frozenset[str]) -> bool:
    return any(key == content or key.startswith(content + ".") for content in keys)


def _table_content(dialect: Dialect) -> frozenset[str]:
    return dialect.table.content_attributes if isinstance(dialect, TableDialect) else frozenset()


def _table_keys(dialect: Dialect) -> frozenset[str]:
    if not isinstance(dialect, TableDialect):
        return frozenset()
    table = dialect.table
    paths = (*table.kind, *table.conversation_id, *table.agent_name, *table.agent_id, *table.model, *table.response_id)
    named_keys = {attribute_of(path) for path in (*paths, *table.name, *table.tool_name, *table.call_id, *table.error)}
    counted_keys = (*table.input_tokens, *table.output_tokens, *table.usage, *table.definitions, *table.schema)
    return frozenset(named_keys) | {attribute_of(path) for path in counted_keys} | table.content_attributes
