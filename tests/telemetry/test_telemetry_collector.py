"""What a real OTLP receiver, and a scrape, get of a collector that ran real conversations."""

from __future__ import annotations

import socket
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from inline_snapshot import snapshot
from opentelemetry.proto.metrics.v1.metrics_pb2 import AGGREGATION_TEMPORALITY_CUMULATIVE

from otel_agentic.telemetry import names
from otel_agentic.telemetry.names import series_names
from tests.builders import ask_hotel, rows
from tests.live.otlp_export import export
from tests.live.running_collector import eventually
from tests.snapshots import opening
from tests.telemetry.attributes import MAY, MUST, SOME
from tests.telemetry.collecting import BAD, GOOD, collecting, converse, ended
from tests.telemetry.receiver.over_grpc import grpc_receiver
from tests.telemetry.receiver.over_http import http_receiver
from tests.telemetry.receiver.received import Received, attributes

if TYPE_CHECKING:
    from otel_agentic.live.collector import LiveCollector
    from otel_agentic.net.server_file import LiveServer

KINDS = {
    "counter": "sum",
    "observable_counter": "sum",
    "observable_up_down_counter": "sum",
    "observable_gauge": "gauge",
    "histogram": "histogram",
}
EVERYTHING = (
    "SELECT (SELECT count(*) FROM spans), (SELECT count(*) FROM log_records), (SELECT count(*) FROM conversations)"
)
ALL = {instrument.name for instrument in names.INSTRUMENTS}


def arrived(received: Received) -> set[str]:
    return set(received.by_name()) if received.metrics else set()


def test_the_table_of_this_test_is_whole() -> None:
    assert set(MUST) == ALL


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """A collector that scored conversations, and what a receiver over HTTP has of it."""

    live: LiveCollector
    server: LiveServer
    received: Received
    began_ns: int


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ran]:
    began_ns, folder = time.time_ns(), tmp_path_factory.mktemp("ran")
    with (
        http_receiver() as receiver,
        collecting(folder, emit={"endpoint": receiver.endpoint, "interval_s": 0.2, "events": "all"}) as (live, server),
    ):
        converse(live, server)
        eventually(lambda: ALL - arrived(receiver.received), set())
        yield Ran(live=live, server=server, received=receiver.received, began_ns=began_ns)


def test_every_instrument_arrives_over_http_as_the_table_says(ran: Ran) -> None:
    with ran.received.lock:
        _assert_as_the_table_says(ran.received, ran.began_ns)


def test_every_instrument_arrives_over_grpc_as_the_table_says(tmp_path: Path) -> None:
    began_ns = time.time_ns()
    with (
        grpc_receiver() as receiver,
        collecting(tmp_path, emit={"endpoint": receiver.endpoint, "protocol": "grpc", "interval_s": 0.2}) as collector,
    ):
        converse(*collector, way="grpc")
        eventually(lambda: ALL - arrived(receiver.received), set())
        with receiver.received.lock:
            _assert_as_the_table_says(receiver.received, began_ns)


def _assert_as_the_table_says(received: Received, began_ns: int) -> None:
    arrived_metrics, now_ns = received.by_name(), time.time_ns()
    for instrument in names.INSTRUMENTS:
        metric = arrived_metrics[instrument.name]
        kind = metric.WhichOneof("data")
        assert (instrument.name, instrument.unit, instrument.description, KINDS[instrument.kind]) == (
            metric.name,
            metric.unit,
            metric.description,
            kind,
        )
        data = getattr(metric, str(kind))
        if kind != "gauge":
            assert data.aggregation_temporality == AGGREGATION_TEMPORALITY_CUMULATIVE
        if kind == "sum":
            assert data.is_monotonic == ("up_down" not in instrument.kind)
        may = MAY | SOME.get(instrument.name, set())
        for point in data.data_points:
            keys = set(attributes(point.attributes))
            assert (instrument.name, MUST[instrument.name] - keys, keys - MUST[instrument.name] - may) == (
                instrument.name,
                set(),
                set(),
            )
            assert began_ns < point.time_unix_nano <= now_ns
            if kind != "gauge":
                assert began_ns < point.start_time_unix_nano <= point.time_unix_nano
        if instrument.bounds is not None:
            assert [tuple(point.explicit_bounds) for point in data.data_points] == [instrument.bounds] * len(
                data.data_points
            )


def test_what_was_counted_is_what_happened(ran: Ran) -> None:
    received = ran.received
    eventually(
        lambda: received.values(
            "agentic.evaluation.conversations", "agentic.outcome", "agentic.revision", "agentic.reason"
        ),
        {
            ("pass", "first", None): 1,
            ("fail", "first", "wrong_answer"): 1,
            ("fail", "first", "tool_fault"): 1,
        },
    )
    assert received.values("agentic.judge.agreement", "agentic.evaluation.target") == {("conversation",): 1.0}
    requests = received.values("agentic.judge.cache.requests", "agentic.result")[("miss",)]
    cost = received.values("agentic.judge.cost", "agentic.evaluator", "gen_ai.request.model")
    assert cost == {("paid", "gpt-5-mini"): pytest.approx(0.002 * requests)}

    def stages() -> dict[str, int]:
        points = received.points("agentic.evaluation.delay")
        return {labels["agentic.stage"]: point.count for labels, point in points}

    eventually(stages, {"assembled": 3, "scored": 3, "window": 3})


def test_events_name_the_evaluation_the_thresholds_and_the_judge(ran: Ran) -> None:
    ((evaluation_id, threshold),) = rows(
        ran.live.engine, "SELECT evaluation_id, settings->>'answer_threshold' FROM evaluations WHERE evaluator IS NULL"
    )
    eventually(lambda: len({event["gen_ai.conversation.id"] for event, _ in ran.received.events()}), 3)
    events = [event for event, _ in ran.received.events()]
    of_metrics = [event for event in events if event["agentic.evaluator"] != "core"]
    assert {event["agentic.trigger"] for event in events} == {"online"}
    assert {event["gen_ai.evaluation.name"].split(".")[0] for event in of_metrics} == {"agentic"}
    assert {event["agentic.evaluator.version"] for event in events if event not in of_metrics} == {evaluation_id}
    answers = {
        event["gen_ai.conversation.id"]: event
        for event in events
        if event["gen_ai.evaluation.name"] == "agentic.answer"
    }
    assert {event["agentic.evaluator.type"] for event in answers.values()} == {"judge"}
    assert {event["agentic.evaluation.threshold"] for event in answers.values()} == {float(threshold)}
    labels = {name: event["gen_ai.evaluation.score.label"] for name, event in answers.items()}
    assert (labels[GOOD], labels[BAD]) == ("pass", "fail")


def test_each_score_is_one_event_with_the_id_evaluator_and_version_of_its_row(ran: Ran) -> None:
    sql = """
    SELECT score_id, name, value, evaluator, evaluator_version, conversation_id FROM scores
    WHERE (evaluator = 'core' OR reason IS NULL) AND NOT superseded
        -- The criteria and the overall scores of tools have no events.
        AND NOT (target = 'conversation' AND name IN ('agentic.answer', 'agentic.tools')) AND name <> 'agentic.tool.overall'
    """
    stored = {score_id: tuple(row) for score_id, *row in rows(ran.live.engine, sql)}
    assert {"agentic.conversation", "agentic.answer", "agentic.tool.selection", "agentic.tool.call"} <= {
        name for name, *_ in stored.values()
    }

    def emitted() -> dict[str, Any]:
        return {
            event["agentic.evaluation.id"]: (
                event["gen_ai.evaluation.name"],
                event.get("gen_ai.evaluation.score.value"),
                event["agentic.evaluator"],
                event["agentic.evaluator.version"],
                event["gen_ai.conversation.id"],
            )
            for event, _ in ran.received.events()
        }

    eventually(emitted, stored)
    assert {record.trace_id != b"" for _, record in ran.received.events()} == {True}


def test_scores_and_abstentions_of_metrics_are_counted_once_each(ran: Ran) -> None:
    sql = "SELECT name, reason, count(*)::INTEGER FROM scores WHERE evaluator <> 'core' AND NOT superseded GROUP BY ALL"
    stored = {(name, reason): count for name, reason, count in rows(ran.live.engine, sql)}

    def counted() -> dict[Any, int]:
        counts: Counter[Any] = Counter()
        for attributes_of, point in ran.received.points("agentic.metric.results"):
            counts[attributes_of["gen_ai.evaluation.name"], attributes_of.get("agentic.reason")] += point.as_int
        return dict(counts)

    eventually(counted, stored)


def test_a_score_that_misses_the_threshold_of_the_settings_counts_as_a_failure(ran: Ran) -> None:
    counted = ran.received.values(
        "agentic.metric.results", "gen_ai.evaluation.name", "agentic.outcome", "agentic.severity"
    )
    name = "agentic.layers.tool_f1"
    assert (counted[name, "fail", "medium"], counted[name, "pass", None]) == (1, 2)


def test_a_case_with_a_threshold_of_its_own_has_it_on_its_events(tmp_path: Path) -> None:
    case = (
        '{"case_id": "strict", "answer_threshold": 0.95, "turns": [{"query": "Which hotel?", "answer": "The Ritz."}]}'
    )
    with (
        http_receiver() as receiver,
        collecting(tmp_path, emit={"endpoint": receiver.endpoint, "interval_s": 0.2}) as (live, server),
    ):
        labels = "conversation_id,case_id\nstrict-one,strict\n"
        live.run("truth_import", {"cases": [("strict.jsonl", case)], "labels": [("labels.csv", labels)]})
        export(server, ended(ask_hotel("strict-one")))

        def thresholds() -> set[Any]:
            return {
                event.get("agentic.evaluation.threshold")
                for event, _ in receiver.received.events()
                if event["gen_ai.evaluation.name"] == "agentic.answer"
            }

        eventually(thresholds, {0.95})


def test_a_scrape_has_every_series_in_both_formats(ran: Ran) -> None:
    expected = {name for instrument in names.INSTRUMENTS for name in series_names(instrument)}

    def scraped(accept: str) -> httpx.Response:
        return httpx.get(f"{ran.server.admin}/metrics", headers={"Accept": accept}, trust_env=False)

    def missing(text: str) -> set[str]:
        lines = [line for line in text.splitlines() if not line.startswith("#")]
        return expected - {line.partition("{")[0].partition(" ")[0] for line in lines}

    assert missing(scraped("text/plain").text) == set()
    answer = scraped("application/openmetrics-text;version=1.0.0")
    assert missing(answer.text) == set()
    assert opening(answer.headers["content-type"]) == snapshot(
        "application/openmetrics-text; version=1.0.0; charset=utf-8"
    )
    assert '# {span_id="' in answer.text


def test_what_we_emit_into_our_own_collector_is_ignored_there(tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    ways = {"receive": {"http": address, "grpc": "127.0.0.1:0"}}
    with collecting(tmp_path, **ways, emit={"endpoint": f"http://{address}", "interval_s": 60, "timeout_s": 0.5}) as (
        live,
        server,
    ):
        converse(live, server)
        stored = rows(live.engine, EVERYTHING)
        assert not live.telemetry.force_flush(5.0)  # the events are taken and left aside, metrics have no way in
        eventually(lambda: "own telemetry" in live.run("live", {})["collector"]["reasons"], expected=True)
        assert rows(live.engine, EVERYTHING) == stored
        assert stored[0][1] == 0
