"""Every line of the table in docs/hostile-input.md: the input, its result, and the counted changes."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from otel_agentic.spans import model as records
from otel_agentic.spans import sanitize
from otel_agentic.spans.model import CUT_SHARED
from otel_agentic.testing import NOON_NS, SECOND_NS
from tests.hostile.traces import ANSWER, QUERY, Trace, nested, nested_json, span_id

DAY_NS: Final = 86_400 * SECOND_NS
MIB: Final = 1024 * 1024
#: `receive.max_request_bytes` of the receivers that this is sent to.
LARGEST_REQUEST_BYTES: Final = 20 * MIB
#: The placeholder of a value in JSON text before it is replaced by one that no encoder writes.
HOLE: Final = "HOLE"

Row = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRows:
    """What a store holds of one trace: its spans by number, its conversation, turns and tool calls."""

    spans: Mapping[int, Row]
    conversations: Sequence[Row]
    turns: Sequence[Row]
    calls: Sequence[Row]

    @property
    def x(self) -> Any:
        """The attribute `x` of the tool call."""
        return self.spans[1]["attributes"]["x"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request in both encodings, None for one that cannot express it."""

    protobuf: Callable[[Trace], bytes] | None = None
    json: Callable[[Trace], bytes] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """One line of the table. `answer` is the answer to the sender; a refused request stores nothing.

    `request` is made of the trace, `counted` is what the decoder counts.
    """

    arrives: str
    becomes: str
    request: Request
    check: Callable[[StoredRows], None] | None = None
    answer: Literal["stored", "rejected", "refused", "too large"] = "stored"
    counted: Mapping[str, int] = field(default_factory=dict)
    conversation: str | None = None

    def trace(self) -> Trace:
        """Return the trace before it is made hostile."""
        return Trace(self.arrives, conversation=self.conversation)


def both(change: Callable[[Trace], object]) -> Request:
    """Return a request in both encodings, of a trace that is changed in place."""

    def changed(trace: Trace) -> Trace:
        change(trace)
        return trace

    return Request(protobuf=lambda trace: changed(trace).protobuf, json=lambda trace: changed(trace).json)


def only_json(value: bytes) -> Request:
    """Return a request that only JSON can express: one whose attribute `x` has this AnyValue."""
    hole = b'{"stringValue": "' + HOLE.encode() + b'"}'
    return Request(json=lambda trace: trace.set_value(HOLE).json.replace(hole, value))


def only_protobuf(change: Callable[[Trace], bytes]) -> Request:
    """Return a request that only protobuf can express."""
    return Request(protobuf=change)


def x_is(expected: Any) -> Callable[[StoredRows], None]:
    """Return a check of the attribute `x`, and that the conversation is whole."""

    def check(result: StoredRows) -> None:
        assert expected == result.x
        full(result)

    return check


def full(result: StoredRows) -> None:
    """Check that one conversation of one turn with its call was rebuilt."""
    assert [1] == [row["turn_count"] for row in result.conversations]
    assert [(QUERY, ANSWER)] == [(row["query"], row["answer"]) for row in result.turns]
    assert ["look"] == [row["name"] for row in result.calls]


def times_are(start_ns: int, end_ns: int) -> Callable[[StoredRows], None]:
    """Return a check of the times of the tool call, and that the conversation is whole."""

    def check(result: StoredRows) -> None:
        assert (start_ns, end_ns) == (result.spans[1]["start_ns"], result.spans[1]["end_ns"])
        full(result)

    return check


def span_1(name: str, expected: Any) -> Callable[[StoredRows], None]:
    """Return a check of a column of the tool call."""

    def check(result: StoredRows) -> None:
        assert expected == result.spans[1][name]

    return check


def only_root(result: StoredRows) -> None:
    """Check that of two spans one was kept."""
    assert [0] == sorted(result.spans)


def _many_attributes(trace: Trace) -> None:
    for at in range(100_000 - 3):
        trace.set_value(at, f"k{at}")


def _kept_attributes(result: StoredRows) -> None:
    assert 4096 == len(result.spans[1]["attributes"])
    full(result)


def _events(trace: Trace) -> None:
    for at in range(10_000):
        trace.tool.events.add(name="e", time_unix_nano=NOON_NS + at).attributes.add(key="k").value.int_value = at


def _kept_events(result: StoredRows) -> None:
    assert 4096 == len(result.spans[1]["events"])
    full(result)


def _large_values(trace: Trace) -> None:
    for at in range(4):
        trace.set_value("v" * (4 * MIB + at), f"large{at}")


def _kept_values(result: StoredRows) -> None:
    assert {4 * MIB} == {len(result.spans[1]["attributes"][f"large{at}"]) for at in range(4)}
    full(result)


def _chain(length: int) -> Callable[[Trace], None]:
    def change(trace: Trace) -> None:
        for at in range(1, length):
            trace.add("step", parent=at)

    return change


def _wide(trace: Trace) -> None:
    call = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "look"}
    for at in range(9_998):
        trace.add("execute_tool look", parent=0, attributes={**call, "gen_ai.tool.call.id": f"c{at}"})


def _count_spans(expected: int) -> Callable[[StoredRows], None]:
    def check(result: StoredRows) -> None:
        assert expected == len(result.spans)
        assert [(QUERY, ANSWER)] == [(row["query"], row["answer"]) for row in result.turns]

    return check


def _wide_kept(result: StoredRows) -> None:
    assert (10_000, [9_999]) == (len(result.spans), [row["call_count"] for row in result.conversations])


def _cycle(trace: Trace) -> None:
    trace.root.parent_span_id = span_id(1)


def _twice(trace: Trace) -> None:
    trace.request.resource_spans.add().CopyFrom(trace.block)


def _self_link(trace: Trace) -> None:
    trace.tool.links.add(trace_id=trace.trace_id, span_id=span_id(1))


def _bad_link(trace: Trace) -> None:
    trace.tool.links.add(trace_id=b"\1", span_id=span_id(1))


def _large_resource(trace: Trace) -> None:
    for _ in range(998):
        trace.add("step", parent=0)
    for at in range(4096 - 1):
        trace.block.resource.attributes.add(key=f"r{at}").value.string_value = "r" * 100


def _resource_cut(result: StoredRows) -> None:
    texts = [row["resource"] for row in result.spans.values()]
    assert 1_000 == len(texts)
    assert LARGEST_REQUEST_BYTES >= sum(map(len, texts)) > LARGEST_REQUEST_BYTES // 2
    assert {"desk"} == {row["service"] for row in result.spans.values()}


def _set(target: Callable[[Trace], Any], **fields: Any) -> Callable[[Trace], None]:
    def change(trace: Trace) -> None:
        for name, value in fields.items():
            setattr(target(trace), name, value)

    return change


def _tool(**fields: Any) -> Callable[[Trace], None]:
    return _set(lambda trace: trace.tool, **fields)


def _reused(trace: Trace) -> None:
    other = trace.request.resource_spans.add()
    other.resource.attributes.add(key="service.name").value.string_value = "another desk"
    span = other.scope_spans.add().spans.add(trace_id=trace.trace_id, span_id=span_id(2), name="later")
    span.start_time_unix_nano = NOON_NS + 3 * 365 * DAY_NS
    span.end_time_unix_nano = span.start_time_unix_nano + 1


def _reused_kept(result: StoredRows) -> None:
    assert ["desk", "desk", "another desk"] == [result.spans[at]["service"] for at in range(3)]
    full(result)


def _named_conversation(result: StoredRows) -> None:
    (conversation,) = result.conversations
    name = conversation["conversation_id"]
    assert ("c" * 200, 233) == (name[:200], len(name))
    assert {name} == {row["conversation_id"] for row in (*result.turns, *result.calls)}
    full(result)


def _hostile_names(trace: Trace) -> None:
    for attribute in trace.root.attributes:
        if attribute.key == "gen_ai.agent.name":
            attribute.value.string_value = HOSTILE_NAME
    for attribute in trace.tool.attributes:
        if attribute.key == "gen_ai.tool.name":
            attribute.value.string_value = HOSTILE_NAME


def _names_kept(result: StoredRows) -> None:
    assert [HOSTILE_NAME] == [row["agent"] for row in result.conversations]
    assert [HOSTILE_NAME] == [row["name"] for row in result.calls]


#: Escapes of a terminal, markup, SQL, a label of Prometheus and a path, all in one name.
HOSTILE_NAME: Final = "=1+1 \x1b[2J</script><img src=x>'; DROP TABLE spans; --\"} 1\n# HELP x ../../etc/hosts"

_DEEP_49: Final = nested_json(49)
_BYTES: Final = base64.b64encode(b"\0\xff").decode()

_LOGS: Final = b"\x0a\x0f\x12\x0d\x12\x0b\x09" + (7).to_bytes(8, "little") + b"\x10\x09"

ARRIVALS: Final = (
    Arrival(
        arrives="text that is not UTF-8, in protobuf",
        becomes="the request is refused, 400 with the reason: protobuf cannot decode it",
        request=only_protobuf(lambda trace: trace.set_value(HOLE).protobuf.replace(HOLE.encode(), b"\xff\xfe\xc0\x80")),
        answer="refused",
    ),
    Arrival(
        arrives="text that is not UTF-8, in JSON",
        becomes="the request is refused, 400 with the byte and its position",
        request=only_json(b'{"stringValue": "\xff"}'),
        answer="refused",
    ),
    Arrival(
        arrives="a lone surrogate, in JSON",
        becomes="`U+FFFD` in its place",
        request=only_json(rb'{"stringValue": "a\ud800b"}'),
        check=x_is("a\ufffdb"),
        counted={sanitize.MENDED_TEXT: 1},
    ),
    Arrival(
        arrives="a pair of surrogates, in JSON",
        becomes="the character that it represents",
        request=only_json(rb'{"stringValue": "\ud83d\ude00"}'),
        check=x_is("\U0001f600"),
    ),
    Arrival(
        arrives="NUL in a text",
        becomes="`U+FFFD` in its place",
        request=both(lambda trace: trace.set_value("a\0b")),
        check=x_is("a\ufffdb"),
        counted={sanitize.MENDED_TEXT: 1},
    ),
    Arrival(
        arrives="a value of 47 levels",
        becomes="kept",
        request=both(lambda trace: trace.set_value(nested(47))),
        check=x_is(nested(47)),
    ),
    Arrival(
        arrives="a value of 49 levels, in JSON",
        becomes="null from level 49 on",
        request=only_json(_DEEP_49),
        check=full,
        counted={sanitize.CUT_DEPTH: 1},
    ),
    Arrival(
        arrives="a value of 49 levels, in protobuf",
        becomes="the request is refused, 400: protobuf decodes no deeper levels",
        request=only_protobuf(lambda trace: trace.set_value(nested(49)).protobuf),
        answer="refused",
    ),
    Arrival(
        arrives="a value of 1,000 levels, in JSON",
        becomes="the request is refused, 400: nested too deeply",
        request=only_json(nested_json(1_000)),
        answer="refused",
    ),
    Arrival(
        arrives="a value of 100,000 levels, in JSON",
        becomes="the request is refused, 400: nested too deeply",
        request=only_json(nested_json(100_000)),
        answer="refused",
    ),
    Arrival(
        arrives="an integer of 10,000 digits, in JSON",
        becomes="its digits as text, up to the largest size of a value",
        request=only_json(b'{"intValue": "' + b"9" * 10_000 + b'"}'),
        check=x_is("9" * 10_000),
        counted={sanitize.MENDED_NUMBER: 1},
    ),
    Arrival(
        arrives="the same without quotes",
        becomes="its digits as text",
        request=only_json(b'{"intValue": ' + b"9" * 10_000 + b"}"),
        check=x_is("9" * 10_000),
        counted={sanitize.MENDED_NUMBER: 1},
    ),
    Arrival(
        arrives="an integer beyond 64 bits, in JSON",
        becomes="its digits as text",
        request=only_json(b'{"intValue": "9223372036854775808"}'),
        check=x_is("9223372036854775808"),
        counted={sanitize.MENDED_NUMBER: 1},
    ),
    Arrival(
        arrives="the largest integer of 64 bits",
        becomes="kept",
        request=both(lambda trace: trace.set_value(2**63 - 1)),
        check=x_is(2**63 - 1),
    ),
    Arrival(
        arrives="NaN",
        becomes="the text `NaN`, because one NaN in a column makes every average NaN",
        request=both(lambda trace: trace.set_value(float("nan"), "gen_ai.usage.input_tokens").set_value(float("nan"))),
        check=x_is("NaN"),
        counted={sanitize.MENDED_NUMBER: 2},
    ),
    Arrival(
        arrives="Infinity",
        becomes="the text `Infinity` or `-Infinity`",
        request=both(lambda trace: trace.set_value(float("-inf"))),
        check=x_is("-Infinity"),
        counted={sanitize.MENDED_NUMBER: 1},
    ),
    Arrival(
        arrives="bytes",
        becomes="base64 under the key `$bytes`",
        request=both(lambda trace: trace.set_value(b"\0\xff")),
        check=x_is({"$bytes": _BYTES}),
    ),
    Arrival(
        arrives="bytes that are not base64, in JSON",
        becomes="their text",
        request=only_json(b'{"bytesValue": "%%%"}'),
        check=x_is("%%%"),
        counted={sanitize.MENDED_BYTES: 1},
    ),
    Arrival(
        arrives="an attribute key twice",
        becomes="the last one, as in the SDKs",
        request=both(lambda trace: trace.set_value("first").set_value("last")),
        check=x_is("last"),
    ),
    Arrival(
        arrives="a key of a JSON object twice",
        becomes="the last one",
        request=only_json(b'{"stringValue": "first", "stringValue": "last"}'),
        check=x_is("last"),
    ),
    Arrival(
        arrives="an empty key",
        becomes="kept",
        request=both(lambda trace: trace.set_value("kept", "")),
        check=lambda result: _is("kept", result.spans[1]["attributes"][""]),
    ),
    Arrival(
        arrives="times of 0",
        becomes="1970-01-01; if a span has only one time, it is used for both",
        request=both(_tool(start_time_unix_nano=0, end_time_unix_nano=0)),
        check=times_are(0, 0),
        counted={sanitize.MENDED_TIME: 2},
    ),
    Arrival(
        arrives="an end of 2^64-1",
        becomes="the start",
        request=both(_tool(end_time_unix_nano=2**64 - 1)),
        check=times_are(NOON_NS + SECOND_NS // 1000, NOON_NS + SECOND_NS // 1000),
        counted={sanitize.MENDED_TIME: 1},
    ),
    Arrival(
        arrives="an end in the year 2200",
        becomes="the start, because such a time is never valid and could overflow",
        request=both(_tool(end_time_unix_nano=sanitize.TIME_END_NS)),
        check=times_are(NOON_NS + SECOND_NS // 1000, NOON_NS + SECOND_NS // 1000),
        counted={sanitize.MENDED_TIME: 1},
    ),
    Arrival(
        arrives="an end before the start",
        becomes="the start",
        request=both(_tool(end_time_unix_nano=NOON_NS - SECOND_NS)),
        check=times_are(NOON_NS + SECOND_NS // 1000, NOON_NS + SECOND_NS // 1000),
        counted={sanitize.MENDED_ORDER: 1},
    ),
    Arrival(
        arrives="a clock one day ahead",
        becomes=("kept; conversations close by arrival time and count in windows at most five minutes after it"),
        request=both(_tool(start_time_unix_nano=NOON_NS + DAY_NS, end_time_unix_nano=NOON_NS + DAY_NS)),
        check=times_are(NOON_NS + DAY_NS, NOON_NS + DAY_NS),
    ),
    Arrival(
        arrives="a clock one day behind",
        becomes="kept",
        request=both(_tool(start_time_unix_nano=NOON_NS - DAY_NS, end_time_unix_nano=NOON_NS - DAY_NS)),
        check=times_are(NOON_NS - DAY_NS, NOON_NS - DAY_NS),
    ),
    Arrival(
        arrives="an empty span name",
        becomes="kept",
        request=both(_tool(name="")),
        check=span_1("name", ""),
    ),
    Arrival(
        arrives="a span name of 1 MB",
        becomes="its first 4,096 bytes (`receive.max_name_bytes`)",
        request=both(_tool(name="n" * 1_000_000)),
        check=span_1("name", "n" * 4096),
        counted={sanitize.CUT_NAME: 1},
    ),
    Arrival(
        arrives="a scope name of 1 MB",
        becomes="its first 4,096 bytes",
        request=both(_set(lambda trace: trace.part.scope, name="s" * 1_000_000)),
        check=span_1("scope", "s" * 4096),
        counted={sanitize.CUT_NAME: 1},
    ),
    Arrival(
        arrives="100,000 attributes on a span",
        becomes="the first 4,096 (`receive.max_attributes`)",
        request=both(_many_attributes),
        check=_kept_attributes,
        counted={sanitize.CUT_ATTRIBUTES: 95_904},
    ),
    Arrival(
        arrives="10,000 events on a span",
        becomes="the first 4,096 (`receive.max_events`)",
        request=both(_events),
        check=_kept_events,
        counted={sanitize.CUT_EVENTS: 5_904},
    ),
    Arrival(
        arrives="values of more than 4 MiB",
        becomes="the first 4 MiB of each (`receive.max_value_bytes`), cut before the word that the limit would split; a row is never larger than its request",
        request=both(_large_values),
        check=_kept_values,
        counted={sanitize.CUT_VALUE: 3},
    ),
    Arrival(
        arrives="a large resource that many spans share",
        becomes="the attributes that fit into 8 KiB, or into `receive.max_request_bytes` over all its spans",
        request=both(_large_resource),
        check=_resource_cut,
        counted={CUT_SHARED: 3_904},
    ),
    Arrival(
        arrives="a trace id of 17 bytes",
        becomes="the span is rejected in a partial success, the other spans are kept",
        request=both(lambda trace: _set(lambda _: trace.tool, trace_id=b"\1" * 17)(trace)),
        check=only_root,
        answer="rejected",
    ),
    Arrival(
        arrives="a span id of no bytes",
        becomes="the same",
        request=both(_tool(span_id=b"")),
        check=only_root,
        answer="rejected",
    ),
    Arrival(
        arrives="a span id that is all zero",
        becomes="the same",
        request=both(_tool(span_id=bytes(8))),
        check=only_root,
        answer="rejected",
    ),
    Arrival(
        arrives="a parent id of 3 bytes",
        becomes="none: the span is a root",
        request=both(_tool(parent_span_id=b"\1\2\3")),
        check=span_1("parent_span_id", None),
        counted={sanitize.MENDED_PARENT: 1},
    ),
    Arrival(
        arrives="a span that is its own parent",
        becomes="kept, a root when conversations are built",
        request=both(_tool(parent_span_id=span_id(1))),
        check=span_1("parent_span_id", span_id(1).hex()),
    ),
    Arrival(
        arrives="two spans that are each other's parents",
        becomes="kept; the cycle is cut at its earliest span",
        request=both(_cycle),
        check=full,
    ),
    Arrival(
        arrives="a span that links to itself",
        becomes="kept, the link has no effect",
        request=both(_self_link),
        check=full,
    ),
    Arrival(
        arrives="a link to a trace id of 1 byte",
        becomes="the span without that link",
        request=both(_bad_link),
        check=span_1("links", None),
        counted={sanitize.DROPPED_LINK: 1},
    ),
    Arrival(
        arrives="a trace of 10,000 spans",
        becomes="kept; the time to rebuild it grows with the number of spans",
        request=both(_wide),
        check=_wide_kept,
    ),
    Arrival(
        arrives="a chain of 1,000 spans",
        becomes="the same",
        request=both(_chain(999)),
        check=_count_spans(1_000),
    ),
    Arrival(
        arrives="one trace id in two services, three years apart",
        becomes="kept, one trace",
        request=both(_reused),
        check=_reused_kept,
    ),
    Arrival(
        arrives="the same spans twice in one request",
        becomes="each once, the others are duplicates",
        request=both(_twice),
        check=full,
    ),
    Arrival(
        arrives="a conversation id of 1 MB",
        becomes="the tables of conversations contain its first 200 characters and a digest of the whole id",
        request=both(lambda _: None),
        check=_named_conversation,
        conversation="c" * 1_000_000,
    ),
    Arrival(
        arrives="names with terminal escapes, markup, SQL, labels, paths",
        becomes="kept unchanged, and escaped wherever they are shown",
        request=both(_hostile_names),
        check=_names_kept,
    ),
    Arrival(
        arrives="a conversation id that is a path, with NUL and control characters",
        becomes="NUL becomes `U+FFFD`, the rest is kept; ids are never used as file names",
        request=both(lambda _: None),
        check=lambda result: _is(["../../\ufffd\x1b[2J\r\n"], [row["conversation_id"] for row in result.conversations]),
        conversation="../../\0\x1b[2J\r\n",
        counted={sanitize.MENDED_TEXT: 1},
    ),
    Arrival(
        arrives="2 million empty spans in 4 MB",
        becomes="refused before it is parsed, 413 and RESOURCE_EXHAUSTED (`receive.max_items`)",
        request=Request(
            protobuf=lambda _: b"\x0a\xff\xff\xff\x01\x12" + b"\xfa\xff\xff\x01" + b"\x12\0" * 2_096_125,
            json=lambda _: b'{"resourceSpans":[{"scopeSpans":[{"spans":[' + b"{}," * 2_100_000 + b"{}]}]}]}",
        ),
        answer="too large",
    ),
    Arrival(
        arrives="log records on the traces path",
        becomes="rejected in a partial success that names the right path",
        request=Request(
            protobuf=lambda _: _LOGS,
            json=lambda _: b'{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"timeUnixNano":"1"}]}]}]}',
        ),
        answer="rejected",
    ),
)


def _is(expected: object, result: object) -> None:
    assert expected == result


#: Reasons of rejected records, stated in the answer.
REJECTED: Final = (records.BAD_SPAN_ID, records.BAD_TRACE_ID, records.LOGS_ON_TRACES)
