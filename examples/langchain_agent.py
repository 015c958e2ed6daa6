"""Instrument a LangChain agent, export its spans over OTLP, and show the conversation that is rebuilt from them.

    python langchain_agent.py                                  # starts its own collector on free ports
    python langchain_agent.py --endpoint http://127.0.0.1:4318  # sends to yours (`otel-agentic serve`)

Needs `pip install 'otel-agentic[demo]'`. The model is scripted, so nothing leaves this machine.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool
from openinference.instrumentation.langchain import LangChainInstrumentor
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from otel_agentic import LiveCollector, load_settings

CONVERSATION = "dinner-42"
LONGEST_S = 30.0


class ScriptedModel(GenericFakeChatModel):
    """Replaces your chat model and returns scripted messages."""

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:  # noqa: ARG002 — LangChain's signature
        """Accept tools, as every real model does."""
        return self


@tool
def find_table(guests: int, time: str) -> dict[str, Any]:
    """Find a free table."""
    return {"table": 7, "guests": guests, "time": time}


def run_agent(endpoint: str) -> None:
    """Run an instrumented agent. Your own agent needs only the same four lines of OpenTelemetry."""
    resource = Resource.create({"service.name": "restaurant", "service.version": "2.1.0"})
    provider = TracerProvider(resource=resource)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=f"{endpoint}/v1/traces")))
    LangChainInstrumentor().instrument(tracer_provider=provider)

    call = {"name": "find_table", "args": {"guests": 2, "time": "19:30"}, "id": "call_1"}
    replies = [AIMessage("", tool_calls=[call]), AIMessage("Table 7 is yours at 19:30.")]
    agent = create_agent(ScriptedModel(messages=iter(replies)), [find_table], name="host")
    # The thread id becomes the conversation id: the turns of one chat share it.
    query = HumanMessage("A table for two at 19:30, please.")
    agent.invoke({"messages": [query]}, {"configurable": {"thread_id": CONVERSATION}})
    provider.shutdown()  # sends the spans that are still queued


def run_with_own_collector(folder: Path) -> None:
    """Start a collector, run the agent, and print what the collector rebuilt."""
    settings = load_settings(
        store={"db": folder / "example.duckdb"},
        receive={"http": "127.0.0.1:0", "grpc": "127.0.0.1:0"},
        admin={"address": "127.0.0.1:0"},
        conversations={"turn_idle_s": 0.5, "idle_s": 1},  # in production: one minute and half an hour
    )
    collector = LiveCollector(settings)
    addresses = collector.start()
    try:
        run_agent(str(addresses.http))
        until = time.monotonic() + LONGEST_S
        while time.monotonic() < until and not any(row["closed_by"] for row in collector.run("conversations_list", {})):
            time.sleep(0.1)
        conversation = collector.run("conversations_show", {"conversation_id": CONVERSATION})
    finally:
        collector.stop()
    print_conversation(conversation["conversation"])


def print_conversation(conversation: dict[str, Any]) -> None:
    """Print a conversation turn by turn."""
    print(f"{conversation['agent_name']} {conversation['agent_version']}, {conversation['conversation_id']}")
    for turn in conversation["turns"]:
        print(f"  user:  {turn['query']}")
        for call in turn["tools"]:
            print(f"  tool:  {call['name']} {json.dumps(call['arguments'])} -> {json.dumps(call['result'])}")
        print(f"  agent: {turn['answer']}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--endpoint", help="OTLP/HTTP address of a running collector, such as http://127.0.0.1:4318")
    options = parser.parse_args()
    if options.endpoint:
        run_agent(options.endpoint)
        print(f"sent; now try: otel-agentic conversations show {CONVERSATION}")
    else:
        with tempfile.TemporaryDirectory() as folder:
            run_with_own_collector(Path(folder))
