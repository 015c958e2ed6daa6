"""The CPU time that a span processor costs on the agent's thread: python -m benchmarks.in_process

Prints, side by side in one run, the cost per span of `AgenticSpanProcessor` on a DuckDB file and of the SDK's
`BatchSpanProcessor` with an OTLP/HTTP exporter to a collector on the same machine, without that of creating a span.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

import otel_agentic
from collectors import AgenticSpanProcessor
from otel_agentic.config import Settings
from otel_agentic.live.collector import LiveCollector

#: Spans of a round, and the pause after it, seconds: an agent waits for its model, and a queue must not fill up.
_SPANS, _PAUSE_S = 400, 0.3
_ATTRIBUTES = {"gen_ai.operation.name": "chat", "gen_ai.input.messages": "x" * 1500}


def cost(processor: SpanProcessor | None, rounds: int) -> float:
    """Return the median CPU time of this thread per span, seconds."""
    provider = TracerProvider(shutdown_on_exit=False)
    if processor is not None:
        provider.add_span_processor(processor)
    tracer = provider.get_tracer("benchmark")
    times = []
    for _ in range(rounds):
        began = time.thread_time()
        for _ in range(_SPANS):
            tracer.start_span("chat", attributes=_ATTRIBUTES).end()
        times.append((time.thread_time() - began) / _SPANS)
        time.sleep(_PAUSE_S)
    provider.shutdown()
    return median(times)


def main() -> None:
    """Measure both processors and print their costs and the ratio."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=20)
    rounds = parser.parse_args().rounds
    with TemporaryDirectory() as folder:
        free = {"grpc": "127.0.0.1:0", "http": "127.0.0.1:0"}
        settings = {
            "store": {"db": Path(folder) / "served.duckdb"},
            "receive": free,
            "admin": {"address": "127.0.0.1:0"},
        }
        live = LiveCollector(Settings.model_validate(settings))
        exporter = OTLPSpanExporter(f"{live.start().http}/v1/traces")
        with otel_agentic.open(Path(folder) / "own.duckdb", create=True) as store:
            bare = cost(None, rounds)
            own = cost(AgenticSpanProcessor(store.sink), rounds) - bare
            batch = cost(BatchSpanProcessor(exporter), rounds) - bare
        live.stop()
    print(f"creating and ending a span          {bare * 1e6:6.2f} us of CPU time")
    print(f"AgenticSpanProcessor adds           {own * 1e6:6.2f} us")
    print(f"BatchSpanProcessor with OTLP adds   {batch * 1e6:6.2f} us, ratio {own / batch:.2f}")


if __name__ == "__main__":
    main()
