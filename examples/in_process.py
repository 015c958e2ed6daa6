"""Collect the spans of this process without a network, with a span processor that writes to a DuckDB file.

    python in_process.py

Use this for tests, notebooks and batch jobs. The agent is instrumented by hand with the OpenTelemetry API; with an
instrumented framework, the rest stays the same.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

import otel_agentic
from collectors import AgenticSpanProcessor


def answer(tracer: trace.Tracer, conversation_id: str, query: str) -> str:
    """Answer a question as an agent, with spans that follow the GenAI semantic conventions."""
    with tracer.start_as_current_span("invoke_agent adder") as run:
        run.set_attribute("gen_ai.operation.name", "invoke_agent")
        run.set_attribute("gen_ai.agent.name", "adder")
        run.set_attribute("gen_ai.conversation.id", conversation_id)
        run.set_attribute("gen_ai.input.messages", message("user", query))
        with tracer.start_as_current_span("execute_tool add") as call:
            numbers = [int(token) for token in query.split() if token.isdecimal()]
            call.set_attribute("gen_ai.operation.name", "execute_tool")
            call.set_attribute("gen_ai.tool.name", "add")
            call.set_attribute("gen_ai.tool.call.arguments", json.dumps({"numbers": numbers}))
            call.set_attribute("gen_ai.tool.call.result", json.dumps(sum(numbers)))
        text = f"That makes {sum(numbers)}."
        run.set_attribute("gen_ai.output.messages", message("assistant", text))
    return text


def message(role: str, text: str) -> str:
    """Return one message as JSON text."""
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": text}]}])


def main(folder: Path) -> None:
    """Run the agent and show the collected conversations."""
    with otel_agentic.open(folder / "example.duckdb", create=True) as store:
        provider = TracerProvider()
        provider.add_span_processor(AgenticSpanProcessor(store.sink))
        trace.set_tracer_provider(provider)
        tracer = trace.get_tracer("example")
        answer(tracer, "sums-1", "What is 2 plus 3 ?")
        answer(tracer, "sums-1", "And 40 plus 2 ?")
        provider.shutdown()  # returns when every span is in the file

        store.rebuild()  # spans -> conversations; this is the end of the input
        conversation = store.conversation("sums-1").conversation
    print(f"{conversation.agent_name}, {conversation.conversation_id}: {len(conversation.turns)} turns")
    for turn in conversation.turns:
        (call,) = turn.tools
        print(f"  {turn.query} -> {call.name} {json.dumps(call.arguments)} -> {turn.answer}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        main(Path(temporary))
