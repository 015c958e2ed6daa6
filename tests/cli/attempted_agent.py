"""An agent's program for tests of `run`: it behaves as its query demands, and always uses the same conversation id, or none."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

ANSWERS = {"wrong": "I do not know."}


def message(role: str, text: str) -> str:
    """Return a list of one message in the form of the GenAI conventions."""
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": text}]}])


def answer_all(queries: list[str], conversation_id: str | None) -> None:
    """Answer queries, each in a trace of its own; the resource ignores the environment, as many quick starts do."""
    provider = TracerProvider(resource=Resource(attributes={"service.name": "parcels", "service.version": "1.0"}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    tracer = provider.get_tracer("acme.agent")
    for query in queries:
        attributes = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": "parcels",
            "gen_ai.input.messages": message("user", query),
            "gen_ai.output.messages": message("assistant", ANSWERS.get(query, "It arrives on Monday.")),
        }
        own = {} if conversation_id is None else {"gen_ai.conversation.id": conversation_id}
        tracer.start_span("invoke_agent parcels", attributes=attributes | own).end()
    provider.shutdown()


def meet(count: int) -> None:
    """Wait until this many programs are here at the same time."""
    Path(f"{os.getpid()}.here").touch()
    while len(list(Path().glob("*.here"))) < count:
        time.sleep(0.01)


def main() -> None:
    """Behave as the query demands; with `all`, answer the queries of the case."""
    query = sys.argv[1]
    if query == "crash":
        sys.exit("no connection to the database")
    if query == "sleep":
        time.sleep(60)
    if query == "meet":
        meet(3)
    if query == "fork":
        # A child that ignores the request to end.
        sleeper = (
            "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(60)"
        )
        child = subprocess.Popen([sys.executable, "-c", sleeper], stdout=subprocess.PIPE)
        assert child.stdout is not None
        child.stdout.readline()
        path = Path(f"{os.getpid()}.pids")
        path.with_suffix(".new").write_text(f"{os.getpid()} {child.pid}")
        path.with_suffix(".new").rename(path)
        time.sleep(60)
    if query == "all":
        case = json.loads(os.environ["OTEL_AGENTIC_CASE"])
        answer_all([turn["query"] for turn in case["turns"]], None)
    elif query != "silent":
        answer_all([query], "1")
    if query == "late crash":
        sys.exit(7)


if __name__ == "__main__":
    main()
