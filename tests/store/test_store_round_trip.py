"""What goes in comes out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import duckdb
import hypothesis.strategies as st
import pytest
from hypothesis import given

from otel_agentic.spans.model import LogRecord, Resource, Scope, Span, SpanBatch, SpanEvent, SpanKind, SpanLink
from otel_agentic.store.spans import _attributes, load_traces
from otel_agentic.store.table import json_text
from otel_agentic.testing import NOON_NS, batch, log_record, span
from tests.store.store_queries import rows, value

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from otel_agentic.store import Store

EVERYTHING: dict[str, Any] = {
    "text": "a 'quoted' \"text\"\n\twith\\ backslash",
    "unicode": "Zürich 東京 \N{GRINNING FACE} \N{ZERO WIDTH JOINER}",
    "empty": "",
    "bytes": b"\x00\xff\xfe raw",
    "no_bytes": b"",
    "largest": 2**63 - 1,
    "smallest": -(2**63),
    "zero": 0,
    "float": 0.1,
    "tiny": 5e-324,
    "true": True,
    "false": False,
    "none": None,
    "list": [1, "two", 3.0, None, [b"deep", {"x": [b""]}]],
    "map": {"a": {"b": {"c": [True, {"d": b"d"}]}}, "empty": {}, "none": []},
    "": "a key without a name",
    'key with "quotes" and ünïcode': 1,
}
FULL = Span(
    trace_id="0af7651916cd43dd8448eb211c80319c",
    span_id="b7ad6b7169203331",
    parent_span_id="00f067aa0ba902b7",
    name="invoke_agent 東京",
    kind=SpanKind.CLIENT,
    start_ns=NOON_NS + 123_456_789,
    end_ns=NOON_NS + 987_654_321,
    status=2,
    status_message="it broke",
    attributes=EVERYTHING,
    events=(
        SpanEvent(name="exception", time_ns=NOON_NS + 1, attributes=EVERYTHING),
        SpanEvent(name="", time_ns=0, attributes={}),
    ),
    links=(SpanLink(trace_id="f" * 32, span_id="e" * 16, attributes=EVERYTHING),),
    resource=Resource(attributes={"service.name": "desk", **EVERYTHING}),
    scope=Scope(name="agent-lib", version="1.2.3"),
)
BARE = Span(
    trace_id="1" * 32,
    span_id="1" * 16,
    parent_span_id=None,
    name="",
    kind=0,
    start_ns=0,
    end_ns=0,
    status=0,
    status_message="",
    attributes={},
    events=(),
    links=(),
    resource=Resource(),
    scope=Scope(),
)

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
    | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)


def stored(store: Store, given_batch: SpanBatch) -> SpanBatch:
    store.accept(given_batch)
    traces = {item.trace_id for item in given_batch.spans} | {item.trace_id for item in given_batch.logs}
    with store.read() as con:
        loaded = load_traces(con, traces)
    return SpanBatch(spans=tuple(loaded.spans), logs=tuple(loaded.logs))


@pytest.mark.parametrize("original", [FULL, BARE], ids=["full", "bare"])
def test_every_field_of_a_span_comes_back(store: Store, original: Span) -> None:
    assert (original,) == stored(store, batch(original)).spans


@pytest.mark.parametrize("body", [*EVERYTHING.values(), EVERYTHING], ids=[*(repr(key) for key in EVERYTHING), "all"])
def test_every_field_of_a_log_record_comes_back(store: Store, body: Any) -> None:
    original = log_record(FULL, "gen_ai.choice", body, attributes=EVERYTHING)

    assert (replace(original, scope=Scope(name="agent-lib")),) == stored(store, batch(original)).logs


@pytest.fixture(scope="module")
def json_database() -> Iterator[DuckDBPyConnection]:
    """A database without tables."""
    with duckdb.connect() as con:
        yield con


@given(attributes=st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), json_values, max_size=4))
def test_attributes_of_any_shape_are_read_back_from_their_json(
    json_database: DuckDBPyConnection, attributes: dict[str, Any]
) -> None:
    ((text,),) = json_database.execute("SELECT $1::JSON", [json_text(attributes)]).fetchall()

    assert attributes == _attributes(text)


@pytest.mark.parametrize("coded", ["not base64!", "YQ", 5, None, {"$bytes": 1}])
def test_a_senders_own_map_that_looks_like_ours_for_bytes_stays_what_it_was(store: Store, coded: Any) -> None:
    hostile = span(
        attributes={"x": {"$bytes": coded}}, events=[SpanEvent(name="e", time_ns=1, attributes={"$bytes": coded})]
    )

    assert (hostile,) == stored(store, batch(hostile)).spans


def test_the_last_nanosecond_of_64_bits_does_not_refuse_the_batch(store: Store) -> None:
    # DuckDB keeps that value for its infinity.
    last = span(start_ns=2**63 - 1, end_ns=2**63 - 1)

    assert 2 == store.accept(batch(last, log_record(last, "e", time_ns=2**63 - 1))).accepted
    assert 2 == store.accept(batch(last, log_record(last, "e", time_ns=2**63 - 1))).duplicate
    assert 2**63 - 2 == value(store, "SELECT epoch_ns(start_time) FROM spans")


def test_a_column_that_is_empty_in_thousands_of_rows_takes_the_text_of_the_last(store: Store) -> None:
    many = [span(f"s{number}", trace="one") for number in range(3000)]
    tail = span("tail", parent=many[0], attributes={"gen_ai.tool.name": "search"})

    store.accept(batch(*many, tail))

    assert [("tail", many[0].span_id, "search")] == rows(
        store, "SELECT name, parent_span_id, tool_name FROM spans WHERE parent_span_id IS NOT NULL"
    )


def test_attributes_that_people_ask_for_have_columns_of_their_own(store: Store) -> None:
    genai = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.conversation.id": "c-1",
        "gen_ai.agent.name": "desk",
        "gen_ai.tool.name": "search",
        "gen_ai.request.model": "asked",
        "gen_ai.response.model": "answered",
    }
    store.accept(batch(span(attributes=genai, environment="prod", service="concierge")))

    assert [("concierge", "prod", "genai", "execute_tool", "c-1", "desk", "search", "answered")] == rows(
        store,
        "SELECT service, environment, dialect, operation, conversation_id, agent_name, tool_name, model FROM spans",
    )


def test_a_resource_is_shared_by_the_spans_that_came_with_it(store: Store) -> None:
    parent = span("a")
    spans = stored(store, batch(parent, span("b", parent=parent))).spans

    assert spans[0].resource is spans[1].resource


def test_log_records_keep_their_resource(store: Store) -> None:
    original = LogRecord(
        trace_id=FULL.trace_id,
        span_id=FULL.span_id,
        time_ns=5,
        event_name="",
        body=None,
        attributes={},
        resource=FULL.resource,
        scope=Scope(),
    )

    assert (original,) == stored(store, batch(original)).logs
