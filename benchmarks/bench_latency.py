"""Measure the latency from the last span of a conversation to its data point on `/metrics`, with timers off.

Exporter, collector and scrapes are real. Latency is elapsed time. The CPU time of the process, which contains sender, collector
and scraper, is printed alongside.
"""

from __future__ import annotations

import statistics
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from benchmarks.cpu_time import timed
from otel_agentic.config import Settings
from otel_agentic.live.collector import LiveCollector

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

    from otel_agentic.net.server_file import LiveServer
    from otel_agentic.telemetry.gauges import WindowPoints

CONVERSATIONS: Final = 65
WARM_UP: Final = 5
#: Timers are off: a conversation closes with its last span. Widths, step and estimators have default values.
SETTINGS: Final[dict[str, Any]] = {
    "conversations": {"turn_idle_s": 0.001, "idle_s": 0.001, "idle_without_id_s": 0.001},
    "receive": {"grpc": "127.0.0.1:0", "http": "127.0.0.1:0"},
    "admin": {"address": "127.0.0.1:0"},
}
CASE: Final = (
    '{"case_id": "hotel", "turns": [{"query": "Which hotel?", "answer": "The Ritz.", '
    '"tools": {"calls": [{"tool_name": "search", "parameters": {"q": "hotels"}}]}}]}'
)
_LABELS: Final = ('agentic_outcome="pass"', 'agentic_window="24h"')
_PATIENCE_S: Final = 20.0
#: Pause between conversations, so that the work after setting the gauges can finish.
_APART_S: Final = 0.25
#: Median duration of each stage (receive, rebuild, score) in ms.
_STATIONS: Final = """
SELECT
    quantile_cont(epoch_ns(s.received_at) - epoch_ns(c.ended_at), 0.5) / 1e6,
    quantile_cont(epoch_ns(c.built_at) - epoch_ns(s.received_at), 0.5) / 1e6,
    quantile_cont(epoch_ns(r.scored_at) - epoch_ns(c.built_at), 0.5) / 1e6
FROM conversations c
JOIN conversation_scores r USING (environment, conversation_id, revision)
JOIN (
    SELECT l.conversation_id, max(received_at) AS received_at FROM spans JOIN trace_links l USING (trace_id) GROUP BY ALL
) s USING (conversation_id)
WHERE NOT c.superseded
"""


def main() -> None:
    """Time conversations one after the other, without the warm-up conversations."""
    with tempfile.TemporaryDirectory() as folder:
        live = LiveCollector(Settings.model_validate({**SETTINGS, "store": {"db": Path(folder) / "b.duckdb"}}))
        try:
            live.run("truth_import", {"cases": [("cases.jsonl", CASE)]})
            updated = _updated_event(live)
            with timed() as timer:
                took_ms = _all(live.start(), updated)[WARM_UP:]
            with live.engine.store.read() as con:
                (stations,) = con.execute(_STATIONS).fetchall()
        finally:
            live.stop()
    deciles = statistics.quantiles(took_ms, n=10)
    print(
        f"{len(took_ms)} conversations, last span's end to data point: median {deciles[4]:.0f} ms, "
        f"p90 {deciles[8]:.0f} ms, longest {max(took_ms):.0f} ms; {1e3 * timer.cpu_s / CONVERSATIONS:.0f} ms CPU a conversation"
    )
    for name, took in zip(("stored", "rebuilt", "scored"), stations, strict=True):
        print(f"  until {name:8} {took:5.0f} ms more (median)")
    print(f"  until scraped  {deciles[4] - sum(stations):5.0f} ms more")


def _updated_event(live: LiveCollector) -> threading.Event:
    """Return an event that is set whenever gauges change; continuous scraping would slow down the collector."""
    updated = threading.Event()
    set_windows = live.telemetry.set_windows

    def set_and_signal(points: WindowPoints) -> None:
        set_windows(points)
        updated.set()

    live.telemetry.set_windows = set_and_signal  # type: ignore[method-assign]  # a benchmark hook
    return updated


def _all(server: LiveServer, updated: threading.Event) -> list[float]:
    """Return the latency of each conversation in milliseconds; the conversations run one after the other."""
    provider = TracerProvider(resource=Resource({"service.name": "concierge"}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(f"{server.http}/v1/traces")))
    tracer = provider.get_tracer("benchmark")
    try:
        return [
            _latency_ms(provider, tracer, partial(_scraped, server), updated, number) for number in range(CONVERSATIONS)
        ]
    finally:
        provider.shutdown()


def _latency_ms(
    provider: TracerProvider, tracer: Tracer, scraped: Callable[[], float], updated: threading.Event, number: int
) -> float:
    """Return the milliseconds from the last span's end of one conversation to the end of the scrape that counts it."""
    time.sleep(_APART_S)
    updated.clear()
    _converse(tracer, f"conversation-{number}")
    ended = time.perf_counter()
    provider.force_flush()
    while updated.wait(_PATIENCE_S):
        updated.clear()
        if scraped() > number:
            return 1e3 * (time.perf_counter() - ended)
    raise RuntimeError(f"conversation {number} is not on /metrics after {_PATIENCE_S:.0f} s")


def _converse(tracer: Tracer, conversation_id: str) -> None:
    """Run an agent: one query, one tool call, one answer."""
    run = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "travel",
        "gen_ai.conversation.id": conversation_id,
        "gen_ai.input.messages": '[{"role":"user","parts":[{"type":"text","content":"Which hotel?"}]}]',
        "gen_ai.output.messages": '[{"role":"assistant","parts":[{"type":"text","content":"The Ritz."}]}]',
    }
    call = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "search",
        "gen_ai.tool.call.id": "call-1",
        "gen_ai.tool.call.arguments": '{"q":"hotels"}',
        "gen_ai.tool.call.result": '["Ritz"]',
    }
    with (
        tracer.start_as_current_span("invoke_agent travel", attributes=run),
        tracer.start_as_current_span("execute_tool search", attributes=call),
    ):
        pass


def _scraped(server: LiveServer) -> float:
    """Return the number of passed conversations in the 24 h window, from `/metrics`."""
    with urllib.request.urlopen(f"{server.admin}/metrics") as reply:  # noqa: S310 — our own address
        text = reply.read().decode()
    return sum(
        float(line.rsplit(" ", 1)[1])
        for line in text.splitlines()
        if line.startswith("agentic_window_conversations{") and all(label in line for label in _LABELS)
    )


if __name__ == "__main__":
    main()
