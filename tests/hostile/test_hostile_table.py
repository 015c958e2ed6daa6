"""Hostile input over every way in, to the stored row and the rebuilt conversation: the result is that of the table in the docs."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import duckdb
import grpc  # type: ignore[import-untyped]  # grpcio ships no types
import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from otel_agentic.commands.ingest import ingest_files
from otel_agentic.config import ReceiveSettings
from otel_agentic.engine.engine import Engine
from otel_agentic.errors import DecodeError, TooLargeError
from otel_agentic.spans import Limits, decode_traces, decode_traces_json
from tests.cli.running import done
from tests.hostile.arrivals import ARRIVALS, LARGEST_REQUEST_BYTES, REJECTED, Arrival, StoredRows
from tests.live.running_collector import PORTS, eventually, live_settings, running
from tests.stores import settings_for

if TYPE_CHECKING:
    from otel_agentic.net.server_file import LiveServer

Way = Literal["HTTP protobuf", "HTTP JSON", "gRPC", "files"]
WAYS: Final[tuple[Way, ...]] = ("HTTP protobuf", "HTTP JSON", "gRPC", "files")
DOCS: Final = Path(__file__).parents[2] / "docs" / "hostile-input.md"
RECEIVE: Final = {"max_request_bytes": LARGEST_REQUEST_BYTES}
LIMITS: Final = Limits.from_settings(ReceiveSettings.model_validate(RECEIVE))
EXPORT: Final = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
#: The status of an answer, by the answer in the table.
HTTP_STATUS: Final = {"stored": 200, "rejected": 200, "refused": 400, "too large": 413}
GRPC_CODE: Final = {"refused": "INVALID_ARGUMENT", "too large": "RESOURCE_EXHAUSTED"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A store that everything was sent to by one way, the answers to the senders, and the stored rows, by arrival."""

    way: Way
    db: Path
    answers: dict[str, str]
    stored: dict[str, StoredRows]


def body_of(arrival: Arrival, way: Way) -> bytes | None:
    make = arrival.request.json if way == "HTTP JSON" else arrival.request.protobuf
    if way == "files":
        make = arrival.request.protobuf or arrival.request.json
    return make(arrival.trace()) if make is not None else None


def over_http(live: LiveServer, kind: str, body: bytes) -> str:
    answer = httpx.post(f"{live.http}/v1/traces", content=body, headers={"content-type": kind}, timeout=120)
    if answer.status_code != 200:
        return f"{answer.status_code}"
    if kind.endswith("json"):
        return f"200 {answer.json().get('partialSuccess', {}).get('errorMessage', '')}"
    return "200 " + ExportTraceServiceResponse.FromString(answer.content).partial_success.error_message


def over_grpc(live: LiveServer, body: bytes) -> str:
    options = [("grpc.max_send_message_length", -1)]
    with grpc.insecure_channel(str(live.grpc).removeprefix("http://"), options=options) as channel:
        try:
            answer = channel.unary_unary(EXPORT)(body, timeout=120)
        except grpc.RpcError as error:
            return str(error.code().name)
    return "200 " + ExportTraceServiceResponse.FromString(answer).partial_success.error_message


def sent_live(way: Way, db: Path) -> Sent:
    send: dict[str, Callable[[LiveServer, bytes], str]] = {
        "HTTP protobuf": lambda live, body: over_http(live, "application/x-protobuf", body),
        "HTTP JSON": lambda live, body: over_http(live, "application/json", body),
        "gRPC": over_grpc,
    }
    answers: dict[str, str] = {}
    with running(live_settings(db, receive={**PORTS["receive"], **RECEIVE})) as (collector, live):
        for arrival in ARRIVALS:
            body = body_of(arrival, way)
            if body is not None:
                answers[arrival.arrives] = send[way](live, body)

        def unread() -> tuple[int, int]:
            return len(collector.engine.rebuilder.pending()), collector.assembler.open_count

        eventually(unread, (0, 0), timeout_s=120)
        assert [] == list(collector.engine.rebuilder.not_rebuilt)
    return Sent(way=way, db=db, answers=answers, stored=stored_rows(db))


def ingested(db: Path, folder: Path) -> Sent:
    paths = {
        arrival.arrives: folder / f"{at}.{'pb' if arrival.request.protobuf else 'json'}"
        for at, arrival in enumerate(ARRIVALS)
    }
    for arrival in ARRIVALS:
        paths[arrival.arrives].write_bytes(body_of(arrival, "files") or b"")
    with Engine(settings_for(db, receive=RECEIVE), create=True) as engine:
        result = ingest_files(engine, [str(path) for path in paths.values()], lambda *_: None)
        assert () == result.rebuilt.left_out
    problems = {name: [line for line in result.problems if line.startswith(f"{path}:")] for name, path in paths.items()}
    answers = {name: "; ".join(lines) or "200" for name, lines in problems.items()}
    return Sent(way="files", db=db, answers=answers, stored=stored_rows(db))


@pytest.fixture(
    scope="module", params=[pytest.param(way, marks=() if way == "files" else pytest.mark.slow) for way in WAYS]
)
def sent(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Sent:
    """Return a store to which every line of the table was sent."""
    folder = tmp_path_factory.mktemp("hostile")
    way: Way = request.param
    return ingested(folder / "t.duckdb", folder) if way == "files" else sent_live(way, folder / "t.duckdb")


SPANS: Final = """
SELECT span_id, parent_span_id, name, epoch_ns(start_time) AS start_ns, epoch_ns(end_time) AS end_ns, service, scope,
    attributes, events, links, resource
FROM spans WHERE trace_id = $trace
"""
OF_TRACE: Final = """
SELECT * FROM {table}
WHERE (environment, conversation_id) IN (SELECT (environment, conversation_id) FROM trace_links WHERE trace_id = $trace)
"""


def rows(con: duckdb.DuckDBPyConnection, sql: str, trace_id: str) -> list[dict[str, Any]]:
    result = con.execute(sql, {"trace": trace_id})
    names = [column[0] for column in result.description]
    return [dict(zip(names, row, strict=True)) for row in result.fetchall()]


def stored_rows(db: Path) -> dict[str, StoredRows]:
    """Return the stored rows of every arrival; the store is opened once, which takes longer than its queries."""
    with duckdb.connect(str(db), read_only=True) as con:
        return {arrival.arrives: found_of(con, arrival) for arrival in ARRIVALS}


def found_of(con: duckdb.DuckDBPyConnection, arrival: Arrival) -> StoredRows:
    trace_id = arrival.trace().trace_id.hex()
    spans = rows(con, SPANS, trace_id)
    for row in spans:
        for column in ("attributes", "events", "links"):
            row[column] = json.loads(row[column]) if row[column] is not None else None
    return StoredRows(
        spans={int(row["span_id"], 16) - 1: row for row in spans},
        conversations=rows(con, OF_TRACE.format(table="conversations"), trace_id),
        turns=rows(con, OF_TRACE.format(table="turns"), trace_id),
        calls=rows(con, OF_TRACE.format(table="tool_calls"), trace_id),
    )


@pytest.mark.parametrize("arrival", ARRIVALS, ids=lambda arrival: arrival.arrives)
def test_what_arrives_becomes_what_the_table_says(sent: Sent, arrival: Arrival) -> None:
    answer = sent.answers.get(arrival.arrives)
    if answer is None:
        pytest.skip("this encoding cannot express it")
    if sent.way == "gRPC" and arrival.answer in GRPC_CODE:
        assert GRPC_CODE[arrival.answer] == answer
    elif sent.way == "files" and arrival.answer in {"refused", "too large"}:
        assert not answer.startswith("200")
    elif sent.way != "files":
        assert str(HTTP_STATUS[arrival.answer]) == answer[:3]
    if sent.way != "files":
        assert (arrival.answer == "rejected") == any(reason in answer for reason in REJECTED)
    stored = sent.stored[arrival.arrives]
    if arrival.check is not None:
        arrival.check(stored)
    else:
        assert {} == dict(stored.spans)


@pytest.mark.parametrize(
    "arrival",
    [
        pytest.param(arrival, marks=[pytest.mark.slow] if re.search(r"\d,000 |million", arrival.arrives) else [])
        for arrival in ARRIVALS
    ],
    ids=lambda arrival: arrival.arrives,
)
def test_what_is_changed_is_counted_alike_in_both_encodings(arrival: Arrival) -> None:
    for make, decode in ((arrival.request.protobuf, decode_traces), (arrival.request.json, decode_traces_json)):
        if make is None:
            continue
        body = make(arrival.trace())
        if arrival.answer in {"refused", "too large"}:
            with pytest.raises(DecodeError if arrival.answer == "refused" else TooLargeError):
                decode(body, LIMITS)
        else:
            assert dict(arrival.counted) == dict(decode(body, LIMITS).altered)


def test_every_command_works_on_such_a_store(sent: Sent) -> None:
    if sent.way != "files":
        pytest.skip("one of the stores is enough")
    listed = done("conversations", "list", "--db", sent.db, "--format", "json").json
    assert len(listed) > 30
    steering = [row["conversation_id"] for row in listed if "\x1b" in row["conversation_id"] + row["agent"]]
    longest = max((row["conversation_id"] for row in listed), key=len)
    commands = [
        ("report",),
        ("tools", "failing"),
        ("conversations", "list"),
        (
            "query",
            "SELECT name, agent_name, tool_name, conversation_id FROM spans ORDER BY length(conversation_id) DESC LIMIT 99",
        ),
    ]
    assert len(steering) == 2
    for command in (*commands, *(("conversations", "show", name) for name in (*steering, longest))):
        message = done(*command, "--db", sent.db).out
        assert not {"\x1b", "\0"} & set(message), command


@pytest.mark.parametrize("arrival", [arrival for arrival in ARRIVALS if arrival.answer == "stored"][::6])
def test_doctor_tells_of_a_hostile_file(arrival: Arrival, tmp_path: Path) -> None:
    path = tmp_path / "hostile"
    path.write_bytes(body_of(arrival, "files") or b"")
    assert not {"\x1b", "\0"} & set(done("doctor", path).out)


def test_no_number_of_a_sender_poisons_a_numeric_column(sent: Sent) -> None:
    with duckdb.connect(str(sent.db), read_only=True) as con:
        columns = con.execute(
            "SELECT table_name, column_name FROM duckdb_columns() "
            "WHERE data_type IN ('DOUBLE', 'FLOAT') AND schema_name = 'main' AND NOT internal"
        ).fetchall()
        assert len(columns) > 20
        for table, column in columns:
            sql = f'SELECT count(*) FROM "{table}" WHERE isnan("{column}") OR isinf("{column}")'  # noqa: S608 — our own names
            assert [(0,)] == con.execute(sql).fetchall(), (table, column)


def documented() -> Sequence[tuple[str, str, str]]:
    table = re.findall(r"^\| (.+?) \| (.+?) \| (.*?) ?\|$", DOCS.read_text("utf-8"), re.MULTILINE)
    return [(arrives, becomes, counted) for arrives, becomes, counted in table if "---" not in arrives][1:]


def test_the_table_in_the_docs_is_the_one_that_is_tested() -> None:
    expected = [
        (
            arrival.arrives,
            arrival.becomes,
            "; ".join(f"{count:,} x {reason}" for reason, count in arrival.counted.items()),
        )
        for arrival in ARRIVALS
    ]
    assert expected == documented()
