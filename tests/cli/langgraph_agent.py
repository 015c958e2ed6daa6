"""A LangGraph agent as a newcomer has it: python langgraph_agent.py INSTRUMENTATION VERSION QUERY.

Version 1.1 asks the wrong carrier about parcel Z9 in every second run; a file in the working directory counts the runs.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

INSTRUMENTATION, VERSION, QUERY = sys.argv[1:]


@tool
def track(parcel: str, carrier: str) -> str:
    """Return when a parcel arrives."""
    return f"{carrier}: parcel {parcel} arrives on Monday."


class ScriptedModel(GenericFakeChatModel):
    """Returns its messages in order."""

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:  # noqa: ARG002 — LangChain's signature
        """Return the model: its script decides which tools are called."""
        return self


def runs_so_far() -> int:
    """Count this run, and return the number of runs of this agent with this query before it."""
    counter = Path(f"runs-{INSTRUMENTATION}-{VERSION}-{QUERY.count('Z9')}")
    number = len(counter.read_bytes()) if counter.exists() else 0
    counter.write_bytes(b"." * (number + 1))
    return number


def main() -> None:
    """Answer the query with one tool call."""
    provider = TracerProvider(resource=Resource({"service.name": "parcels", "service.version": VERSION}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    if INSTRUMENTATION == "openinference":
        from openinference.instrumentation.langchain import LangChainInstrumentor  # noqa: PLC0415 — one of two
    else:
        from opentelemetry.instrumentation.genai.langchain import LangChainInstrumentor  # noqa: PLC0415 — same
    LangChainInstrumentor().instrument(tracer_provider=provider)
    parcel = "Z9" if "Z9" in QUERY else "A1"
    is_wrong = VERSION == "1.1" and parcel == "Z9" and runs_so_far() % 2 == 1
    call = {"name": "track", "args": {"parcel": parcel, "carrier": "DHL" if is_wrong else "UPS"}, "id": "call_1"}
    script = [AIMessage("", tool_calls=[call]), AIMessage(f"Parcel {parcel} arrives on Monday.")]
    agent: Any = create_agent(ScriptedModel(messages=iter(script)), [track], name="parcels")
    agent.invoke({"messages": [HumanMessage(QUERY)]}, {"configurable": {"thread_id": "1"}})
    provider.shutdown()


if __name__ == "__main__":
    main()
