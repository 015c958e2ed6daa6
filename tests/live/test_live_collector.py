"""A running collector: real exporters in, scores, windows, gauges and events out."""

from __future__ import annotations

import os
import re
import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from inline_snapshot import snapshot

from otel_agentic.commands import LocalClient, RemoteClient, open_client
from otel_agentic.engine.engine import Engine
from otel_agentic.errors import BadInputError, QueryError, StoreBusyError, UsageError
from otel_agentic.evaluation.scope import NO_CASES
from otel_agentic.live.collector import LiveCollector
from otel_agentic.net.server_file import LiveServer, find_live_server, server_file, write_server_file
from otel_agentic.store.links import NotRebuilt, save_not_rebuilt
from otel_agentic.testing import NOON_NS, SECOND_NS, batch, span, speak_genai
from tests.builders import CASE, ask_hotel, rows
from tests.live.otlp_export import export, just_now
from tests.live.running_collector import OPEN, ask, eventually, live_settings, running
from tests.snapshots import raises
from tests.telemetry.receiver.over_http import http_receiver

if TYPE_CHECKING:
    from otel_agentic.config import Settings

CASES = [("cases.jsonl", CASE)]
SCORED = "SELECT conversation_id, revision, outcome FROM conversation_scores WHERE NOT superseded ORDER BY ALL"


@pytest.fixture
def db(tmp_path: Path) -> Path:
    return tmp_path / "t.duckdb"


@pytest.fixture
def settings(db: Path) -> Settings:
    return live_settings(db)


def scores(live: LiveCollector) -> list[tuple[Any, ...]]:
    return rows(live.engine, SCORED)


def gauge(live: LiveServer, name: str, **labels: str) -> list[float]:
    text = httpx.get(f"{live.admin}/metrics").text
    result = [line for line in text.splitlines() if re.match(rf"{name}[{{ ]", line)]
    expected = [f'{key}="{value}"' for key, value in labels.items()]
    return [float(line.rsplit(" ", 1)[1]) for line in result if all(item in line for item in expected)]


def test_a_conversation_that_goes_quiet_is_closed_and_scored(settings: Settings) -> None:
    without_id = speak_genai(ask_hotel(None), start_ns=just_now()).spans
    with running(settings, cases=CASES) as (live, addresses):
        for transport in ("grpc", "http"):
            export(addresses, speak_genai(ask_hotel(f"by-{transport}"), start_ns=just_now()).spans, transport)
        export(addresses, without_id)

        names = ("by-grpc", "by-http", without_id[0].trace_id)
        eventually(lambda: scores(live), sorted((name, 1, "pass") for name in names))
        assert [("idle",)] == rows(live.engine, "SELECT DISTINCT closed_by FROM conversations")


def test_the_first_spans_of_each_service_are_logged_once(db: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "otel_agentic.live.collector")
    with running(live_settings(db, **OPEN)) as (live, _):
        for number, service in enumerate(("parcels", "parcels", "refunds")):
            live.accept(batch(span(trace=str(number), service=service, start_ns=just_now())))

    logged = [record.getMessage() for record in caplog.records if record.name == "otel_agentic.live.collector"]
    assert ["first spans of service 'parcels'", "first spans of service 'refunds'"] == logged


def test_an_end_mark_closes_a_conversation_at_once(db: Path) -> None:
    with running(live_settings(db, **OPEN), cases=CASES) as (live, addresses):
        spans = speak_genai(ask_hotel(), start_ns=just_now()).spans
        export(addresses, [*spans, span("end", parent=spans[0], attributes={"agentic.conversation.end": True})])

        eventually(lambda: scores(live), [("conversation-1", 1, "pass")])
        assert [("end_mark",)] == rows(live.engine, "SELECT closed_by FROM conversations")


def test_windows_gauges_and_report_say_the_same(settings: Settings) -> None:
    with running(settings, cases=CASES) as (live, addresses):
        for number in range(3):
            reply = ask_hotel(f"c-{number}") if number else ask_hotel("c-0").answers("The Savoy.")
            export(addresses, speak_genai(reply, start_ns=just_now()).spans)
        eventually(lambda: len(scores(live)), 3)

        (group,) = ask(settings, "report")["groups"]
        own = group["estimates"][group["default_estimator"]]
        expected = {k: own["pass_pow_k"][k]["value"] for k in ("1", "3")}
        eventually(
            lambda: {k: gauge(addresses, "agentic_pass_pow_k_ratio", agentic_k=k) for k in expected},
            approximately(expected),
        )
        newest = (
            'SELECT k::VARCHAR, [pass_pow_k] FROM windows WHERE estimator = $name AND k < 5 ORDER BY "end" DESC LIMIT 2'
        )
        name = {"name": group["default_estimator"]}
        eventually(lambda: dict(rows(live.engine, newest, name)), approximately(expected))


def approximately(expected: dict[str, float]) -> dict[str, Any]:
    return {k: [pytest.approx(value)] for k, value in expected.items()}


@pytest.mark.slow  # with their content: tests/telemetry/test_telemetry_collector.py
def test_evaluation_events_reach_a_receiver(db: Path) -> None:
    with http_receiver() as receiver:
        settings = live_settings(db, emit={"endpoint": receiver.endpoint, "interval_s": 0.1})
        with running(settings, cases=CASES) as (live, addresses):
            spans = speak_genai(ask_hotel(), start_ns=just_now()).spans
            export(addresses, spans)
            eventually(lambda: len(scores(live)), 1)

        events = [attributes for attributes, _ in receiver.received.events()]
        assert {"agentic.conversation"} <= {event["gen_ai.evaluation.name"] for event in events}
        assert {"conversation-1"} == {event["gen_ai.conversation.id"] for event in events}
        assert "agentic.pass_pow_k.ratio" in receiver.received.by_name()


def test_a_late_span_makes_revision_2_and_its_window_is_restated(settings: Settings) -> None:
    spans = speak_genai(ask_hotel(), start_ns=just_now()).spans
    tool = next(item for item in spans if "gen_ai.tool.name" in item.attributes)
    with running(settings, cases=CASES) as (live, addresses):
        export(addresses, [item for item in spans if item is not tool])
        eventually(lambda: scores(live), [("conversation-1", 1, "pass")])

        export(addresses, [tool])

        eventually(lambda: scores(live), [("conversation-1", 2, "pass")])
        assert [(1, True), (2, False)] == rows(
            live.engine, "SELECT revision, superseded FROM conversation_scores ORDER BY revision"
        )
        assert [1.0] == gauge(addresses, "agentic_ingest_late_spans_total")


@pytest.mark.slow  # without a running collector: tests/live/test_live_windows.py
def test_a_conversation_that_moves_to_another_group_leaves_its_old_window(settings: Settings) -> None:
    spans = speak_genai(ask_hotel(), start_ns=just_now()).spans
    root, rest = spans[0], spans[1:]
    with running(settings, cases=CASES) as (live, addresses):
        export(addresses, rest)  # the root, which alone names the agent, comes last
        eventually(lambda: rows(live.engine, "SELECT DISTINCT agent FROM windows"), [(None,)])

        export(addresses, [root])

        eventually(lambda: rows(live.engine, "SELECT DISTINCT agent FROM windows"), [("travel",)])


def test_what_was_open_at_a_stop_is_closed_after_the_next_start(db: Path) -> None:
    loose, named = speak_genai(ask_hotel(None), start_ns=just_now()).spans, speak_genai(ask_hotel()).spans
    with running(live_settings(db, **OPEN), cases=CASES) as (live, addresses):
        export(addresses, named)
        export(addresses, loose)
        eventually(lambda: rows(live.engine, "SELECT count(*) FROM conversations WHERE closed_by IS NULL"), [(2,)])
        assert [] == scores(live)

    with running(live_settings(db)) as (live, _):
        eventually(lambda: len(scores(live)), 2)


def test_what_was_not_even_read_at_a_kill_is_closed_after_the_next_start(db: Path) -> None:
    with Engine(live_settings(db), create=True) as engine:
        engine.store.accept(batch(speak_genai(ask_hotel()), speak_genai(ask_hotel(None))))
        engine.rebuilder.read(engine.rebuilder.pending()[:1])

    with running(live_settings(db), cases=CASES) as (live, _):
        eventually(lambda: len(scores(live)), 2)


def test_what_was_closed_and_not_scored_at_a_kill_is_scored_after_the_next_start(db: Path) -> None:
    with Engine(live_settings(db), create=True) as engine:
        engine.store.accept(speak_genai(ask_hotel()))
        rebuilder = engine.rebuilder
        rebuilder.rebuild(rebuilder.read(rebuilder.pending()), lambda _: "idle")

    with running(live_settings(db), cases=CASES) as (live, _):
        eventually(lambda: scores(live), [("conversation-1", 1, "pass")])


def test_spans_that_arrive_while_it_starts_are_not_overlooked(db: Path) -> None:
    live = LiveCollector(live_settings(db, **OPEN))
    stopped = threading.Event()
    sent: list[int] = []

    def send() -> None:
        while not stopped.wait(0.001):
            live.accept(speak_genai(ask_hotel(f"c-{len(sent)}"), start_ns=NOON_NS + len(sent) * SECOND_NS))
            sent.append(1)

    sender = threading.Thread(target=send)
    sender.start()
    try:
        live.start()
        stopped.set()
        sender.join()
        eventually(lambda: rows(live.engine, "SELECT count(*) FROM conversations"), [(len(sent),)])
    finally:
        stopped.set()
        sender.join()
        live.stop()


def test_a_trace_that_its_history_joined_keeps_the_conversation_open(db: Path) -> None:
    pace: dict[str, Any] = {"conversations": {"turn_idle_s": 0.1, "idle_s": 600, "idle_without_id_s": 1.5}}
    script = ask_hotel(None)
    begun = speak_genai(script, start_ns=NOON_NS).spans
    complete = speak_genai(script.ask("How much?").answers("300 euros."), start_ns=NOON_NS).spans
    # Span times, too, show the length of the pause: half a second.
    early = 19 * SECOND_NS + SECOND_NS // 2
    goes_on = [
        replace(item, start_ns=item.start_ns - early, end_ns=item.end_ns - early)
        for item in complete
        if item.trace_id != begun[0].trace_id
    ]
    with running(live_settings(db, **pace), cases=CASES) as (live, addresses):
        export(addresses, begun)
        eventually(lambda: rows(live.engine, "SELECT turn_count FROM conversations"), [(1,)])
        threading.Event().wait(0.8)
        export(addresses, goes_on)
        threading.Event().wait(1.1)  # longer than the idle time since the first, shorter since the second

        assert [(2, None)] == rows(live.engine, "SELECT turn_count, closed_by FROM conversations")
        eventually(lambda: rows(live.engine, "SELECT revision, closed_by FROM conversations"), [(1, "idle")])


@pytest.mark.slow  # from the command line: tests/cli/test_cli_serve.py
def test_commands_go_to_the_collector_that_holds_the_file(settings: Settings, db: Path) -> None:
    with running(settings, cases=CASES) as (live, addresses):
        export(addresses, speak_genai(ask_hotel(), start_ns=just_now()).spans)
        eventually(lambda: len(scores(live)), 1)

        client = open_client(settings, server=None)
        assert isinstance(client, RemoteClient)
        assert 1 == client.call("report")["groups"][0]["n"]
        assert [["conversation-1"]] == client.call("query", sql="SELECT conversation_id FROM conversations")["rows"]
        assert [] == client.call("tools_failing")
        assert ["pass"] == [row["outcome"] for row in client.call("conversations_list", limit=5)]
        displayed = client.call("conversations_show", conversation_id="conversation-1")
        assert "The Ritz." == displayed["conversation"]["turns"][0]["answer"]
        assert [displayed["conversation"]] == list(client.stream("conversations_export"))
        assert 1 == client.call("evaluate", force=True)["scored"]
        assert ["hotel"] == [row["case_id"] for row in client.call("truth_list")]
        assert 1 == client.call("store_summary")["conversations"]
        client.close()

    client = open_client(settings, server=None)
    assert isinstance(client, LocalClient)
    assert [displayed["conversation"]] == list(client.stream("conversations_export"))
    client.close()


@pytest.mark.slow  # from the command line: tests/cli/test_cli_serve.py
def test_an_error_over_there_is_the_same_error_here(settings: Settings) -> None:
    with running(settings):
        for name, arguments, error, message in (
            ("query", {"sql": "DELETE FROM spans"}, QueryError, "DELETE is not allowed"),
            ("conversations_show", {"conversation_id": "x"}, BadInputError, "no conversation 'x'"),
            ("report", {"k": ["many"]}, UsageError, r"command report, argument k\.0: .*got 'many'"),
            ("report", {"kay": 1}, UsageError, "command report, argument kay"),
            ("conversations_list", {"limit": 0}, UsageError, "argument limit"),
            ("vacuum", {}, UsageError, r"unknown command 'vacuum'; allowed: .*\bevaluate, .*\breport\b"),
        ):
            with pytest.raises(error, match=message):
                ask(settings, name, **arguments)


def test_a_token_is_asked_for_where_one_is_set(db: Path) -> None:
    settings = live_settings(db, admin={"address": "127.0.0.1:0", "token": "open-sesame"})
    with running(settings) as (_, addresses):
        assert [] == ask(settings, "conversations_list")
        assert 401 == httpx.get(f"{addresses.admin}/metrics").status_code
        assert 200 == httpx.get(f"{addresses.admin}/healthz").status_code
        with raises(
            UsageError,
            snapshot(
                "send the admin token as one header `Authorization: Bearer …`; set admin.token (OTEL_AGENTIC_ADMIN__TOKEN)"
            ),
        ):
            ask(live_settings(db), "conversations_list")


def test_health_tells_what_is_going_on(db: Path) -> None:
    with running(live_settings(db, **OPEN)) as (_, addresses):
        export(addresses, speak_genai(ask_hotel(), start_ns=just_now()).spans)

        eventually(lambda: ask(live_settings(db), "live")["collector"]["open_conversations"], 1)
        ready = httpx.get(f"{addresses.admin}/readyz")
        assert (200, {"ready": True}) == (ready.status_code, ready.json())


@pytest.mark.slow  # as a process: tests/live/test_live_serve_process.py
def test_a_taken_port_is_named_and_the_store_is_released(settings: Settings, tmp_path: Path) -> None:
    other = tmp_path / "other.duckdb"
    with running(settings) as (_, first):
        for section, url in (("grpc", first.grpc), ("http", first.http), ("admin", first.admin)):
            sampled = (url or "").removeprefix("http://")
            ports: dict[str, Any] = {
                "receive": {"grpc": "127.0.0.1:0", "http": "127.0.0.1:0"},
                "admin": {"address": "127.0.0.1:0"},
            }
            ports["admin" if section == "admin" else "receive"]["address" if section == "admin" else section] = sampled

            second = LiveCollector(live_settings(other, **ports))
            with pytest.raises(UsageError, match=sampled):
                second.start()

            assert find_live_server(other) is None
            Engine(live_settings(other)).close()  # it is released


def test_a_collector_holds_its_file_and_its_server_file_names_it_until_it_stops(settings: Settings, db: Path) -> None:
    with running(settings) as (_, addresses):
        assert addresses == find_live_server(db)
        assert os.getpid() == addresses.pid
        with raises(StoreBusyError, snapshot("open in this process")):
            LiveCollector(settings)

    assert not server_file(db).exists()
    assert [db.name] == [path.name for path in db.parent.iterdir()]


@pytest.mark.parametrize("pid", [2**22 + 1, os.getpid()], ids=["a dead process", "an id that went to another"])
def test_a_file_that_a_killed_collector_left_is_no_collector(settings: Settings, db: Path, pid: int) -> None:
    Engine(settings, create=True).close()
    removed_counts = LiveServer(pid=pid, admin="http://127.0.0.1:9", http=None, grpc=None, started_at="")
    write_server_file(db, removed_counts)

    client = open_client(settings, server=None)

    assert isinstance(client, LocalClient)
    client.close()


@pytest.mark.parametrize("content", [b"", b"[]", b'{"pid": "x"}', b"\xff"])
def test_a_damaged_server_file_names_no_collector(db: Path, content: bytes) -> None:
    server_file(db).write_bytes(content)

    assert find_live_server(db) is None


def test_a_collector_names_what_an_earlier_process_could_not_rebuild(settings: Settings) -> None:
    failure = NotRebuilt(item=("", "c1"), reason="ArithmeticError: unforeseen", first_ns=1, last_ns=2)
    with Engine(settings, create=True) as engine:
        engine.store.write(lambda con: save_not_rebuilt(con, [failure]))

    with running(settings):
        state = ask(settings, "live")["collector"]

    assert ([failure.message, NO_CASES], 1) == (state["problems"], state["not_rebuilt"])
