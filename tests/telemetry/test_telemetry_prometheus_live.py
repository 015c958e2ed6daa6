"""A real Prometheus scrapes a real collector and answers everything that we ship."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from prometheus_client.parser import text_string_to_metric_families

from otel_agentic.config import Objective
from otel_agentic.telemetry import names
from otel_agentic.telemetry.alerts import rules_text
from otel_agentic.telemetry.events import ConversationResult
from otel_agentic.telemetry.names import series_names
from otel_agentic.windows.model import GroupKey
from tests.live.running_collector import eventually
from tests.telemetry.builders import conversation, failing_score, window_point
from tests.telemetry.collecting import collecting, converse
from tests.telemetry.dashboards import filled, targets
from tests.telemetry.prometheus import Prometheus, needs_prometheus, prometheus

if TYPE_CHECKING:
    from otel_agentic.live.collector import LiveCollector
    from tests.telemetry.conftest import MakeTelemetry

pytestmark = [pytest.mark.slow, needs_prometheus]

#: What begins to be there only with a second scrape.
OURS = {name for instrument in names.INSTRUMENTS for name in series_names(instrument)}
#: Series that differ between two scrapes, because time passes.
RESTLESS = ("agentic_ingest_", "agentic_evaluation_delay", "agentic_window_conversations")


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LiveCollector, Prometheus]]:
    """A collector that scored conversations, and a Prometheus that has all of it."""
    folder = tmp_path_factory.mktemp("watched")
    rules = folder / "rules.yml"
    rules.write_text(rules_text((Objective(k=1, target=0.9),), ("1h", "24h")))
    with collecting(folder) as (live, collector):
        converse(live, collector)
        with prometheus(folder, scrape=collector.admin, rules=rules) as server:
            eventually(lambda: OURS - names_in(server), set(), timeout_s=60)
            yield live, server


def names_in(server: Prometheus) -> set[str]:
    return set(server.ask("label/__name__/values"))


def test_it_has_every_series_of_the_table_with_the_values_of_the_scrape(
    watched: tuple[LiveCollector, Prometheus],
) -> None:
    live, server = watched
    assert server.query("up") == [({"__name__": "up", "instance": _instance(server), "job": "otel-agentic"}, 1.0)]

    def scraped() -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
        families = text_string_to_metric_families(live.metrics()[1].decode())
        return {
            (sample.name, frozenset((key, value) for key, value in sample.labels.items() if value)): sample.value
            for family in families
            for sample in family.samples
            if sample.name in OURS and not sample.name.startswith(RESTLESS)
        }

    def stored() -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
        series = server.query('{__name__=~"agentic_.*"}')
        return {
            (labels["__name__"], frozenset(_own(labels))): value
            for labels, value in series
            if labels["__name__"] in OURS and not labels["__name__"].startswith(RESTLESS)
        }

    eventually(lambda: scraped() == stored(), expected=True, timeout_s=30)
    assert len(stored()) > 50


def test_it_answers_every_query_of_the_dashboard(watched: tuple[LiveCollector, Prometheus]) -> None:
    _, server = watched

    def silent() -> set[str]:
        return {title for title, target in targets() if not server.query(filled(target["expr"]))}

    eventually(silent, set(), timeout_s=30)  # rates need two scrapes apart in time
    answers = [value for _, target in targets() for _, value in server.query(filled(target["expr"]))]
    assert [value for value in answers if math.isinf(value)] == []


def test_its_rules_are_evaluated_without_an_error_and_record_what_they_should(
    watched: tuple[LiveCollector, Prometheus],
) -> None:
    _, server = watched
    eventually(lambda: len(server.query("agentic:window_conversations:pass_rate")) >= 2, expected=True, timeout_s=30)
    eventually(lambda: {rule["health"] for rule in _rules(server)}, {"ok"}, timeout_s=30)
    assert {rule.get("lastError", "") for rule in _rules(server)} == {""}
    (rate,) = server.query('agentic:window_conversations:pass_rate{agentic_window="24h"}')
    assert rate[1] == pytest.approx(2 / 3)
    (burn,) = server.query('agentic:error_budget:burn_rate{agentic_window="24h"}')
    assert burn[1] == pytest.approx((1 - 2 / 3) / 0.1)


def test_its_exemplars_lead_to_the_traces_of_the_judged_conversations(
    watched: tuple[LiveCollector, Prometheus],
) -> None:
    live, server = watched
    with live.engine.store.read() as con:
        traces = {trace_id for (trace_id,) in con.execute("SELECT DISTINCT trace_id FROM turns").fetchall()}

    def trace_ids(metric: str) -> set[str]:
        series = server.ask("query_exemplars", query=metric, start="0", end="9999999999")
        return {exemplar["labels"]["trace_id"] for entry in series for exemplar in entry["exemplars"]}

    eventually(lambda: bool(trace_ids("agentic_evaluation_conversations_total")), expected=True, timeout_s=30)
    assert trace_ids("agentic_evaluation_conversations_total") <= traces
    assert trace_ids("agentic_evaluation_score_bucket") <= traces


HOSTILE = ["nul \0 byte", 'a"} 1 2\n# EOF\n', "\\n\\", "\r\n", "\x1b[31m", "\u2028", "\ufeff", "\x85", "\ud800", "\t"]


class Handler(BaseHTTPRequestHandler):
    """Serves the telemetry of its server, as the admin address does."""

    def do_GET(self) -> None:
        content_type, body = self.server.telemetry.render(self.headers["Accept"])  # type: ignore[attr-defined]  # set below
        self.send_response(200)
        self.send_header("Content-Type", content_type)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 — http.server's signature
        """Stay silent."""


def test_hostile_names_break_no_scrape(tmp_path: Path, make_telemetry: MakeTelemetry) -> None:
    telemetry = make_telemetry()
    telemetry.set_windows([window_point(key=GroupKey(agent=name)) for name in HOSTILE])
    for name in HOSTILE:
        telemetry.record_scores([ConversationResult(conversation(agent_name=name), failing_score())])
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.telemetry = telemetry  # type: ignore[attr-defined]  # what the handler serves
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    try:
        with prometheus(tmp_path, scrape=f"http://127.0.0.1:{server.server_port}") as scraping:
            expected = sorted(name.replace("\ud800", "?") for name in HOSTILE)
            eventually(lambda: scraping.ask("label/gen_ai_agent_name/values"), expected, timeout_s=30)
            assert [value for _, value in scraping.query("up")] == [1.0]
    finally:
        server.shutdown()
        server.server_close()


def _own(labels: dict[str, str]) -> list[tuple[str, str]]:
    return [(key, value) for key, value in labels.items() if key not in {"__name__", "instance", "job"}]


def _instance(server: Prometheus) -> str:
    ((labels, _),) = server.query("up")
    return labels["instance"]


def _rules(server: Prometheus) -> list[dict[str, str]]:
    return [rule for group in server.ask("rules")["groups"] for rule in group["rules"]]
