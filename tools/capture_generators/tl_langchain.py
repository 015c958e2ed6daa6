# mypy: ignore-errors
# (the frameworks are installed where captures are made, not here)
# needs: langchain==1.4.7 langchain-core==1.7.2 langchain-openai==1.7.3 langgraph==1.2.22
# needs: traceloop-sdk==0.62.4 opentelemetry-instrumentation-langchain==0.62.4
# needs: opentelemetry-sdk==1.45.1 opentelemetry-exporter-otlp-proto-http==1.45.1 httpx
"""LangChain under OpenLLMetry: threads and a sub-agent without the SDK, a streaming graph with it, no thread at all."""

from __future__ import annotations

from tools.capture_generators.oi_langgraph import DELEGATED, state_graph, with_sub_agent, without_thread
from tools.capture_generators.oi_play import HIDDEN, Plan, hiding, instrumented, record
from tools.capture_generators.story import STORY
from tools.capture_generators.tl_play import associated, traceloop


def main() -> None:
    """Record the captures. Every graph node is a span with the whole history in it: parts of the story do."""
    alone = instrumented("opentelemetry.instrumentation.langchain:LangchainInstrumentor")
    sdk = traceloop("LANGCHAIN")
    record(Plan("openllmetry-langgraph-thread", alone, with_sub_agent, (STORY[2], DELEGATED)), framework="langgraph")
    record(Plan("openllmetry-langgraph-stream", sdk, associated(state_graph, "chat_id")), framework="langgraph")
    quiet = hiding(alone, TRACELOOP_TRACE_CONTENT="false")
    record(
        Plan("openllmetry-langgraph-nocontent", quiet, with_sub_agent, (STORY[1], DELEGATED)),
        framework="langgraph",
        not_in_data=list(HIDDEN),
    )
    record(
        Plan("openllmetry-langchain-bare", alone, without_thread, STORY[:2]),
        framework="langchain",
        id_in_telemetry=False,
    )


if __name__ == "__main__":
    main()
